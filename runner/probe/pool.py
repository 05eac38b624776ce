"""Workers of this machine, which make probes for a driver.

`WorkerPool` starts the loops of the workers through joblib's loky, and each connects back to take probes. When a worker
dies, the pool reports its probe and starts its loop again. A probe counts only once its result has arrived here. When
this process ends, in whatever way, every connection ends, and with it every probe.

A worker makes probes in its own slot, one after another. It remembers nothing: results go to the driver, which alone
writes to the store. Any message during a probe, also the end of the connection, ends that probe and its processes.

`AheadBuilder` builds the commit that is probably run next while a case runs. It has its own slot and a priority below
the case's. Later probes take finished builds from the cache. A stopped build leaves what the stack's compiler cache has
kept of it.
"""

import contextlib
import importlib.util
import itertools
import os
import queue
import secrets
import signal
import socket
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from multiprocessing import AuthenticationError, resource_tracker
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self, cast

import psutil
from joblib.externals import loky  # pyright: ignore[reportMissingTypeStubs]
from joblib.externals.loky.backend import (  # pyright: ignore[reportMissingTypeStubs]
    resource_tracker as loky_resource_tracker,
)

from ..errors import UsageError, UserError
from ..process.run import Interrupt, InterruptedWorkError
from ..stack import Stack
from ..workspace.content import StackContent
from ..workspace.home import Home
from ..workspace.slot import Workspace
from .probe import Prober, ProbeRequest, ProbeResult

_JOIN_TIMEOUT = 10.0
"""The pool waits this many seconds for its first worker."""


class OneWorker(Protocol):
    """A pool of one worker."""

    def begin(self, request: ProbeRequest) -> int:
        """Give a probe to the worker."""
        ...

    def cancel(self, number: int) -> None:
        """Stop a probe."""
        ...

    def catch_up(self, *, timeout: float = 0.0) -> None:
        """Process what has happened; wait up to `timeout` seconds for a first worker."""
        ...


class AheadBuilder(ExitStack):
    """Makes one build at a time, in a slot that is taken for the first build.

    Leaving it stops the build and all its processes. All methods are for one thread.
    """

    def __init__(self, open_pool: Callable[[], AbstractContextManager[OneWorker]]) -> None:
        """`open_pool` returns the worker as a context manager."""
        super().__init__()
        self._open_pool = open_pool
        self._pool: OneWorker | None = None
        self._number: int | None = None

    def __enter__(self) -> Self:
        return self

    def begin(self, request: ProbeRequest) -> None:
        """Begin a build in place of the previous one. Raises `UserError` where none can be made."""
        self.stop()
        if self._pool is None:
            self._pool = self.enter_context(self._open_pool())
        self._number = self._pool.begin(replace(request, build_only=True))
        self._pool.catch_up(timeout=_JOIN_TIMEOUT)

    def stop(self) -> None:
        """Stop the current build, if there is one."""
        if self._pool is not None and self._number is not None:
            self._pool.cancel(self._number)
            self._number = None

    def catch_up(self) -> None:
        """Process what has happened. Raises `UserError` where no build can be made."""
        if self._pool is not None:
            self._pool.catch_up()


_WATCH_INTERVAL = 0.5
"""A worker checks once in this many seconds whether the driver lives."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The first message to a worker.

    `max_probes` is how many probes at most divide the machine's cores. `build_store` is the URL of builds that
    machines share.
    """

    stack: Stack
    home: Home
    variables: Mapping[str, str]
    max_probes: int
    build_store: str | None = None


@dataclass(frozen=True)
class Make:
    """Asks the worker to make a probe. The driver identifies the probe by its number."""

    number: int
    request: ProbeRequest


@dataclass(frozen=True)
class Cancel:
    """Asks the worker to stop a probe, where it is still being made."""

    number: int


@dataclass(frozen=True)
class Stop:
    """Tells the worker that no more probes will come."""


