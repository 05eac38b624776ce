"""What a night says to machines: `night.json`, made from the store alone.

python -m precision_bisect.bisect.nightly.summary > docs/nightly.schema.json
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from ...runner.stack.parts import Model
from ...runner.workspace.home import command_line
from ...store.documents.document import Document, read_document
from ...store.documents.json_schema import published_schema
from ...store.documents.night_summary import NightSummary
from ...store.documents.versions import without_format
from ...store.journals.nightly.incidents import earlier_incidents
from ...store.journals.nightly.job import JobJournal
from ...store.tables.nights import CaseResultRow, IncidentRow, NightRow, RegressionRow
from ...store.vocabulary import CaseStatus, Verdict
from .runs import log_of


class CaseReport(Model):
    """What a night found of one cell. `runs` is 0 where an earlier night's result was taken."""

    case: str
    platform: str
    tolerance: str
    branch: str
    commit: str
    status: CaseStatus
    verdict: Verdict | None
    signature: str | None
    message: str
    runs: int
    failures: int
    seconds: float
    """Of its builds and runs tonight."""
    incident: int | None
    culprit: str | None
    log: str | None = None
    """Path of the log that `message` is taken from; null where the cell passed, or was not run tonight."""

    @property
    def told(self) -> str:
        """What the night says of the cell, and where more is."""
        return self.message if self.log is None else f"{self.message}; log: {self.log}"


class IncidentCase(Model):
    """A cell of an incident."""

    case: str
    platform: str
    tolerance: str
    branch: str
    last_good: str
    first_bad: str
    passes_again: bool


class IncidentReport(Model):
    """Regressions with one culprit. `number` counts in the job."""

    number: int
    event: str | None
    """`opened` or `closed` in this night."""
    open: bool
    repository: str
    culprit: str
    subject: str
    confidence: float | None
    bisection: str
    opened_night: int
    closed_night: int | None
    fixed_by: str | None
    earlier: tuple[int, ...] = ()
    """Numbers of closed incidents of the same culprit, which came back."""
    cases: tuple[IncidentCase, ...]

    @property
    def more(self) -> str:
        """The command that shows its bisection."""
        return command_line(["bisect-precision", "history", self.bisection])


class NightReport(Document):
    """One night. `incidents` are those that are open, and those that this night closed."""

    upgrades = (without_format,)
    schema_version: Literal[2] = 2
    job: str
    night: int
    started: datetime
    finished: datetime | None
    attempts: int
    heads: dict[str, str]
    cases: tuple[CaseReport, ...]
    incidents: tuple[IncidentReport, ...]
    notes: tuple[str, ...]


class HookReport(Document):
    """What a hook gets: an event and its incident."""

    upgrades = (without_format,)
    schema_version: Literal[2] = 2
    job: str
    night: int
    incident: IncidentReport


def night_report(journal: JobJournal, night: NightRow) -> NightReport:
    """The report of a night as the store has it now."""
    every = journal.incidents.all()
    incidents = [
        incident_report(incident, night, every)
        for incident in every
        if incident.closed_night_id in (None, night.id)
    ]
    summary = read_document(NightSummary, night.summary or {})
    return NightReport(
        job=journal.job,
        night=night.ordinal,
        started=night.started,
        finished=night.finished,
        attempts=night.attempts,
        heads=dict(night.heads),
        cases=tuple(_case(journal, result) for result in journal.results.of_night(night.id)),
        incidents=tuple(incidents),
        notes=summary.notes,
    )


def incident_report(incident: IncidentRow, night: NightRow, every: Iterable[IncidentRow]) -> IncidentReport:
    """One incident, as a night sees it; `every` are those of its job."""
    event = None
    if incident.closed_night_id == night.id:
        event = "closed"
    elif incident.opened_night_id == night.id:
        event = "opened"
    return IncidentReport(
        number=incident.ordinal,
        event=event,
        open=incident.closed_night_id is None,
        repository=incident.repository,
        culprit=incident.culprit,
        subject=incident.subject,
        confidence=incident.confidence,
        bisection=incident.bisection.name,
        opened_night=incident.opened_night.ordinal,
        closed_night=incident.closed_night.ordinal if incident.closed_night else None,
        fixed_by=incident.fixed_by,
        earlier=earlier_incidents(incident, every),
        cases=tuple(_incident_case(regression) for regression in incident.regressions),
    )


def _incident_case(regression: RegressionRow) -> IncidentCase:
    cell = regression.cell
    return IncidentCase(
        case=cell.case,
        platform=cell.platform,
        tolerance=cell.tolerance,
        branch=cell.branch,
        last_good=regression.last_good,
        first_bad=regression.first_bad,
        passes_again=regression.recovered_night_id is not None,
    )


def _case(journal: JobJournal, result: CaseResultRow) -> CaseReport:
    cell, regression = result.cell, result.regression
    incident = regression.incident if regression else None
    runs = journal.runs.of_night(result.night_id, result.cell_id)
    return CaseReport(
        case=cell.case,
        platform=cell.platform,
        tolerance=cell.tolerance,
        branch=cell.branch,
        commit=result.commit,
        status=result.status,
        verdict=result.verdict,
        signature=result.signature,
        message=result.message,
        runs=result.runs,
        failures=result.failures,
        seconds=round(sum(run.build_seconds + run.run_seconds for run in runs), 3),
        incident=incident.ordinal if incident else None,
        culprit=f"{incident.repository} {incident.culprit}" if incident else None,
        log=log_of(result, runs),
    )


def schema_text() -> str:
    """The schema of what `night.json` holds."""
    return published_schema(NightReport)


if __name__ == "__main__":
    print(schema_text(), end="")
