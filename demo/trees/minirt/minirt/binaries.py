"""Keeps the shared objects of a build directory in step with its C++ sources."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .kernel_config import read_kernel_config

INCLUDE = Path(__file__).resolve().parent.parent / "include"
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off"]
LISTED_FILES = 3
COMPILE_JOBS = 2


def refresh(build_dir: Path) -> None:
    """Rebuild every binary if one is missing or older than its source.

    Raises RuntimeError when a source does not compile, after the compiler's own lines on standard error.
    """
    build_dir = build_dir.resolve()
    binaries = read_kernel_config(build_dir).binaries()
    stale = [source for source, binary in binaries.items() if _is_stale(source, binary)]
    if not stale:
        print("[cpp->.so] no cpp edits since last build; reusing cached binaries", flush=True)
        return
    names = [_display(source, build_dir) for source in stale]
    listed = ", ".join(names[:LISTED_FILES] + ["..."] * (len(names) > LISTED_FILES))
    print(
        f"[cpp->.so] cpp edits or missing binaries detected ({len(stale)} file(s)): {listed}; rebuilding",
        flush=True,
    )
    cached = [binary for binary in binaries.values() if binary.exists()]
    for binary in cached:
        binary.unlink()
    if cached:
        print(f"[cpp->.so] invalidated {len(cached)} cached binary file(s); cpp will rebuild", flush=True)

    with ThreadPoolExecutor(max_workers=COMPILE_JOBS) as pool:
        outputs = list(pool.map(_compile, binaries.keys(), binaries.values()))
    failed = [_display(source, build_dir) for source, output in zip(binaries, outputs, strict=True) if output]
    if failed:
        sys.stderr.write("".join(output for output in outputs if output))
        sys.stderr.flush()
        raise RuntimeError(f"C++ compilation failed: {', '.join(failed)}")


def _is_stale(source: Path, binary: Path) -> bool:
    return not binary.exists() or binary.stat().st_mtime_ns < source.stat().st_mtime_ns


def _display(source: Path, build_dir: Path) -> str:
    return str(source.relative_to(build_dir)) if source.is_relative_to(build_dir) else str(source)


def _compile(source: Path, binary: Path) -> str | None:
    """The compiler's output if it failed."""
    compiler = os.environ.get("CXX", "c++")
    partial = binary.with_suffix(".so.partial")
    command = [compiler, *FLAGS, "-I", str(INCLUDE), str(source), "-o", str(partial)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if finished.returncode != 0:
        return finished.stdout or f"{compiler} exited with {finished.returncode}: {source}\n"
    partial.replace(binary)  # a killed compiler leaves no binary that looks fresh
    return None
