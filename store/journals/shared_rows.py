"""Rows that bisections and nights share, and text as every database takes it."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from ..commit import Commit
from ..tables.bisections import CommitRow, EnvironmentRow


def storable(text: str) -> str:
    """Text as every database takes it: valid Unicode without NUL."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


class CommitJournal:
    """The commits that pages and reports describe. Each is written once."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def add(self, repository: str, commits: Iterable[Commit]) -> None:
        """Note commits that are spoken of beside the candidates of a range, such as its ends."""
        with self._sessions.begin() as session:
            commit_ids(session, repository, list(commits))


def commit_ids(session: Session, repository: str, commits: Sequence[Commit]) -> dict[str, int]:
    """The ids of all known commits of a repository; those of `commits` are known from now on."""
    known = {
        row.sha: row.id
        for row in session.execute(
            select(CommitRow.sha, CommitRow.id).where(CommitRow.repository == repository)
        )
    }
    fresh = {commit.sha: commit for commit in commits if commit.sha not in known}
    rows = [CommitRow(repository=repository, **_storable_fields(commit)) for commit in fresh.values()]
    session.add_all(rows)
    session.flush()
    return known | {row.sha: row.id for row in rows}


def _storable_fields(commit: Commit) -> dict[str, object]:
    return {
        "sha": commit.sha,
        "date": commit.date,
        "parents": list(commit.parents),
        "author": storable(commit.author),
        "email": storable(commit.email),
        "subject": storable(commit.subject),
        "files": [storable(path) for path in commit.files],
    }


def environment_id(session: Session, fingerprint: str, details: Mapping[str, str]) -> int:
    """The row of some surroundings, made where they are new."""
    known = session.scalar(select(EnvironmentRow.id).where(EnvironmentRow.fingerprint == fingerprint))
    if known is not None:
        return known
    row = EnvironmentRow(fingerprint=fingerprint, details=dict(details))
    session.add(row)
    session.flush()
    return row.id