@dataclass(frozen=True)
class Activity:
    """Tells the driver what is done now for a probe, and where, in words."""

    number: int
    where: str
    text: str


@dataclass(frozen=True)
class ProbeDone:
    """Tells the driver the result of a probe; None where the probe was stopped."""

    number: int
    result: ProbeResult | None


@dataclass(frozen=True)
class WorkerFailure:
    """Tells the driver that no probe can be made here.

    `expected` says that the user can remove the cause, and that it is no fault of this program.
    """

    text: str
    expected: bool


def attach_to_driver(driver: int) -> None:
    """Tie this process to the driver: it ignores Ctrl-C, which the driver handles, and ends when the driver ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(_WATCH_INTERVAL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_worker(address: str, key: bytes) -> None:
    """Connect to the driver and serve it until it says stop, or is gone."""
    try:
        connection = Client(address, authkey=key)
    except (OSError, EOFError, AuthenticationError):
        return  # The driver is gone already.
    with connection, contextlib.suppress(EOFError, ConnectionError):
        _serve(connection)


def _serve(connection: "Connection[Any, Any]") -> None:
    """Make the probes that the driver asks for, until it says stop or is gone."""
    setup = cast(Setup, connection.recv())
    number = 0

    def tell(text: str) -> None:
        connection.send(Activity(number, f"slot {prober.slot.index}", text))

    try:
        workspace = Workspace(setup.stack, setup.home)
        with Prober(
            workspace,
            StackContent(setup.stack, workspace),
            setup.home,
            on_activity=tell,
            variables=setup.variables,
            max_probes=setup.max_probes,
            interrupt=Interrupt(connection),
            build_store=setup.build_store,
        ) as prober:
            while True:
                match connection.recv():
                    case Make(number=number, request=request):
                        try:
                            connection.send(ProbeDone(number, prober.probe(request)))
                        except InterruptedWorkError:
                            connection.send(ProbeDone(number, None))
                    case Stop():
                        return
                    case _:
                        pass  # Such a message is the cancellation of a probe that had already ended.
    except (EOFError, ConnectionError):
        raise
    except UserError as error:
        connection.send(WorkerFailure(str(error), expected=True))
    except Exception:
        connection.send(WorkerFailure(traceback.format_exc(), expected=False))


Backend = Literal["loky", "dask", "ray"]

_MODULES = {"dask": "distributed", "ray": "ray"}
_START_COMMANDS = {
    "dask": "dask scheduler, dask worker tcp://HOST:8786 on each machine, DASK_SCHEDULER_ADDRESS=tcp://HOST:8786",
    "ray": "ray start --head, ray start --address=HEAD:6379 on each machine, RAY_ADDRESS=HEAD:6379",
}
_SAFE_PATH = "PYTHONSAFEPATH"
"""If this variable is set, Python looks for no module in the current folder."""
_ADDRESSES = {"dask": "DASK_SCHEDULER_ADDRESS", "ray": "RAY_ADDRESS"}


_MOST_WORKERS_PER_CORE = 16
"""This machine has at most this many workers for each of its cores. Runs may wait for boards, but each worker is a
process.

