"""Fixtures that every room's tests use: a home of their own, and small real git repositories."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from precision_bisect.runner.workspace.home import Home, user_home
from tests.support.compiler import compile_once
from tests.support.kernels import keep_kernels
from tests.support.quick import FULL_EXAMPLES

if TYPE_CHECKING:
    from tests.runner.small_stack import SmallStack

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada Example",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada Example",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


# A machine that is slow for now is no failure. The examples are those of the test's own text, so that a red test comes
# from the change; a plain `pytest` draws new ones.
for profile, examples in (("quick", FULL_EXAMPLES // 5), ("third", FULL_EXAMPLES // 3)):
    settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Equal sources and loops are compiled once, by all tests and runs of tests; without pytest's cache, each time.

    torch gets one thread: its threads spin while they wait for each other, and what tests start fills the cores.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if config.pluginmanager.hasplugin("cacheprovider"):
        compile_once(config.cache.mkdir("compiled"))
        keep_kernels(config.cache.mkdir("kernels"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--until",
        type=float,
        metavar="SECONDS",
        help="skip tests that have not begun at this time since the epoch, and say how many",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests of whole jobs take longest: they come first, so that no worker waits for another's at the end.

    Where the time may not be enough for all, they come last, because a second of them tests least.
    """
    items.sort(
        key=lambda item: ("/system/" in item.nodeid) == (config.getoption("until") is None), reverse=True
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    until = item.config.getoption("until")
    if until is not None and time.time() > until:
        pytest.skip("the time of this run is over")


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    _forget_the_test()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call() -> None:
    _forget_the_test()


def _forget_the_test() -> None:
    """A test's name is no variable of what it starts: tests share a process of the same variables that forks runs."""
    os.environ.pop("PYTEST_CURRENT_TEST", None)


class TestRepository:
    """A real repository in a folder, written with git itself."""

    __test__ = False

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        """Run git here and give what it printed."""
        return subprocess.run(
            ["git", "-C", str(self.path), "-c", "protocol.file.allow=always", *arguments],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def commit(self, subject: str, files: Mapping[str, str | None]) -> str:
        """Write (or with None remove) files and commit them; the new commit's id."""
        for name, text in files.items():
            file = self.path / name
            if text is None:
                file.unlink()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git's identity; and the programs are on the path, as lines that name them in full where they are not expect."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home of this test alone."""
    monkeypatch.setenv("PRECISION_BISECT_HOME", str(tmp_path / "home"))
    return user_home()


@pytest.fixture
def repository(tmp_path: Path) -> TestRepository:
    """An empty repository."""
    return TestRepository(tmp_path / "repository")


@pytest.fixture
def small(tmp_path: Path, home: Home) -> SmallStack:
    """A stack that a test may change before it is used."""
    from tests.runner.small_stack import (
        SmallStack,
    )  # which most tests do without, and which builds on this file

    return SmallStack(tmp_path / "stack", home)
