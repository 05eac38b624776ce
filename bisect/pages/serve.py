"""The site over HTTP (`bisect-precision serve`), and the site as a folder (`bisect-precision report --html`).

`SiteServer` makes each page from the store when it is requested. The server only reads, unless it has a `QueueWriter`.
Then a client with a token may submit, and may cancel its own submissions. Each such request has the header
`Authorization: Bearer TOKEN`; without a valid token, the server reads no more of it.

The page of the queue follows the queue by server-sent events (HTML Living Standard, 9.2). Each event is the list as the
page shows it. The server limits the number of connections, and the time and size of a request.
"""

import io
import json
import re
import resource
import select
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from math import inf
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker
from typing_extensions import Buffer

from ...runner.errors import UserError, reason
from ...store.database import migrate_and_read
from ...store.queue import (
    QueueJournal,
    Submission,
    SubmissionError,
    TokenJournal,
    describe_invalid_submission,
)
from ...store.vocabulary import one_line
from ..cli import run_command
from ..drive.session import open_sessions
from ..listing import QueueEntry, find_entry, queue_entries, session_reader, store_url
from ..options import ServeOptions, WorkerOptions
from ..queue_client import check_remote_submission
from ..queue_worker import work
from .render import INDEX, QUEUE, QUEUE_ENTRIES, QUEUE_EVENTS, render_part
from .site import Page, Site, write_site
from .views import MAX_FINISHED_SUBMISSIONS

POLL_SECONDS = 1.0
"""The server reads the queue once in this many seconds, because a store sends no events."""

_KEEPALIVE_POLLS = 15
"""After this many reads without a change a comment is sent, so that both sides notice if the other has gone."""


def queue_events(
    sessions: Callable[[], AbstractContextManager[Session]], wait: Callable[[float], bool]
) -> Iterator[bytes]:
    """Yield an event each time the list changes, until `wait` returns true because the server ends."""
    shown, unchanged_polls = "", 0
    while True:
        with sessions() as session:
            entries = queue_entries(session_reader(session), max_ended=MAX_FINISHED_SUBMISSIONS)
            text = render_part("parts/queue_list.html.j2", QUEUE, entries=entries[::-1])
        unchanged_polls += 1
        if text != shown:
            yield f"data: {json.dumps(text)}\n\n".encode()
            shown, unchanged_polls = text, 0
        elif unchanged_polls >= _KEEPALIVE_POLLS:
            yield b": still here\n\n"
            unchanged_polls = 0
        if wait(POLL_SECONDS):
            return


MAX_BODY_BYTES = 1 << 16
"""The body of a request that writes has at most this many bytes, so that no client fills the memory."""

_BEARER = "Bearer "


@dataclass(frozen=True)
class QueueAnswer:
    """The JSON answer to a request that writes."""

    status: HTTPStatus
    content: dict[str, object]

    @property
    def body(self) -> bytes:
        """Return the answer as bytes."""
        return json.dumps(self.content).encode() + b"\n"


@dataclass(frozen=True, kw_only=True)
class QueueWriter:
    """Writes the queue of a store for users with tokens. `check` refuses submissions that no worker could run."""

    sessions: sessionmaker[Session]
    check: Callable[[Submission], None]

    def user(self, authorization: str) -> str | None:
        """Return the user whose token this header holds, or None where it holds no valid token."""
        if not authorization.startswith(_BEARER):
            return None
        return TokenJournal(self.sessions).find_user(authorization.removeprefix(_BEARER))

    def submit(self, user: str, body: bytes) -> QueueAnswer:
        """Put a submission, given as JSON, on the queue for this user."""
        try:
            submission = Submission.model_validate_json(body).model_copy(update={"user": user})
            self.check(submission)
        except ValidationError as error:
            return _refusal(describe_invalid_submission(error))
        except UserError as error:
            return _refusal(str(error))
        try:
            number = QueueJournal(self.sessions).submit(submission)
        except SubmissionError as error:
            return _refusal(str(error))
        return QueueAnswer(HTTPStatus.CREATED, {"id": number})

    def cancel(self, user: str, number: int) -> QueueAnswer:
        """Cancel a submission, if it is this user's."""
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


