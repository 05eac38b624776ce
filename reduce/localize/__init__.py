"""Finds what makes a build fail, and where it first goes wrong.

The search puts changes of the failing build into the good one until the smallest sets that fail are known. Then it
follows each set to a kernel, a task and a tensor. Begin with `investigate`, which leads through all steps.

- `failure` finds the wrong outputs of a run, and `reference` has the expected values of tasks.
- `changes` lists the changes between two builds, and `causes` finds those that make the failure.
- `first_divergence` finds the first divergent tasks, and `attribute` the source of a task's error.
- `footprints` finds tasks that touch undeclared memory, and `orders` tries other orders of tasks.
- `endings` examines builds that stall or crash.
- `experiments` runs builds, `document` makes the result, and `localization_text` shows it.
"""
