"""What earlier nights and bisections, of any job, have run of the cases of one repository."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import and_, select
from sqlalchemy.orm import Session, selectinload, sessionmaker

from ..tables.bisections import BisectionRow, CandidateRow, ProbeRow, StageRow
from ..tables.nights import CaseResultRow, CaseRunRow, CellRow
from ..vocabulary import BisectionOutcome, CaseStatus, ProbeState, Verdict

_MOST_RUNS = 10_000
_MOST_BISECTIONS = 200


@dataclass(frozen=True, kw_only=True)
class NightlyRun:
    """A run of a case in a night, and what that night found of it."""

    case: str
    content: str
    verdict: Verdict
    status: CaseStatus


class EarlierRunJournal:
    """Reads what was run. Rows are detached."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def of_nights(self, *, repository: str, platform: str) -> list[NightlyRun]:
        """The newest 10,000 runs of a platform that had this repository, at the commits that their nights looked at."""
        same = and_(
            CaseResultRow.night_id == CaseRunRow.night_id,
            CaseResultRow.cell_id == CaseRunRow.cell_id,
            CaseResultRow.commit == CaseRunRow.commit,
        )
        query = (
            select(
                CellRow.case,
                CaseRunRow.content,
                CaseRunRow.verdict,
                CaseRunRow.revisions,
                CaseResultRow.status,
            )
            .join(CaseResultRow, same)
            .join(CellRow, CellRow.id == CaseRunRow.cell_id)
            .where(CellRow.platform == platform)
            .order_by(CaseRunRow.id.desc())
            .limit(_MOST_RUNS)
        )
        with self._sessions() as session:
            return [
                NightlyRun(case=case, content=content, verdict=verdict, status=status)
                for case, content, verdict, revisions, status in session.execute(query)
                if repository in revisions
            ]

    def that_named(self, *, repository: str) -> list[BisectionRow]:
        """The newest 200 bisections of a repository that named a culprit."""
        query = (
            select(BisectionRow)
            .where(BisectionRow.repository == repository, BisectionRow.outcome == BisectionOutcome.CULPRIT)
            .order_by(BisectionRow.id.desc())
            .limit(_MOST_BISECTIONS)
        )
        with self._sessions() as session:
            return [*session.scalars(query)]

    def ranges(self, bisection: int) -> Sequence[StageRow]:
        """The ranges of a bisection, each with its commits, parents before children."""
        query = (
            select(StageRow)
            .where(StageRow.bisection_id == bisection)
            .options(selectinload(StageRow.candidates).joinedload(CandidateRow.commit))
        )
        with self._sessions() as session:
            return session.scalars(query).all()

    def probes(self, bisection: int) -> Sequence[ProbeRow]:
        """The finished probes of a bisection."""
        finished = (ProbeRow.bisection_id == bisection, ProbeRow.state == ProbeState.FINISHED)
        query = select(ProbeRow).where(*finished)
        with self._sessions() as session:
            return session.scalars(query).all()
