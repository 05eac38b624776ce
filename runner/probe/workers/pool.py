"""Workers of this machine: joblib starts their loops, and each connects back to take probes.

What a worker was at when it died is told, and its loop is started again; nothing of a probe counts until its result
has arrived here. When this process ends, in whatever way, every connection ends, and with it every probe.
"""

import contextlib
import itertools
import queue
import secrets
import socket
import threading
from collections import Counter, deque
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from ...errors import UserError
from ..records import ProbeRequest
from .backends import call_at_once, end_own_processes
from .worker import Activity, Cancel, Done, Failed, Make, Setup, Stop, work

_MOST_LOSSES = 3
"""So many workers lost in one probe, or all workers so many times before any finished one, are no accident."""
_PAUSE = 1.0
"""Seconds before workers that ended are started again."""
_FAREWELL = 10.0
"""Seconds that workers get to notice that the pool is closing."""


@dataclass(frozen=True)
class Lost:
    """Tells that a worker died while it made this probe."""

    number: int


@dataclass(frozen=True)
class MadeAgain:
    """Tells that a probe is made anew already, and why."""

    number: int
    why: str


@dataclass(frozen=True)
class Waits:
    """Tells that a probe cannot begin, and why."""

    number: int
    why: str


@dataclass(eq=False)
class _Worker:
    connection: "Connection[Any, Any]"
    number: int | None = None
    """The probe that it makes now."""
    place: str | None = None
    """Where its probes are made; None before the first one."""


@dataclass(frozen=True)
class _Joined:
    worker: _Worker


@dataclass(frozen=True)
class _Left:
    worker: _Worker


@dataclass(frozen=True)
class _Ended:
    """All workers have ended, though nobody told them to."""

    error: BaseException | None


@dataclass(frozen=True)
class _Finished:
    worker: _Worker
    done: Done


Event = Activity | Done | Lost | MadeAgain | Waits


