"""What a night comes to: one line for people, one exit code for schedulers."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from ...store.vocabulary import CaseStatus, Verdict
from ...store.words import plural
from .runs import FAILING
from .summary import CaseReport, NightReport

NEW_FAILURE = 7
"""Exit code of a night in which a case fails that passed before."""
KNOWN_FAILURE = 8
"""Exit code of a night in which cases fail, and none of them newly."""
NOT_RUN = 9
"""Exit code of a night in which a case could not be run, or not judged for its device or environment, and no case fails
newly; or of one in which nothing was judged."""

_JUDGED = FAILING | {Verdict.PASS}


class FailOn(StrEnum):
    """Which failures of cases make a night fail."""

    NEW = "new"
    ANY = "any"


def could_not_run(status: CaseStatus, verdict: Verdict | None) -> bool:
    """Whether a case was started and did not get as far as a result: misspelt, not collected, not built."""
    return status is CaseStatus.UNTESTED and verdict is not None and verdict not in _JUDGED


def without_result(status: CaseStatus, verdict: Verdict | None) -> bool:
    """Whether a case was started and nothing is known of it: it could not be run, or its device or environment is at
    fault."""
    return status is CaseStatus.INFRASTRUCTURE or could_not_run(status, verdict)


_ORDER = (
    CaseStatus.REGRESSED,
    CaseStatus.NEW,
    CaseStatus.KNOWN,
    CaseStatus.UNTESTED,
    CaseStatus.INFRASTRUCTURE,
    CaseStatus.FLAKY,
    CaseStatus.PASSED,
)


def severity(status: CaseStatus) -> int:
    """A key that sorts cells so that what fails comes first."""
    return _ORDER.index(status)


def failing_first(cases: Iterable[CaseReport]) -> list[CaseReport]:
    """The cases of a night, those that fail on top, else as they were."""
    return sorted(cases, key=lambda case: severity(case.status))


def exit_code(report: NightReport, *, fail_on: FailOn) -> int:
    """0 where cases were judged and nothing fails that counts; cases without a result count whatever `fail_on` says."""
    statuses = {case.status for case in report.cases}
    if CaseStatus.REGRESSED in statuses:
        return NEW_FAILURE
    judged = statuses - {CaseStatus.UNTESTED, CaseStatus.INFRASTRUCTURE}
    if not judged or any(without_result(case.status, case.verdict) for case in report.cases):
        return NOT_RUN
    if fail_on is FailOn.ANY and statuses & {CaseStatus.KNOWN, CaseStatus.NEW}:
        return KNOWN_FAILURE
    return 0


def night_line(counts: Mapping[CaseStatus, int], *, not_run: int, incidents: int) -> str:
    """A night in one line: its counts of cells, what fails first, and how many incidents are open.

    `not_run` are those of the untested cells that could not be run.

    >>> night_line({CaseStatus.PASSED: 7, CaseStatus.KNOWN: 2, CaseStatus.UNTESTED: 3}, not_run=1, incidents=1)
    '2 known, 3 untested (1 could not be run), 7 passed; 1 open incident'
    """
    unrun = {CaseStatus.UNTESTED: f" ({not_run} could not be run)"} if not_run else {}
    told = [f"{counts[status]} {status}{unrun.get(status, '')}" for status in _ORDER if counts.get(status)]
    opened = f"; {plural(incidents, 'open incident')}" if incidents else ""
    return f"{', '.join(told) or 'nothing was judged'}{opened}"
