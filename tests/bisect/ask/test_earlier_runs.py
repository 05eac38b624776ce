"""What a store remembers of a case: nights and bisections, by what their commits were taken for."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch
from sqlalchemy import select

from precision_bisect.bisect.ask.earlier_runs import (
    ReusableBisections,
    describe_earlier_runs,
    earlier_runs,
    find_reusable_bisections,
    reusable_probes,
)
from precision_bisect.bisect.ask.question import BisectRequest, Plan, engine_question
from precision_bisect.bisect.drive import session
from precision_bisect.bisect.engine.answer import Conclusion, EndRate, NamedCommit
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.rates import EarlierRuns, FlakyShare, RunTally
from precision_bisect.runner.case.case import freeze
from precision_bisect.runner.stack import Overlay, Rename
from precision_bisect.runner.workspace.environment import EnvironmentReader
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.bisections import EarlierRunJournal
from precision_bisect.store.nights import CaseResult, CaseRun, CellKey, JobJournal
from precision_bisect.store.tables import BisectionRow
from precision_bisect.store.vocabulary import BisectionOutcome, CaseStatus, Verdict
from tests.bisect.engine.simulated import loaded_range
from tests.bisect.report.stored_bisection import (
    ENVIRONMENT,
    StoredBisection,
    content_key,
    described,
    pinned_revisions,
    sha,
)
from tests.bisect.search.search_histories import line

CASE = "examples/softmax.py"
PASS, FAIL = Verdict.PASS, Verdict.MISMATCH


def bisection(folder: Path, name: str = "one", *, case: str = CASE) -> StoredBisection:
    """A line a, b, c on the good end, whose culprit b was named."""
    stored = StoredBisection(folder, good=sha("good"), bad=sha("c"), case=case, name=name)
    line = [described("a", ["good"]), described("b", ["a"]), described("c", ["b"])]
    stage = stored.stage([(row, row.sha) for row in line], good=sha("good"), bad=sha("c"))
    shown = [
        ("good", PASS),
        ("c", FAIL),
        ("a", PASS),
        ("b", FAIL),
        ("b", PASS),
        ("a", PASS),
        ("c", Verdict.CRASH),
    ]
    for commit, verdict in shown:
        stored.probe(stage, sha(commit), verdict)
    named = NamedCommit(repository="compiler", commit=sha("b"), parent=sha("a"), confidence=0.99, merge=False)
    stored.conclude(
        Conclusion(
            outcome=BisectionOutcome.CULPRIT,
            message="found",
            culprits=(named,),
            rates=(
                EndRate(end="good", commit=sha("good"), runs=1, failures=0),
                EndRate(end="bad", commit=sha("c"), runs=1, failures=1),
            ),
        )
    )
    return stored


def night(
    job: JobJournal,
    case: str,
    status: CaseStatus,
    verdicts: Sequence[Verdict],
    revisions: dict[str, str] | None = None,
) -> None:
    """A night in which a case ran at a commit of its own."""
    row = job.nights.begin({"main": sha("head")}, "machine")
    job.nights.end(row.id, [])
    cell = job.runs.get_or_create_cell(
        CellKey(branch="main", case=case, platform="a2a3sim", tolerance="default")
    )
    commit = sha(f"night {row.ordinal}")
    for verdict in verdicts:
        job.runs.add(row.id, cell.id, nightly_run(commit, verdict, revisions))
    result = CaseResult(
        status=status,
        commit=commit,
        content=commit,
        runs=len(verdicts),
        failures=verdicts.count(FAIL),
        verdict=verdicts[-1],
        signature=None,
        message="as it is",
    )
    job.results.set(row.id, cell.id, result)


def nightly_run(commit: str, verdict: Verdict, revisions: dict[str, str] | None = None) -> CaseRun:
    return CaseRun(
        started=datetime(2026, 3, 4, tzinfo=UTC),
        commit=commit,
        revisions=revisions or pinned_revisions(commit),
        content=commit,
        verdict=verdict,
        signature=None,
        metrics={},
        evidence=(),
        device=0,
        host="machine",
        build_source="built",
        build_seconds=1.0,
        run_seconds=1.0,
        fingerprint="f" * 64,
        environment=ENVIRONMENT,
        log="log",
    )


def remembered(stored: StoredBisection, **changes: object) -> EarlierRuns | None:
    request = BisectRequest.model_validate({**dict(stored.request), **changes})
    return earlier_runs(request, EarlierRunJournal(stored.sessions))


def test_a_bisection_of_the_case_tells_of_each_commit_by_the_side_of_its_culprit(tmp_path: Path) -> None:
    earlier = remembered(bisection(tmp_path))
    assert earlier is not None
    # The good end passed once, its successor twice; the culprit and the bad end failed, and passed once.
    once, twice = RunTally(failures=0, passes=1, commits=1), RunTally(failures=0, passes=2, commits=1)
    assert earlier == EarlierRuns(good=(once, twice), faults=FlakyShare(flaky=1, all=1))
    assert describe_earlier_runs(earlier) == (
        "The store knows earlier runs: 3 passes and 0 failures of good commits, and 1 fault, flaky. How sure "
        "the search is follows from these too."
    )


def test_another_case_of_the_stack_tells_how_many_are_flaky(tmp_path: Path) -> None:
    stored = bisection(tmp_path)
    earlier = remembered(stored, case="examples/matmul.py --rows 2")
    assert earlier == EarlierRuns(other_cases=FlakyShare(all=1), other_faults=FlakyShare(all=1))


def test_a_conclusion_of_a_later_version_tells_nothing(tmp_path: Path) -> None:
    stored = bisection(tmp_path)
    stored.journal.conclude(BisectionOutcome.CULPRIT, {"schema_version": 99})
    assert remembered(stored) is None


def test_a_fault_that_was_bisected_twice_is_one(tmp_path: Path) -> None:
    bisection(tmp_path)
    earlier = remembered(bisection(tmp_path, "two"))
    assert earlier is not None
    assert earlier.faults == FlakyShare(flaky=1, all=1)
    assert sum(tally.passes * tally.commits for tally in earlier.good) == 6


def test_a_record_of_a_later_version_tells_nothing(tmp_path: Path) -> None:
    stored = bisection(tmp_path)
    with stored.sessions.begin() as session:
        row = session.scalars(select(BisectionRow)).one()
        row.conclusion = {**(row.conclusion or {}), "of_a_later_version": True}
    assert remembered(stored) is None


def test_another_platform_or_another_kind_of_failure_tells_nothing(tmp_path: Path) -> None:
    stored = bisection(tmp_path)
    assert remembered(stored, platform="a5") is None
    assert remembered(stored, bad_when="stall") is None
    assert remembered(stored, bad_when="regex:off by one") is None
    assert remembered(stored, case=None) is None


def test_nights_tell_of_what_passed_and_was_flaky_and_not_of_what_had_regressed(tmp_path: Path) -> None:
    stored = StoredBisection(tmp_path, good=sha("good"), bad=sha("c"))
    job = JobJournal(stored.sessions, "job")
    for _ in range(3):
        night(job, CASE, CaseStatus.PASSED, [PASS])
    night(job, CASE, CaseStatus.FLAKY, [FAIL, PASS, Verdict.DEVICE_ERROR])
    night(job, CASE, CaseStatus.REGRESSED, [FAIL, FAIL])
    night(job, "examples/matmul.py", CaseStatus.FLAKY, [FAIL, PASS])
    assert remembered(stored) == EarlierRuns(
        good=(RunTally(failures=0, passes=1, commits=3), RunTally(failures=1, passes=1, commits=1)),
        other_cases=FlakyShare(flaky=1, all=1),
    )


def test_runs_that_did_not_have_the_repository_take_no_room_of_those_that_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("precision_bisect.store.bisections._MAX_RUNS", 2)
    stored = StoredBisection(tmp_path, good=sha("good"), bad=sha("c"))
    job = JobJournal(stored.sessions, "job")
    for verdicts in ([FAIL, PASS], [PASS, PASS]):
        night(job, CASE, CaseStatus.FLAKY, verdicts)
    for _ in range(3):
        night(job, CASE, CaseStatus.PASSED, [PASS], revisions={"another": sha("other")})
    earlier = remembered(stored)
    assert earlier is not None
    assert earlier.good == (RunTally(failures=0, passes=2, commits=1),), "the newest two of the repository"


def test_a_bisection_keeps_what_was_remembered_as_it_began_and_a_resume_searches_by_the_same(
    tmp_path: Path, home: Home
) -> None:
    stored = bisection(tmp_path)
    plan = Plan(name="new", is_named=True, request=stored.request, range=None, notices=())
    begun = session.StoredBisection.begin(plan, sessions=stored.sessions, home=home)
    bisection(tmp_path, "meanwhile")
    found = session.StoredBisection.find("new", sessions=stored.sessions, home=home)
    assert found.request.earlier_runs is not None
    assert found.request.earlier_runs.faults == FlakyShare(flaky=1, all=1)
    assert (
        engine_question(found.request).rates.weight.tolist()
        == engine_question(begun.request).rates.weight.tolist()
    )
    assert (
        engine_question(found.request).rates.weight.tolist()
        != engine_question(stored.request).rates.weight.tolist()
    )


def test_runs_of_a_bisection_that_asked_the_same_are_used_in_the_same_surroundings_and_on_the_same_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And then they say nothing of the case beside: they would count twice."""
    surroundings = {**ENVIRONMENT, "package torch": "2.2"}
    monkeypatch.setattr(EnvironmentReader, "read", lambda _: surroundings)
    stored, store = bisection(tmp_path), tmp_path / "golden"
    journal = EarlierRunJournal(stored.sessions)
    names = [sha(name) for name in "abc"]
    loaded = loaded_range(names, CommitGraph(line(3)), "nothing of it was run")
    contents = {name: content_key(pinned_revisions(name)) for name in names}
    loaded = replace(loaded, contents=contents, new_content=contents[sha("c")])
    asked = stored.request.model_copy(update={"output": tmp_path / "another", "confidence": 0.9})

    def before(request: BisectRequest = asked) -> ReusableBisections:
        return find_reusable_bisections(request, loaded, journal, golden_store=store)

    assert before() == ReusableBisections(), "no frozen data are shared"
    digest = freeze(golden_folder(tmp_path / "data"), store).digest
    stored.journal.set_golden(digest)
    assert before() == ReusableBisections(names=("one",), golden=digest)
    given = asked.model_copy(update={"golden_data": tmp_path / "data"})
    assert before(given) == before()
    torch.save(torch.ones(2), tmp_path / "data" / "in" / "x.pt")
    assert before(given) == ReusableBisections(), "other data"
    for other in (
        {"timeout": 9.0},
        {"device": 1},
        {"bad_when": "stall"},
        {"interactive": True},
        {"bad": sha("b")},
    ):
        assert before(asked.model_copy(update=other)) == ReusableBisections(), other
    reusing = asked.model_copy(update={"reuses": ("one",)})
    probes = reusable_probes(reusing, loaded, journal)
    assert [(probe.commit, probe.verdict) for probe in probes] == [
        (sha("c"), FAIL), (sha("a"), PASS), (sha("b"), FAIL), (sha("b"), PASS), (sha("a"), PASS)
    ], "of the range, and judged"  # fmt: skip
    assert earlier_runs(asked, journal) is not None
    assert earlier_runs(reusing, journal) is None
    surroundings["cpu"] = "another"
    assert before() == ReusableBisections()