class WorkerPool:
    """`jobs` workers that make probes of one stack. All methods are for one thread."""

    def __init__(self, setup: Setup, *, jobs: int) -> None:
        self._setup = setup
        self.jobs = jobs
        self._key = secrets.token_bytes(32)
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._probes: dict[int, ProbeRequest] = {}
        self._waiting: deque[int] = deque()
        self._workers: list[_Worker] = []
        self._numbers = itertools.count(1)
        self._losses: Counter[Path] = Counter()
        self._barren_ends = 0
        self._closing = threading.Event()

    def __enter__(self) -> Self:
        """Start the workers."""
        self._listener = Listener(family="AF_UNIX", authkey=self._key)
        address = cast(str, self._listener.address)
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._loops = threading.Thread(target=self._run_loops, args=(address,), daemon=True)
        self._acceptor.start()
        self._loops.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        _wake(self._listener)
        # Whoever else calls here may keep it waiting.
        self._acceptor.join(timeout=_FAREWELL)
        self._listener.close()
        with contextlib.suppress(queue.Empty):
            while True:
                message = self._inbox.get_nowait()
                if isinstance(message, _Joined):
                    self._workers.append(message.worker)
        for worker in self._workers:
            _send(worker, Stop())
        self._loops.join()
        if self.jobs > 1:
            end_own_processes()

    def begin(self, request: ProbeRequest) -> int:
        """Hand a probe to the next free worker; the result is the number by which events name the probe."""
        number = next(self._numbers)
        self._probes[number] = request
        self._waiting.append(number)
        self._assign()
        return number

    def cancel(self, number: int) -> None:
        """Stop a probe, wherever it is; one that was lost needs no stopping. Nothing more is heard of it."""
        self._probes.pop(number, None)
        if number in self._waiting:
            self._waiting.remove(number)
        for worker in self._workers:
            if worker.number == number:
                _send(worker, Cancel(number))

    def next_event(self, *, timeout: float | None) -> Event | None:
        """Wait for news of the probes under way; None where there is none, after `timeout` seconds at the latest.

        A lost probe has to be begun again.

        Raises:
            UserError: probes cannot be made, or workers die again and again.
            RuntimeError: a worker failed by a fault of this program.
        """
        try:
            message = self._inbox.get(timeout=timeout)
        except queue.Empty:
            return None
        match message:
            case _Joined(worker=worker):
                self._workers.append(worker)
                self._assign()
            case _Left(worker=worker):
                return self._left(worker)
            case _Ended(error=error):
                self._ended(error)
            case _Finished(worker=worker, done=done):
                worker.number = None
                worker.place = worker.place if done.result is None else done.result.place
                self._assign()
                if self._probes.pop(done.number, None) is not None and done.result is not None:
                    self._barren_ends = 0
                    return done
            case Activity(number=number):
                return message if number in self._probes else None
            case Failed(text=text, expected=expected):
                raise UserError(text) if expected else RuntimeError(f"a worker failed:\n{text}")
            case _:
                raise AssertionError(message)
        return None

    def catch_up(self, *, timeout: float = 0.0) -> None:
        """Take note of what has happened so far, whatever it tells of probes; while there is no worker, wait as long as
        this for one. Raises as `next_event`."""
        if not self._workers:
            self.next_event(timeout=timeout)
        while not self._inbox.empty():
            self.next_event(timeout=0)

    def _assign(self) -> None:
        for worker in self._workers:
            if worker.number is not None:
                continue
            worker.number = next((each for each in self._waiting if self._may_make(worker, each)), None)
            if worker.number is not None:
                self._waiting.remove(worker.number)
                _send(worker, Make(worker.number, self._probes[worker.number]))

    def _may_make(self, worker: _Worker, number: int) -> bool:
        """Whether a probe may be made by a worker: elsewhere, if there is another place, where it avoids that one."""
        avoid = self._probes[number].avoid
        # Those that have not joined yet may be elsewhere.
        everywhere = len(self._workers) >= self.jobs and all(each.place in avoid for each in self._workers)
        return worker.place not in avoid or everywhere

    def _left(self, worker: _Worker) -> Lost | None:
        self._workers.remove(worker)
        request = self._probes.pop(worker.number, None) if worker.number is not None else None
        if request is None:
            return None
        self._losses[request.directory] += 1
        if self._losses[request.directory] == _MOST_LOSSES:
            raise UserError(
                f"expected workers that live, found {_MOST_LOSSES} killed in the same probe ({request.directory}); "
                "is there enough memory? then resume"
            )
        assert worker.number is not None
        return Lost(worker.number)

    def _ended(self, error: BaseException | None) -> None:
        self._barren_ends += 1
        if self._barren_ends == _MOST_LOSSES:
            raise UserError(
                f"expected workers, found that they end before any finishes a probe: {type(error).__name__}: {error}"
            ) from error

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection = self._listener.accept()
                connection.send(self._setup)
            except (OSError, EOFError, AuthenticationError):
                continue  # somebody else, or a worker that died at once
            worker = _Worker(connection)
            self._inbox.put(_Joined(worker))
            threading.Thread(target=self._read, args=(worker,), daemon=True).start()

    def _read(self, worker: _Worker) -> None:
        with worker.connection as connection, contextlib.suppress(EOFError, OSError):
            while True:
                message = connection.recv()
                self._inbox.put(_Finished(worker, message) if isinstance(message, Done) else message)
        self._inbox.put(_Left(worker))

    def _run_loops(self, address: str) -> None:
        """Keep the workers running. On loky one that dies takes the others with it."""
        while not self._closing.is_set():
            error: BaseException | None = None
            try:
                call_at_once(work, (address, self._key), times=self.jobs)
            except BaseException as raised:
                error = raised
            if not self._closing.is_set():
                self._inbox.put(_Ended(error))
                self._closing.wait(_PAUSE)


def _send(worker: _Worker, message: object) -> None:
    """Sending to a worker that has just died does nothing: its end is noticed where its messages are read."""
    with contextlib.suppress(OSError):
        worker.connection.send(message)


def _wake(listener: Listener) -> None:
    """Connect to a listener, so that the thread that waits there looks whether the pool is closing."""
    with socket.socket(socket.AF_UNIX) as caller, contextlib.suppress(OSError):
        caller.connect(listener.address)
