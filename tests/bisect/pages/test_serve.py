"""The server: the site's addresses and nothing else, its headers, and who may ask."""

import http.client
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from sqlalchemy.orm import Session

from precision_bisect.bisect.pages import serve, site
from precision_bisect.bisect.pages.render import bisection_address, reduced_build_address, task_graph_address
from precision_bisect.bisect.pages.serve import SiteServer
from precision_bisect.bisect.pages.site import Page
from precision_bisect.store.database import open_read_only
from tests.bisect.report.conftest import culprit  # noqa: F401
from tests.bisect.report.stored_bisection import StoredBisection


@pytest.fixture
def port(culprit: StoredBisection) -> Iterator[int]:  # noqa: F811
    with SiteServer(open_read_only(culprit.url), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return found


def test_it_serves_the_pages_with_a_strict_policy(port: int) -> None:
    status, headers, body = ask(port, "/")
    assert (status, "Subject of c5" in body) == (200, True)
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert ask(port, "/index.html", "HEAD")[2] == ""


@pytest.mark.parametrize("path", ["/../store.sqlite", "/%2e%2e/store.sqlite", "/x", "/" + "a" * 999])
def test_other_addresses_do_not_exist(path: str, port: int) -> None:
    assert ask(port, path)[0] == 404


def test_it_only_reads(port: int) -> None:
    assert ask(port, "/", "POST")[0] == 501


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.2:8000", "[::1]", "[::1]:8000"]
)
def test_it_answers_to_its_own_name(host: str, port: int) -> None:
    assert ask(port, "/", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        *("", "evil.example", "127.evil.example", "localhost.evil.example", "localhost:evil.example"),
        *("localhost/evil.com", "user@localhost", "user:x@localhost", "localhost?x", "localhost#x"),
        *(
            "evil.com\\\\localhost",
            "localhost%2fevil",
            "localhost:80:80",
            "[::1",
            "[localhost]",
            "[::1]evil",
            "10.0.0.1",
        ),
    ],
)
def test_it_answers_to_no_other_name(host: str, port: int) -> None:
    assert ask(port, "/", Host=host)[0] == 421


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example", 421),
        (b"GET / HTTP/1.1", 421),
        (b"GET http://[ HTTP/1.1\r\nHost: localhost", 404),
        (b"GET /%00 HTTP/1.1\r\nHost: localhost", 404),
        (b"GET /%ed%a0%80 HTTP/1.1\r\nHost: localhost", 404),
        (b"GET /queue/999999999999999999999999.json HTTP/1.1\r\nHost: localhost", 404),
        (b"GET / HTTP/9.9\r\nHost: localhost", 505),
        (b"\0\xff / HTTP/1.1\r\nHost: localhost", 501),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200, 431),
        (b"GET /" + b"x" * 70_000, 414),
    ],
)
def test_what_is_no_request_is_answered_and_not_traced(
    head: bytes, status: int, port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert said(port, head + b"\r\n\r\n").count(b"%d" % status)
    assert capfd.readouterr().err == ""


def said(port: int, request: bytes) -> bytes:
    """What the server says before it waits no longer for another request."""
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
    ):
        patch.setattr(serve, "_REQUEST_SECONDS", 0.5)
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_a_body_is_not_taken_for_the_next_request(port: int) -> None:
    second = b"GET /index.html HTTP/1.1\r\nHost: localhost\r\n\r\n"
    first = b"GET /x HTTP/1.1\r\nHost: localhost\r\n"
    assert len(re.findall(b"HTTP/1.1 [0-9]+ ", said(port, first + b"\r\n" + second))) == 2
    length = b"Content-Length: %d\r\n\r\n" % len(second)
    assert len(re.findall(b"HTTP/1.1 [0-9]+ ", said(port, first + length + second))) == 1
    assert (
        len(
            re.findall(
                b"HTTP/1.1 [0-9]+ ", said(port, first + b"Transfer-Encoding: chunked\r\n\r\n" + second)
            )
        )
        == 1
    )


def test_headers_that_come_one_by_one_hold_a_connection_no_longer(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_REQUEST_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", port), timeout=0.05) as connection, suppress(ConnectionError):
        connection.sendall(b"GET / HTTP/1.1\r\n")
        while True:
            connection.sendall(b"X: y\r\n")
            with suppress(TimeoutError):
                assert connection.recv(1) == b""
                break


def test_headers_that_are_too_long_are_read_no_further(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_REQUEST_SECONDS", 3600.0)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, suppress(ConnectionError):
        connection.sendall(b"GET / HTTP/1.1\r\n" + (b"X: " + b"y" * 60_000 + b"\r\n") * 3)
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400,
        b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400,
    ],
)
def test_connections_that_ask_nothing_or_take_no_answer_keep_nobody_out(
    culprit: StoredBisection,  # noqa: F811
    sent: bytes,
) -> None:
    serving = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from precision_bisect.bisect.cli import main
