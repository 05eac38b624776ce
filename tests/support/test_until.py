"""A run of tests that may not take longer leaves out the rest, and says so."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = (
    sys.executable,
    "-m",
    "pytest",
    "--quiet",
    "-p",
    "no:cacheprovider",
    "tests/store/test_vocabulary.py",
)


@pytest.mark.parametrize(
    ("until", "runs"), [(0.0, False), (time.time() + 3600, True)], ids=["past", "to come"]
)
def test_no_test_begins_after_the_time_that_is_given(until: float, runs: bool) -> None:
    done = subprocess.run(
        [*WORDS, "--until", str(until)], cwd=ROOT, text=True, capture_output=True, check=True
    )
    *_, last = done.stdout.splitlines()
    assert (" passed" in last, " skipped" in last) == (runs, not runs)
    assert ("the time of this run is over" in done.stdout) is not runs
