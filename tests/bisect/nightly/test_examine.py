"""What a night says of a cell whose regression is open, by what its runs show."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from precision_bisect.bisect.nightly.matrix import NightlyConfig, QuotaSpentError, judged_run
from precision_bisect.bisect.nightly.night import Examiner
from precision_bisect.runner.workspace.slot import MissingCommitError
from precision_bisect.store.nights import CaseRun, CellKey, JobJournal
from precision_bisect.store.tables import CaseResultRow, CaseRunRow, CellRow
from precision_bisect.store.vocabulary import CaseStatus, Judgement, Verdict
from tests.support.stores import new_store

CONFIG = NightlyConfig(job="job", stack="demo", cases=("one.py",), platforms=cast(Any, {"sim": {}}))
_VERDICTS = {
    "P": Verdict.PASS,
    "F": Verdict.MISMATCH,
    "E": Verdict.ENVIRONMENT_ERROR,
    "T": Verdict.TIMEOUT,
}


class Line:
    """A history: before the commit that failed lie the good one and others, behind it all that are not named here."""

    def is_ancestor(self, commit: str, other: str) -> bool:
        line = ["good", "older", "bad", "c1", "c2"]
        return line.index(commit) <= line.index(other) if commit in line and other in line else commit in line


class ScriptedRunner:
    """Shows what a script says, until it or the device's quota ends. A commit is its own content."""

    def __init__(self, journal: JobJournal, script: Iterable[str], *, environment: str = "f") -> None:
        self._environment = environment
        self.workspace = SimpleNamespace(clones={"compiler": Line()})
        self._journal = journal
        self._script = iter(script)

    def content_at(self, commit: str) -> str:
        return commit

    def environment(self, _cell: object) -> str:
        return self._environment

    def run(self, night: int, cell: CellRow, commit: str) -> CaseRunRow:
        letter = next(self._script, None)
        if letter is None:
            raise QuotaSpentError
        if letter == "M":
            raise MissingCommitError("its pin is gone")
        run = CaseRun(
            started=datetime.now(UTC),
            commit=commit,
            revisions={},
            content=commit,
            verdict=_VERDICTS[letter],
            signature=None,
            metrics={},
            evidence=[],
            device=0,
            host="here",
            build_source="built",
            build_seconds=1.0,
            run_seconds=1.0,
            fingerprint=self._environment,
            environment={"driver": self._environment},
            log="/x",
        )
        return self._journal.runs.add(night, cell.id, run)


class Job:
    """A job of one cell, which failed in three runs at `bad` after it had passed at `good`."""

    def __init__(self, folder: Path) -> None:
        self.journal = JobJournal(new_store(folder / "store.sqlite"), "job")
        self.cell = self.journal.runs.get_or_create_cell(
            CellKey(branch="main", case="one.py", platform="sim", tolerance="default")
        )
        night = self.journal.nights.begin({"main": "bad"}, "here")
        runner = ScriptedRunner(self.journal, "FFF")
        for _ in range(3):
            runner.run(night.id, self.cell, "bad")
        self.journal.regressions.open(
            night.id, self.cell.id, last_good="good", first_bad="bad", bad_when="mismatch"
        )

    def night(self, head: str, shown: str, *, environment: str = "f", killed: str = "") -> CaseResultRow:
        """A night in which so many runs are left, and show this. `killed` is what a start showed that was killed."""
        night = self.journal.nights.begin({"main": head}, "here")
        for letter in killed:
            ScriptedRunner(self.journal, letter, environment=environment).run(night.id, self.cell, head)
        examiner = Examiner(
            config=CONFIG,
            journal=self.journal,
            runner=cast(Any, ScriptedRunner(self.journal, shown, environment=environment)),
            night=night,
            searched="compiler",
        )
        return examiner.examine(self.cell, head)

    @property
    def is_open(self) -> bool:
        return self.journal.regressions.find_open(self.cell.id) is not None


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_a_failure_in_another_environment_is_not_flaky(job: Job) -> None:
    """The commit passed, and what is built there is the same: a driver changed, or the arguments of the case."""
    assert job.night("c1", "P" * 50).status is CaseStatus.PASSED
    same = job.night("c1", "")
    assert (same.status, same.same_as_id is None) == (CaseStatus.PASSED, False)
    moved = job.night("c1", "FFFF", environment="g")
    assert moved.status is CaseStatus.INFRASTRUCTURE
    assert "when its environment or its command was another one" in moved.message
    assert job.night("c2", "PPPP", environment="g").status is CaseStatus.PASSED
    assert job.night("c2", "F" * 9, environment="h").status is CaseStatus.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (
            "FFFF",
            "failed; whether what passed before still passes is not known: "
            "the device's runs of this night are used up",
        ),
        ("FFFFM", "failed; c1, which passed before, cannot be run: its pin is gone"),
    ],
)
def test_nothing_is_said_of_the_device_where_what_passed_before_was_not_run(
    job: Job, shown: str, message: str
) -> None:
    assert job.night("c1", "PPPP").status is CaseStatus.PASSED
    result = job.night("c2", shown)
    assert (result.status, result.runs, result.message) == (CaseStatus.UNTESTED, 4, message)
    assert not job.is_open


