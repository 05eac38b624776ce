"""Workers of the queue, as users start and stop them, and as they die: nothing is lost, nothing is begun twice."""

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import psutil
import pytest
from sqlalchemy import update

from precision_bisect.store.database import open_store
from precision_bisect.store.queue import QueueJournal, QueueWorker
from precision_bisect.store.tables import SubmissionRow, store_now
from precision_bisect.store.vocabulary import SubmissionState
from tests.system.slow_line import SlowLine


def submit(line: SlowLine, *words: str) -> int:
    done = line.run("submit", *line.arguments, *words, "--json")
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["id"])


def row_of(line: SlowLine, number: int) -> SubmissionRow:
    row = QueueJournal(open_store(line.store)).find(number)
    assert row is not None
    return row


def lose(url: str, *numbers: int) -> None:
    """As if the workers of these submissions had not been heard of for longer than their leases."""
    with open_store(url).begin() as session:
        past = store_now(session) - timedelta(seconds=1)
        running = (SubmissionRow.state == SubmissionState.RUNNING) & SubmissionRow.id.in_(numbers)
        session.execute(update(SubmissionRow).where(running).values(lease=past))


def stop(process: "subprocess.Popen[str]", url: str) -> None:
    """Stop a worker while it writes nothing: stopped in the middle of that, it would keep the store from all others."""
    with open_store(url).begin():
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def end(process: "subprocess.Popen[str]") -> str:
    """Interrupt a worker; what it said."""
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 0, err
    return err


@pytest.mark.long
def test_a_worker_that_is_killed_takes_its_bisection_along_and_the_next_one_goes_on(
    make: Callable[..., SlowLine],
) -> None:
    line = make(hangs=(1, 23))
    number = submit(line)
    killed = line.start("worker")
    line.hold.wait(killed)
    killed.kill()
    killed.communicate()
    psutil.wait_procs(line.processes(), timeout=60)
    assert line.processes() == []
    assert row_of(line, number).state is SubmissionState.RUNNING
    lose(line.store, number)
    line.let_go()
    worker = line.start("worker")
    watched = line.run("status", str(number), "--follow")
    assert watched.returncode == 0, watched.stdout
    assert end(worker).count("ended with exit code 0") == 1
    assert max(probe.attempt for probe in line.check()) > 1
    row = row_of(line, number)
    assert (row.state, row.exit_code, row.lost) == (SubmissionState.ENDED, 0, 1)


@pytest.mark.long
@pytest.mark.parametrize("victim", ["process", "worker"])
def test_a_submission_that_costs_three_deaths_is_parked_and_the_next_one_runs(
    victim: str, make: Callable[..., SlowLine]
) -> None:
    """The victim is a worker, as by a machine that loses power, or its process, as by a system out of memory."""
    line = make(commits=4, culprit=2, hangs=(1, 3))
    deadly, sound = submit(line), submit(line, "-o", str(line.folder / "other"))
    worker = line.start("worker")
    for _ in range(3):
        line.hold.wait(worker)
        assert [row_of(line, each).state for each in (deadly, sound)] == [
            SubmissionState.RUNNING,
            SubmissionState.QUEUED,
        ]
        if victim == "process":
            (supervisor,) = psutil.Process(worker.pid).children()
            for process in supervisor.children():
                process.kill()
            continue
        worker.kill()
        worker.communicate()
        psutil.wait_procs(line.processes(), timeout=60)
        assert line.processes() == []
        lose(line.store, deadly)
        worker = line.start("worker")
    line.let_go()
    assert line.run("status", str(sound), "--follow").returncode == 0
    said = end(worker)
    assert f"submission {sound} ended with exit code 0" in said
    assert ("it is not run again" in said) is (victim == "process")
    row = row_of(line, deadly)
    assert (row.state, row.exit_code, row.lost) == (SubmissionState.ENDED, 1, 3)
    assert "error: expected a worker that lives, found 3 lost while they ran this" in row.tail
    assert line.run("status", str(deadly), "--follow").returncode == 1
    assert line.processes() == []


@pytest.mark.long
def test_two_submissions_at_once_build_no_commit_twice(make: Callable[..., SlowLine]) -> None:
    line = make()
    numbers = submit(line), submit(line, "-o", str(line.folder / "other"))
    workers = [line.start("worker") for _ in numbers]
    for number in numbers:
        assert line.run("status", str(number), "--follow").returncode == 0
    for worker in workers:
        assert "ended with exit code 0" in end(worker)
    assert set(Counter(line.builds()).values()) == {1}


def test_ctrl_c_hands_back_what_a_worker_runs(make: Callable[..., SlowLine]) -> None:
    line = make(hangs=(1, 23))
    number = submit(line)
    worker = line.start("worker")
    line.hold.wait(worker)
    assert end(worker).endswith("ended\n")
    assert line.processes() == []
    row = row_of(line, number)
    assert (row.state, row.worker, row.lost) == (SubmissionState.QUEUED, None, 0)
    line.let_go()
    worker = line.start("worker")
    assert line.run("status", str(number), "--follow").returncode == 0
    end(worker)
    line.check()


def test_what_runs_is_cancelled_as_by_ctrl_c(make: Callable[..., SlowLine]) -> None:
    line = make(hangs=(1, 23))
    number = submit(line)
    worker = line.start("worker")
    line.hold.wait(worker)
    assert "is being cancelled" in line.run("cancel", str(number)).stdout
    watched = line.run("status", str(number), "--follow")
    assert (watched.returncode, "was cancelled" in watched.stdout) == (130, True)
    row = row_of(line, number)
    assert (row.state, "interrupted; to resume:" in row.tail) == (SubmissionState.CANCELLED, True)
    end(worker)
    assert line.processes() == []


@pytest.mark.long
def test_one_that_ended_while_its_worker_died_has_its_exit_code_and_report(
    make: Callable[..., SlowLine],
) -> None:
    line = make()
    number = submit(line)
    # As a worker leaves it that is killed between the end of the bisection and its note of it.
    assert line.run(*line.arguments, "--name", row_of(line, number).bisection).returncode == 0
    shutil.rmtree(line.output)
    worker = line.start("worker")
    assert line.run("status", str(number), "--follow").returncode == 0
    end(worker)
    line.check()


@pytest.mark.long
def test_a_worker_whose_lease_another_one_has_stops(make: Callable[..., SlowLine]) -> None:
    """A bisection that still runs is not begun beside itself, even where its worker is taken for lost."""
    line = make(hangs=(1, 23))
    number = submit(line)
    first = line.start("worker")
    assert first.stderr is not None
    line.hold.wait(first)
    stop(first, line.store)
    lose(line.store, number)
    queue = QueueJournal(open_store(line.store))
    assert queue.take(QueueWorker(name="x", host="x", place="elsewhere")) is None
    assert row_of(line, number).state is SubmissionState.QUEUED
    second = line.start("worker")
    assert second.stderr is not None
    assert "takes submissions" in second.stderr.readline()
    # Only now, as the first one sees that it has lost it, it stops, and the second one may go on.
    os.kill(first.pid, signal.SIGCONT)
    assert any("was stopped: another worker has it" in text for text in first.stderr)
    line.let_go()
    assert line.run("status", str(number), "--follow").returncode == 0
    end(first)
    end(second)
    line.check()
