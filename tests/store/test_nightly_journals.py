"""Nights in the store: incidents group by culprit, and what was noted is read back."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from precision_bisect.store.bisections import BisectionJournal
from precision_bisect.store.database import open_store
from precision_bisect.store.durable_files import read_document
from precision_bisect.store.nights import (
    CaseResult,
    CaseRun,
    CellKey,
    JobJournal,
    NightSummary,
    earlier_incidents,
)
from precision_bisect.store.vocabulary import CaseStatus, Verdict
from tests.store.test_journal import key, stage

SHA = "a" * 40


def run_row(verdict: Verdict) -> CaseRun:
    return CaseRun(
        started=datetime(2026, 1, 2, tzinfo=UTC),
        commit=SHA,
        revisions={"minipto": SHA},
        content="c",
        verdict=verdict,
        signature=None,
        metrics={},
        evidence=["line\0"],
        device=0,
        host="here",
        build_source="built",
        build_seconds=1.0,
        run_seconds=2.0,
        fingerprint="f",
        environment={"cpu": "x"},
        log="/x",
    )


def result_row(status: CaseStatus, failures: int) -> CaseResult:
    return CaseResult(
        status=status,
        commit=SHA,
        content="c",
        runs=2,
        failures=failures,
        verdict=Verdict.MISMATCH,
        signature=None,
        message="m",
    )


@pytest.fixture
def journal(url: str) -> JobJournal:
    return JobJournal(open_store(url), "job")


def cell(journal: JobJournal, case: str) -> int:
    return journal.runs.get_or_create_cell(
        CellKey(branch="main", case=case, platform="a2a3sim", tolerance="default")
    ).id


def test_a_killed_night_is_found_again(journal: JobJournal) -> None:
    assert journal.nights.resume_unfinished() is None
    night = journal.nights.begin({"main": SHA}, "here")
    again = journal.nights.resume_unfinished()
    assert again is not None
    assert (again.id, again.attempts, again.heads) == (night.id, 2, {"main": SHA})
    journal.nights.end(night.id, ["done"])
    assert journal.nights.resume_unfinished() is None
    assert journal.nights.begin({"main": SHA}, "here").ordinal == 2


def test_what_is_noted_of_a_night_that_is_over_is_added_once(journal: JobJournal) -> None:
    night = journal.nights.begin({"main": SHA}, "here")
    assert not journal.nights.add_notes(night.id, ["too early"])
    journal.nights.end(night.id, ["first"])
    assert journal.nights.add_notes(night.id, ["first", "second\0"])
    (row,) = journal.nights.all()
    assert read_document(NightSummary, row.summary).notes == ("first", "second\\0")


def test_runs_and_results_are_read_back(journal: JobJournal) -> None:
    night = journal.nights.begin({"main": SHA}, "here").id
    one = cell(journal, "one.py")
    assert cell(journal, "one.py") == one
    assert journal.runs.add(night, one, run_row(Verdict.PASS)).run == 1
    assert journal.runs.add(night, one, run_row(Verdict.MISMATCH)).run == 2
    assert [run.verdict for run in journal.runs.runs_in_night(night, one)] == [Verdict.PASS, Verdict.MISMATCH]
    assert [run.run for run in journal.runs.passing_runs(one)] == [1]
    last = journal.runs.last(one, "c")
    assert last is not None
    assert (last.run, last.environment.details) == (2, {"cpu": "x"})
    journal.results.set(night, one, result_row(CaseStatus.REGRESSED, 2))
    journal.results.set(night, one, result_row(CaseStatus.FLAKY, 1))
    last = journal.results.last(one)
    assert last is not None
    assert last.status is CaseStatus.FLAKY


def test_one_culprit_is_one_incident_while_it_is_open(url: str) -> None:
    sessions = open_store(url)
    journal = JobJournal(sessions, "job")
    bisection = BisectionJournal.begin(
        sessions, name="b", repository="minipto", good=SHA, bad=SHA, request={}
    )
    night = journal.nights.begin({"main": SHA}, "here").id
    regressions = [
        journal.regressions.open(
            night, cell(journal, case), last_good=SHA, first_bad=SHA, bad_when="mismatch"
        ).id
        for case in ("one.py", "two.py")
    ]

    def join(regression: int, culprit: str) -> int:
        return journal.incidents.add_regression(
            regression,
            night_id=night,
            bisection_id=bisection.bisection,
            repository="minipto",
            culprit=culprit,
            subject="s",
            confidence=0.99,
        )

    first = join(regressions[0], "c" * 40)
    assert join(regressions[1], "c" * 40) == first
    (incident,) = journal.incidents.all(open_only=True)
    assert [regression.cell.case for regression in incident.regressions] == ["one.py", "two.py"]
    journal.incidents.close(first, night_id=night, fixed_by=SHA)
    assert journal.incidents.all(open_only=True) == []
    again = join(regressions[0], "c" * 40)
    join(regressions[1], "d" * 40)
    every = journal.incidents.all()
    assert [earlier_incidents(each, every) for each in every] == [(), (1,), ()]
    assert again != first
    assert JobJournal(sessions, "other").incidents.all() == []


def test_what_was_built_is_known_and_what_was_not_is_not(journal: JobJournal) -> None:
    night = journal.nights.begin({"main": SHA}, "here").id
    one = cell(journal, "one.py")
    assert journal.built_contents() == frozenset()
    for content, source in (("c", "built"), ("d", "cached"), ("broken", "none"), ("c", "present")):
        journal.runs.add(night, one, replace(run_row(Verdict.PASS), content=content, build_source=source))
    assert journal.built_contents() == {"c", "d"}


def test_runs_since_a_regression_was_opened_leave_out_those_of_its_good_end(journal: JobJournal) -> None:
    good, bad = "b" * 40, "c" * 40
    one = cell(journal, "one.py")

    def run(night: int, commit: str, verdict: Verdict) -> None:
        journal.runs.add(night, one, replace(run_row(verdict), commit=commit))

    before = journal.nights.begin({"main": good}, "here").id
    run(before, good, Verdict.PASS)
    night = journal.nights.begin({"main": bad}, "here").id
    run(night, bad, Verdict.MISMATCH)
    run(night, good, Verdict.PASS)
    regression = journal.regressions.open(night, one, last_good=good, first_bad=bad, bad_when="mismatch")
    # Taken back by a forced push: now it is a run like any other.
    run(journal.nights.begin({"main": good}, "here").id, good, Verdict.PASS)
    assert [each.verdict for each in journal.runs.runs_for_regression(regression)] == [
        Verdict.MISMATCH,
        Verdict.PASS,
    ]


def test_probes_that_look_for_a_fix_count_as_runs(url: str) -> None:
    sessions = open_store(url)
    journal = JobJournal(sessions, "job")
    started = datetime.now(UTC)
    night = journal.nights.begin({"main": SHA}, "here").id
    one = cell(journal, "one.py")
    regression = journal.regressions.open(night, one, last_good=SHA, first_bad=SHA, bad_when="mismatch").id
    bisection = BisectionJournal.begin(
        sessions, name="b", repository="minipto", good=SHA, bad=SHA, request={}
    )
    bisection.probes.start(key(stage(bisection)))
    assert journal.runs_since(started) == {}
    journal.regressions.update(regression, fix_bisection_id=bisection.bisection)
    assert journal.runs_since(started) == {"a2a3sim": 1}


def test_a_fix_is_looked_for_until_it_is_named_or_cannot_be(journal: JobJournal) -> None:
    night = journal.nights.begin({"main": SHA}, "here").id
    one, two, three = (
        journal.regressions.open(
            night, cell(journal, case), last_good=SHA, first_bad=SHA, bad_when="mismatch"
        ).id
        for case in ("one.py", "two.py", "three.py")
    )
    assert journal.regressions.find_unfixed() == []
    for regression in (one, two, three):
        journal.regressions.update(regression, recovered_night_id=night, recovered_at=SHA)
    journal.regressions.update(one, fixed_by=SHA)
    journal.regressions.update(two, fix_problem="the ends do not differ")
    assert [each.cell.case for each in journal.regressions.find_unfixed()] == ["three.py"]
