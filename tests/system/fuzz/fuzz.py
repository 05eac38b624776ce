"""Feeds sound inputs that were damaged at random to readers; run from the repository's root.

    python -m tests.system.fuzz.fuzz args_dump --inputs 1000000 --seed 7

A reader (`readers.py`) may return, or raise the error that it is documented to raise. Any other exception is
printed with its input, and the exit code is 1. The process may take 2 GB, and an input 20 seconds: SIGALRM ends it
where one takes longer, and that input stays in the folder that was printed. `fuzz_coverage` of `benchmarks/tensors`
lets atheris look for inputs that reach new code.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.fuzz.readers import READERS, Reader

MAX_MEMORY, MAX_SECONDS = 2 * 10**9, 20
_SHOWN = 5

PIECES = [
    *(b"", b"{", b"}", b"[", b"]", b'"', b",", b":", b"(", b")", b"\\", b"\0", b"\xff", b"\n", b"\r\n"),
    *(b"null", b"true", b"=", b"'", b"#", b"~", b"../", b"\\ud800", b"NaN", b"-"),
]
NUMBERS = [0, -1, 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 10**5000]


@dataclass
class Tally:
    """What became of the inputs given to a reader."""

    read: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list[str])

    @property
    def told(self) -> str:
        """In a line."""
        return f"{self.read} read, {self.refused} refused, {len(self.failures)} failures"


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
                put = _digits(chance.choice(NUMBERS))
            case 4:
                put = chance.randbytes(chance.randrange(8))
            case _:
                put = chance.choice(PIECES) * chance.choice((1, 1, 1, 2, 2000))
        content = content[:start] + put + content[end:]
    return content


def _digits(number: int) -> bytes:
    # Python refuses to write out the longest of them.
    return b"1" + b"0" * 5000 if number == NUMBERS[-1] else str(number).encode()


def feed(reader: Reader, folder: Path, content: bytes, tally: Tally) -> None:
    """One input to one reader."""
    (folder / reader.file_name).write_bytes(content)
    signal.alarm(MAX_SECONDS)
    try:
        reader.read(folder)
        tally.read += 1
    except reader.errors:
        tally.refused += 1
    except Exception:
        tally.failures.append(f"{content!r}\n{traceback.format_exc()}")
    finally:
        signal.alarm(0)


def fuzz(reader: Reader, inputs: int, *, seed: str, folder: Path) -> Tally:
    """Feed the sound inputs, which have to be read, and then damaged ones."""
    tally = Tally()
    for content in reader.sound:
        feed(reader, folder, content, tally)
    if tally.read < len(reader.sound):
        tally.failures.append("a sound input was refused")
    chance = random.Random(seed)
    for _ in range(inputs):
        feed(reader, folder, damage(chance.choice(reader.sound), chance), tally)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz readers.")
    parser.add_argument("readers", nargs="+", choices=list(READERS))
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    failed = False
    for name in given.readers:
        folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
        print(f"{name}, in {folder}: ", end="", flush=True)
        with READERS[name](folder) as reader:
            tally = fuzz(reader, given.inputs, seed=f"{given.seed} {name}", folder=folder)
        print(tally.told)
        for failure in tally.failures[:_SHOWN]:
            print(f"--- {failure}")
        failed |= bool(tally.failures)
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
