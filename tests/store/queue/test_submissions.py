"""The queue in the store: taken once, renewed, given up when its worker is lost, cancelled, ended."""

import multiprocessing
from collections import Counter
from datetime import timedelta

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from precision_bisect.store.database import open_store
from precision_bisect.store.queue import (
    Board,
    QueueJournal,
    QueueWorker,
    Submission,
    SubmissionError,
    WorkerOrder,
)
from precision_bisect.store.tables import SubmissionRow, store_now
from precision_bisect.store.vocabulary import SubmissionState

HERE = QueueWorker(name="here-1", host="here", place="home")
BESIDE = QueueWorker(name="here-2", host="here", place="home")
THERE = QueueWorker(name="there-1", host="there", place="elsewhere")


def submission(name: str, *, user: str = "ada", **asked: object) -> Submission:
    fields: dict[str, object] = {"bisection": name, "user": user, "words": ["--bad", "b"], "folder": "/x"}
    return Submission(**{**fields, **asked})  # pyright: ignore[reportArgumentType]


@pytest.fixture
def sessions(url: str) -> sessionmaker[Session]:
    return open_store(url)


@pytest.fixture
def queue(sessions: sessionmaker[Session]) -> QueueJournal:
    return QueueJournal(sessions)


def lose(sessions: sessionmaker[Session]) -> None:
    """As if the workers of all that runs had not been heard of for longer than their leases."""
    with sessions.begin() as session:
        past = store_now(session) - timedelta(seconds=1)
        running = SubmissionRow.state == SubmissionState.RUNNING
        session.execute(update(SubmissionRow).where(running).values(lease=past))


def state_of(queue: QueueJournal, number: int) -> tuple[SubmissionState, int | None]:
    row = queue.find(number)
    assert row is not None
    return row.state, row.exit_code


