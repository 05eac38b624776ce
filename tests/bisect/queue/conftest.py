"""A repository in the current folder, a home, and a queue in its store."""

from pathlib import Path

import pytest

from precision_bisect.store.database import sqlite_url
from precision_bisect.store.queue import QueueJournal, Submission
from tests.conftest import TestRepository
from tests.support.stores import new_store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the store of a home of the test's own."""
    monkeypatch.delenv("PRECISION_BISECT_STORE", raising=False)
    monkeypatch.setenv("PRECISION_BISECT_HOME", str(tmp_path / "home"))
    file = tmp_path / "home" / "state" / "store.sqlite"
    new_store(file)
    return sqlite_url(file)


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestRepository:
    """A repository whose last commit fails, and the current folder."""
    repository = TestRepository(tmp_path / "tool")
    for number in range(4):
        repository.commit(f"commit {number}", {"code": f"{int(number == 3)}\n"})
    monkeypatch.chdir(repository.path)
    return repository


@pytest.fixture
def queue(store: str, tmp_path: Path) -> QueueJournal:
    """An empty queue."""
    return QueueJournal(new_store(tmp_path / "home" / "state" / "store.sqlite"))


def submission(name: str, **asked: object) -> Submission:
    """One of ada's, which nobody could run."""
    fields: dict[str, object] = {"bisection": name, "user": "ada", "words": ["--bad", "b c"], "folder": "/x"}
    return Submission(**{**fields, **asked})  # pyright: ignore[reportArgumentType]
