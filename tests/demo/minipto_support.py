"""Copies of the compiler and case trees, and their cases run as users run them."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from tests.demo.minirt_support import built_tree, minirt

TREES = Path(__file__).resolve().parents[2] / "demo" / "trees"
CASES = (
    "elementwise_chain",
    "softmax",
    "rms_norm",
    "matmul_splitk",
    "attention_decode",
    "quant_matmul",
)


@functools.cache
def trees() -> Path:
    """The folder with copies of minipto/ and minilib/, made once a process."""
    root = Path(tempfile.mkdtemp(prefix="minipto-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for name in ("minipto", "minilib"):
        shutil.copytree(TREES / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return root


def environment() -> Mapping[str, str]:
    """The environment in which cases find the compiler, the runtime and the harness."""
    path = os.pathsep.join(str(folder) for folder in (trees() / "minipto", trees() / "minilib", built_tree()))
    return {**os.environ, "PYTHONPATH": path}


def run_case(name: str, *options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a case on the simulator in a process of its own; its builds go to `cwd`/build_output."""
    script = trees() / "minilib" / "cases" / f"{name}.py"
    command = [sys.executable, str(script), "-p", "a2a3sim", "-d", "0", *options]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=120)


def only_build(cwd: Path) -> Path:
    """The one build directory that a case left in `cwd`."""
    (build,) = (cwd / "build_output").iterdir()
    return build


@functools.cache
def load(name: str) -> ModuleType:
    """A module of the copied trees (minipto, golden, ...), or a case by its name, in this process."""
    minirt()  # minipto.runtime imports it
    folders = [str(trees() / "minipto"), str(trees() / "minilib"), str(trees() / "minilib" / "cases")]
    sys.path[:0] = folders
    try:
        return importlib.import_module(name)
    finally:
        del sys.path[: len(folders)]
