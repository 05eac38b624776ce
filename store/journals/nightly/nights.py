"""The nights of a job in the store: begun, gone on with after a kill, and finished."""

from collections.abc import Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from ...clock import now
from ...documents.document import read_document, write_document
from ...documents.night_summary import NightSummary
from ...tables.nights import (
    HookCallRow,
    NightRow,
)
from ..shared_rows import storable


class NightJournal:
    """Writes the nights of one job and reads them back, detached. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], job: str) -> None:
        self._sessions = sessions
        self._job = job

    def begin(self, heads: Mapping[str, str], host: str) -> NightRow:
        """A new night."""
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

    def unfinished(self) -> NightRow | None:
        """The night that a kill or a reboot cut short, noted as started once more."""
        with self._sessions.begin() as session:
            query = select(NightRow).where(NightRow.job == self._job, NightRow.finished.is_(None))
            night = session.scalar(query.order_by(NightRow.ordinal.desc()).limit(1))
            if night is not None:
                night.attempts += 1
            return night

    def finish(self, night: int, notes: Sequence[str]) -> None:
        """Note that a night is over, and what was left undone."""
        with self._sessions.begin() as session:
            row = session.get_one(NightRow, night)
            row.finished = now()
            row.summary = write_document(NightSummary(notes=tuple(map(storable, notes))))

    def add_notes(self, night: int, notes: Sequence[str]) -> bool:
        """Note what else was left undone in a night that is over; False where it is not over, and nothing was noted."""
        with self._sessions.begin() as session:
            row = session.get_one(NightRow, night)
            if row.summary is None:
                return False
            told = read_document(NightSummary, row.summary).notes
            added = (note for note in map(storable, notes) if note not in told)
            row.summary = write_document(NightSummary(notes=(*told, *added)))
            return True

    def all(self) -> list[NightRow]:
        """All nights, oldest first."""
        with self._sessions() as session:
            return list(
                session.scalars(select(NightRow).where(NightRow.job == self._job).order_by(NightRow.ordinal))
            )

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
