"""What is submitted: the words of a bisection with its ends held, once its question is known to be one."""

import getpass
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from precision_bisect.bisect.cli import main
from precision_bisect.store.bisections import BisectionJournal
from precision_bisect.store.database import open_store
from precision_bisect.store.queue import QueueJournal
from tests.conftest import TestRepository
from tests.support.trusted import write_trusted

BOARD_STACK = """
    name = "small"
    searched = "tool"
    [repositories.tool]
    path = "tool"
    [case]
    repository = "tool"
    command = ["{case}"]
    cwd = "{slot}"
    harness = false
    [platforms.real]
    board = true
"""


def test_the_ends_are_held_and_the_rest_is_as_it_was_typed(tool: TestRepository, queue: QueueJournal) -> None:
    good, bad = (tool.git("rev-parse", name).strip() for name in ("HEAD~3", "HEAD"))
    words = ["--good", "HEAD~3", "--bad", "HEAD", "--jobs", "2"]
    asked = ["submit", "--priority", "4", *words, "--json", "--", "sh", "-c", "exit $(cat code)"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    (row,) = queue.all()
    assert json.loads(done.stdout) == {"id": row.id, "bisection": row.bisection}
    assert (row.priority, row.user, row.folder) == (4, getpass.getuser(), str(tool.path))
    held = ["--good", good, "--bad", bad, "--jobs", "2", "--", "sh", "-c", "exit $(cat code)"]
    assert row.words == held
    assert (row.board, row.device) == (None, None)


@pytest.mark.parametrize(("typed", "device"), [([], None), (["--device", "3"], 3), (["-d0"], 0)])
def test_a_board_is_waited_for_and_may_be_named(
    typed: list[str],
    device: int | None,
    tool: TestRepository,
    queue: QueueJournal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_trusted(tmp_path / "stack.toml", BOARD_STACK)
    tool.commit("a case", {"case.sh": "exit 0\n"})
    tool.commit("a change", {"code": "2\n"})
    monkeypatch.chdir(tmp_path)
    asked = ["submit", "--good", "HEAD~1", "--bad", "HEAD", "--case", "case.sh", *typed]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    (row,) = queue.all()
    assert (row.board, row.device) == ("real", device)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--good", "nowhere", "--bad", "HEAD", "--", "true"], 2, "nowhere"),
        (["--bad", "HEAD", "--confidence", "7", "--", "true"], 2, "--confidence"),
        (["--god", "HEAD"], 2, "--god"),
        ([], 2, "expected the options of a bisection"),
        (["--bad", "HEAD", "--interactive"], 2, "found --interactive, which asks a person"),
        (["--bad", "HEAD", "--dry-run", "--", "true"], 2, "found --dry-run"),
        (["--resume", "x"], 2, "found --resume"),
        (["--bad", "HEAD", "--notify", "/nowhere", "--", "true"], 2, "--notify /nowhere: expected a program"),
        (["--bad", "HEAD", "--name", "-x", "--", "true"], 2, "--name -x: expected at most 64 letters"),
        (["--good", "HEAD", "--bad", "HEAD", "--", "true"], 4, "error:"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(
    words: list[str], code: int, says: str, tool: TestRepository, queue: QueueJournal
) -> None:
    done = CliRunner().invoke(main, ["submit", *words])
    assert (done.exit_code, says in done.output) == (code, True), done.output
    assert queue.all() == []


def test_where_a_cluster_is_the_worker_s_variables_say(
    tool: TestRepository, queue: QueueJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    words = ["--good", "HEAD~1", "--bad", "HEAD", "--backend", "dask", "--", "true"]
    assert CliRunner().invoke(main, ["submit", *words]).exit_code == 0
    assert len(queue.all()) == 1


def test_a_name_is_kept(tool: TestRepository, queue: QueueJournal) -> None:
    words = ["--good", "HEAD~1", "--bad", "HEAD", "--name", "mine", "--", "true"]
    assert CliRunner().invoke(main, ["submit", *words]).exit_code == 0
    (row,) = queue.all()
    assert row.bisection == "mine"
    assert "--name" not in row.words


def test_a_name_that_is_taken_is_refused(tool: TestRepository, queue: QueueJournal, store: str) -> None:
    words = ["submit", "--good", "HEAD~1", "--bad", "HEAD", "--", "true"]
    begun = BisectionJournal.begin(
        open_store(store), name="begun", repository="tool", good="a", bad="b", request={}
    )
    assert CliRunner().invoke(main, [*words[:1], "--name", "mine", *words[1:]]).exit_code == 0
    for name in ("mine", begun.row().name):
        done = CliRunner().invoke(main, [*words[:1], "--name", name, *words[1:]])
        assert (done.exit_code, f"--name {name}: expected a name of its own" in done.stderr) == (1, True)
    assert [row.bisection for row in queue.all()] == ["mine"]


def test_what_is_to_be_minded_is_said_when_it_is_submitted(tool: TestRepository, queue: QueueJournal) -> None:
    tool.commit("tested", {"tests/new": "", "f": "1"})
    words = ["submit", "--good", "HEAD~1", "--bad", "HEAD", "--", "true", "tests/new"]
    done = CliRunner().invoke(main, words)
    assert "note: tests/new is not at the good end; lay the bad end's over every commit" in done.stderr
    assert "asks the same" not in done.stderr
    done = CliRunner().invoke(main, words)
    first, second = queue.all()
    assert f"note: submission {first.id} of {getpass.getuser()} asks the same" in done.stderr
    queue.cancel(first.id)
    queue.cancel(second.id)
    assert "asks the same" not in CliRunner().invoke(main, words).stderr


def test_a_user_without_a_name_is_asked_for_one(
    tool: TestRepository, queue: QueueJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that runs as a number of which /etc/passwd knows nothing."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def find_nobody(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", find_nobody)
    done = CliRunner().invoke(main, ["submit", "--good", "HEAD~1", "--bad", "HEAD", "--", "true"])
    assert (done.exit_code, "expected your name in $USER" in done.stderr) == (1, True), done.output
    assert queue.all() == []
