"""What was run in a night: the cells of the matrix, and the finished runs of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session, joinedload, sessionmaker

from ...clock import now
from ...tables.nights import (
    CaseRunRow,
    CellRow,
    RegressionRow,
)
from ...vocabulary import Verdict
from ..shared_rows import environment_id, storable


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


class CaseRunJournal:
    """Writes the cells of one job and their runs, and reads them back, detached. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self._job = job

    def cell(self, key: CellKey) -> CellRow:
        """The row of a cell, made where it is new."""
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

    def add(self, night: int, cell: int, row: CaseRun) -> CaseRunRow:
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

    def of_night(self, night: int, cell: int) -> list[CaseRunRow]:
        """The runs of a cell in a night, in order."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(CaseRunRow.night_id == night, CaseRunRow.cell_id == cell)
            return list(
                session.scalars(query.options(joinedload(CaseRunRow.environment)).order_by(CaseRunRow.run))
            )

    def of_regression(self, regression: RegressionRow) -> list[CaseRunRow]:
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

    def last(self, cell: int, content: str) -> CaseRunRow | None:
        """The newest run of a cell at some content, with its environment."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(CaseRunRow.cell_id == cell, CaseRunRow.content == content)
            query = query.options(joinedload(CaseRunRow.environment)).order_by(CaseRunRow.id.desc()).limit(1)
            return session.scalar(query)

    def passing(self, cell: int) -> list[CaseRunRow]:
        """The runs of a cell that passed, newest first."""
        with self._sessions() as session:
            query = select(CaseRunRow).where(CaseRunRow.cell_id == cell, CaseRunRow.verdict == Verdict.PASS)
            return list(session.scalars(query.order_by(CaseRunRow.id.desc())))

    def recent(self, cell: int | None = None) -> list[CaseRunRow]:
        """The last hundred runs of a cell, or of the job."""
        with self._sessions() as session:
            query = select(CaseRunRow).join(CellRow).where(CellRow.job == self._job)
            if cell is not None:
                query = query.where(CaseRunRow.cell_id == cell)
            return list(session.scalars(query.order_by(CaseRunRow.id.desc()).limit(100)))
