"""Makes a failing build small: fewest tasks, smallest kernels, plain data, and still the same failure.

Begin with `shrinker`, which repeats the search until nothing more can be dropped. The other modules are:

- `program` is the build as a value, `extract` makes it from a recorded run, and `cut` takes tasks out.
- `edits` holds all changes that are tried, and `minimize` the algorithms that choose among them.
- `oracle` runs a candidate.
- `program_text` and `reproducer` write what is left, and `result` reports it.
"""
