"""The queue of submitted bisections in the store, and the tokens of those who may submit.

`QueueJournal` writes the queue. The store runs one writing transaction at a time, so what `take` reads in its last one
is still true when it writes. `choose` decides which submission is next. `TokenJournal` writes the tokens by which a
server identifies users.
"""

import hashlib
import hmac
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from statistics import fmean
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, ValidationError
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from .bisections import storable_text
from .tables import MAX_NAME_LENGTH, BisectionRow, SubmissionRow, TokenRow, store_now
from .vocabulary import MAX_PRIORITY, SubmissionState

_MAX_WAITING = 200
"""At most this many submissions of one user may wait. Each may be 64 KiB, and each reader of the queue is sent all of
them."""

_MAX_WORDS_BYTES = 1 << 16
"""All words together have at most this many bytes. Every system accepts a command of this length."""

_MAX_PATH_LENGTH = 4096
"""The path of a folder has at most this many characters. It is Linux's own limit, `PATH_MAX`."""


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected no control characters")
    return text


def _check_words(words: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in word for word in words):
        raise ValueError("expected no NUL in a word, which no command can be given")
    if sum(len(word.encode()) + 1 for word in words) > _MAX_WORDS_BYTES:
        raise ValueError(f"expected words of at most {_MAX_WORDS_BYTES} bytes")
    return words


def _check_folder(folder: str) -> str:
    if not folder.startswith("/") or "\0" in folder:
        raise ValueError("expected the full path of a folder")
    return folder


_Label = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_check_printable)]


class Submission(BaseModel):
    """A bisection that is submitted. The fields are those of `SubmissionRow`.

    Invalid values raise `ValidationError`. Stores, file systems and system calls accept all valid values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bisection: str = Field(pattern=rf"^[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}$")
    user: _Label
    words: Annotated[tuple[str, ...], AfterValidator(_check_words)]
    folder: Annotated[str, Field(max_length=_MAX_PATH_LENGTH), AfterValidator(_check_folder)]
    priority: StrictInt = Field(default=0, ge=-MAX_PRIORITY, le=MAX_PRIORITY)
    board: _Label | None = None
    device: StrictInt | None = Field(default=None, ge=0, lt=1 << 16)


def describe_invalid_submission(error: ValidationError) -> str:
    """Return a sentence that says why a value is not a valid submission."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or "the whole of it"
    return f"expected a submission, found at {place}: {first['msg'].removeprefix('Value error, ')}"


@dataclass(frozen=True, order=True)
class Board:
    """A device of a machine."""

    host: str
    platform: str
    device: int


@dataclass(frozen=True, kw_only=True)
class QueueWorker:
    """A worker that takes submissions: its unique name, its machine and home, and the boards that it may use."""

    name: str
    host: str
    place: str
    boards: AbstractSet[Board] = frozenset()
    quota: int | None = None
    """At most this many submissions of one user run at once, on all workers together."""
    lease: float = 60.0
    """Seconds without news after which the worker loses its submission."""


class SubmissionError(Exception):
    """A submission cannot be queued. Its name belongs to another bisection, or too many of its user wait."""


class WorkerOrder(Enum):
    """The answer to a worker about the submission that it runs."""

    GO_ON = "go on"
    CANCEL = "cancel"
    LOST = "lost"
    """Another worker has the submission by now."""


