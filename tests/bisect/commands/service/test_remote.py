"""The queue by way of a server, as its users reach it from machines that do not reach the store."""

import json
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from precision_bisect.bisect.cli import main
from precision_bisect.bisect.commands.service.remote import RemoteQueue
from precision_bisect.bisect.commands.service.submit import check_submission
from precision_bisect.bisect.site.serve import SiteServer
from precision_bisect.bisect.site.writing import QueueWriting
from precision_bisect.runner.errors import UserError
from precision_bisect.store.database import open_store, read_store
from precision_bisect.store.journals.queue.submissions import QueueJournal
from precision_bisect.store.vocabulary import SubmissionState
from tests.bisect.commands.service.conftest import submission
from tests.conftest import TestRepository


@pytest.fixture
def service(store: str) -> Iterator[str]:
    writing = QueueWriting(sessions=open_store(store), check=check_submission)
    with SiteServer(read_store(store), "127.0.0.1", 0, writing=writing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


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
    assert ask("watch", number, "--service", service)[0] == 130
    assert ask("status", "99", "--service", service)[0] == 1

    others = str(queue.submit(submission("other", user="bob")))
    code, text = ask("cancel", others, "--service", service)
    assert (code, "found 403: " in text) == (1, True)
    assert ask("token", "ada", "--revoke") == (0, "1 token of ada revoked\n")
    assert ask("submit", "--service", service, *question)[0] == 1
    assert len(queue.all(states=[SubmissionState.QUEUED])) == 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"bisection": "../x"}, "--name ../x: expected"),
        ({"folder": "here"}, "expected the full path of a folder"),
        ({"words": ["--interactive", "--bad", "b"]}, "found --interactive"),
        ({"words": ["--store", "sqlite:///x", "--bad", "b"]}, "found --store"),
        ({"words": ["--god"]}, "No such option"),
        ({"words": []}, "expected the options of a bisection"),
    ],
)
def test_a_server_refuses_what_no_worker_could_run(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        check_submission(submission("one", **wrong) if "bisection" not in wrong else submission("../x"))


@pytest.mark.parametrize("url", ["ftp://x", "here", "http://", "file:///etc/passwd"])
def test_a_service_that_is_none(url: str) -> None:
    with pytest.raises(UserError, match="expected the URL of a server"):
        RemoteQueue(url)


def test_a_server_that_is_away() -> None:
    with pytest.raises(UserError, match="expected a server that answers"):
        RemoteQueue("http://127.0.0.1:9").entries(most_over=1)
