"""Bisections in the store: what was asked, what was warned of, and how it ended."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from ..clock import now
from ..database import sole_driver
from ..tables.bisections import BisectionRow, NoticeRow
from ..vocabulary import BisectionOutcome
from .probes import ProbeJournal
from .shared_rows import CommitJournal, storable
from .stages import StageJournal


class BisectionJournal:
    """One bisection in the store, with its ranges and probes. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], bisection: int) -> None:
        self._sessions = sessions
        self.bisection = bisection
        self.stages = StageJournal(sessions, bisection)
        self.probes = ProbeJournal(sessions, bisection)
        self.commits = CommitJournal(sessions)

    @classmethod
    def begin(
        cls,
        sessions: sessionmaker[Session],
        *,
        name: str,
        repository: str,
        good: str,
        bad: str,
        request: Mapping[str, Any],
    ) -> "BisectionJournal":
        """Note a new bisection."""
        with sessions.begin() as session:
            row = BisectionRow(
                name=name, created=now(), repository=repository, good=good, bad=bad, request=dict(request)
            )
            session.add(row)
            session.flush()
            return cls(sessions, row.id)

    @classmethod
    def find(cls, sessions: sessionmaker[Session], name: str) -> "BisectionJournal | None":
        """The bisection of this name."""
        with sessions() as session:
            found = session.scalar(select(BisectionRow.id).where(BisectionRow.name == name))
        return None if found is None else cls(sessions, found)

    @classmethod
    def unfinished(cls, sessions: sessionmaker[Session]) -> list["BisectionJournal"]:
        """Those that are not finished, the newest first."""
        unfinished = BisectionRow.outcome.is_(None) | (BisectionRow.outcome == BisectionOutcome.BUDGET)
        query = select(BisectionRow.id).where(unfinished).order_by(BisectionRow.id.desc())
        with sessions() as session:
            return [cls(sessions, found) for found in session.scalars(query)]

    def sole_driver(self) -> AbstractContextManager[bool]:
        """Whether this process, of all machines that share the store, is the one to drive it."""
        return sole_driver(self._sessions, self.bisection)

    def row(self) -> BisectionRow:
        """The bisection's own row, detached."""
        with self._sessions() as session:
            return session.get_one(BisectionRow, self.bisection)

    def set_golden(self, digest: str) -> None:
        """Note the data that every probe from now on runs with."""
        with self._sessions.begin() as session:
            session.get_one(BisectionRow, self.bisection).golden = digest

    def set_good(self, sha: str) -> None:
        """Note the good end that was looked for."""
        with self._sessions.begin() as session:
            session.get_one(BisectionRow, self.bisection).good = sha

    def add_notice(self, text: str) -> None:
        """Note a warning for the report, once."""
        with self._sessions.begin() as session:
            known = select(NoticeRow.id).where(
                NoticeRow.bisection_id == self.bisection, NoticeRow.text == storable(text)
            )
            if session.scalar(known) is None:
                session.add(NoticeRow(bisection_id=self.bisection, created=now(), text=storable(text)))

    def conclude(self, outcome: BisectionOutcome, conclusion: Mapping[str, Any]) -> None:
        """Note how it ended."""
        with self._sessions.begin() as session:
            row = session.get_one(BisectionRow, self.bisection)
            row.outcome = outcome
            row.conclusion = dict(conclusion)
            row.finished = now()

    def note_localization(self, localization: Mapping[str, Any]) -> None:
        """Note where the failure begins, beside how the bisection ended."""
        with self._sessions.begin() as session:
            row = session.get_one(BisectionRow, self.bisection)
            row.conclusion = {**(row.conclusion or {}), "localization": dict(localization)}
