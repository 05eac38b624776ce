"""The queue in the store. Each method is one transaction, of which the store runs one at a time: what `take` reads is
still true when it writes. A worker changes only what it still has the lease of."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from ...clock import store_now
from ...tables.bisections import BisectionRow
from ...tables.queue import SubmissionRow
from ...vocabulary import SubmissionState
from ..shared_rows import storable
from .choice import Board, Running, Waiting, choose

INTERRUPTED = 130
"""Exit code of a bisection that was interrupted, and of a submission that was cancelled."""
_BY_A_SIGNAL = 128
"""Exit codes above it are those of what was interrupted or killed."""
_ERROR = 1
_MOST_LOST = 3
_ANOTHER_HOME = "it has begun in another $PRECISION_BISECT_HOME, whose workers alone can go on with it"
_RECENT = timedelta(days=1)
"""How far back a fair share counts."""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What is submitted: see `SubmissionRow`."""

    bisection: str
    user: str
    words: Sequence[str]
    folder: str
    priority: int = 0
    board: str | None = None
    device: int | None = None


@dataclass(frozen=True, kw_only=True)
class QueueWorker:
    """Who takes submissions: a name that nobody else has, the machine, the home, and the boards that it may use."""

    name: str
    host: str
    place: str
    boards: AbstractSet[Board] = frozenset()
    quota: int | None = None
    """How many submissions of one user may run at once, with all workers together."""
    lease: float = 60.0
    """Seconds after which it is given up where it is not heard of."""


class NameTakenError(Exception):
    """Something was submitted by a name that another bisection has."""


class WorkerOrder(Enum):
    """What a worker is told of the submission that it runs."""

    GO_ON = "go on"
    CANCEL = "cancel"
    LOST = "lost"
    """Somebody else has it by now."""


