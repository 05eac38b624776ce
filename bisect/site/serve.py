"""The site over HTTP, made from the store when it is asked for. It reads, and nothing else."""

import socket
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from ...runner.errors import UserError, reason
from . import addresses
from .pages import Site

_LONGEST_ADDRESS = 400
_IDLE_SECONDS = 20.0


class SiteServer(ThreadingHTTPServer):
    """A server of one store's pages on an address of this machine. Port 0 takes a free one."""

    daemon_threads: bool = True

    def __init__(self, sessions: sessionmaker[Session], host: str, port: int) -> None:
        self.sessions = sessions
        self.loopback = _own_name(f"[{host}]" if ":" in host else host)
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise UserError(
                f"expected to listen on {host} port {port}: {reason(error)}; name others with --host and --port"
            ) from error


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of the addresses that the site has; anything else is refused."""

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

    def _answer(self, *, body: bool) -> None:
        if self.server.loopback and not _own_name(self.headers.get("Host", "")):
            # Another site's name that leads here would let its pages read ours (DNS rebinding).
            self._send(
                HTTPStatus.MISDIRECTED_REQUEST, "text/plain; charset=utf-8", b"wrong host\n", body=body
            )
            return
        address = unquote(urlsplit(self.path).path).removeprefix("/") or addresses.INDEX
        try:
            with self.server.sessions() as session:
                page = None if len(address) > _LONGEST_ADDRESS else Site(session).pages.get(address)
                if page is None:
                    self._send(
                        HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"no such page\n", body=body
                    )
                    return
                content = page.make()
        except (SQLAlchemyError, UserError) as error:
            print(f"{address}: {error}", file=sys.stderr)
            self._send(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "text/plain; charset=utf-8",
                b"this page cannot be made from the store; the server's output says why\n",
                body=body,
            )
            return
        self._send(HTTPStatus.OK, page.content, content, body=body, policy=page.policy)

    def _send(
        self, status: HTTPStatus, kind: str, content: bytes, *, body: bool, policy: str = "default-src 'none'"
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
        for name, value in self._headers.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests of one's own browser are no news."""


def _own_name(host: str) -> bool:
    """Whether a Host header names this machine's loopback."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
