"""Incidents in the store: all regressions with one culprit, until each of them has recovered."""

from collections.abc import Iterable

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload, selectinload, sessionmaker

from ...tables.nights import IncidentRow, RegressionRow
from ..shared_rows import storable


def earlier_incidents(incident: IncidentRow, every: Iterable[IncidentRow]) -> tuple[int, ...]:
    """The numbers of those incidents of its job that had the same culprit before, and were closed; oldest first."""
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
        """Put a regression into the open incident of its culprit, which is opened where there is none; its id."""
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

    def close(self, incident: int, *, night: int, fixed_by: str | None) -> None:
        """All its cases pass again; what fixed them may be named in a later night (`set_fix`)."""
        with self._sessions.begin() as session:
            row = session.get_one(IncidentRow, incident)
            row.closed_night_id = night
            row.fixed_by = fixed_by

    def set_fix(self, incident: int, fixed_by: str) -> None:
        """Note what fixed all cases of an incident."""
        with self._sessions.begin() as session:
            session.get_one(IncidentRow, incident).fixed_by = fixed_by

    def set_reduction(self, incident: int, folder: str) -> None:
        """Note where the incident's one reduction lies."""
        with self._sessions.begin() as session:
            session.get_one(IncidentRow, incident).reduction = folder

    def all(self, *, open_only: bool = False) -> list[IncidentRow]:
        """All incidents, oldest first, with regressions, cells, nights and bisection."""
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
