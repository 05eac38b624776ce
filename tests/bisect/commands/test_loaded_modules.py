"""A command that answers at once imports no module that takes long to import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from precision_bisect.bisect.engine.answer import Conclusion, NamedCommit
from precision_bisect.store.queue import QueueJournal
from precision_bisect.store.vocabulary import BisectionOutcome
from tests.bisect.queue.conftest import submission
from tests.bisect.report.stored_bisection import StoredBisection, described, sha

RUN = """
import sys
from precision_bisect.bisect.cli import main
try:
    main()
finally:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""
SLOW = {"alembic", "dask", "git", "jinja2", "joblib", "numba", "numpy", "ray", "sqlalchemy", "torch"}
SLOW_FOR_HELP = SLOW | {"asyncio", "pydantic", "rich", "sqlite3"}
MAX_OWN = 22
"""A list needs at most this many modules of ours, packages included. The product has about 200."""


def run_and_list_modules(*words: str) -> tuple[str, set[str]]:
    """What a command prints, and the modules that it imported."""
    environment = {name: value for name, value in os.environ.items() if name != "PRECISION_BISECT_STORE"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, set(done.stderr.split())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store with a bisection that has ended, one that has not, and a submission."""
    monkeypatch.chdir(tmp_path)
    ended = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c1"), name="ended")
    ended.stage([(described("c1", ["c0"]), sha("c1"))], good=sha("c0"), bad=sha("c1"))
    named = NamedCommit(
        repository="compiler", commit=sha("c1"), parent=sha("c0"), confidence=0.99, merge=False
    )
    ended.conclude(Conclusion(outcome=BisectionOutcome.CULPRIT, message="it is", culprits=(named,)))
    StoredBisection(tmp_path, good=sha("c0"), bad=sha("c1"), name="begun")
    QueueJournal(ended.sessions).submit(submission("submitted"))
    return ended.url


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("history",), "ended  culprit found: compiler"),
        (("history", "--json"), '"subject": "Subject of c1"'),
        (("status",), "1  waits\n"),
        (("status", "--json"), '"words": ['),
        (("status", "1"), "1  waits\n"),
    ],
)
def test_lists_of_a_store_in_a_file_are_quick(words: tuple[str, ...], shown: str, store: str) -> None:
    printed, modules = run_and_list_modules(*words, "--store", store)
    assert shown in printed
    assert SLOW & modules == set()
    assert len([name for name in modules if name.startswith("precision_bisect.")]) <= MAX_OWN


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("history", "--help"), ("nightly", "--help")])
def test_help_is_quick(words: tuple[str, ...]) -> None:
    printed, modules = run_and_list_modules(*words)
    assert "version" in printed
    assert SLOW_FOR_HELP & modules == set()
