"""Decides what the output of a run means.

- `rules` defines a stack's own rules, and how a process ends. `classify` applies the rules and gives the verdict.
- `symptoms` reads the errors that a run of any command prints. `likeness` compares the symptoms of two runs.
- `output_lines` has what both readers need: plain text, tracebacks, counts of tests.

Begin with `classify`.
"""
