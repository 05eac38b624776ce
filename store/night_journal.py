"""A nightly job's hand on the store. Each method is one transaction, so a night that is killed goes on where it was."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session, joinedload, selectinload, sessionmaker

from .clock import now
from .commit import Commit
from .documents.document import write_document
from .documents.night_summary import NightSummary
from .journals.bisections import BisectionJournal
from .journals.shared_rows import commit_ids, environment_id, storable
from .tables.bisections import ProbeRow
from .tables.nights import (
    CaseResultRow,
    CaseRunRow,
    CellRow,
    HookCallRow,
    IncidentRow,
    NightRow,
    RegressionRow,
)
from .vocabulary import BuildSource, CaseStatus, Verdict


@dataclass(frozen=True, kw_only=True)
class CellKey:
    """Which cell of the matrix."""

    branch: str
    case: str
    platform: str
    tolerance: str


@dataclass(frozen=True, kw_only=True)
class CaseRun:
    """A finished run of a cell; fields as in `CaseRunRow`."""

    started: datetime
    commit: str
    revisions: Mapping[str, str]
    content: str
    verdict: Verdict
    signature: str | None
    metrics: Mapping[str, Mapping[str, float]]
    evidence: Sequence[str]
    device: int
    host: str
    build_source: str
    build_seconds: float
    run_seconds: float
    fingerprint: str
    environment: Mapping[str, str]
    log: str


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """What a night found of a cell; fields as in `CaseResultRow`."""

    status: CaseStatus
    commit: str
    content: str | None
    runs: int
    failures: int
    verdict: Verdict | None
    signature: str | None
    message: str
    same_as: int | None = None
    regression: int | None = None


class NightJournal:
    """One job's nights, cells, regressions and incidents. Rows come back detached."""

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self.job = job

    def begin_night(self, heads: Mapping[str, str], host: str) -> NightRow:
        """A new night."""
        with self._sessions.begin() as session:
            last = session.scalar(select(func.max(NightRow.ordinal)).where(NightRow.job == self.job))
            night = NightRow(
                job=self.job,
                ordinal=(last or 0) + 1,
                started=now(),
                finished=None,
                heads=dict(heads),
                host=host,
                summary=None,
            )
            session.add(night)
            session.flush()
            return night

    def add_commits(self, repository: str, commits: Sequence[Commit]) -> None:
        """Note what the heads of a night are, for its pages."""
        with self._sessions.begin() as session:
            commit_ids(session, repository, commits)

    def unfinished_night(self) -> NightRow | None:
        """The night that a kill or a reboot cut short, noted as started once more."""
        with self._sessions.begin() as session:
            query = select(NightRow).where(NightRow.job == self.job, NightRow.finished.is_(None))
            night = session.scalar(query.order_by(NightRow.ordinal.desc()).limit(1))
            if night is not None:
                night.attempts += 1
            return night

    def finish_night(self, night: int, notes: Sequence[str]) -> None:
        """Note that a night is over, and what was left undone."""
        with self._sessions.begin() as session:
            row = session.get_one(NightRow, night)
            row.finished = now()
            row.summary = write_document(NightSummary(notes=tuple(map(storable, notes))))

    def nights(self) -> list[NightRow]:
        """All nights, oldest first."""
        with self._sessions() as session:
            return list(
                session.scalars(select(NightRow).where(NightRow.job == self.job).order_by(NightRow.ordinal))
            )

    def cell(self, key: CellKey) -> CellRow:
        """The row of a cell, made where it is new."""
        with self._sessions.begin() as session:
            query = select(CellRow).where(
                CellRow.job == self.job,
                CellRow.branch == key.branch,
                CellRow.case == key.case,
                CellRow.platform == key.platform,
                CellRow.tolerance == key.tolerance,
            )
            cell = session.scalar(query)
            if cell is None:
                cell = CellRow(
                    job=self.job,
                    branch=key.branch,
                    case=key.case,
                    platform=key.platform,
                    tolerance=key.tolerance,
                )
                session.add(cell)
                session.flush()
            return cell

    def cells(self) -> list[CellRow]:
        """All cells that were ever run."""
        with self._sessions() as session:
            return list(session.scalars(select(CellRow).where(CellRow.job == self.job).order_by(CellRow.id)))

    def add_run(self, night: int, cell: int, row: CaseRun) -> CaseRunRow:
        """Note a finished run."""
        with self._sessions.begin() as session:
            query = select(func.max(CaseRunRow.run)).where(
                CaseRunRow.night_id == night, CaseRunRow.cell_id == cell
            )
            run = CaseRunRow(
                night_id=night,
                cell_id=cell,
                run=(session.scalar(query) or 0) + 1,
                started=row.started,
                finished=now(),
                commit=row.commit,
                revisions=dict(row.revisions),
                content=row.content,
                verdict=row.verdict,
                signature=None if row.signature is None else storable(row.signature),
                metrics={name: dict(values) for name, values in row.metrics.items()},
                evidence=[storable(line) for line in row.evidence],
                device=row.device,
                host=row.host,
                build_source=row.build_source,
                build_seconds=row.build_seconds,
                run_seconds=row.run_seconds,
                environment_id=environment_id(session, row.fingerprint, row.environment),
                log=row.log,
            )
            session.add(run)
            session.flush()
            return run

    def runs(self, night: int, cell: int) -> list[CaseRunRow]:
        """The runs of a cell in a night, in order."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(CaseRunRow.night_id == night, CaseRunRow.cell_id == cell)
            return list(
                session.scalars(query.options(joinedload(CaseRunRow.environment)).order_by(CaseRunRow.run))
            )

    def runs_of(self, regression: RegressionRow) -> list[CaseRunRow]:
        """The runs of a regression's cell since it was opened, in order, but those of its good end that were made to
        open it."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(
                CaseRunRow.cell_id == regression.cell_id,
                CaseRunRow.night_id >= regression.opened_night_id,
                or_(
                    CaseRunRow.night_id > regression.opened_night_id,
                    CaseRunRow.commit != regression.last_good,
                ),
            )
            return list(session.scalars(query.order_by(CaseRunRow.id)))

    def last_run(self, cell: int, content: str) -> CaseRunRow | None:
        """The newest run of a cell at some content, with its environment."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(CaseRunRow.cell_id == cell, CaseRunRow.content == content)
            query = query.options(joinedload(CaseRunRow.environment)).order_by(CaseRunRow.id.desc()).limit(1)
            return session.scalar(query)

    def passing_runs(self, cell: int) -> list[CaseRunRow]:
        """The runs of a cell that passed, newest first."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(CaseRunRow.cell_id == cell, CaseRunRow.verdict == Verdict.PASS)
            return list(session.scalars(query.order_by(CaseRunRow.id.desc())))

    def recent_runs(self, cell: int | None = None) -> list[CaseRunRow]:
        """The last hundred runs of a cell, or of the job."""
        with self._sessions() as session:
            query = select(CaseRunRow).join(CellRow).where(CellRow.job == self.job)
            if cell is not None:
                query = query.where(CaseRunRow.cell_id == cell)
            return list(session.scalars(query.order_by(CaseRunRow.id.desc()).limit(100)))

    def runs_since(self, moment: datetime) -> dict[str, int]:
        """How many runs began since then on each platform, those of bisections included.

        A run of the matrix that was cut short has left no trace.
        """
        matrix = (
            select(CellRow.platform, func.count(CaseRunRow.id))
            .join(CellRow)
            .where(CellRow.job == self.job, CaseRunRow.started >= moment)
            .group_by(CellRow.platform)
        )
        bisections = (
            select(CellRow.platform, func.count(ProbeRow.id.distinct()))
            .select_from(ProbeRow)
            .join(
                RegressionRow,
                or_(
                    RegressionRow.bisection_id == ProbeRow.bisection_id,
                    RegressionRow.fix_bisection_id == ProbeRow.bisection_id,
                ),
            )
            .join(CellRow)
            .where(CellRow.job == self.job, ProbeRow.started >= moment)
            .group_by(CellRow.platform)
        )
        used = Counter[str]()
        with self._sessions() as session:
            for query in (matrix, bisections):
                for platform, runs in session.execute(query):
                    used[platform] += runs
        return used

    def built_contents(self) -> frozenset[str]:
        """Whatever the store knows to have been built, by any job or bisection."""
        with self._sessions() as session:
            nights = select(CaseRunRow.content).where(CaseRunRow.build_source != BuildSource.NONE)
            probes = select(ProbeRow.content).where(
                ProbeRow.build_source.is_not(None), ProbeRow.build_source != BuildSource.NONE
            )
            return frozenset(session.scalars(nights.union(probes)))

    def set_result(self, night: int, cell: int, row: CaseResult) -> CaseResultRow:
        """Note what a night found of a cell; said again, the later word holds."""
        with self._sessions.begin() as session:
            result = _result_of(session, night, cell)
            if result is None:
                result = CaseResultRow(night_id=night, cell_id=cell)
                session.add(result)
            result.status = row.status
            result.commit = row.commit
            result.content = row.content
            result.runs = row.runs
            result.failures = row.failures
            result.verdict = row.verdict
            result.signature = None if row.signature is None else storable(row.signature)
            result.message = storable(row.message)
            result.same_as_id = row.same_as
            result.regression_id = row.regression
            session.flush()
            return result

    def result(self, night: int, cell: int) -> CaseResultRow | None:
        """What a night found of a cell."""
        with self._sessions() as session:
            return _result_of(session, night, cell)

    def results(self, night: int) -> list[CaseResultRow]:
        """All that a night found, with cells and regressions."""
        with self._sessions() as session:
            query = (
                select(CaseResultRow).where(CaseResultRow.night_id == night).order_by(CaseResultRow.cell_id)
            )
            options = (
                joinedload(CaseResultRow.cell),
                joinedload(CaseResultRow.regression).joinedload(RegressionRow.incident),
            )
            return list(session.scalars(query.options(*options)))

    def history(self, cell: int) -> list[CaseResultRow]:
        """What each night found of a cell, oldest first."""
        with self._sessions() as session:
            query = select(CaseResultRow).where(CaseResultRow.cell_id == cell)
            return list(session.scalars(query.order_by(CaseResultRow.night_id)))

    def open_regression(
        self, night: int, cell: int, *, last_good: str, first_bad: str, bad_when: str
    ) -> RegressionRow:
        """Note that a cell passed and now fails."""
        with self._sessions.begin() as session:
            row = RegressionRow(
                cell_id=cell,
                opened_night_id=night,
                last_good=last_good,
                first_bad=first_bad,
                last_bad=first_bad,
                bad_when=bad_when,
            )
            session.add(row)
            session.flush()
            return row

    def update_regression(self, regression: int, **fields: Any) -> None:
        """Set columns of a regression."""
        with self._sessions.begin() as session:
            row = session.get_one(RegressionRow, regression)
            for name, value in fields.items():
                setattr(row, name, value)

    def regression_of(self, cell: int) -> RegressionRow | None:
        """The regression of a cell that is still open, with its bisection."""
        with self._sessions() as session:
            query = (
                select(RegressionRow)
                .where(RegressionRow.cell_id == cell, RegressionRow.recovered_night_id.is_(None))
                .options(joinedload(RegressionRow.bisection))
            )
            return session.scalar(query.order_by(RegressionRow.id.desc()).limit(1))

    def open_regressions(self) -> list[RegressionRow]:
        """All that are still open, oldest first, with their cells."""
        with self._sessions() as session:
            query = (
                select(RegressionRow)
                .join(CellRow)
                .where(CellRow.job == self.job, RegressionRow.recovered_night_id.is_(None))
                .options(joinedload(RegressionRow.cell))
            )
            return list(session.scalars(query.order_by(RegressionRow.id)))

    def recovered_without_fix(self) -> list[RegressionRow]:
        """All that have recovered and whose fix is still looked for, oldest first, with their cells."""
        with self._sessions() as session:
            query = (
                select(RegressionRow)
                .join(CellRow)
                .where(
                    CellRow.job == self.job,
                    RegressionRow.recovered_night_id.is_not(None),
                    RegressionRow.fixed_by.is_(None),
                    RegressionRow.fix_problem.is_(None),
                )
                .options(joinedload(RegressionRow.cell))
            )
            return list(session.scalars(query.order_by(RegressionRow.id)))

    def join_incident(
        self,
        regression: int,
        *,
        night: int,
        bisection: int,
        repository: str,
        culprit: str,
        subject: str,
        confidence: float | None,
    ) -> int:
        """Put a regression into the open incident of its culprit, which is opened where there is none; its id."""
        with self._sessions.begin() as session:
            query = select(IncidentRow).where(
                IncidentRow.job == self.job,
                IncidentRow.repository == repository,
                IncidentRow.culprit == culprit,
                IncidentRow.closed_night_id.is_(None),
            )
            incident = session.scalar(query)
            if incident is None:
                last = session.scalar(
                    select(func.max(IncidentRow.ordinal)).where(IncidentRow.job == self.job)
                )
                incident = IncidentRow(
                    job=self.job,
                    ordinal=(last or 0) + 1,
                    repository=repository,
                    culprit=culprit,
                    subject=storable(subject),
                    confidence=confidence,
                    bisection_id=bisection,
                    opened_night_id=night,
                )
                session.add(incident)
                session.flush()
            row = session.get_one(RegressionRow, regression)
            row.incident_id = incident.id
            row.bisection_id = bisection
            row.problem = None
            return incident.id

    def close_incident(self, incident: int, *, night: int, fixed_by: str | None) -> None:
        """All its cases pass again; what fixed them may be named in a later night (`set_fix`)."""
        with self._sessions.begin() as session:
            row = session.get_one(IncidentRow, incident)
            row.closed_night_id = night
            row.fixed_by = fixed_by

    def set_fix(self, incident: int, fixed_by: str) -> None:
        """Note what fixed all cases of an incident."""
        with self._sessions.begin() as session:
            session.get_one(IncidentRow, incident).fixed_by = fixed_by

    def bisection(self, identity: int) -> BisectionJournal:
        """The journal of a bisection that a regression names."""
        return BisectionJournal(self._sessions, identity)

    def set_reduction(self, incident: int, folder: str) -> None:
        """Note where the incident's one reduction lies."""
        with self._sessions.begin() as session:
            session.get_one(IncidentRow, incident).reduction = folder

    def incidents(self, *, open_only: bool = False) -> list[IncidentRow]:
        """All incidents, oldest first, with regressions, cells, nights and bisection."""
        with self._sessions() as session:
            query = select(IncidentRow).where(IncidentRow.job == self.job)
            if open_only:
                query = query.where(IncidentRow.closed_night_id.is_(None))
            options = (
                selectinload(IncidentRow.regressions).joinedload(RegressionRow.cell),
                joinedload(IncidentRow.bisection),
                joinedload(IncidentRow.opened_night),
                joinedload(IncidentRow.closed_night),
            )
            return list(session.scalars(query.options(*options).order_by(IncidentRow.ordinal)))

    def add_hook_call(self, night: int, incident: int, event: str, exit_code: int) -> None:
        """Note that the hook was told of an event."""
        with self._sessions.begin() as session:
            session.add(
                HookCallRow(
                    night_id=night, incident_id=incident, event=event, called=now(), exit_code=exit_code
                )
            )

    def hook_calls(self, night: int) -> list[HookCallRow]:
        """The calls of a night."""
        with self._sessions() as session:
            query = select(HookCallRow).where(HookCallRow.night_id == night).order_by(HookCallRow.id)
            return list(session.scalars(query))


def _result_of(session: Session, night: int, cell: int) -> CaseResultRow | None:
    query = select(CaseResultRow).where(CaseResultRow.night_id == night, CaseResultRow.cell_id == cell)
    return session.scalar(query)
