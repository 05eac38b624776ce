"""`bisect-precision worker`: takes one submission after the other, until it is interrupted.

`work` is the command. `SubmissionRunner` runs one submission in a process of its own, which begins or resumes its
bisection. A worker's home has a name, because a bisection that has begun in one home cannot go on in another.
"""

import os
import platform
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

import psutil
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from ..runner.cli_options import STORE_VARIABLE
from ..runner.errors import UsageError
from ..runner.process.run import SupervisedProcess
from ..runner.process.signals import terminate_as_interrupt
from ..runner.workspace.home import HOME_VARIABLE, Home, sole_holder, user_home
from ..store.bisections import BisectionJournal
from ..store.database import absolute_url, database_message
from ..store.durable_files import open_private, read_or_create_key
from ..store.queue import INTERRUPTED, Board, QueueJournal, QueueWorker, WorkerOrder
from ..store.tables import SubmissionRow
from ..store.vocabulary import BisectionOutcome, SubmissionState, one_line
from .bisect_command import EXIT_CODES, resume_words
from .cli import ERROR, parse_words, run_command
from .drive.session import open_sessions
from .listing import store_url
from .options import WorkerOptions
from .queue_client import describe_unusable_path

POLL_INTERVAL = 1.0
"""A worker looks at the queue once in this many seconds, because a store sends no events."""


def work(options: WorkerOptions) -> int:
    """Run submissions until interrupted. Return the exit code."""

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
        with terminate_as_interrupt():
            try:
                _run_all(runner)
            except KeyboardInterrupt:
                _say("ended")
                return 0

    return run_command(body)


def _run_all(runner: "SubmissionRunner") -> NoReturn:
    queue = QueueJournal(runner.sessions)
    unreachable = False
    while True:
        try:
            row = queue.take(runner.worker, runner.missing_requirement)
            unreachable = False
            if row is not None:
                board = "" if row.board is None else f", on board {row.board} {row.device}"
                _say(f"submission {row.id} of {row.user}: {row.bisection}{board}")
                _say(f"submission {row.id} {runner.run(row)}")
                continue
        except SQLAlchemyError as error:
            if not unreachable:
                _say(f"the store cannot be reached, and is asked again: {database_message(error)}")
            unreachable = True
        time.sleep(POLL_INTERVAL)


_MAX_DEVICE_DIGITS = 5
"""The number of a device has at most this many digits. A longer one is a mistake."""


def read_boards(typed: Iterable[str], host: str) -> Iterable[Board]:
    """Yield the boards of this machine that PLATFORM=N names. Raises `UsageError`."""
    for text in typed:
        name, equals, number = text.partition("=")
        if not (name and equals and number.isdecimal() and len(number) <= _MAX_DEVICE_DIGITS):
            raise UsageError(f"--board {text}: expected PLATFORM=N, the number of a device, such as a2a3=0")
        yield Board(host=host, platform=name, device=int(number))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def home_name(home: Home) -> str:
    """Return the name of a home. It is drawn when it is first needed."""
    return read_or_create_key(home.state / "queue" / "place")


def log_path(home: Home, bisection: str) -> Path:
    """Return the file of what a bisection prints in a worker."""
    return home.state / "queue" / f"{bisection}.log"


def is_driven(home: Home, bisection: str) -> bool:
    """Return whether a process of this home drives the bisection. A killed worker may have left one."""
    folder = home.bisections / bisection
    if not folder.is_dir():
        return False
    with sole_holder(folder / "driver.lock", folder) as alone:
        return not alone


_PROGRAM = (sys.executable, "-P", "-c", "from precision_bisect.bisect.cli import main; main()")
"""This program runs a submission. `-P` keeps it from importing modules of the submission's folder."""
_SIGKILL_EXIT_CODE = 137
"""The exit code of a process that SIGKILL ended: 128 and the signal's number, 9."""
_STOP_TIMEOUT = 30.0
"""An interrupted bisection has this many seconds to end by itself, which is less than a lease."""
_TAIL_LINES, _TAIL_BYTES = 40, 8192
"""The queue keeps at most this many lines and bytes of the end of a log, because the store holds them in one row."""


@dataclass(frozen=True, kw_only=True)
class _Call:
    """A command that a submission needs."""

    words: list[str]
    code: int = 0
    """The exit code to report where the command ends with 0."""