class QueueJournal:
    """All submissions of a store."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def submit(self, submission: Submission) -> int:
        """Add a submission to the queue; return its number. Raises `SubmissionError`."""
        name = submission.bisection
        same_name = (
            select(SubmissionRow.id).where(SubmissionRow.bisection == name),
            select(BisectionRow.id).where(BisectionRow.name == name),
        )
        with self._sessions.begin() as session:
            if any(session.scalar(query) is not None for query in same_name):
                raise SubmissionError(
                    f"--name {name}: expected a name of its own, found another bisection of it in the store or its "
                    "queue; take another one, or leave it out"
                )
            waiting = (SubmissionRow.user == submission.user, SubmissionRow.state == SubmissionState.QUEUED)
            if (session.scalar(select(func.count(SubmissionRow.id)).where(*waiting)) or 0) >= _MAX_WAITING:
                raise SubmissionError(
                    f"expected at most {_MAX_WAITING} submissions of {submission.user} to wait, found as many; wait "
                    "for one to run, or cancel one"
                )
            row = _new_row(submission, store_now(session))
            session.add(row)
            session.flush()
            return row.id

    def submit_existing(self, submission: Submission, *, place: str, afterwards: Sequence[str] = ()) -> int:
        """Queue a bisection of the store that has begun in the home `place`; return its number.

        It is queued once, and again where it left the queue without a conclusion.

        afterwards: the words of the command that its worker runs at the end.
        """
        query = select(SubmissionRow).where(SubmissionRow.bisection == submission.bisection)
        with self._sessions.begin() as session:
            row = session.scalar(query)
            if row is None:
                row = _new_row(submission, store_now(session))
                row.place, row.afterwards = place, list(afterwards)
                session.add(row)
                session.flush()
            elif row.state not in (SubmissionState.QUEUED, SubmissionState.RUNNING):
                row.state, row.cancelling, row.lost = SubmissionState.QUEUED, False, 0
                row.exit_code = row.finished = None
                row.afterwards = list(afterwards)
            return row.id

    def find(self, number: int) -> SubmissionRow | None:
        """Return the submission of this number, detached."""
        with self._sessions() as session:
            return session.get(SubmissionRow, number)

    def all(self, *, states: Iterable[SubmissionState] = SubmissionState) -> list[SubmissionRow]:
        """Return the submissions in these states, in the order of submission; detached."""
        query = select(SubmissionRow).where(SubmissionRow.state.in_([*states])).order_by(SubmissionRow.id)
        with self._sessions() as session:
            return list(session.scalars(query))

    def take(
        self,
        worker: QueueWorker,
        missing_requirement: Callable[[SubmissionRow], str | None] = lambda _row: None,
    ) -> SubmissionRow | None:
        """Return the submission that this worker is to run now, with its lease; None where there is none.

        missing_requirement: returns the reason why the worker's machine cannot run a submission, or None where it can.
        The reason is recorded.
        """
        with self._sessions.begin() as session:
            _requeue_expired(session, store_now(session))
        # This may take long, and in a transaction it would keep everybody else from writing.
        missing = {
            row.id: missing_requirement(row)
            for row in self.all(states=[SubmissionState.QUEUED])
            if row.place in (None, worker.place)
        }
        with self._sessions.begin() as session:
            moment = store_now(session)
            choice = _choose_row(session, worker, missing, moment)
            if choice is None:
                return None
            row, board = choice
            row.state = SubmissionState.RUNNING
            row.worker, row.host, row.place = worker.name, worker.host, worker.place
            row.started, row.lease = moment, moment + timedelta(seconds=worker.lease)
            row.lacking = row.lacking_host = None
            if board is not None:
                row.device = board.device
            session.flush()
            session.expunge(row)
            return row

    def renew(self, number: int, worker: QueueWorker, *, tail: str) -> WorkerOrder:
        """Record that the worker is alive, with the last lines of its log. Return what it is to do."""
        with self._sessions.begin() as session:
            row = _owned_row(session, number, worker)
            if row is None:
                return WorkerOrder.LOST
            row.lease = store_now(session) + timedelta(seconds=worker.lease)
            row.tail = storable_text(tail)
            return WorkerOrder.CANCEL if row.cancelling else WorkerOrder.GO_ON

    def end(self, number: int, worker: QueueWorker, *, exit_code: int, tail: str) -> bool:
        """Record the end of a submission. If another worker has it by now, record nothing and return False."""
        with self._sessions.begin() as session:
            row = _owned_row(session, number, worker)
            if row is None:
                return False
            row.tail = storable_text(tail)
            _end_submission(row, exit_code, store_now(session))
            return True

    def record_loss(self, number: int, worker: QueueWorker, *, tail: str) -> SubmissionRow | None:
        """Record that the process of a submission was killed.

        The submission goes back to the queue, or ends if that happened too often. Return it in its new state, detached;
        None where another worker has it by now.
        """
        with self._sessions.begin() as session:
            row = _owned_row(session, number, worker)
            if row is not None:
                row.tail = storable_text(tail)
                _record_lost_worker(row, store_now(session))
                session.flush()
                session.expunge(row)
            return row

    def requeue(self, number: int, worker: QueueWorker, *, tail: str) -> None:
        """Put a submission back to the queue, where the next worker continues it."""
        with self._sessions.begin() as session:
            row = _owned_row(session, number, worker)
            if row is not None:
                row.tail = storable_text(tail)
                _requeue_or_cancel(row, store_now(session))

    def cancel(self, number: int) -> SubmissionRow | None:
        """Cancel a submission: at once where it waits, by its worker where it runs.

        Return it in its new state, detached; None where there is none of this number.
        """
        with self._sessions.begin() as session:
            row = session.get(SubmissionRow, number)
            if row is None:
                return None
            if row.state is SubmissionState.RUNNING:
                row.cancelling = True
            elif row.state is SubmissionState.QUEUED:
                row.cancelling = True
                _end_submission(row, INTERRUPTED, store_now(session))
            session.flush()
            session.expunge(row)
            return row


INTERRUPTED = 130
"""An interrupted bisection and a cancelled submission have this exit code."""

_SIGNAL_BASE = 128
"""A higher exit code means that a command was interrupted or killed. A shell adds the signal's number to this one."""

