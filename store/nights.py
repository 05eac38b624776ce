"""The records of nightly jobs in the store: nights, runs, results, regressions and incidents.

A job has a matrix of cells. A cell is one case on one branch and platform, with one tolerance. `JobJournal` has the
journals of one job:

- `NightJournal` writes nights, and finds a night that was killed.
- `CaseRunJournal` writes cells and their finished runs.
- `CaseResultJournal` writes the result of each night for each cell.
- `RegressionJournal` writes regressions: cells that passed and then failed, until they recover.
- `IncidentJournal` groups the regressions that have the same culprit, until all of them have recovered.

The rows that the methods return are detached from their session.
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


class JobJournal:
    """The journals of one job, and queries that need several of them.

    Each method of a journal is one transaction. So a night that was killed can continue from the last one.
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
        """Return the number of runs since a moment on each platform, including the runs of bisections.

        A run of the matrix that was interrupted is not recorded, so it does not count.
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
        counts = Counter[str]()
        with self._sessions() as session:
            for query in (matrix, bisections):
                for platform, runs in session.execute(query):
                    counts[platform] += runs
        return counts

    def built_contents(self) -> frozenset[str]:
        """Return the content keys of all builds that any job or bisection has made or used."""
        with self._sessions() as session:
            nights = select(CaseRunRow.content).where(CaseRunRow.build_source != BuildSource.NONE)
            probes = select(ProbeRow.content).where(
                ProbeRow.build_source.is_not(None), ProbeRow.build_source != BuildSource.NONE
            )
            return frozenset(session.scalars(nights.union(probes)))

    def bisection(self, bisection_id: int) -> BisectionJournal:
        """Return the journal of a bisection."""
        return BisectionJournal(self._sessions, bisection_id)


class NightSummary(Document):
    """The summary of a night. Each note is a sentence that says what was not done, and why."""

    schema_version: Literal[1] = 1
    notes: tuple[str, ...] = ()


class NightJournal:
    """Writes and reads the nights of one job. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self._job = job

    def begin(self, heads: Mapping[str, str], host: str) -> NightRow:
        """Record that a night begins, with the head commit of each branch."""
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
        """Return the newest night that is not over, and count one more attempt at it; None if all are over.

        A kill or a reboot interrupted that night.
        """
        with self._sessions.begin() as session:
            query = select(NightRow).where(NightRow.job == self._job, NightRow.finished.is_(None))
            night = session.scalar(query.order_by(NightRow.ordinal.desc()).limit(1))
            if night is not None:
                night.attempts += 1
            return night

    def end(self, night_id: int, notes: Sequence[str]) -> None:
        """Record that a night is over. Each note says what was not done."""
        with self._sessions.begin() as session:
            row = session.get_one(NightRow, night_id)
            row.finished = now()
            row.summary = write_document(NightSummary(notes=tuple(map(storable_text, notes))))

    def add_notes(self, night_id: int, notes: Sequence[str]) -> bool:
        """Add notes to a night that is over. If it is not over, record nothing and return False."""
        with self._sessions.begin() as session:
            row = session.get_one(NightRow, night_id)
            if row.summary is None:
                return False
            known_notes = read_document(NightSummary, row.summary).notes
            new_notes = (note for note in map(storable_text, notes) if note not in known_notes)
            row.summary = write_document(NightSummary(notes=(*known_notes, *new_notes)))
            return True

    def all(self) -> list[NightRow]:
        """Return all nights, oldest first."""
        with self._sessions() as session:
            return list(
                session.scalars(select(NightRow).where(NightRow.job == self._job).order_by(NightRow.ordinal))
            )

    def add_hook_call(self, night_id: int, incident_id: int, event: str, exit_code: int) -> None:
        """Record that the hook was called for an event of an incident."""
        with self._sessions.begin() as session:
            session.add(
                HookCallRow(
                    night_id=night_id, incident_id=incident_id, event=event, called=now(), exit_code=exit_code
                )
            )

    def hook_calls(self, night_id: int) -> list[HookCallRow]:
        """Return the hook calls of a night, oldest first."""
        with self._sessions() as session:
            query = select(HookCallRow).where(HookCallRow.night_id == night_id).order_by(HookCallRow.id)
            return list(session.scalars(query))


@dataclass(frozen=True, kw_only=True)
class CellKey:
    """What identifies a cell in the matrix of its job."""

    branch: str
    case: str
    platform: str
    tolerance: str


