"""Runs one case at given commits of all repositories, and says what it showed.

- `workspace` has the folders in which commits are checked out, and `case` what is run in them. `probe` builds and runs
  it.
- `process` runs a command, `verdict` reads its output, and `compare` compares tensors.
- `build_output` reads what a build and its run leave. `farm` makes probes on other machines.
- `stack` describes repositories, steps and rules of a stack file; `settings` reads it. `git` and `pins` read histories.

Begin with `probe/probe.py`.
"""