from precision_bisect.bisect.pages import serve
serve._REQUEST_SECONDS = serve._ANSWER_SECONDS = serve._Handler.timeout = 3.0
main(["serve", "--port", "0", "--store", {culprit.url!r}])
"""
    server = subprocess.Popen(
        [sys.executable, "-c", serving], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    port = int(server.stdout.readline().split(":")[2].partition("/")[0])
    with ExitStack() as held:
        for _ in range(200):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            with suppress(OSError):  # it may have had to go by now
                connection.sendall(sent)
        assert ask(port, "/")[0] == 200
        assert ask(port, "/bisections.html")[0] == 200
    server.send_signal(signal.SIGINT)
    _, errors = server.communicate(timeout=60)
    assert (server.returncode, errors) == (0, "")


def test_pages_of_clients_that_have_gone_are_not_made_and_the_queue_answers_meanwhile(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for a page is bounded by nothing here, and yet the queue has an answer."""
    monkeypatch.setattr(serve, "_TURN_SECONDS", 3600.0)
    made, waits, may_go_on = [], threading.Semaphore(0), threading.Event()
    make, note = serve._page, SiteServer.note_waiting

    def slow_page(session: Session, address: str) -> Page | None:
        if address == "index.html":
            made.append(address)
            may_go_on.wait()
        return make(session, address)

    def noting(server: SiteServer, connection: socket.socket, *, waiting: bool) -> None:
        note(server, connection, waiting=waiting)
        if not waiting:
            waits.release()

    monkeypatch.setattr(serve, "_page", slow_page)
    monkeypatch.setattr(SiteServer, "note_waiting", noting)
    for _ in range(60):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for _ in range(60):
        assert waits.acquire(timeout=60)
    assert ask(port, "/queue.json")[0] == 200
    may_go_on.set()
    assert ask(port, "/")[0] == 200
    assert len(made) <= 2 * (serve._MAX_SESSIONS - 1)


def test_a_request_that_waits_too_long_for_others_is_refused(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_TURN_SECONDS", 0.05)
    monkeypatch.setattr(serve, "_MAX_SHARED_PAGES", 0)
    may_go_on, begun, make = threading.Event(), threading.Semaphore(0), serve._page

    def slow_page(session: Session, address: str) -> Page | None:
        begun.release()
        may_go_on.wait()
        return make(session, address)

    monkeypatch.setattr(serve, "_page", slow_page)
    with ThreadPoolExecutor(serve._MAX_SESSIONS) as readers:
        slow = [readers.submit(ask, port, "/") for _ in range(serve._MAX_SESSIONS - 1)]
        for _ in slow:
            assert begun.acquire(timeout=60)
        status, _, said_of = ask(port, "/")
        assert (status, said_of) == (503, "too many use the store; try again\n")
        may_go_on.set()
        assert [each.result()[0] for each in slow] == [200] * len(slow)


def test_a_request_looks_only_at_the_files_of_its_own_page(
    culprit: StoredBisection,  # noqa: F811
    port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(site, "reduced_files", lambda report: looked.append(str(report)) or [])
    for path in (
        "/x",
        "/index.html",
        "/bisections/x.html",
        "/commits/x/y.html",
        "/jobs/x.html",
        "/bisections.html",
    ):
        ask(port, path)
    assert looked == []
    assert ask(port, f"/{reduced_build_address(culprit.name)}")[0] == 404
    assert looked == [str(culprit.request.output)]


def test_a_task_graph_may_run_its_script_and_has_no_origin(
    culprit: StoredBisection,  # noqa: F811
    port: int,
) -> None:
    report = culprit.request.output
    report.mkdir()
    (report / "task_graph.html").write_text("<script>1</script>")
    _, _, page = ask(port, f"/{bisection_address(culprit.name)}")
    assert task_graph_address(culprit.name).rpartition("/")[2] in page
    status, headers, body = ask(port, f"/{task_graph_address(culprit.name)}")
    assert (status, body) == (200, "<script>1</script>")
    assert headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none'")
