"""What comes before the first run: it is told where it takes long, and the budget counts it."""

import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from precision_bisect.bisect.cli import SlowStart, main
from precision_bisect.bisect.options import BisectOptions
from precision_bisect.runner.workspace.home import Home
from tests.conftest import TestRepository
from tests.support.hold import Hold
from tests.support.interrupts import obey_interrupts
from tests.support.program import PROGRAM, run_program
from tests.support.trusted import write_trusted

STACK = """
name = "small"
searched = "tool"
repositories.tool.path = "tool"
repositories.released.releases.command = ["sh", "-c", "echo $$ > {folder}/held; read -r _ < {folder}/hold; echo 1"]
platforms.sim = {{}}
[case]
repository = "tool"
command = ["sh", "{{case}}"]
cwd = "{{tool}}"
harness = false
"""
WORDS = ("--good", "HEAD~1", "--bad", "HEAD", "--case", "case.sh")


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Hold]:
    """What lets a stack go on whose releases are listed by a command that waits; the stack is in the current folder."""
    repository = TestRepository(tmp_path / "tool")
    repository.commit("good", {"case.sh": "exit 0\n"})
    repository.commit("bad", {"case.sh": "exit 1\n"})
    write_trusted(tmp_path / "stack.toml", STACK.format(folder=tmp_path), tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    hold = Hold(tmp_path)
    yield hold
    hold.let_go()


def test_what_takes_long_is_told_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    start = SlowStart(quiet=False)
    start.step("reading")
    assert capsys.readouterr().err == ""
    start.show_steps()
    start.step("counting")
    assert capsys.readouterr().err == "reading ...\ncounting ...\n"
    start.end()
    start.step("driving")
    assert capsys.readouterr().err == ""


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    start = SlowStart(quiet=True)
    start.show_steps()
    start.step("reading")
    assert capsys.readouterr().err == ""


def test_a_checkout_that_is_read_for_long_is_told_of_at_a_terminal(hold: Hold, home: Home) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(ours) as terminal:
        process = subprocess.Popen(
            [*PROGRAM, *WORDS],
            env={**os.environ, "PRECISION_BISECT_HOME": str(home.state.parent)},
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            preexec_fn=obey_interrupts,
        )
        os.close(theirs)
        hold.wait(process)
        assert "reading the checkouts ...\n" in iter(terminal.readline, "")  # reads until it comes
        process.terminate()
        process.wait()


def test_a_budget_that_ends_before_the_first_run_stops_what_was_begun(hold: Hold, home: Home) -> None:
    done = run_program(*WORDS, "--budget", "1s")
    assert done.returncode == 6
    assert done.stderr == (
        "error: the budget was spent while the question was checked, before the first run: nothing was run or kept; "
        "ask again with a larger --budget\n"
    )
    running = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
    assert [words for words in running if any(str(hold.hold) in word for word in words)] == []
    assert not (home.state / "store.sqlite").exists()


def test_a_budget_counts_from_the_beginning_of_the_command() -> None:
    def options(*words: str) -> BisectOptions:
        return BisectOptions(**main.make_context("bisect-precision", [*WORDS, *words]).params)

    limited = options("--budget", "90s")
    assert limited.deadline == limited.start_time + 90
    assert options().deadline is None
