"""Ctrl-C at drawn moments, from the program's first instant on: it ends with 130, and nothing is left of it.

Before the interpreter has run the first line of the program nobody can answer: there the interpreter's own end counts,
by the signal or by an error of its start. So does an end that came before the signal.
"""

import fcntl
import os
import random
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from precision_bisect.store.database import migrate_and_read, sqlite_url
from precision_bisect.store.tables import BisectionRow
from precision_bisect.store.vocabulary import DriveEnd, Judgement, ProbeState
from tests.conftest import TestRepository
from tests.support.program import processes_at, run_program, start_program
from tests.support.quick import quick_first

ROOT = Path(__file__).parents[3]
COMMITS, CULPRIT = 12, 7
CHECK = ("sh", "-c", "sleep 0.05; grep -q fine state")
DRAWS, DRAWS_AT_FIRST = 12, 4
OURS = re.compile(rf'File "{ROOT}/(bisect|reduce|runner/(?!process/entry)|store)/')
LOCKS_OF_GIT = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock", "locked")
INTERRUPTED = 130


@dataclass
class Searched:
    """A repository that is searched again and again, from a home that is made anew at times."""

    repository: TestRepository
    folder: Path
    shas: list[str]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PRECISION_BISECT_HOME": str(self.home)}

    def start(self, name: str, *words: str) -> "subprocess.Popen[str]":
        ends = ("--good", self.shas[0], "--bad", self.shas[-1])
        return start_program(
            *ends, "--fresh", "--name", name, *words, "--", *CHECK,
            cwd=self.repository.path, environment=self.environment,
        )  # fmt: skip

    def undisturbed(self, *words: str) -> tuple[float, float]:
        """The seconds until the first run, and until the end, where all has to be made."""
        begun = time.monotonic()
        process = self.start("undisturbed", *words)
        assert process.stderr is not None
        first = next(time.monotonic() for line in process.stderr if line.startswith("run 1 "))
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert self.shas[CULPRIT] in out
        return first - begun, time.monotonic() - begun

    def check(self, name: str) -> None:
        """Nothing false is recorded, nothing runs, and nothing is locked."""
        psutil.wait_procs(self.processes(), timeout=60)
        assert self.processes() == []
        files = [*self.home.rglob("*")]
        assert [file for file in files if file.name in LOCKS_OF_GIT] == []
        for file in files:
            if file.suffix == ".lock":
                with file.open() as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not [file for file in files if ".partial" in file.name]
        self._check_store(name)

    def processes(self) -> list[psutil.Process]:
        """What still runs with this home."""
        return processes_at(self.home)

    def _check_store(self, name: str) -> None:
        store = self.home / "state" / "store.sqlite"
        if not store.is_file():
            return
        with migrate_and_read(sqlite_url(store))() as session:
            bisection = session.query(BisectionRow).where(BisectionRow.name == name).one_or_none()
            if bisection is None:
                return
            for probe in bisection.probes:
                if probe.state is ProbeState.FINISHED:
                    passes = self.shas.index(probe.commit) < CULPRIT
                    assert probe.judgement is (Judgement.GOOD if passes else Judgement.BAD)
            ends = {drive.end for drive in bisection.drives}
            assert bisection.outcome is not None or ends <= {DriveEnd.INTERRUPTED}


@pytest.fixture
def searched(repository: TestRepository, tmp_path: Path) -> Searched:
    shas = [
        repository.commit(f"commit {n}", {"state": "fine" if n < CULPRIT else "broken", "n": str(n)})
        for n in range(COMMITS)
    ]
    return Searched(repository, tmp_path, shas)


@pytest.mark.parametrize("jobs", quick_first(["1", "2"]))
@pytest.mark.parametrize("draws", [DRAWS_AT_FIRST, pytest.param(DRAWS, marks=pytest.mark.long)])
def test_it_ends_at_any_moment(searched: Searched, draws: int, jobs: str) -> None:
    words = ("--jobs", jobs)
    until_first, whole = searched.undisturbed(*words)
    chance, ended = random.Random(draws), list[int]()
    for draw in range(draws):
        if draw % 4 == 0:
            shutil.rmtree(searched.home, ignore_errors=True)
        # In turns before the first run, while clones and slots are made, and at any moment.
        latest = until_first if draw % 2 else 1.1 * whole
        process = searched.start(f"draw-{draw}", *words)
        try:
            out, err = process.communicate(timeout=chance.uniform(0.0, latest))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate()
        if process.returncode == 0:
            assert searched.shas[CULPRIT] in out
        elif process.returncode != INTERRUPTED:
            assert OURS.search(err) is None, err
            assert process.returncode == -signal.SIGINT or err.startswith("Fatal Python error: init_"), err
        else:
            assert "Traceback" not in err
            ended.append(draw)
        searched.check(f"draw-{draw}")
    assert len(ended) > draws / 2
    done = run_program(
        *("--good", searched.shas[0], "--bad", searched.shas[-1], "--", *CHECK),
        cwd=searched.repository.path, environment=searched.environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert searched.shas[CULPRIT] in done.stdout
