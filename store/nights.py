"""Nightly jobs in the store: what they run, what they find, and what they follow from night to night.

`JobJournal` has the journals of one job. `NightJournal` writes nights, and continues one that was killed.
`CaseRunJournal` writes the cells of the matrix and their finished runs, and `CaseResultJournal` what each night found.
`RegressionJournal` follows cells that passed and then failed, until they recover. `IncidentJournal` groups regressions
with one culprit, until all of them have recovered.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict, Unpack

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session, joinedload, selectinload, sessionmaker

from .bisections import BisectionJournal, CommitJournal, get_or_create_environment, storable_text
from .durable_files import Document, read_document, write_document
from .tables import (
    CaseResultRow,
    CaseRunRow,
    CellRow,
    HookCallRow,
    IncidentRow,
    NightRow,
    ProbeRow,
    RegressionRow,
    now,
)
from .vocabulary import BuildSource, CaseStatus, Verdict


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """The result of a night for a cell; fields as in `CaseResultRow`."""

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


class CaseResultJournal:
    """Writes the results of nights for cells, and reads them back, detached. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def set(self, night: int, cell: int, found: CaseResult) -> CaseResultRow:
        """Record the result of a night for a cell. A later call replaces it."""
        with self._sessions.begin() as session:
            result = _result_of(session, night, cell)
            if result is None:
                result = CaseResultRow(night_id=night, cell_id=cell)
                session.add(result)
            result.status = found.status
            result.commit = found.commit
            result.content = found.content
            result.runs = found.runs
            result.failures = found.failures
            result.verdict = found.verdict
            result.signature = None if found.signature is None else storable_text(found.signature)
            result.message = storable_text(found.message)
            result.same_as_id = found.same_as
            result.regression_id = found.regression
            session.flush()
            return result

    def get(self, night: int, cell: int) -> CaseResultRow | None:
        """Return the result of a night for a cell."""
        with self._sessions() as session:
            return _result_of(session, night, cell)

    def results_in_night(self, night: int) -> list[CaseResultRow]:
        """Return all results of a night, with cells and regressions."""
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
        """Return the results of all nights for a cell, oldest first."""
        with self._sessions() as session:
            query = select(CaseResultRow).where(CaseResultRow.cell_id == cell)
            return list(session.scalars(query.order_by(CaseResultRow.night_id)))


def _result_of(session: Session, night: int, cell: int) -> CaseResultRow | None:
    query = select(CaseResultRow).where(CaseResultRow.night_id == night, CaseResultRow.cell_id == cell)
    return session.scalar(query)


@dataclass(frozen=True, kw_only=True)
class CellKey:
    """Identifies a cell of the matrix."""

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


class CaseRunJournal:
    """Writes the cells of one job and their runs, and reads them back, detached. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self._job = job

    def get_or_create_cell(self, key: CellKey) -> CellRow:
        """Return the row of a cell. Inserts the row if it is missing."""
        with self._sessions.begin() as session:
            query = select(CellRow).where(
                CellRow.job == self._job,
                CellRow.branch == key.branch,
                CellRow.case == key.case,
                CellRow.platform == key.platform,
                CellRow.tolerance == key.tolerance,
            )
            cell = session.scalar(query)
            if cell is None:
                cell = CellRow(
                    job=self._job,
                    branch=key.branch,
                    case=key.case,
                    platform=key.platform,
                    tolerance=key.tolerance,
                )
                session.add(cell)
                session.flush()
            return cell

    def add(self, night: int, cell: int, finished_run: CaseRun) -> CaseRunRow:
        """Record a finished run."""
        with self._sessions.begin() as session:
            query = select(func.max(CaseRunRow.run)).where(
                CaseRunRow.night_id == night, CaseRunRow.cell_id == cell
            )
            run = CaseRunRow(
                night_id=night,
                cell_id=cell,
                run=(session.scalar(query) or 0) + 1,
                started=finished_run.started,
                finished=now(),
                commit=finished_run.commit,
                revisions=dict(finished_run.revisions),
                content=finished_run.content,
                verdict=finished_run.verdict,
                signature=None if finished_run.signature is None else storable_text(finished_run.signature),
                metrics={name: dict(values) for name, values in finished_run.metrics.items()},
                evidence=[storable_text(line) for line in finished_run.evidence],
                device=finished_run.device,
                host=finished_run.host,
                build_source=finished_run.build_source,
                build_seconds=finished_run.build_seconds,
                run_seconds=finished_run.run_seconds,
                environment_id=get_or_create_environment(
                    session, finished_run.fingerprint, finished_run.environment
                ),
                log=finished_run.log,
            )
            session.add(run)
            session.flush()
            return run

    def runs_in_night(self, night: int, cell: int) -> list[CaseRunRow]:
        """Return the runs of a cell in a night, in order."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(CaseRunRow.night_id == night, CaseRunRow.cell_id == cell)
            return list(
                session.scalars(query.options(joinedload(CaseRunRow.environment)).order_by(CaseRunRow.run))
            )

    def runs_for_regression(self, regression: RegressionRow) -> list[CaseRunRow]:
        """Return the runs of a regression's cell since it was opened, in order.

        Runs of its good end that were made to open it are left out.
        """
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

    def last(self, cell: int, content: str) -> CaseRunRow | None:
        """Return the newest run of a cell at some content, with its environment."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(CaseRunRow.cell_id == cell, CaseRunRow.content == content)
            query = query.options(joinedload(CaseRunRow.environment)).order_by(CaseRunRow.id.desc()).limit(1)
            return session.scalar(query)

    def passing_runs(self, cell: int) -> list[CaseRunRow]:
        """Return the runs of a cell that passed, newest first."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(CaseRunRow.cell_id == cell, CaseRunRow.verdict == Verdict.PASS)
            return list(session.scalars(query.order_by(CaseRunRow.id.desc())))

    def recent(self, cell: int | None = None) -> list[CaseRunRow]:
        """Return the last hundred runs of a cell, or of the job."""
        with self._sessions() as session:
            query = select(CaseRunRow).join(CellRow).where(CellRow.job == self._job)
            if cell is not None:
                query = query.where(CaseRunRow.cell_id == cell)
            return list(session.scalars(query.order_by(CaseRunRow.id.desc()).limit(100)))


