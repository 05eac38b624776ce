"""Checks what a person asked before anything runs.

`typed_question` makes a question of typed options. `prepare` checks a question against the checkouts and makes a plan.
`question` holds what the store keeps of a question. `ends` resolves the good and the bad commit, and `predicate` reads
a command behind `--`. `earlier_runs` reads stored runs, and what they say of the case already. Begin with `prepare`.
"""
