"""Compile a numeric loop once and keep the machine code between runs."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba  # pyright: ignore[reportMissingTypeStubs]

from ...workspace.home import user_home

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def is_compiled() -> bool:
    """Whether loops were compiled and kept here before: the first time takes many seconds."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or _own_folder())
    return next(folder.rglob("*.nbi"), None) is not None


def _own_folder() -> Path:
    # numba looks only at the file of the outermost function when it decides whether its cache is current, so
    # the texts of all loops name the folder.
    texts = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return user_home().cache / f"kernels-{hashlib.sha256(texts).hexdigest()[:16]}"


@cache
def _keeps_machine_code() -> bool:
    """Point numba at a folder of the tool's, and say whether it can be written."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return True
    folder = _own_folder()
    try:
        user_home().make_cache()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        print(
            f"note: expected to keep compiled kernels in {folder}, found {error.strerror}: every run compiles them "
            "again (some seconds); set PRECISION_BISECT_HOME to a folder that can be written",
            file=sys.stderr,
        )
        return False
    cast(Any, numba).config.CACHE_DIR = str(folder)
    return True


def compiled(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """`function` as machine code, compiled at the first call for each set of argument types.

    It runs without the interpreter's lock, so that threads share the work. Floating-point operations keep the
    order they are written in.
    """
    return _compile(function, reorder_sums=False)


def compiled_reordering_sums(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compiles like `compiled`, but lets additions be taken in any order, so that they fill vector registers.

    For sums of n terms alone: their error stays under n units in the last place of the sum of magnitudes.
    """
    return _compile(function, reorder_sums=True)


def _compile(function: Callable[Arguments, Result], *, reorder_sums: bool) -> Callable[Arguments, Result]:
    njit = cast(Any, numba).njit
    flags: set[str] = {"reassoc"} if reorder_sums else set()
    compiler = njit(cache=_keeps_machine_code(), nogil=True, fastmath=flags, error_model="numpy")
    return cast(Callable[Arguments, Result], compiler(function))
