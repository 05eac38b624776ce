"""Feeds damaged files to every reader of a build directory; run from the repository's root.

    python -m benchmarks.tensors.fuzz --inputs 1000000

A reader may return or raise `BuildOutputError`. Any other exception, and any input that takes longer than
`--seconds-each`, is printed with the input, and the exit code is 1. Inputs are sound files damaged at random;
`fuzz_coverage` lets atheris look for inputs that reach new code.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from precision_bisect.runner.build_output.args.dump import ArgsDump
from precision_bisect.runner.build_output.files.errors import BuildOutputError
from precision_bisect.runner.build_output.files.folder import Folder
from precision_bisect.runner.build_output.golden_data import TensorFolder
from precision_bisect.runner.build_output.graph.task_graph import TaskGraph
from precision_bisect.runner.build_output.kernel_config import KernelConfig
from precision_bisect.runner.build_output.name_map import NameMap
from precision_bisect.runner.build_output.orchestration.orchestration import Orchestration
from tests.runner.build_output.build_files import KERNEL_CONFIG, ORCHESTRATION, graph, manifest, record

PIECES = [
    b"",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"(",
    b")",
    b"\\",
    b"\0",
    b"\xff",
    b"\n",
    b"null",
    b"true",
]
NUMBERS = [0, -1, 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30]


@dataclass(frozen=True)
class Target:
    """A reader, the file it reads, sound contents of that file, and its share of the inputs."""

    file_name: str
    read: Callable[[Path], object]
    sound: list[bytes]
    share: float


@dataclass
class Tally:
    """What became of the inputs given to one reader."""

    read: int = 0
    refused: int = 0
    slowest: float = 0.0
    failures: list[str] = field(default_factory=list[str])


def read_dump(folder: Path) -> None:
    dump = ArgsDump.open(folder)
    for index in range(len(dump)):
        one = dump.record(index)
        if one.flaw is None and one.dtype is not None and one.value is None:
            dump.tensor(one).contiguous()


def read_graph(folder: Path) -> None:
    read = TaskGraph.open(folder / "deps.json")
    for task in list(read.tasks)[:4]:
        read.ancestors(task)
        read.descendants(task)


def read_orchestration(folder: Path) -> None:
    Orchestration.open(Folder.open(folder, expected="a build"), "sums.cpp")


def sound_tensors() -> list[bytes]:
    contents: list[bytes] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.pt")
        for tensor in (
            torch.arange(24.0).reshape(4, 6)[1:, ::2],
            torch.tensor(True),
            torch.ones(3).bfloat16(),
        ):
            torch.save(tensor, path)
            contents.append(path.read_bytes())
    return contents


def targets() -> dict[str, Target]:
    """All readers. The slow ones get a smaller share."""
    scalar = record(
        1, 2, kind="scalar", dtype="FLOAT32", value="$Inf", shape=[], strides=[], numel=1, bin_size=0
    )
    old = record(1, 0, func_id=3, raw_shape=[4, 8], offsets=[1, 2])
    del old["strides"]
    dumps = [
        manifest([record(1, 0), scalar, record(2**63, 1, start_offset=4)]),
        manifest([old], bin_file=None),
    ]
    pairs = {"version": 1, "edges": [[4294967297, 4294967298], [4294967298, 8589934592]]}
    names = {"level": 2, "orchestrator_name": None, "callable_id_to_name": {"0": "square", "1": "sum"}}
    return {
        "args_dump": Target("args_dump.json", read_dump, [json.dumps(dump).encode() for dump in dumps], 0.3),
        "task_graph": Target(
            "deps.json", read_graph, [json.dumps(one).encode() for one in (graph(), pairs)], 0.3
        ),
        "name_map": Target(
            "name_map.json",
            lambda folder: NameMap.open(folder / "name_map.json"),
            [json.dumps(names).encode()],
            0.1,
        ),
        "kernel_config": Target("kernel_config.py", KernelConfig.open, [KERNEL_CONFIG.encode()], 0.15),
        "orchestration": Target("sums.cpp", read_orchestration, [ORCHESTRATION.encode()], 0.05),
        "torch_file": Target(
            "t.pt", lambda folder: TensorFolder.open(folder).tensor("t").contiguous(), sound_tensors(), 0.1
        ),
    }


def damage(content: bytes, chance: random.Random) -> bytes:
    """`content` with one to four edits: bytes flipped, pieces cut, moved, doubled or put in."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        start = chance.randrange(len(content) + 1)
        end = min(len(content), start + chance.choice((0, 1, 1, 2, 4, 16, 64, 10**6)))
        match chance.randrange(6):
            case 0 if start < len(content):
                put = bytes([content[start] ^ (1 << chance.randrange(8))]) + content[start + 1 : end]
            case 1:
                put = content[start:end] * 2
            case 2:
                other = chance.randrange(len(content) + 1)
                put = content[other : other + chance.randrange(40)]
            case 3:
                put = str(chance.choice(NUMBERS)).encode()
            case 4:
                put = chance.randbytes(chance.randrange(8))
            case _:
                put = chance.choice(PIECES) * chance.choice((1, 1, 1, 2, 2000))
        content = content[:start] + put + content[end:]
    return content


def feed(target: Target, folder: Path, content: bytes, tally: Tally, seconds_each: float) -> None:
    """One input to one reader."""
    (folder / target.file_name).write_bytes(content)
    start = time.perf_counter()
    try:
        target.read(folder)
        tally.read += 1
    except BuildOutputError:
        tally.refused += 1
    except Exception:
        tally.failures.append(f"{content!r}\n{traceback.format_exc()}")
    taken = time.perf_counter() - start
    tally.slowest = max(tally.slowest, taken)
    if taken > seconds_each:
        tally.failures.append(f"{content!r}\ntook {taken:.1f} s")


def fuzz(chosen: dict[str, Target], inputs: int, seed: int, seconds_each: float) -> dict[str, Tally]:
    """Gives each reader its share of `inputs`."""
    tallies = {name: Tally() for name in chosen}
    whole = sum(target.share for target in chosen.values())
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        for name, target in chosen.items():
            home = Path(folder, name)
            home.mkdir()
            (home / "args.bin").write_bytes(bytes(64))
            chance = random.Random(f"{seed} {name}")
            for _ in range(round(inputs * target.share / whole)):
                content = damage(chance.choice(target.sound), chance)
                feed(target, home, content, tallies[name], seconds_each)
            print(report(name, tallies[name]), flush=True)
    return tallies


def report(name: str, tally: Tally) -> str:
    count = tally.read + tally.refused + len(tally.failures)
    return (
        f"{name:14} {count:9,} inputs  {tally.read:9,} read  {tally.refused:9,} refused  "
        f"{len(tally.failures)} failures  slowest {tally.slowest * 1000:.0f} ms"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the readers of a build directory.")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--reader", choices=list(targets()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds-each", type=float, default=20.0)
    given = parser.parse_args()
    chosen = {name: target for name, target in targets().items() if given.reader in (None, name)}
    tallies = fuzz(chosen, given.inputs, given.seed, given.seconds_each)
    for name, tally in tallies.items():
        for failure in tally.failures[:5]:
            print(f"--- {name}\n{failure}")
    total = sum(tally.read + tally.refused + len(tally.failures) for tally in tallies.values())
    failures = sum(len(tally.failures) for tally in tallies.values())
    print(f"{total:,} inputs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
