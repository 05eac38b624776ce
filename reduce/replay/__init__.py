"""Runs a build directory again with the toolchain that made it.

`toolchain` is what runs it, anew or as a fork, `replay` runs the whole build, and `task_replay` runs one task alone.
"""
