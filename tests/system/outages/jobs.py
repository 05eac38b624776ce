"""A search, a night and a queue, each of which can be begun, broken off and gone on with, and knows its own truth.

Each has a line of commits with a build and a case that takes a moment. The case draws a token, prints it, and notes it
in a file beside the line: what counts is compared with what ran.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import create_engine, text

from precision_bisect.store.vocabulary import Verdict
from tests.system.slow_line import SlowLine

_CASE = """
token=$(cat /proc/sys/kernel/random/uuid)
number=$(cat out)
echo "run $token"
sleep 0.1
if [ "$number" -ge {culprit} ]; then echo WRONG; else echo RIGHT; fi
echo "$number $token" >> {ran}
[ "$number" -lt {culprit} ]
"""
_NIGHT = """
job = "night"
stack = "stack.toml"
branches = ["trunk"]
cases = ["number"]
platforms.sim = {{}}
output = "nights"
confidence = 0.9
on_incident = ["sh", "-c", "cat >> {told}"]
"""
_COUNTED = {
    "probes": "SELECT p.id, p.verdict, a.path FROM probes p JOIN artifacts a ON a.probe_id = p.id AND a.kind = 'log' "
    "WHERE p.state = 'finished' AND p.reused_id IS NULL AND p.verdict != 'environment_error'",
    "case_runs": "SELECT id, verdict, log FROM case_runs WHERE verdict != 'environment_error'",
}
"""Finished runs by table: id, verdict, log. Those whose supervisor was killed say so, and count for nothing."""
_EXPIRE = """
import datetime, sys
from sqlalchemy import update
from precision_bisect.store.database import open_store
from precision_bisect.store.tables import SubmissionRow
from precision_bisect.store.vocabulary import SubmissionState

long_ago = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
running = SubmissionRow.state == SubmissionState.RUNNING
with open_store(sys.argv[1]).begin() as session:
    session.execute(update(SubmissionRow).where(running).values(lease=long_ago, lost=0))
