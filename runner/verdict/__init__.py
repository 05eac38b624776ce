"""Reads what a run's output means.

`rules` are a stack's own, and `classify` applies them. `symptoms` reads the errors and test counts of any command, with
`failure_details`. `likeness` says how probable it is that two failures are one. Begin with `classify`.
"""
