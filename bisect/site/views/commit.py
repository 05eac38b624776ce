"""What the page of one commit shows: the commit as git tells it, and every run of it in any bisection or night."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from ....store.nights_schema import CaseRun
from ....store.schema import Bisection, Commit, Probe
from ....store.vocabulary import ProbeState

_MOST_RUNS = 200


@dataclass(frozen=True, kw_only=True)
class CommitView:
    """All of one page. `described` is None where the store has no description of the commit."""

    repository: str
    sha: str
    described: Commit | None
    bisections: Sequence[Bisection]
    """Those that ran it."""
    runs: Sequence[Probe]
    """The newest of them, newest first."""
    night_runs: Sequence[CaseRun]
    """The newest runs of it in nights, newest first."""


def commit_view(session: Session, repository: str, sha: str) -> CommitView:
    """The view of a commit."""
    described = session.scalar(select(Commit).where(Commit.repository == repository, Commit.sha == sha))
    runs = session.scalars(
        select(Probe)
        .where(Probe.repository == repository, Probe.commit == sha, Probe.state == ProbeState.FINISHED)
        .order_by(Probe.id.desc())
        .limit(_MOST_RUNS)
        .options(joinedload(Probe.bisection).load_only(Bisection.name, Bisection.outcome))
    ).all()
    night_runs = session.scalars(
        select(CaseRun)
        .where(CaseRun.commit == sha)
        .order_by(CaseRun.id.desc())
        .limit(_MOST_RUNS)
        .options(joinedload(CaseRun.cell), joinedload(CaseRun.night))
    ).all()
    bisections = {probe.bisection.name: probe.bisection for probe in runs}
    return CommitView(
        repository=repository,
        sha=sha,
        described=described,
        bisections=tuple(bisections.values()),
        runs=runs,
        night_runs=night_runs,
    )