class QueueJournal:
    """All submissions of a store."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def submit(self, submission: Submission) -> int:
        """Put it at its place in the queue; its number. Raises `NameTakenError`."""
        name = submission.bisection
        taken = (
            select(SubmissionRow.id).where(SubmissionRow.bisection == name),
            select(BisectionRow.id).where(BisectionRow.name == name),
        )
        with self._sessions.begin() as session:
            if any(session.scalar(query) is not None for query in taken):
                raise NameTakenError(
                    f"--name {name}: expected a name of its own, found another bisection of it in the store or its "
                    "queue; take another one, or leave it out"
                )
            row = _queued(submission, store_now(session))
            session.add(row)
            session.flush()
            return row.id

    def submit_begun(self, submission: Submission, *, place: str, afterwards: Sequence[str] = ()) -> int:
        """Put a bisection of the store, which has begun in the home `place`, on the queue: once, and again where it
        was there before and has not come to its end; its number. `afterwards` are the words of the command that its
        worker runs then."""
        known = select(SubmissionRow).where(SubmissionRow.bisection == submission.bisection)
        with self._sessions.begin() as session:
            row = session.scalar(known)
            if row is None:
                row = _queued(submission, store_now(session))
                row.place, row.afterwards = place, list(afterwards)
                session.add(row)
                session.flush()
            elif row.state not in (SubmissionState.QUEUED, SubmissionState.RUNNING):
                row.state, row.cancelling, row.lost = SubmissionState.QUEUED, False, 0
                row.exit_code = row.finished = None
                row.afterwards = list(afterwards)
            return row.id

    def find(self, number: int) -> SubmissionRow | None:
        """The submission of this number, detached."""
        with self._sessions() as session:
            return session.get(SubmissionRow, number)

    def all(self, *, states: Iterable[SubmissionState] = SubmissionState) -> list[SubmissionRow]:
        """Those in these states, in the order in which they were submitted; detached."""
        query = select(SubmissionRow).where(SubmissionRow.state.in_([*states])).order_by(SubmissionRow.id)
        with self._sessions() as session:
            return list(session.scalars(query))

    def take(
        self, worker: QueueWorker, lacks: Callable[[SubmissionRow], str | None] = lambda _row: None
    ) -> SubmissionRow | None:
        """The submission that this worker is to run now, with the lease of it; None where there is none.

        lacks: why the worker's machine cannot run a submission, in words, which are noted; None where it can.
        """
        with self._sessions.begin() as session:
            moment = store_now(session)
            _take_back(session, moment)
            found = _chosen(session, worker, lacks, moment)
            if found is None:
                return None
            row, board = found
            row.state = SubmissionState.RUNNING
            row.worker, row.host, row.place = worker.name, worker.host, worker.place
            row.started, row.lease = moment, moment + timedelta(seconds=worker.lease)
            row.lacking = None
            if board is not None:
                row.device = board.device
            session.flush()
            session.expunge(row)
            return row

    def renew(self, number: int, worker: QueueWorker, *, tail: str) -> WorkerOrder:
        """Note that the worker is at it, and the last lines of its log; what it is to do."""
        with self._sessions.begin() as session:
            row = _own(session, number, worker)
            if row is None:
                return WorkerOrder.LOST
            row.lease = store_now(session) + timedelta(seconds=worker.lease)
            row.tail = storable(tail)
            return WorkerOrder.CANCEL if row.cancelling else WorkerOrder.GO_ON

    def end(self, number: int, worker: QueueWorker, *, exit_code: int, tail: str) -> bool:
        """Note its end; False where somebody else has it by now, and nothing was noted."""
        with self._sessions.begin() as session:
            row = _own(session, number, worker)
            if row is None:
                return False
            row.tail = storable(tail)
            _end(row, exit_code, store_now(session))
            return True

    def hand_back(self, number: int, worker: QueueWorker, *, tail: str) -> None:
        """Put it back to the queue, where the next worker goes on with it."""
        with self._sessions.begin() as session:
            row = _own(session, number, worker)
            if row is not None:
                row.tail = storable(tail)
                _back_to_queue(row, store_now(session))

    def cancel(self, number: int) -> SubmissionRow | None:
        """Cancel it: at once where it waits, by its worker where it runs. The submission as it is then, detached; None
        where there is none of this number."""
        with self._sessions.begin() as session:
            row = session.get(SubmissionRow, number)
            if row is None:
                return None
            if row.state is SubmissionState.RUNNING:
                row.cancelling = True
            elif row.state is SubmissionState.QUEUED:
                row.cancelling = True
                _end(row, INTERRUPTED, store_now(session))
            session.flush()
            session.expunge(row)
            return row


def _queued(submission: Submission, moment: datetime) -> SubmissionRow:
    return SubmissionRow(
        bisection=submission.bisection,
        user=submission.user,
        words=list(submission.words),
        folder=submission.folder,
        priority=submission.priority,
        board=submission.board,
        device=submission.device,
        created=moment,
        state=SubmissionState.QUEUED,
        cancelling=False,
        lost=0,
        seconds=0.0,
        tail="",
    )


def _own(session: Session, number: int, worker: QueueWorker) -> SubmissionRow | None:
    """The submission, where the worker still has it."""
    row = session.get(SubmissionRow, number)
    running = row is not None and row.state is SubmissionState.RUNNING and row.worker == worker.name
    return row if running else None


def _end(row: SubmissionRow, exit_code: int, moment: datetime) -> None:
    _let_go(row, moment)
    # What was to be cancelled, and ended by itself before that, has its result.
    cancelled = row.cancelling and exit_code > _BY_A_SIGNAL
    row.state = SubmissionState.CANCELLED if cancelled else SubmissionState.ENDED
    row.exit_code, row.finished = INTERRUPTED if cancelled else exit_code, moment


def _back_to_queue(row: SubmissionRow, moment: datetime) -> None:
    if row.cancelling:
        _end(row, INTERRUPTED, moment)
    else:
        _let_go(row, moment)
        row.state = SubmissionState.QUEUED


def _let_go(row: SubmissionRow, moment: datetime) -> None:
    if row.started is not None:
        row.seconds += (moment - row.started).total_seconds()
    row.worker = row.host = row.started = row.lease = None


def _take_back(session: Session, moment: datetime) -> None:
    """Put what the workers ran that were not heard of back to the queue; what has lost too many of them ends."""
    query = select(SubmissionRow).where(
        SubmissionRow.state == SubmissionState.RUNNING, SubmissionRow.lease < moment
    )
    for row in session.scalars(query):
        row.lost += 1
        if row.lost >= _MOST_LOST:
            lines = [
                row.tail,
                f"error: expected a worker that lives, found {row.lost} lost while they ran this",
            ]
            row.tail = "\n".join(filter(None, lines))
            _end(row, _ERROR, moment)
        else:
            _back_to_queue(row, moment)


def _chosen(
    session: Session, worker: QueueWorker, lacks: Callable[[SubmissionRow], str | None], moment: datetime
) -> tuple[SubmissionRow, Board | None] | None:
    queued: dict[int, SubmissionRow] = {}
    for row in session.scalars(select(SubmissionRow).where(SubmissionRow.state == SubmissionState.QUEUED)):
        lacking = lacks(row) if row.place in (None, worker.place) else _ANOTHER_HOME
        _note_lacking(row, worker.host, lacking)
        if lacking is None:
            queued[row.id] = row
    busy = session.scalars(select(SubmissionRow).where(SubmissionRow.state == SubmissionState.RUNNING))
    choice = choose(
        [_waiting(row) for row in queued.values()],
        [_running(row, moment) for row in busy],
        used=_used(session, moment),
        boards=worker.boards,
        quota=worker.quota,
    )
    return None if choice is None else (queued[choice.id], choice.board)


def _note_lacking(row: SubmissionRow, host: str, lacking: str | None) -> None:
    """Note why a machine cannot run it, unless another machine has: workers would write over each other without end."""
    own = f"{host}: "
    if row.lacking is None or row.lacking.startswith(own):
        row.lacking = None if lacking is None else storable(own + lacking)


def _waiting(row: SubmissionRow) -> Waiting:
    return Waiting(id=row.id, user=row.user, priority=row.priority, platform=row.board, device=row.device)


def _running(row: SubmissionRow, moment: datetime) -> Running:
    seconds = 0.0 if row.started is None else (moment - row.started).total_seconds()
    if row.board is None or row.host is None or row.device is None:
        return Running(user=row.user, seconds=seconds)
    return Running(
        user=row.user, seconds=seconds, board=Board(host=row.host, platform=row.board, device=row.device)
    )


def _used(session: Session, moment: datetime) -> dict[str, list[float]]:
    """Seconds that each user's submissions have run of late."""
    used: defaultdict[str, list[float]] = defaultdict(list)
    recent = (SubmissionRow.finished > moment - _RECENT) | SubmissionRow.finished.is_(None)
    query = select(SubmissionRow.user, SubmissionRow.seconds).where(recent, SubmissionRow.seconds > 0)
    for user, seconds in session.execute(query):
        used[user].append(seconds)
    return dict(used)