@dataclass(frozen=True, kw_only=True)
class SubmissionRunner:
    """Runs submissions that a worker has taken."""

    sessions: sessionmaker[Session]
    store: str
    home: Home
    worker: QueueWorker

    @property
    def _queue(self) -> QueueJournal:
        return QueueJournal(self.sessions)

    def missing_requirement(self, row: SubmissionRow) -> str | None:
        """Return why this machine cannot run a submission now. Return None where it can."""
        try:
            if is_driven(self.home, row.bisection):
                return "a process that its worker left is still at it"
            return describe_unusable_path(row.folder, row.words)
        except (ValueError, TypeError, OSError):
            return None  # the run itself will report what is wrong with it

    def run(self, row: SubmissionRow) -> str:
        """Run a submission until it ends, is cancelled or taken away. Return the result in words.

        An error ends only the submission, because others wait. Raises `SQLAlchemyError` where the store cannot be
        reached, and `KeyboardInterrupt` after the submission was stopped and handed back to the queue.
        """
        try:
            return self._run(row)
        except SQLAlchemyError:
            raise
        except Exception as error:
            sentence = f"expected a submission that can be run, found {type(error).__name__}: {error}"
            self._queue.end(row.id, self.worker, exit_code=ERROR, tail=f"error: {sentence}")
            return f"failed: {one_line(sentence)}"

    def _run(self, row: SubmissionRow) -> str:
        call = self._next_call(row)
        ended = self._run_words(call.words, row)
        if isinstance(ended, str):
            return ended
        code = ended or call.code
        if code == _SIGKILL_EXIT_CODE:
            return self._lose(row)
        if row.afterwards and code != INTERRUPTED:
            # The end is recorded afterwards. If this worker is lost before, the next one does this again.
            ended = self._run_words(row.afterwards, row)
            if isinstance(ended, str):
                return ended
        file = log_path(self.home, row.bisection)
        if self._queue.end(row.id, self.worker, exit_code=code, tail=read_tail(file)):
            return f"ended with exit code {code}"
        return "was taken away before it ended"

    def _lose(self, row: SubmissionRow) -> str:
        """Record that the process was killed, as by a system that is out of memory. Return the result in words."""
        tail = read_tail(log_path(self.home, row.bisection))
        lost = self._queue.record_loss(row.id, self.worker, tail=tail)
        if lost is None:
            return "was taken away before it ended"
        fate = "it is in the queue again" if lost.state is SubmissionState.QUEUED else "it is not run again"
        return f"was killed: {fate}"

    def _run_words(self, words: Sequence[str], row: SubmissionRow) -> int | str:
        """Run a command of the submission. Return its exit code, or why the worker no longer has the submission."""
        file = log_path(self.home, row.bisection)
        with open(file, "ab", opener=open_private) as log:
            started = self._start(words, row, log)
            interrupted, why_lost = False, None
            try:
                why_lost = self._wait(started, row, file)
            except KeyboardInterrupt:
                interrupted = True
                _stop(started)
            finally:
                code = _exit_code(started.finish())
        if interrupted:
            with suppress(SQLAlchemyError):  # Once the lease is over, another worker goes on all the same.
                self._queue.requeue(row.id, self.worker, tail=read_tail(file))
            raise KeyboardInterrupt
        return code if why_lost is None else why_lost

    def _next_call(self, row: SubmissionRow) -> _Call:
        """Return the command that the submission needs now: begin, resume, or show the report."""
        journal = BisectionJournal.find(self.sessions, row.bisection)
        device = [] if row.board is None else ["--device", str(row.device)]
        if journal is None:
            return _Call(words=["--name", row.bisection, *device, *row.words])
        outcome = journal.row().outcome
        if outcome not in (None, BisectionOutcome.BUDGET):
            return _Call(words=["report", row.bisection], code=EXIT_CODES[outcome])
        options = parse_words(row.words).options
        return _Call(words=resume_words(options, row.bisection))

    def _start(self, words: Sequence[str], row: SubmissionRow, log: BinaryIO) -> SupervisedProcess:
        return SupervisedProcess.start(
            [*_PROGRAM, *words],
            cwd=Path(row.folder),
            environment=self._environment(),
            output=log.fileno(),
        )

    def _environment(self) -> dict[str, str]:
        """Return the worker's own environment, with its home and store as absolute paths."""
        environment = {**os.environ, STORE_VARIABLE: self.store}
        if home := environment.get(HOME_VARIABLE):
            environment[HOME_VARIABLE] = str(Path(home).absolute())
        return environment

    def _wait(self, started: SupervisedProcess, row: SubmissionRow, file: Path) -> str | None:
        """Wait until the process has ended, or does not end after a cancel. Return None then.

        Return why the worker no longer has the submission where it was taken away. Where the store cannot be reached,
        the process is stopped before the lease is over and another worker begins.
        """
        renewed, interrupted = time.monotonic(), None
        while interrupted is None or time.monotonic() - interrupted < _STOP_TIMEOUT:
            with suppress(subprocess.TimeoutExpired):
                started.process.wait(POLL_INTERVAL)
                return None
            asked = time.monotonic()
            try:
                order = self._queue.renew(row.id, self.worker, tail=read_tail(file))
                renewed = asked
            except SQLAlchemyError as error:
                order = WorkerOrder.GO_ON
                if time.monotonic() - renewed > self.worker.lease / 2:
                    _stop(started, seconds=self.worker.lease / 4)
                    return f"was stopped, for the store could not be reached: {database_message(error)}"
            if order is WorkerOrder.LOST:
                _stop(started)
                return "was stopped: another worker has it"
            if order is WorkerOrder.CANCEL and interrupted is None:
                interrupted = time.monotonic()
                _interrupt(started)
        return None


def read_tail(log: Path) -> str:
    """Return the last lines of a log."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-_TAIL_LINES:])
    return ""


def _interrupt(started: SupervisedProcess) -> None:
    """Interrupt the whole group of the bisection, as Ctrl-C at a terminal does."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(started.process.pid).children():
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGINT)


def _stop(started: SupervisedProcess, *, seconds: float = _STOP_TIMEOUT) -> None:
    """Interrupt the process and wait. If it has not ended by then, it is killed when it is released."""
    _interrupt(started)
    with suppress(subprocess.TimeoutExpired):
        started.process.wait(seconds)


def _exit_code(code: int) -> int:
    """Return the exit code as a shell reports it: 128 and the signal's number."""
    return code if code >= 0 else 128 - code
