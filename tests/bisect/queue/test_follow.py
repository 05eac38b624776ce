"""What is said of the queue: for people, for machines, and by the exit code of what was followed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from precision_bisect.bisect.cli import main
from precision_bisect.bisect.queue_client import new_lines
from precision_bisect.store.queue import Board, QueueJournal, QueueWorker
from tests.bisect.queue.conftest import submission

WORKER = QueueWorker(
    name="w", host="lab", place="home", boards=frozenset({Board(host="lab", platform="a2a3", device=2)})
)


def ask(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, [*words])
    return done.exit_code, done.output


def test_an_empty_queue(queue: QueueJournal) -> None:
    assert ask("status") == (0, "nothing was submitted yet: bisect-precision submit --good A --bad B ...\n")
    assert ask("status", "--json") == (0, "[]\n")
    assert ask("status", "3")[0] == 1


def test_what_waits_runs_and_is_over(queue: QueueJournal) -> None:
    for name in ("one", "two", "three"):
        queue.submit(submission(name))
    queue.submit(submission("four", board="a2a3", priority=2))
    queue.submit(submission("five", board="a2a3"))
    taken = [queue.take(WORKER) for _ in range(3)]
    assert [row.id for row in taken if row is not None] == [4, 1, 2]
    assert queue.end(1, WORKER, exit_code=5, tail="a\nb")
    queue.cancel(2)
    queue.cancel(3)
    code, text = ask("status")
    assert code == 0
    states = [line for line in text.splitlines() if not line.startswith(" ")]
    assert states == [
        "1  ended with exit code 5",
        "2  is being cancelled on lab",
        "3  was cancelled",
        "4  runs on lab, board a2a3 2",
        "5  waits for board a2a3",
    ]
    assert "priority 2  four  --bad 'b c'" in text
    assert ask("status", "1")[1].splitlines()[-2:] == ["a", "b"]
    entries = json.loads(ask("status", "--json")[1])
    assert [(each["id"], each["state"]) for each in entries][:2] == [(1, "ended"), (2, "running")]
    assert json.loads(ask("status", "4", "--json")[1])["device"] == 2


def test_following_ends_with_the_exit_code_of_the_bisection(queue: QueueJournal) -> None:
    for name in ("one", "two"):
        queue.submit(submission(name))
    assert queue.take(WORKER) is not None
    assert queue.end(1, WORKER, exit_code=6, tail="not decided\x1b[31m")
    assert ask("status", "1", "--follow") == (6, "1: ended with exit code 6\n    not decided\\x1b[31m\n")
    assert ask("cancel", "2") == (0, "2: was cancelled\n")
    assert ask("status", "2", "--follow")[0] == 130
    code, text = ask("cancel", "2")
    assert (code, "expected a submission that is not over" in text) == (1, True)
    assert ask("status", "9", "--follow")[0] == 1
    for words in ((), ("2", "--json")):
        code, text = ask("status", "--follow", *words)
        assert (code, "--follow: expected the ID of a submission" in text) == (2, True)


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        ([], ["a"], ["a"]),
        (["a"], ["a"], []),
        (["a"], ["a", "b"], ["b"]),
        (["a", "a"], ["a", "a", "a"], ["a"]),
        (["a", "b"], ["x", "y"], ["x", "y"]),
    ],
)
def test_what_is_new_at_the_end_of_a_log(before: list[str], now: list[str], new: list[str]) -> None:
    assert new_lines(before, now) == new


@pytest.mark.parametrize("board", ["a2a3", "a2a3=", "=1", "a2a3=x", "a2a3=-1"])
def test_a_board_that_is_none(board: str, store: str, tmp_path: Path) -> None:
    code, text = ask("worker", "--board", board)
    assert (code, "expected PLATFORM=N" in text) == (2, True)
