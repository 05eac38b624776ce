"""One exit code and one line for a night, whatever its cases show."""

import pytest

from precision_bisect.bisect.nightly.night_report import (
    CaseReport,
    FailOn,
    NightReport,
    could_not_run,
    night_exit_code,
    sort_failing_first,
)
from precision_bisect.store.tables import now
from precision_bisect.store.vocabulary import CaseStatus, Verdict

S = CaseStatus


def case(status: CaseStatus, verdict: Verdict | None = None) -> CaseReport:
    return CaseReport(
        case="a.py", platform="sim", tolerance="default", branch="main", commit="a" * 40, status=status,
        verdict=verdict, signature=None, message="", runs=1, failures=0, seconds=1.0, incident=None, culprit=None,
    )  # fmt: skip


def night(*cases: CaseReport) -> NightReport:
    return NightReport(
        job="job", night=1, started=now(), finished=None, attempts=1, heads={}, cases=cases, incidents=(), notes=()
    )  # fmt: skip


MISSPELT = case(S.UNTESTED, Verdict.UNKNOWN)
NO_RUN_LEFT = case(S.UNTESTED)


@pytest.mark.parametrize(
    ("cases", "on_any", "on_new"),
    [
        (
            [case(S.PASSED), case(S.FLAKY), NO_RUN_LEFT],
            0,
            0,
        ),
        ([case(S.PASSED), case(S.INFRASTRUCTURE, Verdict.ENVIRONMENT_ERROR)], 9, 9),
        ([case(S.REGRESSED), case(S.INFRASTRUCTURE, Verdict.MISMATCH)], 7, 7),
        ([case(S.PASSED), case(S.KNOWN)], 8, 0),
        ([case(S.NEW)], 8, 0),
        ([], 9, 9),
        ([NO_RUN_LEFT], 9, 9),
        ([case(S.KNOWN), case(S.REGRESSED)], 7, 7),
        ([case(S.PASSED), MISSPELT], 9, 9),
        ([case(S.KNOWN), MISSPELT], 9, 9),
        ([case(S.REGRESSED), MISSPELT], 7, 7),
        ([case(S.PASSED), case(S.UNTESTED, Verdict.MISMATCH)], 9, 9),
    ],
)
def test_exit_codes(cases: list[CaseReport], on_any: int, on_new: int) -> None:
    assert night_exit_code(night(*cases), fail_on=FailOn.ANY) == on_any
    assert night_exit_code(night(*cases), fail_on=FailOn.NEW) == on_new


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [(None, False), (Verdict.BUILD_ERROR, True), (Verdict.NOT_VALIDATED, True), (Verdict.MISMATCH, False)],
)
def test_what_was_started_and_got_nowhere_could_not_run(verdict: Verdict | None, expected: bool) -> None:
    assert could_not_run(S.UNTESTED, verdict) is expected


def test_what_fails_stands_on_top() -> None:
    cases = [case(S.PASSED), case(S.KNOWN), case(S.REGRESSED), NO_RUN_LEFT]
    assert [each.status for each in sort_failing_first(cases)] == [S.REGRESSED, S.KNOWN, S.UNTESTED, S.PASSED]
