"""The queue, as `submit`, `status`, `cancel` and `watch` reach it."""

from typing import Protocol

from sqlalchemy.orm import Session, sessionmaker

from ....runner.errors import UserError
from ....store.journals.queue.entries import QueueEntry, entry, queue_entries
from ....store.journals.queue.submissions import NameTakenError, QueueJournal, Submission
from ...run.session import open_sessions
from ..command_line.stores import store_url
from .remote import RemoteQueue


class Queue(Protocol):
    """A queue of submissions, wherever it is kept."""

    def submit(self, submission: Submission) -> int:
        """Put it on the queue; its number."""
        ...

    def entries(self, *, most_over: int) -> list[QueueEntry]:
        """What runs and what waits, and the newest of what is over."""
        ...

    def entry(self, number: int) -> QueueEntry | None:
        """The submission of this number."""
        ...

    def cancel(self, number: int) -> None:
        """Cancel the submission of this number, where there is one that is not over."""
        ...


class StoredQueue:
    """The queue of a store that can be reached from here."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions
        self._journal = QueueJournal(sessions)

    def submit(self, submission: Submission) -> int:
        """Put it on the queue; its number. Raises `UserError`."""
        try:
            return self._journal.submit(submission)
        except NameTakenError as error:
            raise UserError(str(error)) from error

    def entries(self, *, most_over: int) -> list[QueueEntry]:
        """What runs and what waits, and the newest of what is over."""
        with self._sessions() as session:
            return queue_entries(session, most_over=most_over)

    def entry(self, number: int) -> QueueEntry | None:
        """The submission of this number."""
        with self._sessions() as session:
            return entry(session, number)

    def cancel(self, number: int) -> None:
        """Cancel the submission of this number, where there is one that is not over."""
        self._journal.cancel(number)


class _Reaches(Protocol):
    """Options that say where the queue is."""

    @property
    def service(self) -> str | None: ...

    @property
    def store(self) -> str | None: ...


def open_queue(options: _Reaches) -> Queue:
    """The queue of the server or the store that options name, else of the user's own store. Raises `UserError`."""
    if options.service is not None:
        return RemoteQueue(options.service)
    return StoredQueue(open_sessions(store_url(options.store)))