"""
_TO_END = 120.0
"""Seconds that a process may take to end that is killed or told to end."""
_STUCK = 600.0
"""Seconds after which a start that nothing disturbs will not come to the answer, on however busy a machine."""


@dataclass(eq=False)
class Started:
    """A process of the job, with what it has said so far."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        streams = [each for each in (self.process.stdout, self.process.stderr) if each is not None]
        self._readers = [threading.Thread(target=self._read, args=[each], daemon=True) for each in streams]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self.said.append(line.rstrip("\n"))

    def lasts(self, seconds: float) -> bool:
        """Whether it is still there after these seconds."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def end(self) -> str:
        """Wait for its end, and for all that it has said."""
        self.process.wait(_TO_END)
        for reader in self._readers:
            reader.join(_TO_END)
        return "\n".join(self.said)


class Job(ABC):
    """One job on a line in `folder`, whose home, store and report lie there too; what its runs note is `beside` it."""

    def __init__(self, folder: Path, chance: random.Random, *, beside: Path, **variables: str) -> None:
        self.ran, self.told = beside / "ran", beside / "told"
        self.ran.touch()
        self.line = SlowLine(
            folder, commits=48, culprit=chance.randint(1, 47), step="cp number out", variables={}
        )
        self.line.variables |= variables
        (folder / "case.sh").write_text(_CASE.format(culprit=self.line.culprit, ran=self.ran))

    @abstractmethod
    def words(self) -> list[str]:
        """What a person types to begin, or to go on."""

    @abstractmethod
    def is_over(self) -> bool:
        """Whether the store has the answer."""

    @abstractmethod
    def check_answer(self) -> None:
        """What was written for people names the planted commit, once."""

    def start(self, *words: str) -> Started:
        """Begin, or go on."""
        return Started(self.line.start(*(words or self.words())))

    def expire(self) -> None:
        """As if so much time had passed that no worker holds a submission by a lease. What has lost three workers is
        ended; here the others were not its own.

        A process with the job's variables writes it: this one notes no sync, so a power cut would tear its checkpoint.
        """
        if self.rows("SELECT 1 FROM submissions WHERE state = 'running'"):
            words = [sys.executable, "-c", _EXPIRE, self.line.store]
            subprocess.run(words, env=self.line.variables, check=True)

    def finish(self) -> str:
        """Go on until it is over, undisturbed; what was said."""
        self.expire()
        started, began = self.start(), time.monotonic()
        while self.goes_on(started):
            assert time.monotonic() - began < _STUCK, started.said
        started.process.terminate()
        said = started.end()
        assert started.process.returncode in self.codes, said
        return said

    def goes_on(self, started: Started) -> bool:
        """Whether a start is still at it a moment later."""
        return started.lasts(0.2)

    codes: tuple[int, ...] = (0,)
    """By which a start ends that came to the answer."""

    def runs(self) -> int:
        """How many runs have ended so far."""
        return self.ran.read_text().count("\n")

    def counted(self) -> dict[tuple[str, int], tuple[str, str]]:
        """The finished runs of the store by table and number: verdict, and the token that the log has."""
        return {
            (table, number): (verdict, _token(Path(log)))
            for table, query in _COUNTED.items()
            for number, verdict, log in self.rows(query)
        }

    def rows(self, query: str) -> list[Any]:
        """What the store has; nothing where there is none yet, or none of this schema."""
        file = Path(self.line.store.removeprefix("sqlite:///"))
        if not file.exists() or not file.stat().st_size:
            return []
        engine = create_engine(f"sqlite:///file:{file}?mode=ro&uri=true")
        try:
            with engine.connect() as connection:
                tables = {row[0] for row in connection.execute(text("SELECT name FROM sqlite_master"))}
                return [tuple(row) for row in connection.execute(text(query))] if "probes" in tables else []
        finally:
            engine.dispose()

    def check(self) -> None:
        """The planted commit is named, each verdict is true, and each run that counts was made, and counts once."""
        psutil.wait_procs(self.line.processes(), timeout=_TO_END)
        self.check_answer()
        assert self.line.processes() == []
        noted = [line.split() for line in self.ran.read_text().splitlines()]
        ran = {token: number for number, token in noted}
        counted = self.counted()
        assert counted, "nothing was run"
        tokens = [token for _, token in counted.values()]
        assert len({*tokens}) == len(tokens), "a run counts twice"
        for verdict, token in counted.values():
            fails = int(ran[token]) >= self.line.culprit
            assert verdict == (Verdict.MISMATCH if fails else Verdict.PASS), token


def _token(log: Path) -> str:
    (token,) = re.findall(r"^run (\S+)$", gzip.decompress(log.read_bytes()).decode(), re.MULTILINE)
    return token


class Search(Job):
    """One bisection, begun and resumed by a person."""

    def words(self) -> list[str]:
        names = self.rows("SELECT name, outcome FROM bisections")
        if not names:
            return self.line.arguments
        ((name, outcome),) = names
        # What was cut short behind its answer has a report to be written.
        return ["--resume"] if outcome is None else ["report", name]

    def is_over(self) -> bool:
        return bool(self.rows("SELECT 1 FROM bisections WHERE outcome IS NOT NULL"))

    def check_answer(self) -> None:
        (culprit,) = self.line.report()["culprits"]
        assert culprit["commit"] == self.line.shas[self.line.culprit]


class Night(Job):
    """The second night of a job, in which the case is seen to fail."""

    codes = (7, 8)

    def __init__(self, folder: Path, chance: random.Random, *, beside: Path, **variables: str) -> None:
        super().__init__(folder, chance, beside=beside, **variables)
        (folder / "night.toml").write_text(_NIGHT.format(told=self.told))
        self._move_trunk(0)
        first = self.line.run(*self.words())
        assert first.returncode == 0, first.stderr
        self._move_trunk(-1)

    def _move_trunk(self, commit: int) -> None:
        tool = self.line.folder / "tool"
        subprocess.run(
            ["git", "-C", str(tool), "branch", "--force", "trunk", self.line.shas[commit]], check=True
        )

    def words(self) -> list[str]:
        return ["nightly", "night.toml"]

    def is_over(self) -> bool:
        return bool(self.rows("SELECT 1 FROM nights WHERE ordinal = 2 AND finished IS NOT NULL"))

    def check_answer(self) -> None:
        assert self.rows("SELECT culprit FROM incidents") == [(self.line.shas[self.line.culprit],)]
        assert len(self.rows("SELECT 1 FROM regressions")) == 1
        newest = max((self.line.folder / "nights" / "night").glob("night-*/night.json"))
        (incident,) = json.loads(newest.read_text())["incidents"]
        assert incident["culprit"] == self.line.shas[self.line.culprit]
        told = [json.loads(line) for line in self.told.read_text().splitlines()]
        assert {each["incident"]["number"] for each in told} == {1}


class Queue(Job):
    """Two submissions of one question, the second of which is to run all anew, and a worker."""

    def __init__(self, folder: Path, chance: random.Random, *, beside: Path, **variables: str) -> None:
        super().__init__(folder, chance, beside=beside, **variables)
        self.reports = [self.line.output, folder / "other"]
        for report in range(len(self.reports)):
            done = self.line.run("submit", *self._question(report))
            assert done.returncode == 0, done.stderr

    def words(self) -> list[str]:
        return ["worker"]

    def is_over(self) -> bool:
        left = self.rows("SELECT 1 FROM submissions WHERE state IN ('queued', 'running')")
        return not left and bool(self.rows("SELECT 1 FROM submissions"))

    def goes_on(self, started: Started) -> bool:
        # A worker does not end by itself. Once it has said that it takes submissions, it ends politely.
        return super().goes_on(started) and not (started.said and self.is_over())

    def finish(self) -> str:
        said = super().finish()
        failed = "SELECT s.id, s.bisection, s.exit_code, s.tail, b.id FROM submissions s "
        failed += "LEFT JOIN bisections b ON b.name = s.bisection WHERE s.exit_code != 0"
        for number, name, code, tail, begun in self.rows(failed):
            # It has ended with an error that says what to mend. Whoever submitted it goes on, as they are told.
            assert code == 1, tail
            assert "No space left" in tail or "disk is full" in tail, tail
            done = self.line.run(*(["--resume", name] if begun else self._question(number - 1)))
            assert done.returncode == 0, done.stderr
        return said

    def _question(self, report: int) -> list[str]:
        return [*self.line.arguments, "-o", str(self.reports[report]), "--fresh"]

    def check_answer(self) -> None:
        assert {state for (state,) in self.rows("SELECT state FROM submissions")} == {"ended"}
        for report in self.reports:
            (culprit,) = json.loads((report / "report.json").read_text())["culprits"]
            assert culprit["commit"] == self.line.shas[self.line.culprit]


KINDS = (Search, Night, Queue)
