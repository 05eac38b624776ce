"""A worker outlives whatever is on its queue: what cannot be run fails with a sentence, and the next one is run."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from precision_bisect.store.queue import QueueJournal
from precision_bisect.store.tables import SubmissionRow
from precision_bisect.store.vocabulary import SubmissionState
from tests.bisect.queue.conftest import submission
from tests.conftest import TestRepository
from tests.support.stores import new_store

WORKER = [sys.executable, "-c", "from precision_bisect.bisect.cli import main; main()", "worker"]
QUESTION = ["--good", "HEAD~3", "--bad", "HEAD", "--confidence", "0.8", "--", "sh", "-c", "exit $(cat code)"]


@pytest.fixture
def sessions(queue: QueueJournal, tmp_path: Path) -> sessionmaker[Session]:
    return new_store(tmp_path / "home" / "state" / "store.sqlite")


POISON: list[tuple[dict[str, object], str]] = [
    ({"words": ["--bad", "HEAD", "--", "sh", "\0"]}, "embedded null byte"),
    ({"words": ["--bad", "HEAD", "--stack", "a\0.toml"]}, "embedded null byte"),
    ({"words": ["--bad", "HEAD", "--replay", "a\0"]}, "embedded null byte"),
    ({"words": ["x" * (1 << 18)]}, "Argument list too long"),
    ({"words": [7]}, "TypeError"),
    ({"words": {"a": 1}}, "expected a subcommand"),
    ({"words": None}, "TypeError"),
    ({"folder": "/tmp/\0"}, "embedded null byte"),
    ({"bisection": "a\0"}, "embedded null byte"),
    ({"bisection": "none/there"}, "No such file or directory"),
]
"""What a row may hold that another version of the tool wrote, and why it cannot be run."""


def test_what_no_check_has_seen_ends_itself_and_no_worker(
    tool: TestRepository, queue: QueueJournal, sessions: sessionmaker[Session]
) -> None:
    poisoned: dict[int, str] = {}
    for place, (poison, says) in enumerate(POISON):
        number = queue.submit(submission(f"poison-{place}", folder=str(tool.path)))
        poisoned[number] = says
        with sessions.begin() as session:
            session.execute(update(SubmissionRow).where(SubmissionRow.id == number).values(**poison))
    waiting = queue.submit(
        submission("waits", words=["--bad", "b", "--overlay", "~nobody-is/f"], folder=str(tool.path))
    )
    sound = queue.submit(submission("sound", folder=str(tool.path), words=QUESTION))
    with_worker(lambda: over(queue, sound))
    for number, says in poisoned.items():
        row = queue.find(number)
        assert row is not None
        assert (row.state, row.exit_code in (1, 2), says in row.tail) == (
            SubmissionState.ENDED,
            True,
            True,
        ), row.tail
    row = queue.find(sound)
    assert row is not None
    assert row.exit_code == 0
    row = queue.find(waiting)
    assert row is not None
    assert "~nobody-is/f, found none that can be read" in str(row.lacking)


def over(queue: QueueJournal, number: int) -> bool:
    row = queue.find(number)
    return row is not None and row.state is SubmissionState.ENDED


def with_worker(done: Callable[[], bool]) -> None:
    """Have a worker at it until all is done; it is still there by then, and ends as it is told to."""
    worker = subprocess.Popen(WORKER, stderr=subprocess.PIPE, text=True, env={**os.environ})
    assert worker.stderr is not None
    said: list[str] = []
    try:
        for line in worker.stderr:  # it says when one has ended
            said.append(line)
            if done():
                break
        assert worker.poll() is None, "".join(said)
    finally:
        worker.send_signal(signal.SIGINT)
        rest = worker.communicate(timeout=60)[1]
    assert worker.returncode == 0, rest
    assert "Traceback" not in "".join(said) + rest
