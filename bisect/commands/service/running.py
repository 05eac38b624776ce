"""One submission, run by a worker as a process of its own: begun, or gone on with where it has begun before."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from ....runner.process.supervised import Supervised
from ....runner.workspace.home import HOME_VARIABLE, Home
from ....store.journals.bisections import BisectionJournal
from ....store.journals.queue.submissions import INTERRUPTED, QueueJournal, QueueWorker, WorkerOrder
from ....store.options import STORE_VARIABLE
from ....store.tables.queue import SubmissionRow
from ....store.vocabulary import BisectionOutcome
from ..command_line.parsed_words import parsed_words
from ..drive import EXIT_CODES, resume_words
from .named_paths import lacking_path
from .place import is_driven, log_of

LOOK = 1.0
"""Seconds between two looks at the queue."""
_PROGRAM = (sys.executable, "-c", "from precision_bisect.bisect.cli import main; main()")
_TO_STOP = 30.0
"""Seconds for an interrupted bisection to end by itself; fewer than a lease has."""
_TAIL_LINES, _TAIL_BYTES = 40, 8192


@dataclass(frozen=True, kw_only=True)
class _Call:
    """The words of the command to run, and the exit code that counts where it ends with 0."""

    words: list[str]
    code: int = 0


@dataclass(frozen=True, kw_only=True)
class SubmissionRunner:
    """Runs what a worker has taken."""

    sessions: sessionmaker[Session]
    store: str
    home: Home
    worker: QueueWorker

    def lacks(self, row: SubmissionRow) -> str | None:
        """Why this machine cannot run a submission now; None where it can."""
        if is_driven(self.home, row.bisection):
            return "a process that its worker left is still at it"
        return lacking_path(row.folder, row.words)

    def run(self, row: SubmissionRow) -> str:
        """Run it until it ends, is cancelled or taken away; what came of it, in words.

        At `KeyboardInterrupt` it is stopped and handed back to the queue.
        """
        call = self._call(row)
        ended = self._run_words(call.words, row)
        if isinstance(ended, str):
            return ended
        code = ended or call.code
        if row.afterwards and code != INTERRUPTED:
            # Before the end is noted: whoever takes up the submission of a worker that is lost here does this again.
            ended = self._run_words(row.afterwards, row)
            if isinstance(ended, str):
                return ended
        file = log_of(self.home, row.bisection)
        if QueueJournal(self.sessions).end(row.id, self.worker, exit_code=code, tail=tail_of(file)):
            return f"ended with exit code {code}"
        return "was taken away before it ended"

    def _run_words(self, words: Sequence[str], row: SubmissionRow) -> int | str:
        """Run a command of the submission; its exit code, or why the submission is not this worker's any more."""
        queue = QueueJournal(self.sessions)
        file = log_of(self.home, row.bisection)
        with file.open("ab") as log:
            started = self._start(words, row, log)
            interrupted, lost = False, None
            try:
                lost = self._wait(started, row, file, queue)
            except KeyboardInterrupt:
                interrupted = True
                _stop(started)
            finally:
                code = _exit_code(started.finish())
        if interrupted:
            queue.hand_back(row.id, self.worker, tail=tail_of(file))
            raise KeyboardInterrupt
        return code if lost is None else lost

    def _call(self, row: SubmissionRow) -> _Call:
        """What is to be run by now."""
        journal = BisectionJournal.find(self.sessions, row.bisection)
        device = [] if row.board is None else ["--device", str(row.device)]
        if journal is None:
            return _Call(words=["--name", row.bisection, *device, *row.words])
        outcome = journal.row().outcome
        if outcome not in (None, BisectionOutcome.BUDGET):
            return _Call(words=["report", row.bisection], code=EXIT_CODES[outcome])
        options = parsed_words(row.words).options
        return _Call(words=resume_words(options, row.bisection))

    def _start(self, words: Sequence[str], row: SubmissionRow, log: BinaryIO) -> Supervised:
        return Supervised.start(
            [*_PROGRAM, *words],
            cwd=Path(row.folder),
            environment=self._environment(),
            output=log.fileno(),
        )

    def _environment(self) -> dict[str, str]:
        """The worker's own, with its home and store as they are found from any folder."""
        environment = {**os.environ, STORE_VARIABLE: self.store}
        if home := environment.get(HOME_VARIABLE):
            environment[HOME_VARIABLE] = str(Path(home).absolute())
        return environment

    def _wait(self, started: Supervised, row: SubmissionRow, file: Path, queue: QueueJournal) -> str | None:
        """Wait until it has ended, or was cancelled and does not end: None; else why it is not this worker's any more.

        Where the store cannot be reached, it is stopped before the lease is over and somebody else begins.
        """
        renewed, interrupted = time.monotonic(), None
        while interrupted is None or time.monotonic() - interrupted < _TO_STOP:
            with suppress(subprocess.TimeoutExpired):
                started.process.wait(LOOK)
                return None
            asked = time.monotonic()
            try:
                order = queue.renew(row.id, self.worker, tail=tail_of(file))
                renewed = asked
            except SQLAlchemyError as error:
                order = WorkerOrder.GO_ON
                if time.monotonic() - renewed > self.worker.lease / 2:
                    _stop(started, seconds=self.worker.lease / 4)
                    return f"was stopped, for the store could not be reached: {error}"
            if order is WorkerOrder.LOST:
                _stop(started)
                return "was stopped: another worker has it"
            if order is WorkerOrder.CANCEL and interrupted is None:
                interrupted = time.monotonic()
                _interrupt(started)
        return None


def tail_of(log: Path) -> str:
    """The last lines of a log."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-_TAIL_LINES:])
    return ""


def _interrupt(started: Supervised) -> None:
    """Do what Ctrl-C at a terminal does: interrupt all of the bisection's group."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(started.process.pid).children():
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGINT)


def _stop(started: Supervised, *, seconds: float = _TO_STOP) -> None:
    """Interrupt it and wait; what has not ended by then is killed when it is let go of."""
    _interrupt(started)
    with suppress(subprocess.TimeoutExpired):
        started.process.wait(seconds)


def _exit_code(code: int) -> int:
    """As a shell tells it: 128 and the signal's number."""
    return code if code >= 0 else 128 - code
