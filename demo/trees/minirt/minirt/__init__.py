"""Runs build directories: compiles what is stale, loads it, executes its task graph."""

from . import binaries, executor

__all__ = ["binaries", "executor"]
