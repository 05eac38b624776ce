"""Compiles src/*.cpp into build/lib/libminirt.so with $CXX (default c++)."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
FLAGS = [
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-pthread",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
]


def run(command: list[str]) -> bool:
    """Run one compiler command; its output is shown only when it says something."""
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if finished.stdout:
        print(finished.stdout, end="", flush=True)
    return finished.returncode == 0


def main() -> int:
    compiler = os.environ.get("CXX", "c++")
    library = ROOT / "build" / "lib" / "libminirt.so"
    objects = ROOT / "build" / "obj"
    library.parent.mkdir(parents=True, exist_ok=True)
    objects.mkdir(parents=True, exist_ok=True)

    sources = sorted((ROOT / "src").glob("*.cpp"))
    compiled = [objects / f"{source.stem}.o" for source in sources]
    include = ["-I", str(ROOT / "include")]
    print(f"[build] {compiler} {' '.join(FLAGS)}: {len(sources)} files", flush=True)
    commands = [
        [compiler, *FLAGS, *include, "-c", str(source), "-o", str(target)]
        for source, target in zip(sources, compiled, strict=True)
    ]
    with ThreadPoolExecutor(max_workers=2) as pool:
        if not all(list(pool.map(run, commands))):
            return 1

    # Linked beside its final name and moved there: a build that was killed leaves no half library.
    partial = library.with_suffix(".so.partial")
    # The whole process sees the exported symbols, so the standard library's are not among them.
    exports = f"-Wl,--version-script={ROOT / 'src' / 'exports.map'}"
    if not run([compiler, "-shared", "-pthread", exports, *map(str, compiled), "-ldl", "-o", str(partial)]):
        return 1
    partial.replace(library)
    print(f"[build] {library.relative_to(ROOT)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
