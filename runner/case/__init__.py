"""A case of the stack: what is run, with which data, and what it reports.

`case` finds the case at a commit, `preflight` says what it would lack, and `golden_data` freezes its inputs. `shim` and
`replay_case` run inside the case's process, where they import nothing of ours.
"""
