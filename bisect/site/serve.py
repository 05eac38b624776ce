"""The site over HTTP, made from the store when it is asked for. It reads; where it is told to (`writing`), whoever
shows a token may submit and cancel too."""

import re
import socket
import sys
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from pydantic import TypeAdapter
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UserError, reason
from ...store.journals.queue.entries import QueueEntry, entry, queue_entries
from . import addresses
from .live import queue_events
from .pages import Page, Site
from .writing import LONGEST_BODY, QueueAnswer, QueueWriting

_LONGEST_ADDRESS = 400
_IDLE_SECONDS = 20.0
_MOST_STREAMS = 50
"""How many may follow the queue at once."""
_MOST_OVER = 100
_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"
_ENTRY = re.compile(r"queue/([1-9][0-9]{0,9})\.json")
_CANCEL = re.compile(r"/queue/([1-9][0-9]{0,9})/cancel")


class SiteServer(ThreadingHTTPServer):
    """A server of one store's pages on an address of this machine. Port 0 takes a free one."""

    daemon_threads: bool = True

    def __init__(
        self, sessions: sessionmaker[Session], host: str, port: int, *, writing: QueueWriting | None = None
    ) -> None:
        self.sessions = sessions
        self.writing = writing
        self.ending = threading.Event()
        self.streams = threading.BoundedSemaphore(_MOST_STREAMS)
        self.loopback = _own_name(f"[{host}]" if ":" in host else host)
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise UserError(
                f"expected to listen on {host} port {port}: {reason(error)}; name others with --host and --port"
            ) from error

    def server_close(self) -> None:
        """End, and with it what follows the queue."""
        self.ending.set()
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of the addresses that the site has, and POST to the queue; anything else is refused."""

    server: SiteServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    server_version = "precision-bisect"
    sys_version = ""
    timeout = _IDLE_SECONDS
    _headers: ClassVar[dict[str, str]] = {
        "Cache-Control": "no-store",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }

    def do_GET(self) -> None:
        """A page."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """A page's headers."""
        self._answer(body=False)

    def do_POST(self) -> None:
        """Something to write."""
        writing = self.server.writing
        if writing is None:
            self.send_error(HTTPStatus.NOT_IMPLEMENTED, "this server only reads")
            return
        # Whatever is refused, the connection is not used again: its body may not have been read.
        self.close_connection = True
        if not self._is_asked_by_its_name(body=True):
            return
        try:
            answer = self._written(writing)
        except SQLAlchemyError as error:
            print(f"{self.path}: {error}", file=sys.stderr)
            answer = QueueAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "the store cannot be written"})
        challenge = {"WWW-Authenticate": "Bearer"} if answer.status is HTTPStatus.UNAUTHORIZED else {}
        self._send(answer.status, _JSON, answer.body, body=True, more=challenge)

    def _written(self, writing: QueueWriting) -> QueueAnswer:
        """Do what is asked of the queue, for whom the token names."""
        user = writing.user(self.headers.get("Authorization", ""))
        if user is None:
            return QueueAnswer(
                HTTPStatus.UNAUTHORIZED,
                {"error": "expected a token that counts, found none, or one that was revoked or never made"},
            )
        if cancelled := _CANCEL.fullmatch(self.path):
            return writing.cancel(user, int(cancelled[1]))
        if self.path != "/queue":
            return QueueAnswer(HTTPStatus.NOT_FOUND, {"error": "expected /queue or /queue/ID/cancel"})
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST_BODY:
            return QueueAnswer(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"expected at most {LONGEST_BODY} bytes"}
            )
        return writing.submit(user, self.rfile.read(int(length)))

    def _is_asked_by_its_name(self, *, body: bool) -> bool:
        """Whether the request names this machine; refused where another site's name leads here (DNS rebinding), which
        would let its pages read ours."""
        if not self.server.loopback or _own_name(self.headers.get("Host", "")):
            return True
        self._send(HTTPStatus.MISDIRECTED_REQUEST, _TEXT, b"wrong host\n", body=body)
        return False

    def _answer(self, *, body: bool) -> None:
        if not self._is_asked_by_its_name(body=body):
            return
        address = unquote(urlsplit(self.path).path).removeprefix("/") or addresses.INDEX
        if address == addresses.QUEUE_EVENTS and body:
            self._follow_queue()
            return
        try:
            with self.server.sessions() as session:
                page = None if len(address) > _LONGEST_ADDRESS else _page(session, address)
                if page is None:
                    self._send(HTTPStatus.NOT_FOUND, _TEXT, b"no such page\n", body=body)
                    return
                content = page.make()
        except (SQLAlchemyError, UserError) as error:
            print(f"{address}: {error}", file=sys.stderr)
            self._send(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                _TEXT,
                b"this page cannot be made from the store; the server's output says why\n",
                body=body,
            )
            return
        self._send(HTTPStatus.OK, page.content, content, body=body, policy=page.policy)

    def _follow_queue(self) -> None:
        """Tell what becomes of the queue until either side ends."""
        self.close_connection = True
        if not self.server.streams.acquire(blocking=False):
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"too many follow the queue\n", body=True)
            return
        try:
            self._send_head(HTTPStatus.OK, "text/event-stream; charset=utf-8", {})
            for event in queue_events(self.server.sessions, self.server.ending.wait):
                self.wfile.write(event)
                self.wfile.flush()
        except OSError:
            pass  # the browser is gone
        except SQLAlchemyError as error:
            print(f"{addresses.QUEUE_EVENTS}: {error}", file=sys.stderr)
        finally:
            self.server.streams.release()

    def _send(
        self,
        status: HTTPStatus,
        kind: str,
        content: bytes,
        *,
        body: bool,
        policy: str = "default-src 'none'",
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._send_head(status, kind, {"Content-Length": str(len(content)), **(more or {})}, policy=policy)
        if body:
            self.wfile.write(content)

    def _send_head(
        self, status: HTTPStatus, kind: str, more: Mapping[str, str], *, policy: str = "default-src 'none'"
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
        for name, value in {**self._headers, **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests of one's own browser are no news."""


def _page(session: Session, address: str) -> Page | None:
    """The page at an address, or the queue for machines."""
    if address == addresses.QUEUE_ENTRIES:
        entries = queue_entries(session, most_over=_MOST_OVER)
        return Page(_JSON, lambda: TypeAdapter(list[QueueEntry]).dump_json(entries))
    if named := _ENTRY.fullmatch(address):
        found = entry(session, int(named[1]))
        return None if found is None else Page(_JSON, lambda: TypeAdapter(QueueEntry).dump_json(found))
    return Site(session).pages.get(address)


def _own_name(host: str) -> bool:
    """Whether a Host header names this machine's loopback."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
