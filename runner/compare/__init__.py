"""Compares two tensors, or two folders of them. It decides whether they are equal, and recognizes how they differ.

- `sources` lists the tensors on either side.
- `elements`, `loops` and `statistics` measure errors.
- `judges` decides what is equal, and asks which patterns fit.
- `finding` defines a pattern and its confidence. `numeric_patterns`, `reduction_patterns` and `spatial_patterns`
  recognize them: rounding, lost tails, wrong layouts.
- `diff_report` prints and draws the result. `diff_cli` and `diff_command` are the command `diff-tensors`.

Begin with `judges`.
"""
