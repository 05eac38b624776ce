"""A case of the stack: what is run, with which data, and what it reports.

`case` finds the case at a commit and freezes its data, and `preflight` says what it would lack. `shim` and
`replay_case` run inside the case's process, where they import nothing of ours.
"""
