"""A case of the stack: the script that is run, its data, and what it reports.

`case` makes the command of a case and freezes its data. `preflight` finds out what a case lacks before it runs. `shim`
and `replay_case` run inside the case's process, where they import nothing of ours.
"""