def _refusal(why: str) -> QueueAnswer:
    return QueueAnswer(HTTPStatus.BAD_REQUEST, {"error": why})


_MAX_ADDRESS_LENGTH = 400
"""A longer address, in characters, is answered as unknown. Every page's own address is shorter."""
_MAX_REQUEST_BYTES = MAX_BODY_BYTES + (1 << 15)
"""A request has at most this many bytes: its body, and 32 KiB of headers. An endless one would fill the memory."""
_REQUEST_SECONDS = 10.0
"""A whole request must arrive within this many seconds after the server begins to wait. A slow client would keep its
place."""

_ANSWER_SECONDS = 20.0
"""A client must receive its answer within this many seconds. A slow client would keep its place."""

_MAX_CONNECTIONS = 128
"""The server holds at most this many connections at a time. Each takes a thread and a file descriptor."""
_MAX_STREAMS = 50
"""At most this many clients follow the queue at once, and at most half of the connections."""
_MAX_SESSIONS = 4
"""At most this many requests use the store at once, because each may hold three file descriptors of SQLite. One of them
never makes a page, so that the queue answers whatever the number of readers."""
_TURN_SECONDS = 5.0
"""A request that waits for others is refused after this many seconds, so that its client can try again."""

_SHARED_SECONDS = 1.0
"""A page that is not older than this many seconds serves others who had to wait. So a crowd costs one page."""

_MAX_SHARED_PAGES = 16
"""At most this many pages are kept for others who had to wait. Each lives for a second, so few are asked for at
once."""
_MIN_WAIT = 1.0
"""A connection may wait this many seconds for its client before others may take its place."""

_ACCEPT_PAUSE = 0.1
"""The server accepts again after this many seconds where no file descriptor was left. Without a pause it would keep the
processor busy."""

_MAX_FINISHED_ENTRIES = 100
"""The queue for machines lists this many of the newest finished submissions. A service collects them for years."""
_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"
_ENTRY = re.compile(r"queue/([1-9][0-9]{0,8})\.json")
_CANCEL = re.compile(r"/queue/([1-9][0-9]{0,8})/cancel")
_LENGTH = re.compile(r"[0-9]{1,9}")
_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9.-]+))(?::[0-9]{1,5})?")


class _BusyError(Exception):
    """Others use the store for too long."""