def test_a_branch_that_went_back_behind_the_failure_mends_nothing(job: Job) -> None:
    result = job.night("older", "P" * 50)
    assert (result.status, result.runs) == (CaseStatus.PASSED, 1)
    assert "passed before bad, where it fails: the branch went back" in str(result.message)
    assert job.is_open
    # Nor do these passes count when it goes on.
    again = job.night("c1", "P" * 50)
    assert (again.status, again.runs) == (CaseStatus.PASSED, 4)
    assert not job.is_open


def test_it_runs_until_its_passes_tell_that_it_has_recovered(job: Job) -> None:
    result = job.night("c1", "P" * 50)
    assert (result.status, result.runs, result.failures) == (CaseStatus.PASSED, 4, 0)
    assert not job.is_open
    (regression,) = job.journal.regressions.find_unfixed()
    assert (regression.last_bad, regression.recovered_at) == ("bad", "c1")


def test_a_failure_behind_passes_leaves_it_open(job: Job) -> None:
    result = job.night("c1", "PPF")
    assert (result.status, result.runs, result.failures) == (CaseStatus.KNOWN, 3, 1)
    assert result.message.startswith("passed 2 of 3 runs: mismatch")
    regression = job.journal.regressions.find_open(job.cell.id)
    assert regression is not None
    assert regression.last_bad == "c1"


def test_where_the_runs_are_used_up_it_stays_open_and_the_next_night_goes_on(job: Job) -> None:
    result = job.night("c1", "PP")
    assert (result.status, result.runs) == (CaseStatus.UNTESTED, 2)
    assert "passed 2 of the 4 runs" in result.message
    assert "regression stays open; the device's runs of this night are used up" in result.message
    assert job.is_open
    assert job.night("c1", "PPP").status is CaseStatus.PASSED


@pytest.mark.long
def test_a_night_makes_only_so_many_runs_of_a_case_that_fails_seldom(job: Job) -> None:
    for night in range(20):
        job.night(f"f{night}", "PPPF")
    result = job.night("c1", "P" * 100)
    assert (result.status, result.runs) == (CaseStatus.UNTESTED, 40)
    assert "run 40 times in a night at most" in result.message
    assert job.is_open


def test_a_pass_at_what_failed_before_is_flaky(job: Job) -> None:
    result = job.night("bad", "PPPPPP")
    assert (result.status, result.runs) == (CaseStatus.FLAKY, 1)
    assert job.is_open


@pytest.mark.parametrize("shown", ["E", "PE", "T", "PPT"])
def test_what_the_device_does_is_no_failure_and_no_recovery(job: Job, shown: str) -> None:
    assert job.night("c1", shown).status is CaseStatus.INFRASTRUCTURE
    assert job.is_open


def test_a_night_that_goes_on_makes_a_run_again_that_blamed_the_machine(job: Job) -> None:
    assert job.night("c1", "P" * 50, killed="E").status is CaseStatus.PASSED


def test_a_timeout_is_a_failure_where_a_timeout_opened_the_regression(job: Job) -> None:
    job.night("c1", "T")
    (*_, run) = job.journal.runs.recent(job.cell.id)[:1]
    assert judged_run(run, "mismatch").judgement is Judgement.SKIP
    assert judged_run(run, "timeout").judgement is Judgement.BAD
