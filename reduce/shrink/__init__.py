"""Makes a failing build small: fewest tasks, smallest kernels, plain data, and still the same failure.

Begin with `result`, which leads through all steps.

- `extract` records a run and makes its `program`, and `cut` takes tasks out of a program.
- `edits` has the kinds of edits that make a program smaller, and `minimize` the searches that they share.
- `oracle` makes a candidate's builds and judges them, and `shrinker` is the loop that asks it.
- `program_text` writes a program as sources, and `reproducer` the result folder.
"""