@dataclass(frozen=True, kw_only=True)
class CaseRun:
    """A finished run of a cell. `CaseRunRow` explains the fields."""

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
    """Writes and reads the cells of one job and their runs. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self._job = job

    def get_or_create_cell(self, key: CellKey) -> CellRow:
        """Return the row of a cell. Insert it if it is missing."""
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

    def add(self, night_id: int, cell_id: int, run: CaseRun) -> CaseRunRow:
        """Record a finished run of a cell."""
        with self._sessions.begin() as session:
            query = select(func.max(CaseRunRow.run)).where(
                CaseRunRow.night_id == night_id, CaseRunRow.cell_id == cell_id
            )
            row = CaseRunRow(
                night_id=night_id,
                cell_id=cell_id,
                run=(session.scalar(query) or 0) + 1,
                started=run.started,
                finished=now(),
                commit=run.commit,
                revisions=dict(run.revisions),
                content=run.content,
                verdict=run.verdict,
                signature=None if run.signature is None else storable_text(run.signature),
                metrics={name: dict(values) for name, values in run.metrics.items()},
                evidence=[storable_text(line) for line in run.evidence],
                device=run.device,
                host=run.host,
                build_source=run.build_source,
                build_seconds=run.build_seconds,
                run_seconds=run.run_seconds,
                environment_id=get_or_create_environment(session, run.fingerprint, run.environment),
                log=run.log,
            )
            session.add(row)
            session.flush()
            return row

    def runs_in_night(self, night_id: int, cell_id: int) -> list[CaseRunRow]:
        """Return the runs of a cell in a night, oldest first, with their environments."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(CaseRunRow.night_id == night_id, CaseRunRow.cell_id == cell_id)
            return list(
                session.scalars(query.options(joinedload(CaseRunRow.environment)).order_by(CaseRunRow.run))
            )

    def runs_for_regression(self, regression: RegressionRow) -> list[CaseRunRow]:
        """Return the runs of a regression's cell since the night that opened it, oldest first.

        In that night the cell's last good commit also ran, to confirm the regression. These runs are left out.
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

    def last(self, cell_id: int, content: str) -> CaseRunRow | None:
        """Return the newest run of a cell with a content key, with its environment; None if there is none."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(CaseRunRow.cell_id == cell_id, CaseRunRow.content == content)
            query = query.options(joinedload(CaseRunRow.environment)).order_by(CaseRunRow.id.desc()).limit(1)
            return session.scalar(query)

    def passing_runs(self, cell_id: int) -> list[CaseRunRow]:
        """Return the runs of a cell that passed, newest first."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(
                CaseRunRow.cell_id == cell_id, CaseRunRow.verdict == Verdict.PASS
            )
            return list(session.scalars(query.order_by(CaseRunRow.id.desc())))

    def recent(self, cell_id: int | None = None) -> list[CaseRunRow]:
        """Return the last hundred runs of a cell, newest first. Without a cell, return those of the whole job."""
        with self._sessions() as session:
            query = select(CaseRunRow).join(CellRow).where(CellRow.job == self._job)
            if cell_id is not None:
                query = query.where(CaseRunRow.cell_id == cell_id)
            return list(session.scalars(query.order_by(CaseRunRow.id.desc()).limit(100)))


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """The result of a night for a cell. `CaseResultRow` explains the fields."""

    status: CaseStatus
    commit: str
    content: str | None
    runs: int
    failures: int
    verdict: Verdict | None
    signature: str | None
    message: str
    same_as_id: int | None = None
    regression_id: int | None = None


class CaseResultJournal:
    """Writes and reads the results of nights for cells. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def set(self, night_id: int, cell_id: int, result: CaseResult) -> CaseResultRow:
        """Record the result of a night for a cell. It replaces an earlier one."""
        with self._sessions.begin() as session:
            row = _find_result(session, night_id, cell_id)
            if row is None:
                row = CaseResultRow(night_id=night_id, cell_id=cell_id)
                session.add(row)
            row.status = result.status
            row.commit = result.commit
            row.content = result.content
            row.runs = result.runs
            row.failures = result.failures
            row.verdict = result.verdict
            row.signature = None if result.signature is None else storable_text(result.signature)
            row.message = storable_text(result.message)
            row.same_as_id = result.same_as_id
            row.regression_id = result.regression_id
            session.flush()
            return row

    def get(self, night_id: int, cell_id: int) -> CaseResultRow | None:
        """Return the result of a night for a cell; None if there is none yet."""
        with self._sessions() as session:
            return _find_result(session, night_id, cell_id)

    def results_in_night(self, night_id: int) -> list[CaseResultRow]:
        """Return all results of a night, with their cells, regressions and incidents."""
        with self._sessions() as session:
            query = (
                select(CaseResultRow)
                .where(CaseResultRow.night_id == night_id)
                .order_by(CaseResultRow.cell_id)
            )
            options = (
                joinedload(CaseResultRow.cell),
                joinedload(CaseResultRow.regression).joinedload(RegressionRow.incident),
            )
            return list(session.scalars(query.options(*options)))

    def last(self, cell_id: int) -> CaseResultRow | None:
        """Return the result of a cell in the newest night that has one."""
        with self._sessions() as session:
            query = select(CaseResultRow).where(CaseResultRow.cell_id == cell_id)
            return session.scalar(query.order_by(CaseResultRow.night_id.desc()).limit(1))