def earlier_incidents(incident: IncidentRow, every: Iterable[IncidentRow]) -> tuple[int, ...]:
    """Return the numbers of the job's earlier, closed incidents with the same culprit, oldest first."""
    return tuple(
        sorted(
            each.ordinal
            for each in every
            if each.ordinal < incident.ordinal
            and (each.job, each.repository, each.culprit)
            == (incident.job, incident.repository, incident.culprit)
        )
    )


class IncidentJournal:
    """Writes the incidents of one job and reads them back, detached. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self._job = job

    def join(
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
        """Add a regression to the open incident of its culprit, which is made if missing; return its id."""
        with self._sessions.begin() as session:
            query = select(IncidentRow).where(
                IncidentRow.job == self._job,
                IncidentRow.repository == repository,
                IncidentRow.culprit == culprit,
                IncidentRow.closed_night_id.is_(None),
            )
            incident = session.scalar(query)
            if incident is None:
                last = session.scalar(
                    select(func.max(IncidentRow.ordinal)).where(IncidentRow.job == self._job)
                )
                incident = IncidentRow(
                    job=self._job,
                    ordinal=(last or 0) + 1,
                    repository=repository,
                    culprit=culprit,
                    subject=storable_text(subject),
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

    def close(self, incident: int, *, night: int, fixed_by: str | None) -> None:
        """Close an incident, all of whose cases pass again. A later night may name the fix (`set_fix`)."""
        with self._sessions.begin() as session:
            row = session.get_one(IncidentRow, incident)
            row.closed_night_id = night
            row.fixed_by = fixed_by

    def set_fix(self, incident: int, fixed_by: str) -> None:
        """Record what fixed all cases of an incident."""
        with self._sessions.begin() as session:
            session.get_one(IncidentRow, incident).fixed_by = fixed_by

    def set_reduction(self, incident: int, folder: str) -> None:
        """Record the folder of the incident's one reduction."""
        with self._sessions.begin() as session:
            session.get_one(IncidentRow, incident).reduction = folder

    def all(self, *, open_only: bool = False) -> list[IncidentRow]:
        """Return all incidents, oldest first, with regressions, cells, nights and bisection."""
        with self._sessions() as session:
            query = select(IncidentRow).where(IncidentRow.job == self._job)
            if open_only:
                query = query.where(IncidentRow.closed_night_id.is_(None))
            options = (
                selectinload(IncidentRow.regressions).joinedload(RegressionRow.cell),
                joinedload(IncidentRow.bisection),
                joinedload(IncidentRow.opened_night),
                joinedload(IncidentRow.closed_night),
            )
            return list(session.scalars(query.options(*options).order_by(IncidentRow.ordinal)))


class NightSummary(Document):
    """The summary of a night. `notes` say what was left undone and why, one sentence each."""

    schema_version: Literal[1] = 1
    notes: tuple[str, ...] = ()


