"""Readers of what others wrote, each given 2,000 damaged inputs: no crash, no 2 GB, no 20 seconds for any of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.fuzz.fuzz import fuzz as feed_all
from tests.system.fuzz.readers import READERS, Reader

INPUTS = 2000
_TOGETHER = 4
"""One process imports what many need."""

NAMES = list(READERS)
GROUPS = [NAMES[at : at + _TOGETHER] for at in range(0, len(NAMES), _TOGETHER)]


def fuzz(names: list[str], inputs: int) -> str:
    words = ["-m", "tests.system.fuzz.fuzz", *names, "--inputs", str(inputs)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("names", GROUPS, ids="-".join)
def test_damaged_inputs_are_read_or_refused(names: list[str]) -> None:
    said = fuzz(names, INPUTS)
    for line, name in zip(said.splitlines(), names, strict=True):
        assert line.startswith(f"{name}, ")
        read, refused = (int(part.split()[0]) for part in line.partition(": ")[2].split(", ")[:2])
        assert read + refused > INPUTS
        assert read > 0


def test_an_error_that_is_not_documented_is_a_failure(tmp_path: Path) -> None:
    """And so is a sound input that is refused."""

    def read(folder: Path) -> None:
        if b"[" in (folder / "x").read_bytes():
            raise RecursionError
        if b"a" not in (folder / "x").read_bytes():
            raise ValueError

    tally = feed_all(Reader("x", read, [b"a" * 9], (ValueError,)), 500, seed="0", folder=tmp_path)
    assert tally.read > 100
    assert tally.refused > 10
    assert tally.failures
    assert all("RecursionError" in failure for failure in tally.failures)
    tally = feed_all(Reader("x", read, [b"b"], (ValueError,)), 0, seed="0", folder=tmp_path)
    assert tally.failures == ["a sound input was refused"]
