"""A nightly job's hand on the store. Each method is one transaction, so a night that is killed goes on where it was."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload, selectinload, sessionmaker

from .clock import now
from .journal import CommitRow, Journal, commit_ids, environment_id, storable
from .nights_schema import CaseResult, CaseRun, Cell, HookCall, Incident, Night, Regression, Status
from .schema import Probe
from .vocabulary import BuildSource, Verdict


@dataclass(frozen=True, kw_only=True)
class CellKey:
    """Which cell of the matrix."""

    branch: str
    case: str
    platform: str
    tolerance: str


@dataclass(frozen=True, kw_only=True)
class CaseRunRow:
    """A finished run of a cell; fields as in `CaseRun`."""

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
class CaseResultRow:
    """What a night found of a cell; fields as in `CaseResult`."""

    status: Status
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

    def begin_night(self, heads: Mapping[str, str], host: str) -> Night:
        """A new night."""
        with self._sessions.begin() as session:
            last = session.scalar(select(func.max(Night.ordinal)).where(Night.job == self.job))
            night = Night(
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

    def add_commits(self, repository: str, commits: Sequence[CommitRow]) -> None:
        """Note what the heads of a night are, for its pages."""
        with self._sessions.begin() as session:
            commit_ids(session, repository, commits)

    def unfinished_night(self) -> Night | None:
        """The night that a kill or a reboot cut short, noted as started once more."""
        with self._sessions.begin() as session:
            query = select(Night).where(Night.job == self.job, Night.finished.is_(None))
            night = session.scalar(query.order_by(Night.ordinal.desc()).limit(1))
            if night is not None:
                night.attempts += 1
            return night

    def finish_night(self, night: int, notes: Sequence[str]) -> None:
        """Note that a night is over, and what was left undone."""
        with self._sessions.begin() as session:
            row = session.get_one(Night, night)
            row.finished = now()
            row.summary = {"notes": [storable(note) for note in notes]}

    def nights(self) -> list[Night]:
        """All nights, oldest first."""
        with self._sessions() as session:
            return list(session.scalars(select(Night).where(Night.job == self.job).order_by(Night.ordinal)))

    def cell(self, key: CellKey) -> Cell:
        """The row of a cell, made where it is new."""
        with self._sessions.begin() as session:
            query = select(Cell).where(
                Cell.job == self.job,
                Cell.branch == key.branch,
                Cell.case == key.case,
                Cell.platform == key.platform,
                Cell.tolerance == key.tolerance,
            )
            cell = session.scalar(query)
            if cell is None:
                cell = Cell(
                    job=self.job,
                    branch=key.branch,
                    case=key.case,
                    platform=key.platform,
                    tolerance=key.tolerance,
                )
                session.add(cell)
                session.flush()
            return cell

    def cells(self) -> list[Cell]:
        """All cells that were ever run."""
        with self._sessions() as session:
            return list(session.scalars(select(Cell).where(Cell.job == self.job).order_by(Cell.id)))

    def add_run(self, night: int, cell: int, row: CaseRunRow) -> CaseRun:
        """Note a finished run."""
        with self._sessions.begin() as session:
            query = select(func.max(CaseRun.run)).where(CaseRun.night_id == night, CaseRun.cell_id == cell)
            run = CaseRun(
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

    def runs(self, night: int, cell: int) -> list[CaseRun]:
        """The runs of a cell in a night, in order."""
        with self._sessions() as session:
            query = select(CaseRun).where(CaseRun.night_id == night, CaseRun.cell_id == cell)
            return list(session.scalars(query.options(joinedload(CaseRun.environment)).order_by(CaseRun.run)))

    def last_run(self, cell: int, content: str) -> CaseRun | None:
        """The newest run of a cell at some content, with its environment."""
        with self._sessions() as session:
            query = select(CaseRun).where(CaseRun.cell_id == cell, CaseRun.content == content)
            query = query.options(joinedload(CaseRun.environment)).order_by(CaseRun.id.desc()).limit(1)
            return session.scalar(query)

    def passing_runs(self, cell: int) -> list[CaseRun]:
        """The runs of a cell that passed, newest first."""
        with self._sessions() as session:
            query = select(CaseRun).where(CaseRun.cell_id == cell, CaseRun.verdict == Verdict.PASS)
            return list(session.scalars(query.order_by(CaseRun.id.desc())))

    def recent_runs(self, cell: int | None = None) -> list[CaseRun]:
        """The last hundred runs of a cell, or of the job."""
        with self._sessions() as session:
            query = select(CaseRun).join(Cell).where(Cell.job == self.job)
            if cell is not None:
                query = query.where(CaseRun.cell_id == cell)
            return list(session.scalars(query.order_by(CaseRun.id.desc()).limit(100)))

    def runs_since(self, moment: datetime) -> dict[str, int]:
        """How many runs began since then on each platform, those of bisections included. (One of the matrix that was
        cut short has left no trace.)"""
        matrix = (
            select(Cell.platform, func.count(CaseRun.id))
            .join(Cell)
            .where(Cell.job == self.job, CaseRun.started >= moment)
            .group_by(Cell.platform)
        )
        bisections = (
            select(Cell.platform, func.count(Probe.id.distinct()))
            .select_from(Probe)
            .join(Regression, Regression.bisection_id == Probe.bisection_id)
            .join(Cell)
            .where(Cell.job == self.job, Probe.started >= moment)
            .group_by(Cell.platform)
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
            nights = select(CaseRun.content).where(CaseRun.build_source != BuildSource.NONE)
            probes = select(Probe.content).where(
                Probe.build_source.is_not(None), Probe.build_source != BuildSource.NONE
            )
            return frozenset(session.scalars(nights.union(probes)))

    def set_result(self, night: int, cell: int, row: CaseResultRow) -> CaseResult:
        """Note what a night found of a cell; said again, the later word holds."""
        with self._sessions.begin() as session:
            result = _result_of(session, night, cell)
            if result is None:
                result = CaseResult(night_id=night, cell_id=cell)
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

    def result(self, night: int, cell: int) -> CaseResult | None:
        """What a night found of a cell."""
        with self._sessions() as session:
            return _result_of(session, night, cell)

    def results(self, night: int) -> list[CaseResult]:
        """All that a night found, with cells and regressions."""
        with self._sessions() as session:
            query = select(CaseResult).where(CaseResult.night_id == night).order_by(CaseResult.cell_id)
            options = (
                joinedload(CaseResult.cell),
                joinedload(CaseResult.regression).joinedload(Regression.incident),
            )
            return list(session.scalars(query.options(*options)))

    def history(self, cell: int) -> list[CaseResult]:
        """What each night found of a cell, oldest first."""
        with self._sessions() as session:
            query = select(CaseResult).where(CaseResult.cell_id == cell)
            return list(session.scalars(query.order_by(CaseResult.night_id)))

    def open_regression(
        self, night: int, cell: int, *, last_good: str, first_bad: str, bad_when: str
    ) -> Regression:
        """Note that a cell passed and now fails."""
        with self._sessions.begin() as session:
            row = Regression(
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
            row = session.get_one(Regression, regression)
            for name, value in fields.items():
                setattr(row, name, value)

    def regression_of(self, cell: int) -> Regression | None:
        """The regression of a cell that is still open."""
        with self._sessions() as session:
            query = select(Regression).where(
                Regression.cell_id == cell, Regression.recovered_night_id.is_(None)
            )
            return session.scalar(query.order_by(Regression.id.desc()).limit(1))

    def open_regressions(self) -> list[Regression]:
        """All that are still open, oldest first, with their cells."""
        with self._sessions() as session:
            query = (
                select(Regression)
                .join(Cell)
                .where(Cell.job == self.job, Regression.recovered_night_id.is_(None))
                .options(joinedload(Regression.cell))
            )
            return list(session.scalars(query.order_by(Regression.id)))

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
            query = select(Incident).where(
                Incident.job == self.job,
                Incident.repository == repository,
                Incident.culprit == culprit,
                Incident.closed_night_id.is_(None),
            )
            incident = session.scalar(query)
            if incident is None:
                last = session.scalar(select(func.max(Incident.ordinal)).where(Incident.job == self.job))
                incident = Incident(
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
            row = session.get_one(Regression, regression)
            row.incident_id = incident.id
            row.bisection_id = bisection
            row.problem = None
            return incident.id

    def close_incident(self, incident: int, *, night: int, fixed_by: str | None) -> None:
        """All its cases pass again."""
        with self._sessions.begin() as session:
            row = session.get_one(Incident, incident)
            row.closed_night_id = night
            row.fixed_by = fixed_by

    def bisection(self, identity: int) -> Journal:
        """The journal of a bisection that a regression names."""
        return Journal(self._sessions, identity)

    def set_reduction(self, incident: int, folder: str) -> None:
        """Note where the incident's one reduction lies."""
        with self._sessions.begin() as session:
            session.get_one(Incident, incident).reduction = folder

    def incidents(self, *, open_only: bool = False) -> list[Incident]:
        """All incidents, oldest first, with regressions, cells, nights and bisection."""
        with self._sessions() as session:
            query = select(Incident).where(Incident.job == self.job)
            if open_only:
                query = query.where(Incident.closed_night_id.is_(None))
            options = (
                selectinload(Incident.regressions).joinedload(Regression.cell),
                joinedload(Incident.bisection),
                joinedload(Incident.opened_night),
                joinedload(Incident.closed_night),
            )
            return list(session.scalars(query.options(*options).order_by(Incident.ordinal)))

    def add_hook_call(self, night: int, incident: int, event: str, exit_code: int) -> None:
        """Note that the hook was told of an event."""
        with self._sessions.begin() as session:
            session.add(
                HookCall(night_id=night, incident_id=incident, event=event, called=now(), exit_code=exit_code)
            )

    def hook_calls(self, night: int) -> list[HookCall]:
        """The calls of a night."""
        with self._sessions() as session:
            query = select(HookCall).where(HookCall.night_id == night).order_by(HookCall.id)
            return list(session.scalars(query))


def _result_of(session: Session, night: int, cell: int) -> CaseResult | None:
    query = select(CaseResult).where(CaseResult.night_id == night, CaseResult.cell_id == cell)
    return session.scalar(query)
