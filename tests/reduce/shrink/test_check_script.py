"""A result is checked as often as its measured rate asks for."""

from __future__ import annotations

import json
import shutil
import subprocess
from math import comb
from pathlib import Path

import pytest

from precision_bisect.reduce.shrink import check_result
from precision_bisect.reduce.shrink.reproducer import NO_STACK, CheckScript, Verified, runs_to_show


@pytest.mark.parametrize(("runs", "failures", "expected"), [(1, 1, 10), (2, 2, 6), (4, 4, 4), (13, 5, 18)])
def test_a_check_shows_the_failure_with_a_chance_of_99_percent(
    runs: int, failures: int, expected: int
) -> None:
    assert runs_to_show(Verified(runs=runs, failures=failures, passes=runs)) == expected


@pytest.mark.parametrize("rate", [0.3, 0.4, 0.5, 0.7, 0.95, 1.0])
def test_whatever_was_measured_a_check_that_misses_a_failure_is_rare(rate: float) -> None:
    """Over all outcomes of four runs that verify a result, of which at least one fails."""
    chances = {
        failures: comb(4, failures) * rate**failures * (1 - rate) ** (4 - failures)
        for failures in range(1, 5)
    }
    missed = sum(
        chance * (1 - rate) ** runs_to_show(Verified(runs=4, failures=failures, passes=4))
        for failures, chance in chances.items()
    )
    assert missed / sum(chances.values()) <= 0.01


def _result(folder: Path, *, fails_in: int) -> None:
    """Builds that are scripts: the failing one fails in one run."""
    for name, body in (
        ("passing", "exit 0"),
        (
            "failing",
            f"echo run >>../count; [ $(wc -l <../count) != {fails_in} ] || {{ echo wrong; exit 1; }}",
        ),
    ):
        (folder / name / "debug").mkdir(parents=True)
        script = folder / name / "run.sh"
        script.write_text(f'#!/bin/sh\ncd "$(dirname "$0")" || exit\n{body}\n')
        script.chmod(0o755)
    shutil.copyfile(check_result.__file__, folder / "failing" / "debug" / "same_failure.py")
    expected = json.dumps({"code": 1, "patterns": ["wrong"]})
    (folder / "failing" / "debug" / "expected.json").write_text(expected)
    check = CheckScript(timeout=60, has_twin=True, script=None)
    (folder / "check.sh").write_text("\n".join(["#!/bin/sh", *check.lines(runs=5)]) + "\n")


@pytest.mark.parametrize(
    ("fails_in", "code", "said"),
    [
        (1, 0, "reproduced in run 1 of up to 5\n"),
        (5, 0, "reproduced in run 5 of up to 5\n"),
        (6, 1, "passed: not reproduced, in 5 runs\n"),
    ],
)
def test_a_failure_that_does_not_show_in_every_run_is_run_again(
    tmp_path: Path, fails_in: int, code: int, said: str
) -> None:
    _result(tmp_path, fails_in=fails_in)
    ran = subprocess.run(["sh", tmp_path / "check.sh"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (code, said)


def test_a_build_without_its_stack_is_no_failure(tmp_path: Path) -> None:
    """Of either side: what its script says of that is shown, and nothing is called reproduced, or the twin wrong."""
    for side in ("passing", "failing"):
        folder = tmp_path / side
        _result(folder, fails_in=1)
        (folder / side / "run.sh").write_text(f"#!/bin/sh\necho no stack >&2\nexit {NO_STACK}\n")
        ran = subprocess.run(["sh", folder / "check.sh"], capture_output=True, text=True)
        assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "no stack\n")