class SiteServer(ThreadingHTTPServer):
    """A server of one store's pages on an address of this machine. Port 0 takes a free port."""

    daemon_threads: bool = True
    # With a shorter queue, a client in a burst of others would wait for seconds until its connection is retried.
    request_queue_size = _MAX_CONNECTIONS

    def __init__(
        self, sessions: sessionmaker[Session], host: str, port: int, *, writing: QueueWriter | None = None
    ) -> None:
        self._sessions = sessions
        self._store_turns = threading.BoundedSemaphore(_MAX_SESSIONS)
        self._page_turns = threading.BoundedSemaphore(_MAX_SESSIONS - 1)
        self._shared = OrderedDict[str, tuple[float, Page | None, bytes]]()
        """The newest pages by address, each with the time at which it was made."""
        self.writing = writing
        self.ending = threading.Event()
        self._max_connections = _connection_limit()
        self._connections: dict[socket.socket, float] = {}
        """The time since which each connection waits for its client, oldest connection first. Infinite while it does
        not wait."""
        self._lock = threading.Lock()
        self.streams = threading.BoundedSemaphore(min(_MAX_STREAMS, self._max_connections // 2))
        self.loopback = _is_loopback_host(f"[{host}]" if ":" in host else host)
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise UserError(
                f"expected to listen on {host} port {port}: {reason(error)}; name others with --host and --port"
            ) from error

    @contextmanager
    def store_session(self) -> Generator[Session]:
        """Read the store, in turn with other requests."""
        with self._store_turns, self._sessions() as session:
            yield session

    @contextmanager
    def take_turn(self, connection: socket.socket, *, makes_page: bool = False) -> Generator[bool]:
        """Wait for a turn to use the store. Yield whether others had to end first.

        Raises:
            _BusyError: others take too long.
            ConnectionAbortedError: the client has gone by then.
        """
        has_waited = False
        with ExitStack() as held:
            for turns in (self._page_turns, self._store_turns) if makes_page else (self._store_turns,):
                if not turns.acquire(blocking=False):
                    has_waited = True
                    if not turns.acquire(timeout=_TURN_SECONDS):
                        raise _BusyError
                held.callback(turns.release)
            if self.has_left(connection):
                raise ConnectionAbortedError
            yield has_waited

    def has_left(self, connection: socket.socket) -> bool:
        """Return whether a client has closed its side of a connection."""
        try:
            poll = select.poll()
            poll.register(connection, select.POLLIN)
            return bool(poll.poll(0)) and connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def page(self, address: str, *, may_share: bool) -> tuple[Page | None, bytes]:
        """Return the page at an address with its content. The caller holds a turn. No page means that there is none.

        may_share: whether it may be one that was made for another request a moment ago.
        """
        with self._lock:
            made, page, content = self._shared.get(address, (-inf, None, b""))
        if may_share and time.monotonic() - made < _SHARED_SECONDS:
            return page, content
        with self._sessions() as session:
            page = None if len(address) > _MAX_ADDRESS_LENGTH else _page(session, address)
            content = b"no such page\n" if page is None else page.make()
        with self._lock:
            self._shared[address] = time.monotonic(), page, content
            self._shared.move_to_end(address)
            while len(self._shared) > _MAX_SHARED_PAGES:
                self._shared.popitem(last=False)
        return page, content

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Where no file descriptor is left for it, a pause follows. The connection stays pending, so that accepting it
        again at once would keep the processor busy.
        """
        try:
            return super().get_request()
        except OSError:
            self.ending.wait(_ACCEPT_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread, and close another one where there are too many.

        The connection that has waited longest for its client is closed: for a request, or until its answer was taken.
        Where none has waited for long, the oldest one is closed.
        """
        with self._lock:
            self._connections[request] = now = time.monotonic()
            if len(self._connections) > self._max_connections:
                others = [each for each in self._connections if each is not request]
                longest = min(others, key=self._connections.__getitem__)
                if now - self._connections[longest] < _MIN_WAIT:
                    longest = others[0]
                del self._connections[longest]
                with suppress(OSError):  # The connection's thread reads the end, and closes it.
                    longest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._connections.pop(request, None)
        super().close_request(request)

    def note_waiting(self, connection: socket.socket, *, waiting: bool) -> None:
        """Note whether a connection waits for its client from now on."""
        with self._lock:
            if connection in self._connections:
                self._connections[connection] = time.monotonic() if waiting else inf

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print why a request has no answer, unless the client has gone."""
        error = sys.exception()
        if not isinstance(error, OSError):
            _print_error("a request", error)

    def server_close(self) -> None:
        """Close the server, and end the streams that follow the queue."""
        self.ending.set()
        super().server_close()


class _RequestReader(io.RawIOBase):
    """Reads what a client sends. Raises `TimeoutError` for a request that is too slow or too large."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.begin()

    def begin(self) -> None:
        """Start the limits of the next request."""
        self._deadline = time.monotonic() + _REQUEST_SECONDS
        self._bytes = _MAX_REQUEST_BYTES

    def readable(self) -> bool:
        """Return True, as `io.RawIOBase` asks of a reader."""
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Wait for bytes of the request, and read them."""
        seconds = self._deadline - time.monotonic()
        if seconds <= 0 or self._bytes <= 0:
            raise TimeoutError("expected a request that is here soon")
        self._connection.settimeout(seconds)
        try:
            read = self._connection.recv_into(buffer, min(len(memoryview(buffer)), self._bytes))
        finally:
            self._connection.settimeout(_ANSWER_SECONDS)
        self._bytes -= read
        return read


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of the site's addresses, and POST to the queue. It refuses anything else."""

    server: SiteServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    server_version = "precision-bisect"
    sys_version = ""
    timeout = _ANSWER_SECONDS
    _headers: ClassVar[dict[str, str]] = {
        "Cache-Control": "no-store",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }

    def setup(self) -> None:
        """Read the connection within the limits of a request."""
        super().setup()
        self._reader = _RequestReader(self.connection)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Wait for a request, and answer it."""
        self._reader.begin()
        self.server.note_waiting(self.connection, waiting=True)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Return whether a valid request has come.

        A request with a body is the last of its connection. Its body may stay unread, and would then be taken for the
        next request.
        """
        parsed = super().parse_request()
        self.server.note_waiting(self.connection, waiting=False)
        if parsed and ("Content-Length" in self.headers or "Transfer-Encoding" in self.headers):
            self.close_connection = True
        return parsed

    def do_GET(self) -> None:
        """Answer with a page."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer with the headers of a page."""
        self._answer(body=False)

    def do_POST(self) -> None:
        """Change the queue as the request asks."""
        writing = self.server.writing
        if writing is None:
            self.send_error(HTTPStatus.NOT_IMPLEMENTED, "this server only reads")
            return
        if not self._has_allowed_host(body=True):
            return
        try:
            answer = self._change_queue(writing)
        except OSError:
            raise  # The client has gone.
        except _BusyError:
            answer = QueueAnswer(
                HTTPStatus.SERVICE_UNAVAILABLE, {"error": "too many use the store; try again"}
            )
        except Exception as error:
            _print_error(self.path, error)
            answer = QueueAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "the store cannot be written"})
        challenge = {"WWW-Authenticate": "Bearer"} if answer.status is HTTPStatus.UNAUTHORIZED else {}
        self._send(answer.status, _JSON, answer.body, body=True, more=challenge)

    def _change_queue(self, writing: QueueWriter) -> QueueAnswer:
        """Change the queue for the user of the token, and return the answer."""
        with self.server.take_turn(self.connection):
            user = writing.user(self.headers.get("Authorization", ""))
        if user is None:
            return QueueAnswer(
                HTTPStatus.UNAUTHORIZED,
                {"error": "expected a token that counts, found none, or one that was revoked or never made"},
            )
        if cancelled := _CANCEL.fullmatch(self.path):
            with self.server.take_turn(self.connection):
                return writing.cancel(user, int(cancelled[1]))
        if self.path != "/queue":
            return QueueAnswer(HTTPStatus.NOT_FOUND, {"error": "expected /queue or /queue/ID/cancel"})
        length = self.headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length) or int(length) > MAX_BODY_BYTES:
            return QueueAnswer(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"expected at most {MAX_BODY_BYTES} bytes"}
            )
        submission = self.rfile.read(int(length))
        with self.server.take_turn(self.connection):
            return writing.submit(user, submission)

    def _has_allowed_host(self, *, body: bool) -> bool:
        """Return whether the request names this machine, and refuse it otherwise.

        The name of another site may lead here (DNS rebinding), and pages of that site could then read this one.
        """
        hosts = self.headers.get_all("Host", [])
        if not self.server.loopback or (len(hosts) == 1 and _is_loopback_host(hosts[0])):
            return True
        self._send(HTTPStatus.MISDIRECTED_REQUEST, _TEXT, b"wrong host\n", body=body)
        return False

    def _answer(self, *, body: bool) -> None:
        """Send the page at the requested address, or say why there is none. `body` is False for HEAD."""
        if not self._has_allowed_host(body=body):
            return
        address = unquote(re.split("[?#]", self.path)[0]).removeprefix("/") or INDEX
        if address == QUEUE_EVENTS and body:
            self._follow_queue()
            return
        try:
            is_cheap = address == QUEUE_ENTRIES or _ENTRY.fullmatch(address)
            with self.server.take_turn(self.connection, makes_page=not is_cheap) as has_waited:
                page, content = self.server.page(address, may_share=has_waited)
        except ConnectionAbortedError:
            self.close_connection = True
            return
        except _BusyError:
            self._send(
                HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"too many use the store; try again\n", body=body
            )
            return
        except Exception as error:
            _print_error(address, error)
            self._send(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                _TEXT,
                b"this page cannot be made from the store; the server's output says why\n",
                body=body,
            )
            return
        if page is None:
            self._send(HTTPStatus.NOT_FOUND, _TEXT, content, body=body)
        else:
            self._send(HTTPStatus.OK, page.content, content, body=body, policy=page.policy)

    def _follow_queue(self) -> None:
        """Send the changes of the queue until either side ends."""
        self.close_connection = True
        if not self.server.streams.acquire(blocking=False):
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"too many follow the queue\n", body=True)
            return
        try:
            self._send_head(HTTPStatus.OK, "text/event-stream; charset=utf-8", {})
            for event in queue_events(self.server.store_session, self.server.ending.wait):
                self.wfile.write(event)
                self.wfile.flush()
        except OSError:
            pass  # The browser has gone.
        except SQLAlchemyError as error:
            _print_error(QUEUE_EVENTS, error)
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
        self.server.note_waiting(self.connection, waiting=True)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
        for name, value in {**self._headers, **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because requests of one's own browser are no news."""


def _page(session: Session, address: str) -> Page | None:
    """Return the page at an address, or the queue for machines."""
    if address == QUEUE_ENTRIES:
        entries = queue_entries(session_reader(session), max_ended=_MAX_FINISHED_ENTRIES)
        return Page(_JSON, lambda: TypeAdapter(list[QueueEntry]).dump_json(entries))
    if named := _ENTRY.fullmatch(address):
        found = find_entry(session_reader(session), int(named[1]))
        return None if found is None else Page(_JSON, lambda: TypeAdapter(QueueEntry).dump_json(found))
    return Site(session).page(address)


def _is_loopback_host(host: str) -> bool:
    """Return whether a Host header names this machine's loopback address."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    try:
        return (
            host.partition(":")[0].lower() == "localhost"
            or ip_address(found["ipv6"] or found["name"]).is_loopback
        )
    except ValueError:
        return False


def _connection_limit() -> int:
    """Return the most connections that leave most file descriptors of the process to the store and to files."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        _MAX_CONNECTIONS if descriptors == resource.RLIM_INFINITY else min(_MAX_CONNECTIONS, descriptors // 4)
    )


