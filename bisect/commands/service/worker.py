"""`bisect-precision worker`: takes one submission after the other, until it is told to end."""

import os
import platform
import secrets
import sys
import time
from collections.abc import Iterable
from typing import NoReturn

from sqlalchemy.exc import SQLAlchemyError

from ....runner.errors import UsageError
from ....runner.workspace.home import user_home
from ....store.database import absolute_url
from ....store.journals.queue.choice import Board
from ....store.journals.queue.submissions import QueueJournal, QueueWorker
from ...run.session import open_sessions
from ..command_line.queue_options import WorkerOptions
from ..command_line.stores import store_url
from ..errors import run_command, told
from ..signals import terminated_like_interrupted
from .place import home_name
from .running import LOOK, SubmissionRunner


def work(options: WorkerOptions) -> int:
    """Run what is submitted until interrupted; the exit code."""

    def body() -> int:
        home = user_home()
        host = platform.node()
        store = absolute_url(store_url(options.store))
        worker = QueueWorker(
            name=f"{host}-{os.getpid()}-{secrets.token_hex(3)}",
            host=host,
            place=home_name(home),
            boards=frozenset(read_boards(options.board, host)),
            quota=options.quota,
        )
        runner = SubmissionRunner(sessions=open_sessions(store), store=store, home=home, worker=worker)
        _say(f"{worker.name} takes submissions (Ctrl-C hands back what it runs, and ends)")
        with terminated_like_interrupted():
            try:
                _run_all(runner)
            except KeyboardInterrupt:
                _say("ended")
                return 0

    return run_command(body)


def _run_all(runner: SubmissionRunner) -> NoReturn:
    queue = QueueJournal(runner.sessions)
    unreachable = False
    while True:
        try:
            row = queue.take(runner.worker, runner.lacks)
            unreachable = False
            if row is not None:
                board = "" if row.board is None else f", on board {row.board} {row.device}"
                _say(f"submission {row.id} of {row.user}: {row.bisection}{board}")
                _say(f"submission {row.id} {runner.run(row)}")
                continue
        except SQLAlchemyError as error:
            if not unreachable:
                _say(f"the store cannot be reached, and is asked again: {told(error)}")
            unreachable = True
        time.sleep(LOOK)


def read_boards(typed: Iterable[str], host: str) -> Iterable[Board]:
    """The boards of this machine that PLATFORM=N names. Raises `UsageError`."""
    for text in typed:
        name, equals, number = text.partition("=")
        if not (name and equals and number.isdecimal()):
            raise UsageError(f"--board {text}: expected PLATFORM=N, the number of a device, such as a2a3=0")
        yield Board(host=host, platform=name, device=int(number))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
