"""What each night found of each cell."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, sessionmaker

from ...tables.nights import CaseResultRow, RegressionRow
from ...vocabulary import CaseStatus, Verdict
from ..shared_rows import storable


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


class CaseResultJournal:
    """Writes what nights found of cells, and reads it back, detached. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def set(self, night: int, cell: int, row: CaseResult) -> CaseResultRow:
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

    def get(self, night: int, cell: int) -> CaseResultRow | None:
        """What a night found of a cell."""
        with self._sessions() as session:
            return _result_of(session, night, cell)

    def of_night(self, night: int) -> list[CaseResultRow]:
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


def _result_of(session: Session, night: int, cell: int) -> CaseResultRow | None:
    query = select(CaseResultRow).where(CaseResultRow.night_id == night, CaseResultRow.cell_id == cell)
    return session.scalar(query)