More of them leave no time for anything else on the machine, and a submission may ask for them."""


def check_backend(backend: Backend, *, jobs: int = 1) -> None:
    """Check that workers of this kind are available.

    Raises:
        UsageError: the backend's package or its cluster's address is missing, or this machine has too few cores.
    """
    if backend == "loky":
        cores = os.cpu_count() or 1
        if jobs > cores * _MOST_WORKERS_PER_CORE:
            raise UsageError(
                f"--jobs {jobs}: expected at most {cores * _MOST_WORKERS_PER_CORE} runs at once on the {cores} cores "
                "of this machine; ask for fewer, or share the runs among machines with --backend"
            )
        return
    if importlib.util.find_spec(_MODULES[backend]) is None:
        raise UsageError(
            f"--backend {backend}: expected the package {_MODULES[backend]}, found none: "
            f"pip install 'precision-bisect[{backend}]'"
        )
    if not os.environ.get(_ADDRESSES[backend]):
        raise UsageError(
            f"--backend {backend}: expected the address of a running cluster in ${_ADDRESSES[backend]}, found none; "
            f"start one and set it: {_START_COMMANDS[backend]}"
        )


def cluster_address(backend: Literal["dask", "ray"]) -> str:
    """Return the address of a cluster. Raises `UsageError`."""
    check_backend(backend)
    return os.environ[_ADDRESSES[backend]]


def call_in_parallel(function: Callable[..., None], arguments: tuple[Any, ...], *, times: int) -> None:
    """Call a function `times` times at once, in as many processes, and wait for all. A single call runs here.

    Raises what a call raises, or loky's error where it loses a process. The processes import nothing from the current
    folder, which may be a checkout with modules of any name.
    """
    if times == 1:
        function(*arguments)
        return
    with _variable(_SAFE_PATH, "1"):
        resource_tracker.ensure_running()
        cast(Any, loky_resource_tracker).ensure_running()
    own: Any = loky
    threads = str(max(1, (os.cpu_count() or 1) // times))
    executor = own.get_reusable_executor(
        max_workers=times,
        initializer=attach_to_driver,
        initargs=(os.getpid(),),
        env={_SAFE_PATH: "1", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)},
    )
    for call in [executor.submit(function, *arguments) for _ in range(times)]:
        call.result()


@contextlib.contextmanager
def _variable(name: str, value: str) -> Generator[None]:
    """Set a variable that processes inherit which are started in the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def kill_own_processes() -> None:
    """Kill the processes that loky has started so far."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any("popen_loky" in word for word in child.cmdline()):
                child.kill()


def end_own_processes() -> None:
    """End the processes that loky keeps for later calls."""
    own: Any = loky
    own.get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


_MOST_LOSSES = 3
"""At most this many workers may be lost in one probe, and all workers may end as often before any finished a probe.

