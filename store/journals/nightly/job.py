"""A nightly job in the store: what it ran, what it found, and what it follows from night to night."""

from collections import Counter
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session, sessionmaker

from ...tables.bisections import ProbeRow
from ...tables.nights import (
    CaseRunRow,
    CellRow,
    RegressionRow,
)
from ...vocabulary import BuildSource
from ..bisections import BisectionJournal
from ..shared_rows import CommitJournal
from .case_results import CaseResultJournal
from .case_runs import CaseRunJournal
from .incidents import IncidentJournal
from .nights import NightJournal
from .regressions import RegressionJournal


class JobJournal:
    """The journals of one job, and what concerns several of them. A night that is killed goes on where it was: each
    of their methods is one transaction."""

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

    def bisection(self, identity: int) -> BisectionJournal:
        """The journal of a bisection that a regression names."""
        return BisectionJournal(self._sessions, identity)
