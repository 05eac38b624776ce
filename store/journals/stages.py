"""The ranges that one bisection has searched, as the store keeps them: each with its commits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from ..commit import Commit
from ..tables.bisections import CandidateRow, StageRow
from ..vocabulary import Seeks
from .shared_rows import commit_ids


@dataclass(frozen=True, kw_only=True)
class RangeCommit:
    """A commit of a range: the commit that stands for it (None: the good end does), and its content, if it has one."""

    commit: Commit
    representative: str | None
    content: str | None


class StageJournal:
    """Writes the ranges of one bisection. Each method is one transaction."""

    def __init__(self, sessions: sessionmaker[Session], bisection: int) -> None:
        self._sessions = sessions
        self._bisection = bisection

    def note(
        self,
        *,
        ordinal: int,
        repository: str,
        seeks: Seeks,
        old: str,
        new: str,
        held: Mapping[str, str],
        candidates: Iterable[RangeCommit],
        old_content: str | None = None,
    ) -> int:
        """The id of a range, which is noted with its candidates the first time that there are any: before, its old
        end is still looked for.

        `candidates` come parents first.
        """
        with self._sessions.begin() as session:
            listed = list(candidates)
            row = session.scalar(
                select(StageRow).where(StageRow.bisection_id == self._bisection, StageRow.ordinal == ordinal)
            )
            if row is None:
                row = StageRow(
                    bisection_id=self._bisection,
                    ordinal=ordinal,
                    repository=repository,
                    seeks=seeks,
                    old=old,
                    new=new,
                    held=dict(held),
                )
                session.add(row)
                session.flush()
            elif not listed or row.candidates:
                return row.id
            row.old, row.old_content = old, old_content
            ids = commit_ids(session, repository, [candidate.commit for candidate in listed])
            session.add_all(
                CandidateRow(
                    stage_id=row.id,
                    ordinal=index,
                    commit_id=ids[candidate.commit.sha],
                    representative_id=ids[candidate.representative] if candidate.representative else None,
                    content=candidate.content,
                )
                for index, candidate in enumerate(listed)
            )
            return row.id