def _print_error(place: str, error: BaseException | None) -> None:
    print(one_line(f"{place}: {type(error).__name__}: {error}"), file=sys.stderr, flush=True)


def write_html(directory: Path, *, store: str | None) -> int:
    """Write the whole site into a folder, and return the exit code."""

    def body() -> int:
        written = write_site(_open(store), directory)
        print(f"{directory / 'index.html'}: {written.pages} pages, {written.changed} changed")
        return 0

    return run_command(body)


def serve(options: ServeOptions) -> int:
    """Serve the site until interrupted, take submissions where the options ask for it, and return the exit code."""

    def body() -> int:
        writing = None
        if options.work:
            sessions = open_sessions(store_url(options.store))
            writing = QueueWriter(sessions=sessions, check=check_remote_submission)
        with SiteServer(_open(options.store), options.host, options.port, writing=writing) as server:
            where = f"[{options.host}]" if ":" in options.host else options.host
            print(f"http://{where}:{server.server_port}/  (Ctrl-C ends)", flush=True)
            if options.work:
                return _serve_beside_work(server, options)
            with suppress(KeyboardInterrupt):
                server.serve_forever()
        return 0

    return run_command(body)


def _serve_beside_work(server: SiteServer, options: ServeOptions) -> int:
    """Serve in a second thread and work in this one, then return the exit code.

    Signals reach the main thread, so that the worker hands back its submission.
    """
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        return work(WorkerOptions(board=(), quota=None, store=options.store))
    finally:
        server.shutdown()
        thread.join()


def _open(store: str | None) -> sessionmaker[Session]:
    return migrate_and_read(store_url(store))
