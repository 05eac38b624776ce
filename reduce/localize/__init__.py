"""Where a failing build first goes wrong.

The search puts parts of the failing build into the good one until the least set that fails is known. Then it follows
that set to a kernel, a task and a tensor. Begin with `investigate`, which leads through all steps.

- `failure` says which outputs are wrong, and `reference` what the values should be.
- `changes` lists what differs between two builds, and `causes` finds which of it makes the failure.
- `first_divergence` compares dumps, and `attribute` says where the error in a task comes from.
- `footprints` says which task writes memory that it should not, and `orders` tries other orders of tasks.
- `endings` treats builds that stall or crash.
- `experiments` runs the variants, `document` keeps the result, and `localization_text` shows it.
"""
