"""One submission as a worker runs it: where it can, to its end, and what is kept of its log."""

import os
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from filelock import FileLock
from sqlalchemy.exc import OperationalError

from precision_bisect.bisect.cli import ParsedWords, parse_words
from precision_bisect.bisect.queue_client import describe_unusable_path
from precision_bisect.bisect.queue_worker import SubmissionRunner, home_name, is_driven, log_path, read_tail
from precision_bisect.runner.workspace.home import Home, user_home
from precision_bisect.store.database import open_store
from precision_bisect.store.queue import QueueJournal, QueueWorker
from precision_bisect.store.vocabulary import SubmissionState
from tests.bisect.queue.conftest import submission
from tests.conftest import TestRepository
from tests.support import postgresql


@pytest.fixture
def runner(store: str) -> SubmissionRunner:
    home = user_home()
    worker = QueueWorker(name="w", host="here", place=home_name(home))
    return SubmissionRunner(sessions=open_store(store), store=store, home=home, worker=worker)


def test_a_home_has_one_name(tmp_path: Path) -> None:
    home, other = (Home(cache=tmp_path / name, state=tmp_path / name) for name in ("one", "two"))
    assert home_name(home) == home_name(home) != home_name(other)


def test_one_is_run_where_its_folder_is_and_nobody_is_at_it(
    runner: SubmissionRunner, queue: QueueJournal, tmp_path: Path
) -> None:
    queue.submit(submission("away", folder=str(tmp_path / "away")))
    queue.submit(submission("here", folder=str(tmp_path)))
    away, here = queue.all()
    assert (
        runner.missing_requirement(away)
        == f"expected the submission's folder {tmp_path}/away, found none that can be read"
    )
    assert runner.missing_requirement(here) is None
    driver = runner.home.bisections / "here" / "driver.lock"
    driver.parent.mkdir(parents=True)
    with FileLock(driver):
        assert is_driven(runner.home, "here")
        assert runner.missing_requirement(here) == "a process that its worker left is still at it"
    assert runner.missing_requirement(here) is None


@pytest.mark.parametrize(
    "words",
    [
        ("--stack", "there.toml"),
        ("--repository", "tool=there"),
        ("--overlay", "there"),
        ("--adapt", "there"),
        ("--replay", "there"),
        ("--golden-data", "there"),
        ("--runtime-dir", "there"),
    ],
)
def test_what_its_words_name_must_be_there(words: tuple[str, str], tmp_path: Path) -> None:
    asked = ["--bad", "b", *words]
    name = words[1].rpartition("=")[2]
    assert (
        describe_unusable_path(str(tmp_path), asked)
        == f"expected {words[0]} {tmp_path}/{name}, found none that can be read"
    )
    (tmp_path / name).touch()
    assert describe_unusable_path(str(tmp_path), asked) is None


def test_what_commits_or_the_tool_have_need_not_be_there(tmp_path: Path) -> None:
    words = [
        "--bad",
        "b",
        "--stack",
        "pypto",
        "--overlay",
        "there@v1",
        "--case",
        "models/x.py",
        "--",
        "./there",
    ]
    assert describe_unusable_path(str(tmp_path), words) is None
    assert describe_unusable_path(str(tmp_path), ["--no-such-option"]) is None


@pytest.fixture(
    name="shared",
    params=[
        "sqlite",
        pytest.param(
            "postgresql",
            marks=[
                pytest.mark.long,
                pytest.mark.skipif(postgresql.programs() is None, reason=postgresql.ABSENT),
            ],
        ),
    ],
)
def make_shared(request: pytest.FixtureRequest, store: str) -> Generator[str]:
    """The URL of a store that homes share, of either database."""
    if request.param == "sqlite":
        yield store
        return
    with postgresql.server() as url:
        yield url


