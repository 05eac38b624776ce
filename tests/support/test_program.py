"""A run that is forked is as one that is started: its words, folder, environment, output and exit code."""

import os
import subprocess

import pytest

from tests.conftest import TestRepository
from tests.support.program import PROGRAM, run_program


def without_names(done: "subprocess.CompletedProcess[str]") -> tuple[int, list[str], str]:
    """What two runs of the same words share."""
    return done.returncode, done.stdout.splitlines()[:3], done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["history"],
        ["--nonsense"],
        ["--good", "main~1", "--bad", "main", "-q", "-v", "--", "sh", "-c", "grep -q fine state"],
    ],
)
def test_it_says_what_a_process_of_its_own_says(repository: TestRepository, words: list[str]) -> None:
    for state in ("fine", "broken"):
        repository.commit(state, {"state": state})
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(repository.path.parent / "home")}
    forked = run_program(*words, cwd=repository.path, environment=environment)
    started = subprocess.run(
        [*PROGRAM, *words], cwd=repository.path, env=environment, capture_output=True, text=True, check=False
    )
    assert without_names(forked) == without_names(started)


def test_a_run_leaves_nothing_to_the_next(repository: TestRepository) -> None:
    """Neither a variable nor a folder: the second run finds what the first, with a variable more, cannot tell."""
    for state in ("fine", "broken"):
        repository.commit(state, {"state": state})
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(repository.path.parent / "home")}
    check = 'test -z "$LEFT" && grep -q fine state'
    words = ("--good", "main~1", "--bad", "main", "-q", "--", "sh", "-c", check)
    at_fault = run_program(*words, cwd=repository.path, environment={**environment, "LEFT": "1"})
    assert at_fault.returncode == 4
    outside = run_program(*words, cwd=repository.path.parent, environment=environment)
    assert outside.returncode == 2
    assert run_program(*words, cwd=repository.path, environment=environment).returncode == 0
