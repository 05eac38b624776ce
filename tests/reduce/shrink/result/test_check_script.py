"""A result is checked as often as its measured rate asks for."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.reduce.shrink.result import same_failure
from precision_bisect.reduce.shrink.result.check_script import CheckScript, runs_to_show
from precision_bisect.reduce.shrink.result.reduction import Verified


@pytest.mark.parametrize(
    ("runs", "failures", "always", "expected"),
    [(1, 1, True, 1), (1, 1, False, 10), (2, 2, False, 6), (13, 5, False, 18), (13, 5, True, 18)],
)
def test_a_check_shows_the_failure_with_a_chance_of_99_percent(
    runs: int, failures: int, always: bool, expected: int
) -> None:
    verified = Verified(runs=runs, failures=failures, passes=runs)
    assert runs_to_show(verified, always=always) == expected


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
    shutil.copyfile(same_failure.__file__, folder / "failing" / "debug" / "same_failure.py")
    expected = json.dumps({"code": 1, "patterns": ["wrong"]})
    (folder / "failing" / "debug" / "expected.json").write_text(expected)
    check = CheckScript(python=Path(sys.executable), timeout=60, has_twin=True, script=None)
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