def test_a_worker_of_another_home_runs_it_where_it_was_typed(
    shared: str, tool: TestRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = QueueJournal(open_store(shared))
    words = [
        "--good",
        "HEAD~3",
        "--bad",
        "HEAD",
        "--confidence",
        "0.8",
        "-o",
        "out",
        "--",
        "sh",
        "-c",
        "exit $(cat code)",
    ]
    number = queue.submit(submission("mine", folder=str(tool.path), words=words))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRECISION_BISECT_HOME", "another")
    home = user_home()
    worker = QueueWorker(name="w", host="here", place=home_name(home))
    runner = SubmissionRunner(sessions=open_store(shared), store=shared, home=home, worker=worker)
    row = queue.take(worker, runner.missing_requirement)
    assert row is not None
    assert runner.run(row) == "ended with exit code 0"
    assert (tool.path / "out" / "report.json").is_file()
    assert (tmp_path / "another" / "state" / "bisections" / "mine").is_dir()
    assert not (tmp_path / "home" / "state" / "bisections").exists()
    row = queue.find(number)
    assert row is not None
    assert row.exit_code == 0


@pytest.mark.parametrize(("bad", "code"), [("HEAD", 0), ("HEAD~1", 4)])
def test_it_ends_with_the_exit_code_of_its_bisection(
    bad: str, code: int, runner: SubmissionRunner, queue: QueueJournal, tool: TestRepository
) -> None:
    words = ["--good", "HEAD~3", "--bad", bad, "--confidence", "0.8", "--", "sh", "-c", "exit $(cat code)"]
    number = queue.submit(submission("mine", folder=str(tool.path), words=words))
    row = queue.take(runner.worker, runner.missing_requirement)
    assert row is not None
    assert runner.run(row) == f"ended with exit code {code}"
    row = queue.find(number)
    assert row is not None
    assert (row.state, row.exit_code) == (SubmissionState.ENDED, code)
    assert row.tail == read_tail(log_path(runner.home, "mine"))
    assert row.tail


def test_what_waits_for_its_end_is_run_before_that_is_noted_and_does_not_change_it(
    runner: SubmissionRunner, queue: QueueJournal, tool: TestRepository
) -> None:
    words = ["--good", "HEAD~3", "--bad", "HEAD", "--confidence", "0.8", "--", "sh", "-c", "exit $(cat code)"]
    asked = submission("mine", folder=str(tool.path), words=words)
    number = queue.submit_existing(asked, place=runner.worker.place, afterwards=["status", "99"])
    row = queue.take(runner.worker, runner.missing_requirement)
    assert row is not None
    assert runner.run(row) == "ended with exit code 0"
    row = queue.find(number)
    assert row is not None
    assert (row.state, row.exit_code) == (SubmissionState.ENDED, 0)
    assert "no submission has the number 99" in row.tail.splitlines()[-1]


def test_of_a_log_the_last_lines_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert read_tail(log) == ""
    log.write_bytes(b"".join(b"%d \xff\n" % number for number in range(5000)))
    assert read_tail(log).splitlines() == [
        f"{number} \N{REPLACEMENT CHARACTER}" for number in range(4960, 5000)
    ]


def test_a_pipe_does_not_hold_a_worker(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    words = ["--good", "a", "--bad", "b", "--replay", "pipe"]
    assert "found a pipe or a device" in str(describe_unusable_path(str(tmp_path), words))


def test_an_interrupt_ends_a_worker_whose_store_is_away(
    runner: SubmissionRunner, queue: QueueJournal, tool: TestRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is handed back then. The lease runs out, and another worker goes on."""
    number = queue.submit(submission("mine", folder=str(tool.path), words=["--bad", "HEAD", "--", "true"]))
    row = queue.take(runner.worker, runner.missing_requirement)
    assert row is not None

    def interrupt(*_arguments: object, **_named: object) -> None:
        raise KeyboardInterrupt

    def fail(*_arguments: object, **_named: object) -> None:
        raise OperationalError("", {}, Exception("the store is away"))

    monkeypatch.setattr(QueueJournal, "renew", interrupt)
    monkeypatch.setattr(QueueJournal, "requeue", fail)
    with pytest.raises(KeyboardInterrupt):
        runner.run(row)
    row = queue.find(number)
    assert row is not None
    assert row.state is SubmissionState.RUNNING


def test_words_that_wait_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker looks at them each second, and parsing takes long."""
    parsed: list[object] = []

    def parse(words: Sequence[str]) -> ParsedWords:
        parsed.append(words)
        return parse_words(words)

    monkeypatch.setattr("precision_bisect.bisect.queue_client.parse_words", parse)
    words = ["--bad", str(tmp_path), "--replay", "there"]
    for is_there in (False, True):
        assert (describe_unusable_path(str(tmp_path), words) is None) is is_there
        (tmp_path / "there").touch()
    assert len(parsed) == 1
