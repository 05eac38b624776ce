"""What the page of one commit shows: the commit as git tells it, and every run of it in any bisection or night."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from ....store.commit import MAKER_EMAIL
from ....store.tables.bisections import BisectionRow, CommitRow, ProbeRow
from ....store.tables.nights import CaseRunRow
from ....store.vocabulary import ProbeState

_MOST_RUNS = 200


@dataclass(frozen=True, kw_only=True)
class CommitView:
    """All of one page. `described` is None where the store has no description of the commit."""

    repository: str
    sha: str
    described: CommitRow | None
    bisections: Sequence[BisectionRow]
    """Those that ran it."""
    runs: Sequence[ProbeRow]
    """The newest of them, newest first."""
    url: str | None
    """Where it can be looked at outside of these pages."""
    night_runs: Sequence[CaseRunRow]
    """The newest runs of it in nights, newest first."""

    @property
    def has_author(self) -> bool:
        """Whether somebody made it, at some time; this tool makes commits for releases of a tool."""
        return self.described is not None and self.described.email != MAKER_EMAIL


def commit_view(session: Session, repository: str, sha: str) -> CommitView:
    """The view of a commit."""
    described = session.scalar(
        select(CommitRow).where(CommitRow.repository == repository, CommitRow.sha == sha)
    )
    runs = session.scalars(
        select(ProbeRow)
        .where(
            ProbeRow.repository == repository, ProbeRow.commit == sha, ProbeRow.state == ProbeState.FINISHED
        )
        .order_by(ProbeRow.id.desc())
        .limit(_MOST_RUNS)
        .options(joinedload(ProbeRow.bisection).load_only(BisectionRow.name, BisectionRow.outcome))
    ).all()
    night_runs = session.scalars(
        select(CaseRunRow)
        .where(CaseRunRow.commit == sha)
        .order_by(CaseRunRow.id.desc())
        .limit(_MOST_RUNS)
        .options(joinedload(CaseRunRow.cell), joinedload(CaseRunRow.night))
    ).all()
    bisections = {probe.bisection.name: probe.bisection for probe in runs}
    return CommitView(
        repository=repository,
        sha=sha,
        described=described,
        bisections=tuple(bisections.values()),
        runs=runs,
        url=_url(session, repository, sha),
        night_runs=night_runs,
    )


def _url(session: Session, repository: str, sha: str) -> str | None:
    """The address of a commit by what the newest bisection of its repository knows of the remote."""
    prefix = session.scalar(
        select(BisectionRow.request["commit_pages"][repository].as_string())
        .where(BisectionRow.repository == repository)
        .order_by(BisectionRow.id.desc())
        .limit(1)
    )
    return f"{prefix}{sha}" if prefix and prefix.startswith("https://") else None
