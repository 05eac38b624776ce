"""Regressions in the store: cells that passed and then failed, until they have recovered."""

from typing import TypedDict, Unpack

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, sessionmaker

from ...tables.nights import CellRow, RegressionRow


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

    def update(self, regression: int, **fields: Unpack[RegressionFields]) -> None:
        """Set columns of a regression."""
        with self._sessions.begin() as session:
            row = session.get_one(RegressionRow, regression)
            for name, value in fields.items():
                setattr(row, name, value)

    def of_cell(self, cell: int) -> RegressionRow | None:
        """The regression of a cell that is still open, with its bisection."""
        with self._sessions() as session:
            query = (
                select(RegressionRow)
                .where(RegressionRow.cell_id == cell, RegressionRow.recovered_night_id.is_(None))
                .options(joinedload(RegressionRow.bisection))
            )
            return session.scalar(query.order_by(RegressionRow.id.desc()).limit(1))

    def all_open(self) -> list[RegressionRow]:
        """All that are still open, oldest first, with their cells."""
        with self._sessions() as session:
            query = (
                select(RegressionRow)
                .join(CellRow)
                .where(CellRow.job == self._job, RegressionRow.recovered_night_id.is_(None))
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
                    CellRow.job == self._job,
                    RegressionRow.recovered_night_id.is_not(None),
                    RegressionRow.fixed_by.is_(None),
                    RegressionRow.fix_problem.is_(None),
                )
                .options(joinedload(RegressionRow.cell))
            )
            return list(session.scalars(query.order_by(RegressionRow.id)))
