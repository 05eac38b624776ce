"""What may be written by way of a server: who shows a token may submit, and cancel what they have submitted.

Every request that writes says `Authorization: Bearer TOKEN`; without a token that counts, nothing is looked at.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UserError
from ...store.journals.queue.submissions import NameTakenError, QueueJournal, Submission
from ...store.journals.queue.tokens import TokenJournal

LONGEST_BODY = 1 << 16
"""Bytes of a request that writes."""
_BEARER = "Bearer "


@dataclass(frozen=True)
class QueueAnswer:
    """What a request that writes is answered with, as JSON."""

    status: HTTPStatus
    said: dict[str, object]

    @property
    def body(self) -> bytes:
        """As it is sent."""
        return json.dumps(self.said).encode() + b"\n"


@dataclass(frozen=True, kw_only=True)
class QueueWriting:
    """Writes the queue of a store for those whom their tokens name. `check` refuses what no worker could run."""

    sessions: sessionmaker[Session]
    check: Callable[[Submission], None]

    def user(self, authorization: str) -> str | None:
        """Who shows this header; None where it is no token that counts."""
        if not authorization.startswith(_BEARER):
            return None
        return TokenJournal(self.sessions).user_of(authorization.removeprefix(_BEARER))

    def submit(self, user: str, body: bytes) -> QueueAnswer:
        """Put the submission that is told as JSON on the queue, as this user's."""
        try:
            submission = replace(TypeAdapter(Submission).validate_json(body), user=user)
            self.check(submission)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the whole of it"
            return _refused(f"expected a submission, found at {place}: {first['msg']}")
        except UserError as error:
            return _refused(str(error))
        try:
            number = QueueJournal(self.sessions).submit(submission)
        except NameTakenError as error:
            return _refused(str(error))
        return QueueAnswer(HTTPStatus.CREATED, {"id": number})

    def cancel(self, user: str, number: int) -> QueueAnswer:
        """Cancel a submission of this user."""
        queue = QueueJournal(self.sessions)
        row = queue.find(number)
        if row is None:
            return QueueAnswer(
                HTTPStatus.NOT_FOUND, {"error": f"{number}: expected a submission, found none"}
            )
        if row.user != user:
            return QueueAnswer(
                HTTPStatus.FORBIDDEN, {"error": f"{number}: expected a submission of {user}, found another's"}
            )
        queue.cancel(number)
        return QueueAnswer(HTTPStatus.OK, {"id": number})


def _refused(why: str) -> QueueAnswer:
    return QueueAnswer(HTTPStatus.BAD_REQUEST, {"error": why})