def test_so_many_of_one_user_may_wait(queue: QueueJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precision_bisect.store.queue._MAX_WAITING", 2)
    for name in ("one", "two"):
        queue.submit(submission(name))
    with pytest.raises(SubmissionError, match="expected at most 2 submissions of ada to wait, found as many"):
        queue.submit(submission("three"))
    queue.submit(submission("four", user="bob"))
    assert queue.take(HERE) is not None
    queue.submit(submission("three"))


def test_one_is_taken_once_and_ends_with_its_exit_code(queue: QueueJournal) -> None:
    number = queue.submit(submission("one", priority=3))
    row = queue.take(HERE)
    assert row is not None
    assert (row.id, row.words, row.worker, row.state) == (
        number,
        ["--bad", "b"],
        "here-1",
        SubmissionState.RUNNING,
    )
    assert queue.take(BESIDE) is None
    assert queue.renew(number, HERE, tail="run 1") is WorkerOrder.GO_ON
    assert queue.end(number, HERE, exit_code=5, tail="no culprit\0")
    assert state_of(queue, number) == (SubmissionState.ENDED, 5)
    found = queue.find(number)
    assert found is not None
    assert (found.worker, found.lease, found.tail) == (None, None, "no culprit\\0")
    assert found.seconds > 0
    assert queue.find(number + 1) is None
    assert queue.cancel(number + 1) is None


def test_what_a_machine_lacks_waits_for_another(queue: QueueJournal) -> None:
    first, second = queue.submit(submission("one", folder="/a")), queue.submit(submission("two"))

    def lacks(row: SubmissionRow) -> str | None:
        return None if row.folder == "/x" else f"no {row.folder}"

    row = queue.take(HERE, lacks)
    assert row is not None
    assert row.id == second
    assert queue.take(HERE, lacks) is None
    (waiting,) = queue.all(states=[SubmissionState.QUEUED])
    assert (waiting.id, waiting.lacking) == (first, "here: no /a")
    # What another machine lacks is not written over it; what this one lacks by now is.
    assert queue.take(THERE, lambda _row: "too small") is None
    assert queue.take(HERE, lambda _row: "no board") is None
    (waiting,) = queue.all(states=[SubmissionState.QUEUED])
    assert waiting.lacking == "here: no board"
    row = queue.take(THERE)
    assert row is not None
    assert (row.id, row.lacking) == (first, None)


def test_the_store_can_be_written_while_a_worker_looks_at_what_its_machine_lacks(
    queue: QueueJournal, url: str
) -> None:
    """A disk of the network may take its time. What is queued meanwhile is looked at the next time."""
    first, others = queue.submit(submission("one")), QueueJournal(open_store(url))
    queued: list[int] = []

    def lacks(row: SubmissionRow) -> str | None:
        queued.append(others.submit(submission(f"after-{row.id}")))
        return "no board"

    assert queue.take(HERE, lacks) is None
    (second,) = queued
    assert [row.lacking for row in queue.all()] == ["here: no board", None]
    row = queue.take(HERE, lambda row: "no board" if row.id == first else None)
    assert row is not None
    assert row.id == second


def test_a_lost_worker_loses_it_and_changes_nothing_any_more(
    queue: QueueJournal, sessions: sessionmaker[Session]
) -> None:
    number = queue.submit(submission("one"))
    assert queue.take(HERE) is not None
    lose(sessions)
    assert queue.take(THERE) is None
    row = queue.find(number)
    assert row is not None
    assert row.lacking is not None
    assert "has begun in another $PRECISION_BISECT_HOME" in row.lacking
    row = queue.take(BESIDE)
    assert row is not None
    assert (row.id, row.worker, row.lost) == (number, "here-2", 1)
    assert queue.renew(number, HERE, tail="x") is WorkerOrder.LOST
    assert not queue.end(number, HERE, exit_code=0, tail="x")
    queue.requeue(number, HERE, tail="x")
    assert state_of(queue, number) == (SubmissionState.RUNNING, None)
    assert queue.end(number, BESIDE, exit_code=0, tail="y")


def test_one_that_loses_three_workers_ends(queue: QueueJournal, sessions: sessionmaker[Session]) -> None:
    number = queue.submit(submission("one"))
    for _ in range(3):
        assert queue.take(HERE) is not None
        lose(sessions)
    assert queue.take(HERE) is None
    row = queue.find(number)
    assert row is not None
    assert (row.state, row.exit_code) == (SubmissionState.ENDED, 1)
    assert "found 3 lost while they ran this" in row.tail


def test_one_whose_process_is_killed_goes_back_and_ends_at_the_third_time(queue: QueueJournal) -> None:
    number = queue.submit(submission("one"))
    states = list[SubmissionState]()
    for _ in range(3):
        assert queue.take(HERE) is not None
        assert queue.record_loss(number, THERE, tail="x") is None
        row = queue.record_loss(number, HERE, tail="killed")
        assert row is not None
        states.append(row.state)
    assert states == [SubmissionState.QUEUED, SubmissionState.QUEUED, SubmissionState.ENDED]
    assert state_of(queue, number) == (SubmissionState.ENDED, 1)


def test_a_lease_from_before_the_clock_was_put_back_holds_nothing(
    queue: QueueJournal, sessions: sessionmaker[Session]
) -> None:
    number = queue.submit(submission("one"))
    assert queue.take(HERE) is not None
    with sessions.begin() as session:
        tomorrow = store_now(session) + timedelta(days=1)
        session.execute(update(SubmissionRow).values(started=tomorrow, lease=tomorrow))
    row = queue.take(BESIDE)
    assert row is not None
    assert (row.id, row.lost, row.seconds) == (number, 1, 0.0)


def test_one_that_is_handed_back_goes_on_with_the_next_worker(queue: QueueJournal) -> None:
    number = queue.submit(submission("one"))
    assert queue.take(HERE) is not None
    queue.requeue(number, HERE, tail="interrupted")
    assert state_of(queue, number) == (SubmissionState.QUEUED, None)
    row = queue.take(BESIDE)
    assert row is not None
    assert row.lost == 0


def test_what_waits_is_cancelled_at_once(queue: QueueJournal) -> None:
    number = queue.submit(submission("one"))
    row = queue.cancel(number)
    assert row is not None
    assert (row.state, row.exit_code) == (SubmissionState.CANCELLED, 130)
    assert queue.take(HERE) is None


@pytest.mark.parametrize(("code", "state"), [(130, SubmissionState.CANCELLED), (0, SubmissionState.ENDED)])
def test_what_runs_is_cancelled_by_its_worker_unless_it_ends_before(
    queue: QueueJournal, code: int, state: SubmissionState
) -> None:
    number = queue.submit(submission("one"))
    assert queue.take(HERE) is not None
    assert queue.cancel(number) is not None
    assert state_of(queue, number) == (SubmissionState.RUNNING, None)
    assert queue.renew(number, HERE, tail="") is WorkerOrder.CANCEL
    assert queue.end(number, HERE, exit_code=code, tail="")
    assert state_of(queue, number) == (state, code)
    # What is over stays as it is.
    queue.cancel(number)
    assert state_of(queue, number) == (state, code)


def test_what_was_to_be_cancelled_is_not_begun_again(
    queue: QueueJournal, sessions: sessionmaker[Session]
) -> None:
    lost, handed = queue.submit(submission("one")), queue.submit(submission("two"))
    for worker, number in ((HERE, lost), (BESIDE, handed)):
        assert queue.take(worker) is not None
        queue.cancel(number)
    queue.requeue(handed, BESIDE, tail="")
    lose(sessions)
    assert queue.take(HERE) is None
    assert state_of(queue, lost) == state_of(queue, handed) == (SubmissionState.CANCELLED, 130)


def test_what_was_to_be_cancelled_is_cancelled_however_often_it_was_killed(queue: QueueJournal) -> None:
    number = queue.submit(submission("one"))
    for _ in range(2):
        assert queue.take(HERE) is not None
        queue.record_loss(number, HERE, tail="")
    assert queue.take(HERE) is not None
    queue.cancel(number)
    queue.record_loss(number, HERE, tail="")
    assert state_of(queue, number) == (SubmissionState.CANCELLED, 130)


def test_a_board_is_given_back_and_kept_by_what_has_begun_on_it(
    queue: QueueJournal, sessions: sessionmaker[Session]
) -> None:
    boards = frozenset(Board("here", "a2a3", number) for number in (1, 4))
    with_boards = QueueWorker(name="w", host="here", place="home", boards=boards)
    numbers = [queue.submit(submission(name, board="a2a3")) for name in ("one", "two", "three")]
    assert queue.take(HERE) is None
    first, second = queue.take(with_boards), queue.take(with_boards)
    assert first is not None
    assert second is not None
    assert (first.device, second.device) == (1, 4)
    assert queue.take(with_boards) is None
    queue.requeue(numbers[1], with_boards, tail="")
    assert queue.end(numbers[0], with_boards, exit_code=0, tail="")
    again, third = queue.take(with_boards), queue.take(with_boards)
    assert again is not None
    assert third is not None
    assert [(again.id, again.device), (third.id, third.device)] == [(numbers[1], 4), (numbers[2], 1)]


def drain(url: str, name: str, taken: "multiprocessing.Queue[tuple[int, str]]") -> None:
    """One worker among others, whose submissions end at once."""
    queue = QueueJournal(open_store(url))
    worker = QueueWorker(name=name, host="here", place="home")
    while (row := queue.take(worker)) is not None:
        taken.put((row.id, name))
        assert queue.end(row.id, worker, exit_code=0, tail="")


def test_workers_that_take_at_once_take_each_once(queue: QueueJournal, url: str) -> None:
    numbers = [queue.submit(submission(f"b{number}")) for number in range(12)]
    context = multiprocessing.get_context("spawn")
    taken: multiprocessing.Queue[tuple[int, str]] = context.Queue()
    workers = [context.Process(target=drain, args=(url, f"w{number}", taken)) for number in range(3)]
    for worker in workers:
        worker.start()
    counts = Counter(taken.get(timeout=120)[0] for _ in numbers)
    for worker in workers:
        worker.join()
    assert counts == dict.fromkeys(numbers, 1)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]


def test_a_bisection_that_has_begun_is_queued_once_and_again_after_it_was_stopped(
    queue: QueueJournal,
) -> None:
    begun = submission("one", words=["--reduce"])
    number = queue.submit_existing(begun, place=HERE.place)
    assert queue.submit_existing(begun, place=HERE.place) == number
    # It goes on in the home in which it has begun.
    assert queue.take(THERE) is None
    assert queue.take(HERE) is not None
    assert queue.submit_existing(begun, place=HERE.place) == number
    assert state_of(queue, number) == (SubmissionState.RUNNING, None)
    assert queue.end(number, HERE, exit_code=1, tail="")
    assert queue.submit_existing(begun, place=HERE.place) == number
    assert state_of(queue, number) == (SubmissionState.QUEUED, None)
    row = queue.take(HERE)
    assert row is not None
    assert (row.lost, row.words) == (0, ["--reduce"])
