"""How long it takes to index an argument dump of a million records, and how much memory; run from the root.

python -m benchmarks.tensors.index_records [--records 1000000]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from precision_bisect.runner.build_output.args_dump import ArgsDump
from precision_bisect.runner.tensor import contiguous_strides
from tests.runner.build_output.build_files import manifest, record

SHAPES = [[64, 64], [32, 128], [1, 4096], [8, 16, 32]]
PAYLOAD_BYTES = 16_384


def write_manifest(folder: Path, records: int) -> int:
    """Writes a dump of `records` tensors of 16 KiB, four to a task, over a payload file with nothing in it.

    Returns the manifest's size in bytes.
    """
    head, tail = json.dumps(manifest([], total_args=records), indent=2).split('"args": []')
    stages = ["before_dispatch", "after_completion"]
    with (folder / "args_dump.json").open("w") as file:
        file.write(f'{head}"args": [\n')
        for index in range(records):
            shape = SHAPES[index % len(SHAPES)]
            strides = list(contiguous_strides(tuple(shape)))
            one = record(
                (1 << 32) + index // 4,
                index % 4,
                stage=stages[index % 2],
                shape=shape,
                strides=strides,
                numel=4096,
                bin_offset=index * PAYLOAD_BYTES,
                bin_size=PAYLOAD_BYTES,
            )
            file.write(("    " if index == 0 else ",\n    ") + json.dumps(one))
        file.write(f"\n  ]{tail}")
    with (folder / "args.bin").open("wb") as file:
        file.truncate(records * PAYLOAD_BYTES)
    return (folder / "args_dump.json").stat().st_size


def own_memory() -> float:
    """MiB that this process alone holds, mapped files left out."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Index an argument dump of many records.")
    parser.add_argument("--records", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_manifest(folder, given.records)
        for _ in range(3):
            before = own_memory()
            start, cpu = time.perf_counter(), time.process_time()
            dump = ArgsDump.open(folder)
            taken, cpu = time.perf_counter() - start, time.process_time() - cpu
            print(
                f"{len(dump):,} records ({size / 2**20:.0f} MiB of JSON) indexed in {taken:.2f} s "
                f"({cpu:.2f} s of CPU), {own_memory() - before:.0f} MiB of memory"
            )
            flawed = int((dump.index.flaws != 0).sum())
            start = time.perf_counter()
            found = dump.find(task_id=(1 << 32) + given.records // 8, arg_index=2)
            print(
                f"  one lookup {1e6 * (time.perf_counter() - start):.0f} us, {len(found)} found, {flawed} flawed"
            )
            del dump


if __name__ == "__main__":
    main()
