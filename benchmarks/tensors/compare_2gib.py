"""Full statistics of two large files against one `torch.allclose` of the same data in memory.

    python benchmarks/tensors/compare_2gib.py [--gib 2] [--folder /tmp]

For each type two files are written once. One process maps them and calls `measure` and `breakdown`; another holds
them in memory and calls torch with two threads. Each call is made twice, as the first finds memory untouched.
torch turns int8 into float32 and takes eight times the memory: it gets a sixteenth, and its time is scaled.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from precision_bisect.runner.tensor import DType, TensorView

COLUMNS = 4096
TORCH_SHARE = {DType.FLOAT32: 1, DType.BFLOAT16: 1, DType.INT8: 16}
STEP = 1 << 24


def write(folder: Path, dtype: DType, size: int) -> None:
    """Random values, and the same with an error of about a thousandth (int8: of 0 or 1)."""
    rng = np.random.default_rng(0)
    with (folder / "expected").open("wb") as expected_file, (folder / "actual").open("wb") as actual_file:
        for _ in range(size // dtype.itemsize // STEP):
            if dtype is DType.INT8:
                expected = rng.integers(-100, 100, STEP, dtype=np.int8)
                actual = expected + rng.integers(0, 2, STEP, dtype=np.int8)
            else:
                expected = rng.standard_normal(STEP, dtype=np.float32)
                actual = expected + 1e-3 * rng.standard_normal(STEP, dtype=np.float32)
            for values, file in ((expected, expected_file), (actual, actual_file)):
                stored = (
                    (values.view(np.uint32) >> 16).astype(np.uint16) if dtype is DType.BFLOAT16 else values
                )
                stored.tofile(file)


def mapped(path: Path, dtype: DType) -> TensorView:
    storage = np.memmap(path, dtype.storage, mode="r")
    return TensorView.from_contiguous(path.name, dtype, (storage.size // COLUMNS, COLUMNS), storage)


def anonymous_mib() -> float:
    """Memory of this process that is no mapping of a file, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise OSError("expected RssAnon in /proc/self/status, found none: this needs Linux")


def time_ours(folder: Path, dtype: DType) -> None:
    from precision_bisect.runner.compare.statistics import Tolerance, breakdown, measure

    actual, expected = mapped(folder / "actual", dtype), mapped(folder / "expected", dtype)
    tolerance = Tolerance(rtol=1e-3, atol=1e-3)
    before, peak, done = anonymous_mib(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, anonymous_mib())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for name in ("first", "second"):
        start = time.perf_counter()
        found = measure(actual, expected, tolerance)
        measured = time.perf_counter() - start
        rows = breakdown(actual, expected, tolerance)
        total = time.perf_counter() - start
        print(
            f"  ours, {name} call    {total:7.2f} s  (statistics {measured:.2f}, rows {total - measured:.2f})"
        )
    done.set()
    watcher.join()
    print(f"  over tolerance {found.over} of {found.numel}, {len(rows.slices_over())} rows")
    print(f"  memory {peak - before:.0f} MiB above {before:.0f} MiB of the process, without the mapping")


def time_torch(folder: Path, dtype: DType) -> None:
    import torch

    torch.set_num_threads(2)
    share = TORCH_SHARE[dtype]
    count = (folder / "actual").stat().st_size // dtype.itemsize // share
    actual, expected = (
        torch.from_file(str(folder / name), size=count, dtype=getattr(torch, dtype.torch_name)).clone()
        for name in ("actual", "expected")
    )
    for name in ("first", "second"):
        start = time.perf_counter()
        torch.allclose(actual, expected, rtol=1e-3, atol=1e-3)
        total = (time.perf_counter() - start) * share
        print(
            f"  torch, {name} call   {total:7.2f} s" + (f"  (1/{share} of it, scaled)" if share > 1 else "")
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    for dtype in TORCH_SHARE:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            folder = Path(name)
            write(folder, dtype, int(arguments.gib * 2**30))
            print(f"{dtype.value}, two files of {arguments.gib:g} GiB", flush=True)
            for job in (time_ours, time_torch):
                process = spawn.Process(target=job, args=(folder, dtype))
                process.start()
                process.join()


if __name__ == "__main__":
    main()
