"""What `diff-tensors` costs where there is little to compare, beside plain loops; run from the repository's root.

    python -m benchmarks.tensors.small_pairs [--pairs 4000] [--repeats 3]

Folders of equal 16 x 16 tensors are compared by `diff-tensors` and by a loop of `torch.testing.assert_close`. A `.npy`
of 1 MB, and one of 100 MB, that differs in one element or in all is compared by `diff-tensors` and by numpy. Each
contender is a process of its own, started in turn. The least CPU time of the repeats counts, imports included, because
a busy machine stretches the wall time.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

SIDE = 16
COLUMNS = 1024

OURS = "from precision_bisect.runner.process.entry import diff_tensors; diff_tensors()"
ASSERT_CLOSE = """
import sys
from pathlib import Path
import numpy as np
import torch
actual, expected = map(Path, sys.argv[1:])
for path in sorted(actual.iterdir()):
    pair = [torch.load(each) if path.suffix == ".pt" else torch.from_numpy(np.load(each))
            for each in (path, expected / path.name)]
    torch.testing.assert_close(*pair, rtol=0, atol=0, equal_nan=True)
"""
NUMPY = """
import sys
import numpy as np
actual, expected = map(np.load, sys.argv[1:])
print(np.abs(actual - expected).max(), np.count_nonzero(actual != expected))
sys.exit(1)
"""


def write_pairs(folder: Path, pairs: int, suffix: str) -> tuple[Path, Path]:
    """Write two folders of equal tensors."""
    rng = np.random.default_rng(0)
    sides = folder / f"actual{suffix}", folder / f"expected{suffix}"
    for side in sides:
        side.mkdir()
    for number in range(pairs):
        values = rng.standard_normal((SIDE, SIDE), dtype=np.float32)
        for side in sides:
            path = side / f"t{number:05}{suffix}"
            if suffix == ".pt":
                torch.save(torch.from_numpy(values), path)  # pyright: ignore[reportUnknownMemberType]
            else:
                np.save(path, values)
    return sides


def write_array(folder: Path, megabytes: int, *, all_wrong: bool) -> tuple[Path, Path]:
    """Write two arrays that differ in one element, or have nothing in common."""
    rng = np.random.default_rng(megabytes)
    shape = (megabytes * (1 << 20) // 4 // COLUMNS, COLUMNS)
    expected = rng.standard_normal(shape, dtype=np.float32)
    actual = rng.standard_normal(shape, dtype=np.float32) if all_wrong else expected.copy()
    actual[3, 5] += 1
    kind = "all" if all_wrong else "one"
    paths = folder / f"{megabytes}-{kind}-actual.npy", folder / f"{megabytes}-{kind}-expected.npy"
    for path, values in zip(paths, (actual, expected), strict=True):
        np.save(path, values)
    return paths


def cpu_seconds(code: str, paths: Sequence[Path], *, status: int) -> float:
    """Return the CPU time of a Python process that is given two paths, and must end with `status`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, paths)], stdout=subprocess.DEVNULL, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != status:
        raise RuntimeError(f"expected exit code {status}, found {done.returncode}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show_row(name: str, paths: Sequence[Path], peer: str, *, status: int, repeats: int) -> None:
    """Print the least time of both contenders, and their ratio."""
    for code in (OURS, peer):
        cpu_seconds(code, paths, status=status)  # caches of files, bytecode and kernels are filled
    rounds = [[cpu_seconds(code, paths, status=status) for code in (OURS, peer)] for _ in range(repeats)]
    ours, theirs = (min(times) for times in zip(*rounds, strict=True))
    print(f"| {name} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare small inputs, beside plain loops.")
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    print("| input | ours, CPU s | peer, CPU s | ratio |\n| --- | ---: | ---: | ---: |", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for suffix in (".npy", ".pt"):
            paths = write_pairs(folder, given.pairs, suffix)
            title = f"{given.pairs:,} equal pairs of *{suffix}; assert_close"
            show_row(title, paths, ASSERT_CLOSE, status=0, repeats=given.repeats)
        for megabytes in (1, 100):
            for all_wrong in (False, True):
                paths = write_array(folder, megabytes, all_wrong=all_wrong)
                title = (
                    f"{megabytes} MB, {'all elements differ' if all_wrong else 'one element differs'}; numpy"
                )
                show_row(title, paths, NUMPY, status=1, repeats=given.repeats)


if __name__ == "__main__":
    main()
