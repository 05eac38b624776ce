"""The whole tool on demo stacks: real repositories, real compilation, real processes.

Builds are shared by content between all these tests, as they are between bisections of one user; every test has a store
and golden data of its own.
"""

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from precision_bisect.demo.make import Truth, make_demo
from precision_bisect.demo.scenarios import Scenario
from tests.support.program import run_program, start_program

COMMITS = 24


@dataclass(frozen=True)
class Run:
    """One call of the command: its exit code and what it printed."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class DemoStack:
    """A demo stack in a folder, and the folders that the tool may write to."""

    directory: Path
    truth: Truth
    environment: dict[str, str]
    output: Path

    @property
    def arguments(self) -> list[str]:
        """What a user types to bisect it."""
        return [
            *("--stack", str(self.directory / "stack.toml"), "--case", self.truth.case),
            *("--good", self.truth.good, "--bad", self.truth.bad, "--bad-when", self.truth.bad_when),
            *("-o", str(self.output), "--no-localize"),
        ]

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start the command in a folder that is not ours."""
        return start_program(*arguments, cwd=self.output.parent, environment=self.environment)

    def run(self, *arguments: str) -> Run:
        """Run the command to its end."""
        done = run_program(*arguments, cwd=self.output.parent, environment=self.environment)
        return Run(done.returncode, done.stdout, done.stderr)

    def report(self) -> dict[str, Any]:
        """What the tool wrote for machines."""
        return json.loads((self.output / "report.json").read_text())

    def snapshot(self) -> dict[str, str]:
        """Every file of the user's three checkouts, `.git` included, by content."""
        files: dict[str, str] = {}
        for path in sorted(self.directory.rglob("*")):
            name = str(path.relative_to(self.directory))
            if path.is_symlink():
                files[name] = f"link {path.readlink()}"
            elif path.is_file():
                files[name] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                files[name] = "folder"
        return files


@pytest.fixture(scope="session")
def shared_builds(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """One build cache and slot pool for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "shared-cache"
    shared.mkdir(exist_ok=True)
    return shared


def make_stack(
    directory: Path, cache: Path, scenario: Scenario, *, commits: int = COMMITS, seed: int = 3
) -> DemoStack:
    """A demo stack with a home of its own that shares the build cache."""
    truth = make_demo(directory / "stack", scenario=scenario, commits=commits, seed=seed)
    home = directory / "home"
    home.mkdir()
    (home / "cache").symlink_to(cache)
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(home), "COLUMNS": "100"}
    return DemoStack(directory / "stack", truth, environment, directory / "report")


@pytest.fixture
def make(tmp_path: Path, shared_builds: Path):
    """Make a demo stack for a scenario; its folders are removed when the test has passed."""

    def of(scenario: Scenario, **options: int) -> DemoStack:
        return make_stack(tmp_path, shared_builds, scenario, **options)

    yield of
    shutil.rmtree(tmp_path, ignore_errors=True)
