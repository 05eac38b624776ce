"""A night that leaves its bisections to the queue: a worker drives them, and has the night keep what each found."""

import subprocess

import pytest

from precision_bisect.store.database import open_store, sqlite_url
from precision_bisect.store.queue import QueueJournal
from precision_bisect.store.vocabulary import SubmissionState
from tests.support.interrupts import obey_interrupts
from tests.support.program import PROGRAM, run_program
from tests.system.nightly.month import ROUNDING, Month

pytestmark = pytest.mark.long


def run(month: Month, *words: str) -> int:
    done = run_program(*words, cwd=month.directory, environment=month.environment)
    print(done.stdout, done.stderr)  # for whoever reads why it failed
    return done.returncode


def test_what_regressed_is_bisected_by_a_worker_and_an_incident_after_it(month: Month) -> None:
    month.only("round")
    file = str(month.config)
    assert run(month, "nightly", file, "--submit") == 0
    queue = QueueJournal(open_store(sqlite_url(month.directory / "home" / "state" / "store.sqlite")))
    assert queue.all() == []
    month.work("Add: before")
    culprit = month.plant(ROUNDING, "Update: rounding")
    month.work("Add: behind")
    assert run(month, "nightly", file, "--submit") == 7
    (row,) = queue.all()
    assert (row.state, row.user, row.folder) == (SubmissionState.QUEUED, "month", str(month.directory))
    assert row.words[-3:] == ["--platform", "a2a3sim", "--reduce"]
    assert month.incidents() == []
    # Another start puts nothing on the queue again.
    assert run(month, "nightly", file, "--submit") == 8
    assert [each.id for each in queue.all()] == [row.id]

    worker = subprocess.Popen(
        [*PROGRAM, "worker"],
        cwd=month.directory,
        env=month.environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=obey_interrupts,
    )
    assert run(month, "status", str(row.id), "--follow") == 0
    worker.terminate()
    assert worker.wait() == 0
    # It is there as soon as the submission is over, in the newest night.
    (incident,) = month.report(3)["incidents"]
    assert (incident["culprit"], incident["event"]) == (culprit, "opened")
    assert (month.directory / "told.jsonl").read_text().count("\n") == 1
    assert (
        "3 of month: 1 open incident"
        in run_program("status", str(row.id), cwd=month.directory, environment=month.environment).stdout
    )
    assert run(month, "nightly", file, "--submit") == 8
    assert [incident["number"] for incident in month.incidents()] == [1]
    assert len((month.directory / "told.jsonl").read_text().splitlines()) == 1
