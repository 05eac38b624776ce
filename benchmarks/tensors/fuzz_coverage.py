"""Lets atheris (`pip install atheris`) look for inputs that break one reader; run from the repository's root.

    python -m benchmarks.tensors.fuzz_coverage args_dump --inputs 100000

It ends with a traceback at the first failure, and says nothing else where there is none.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["precision_bisect.runner.build_output", "precision_bisect.runner.compare"]
):
    from tests.system.fuzz.fuzz import Tally, feed
    from tests.system.fuzz.readers import READERS


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz one reader, guided by coverage.")
    parser.add_argument("reader", choices=list(READERS))
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="fuzz-home-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    corpus, tally = Path(tempfile.mkdtemp(prefix="fuzz-corpus-")), Tally()
    with READERS[given.reader](home) as reader:
        for number, content in enumerate(reader.sound):
            (corpus / str(number)).write_bytes(content)

        def test_one(content: bytes) -> None:
            feed(reader, home, content, tally)
            if tally.failures:
                raise RuntimeError(tally.failures[0])

        options = [
            f"-runs={given.inputs}",
            f"-seed={given.seed}",
            "-max_len=4096",
            "-verbosity=0",
            str(corpus),
        ]
        atheris.Setup([sys.argv[0], *options], test_one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