class NightJournal:
    """Writes the nights of one job and reads them back, detached. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self._job = job

    def begin(self, heads: Mapping[str, str], host: str) -> NightRow:
        """Record a new night."""
        with self._sessions.begin() as session:
            last = session.scalar(select(func.max(NightRow.ordinal)).where(NightRow.job == self._job))
            night = NightRow(
                job=self._job,
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

    def resume_unfinished(self) -> NightRow | None:
        """Return the night that a kill or a reboot cut short, after counting one more start of it."""
        with self._sessions.begin() as session:
            query = select(NightRow).where(NightRow.job == self._job, NightRow.finished.is_(None))
            night = session.scalar(query.order_by(NightRow.ordinal.desc()).limit(1))
            if night is not None:
                night.attempts += 1
            return night

    def finish(self, night: int, notes: Sequence[str]) -> None:
        """Record that a night is over, and what was left undone."""
        with self._sessions.begin() as session:
            row = session.get_one(NightRow, night)
            row.finished = now()
            row.summary = write_document(NightSummary(notes=tuple(map(storable_text, notes))))

    def add_notes(self, night: int, notes: Sequence[str]) -> bool:
        """Add notes to a night that is over. Return False, and record nothing, where it is not over."""
        with self._sessions.begin() as session:
            row = session.get_one(NightRow, night)
            if row.summary is None:
                return False
            known_notes = read_document(NightSummary, row.summary).notes
            added = (note for note in map(storable_text, notes) if note not in known_notes)
            row.summary = write_document(NightSummary(notes=(*known_notes, *added)))
            return True

    def all(self) -> list[NightRow]:
        """Return all nights, oldest first."""
        with self._sessions() as session:
            return list(
                session.scalars(select(NightRow).where(NightRow.job == self._job).order_by(NightRow.ordinal))
            )

    def add_hook_call(self, night: int, incident: int, event: str, exit_code: int) -> None:
        """Record that the hook was called for an event."""
        with self._sessions.begin() as session:
            session.add(
                HookCallRow(
                    night_id=night, incident_id=incident, event=event, called=now(), exit_code=exit_code
                )
            )

    def hook_calls(self, night: int) -> list[HookCallRow]:
        """Return the hook calls of a night."""
        with self._sessions() as session:
            query = select(HookCallRow).where(HookCallRow.night_id == night).order_by(HookCallRow.id)
            return list(session.scalars(query))


class RegressionFields(TypedDict, total=False):
    """The columns of a regression that are set after it was opened, as in `RegressionRow`."""

    bisection_id: int | None
    problem: str
    last_bad: str
    recovered_night_id: int
    recovered_at: str
    fixed_by: str | None
    fix_bisection_id: int | None
    fix_problem: str


class RegressionJournal:
    """Writes the regressions of one job and reads them back, detached. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self._job = job

    def open(self, night: int, cell: int, *, last_good: str, first_bad: str, bad_when: str) -> RegressionRow:
        """Record that a cell passed and now fails."""
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

    def update(self, regression: int, **fields: Unpack[RegressionFields]) -> None:
        """Set columns of a regression."""
        with self._sessions.begin() as session:
            row = session.get_one(RegressionRow, regression)
            for name, value in fields.items():
                setattr(row, name, value)

    def find_open(self, cell: int) -> RegressionRow | None:
        """Return the open regression of a cell, with its bisection."""
        with self._sessions() as session:
            query = (
                select(RegressionRow)
                .where(RegressionRow.cell_id == cell, RegressionRow.recovered_night_id.is_(None))
                .options(joinedload(RegressionRow.bisection))
            )
            return session.scalar(query.order_by(RegressionRow.id.desc()).limit(1))

    def all_open(self) -> list[RegressionRow]:
        """Return all open regressions, oldest first, with their cells."""
        with self._sessions() as session:
            query = (
                select(RegressionRow)
                .join(CellRow)
                .where(CellRow.job == self._job, RegressionRow.recovered_night_id.is_(None))
                .options(joinedload(RegressionRow.cell))
            )
            return list(session.scalars(query.order_by(RegressionRow.id)))

    def find_unfixed(self) -> list[RegressionRow]:
        """Return all recovered regressions whose fix is still being searched, oldest first, with their cells."""
        with self._sessions() as session:
            query = (
                select(RegressionRow)
                .join(CellRow)
                .where(
                    CellRow.job == self._job,
                    RegressionRow.recovered_night_id.is_not(None),
                    RegressionRow.fixed_by.is_(None),
                    RegressionRow.fix_problem.is_(None),
                )
                .options(joinedload(RegressionRow.cell))
            )
            return list(session.scalars(query.order_by(RegressionRow.id)))


class JobJournal:
    """The journals of one job, and queries across several of them.

    Each of their methods is one transaction, so a night that is killed continues where it was.
    """

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self.job = job
        self.nights = NightJournal(sessions, job)
        self.runs = CaseRunJournal(sessions, job)
        self.results = CaseResultJournal(sessions)
        self.regressions = RegressionJournal(sessions, job)
        self.incidents = IncidentJournal(sessions, job)
        self.commits = CommitJournal(sessions)

    def runs_since(self, moment: datetime) -> dict[str, int]:
        """Return the number of runs since then on each platform, including those of bisections.

        A run of the matrix that was cut short is not recorded.
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
        """Return all contents that any job or bisection has built."""
        with self._sessions() as session:
            nights = select(CaseRunRow.content).where(CaseRunRow.build_source != BuildSource.NONE)
            probes = select(ProbeRow.content).where(
                ProbeRow.build_source.is_not(None), ProbeRow.build_source != BuildSource.NONE
            )
            return frozenset(session.scalars(nights.union(probes)))

    def bisection(self, identity: int) -> BisectionJournal:
        """Return the journal of a bisection that a regression names."""
        return BisectionJournal(self._sessions, identity)
