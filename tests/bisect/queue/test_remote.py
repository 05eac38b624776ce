"""The queue by way of a server, as its users reach it from machines that do not reach the store."""

import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from urllib.error import HTTPError

import pytest
from click.testing import CliRunner

from precision_bisect.bisect.cli import main
from precision_bisect.bisect.pages.serve import QueueWriter, SiteServer
from precision_bisect.bisect.queue_client import RemoteQueue, check_remote_submission
from precision_bisect.runner.errors import UserError
from precision_bisect.store.database import open_read_only, open_store
from precision_bisect.store.queue import QueueJournal, TokenJournal
from precision_bisect.store.vocabulary import SubmissionState
from tests.bisect.queue.conftest import submission
from tests.conftest import TestRepository


@pytest.fixture
def service(store: str) -> Iterator[str]:
    writing = QueueWriter(sessions=open_store(store), check=check_remote_submission)
    with SiteServer(open_read_only(store), "127.0.0.1", 0, writing=writing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def post(service: str, body: object, store: str) -> tuple[int, str]:
    """What the server says to who shows a token."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {TokenJournal(open_store(store)).new('ada')}"}
    request = urllib.request.Request(f"{service}queue", data=text, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def ask(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, [*words])
    return done.exit_code, done.output


def test_who_has_a_token_submits_and_cancels(
    service: str, tool: TestRepository, queue: QueueJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = ["--good", "HEAD~3", "--bad", "HEAD", "--", "sh", "-c", "exit $(cat code)"]
    code, text = ask("submit", "--service", service, *question)
    assert (code, "expected a token in $PRECISION_BISECT_TOKEN" in text) == (2, True)
    monkeypatch.setenv("PRECISION_BISECT_TOKEN", "guessed")
    code, text = ask("submit", "--service", service, *question)
    assert (code, "found 401: expected a token that counts" in text) == (1, True)
    assert queue.all() == []

    monkeypatch.setenv("PRECISION_BISECT_TOKEN", ask("token", "ada")[1].strip())
    code, text = ask("submit", "--service", service, "--json", *question)
    assert code == 0
    number = str(json.loads(text)["id"])
    (row,) = queue.all()
    assert (row.user, row.words[4:], row.folder) == ("ada", question[4:], str(tool.path))
    assert ask("status", "--service", service)[1].startswith(f"{number}  waits")
    assert ask("cancel", number, "--service", service) == (0, f"{number}: was cancelled\n")
    assert ask("status", number, "--follow", "--service", service)[0] == 130
    assert ask("status", "99", "--service", service)[0] == 1

    others = str(queue.submit(submission("other", user="bob")))
    code, text = ask("cancel", others, "--service", service)
    assert (code, "found 403: " in text) == (1, True)
    assert ask("token", "ada", "--revoke") == (0, "1 token of ada revoked\n")
    assert ask("submit", "--service", service, *question)[0] == 1
    assert len(queue.all(states=[SubmissionState.QUEUED])) == 1


NOTHING_IS_HERE = "~nobody-has-this-name/f"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"words": ["--bad", "HEAD", "--overlay", NOTHING_IS_HERE]},
            "--overlay ~nobody-.*home; write it out",
        ),
        ({"words": ["--bad", "HEAD", "--adapt", NOTHING_IS_HERE]}, "--adapt ~nobody"),
        ({"words": ["--bad", "HEAD", "--repository", f"a={NOTHING_IS_HERE}"]}, "--repository ~nobody"),
        ({"words": ["--interactive", "--bad", "b"]}, "found --interactive"),
        ({"words": ["--store", "sqlite:///x", "--bad", "b"]}, "found --store"),
        ({"words": ["--god"]}, "No such option"),
        ({"words": []}, "expected the options of a bisection"),
    ],
)
def test_a_server_refuses_what_no_worker_could_run(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        check_remote_submission(submission("one", **wrong))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"bisection": "../x"}, "at bisection: String should match"),
        ({"bisection": "x" * 65}, "at bisection: String should match"),
        ({"folder": "here"}, "at folder: expected the full path of a folder"),
        ({"folder": "/tmp/\0"}, "at folder: expected the full path of a folder"),
        ({"folder": "/" + "a" * 5000}, "at folder: String should have at most 4096"),
        ({"words": ["--bad", "HEAD", "--", "sh", "\0"]}, "at words: expected no NUL in a word"),
        ({"words": ["--bad", "HEAD", "--stack", "a\0.toml"]}, "at words: expected no NUL in a word"),
        ({"words": "--bad HEAD"}, "at words: "),
        ({"words": [["--bad"]]}, "at words.0: "),
        ({"priority": 10**30}, "at priority: "),
        ({"priority": -1001}, "at priority: "),
        ({"priority": True}, "at priority: "),
        ({"device": True}, "at device: "),
        ({"priority": 1e400}, "at priority: "),
        ({"device": 2**70, "board": "a2a3"}, "at device: "),
        ({"device": -1, "board": "a2a3"}, "at device: "),
        ({"board": "x" * 65}, "at board: "),
        ({"board": "\0"}, "at board: expected no control characters"),
        ({"state": "ended"}, "at state: Extra inputs are not permitted"),
    ],
)
def test_a_server_takes_nothing_that_is_no_submission(
    wrong: dict[str, object], says: str, service: str, queue: QueueJournal, store: str
) -> None:
    status, text = post(
        service, {"bisection": "one", "user": "m", "words": ["--bad", "b"], "folder": "/x", **wrong}, store
    )
    assert (status, says in text) == (400, True), text
    assert queue.all() == []


def test_a_word_of_half_a_character_is_refused(service: str, queue: QueueJournal, store: str) -> None:
    body = rb'{"bisection": "one", "user": "m", "words": ["--bad", "\ud800"], "folder": "/x"}'
    assert post(service, body, store)[0] == 400
    assert queue.all() == []


def test_a_submission_whose_user_cannot_be_shown_is_refused_at_once(
    tool: TestRepository, queue: QueueJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada\x1b[2J")
    code, text = ask("submit", "--good", "HEAD~1", "--bad", "HEAD", "--", "true")
    assert (code, "found at user: expected no control characters" in text) == (2, True)
    assert ask("submit", "--priority", str(10**30), "--bad", "HEAD", "--", "true")[0] == 2
    assert queue.all() == []


@pytest.mark.parametrize("url", ["ftp://x", "here", "http://", "file:///etc/passwd", "http://[x"])
def test_a_service_that_is_none(url: str) -> None:
    with pytest.raises(UserError, match="expected the URL of a server"):
        RemoteQueue(url)


@pytest.mark.parametrize("host", ["127.0.0.1:9", f"{'x' * 64}.org", "127.0.0.1:port"])
def test_a_server_that_is_away(host: str) -> None:
    with pytest.raises(UserError, match="expected a server that answers"):
        RemoteQueue(f"http://{host}").entries(max_ended=1)


@pytest.mark.parametrize("status", ["200 OK", "500 Broken"])
def test_a_server_that_breaks_off_its_answer(status: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\nf\r\nx".encode())

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(UserError, match="expected a server that answers"):
            RemoteQueue(f"http://127.0.0.1:{server.getsockname()[1]}").entries(max_ended=1)
        thread.join()


@pytest.mark.parametrize("token", ["hush-hush\n", "hush-hush\N{EM DASH}"])
def test_a_token_that_no_server_gave_is_refused_and_not_shown(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECISION_BISECT_TOKEN", token)
    with pytest.raises(UserError, match=r"expected a token in \$PRECISION_BISECT_TOKEN") as caught:
        RemoteQueue("http://127.0.0.1:9").cancel(1)
    assert "hush-hush" not in str(caught.value)