_LOST_EXIT_CODE = 1
"""A submission that ends because its workers were lost has this exit code."""

_MAX_LOST_WORKERS = 3
"""A submission that has lost this many workers ends with an error. It may itself be what kills them."""

_MAX_LEASE = timedelta(minutes=5)
"""No worker gets a lease longer than this. One that ends later from now was given before the clock was set back."""


def _new_row(submission: Submission, moment: datetime) -> SubmissionRow:
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


def _owned_row(session: Session, number: int, worker: QueueWorker) -> SubmissionRow | None:
    """Return the submission, where the worker still has it."""
    row = session.get(SubmissionRow, number)
    running = row is not None and row.state is SubmissionState.RUNNING and row.worker == worker.name
    return row if running else None


def _end_submission(row: SubmissionRow, exit_code: int, moment: datetime) -> None:
    _clear_worker(row, moment)
    # If it ended by itself before the cancellation reached it, its own result stays.
    cancelled = row.cancelling and exit_code > _SIGNAL_BASE
    row.state = SubmissionState.CANCELLED if cancelled else SubmissionState.ENDED
    row.exit_code, row.finished = INTERRUPTED if cancelled else exit_code, moment


def _requeue_or_cancel(row: SubmissionRow, moment: datetime) -> None:
    if row.cancelling:
        _end_submission(row, INTERRUPTED, moment)
    else:
        _clear_worker(row, moment)
        row.state = SubmissionState.QUEUED


def _clear_worker(row: SubmissionRow, moment: datetime) -> None:
    if row.started is not None:
        row.seconds += max(0.0, (moment - row.started).total_seconds())
    row.worker = row.host = row.started = row.lease = None


def _requeue_expired(session: Session, moment: datetime) -> None:
    """Return submissions of silent workers to the queue, or end those that have lost too many workers."""
    # A lease that ends far in the future was given before the clock was set back. Its worker, if it lives, renews it.
    is_over = (SubmissionRow.lease < moment) | (SubmissionRow.lease > moment + _MAX_LEASE)
    query = select(SubmissionRow).where(SubmissionRow.state == SubmissionState.RUNNING, is_over)
    for row in session.scalars(query):
        _record_lost_worker(row, moment)


def _record_lost_worker(row: SubmissionRow, moment: datetime) -> None:
    """Put a submission back on the queue if its process or worker died, or end it where too many did.

    One that is to be cancelled ends as cancelled. Its process may have been killed because it did not stop.
    """
    row.lost += 1
    if row.lost >= _MAX_LOST_WORKERS and not row.cancelling:
        lines = [row.tail, f"error: expected a worker that lives, found {row.lost} lost while they ran this"]
        row.tail = "\n".join(filter(None, lines))
        _end_submission(row, _LOST_EXIT_CODE, moment)
    else:
        _requeue_or_cancel(row, moment)


_UNKNOWN_SECONDS = 1800.0
"""A bisection is assumed to take this many seconds before any has ended. Half an hour is neither short nor long."""


