"""The queue of a server, `bisect-precision serve --work`, by HTTP."""

import json
import os
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from ....runner.errors import UsageError, UserError
from ....store.journals.queue.entries import QueueEntry
from ....store.journals.queue.submissions import Submission
from ...report.plain_text import shortened
from ..command_line.queue_options import TOKEN_VARIABLE

_SECONDS = 60.0
_SHOWN = 400


class RemoteQueue:
    """The queue of the server at a URL. What it says is trusted no more than what anybody prints.

    Each method raises `UserError` where the server does not answer, or refuses.
    """

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
            raise UsageError(f"--service {url}: expected the URL of a server, such as http://127.0.0.1:8000")
        self._url = url.rstrip("/")
        # The token goes to the server that was named, and to no other.
        self._opener = urllib.request.build_opener(_NoRedirect)

    def submit(self, submission: Submission) -> int:
        """Put it on the queue; its number."""
        answer = self._ask("queue", TypeAdapter(Submission).dump_json(submission))
        return int(json.loads(answer)["id"])

    def entries(self, *, most_over: int) -> list[QueueEntry]:
        """What runs and what waits, and the newest of what is over."""
        entries = self._read(TypeAdapter(list[QueueEntry]), self._ask("queue.json"))
        over = [each.id for each in entries if each.is_over][-most_over:]
        return [each for each in entries if not each.is_over or each.id in over]

    def entry(self, number: int) -> QueueEntry | None:
        """The submission of this number."""
        try:
            return self._read(TypeAdapter(QueueEntry), self._ask(f"queue/{number}.json"))
        except _NotThereError:
            return None

    def cancel(self, number: int) -> None:
        """Cancel the submission of this number, where there is one that is not over."""
        self._ask(f"queue/{number}/cancel", b"")

    def _ask(self, address: str, body: bytes | None = None) -> bytes:
        """What the server answers; `body` is what is written."""
        headers = {"Content-Type": "application/json"}
        if body is not None:
            token = os.environ.get(TOKEN_VARIABLE)
            if not token:
                raise UsageError(
                    f"--service {self._url}: expected a token in ${TOKEN_VARIABLE}, found none; who runs the server "
                    "makes one: bisect-precision token USER"
                )
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(f"{self._url}/{address}", data=body, headers=headers)
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                return answer.read()
        except HTTPError as error:
            with error:
                if error.code == _NotThereError.status and body is None:
                    raise _NotThereError from error
                raise UserError(f"{self._url}: expected an answer, found {_refusal(error)}") from error
        except (URLError, OSError, HTTPException) as error:
            raise UserError(f"{self._url}: expected a server that answers: {error}") from error

    def _read(self, adapter: TypeAdapter[Any], text: bytes) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            raise UserError(
                f"{self._url}: expected a queue as this version of the tool has it, found another; update the older of "
                "the two: pip install --upgrade precision-bisect"
            ) from error


class _NotThereError(Exception):
    """The server has nothing at this address."""

    status = 404


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **settings: Any) -> None:
        """Go nowhere else: the answer is an error then."""


def _refusal(error: HTTPError) -> str:
    """Why the server refused, in its own words where it has any."""
    text = error.read(1 << 16).decode("utf-8", "replace")
    try:
        text = str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        text = text or error.reason
    return f"{error.code}: {shortened(text, _SHOWN)}"