So many losses are no accident."""
_RESTART_DELAY = 1.0
"""Workers that ended are started again after this many seconds, so that a lasting fault does not make a busy loop."""

_KILL_INTERVAL = 0.1
"""This many seconds lie between two kills of workers, because more of them may be starting."""
_CLOSE_TIMEOUT = 10.0
"""Workers get this many seconds to notice that the pool is closing."""


@dataclass(frozen=True)
class ProbeLost:
    """Reports that a worker died while it made this probe."""

    number: int


@dataclass(frozen=True)
class ProbeRestart:
    """Reports that a probe was begun again, and why."""

    number: int
    why: str


@dataclass(frozen=True)
class ProbeDelay:
    """Reports that a probe cannot begin, and why."""

    number: int
    why: str


@dataclass(eq=False)
class _Worker:
    connection: "Connection[Any, Any]"
    number: int | None = None
    """The number of the probe that the worker makes now."""
    place: str | None = None
    """The place where its probes are made; None before the first one."""


@dataclass(frozen=True)
class _WorkerJoin:
    worker: _Worker


@dataclass(frozen=True)
class _WorkerExit:
    worker: _Worker


@dataclass(frozen=True)
class _PoolExit:
    """All workers have ended without being told to."""

    error: BaseException | None


@dataclass(frozen=True)
class _WorkerResult:
    worker: _Worker
    done: ProbeDone


Event = Activity | ProbeDone | ProbeLost | ProbeRestart | ProbeDelay


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
        # Other callers may keep it waiting.
        self._acceptor.join(timeout=_CLOSE_TIMEOUT)
        self._listener.close()
        with contextlib.suppress(queue.Empty):
            while True:
                message = self._inbox.get_nowait()
                if isinstance(message, _WorkerJoin):
                    self._workers.append(message.worker)
        for worker in self._workers:
            _send(worker, Stop())
        if self.jobs > 1 and isinstance(error, KeyboardInterrupt):
            self._kill_loops()
        self._loops.join()
        if self.jobs > 1:
            end_own_processes()

    def _kill_loops(self) -> None:
        """End the workers at once. Some may still be starting, and nobody waits for their work."""
        while self._loops.is_alive():
            kill_own_processes()
            self._loops.join(_KILL_INTERVAL)

    def begin(self, request: ProbeRequest) -> int:
        """Give a probe to the next free worker, and return the number by which events identify the probe."""
        number = next(self._numbers)
        self._probes[number] = request
        self._waiting.append(number)
        self._assign()
        return number

    def cancel(self, number: int) -> None:
        """Stop a probe, wherever it is. No further event mentions it. A lost probe need not be stopped."""
        self._probes.pop(number, None)
        if number in self._waiting:
            self._waiting.remove(number)
        for worker in self._workers:
            if worker.number == number:
                _send(worker, Cancel(number))

    def next_event(self, *, timeout: float | None) -> Event | None:
        """Wait for news of the current probes; return None where there is none, after `timeout` seconds at the
        latest.

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
            case _WorkerJoin(worker=worker):
                self._workers.append(worker)
                self._assign()
            case _WorkerExit(worker=worker):
                return self._remove_worker(worker)
            case _PoolExit(error=error):
                self._count_pool_exit(error)
            case _WorkerResult(worker=worker, done=done):
                worker.number = None
                worker.place = worker.place if done.result is None else done.result.place
                self._assign()
                if self._probes.pop(done.number, None) is not None and done.result is not None:
                    self._barren_ends = 0
                    return done
            case Activity(number=number):
                return message if number in self._probes else None
            case WorkerFailure(text=text, expected=expected):
                raise UserError(text) if expected else RuntimeError(f"a worker failed:\n{text}")
            case _:
                raise AssertionError(message)
        return None

    def catch_up(self, *, timeout: float = 0.0) -> None:
        """Process what has happened so far, and drop what it says about probes.

        While there is no worker, waits up to `timeout` seconds for one. Raises the errors of `next_event`.
        """
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
        """Return whether a worker may make a probe. A probe avoids places as long as there is another place."""
        avoid = self._probes[number].avoid
        # Workers that have not joined yet may be elsewhere.
        everywhere = len(self._workers) >= self.jobs and all(each.place in avoid for each in self._workers)
        return worker.place not in avoid or everywhere

    def _remove_worker(self, worker: _Worker) -> ProbeLost | None:
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
        return ProbeLost(worker.number)

    def _count_pool_exit(self, error: BaseException | None) -> None:
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
                continue  # The caller was somebody else, or a worker that died at once.
            worker = _Worker(connection)
            self._inbox.put(_WorkerJoin(worker))
            threading.Thread(target=self._read, args=(worker,), daemon=True).start()

    def _read(self, worker: _Worker) -> None:
        with worker.connection as connection, contextlib.suppress(EOFError, OSError):
            while True:
                message = connection.recv()
                self._inbox.put(_WorkerResult(worker, message) if isinstance(message, ProbeDone) else message)
        self._inbox.put(_WorkerExit(worker))

    def _run_loops(self, address: str) -> None:
        """Keep the workers running. When one dies, loky ends the others too."""
        while not self._closing.is_set():
            error: BaseException | None = None
            try:
                call_in_parallel(run_worker, (address, self._key), times=self.jobs)
            except BaseException as raised:
                error = raised
            if not self._closing.is_set():
                self._inbox.put(_PoolExit(error))
                self._closing.wait(_RESTART_DELAY)


def _send(worker: _Worker, message: object) -> None:
    """Send a message. It does nothing where the worker has just died: the reader of its messages notices that."""
    with contextlib.suppress(OSError):
        worker.connection.send(message)


def _wake(listener: Listener) -> None:
    """Connect to a listener, so that the thread that waits there checks whether the pool is closing."""
    with socket.socket(socket.AF_UNIX) as caller, contextlib.suppress(OSError):
        caller.connect(listener.address)