def _find_result(session: Session, night_id: int, cell_id: int) -> CaseResultRow | None:
    query = select(CaseResultRow).where(CaseResultRow.night_id == night_id, CaseResultRow.cell_id == cell_id)
    return session.scalar(query)


class RegressionFields(TypedDict, total=False):
    """The columns of `RegressionRow` that may be set after the regression was opened."""

    bisection_id: int | None
    problem: str
    last_bad: str
    recovered_night_id: int
    recovered_at: str
    fixed_by: str | None
    fix_bisection_id: int | None
    fix_problem: str


class RegressionJournal:
    """Writes and reads the regressions of one job. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self._job = job

    def open(
        self, night_id: int, cell_id: int, *, last_good: str, first_bad: str, bad_when: str
    ) -> RegressionRow:
        """Record a regression: a cell that passed at `last_good` and fails at `first_bad`."""
        with self._sessions.begin() as session:
            row = RegressionRow(
                cell_id=cell_id,
                opened_night_id=night_id,
                last_good=last_good,
                first_bad=first_bad,
                last_bad=first_bad,
                bad_when=bad_when,
            )
            session.add(row)
            session.flush()
            return row

    def update(self, regression_id: int, **fields: Unpack[RegressionFields]) -> None:
        """Set columns of a regression."""
        with self._sessions.begin() as session:
            row = session.get_one(RegressionRow, regression_id)
            for name, value in fields.items():
                setattr(row, name, value)

    def find_open(self, cell_id: int) -> RegressionRow | None:
        """Return the open regression of a cell, with its bisection; None if there is none."""
        with self._sessions() as session:
            query = (
                select(RegressionRow)
                .where(RegressionRow.cell_id == cell_id, RegressionRow.recovered_night_id.is_(None))
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
        """Return the recovered regressions whose fixing commit is still to be found, oldest first, with their cells."""
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


class IncidentJournal:
    """Writes and reads the incidents of one job. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self._job = job

    def add_regression(
        self,
        regression_id: int,
        *,
        night_id: int,
        bisection_id: int,
        repository: str,
        culprit: str,
        subject: str,
        confidence: float | None,
    ) -> int:
        """Add a regression to the open incident of its culprit, and return the incident's id.

        Open an incident if the culprit has none. Set the regression's bisection, and clear its problem.
        """
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
                    bisection_id=bisection_id,
                    opened_night_id=night_id,
                )
                session.add(incident)
                session.flush()
            row = session.get_one(RegressionRow, regression_id)
            row.incident_id = incident.id
            row.bisection_id = bisection_id
            row.problem = None
            return incident.id

    def close(self, incident_id: int, *, night_id: int, fixed_by: str | None) -> None:
        """Close an incident whose cases all pass again. A later night may record the fix with `set_fix`."""
        with self._sessions.begin() as session:
            row = session.get_one(IncidentRow, incident_id)
            row.closed_night_id = night_id
            row.fixed_by = fixed_by

    def set_fix(self, incident_id: int, fixed_by: str) -> None:
        """Record the commit that fixed all cases of an incident."""
        with self._sessions.begin() as session:
            session.get_one(IncidentRow, incident_id).fixed_by = fixed_by

    def set_reduction(self, incident_id: int, folder: str) -> None:
        """Record the folder of an incident's reduction. Each incident has at most one."""
        with self._sessions.begin() as session:
            session.get_one(IncidentRow, incident_id).reduction = folder

    def all(self, *, open_only: bool = False) -> list[IncidentRow]:
        """Return all incidents, oldest first, with their regressions, cells, nights and bisections.

        With `open_only`, return only those that are not closed.
        """
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


def earlier_incidents(incident: IncidentRow, incidents: Iterable[IncidentRow]) -> tuple[int, ...]:
    """Return the numbers of earlier incidents of the job with the same culprit, oldest first.

    All of them are closed, because a culprit has at most one open incident.
    """
    return tuple(
        sorted(
            each.ordinal
            for each in incidents
            if each.ordinal < incident.ordinal
            and (each.job, each.repository, each.culprit)
            == (incident.job, incident.repository, incident.culprit)
        )
    )
