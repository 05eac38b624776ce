"""What a store remembers of a case: nights and bisections, by what their commits were taken for."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from precision_bisect.bisect.plan.earlier_runs import earlier_runs, told
from precision_bisect.bisect.plan.question import Plan
from precision_bisect.bisect.plan.request import BisectRequest
from precision_bisect.bisect.result import Conclusion, EndRate, NamedCommit
from precision_bisect.bisect.run import session
from precision_bisect.bisect.run.driven import question_of
from precision_bisect.bisect.search.model.learned_rates import EarlierRuns, FlakyShare, RunTally
from precision_bisect.runner.stack.parts import Overlay, Rename
from precision_bisect.runner.workspace.home import Home
from precision_bisect.store.journals.earlier_runs import EarlierRunJournal
from precision_bisect.store.journals.nightly.case_results import CaseResult
from precision_bisect.store.journals.nightly.case_runs import CaseRun, CellKey
from precision_bisect.store.journals.nightly.job import JobJournal
from precision_bisect.store.vocabulary import BisectionOutcome, CaseStatus, Verdict
from tests.bisect.report.stored_bisection import (
    ENVIRONMENT,
    StoredBisection,
    described,
    pinned_revisions,
    sha,
)

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


def night(job: JobJournal, case: str, status: CaseStatus, verdicts: Sequence[Verdict]) -> None:
    """A night in which a case ran at a commit of its own."""
    row = job.nights.begin({"main": sha("head")}, "machine")
    job.nights.finish(row.id, [])
    cell = job.runs.cell(CellKey(branch="main", case=case, platform="a2a3sim", tolerance="default"))
    commit = sha(f"night {row.ordinal}")
    for verdict in verdicts:
        job.runs.add(row.id, cell.id, nightly_run(commit, verdict))
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


def nightly_run(commit: str, verdict: Verdict) -> CaseRun:
    return CaseRun(
        started=datetime(2026, 3, 4, tzinfo=UTC),
        commit=commit,
        revisions=pinned_revisions(commit),
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
    assert told(earlier) == (
        "earlier runs of this case: 3 passes, 0 failures at commits taken for good, 1 fault, 1 of which passed at "
        "times; the search began from that"
    )


def test_another_case_of_the_stack_tells_how_many_are_flaky(tmp_path: Path) -> None:
    stored = bisection(tmp_path)
    earlier = remembered(stored, case="examples/matmul.py --rows 2")
    assert earlier == EarlierRuns(other_cases=FlakyShare(all=1), other_faults=FlakyShare(all=1))


def test_a_fault_that_was_bisected_twice_is_one(tmp_path: Path) -> None:
    bisection(tmp_path)
    earlier = remembered(bisection(tmp_path, "two"))
    assert earlier is not None
    assert earlier.faults == FlakyShare(flaky=1, all=1)
    assert sum(tally.passes * tally.commits for tally in earlier.good) == 6


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
        question_of(found.request).rates.weight.tolist() == question_of(begun.request).rates.weight.tolist()
    )
    assert (
        question_of(found.request).rates.weight.tolist() != question_of(stored.request).rates.weight.tolist()
    )


def test_runs_with_other_variables_are_not_of_this_case(tmp_path: Path) -> None:
    stored = bisection(tmp_path)
    journal = EarlierRunJournal(stored.sessions)
    assert earlier_runs(stored.request, journal) is not None
    stack = stored.request.stack.with_case_variables({"MALLOC_PERTURB_": "165"})
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
