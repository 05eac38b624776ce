"""`--interactive`: a person at a terminal is the judge."""

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from precision_bisect.bisect.drive.person import check_person
from precision_bisect.runner.errors import UsageError
from tests.conftest import TestRepository
from tests.support.interrupts import obey_interrupts
from tests.support.program import PROGRAM
from tests.support.quick import quick_first
from tests.system.questions.test_predicate import found, run

COMMITS = 10
BROKEN_FROM = 6


@pytest.fixture
def line(repository: TestRepository) -> list[str]:
    return [
        repository.commit(f"commit {n}", {"state": "broken" if n >= BROKEN_FROM else "fine", "n": str(n)})
        for n in range(COMMITS)
    ]


def judge(slot: Path) -> str:
    """What a person says who looks into the file."""
    return "good" if (slot / "state").read_text() == "fine" else "b"


def at_terminal(
    folder: Path, *words: str, answers: Callable[[Path], str], shell: str = "/bin/sh"
) -> tuple[int, str]:
    """Run the command at a terminal, answering each question by the folder that it names; exit code and output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *words],
        cwd=folder,
        env={**os.environ, "PRECISION_BISECT_HOME": str(folder.parent / "home"), "SHELL": shell},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=obey_interrupts,
    )
    os.close(theirs)
    shown, answered = "", 0
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        shown += piece.decode(errors="replace")
        if shown.count("quit? ") > answered:
            answered += 1
            slot = shown.rpartition("checked out in ")[2].split()[0]
            os.write(ours, f"{answers(Path(slot))}\n".encode())
    os.close(ours)
    return process.wait(), shown


@pytest.mark.long
def test_a_person_finds_it_and_may_stop_and_go_on(
    repository: TestRepository, line: list[str], tmp_path: Path
) -> None:
    """They look around in a shell, want one build again, answer what is nothing, quit, and go on another day."""
    first = iter(["shell", "x", "retry", "good", "bad", "quit"])
    visited = tmp_path / "visited"
    shell = tmp_path / "shell"
    shell.write_text(f"#!/bin/sh\npwd > {visited}\n")
    shell.chmod(0o755)
    words = ("--good", line[0], "--bad", "main", "-o", str(tmp_path / "out"), "--interactive")
    code, shown = at_terminal(repository.path, *words, answers=lambda _: next(first), shell=str(shell))
    assert code == 130, shown
    slot = shown.split("checked out in ")[1].split()[0]
    assert visited.read_text().strip() == slot
    assert "to resume:" in shown
    assert "run it with" not in shown
    assert "good, bad: what the case does here" in shown
    assert "build" not in shown.partition("checked out in ")[0]
    code, again = at_terminal(repository.path, "--resume", answers=judge)
    assert code == 0, again
    assert "note: going on with 20" in again
    assert found(tmp_path / "out") == line[BROKEN_FROM]
    asked = shown.count("checked out in ") + again.count("checked out in ")
    # Both ends, the one that was begun anew, the one at which they quit, and a search without reruns.
    assert asked <= 4 + 4


def test_the_script_that_is_named_runs_the_case(
    repository: TestRepository, line: list[str], tmp_path: Path
) -> None:
    def by_script(_: Path) -> str:
        scripts = (tmp_path / "home").rglob("run.sh")
        newest = max(scripts, key=lambda script: script.stat().st_mtime_ns)
        return "skip" if subprocess.run(["sh", newest], check=False).returncode == 7 else "bad"

    words = ("--good", line[0], "--bad", "main", "-o", str(tmp_path / "out"), "--interactive")
    command = ("--", "sh", "-c", '[ -n "$PATH" ] && grep -q fine state && exit 7; exit 1')
    code, shown = at_terminal(repository.path, *words, *command, answers=by_script)
    assert code == 1, shown
    assert "expected a validated pass" in shown


@pytest.mark.parametrize("end", quick_first([0, -1]))
def test_an_end_that_was_skipped_is_asked_again_at_a_resume(
    repository: TestRepository, line: list[str], tmp_path: Path, end: int
) -> None:
    def skips(slot: Path) -> str:
        skipped = (slot / "n").read_text() == str(range(COMMITS)[end])
        return "skip" if skipped else judge(slot)

    words = ("--good", line[0], "--bad", "main", "-o", str(tmp_path / "out"), "--interactive")
    code, shown = at_terminal(repository.path, *words, answers=skips)
    assert code == 1, shown
    assert "an end was skipped by the person who judges: a resume asks again" in shown
    assert "skip, as a person judged it; resume to be asked again, or name another" in " ".join(shown.split())
    for untrue in ("exit with None", "what a person runs", "exit code 0 is good", "can the command be found"):
        assert untrue not in shown
    code, again = at_terminal(repository.path, "--resume", answers=judge)
    assert code == 0, again
    assert found(tmp_path / "out") == line[BROKEN_FROM]


@pytest.mark.parametrize(
    ("words", "says"),
    quick_first(
        [
            ([], "--interactive: expected a terminal to ask at, found none"),
            (["--jobs", "2"], "--interactive: expected --jobs 1, found 2"),
        ]
    ),
)
def test_nobody_can_be_asked(
    repository: TestRepository, line: list[str], tmp_path: Path, words: list[str], says: str
) -> None:
    done = run(
        repository.path, tmp_path / "home", "--good", line[0], "--bad", "main", "--interactive", *words
    )
    assert done.returncode == 2
    (error,) = [text for text in done.stderr.splitlines() if text.startswith("error: ")]
    assert says in error


def test_builds_of_other_machines_are_for_nobody_to_run_here() -> None:
    with pytest.raises(
        UsageError, match="--interactive: expected workers of this machine, found --backend dask"
    ):
        check_person(jobs=1, backend="dask")
