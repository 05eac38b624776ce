"""Checks what a person asked before anything runs.

`question` holds what was asked, and what the store keeps of it. `prepare` checks it against the checkouts and makes a
plan: the stack, the range of commits, the case, and what counts as bad. `ends` resolves the good and the bad commit.
`predicate` reads a command behind `--`. `earlier_runs` finds runs of the store that answer the same question. Begin
with `prepare`.
"""
