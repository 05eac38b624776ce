"""The queue as it is shown: each submission with what has come of it so far."""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ...tables.bisections import BisectionRow, ProbeRow
from ...tables.queue import SubmissionRow
from ...vocabulary import BisectionOutcome, ProbeState, SubmissionState

_OVER = (SubmissionState.ENDED, SubmissionState.CANCELLED)


@dataclass(frozen=True, kw_only=True)
class QueueEntry:
    """A submission: see `SubmissionRow`."""

    id: int
    bisection: str
    """The name of its bisection."""
    user: str
    words: list[str]
    folder: str
    priority: int
    platform: str | None
    """Whose board it needs; None: it needs none."""
    device: int | None
    state: SubmissionState
    cancelling: bool
    exit_code: int | None
    host: str | None
    worker: str | None
    created: datetime
    started: datetime | None
    finished: datetime | None
    lacking: str | None
    """A machine that could not run it while it waits, and why."""
    lost: int
    begun: bool
    """Whether the store has its bisection."""
    runs: int
    """Runs of its bisection that have ended."""
    outcome: BisectionOutcome | None
    """Of its bisection, once it has one."""
    tail: str
    """The last lines of its log."""

    @property
    def command(self) -> str:
        """What was typed, as a shell takes it."""
        return shlex.join(["bisect-precision", *self.words])

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state in _OVER


def entry(session: Session, number: int) -> QueueEntry | None:
    """The submission of this number."""
    row = session.get(SubmissionRow, number)
    return None if row is None else next(_entries(session, [row]))


def queue_entries(session: Session, *, most_over: int) -> list[QueueEntry]:
    """What runs and what waits, and of what is over the newest, in the order in which they were submitted."""
    is_over = SubmissionRow.state.in_(_OVER)
    over = select(SubmissionRow).where(is_over).order_by(SubmissionRow.finished.desc()).limit(most_over)
    rows = [*session.scalars(select(SubmissionRow).where(~is_over)), *session.scalars(over)]
    return list(_entries(session, sorted(rows, key=lambda row: row.id)))


def _entries(session: Session, rows: Iterable[SubmissionRow]) -> Iterator[QueueEntry]:
    rows = list(rows)
    names = [row.bisection for row in rows]
    found = {
        name: (outcome, runs)
        for name, outcome, runs in session.execute(
            select(BisectionRow.name, BisectionRow.outcome, func.count(ProbeRow.id))
            .outerjoin(
                ProbeRow,
                (ProbeRow.bisection_id == BisectionRow.id) & (ProbeRow.state == ProbeState.FINISHED),
            )
            .where(BisectionRow.name.in_(names))
            .group_by(BisectionRow.name, BisectionRow.outcome)
        )
    }
    for row in rows:
        outcome, runs = found.get(row.bisection, (None, 0))
        yield QueueEntry(
            id=row.id,
            bisection=row.bisection,
            user=row.user,
            words=row.words,
            folder=row.folder,
            priority=row.priority,
            platform=row.board,
            device=row.device,
            state=row.state,
            cancelling=row.cancelling,
            exit_code=row.exit_code,
            host=row.host,
            worker=row.worker,
            created=row.created,
            started=row.started,
            finished=row.finished,
            lacking=row.lacking,
            lost=row.lost,
            begun=row.bisection in found,
            runs=runs,
            outcome=outcome,
            tail=row.tail,
        )