@dataclass(frozen=True, kw_only=True)
class WaitingSubmission:
    """A submission that could run.

    platform: the platform of the board that it needs; None where it needs none.
    device: the number of the board, if only that one is suitable.
    """

    id: int
    user: str
    priority: int
    platform: str | None = None
    device: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunningSubmission:
    """A submission that has run for `seconds`."""

    user: str
    seconds: float
    board: Board | None = None


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The submission that is next, and the board that it gets."""

    id: int
    board: Board | None


def choose(
    waiting: Sequence[WaitingSubmission],
    running: Sequence[RunningSubmission],
    *,
    used: Mapping[str, Sequence[float]],
    boards: AbstractSet[Board],
    quota: int | None,
) -> Assignment | None:
    """Return the submission that a worker with these boards runs next; None if none can run.

    running: the submissions of all workers.
    used: the seconds of each user's submissions that ended recently.
    quota: the greatest number of submissions that one user may run at once.

    The highest priority goes first, then the user whose submissions have run least, then the oldest submission. No two
    submissions use one board at once.
    """
    free = sorted(boards - {each.board for each in running})
    busy = Counter(each.user for each in running)
    seconds = _seconds_by_user(running, used)

    def rank(each: WaitingSubmission) -> tuple[int, float, int]:
        return -each.priority, seconds.get(each.user, 0.0), each.id

    for each in sorted(waiting, key=rank):
        if quota is not None and busy[each.user] >= quota:
            continue
        if each.platform is None:
            return Assignment(id=each.id, board=None)
        board = next(_suitable_boards(each, free), None)
        if board is not None:
            return Assignment(id=each.id, board=board)
    return None


def _suitable_boards(each: WaitingSubmission, boards: Sequence[Board]) -> Iterator[Board]:
    for board in boards:
        if board.platform == each.platform and each.device in (None, board.device):
            yield board


def _seconds_by_user(
    running: Sequence[RunningSubmission], used: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """Return how long each user's submissions have run.

    A running submission counts with at least the average duration. Otherwise a user who begins many at once would seem
    to have used nothing.
    """
    durations = [seconds for each in used.values() for seconds in each]
    average = fmean(durations) if durations else _UNKNOWN_SECONDS
    total = {user: sum(each) for user, each in used.items()}
    for each in running:
        total[each.user] = total.get(each.user, 0.0) + max(each.seconds, average)
    return total


_ANOTHER_HOME = "it has begun in another $PRECISION_BISECT_HOME, whose workers alone can go on with it"

_SHARE_PERIOD = timedelta(days=1)
"""A user's share counts the work of this period. Last week's work is no reason to wait."""


def _choose_row(
    session: Session, worker: QueueWorker, missing: Mapping[int, str | None], moment: datetime
) -> tuple[SubmissionRow, Board | None] | None:
    """Return the submission that is next, and its board; None where there is none.

    `missing` has why the worker's machine cannot run each submission. One that is not in it was queued just now.
    """
    queued: dict[int, SubmissionRow] = {}
    for row in session.scalars(select(SubmissionRow).where(SubmissionRow.state == SubmissionState.QUEUED)):
        if row.place not in (None, worker.place):
            _record_missing_requirement(row, worker.host, _ANOTHER_HOME)
        elif row.id in missing:
            _record_missing_requirement(row, worker.host, missing[row.id])
            if missing[row.id] is None:
                queued[row.id] = row
    busy = session.scalars(select(SubmissionRow).where(SubmissionRow.state == SubmissionState.RUNNING))
    choice = choose(
        [_to_waiting_submission(row) for row in queued.values()],
        [_to_running_submission(row, moment) for row in busy],
        used=_recent_seconds(session, moment),
        boards=worker.boards,
        quota=worker.quota,
    )
    return None if choice is None else (queued[choice.id], choice.board)


def _record_missing_requirement(row: SubmissionRow, host: str, missing: str | None) -> None:
    """Record why a machine cannot run a submission, unless another machine has recorded a reason.

    Otherwise the machines would overwrite each other's reasons without end.
    """
    if row.lacking_host not in (None, host):
        return
    row.lacking_host = None if missing is None else host
    row.lacking = None if missing is None else storable_text(f"{host}: {missing}")


def _to_waiting_submission(row: SubmissionRow) -> WaitingSubmission:
    return WaitingSubmission(
        id=row.id, user=row.user, priority=row.priority, platform=row.board, device=row.device
    )


def _to_running_submission(row: SubmissionRow, moment: datetime) -> RunningSubmission:
    seconds = 0.0 if row.started is None else (moment - row.started).total_seconds()
    if row.board is None or row.host is None or row.device is None:
        return RunningSubmission(user=row.user, seconds=seconds)
    return RunningSubmission(
        user=row.user, seconds=seconds, board=Board(host=row.host, platform=row.board, device=row.device)
    )


def _recent_seconds(session: Session, moment: datetime) -> dict[str, list[float]]:
    """Return the seconds that each user's submissions have run recently."""
    used: defaultdict[str, list[float]] = defaultdict(list)
    recent = (SubmissionRow.finished > moment - _SHARE_PERIOD) | SubmissionRow.finished.is_(None)
    query = select(SubmissionRow.user, SubmissionRow.seconds).where(recent, SubmissionRow.seconds > 0)
    for user, seconds in session.execute(query):
        used[user].append(seconds)
    return dict(used)


_TOKEN_BYTES = 32
"""A token has this many random bytes. At 256 bits nobody can guess one."""


class TokenJournal:
    """All tokens of a store. A token is drawn here, shown once, and kept as a digest."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def new(self, user: str) -> str:
        """Draw a token for a user. Nobody can read it from the store."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._sessions.begin() as session:
            session.add(TokenRow(user=user, digest=_digest(token), created=store_now(session)))
        return token

    def revoke(self, user: str) -> int:
        """Revoke all tokens of a user; return how many were valid."""
        with self._sessions.begin() as session:
            rows = session.scalars(
                select(TokenRow).where(TokenRow.user == user, TokenRow.revoked.is_(None))
            ).all()
            for row in rows:
                row.revoked = store_now(session)
            return len(rows)

    def find_user(self, token: str) -> str | None:
        """Return the user of a token; None where it is not valid.

        The time that this takes reveals nothing about the tokens.
        """
        digest = _digest(token)
        with self._sessions() as session:
            rows = session.scalars(select(TokenRow).where(TokenRow.revoked.is_(None))).all()
        matching = [row.user for row in rows if hmac.compare_digest(row.digest, digest)]
        return matching[0] if matching else None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
