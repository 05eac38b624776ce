"""The queue on the site: its page, what a server tells as it changes, and who may write."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker

from precision_bisect.bisect.pages.render import INDEX, QUEUE, QUEUE_EVENTS
from precision_bisect.bisect.pages.serve import MAX_BODY_BYTES, QueueWriter, SiteServer
from precision_bisect.bisect.pages.site import Site
from precision_bisect.runner.errors import UsageError
from precision_bisect.store.database import open_read_only, sqlite_url
from precision_bisect.store.queue import QueueJournal, QueueWorker, Submission, TokenJournal
from precision_bisect.store.vocabulary import SubmissionState
from tests.bisect.queue.conftest import submission
from tests.support.stores import new_store

WORKER = QueueWorker(name="w", host="lab", place="home")
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def sessions(tmp_path: Path) -> sessionmaker[Session]:
    return new_store(tmp_path / "store.sqlite")


def refuse_folder_y(each: Submission) -> None:
    if each.folder == "/y":
        raise UsageError("expected another folder")


@pytest.fixture
def port(sessions: sessionmaker[Session], tmp_path: Path) -> Iterator[int]:
    writing = QueueWriter(sessions=sessions, check=refuse_folder_y)
    store = open_read_only(sqlite_url(tmp_path / "store.sqlite"))
    with SiteServer(store, "127.0.0.1", 0, writing=writing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.ending.set()
        server.shutdown()
        thread.join()


def ask(
    port: int, method: str, path: str, body: object = None, token: str | None = None, **headers: str
) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    text = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    connection.request(method, path, text, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def asked(**other: object) -> dict[str, object]:
    return {"bisection": "one", "user": "mallory", "words": ["--bad", "b"], "folder": "/x", **other}


def test_the_page_is_there_once_something_was_submitted(sessions: sessionmaker[Session]) -> None:
    queue = QueueJournal(sessions)
    with sessions() as session:
        assert QUEUE not in Site(session).pages
    queue.submit(submission("one", user=EVIL, words=["--bad", EVIL], priority=3))
    queue.submit(submission("two", words=["--good", "ab" * 20, "--bad", "main"]))
    assert queue.take(WORKER) is not None
    with sessions() as session:
        page = Site(session).pages[QUEUE]
        text = page.make().decode()
    assert EVIL not in text
    assert "runs on lab" in text
    assert "waits" in text
    assert "--good ababababab --bad main" in text
    assert "priority 3" in text
    assert "connect-src &#39;self&#39;" in text
    assert "connect-src 'self'" in page.policy
    with sessions() as session:
        assert "connect-src" not in Site(session).pages[INDEX].policy


def test_a_server_tells_what_becomes_of_the_queue(port: int, sessions: sessionmaker[Session]) -> None:
    queue = QueueJournal(sessions)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/{QUEUE_EVENTS}")
    answer = connection.getresponse()
    assert answer.headers["Content-Type"].startswith("text/event-stream")

    def next_event() -> str:
        lines = iter(lambda: answer.readline().decode(), "")
        return json.loads(next(line for line in lines if line.startswith("data: ")).removeprefix("data: "))

    assert "Empty" in next_event()
    number = queue.submit(submission("one"))
    assert "waits" in next_event()
    queue.cancel(number)
    assert "was cancelled" in next_event()
    connection.close()


def test_machines_read_entries_without_a_token(port: int, sessions: sessionmaker[Session]) -> None:
    number = QueueJournal(sessions).submit(submission("one"))
    status, text = ask(port, "GET", "/queue.json")
    assert (status, [each["id"] for each in json.loads(text)]) == (200, [number])
    assert json.loads(ask(port, "GET", f"/queue/{number}.json")[1])["bisection"] == "one"
    assert ask(port, "GET", "/queue/99.json")[0] == 404
    assert ask(port, "GET", "/queue/1")[0] == 404


def test_who_shows_a_token_submits_as_its_user_and_cancels_what_is_theirs(
    port: int, sessions: sessionmaker[Session]
) -> None:
    tokens, queue = TokenJournal(sessions), QueueJournal(sessions)
    ada, bob = tokens.new("ada"), tokens.new("bob")
    status, text = ask(port, "POST", "/queue", asked(priority=2), ada)
    assert status == 201
    number = json.loads(text)["id"]
    row = queue.find(number)
    assert row is not None
    assert (row.user, row.priority, row.words) == ("ada", 2, ["--bad", "b"])
    status, text = ask(port, "POST", "/queue", asked(), bob)
    assert (status, "--name one: expected a name of its own" in text) == (400, True)
    assert ask(port, "POST", f"/queue/{number}/cancel", None, bob)[0] == 403
    assert ask(port, "POST", f"/queue/{number}/cancel", None, ada)[0] == 200
    row = queue.find(number)
    assert row is not None
    assert row.state is SubmissionState.CANCELLED
    assert ask(port, "POST", "/queue/99/cancel", None, ada)[0] == 404


def test_nothing_is_written_without_a_token(port: int, sessions: sessionmaker[Session]) -> None:
    tokens, queue = TokenJournal(sessions), QueueJournal(sessions)
    revoked = tokens.new("ada")
    tokens.revoke("ada")
    mine = queue.submit(submission("mine"))
    for token in (None, "", "x", revoked):
        for path in ("/queue", f"/queue/{mine}/cancel", "/else"):
            status, text = ask(port, "POST", path, asked(), token)
            assert (status, "expected a token that counts" in text) == (401, True)
    assert ask(port, "POST", "/queue", asked(), Authorization=tokens.new("bob"))[0] == 401
    assert ask(port, "POST", "/queue", asked(), tokens.new("bob"), Host="evil.example")[0] == 421
    assert [row.id for row in queue.all(states=[SubmissionState.QUEUED])] == [mine]


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/queue", b"no JSON", 400, "Invalid JSON"),
        ("/queue", {"words": []}, 400, "expected a submission, found at bisection"),
        ("/queue", asked(folder="/y"), 400, "expected another folder"),
        ("/queue", asked(priority="high"), 400, "found at priority"),
        ("/queue", b"x" * (MAX_BODY_BYTES + 1), 413, "expected at most"),
        ("/else", asked(), 404, "expected /queue"),
    ],
)
def test_what_is_no_submission_is_refused(
    path: str, body: object, status: int, says: str, port: int, sessions: sessionmaker[Session]
) -> None:
    found, text = ask(port, "POST", path, body, TokenJournal(sessions).new("ada"))
    assert (found, says in text) == (status, True), text
    assert QueueJournal(sessions).all() == []