def golden_folder(folder: Path) -> Path:
    for name, file in (("in", "x.pt"), ("out", "y.pt")):
        (folder / name).mkdir(parents=True)
        torch.save(torch.zeros(2), folder / name / file)
    return folder


def test_runs_with_other_variables_are_not_of_this_case(tmp_path: Path) -> None:
    stored = bisection(tmp_path)
    journal = EarlierRunJournal(stored.sessions)
    assert earlier_runs(stored.request, journal) is not None
    stack = stored.request.stack.add_case_variables({"MALLOC_PERTURB_": "165"})
    assert earlier_runs(stored.request.model_copy(update={"stack": stack}), journal) is None


def test_runs_after_other_cases_are_not_of_this_case(tmp_path: Path) -> None:
    stored = bisection(tmp_path)
    stack = stored.request.stack
    after = stack.model_copy(update={"case": stack.case.model_copy(update={"after": ("other.py",)})})
    request = stored.request.model_copy(update={"stack": after})
    assert earlier_runs(request, EarlierRunJournal(stored.sessions)) is None


def test_runs_with_other_names_are_not_of_this_case(tmp_path: Path) -> None:
    stored = bisection(tmp_path)
    rename = Rename(repository="compiler", commit=sha("x"), old="rows", new="lines")
    stack = stored.request.stack.model_copy(update={"renames": (rename,)})
    request = stored.request.model_copy(update={"stack": stack})
    assert earlier_runs(request, EarlierRunJournal(stored.sessions)) is None


def test_runs_with_other_files_laid_over_are_not_of_this_case(tmp_path: Path) -> None:
    stored = bisection(tmp_path)
    stack = stored.request.stack
    overlay = Overlay(path="examples/softmax.py", commit=sha("x"), object=sha("y"), revision="x")
    cases = stack.repositories["cases"].model_copy(update={"overlays": (overlay,)})
    own = stack.model_copy(update={"repositories": {**stack.repositories, "cases": cases}})
    request = stored.request.model_copy(update={"stack": own})
    assert earlier_runs(request, EarlierRunJournal(stored.sessions)) is None
