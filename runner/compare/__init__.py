"""Compares two tensors, or two folders of them: are they equal, and if not, what kind of wrong is it.

Begin with `judges`.

- `sources` reads either side.
- `elements`, `loops` and `statistics` measure.
- `numeric_patterns`, `reduction_patterns` and `spatial_patterns` recognize what is wrong: rounding, tails, layout,
  reductions.
- `judges` decides what passes, and weighs the patterns.
- `finding` defines a pattern that fits, and how sure it is.
- `diff_report` shows the result, and draws it.
- `diff_cli` and `diff_command` are the command `diff-tensors`.
"""
