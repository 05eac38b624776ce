"""Workers of one PostgreSQL store, killed at random: nothing is lost, run twice at once, or on a shared board."""

import contextlib
import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from precision_bisect.store.database import open_store
from precision_bisect.store.queue import QueueJournal
from precision_bisect.store.vocabulary import SubmissionState
from tests.conftest import TestRepository
from tests.support import postgresql
from tests.support.interrupts import obey_interrupts
from tests.support.program import PROGRAM, run_program
from tests.support.trusted import write_trusted
from tests.system.workers.test_queue_workers import lose

SUBMISSIONS = 20
KILLS = 8
STACK = """
name = "line"
searched = "tool"
repositories.tool.path = "tool"
platforms.card = {board = true}
[case]
repository = "tool"
command = ["sh", "{case}", "{device}"]
cwd = "{tool}"
harness = false
[[verdicts]]
verdict = "pass"
pattern = '^PASSED$'
[[verdicts]]
verdict = "mismatch"
pattern = '^FAILED$'
"""
CASE = "echo $1 >> {folder}/devices; sleep 0.1; [ $(cat code) = 0 ] && echo PASSED || {{ echo FAILED; exit 1; }}\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    if postgresql.programs() is None:
        pytest.skip(postgresql.ABSENT)
    with postgresql.server() as found:
        yield found


def drivers(home: Path) -> Counter[str]:
    """How many processes drive each bisection; the command of its supervisor has the same words.

    A child of a driver has the driver's words until it executes its own program.
    """
    found = Counter[str]()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            ours = process.environ().get("PRECISION_BISECT_HOME") == str(home)
            parent = process.parent()
            is_child = parent is not None and parent.cmdline() == words
            if ours and "-c" in words[1:3] and not is_child:
                named = [
                    words[place + 1] for place, word in enumerate(words) if word in ("--name", "--resume")
                ]
                found.update(named)
    return found


@pytest.mark.long
def test_workers_killed_at_random_lose_nothing_and_share_nothing(url: str, tmp_path: Path) -> None:
    repository = TestRepository(tmp_path / "tool")
    write_trusted(tmp_path / "stack.toml", STACK, tmp_path / "home")
    shas = [
        repository.commit(
            f"commit {number}",
            {"code": f"{int(number > 2)}\n", "n": f"{number}\n", "case.sh": CASE.format(folder=tmp_path)},
        )
        for number in range(6)
    ]
    home = tmp_path / "home"
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(home), "PRECISION_BISECT_STORE": url}
    question = ["--good", shas[0], "--bad", shas[-1], "--case", "case.sh", "--confidence", "0.8", "-q"]
    for number in range(SUBMISSIONS):
        words = ["submit", *question, "-o", str(tmp_path / f"report-{number}")]
        done = run_program(*words, cwd=tmp_path, environment=environment)
        assert done.returncode == 0, done.stderr

    def start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*PROGRAM, "worker", "--board", "card=0", "--board", "card=1"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=obey_interrupts,
        )

    queue, chance, kills = QueueJournal(open_store(url)), random.Random(3), 0
    workers = [start(), start()]
    while any(row.state in (SubmissionState.QUEUED, SubmissionState.RUNNING) for row in queue.all()):
        running = queue.all(states=[SubmissionState.RUNNING])
        devices = [row.device for row in running]
        assert len({*devices}) == len(devices) <= 2
        assert max(drivers(home).values(), default=0) <= 1
        victim = chance.randrange(2)
        with contextlib.suppress(subprocess.TimeoutExpired):
            workers[victim].wait(chance.uniform(0, 6))
        assert workers[victim].poll() is None
        if kills < KILLS and all(row.lost < 2 for row in running):
            kills += 1
            workers[victim].kill()
            workers[victim].wait()
            lost = [row for row in running if row.worker and f"-{workers[victim].pid}-" in row.worker]
            lose(url, *(row.id for row in lost))
            workers[victim] = start()
    for worker in workers:
        worker.terminate()
        assert worker.wait() == 0
    rows = queue.all()
    assert [(row.state, row.exit_code) for row in rows] == [(SubmissionState.ENDED, 0)] * SUBMISSIONS
    assert kills == KILLS
    for number in range(SUBMISSIONS):
        report = json.loads((tmp_path / f"report-{number}" / "report.json").read_text())
        assert [each["commit"] for each in report["culprits"]] == [shas[3]]
    assert {*(tmp_path / "devices").read_text().split()} == {"0", "1"}
    assert drivers(home) == Counter()
