"""Runs a build directory again with the toolchain that made it.

`toolchain` is what runs it, `replay` runs the whole build, and `task_replay` runs one task alone.
"""
