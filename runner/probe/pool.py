"""Workers of this machine, which make probes for a driver.

`WorkerPool` starts workers. Several are processes of joblib's loky. A single one is a thread of the driver. Each worker
connects back to the pool, and makes probes in its own slot, one after another. Any message to a worker during a probe
ends that probe and its processes, and so does the end of the connection. So no probe outlives the driver.
`AheadBuilder` builds the commit that probably runs next.
"""

import contextlib
import importlib.util
import itertools
import os
import queue
import secrets
import signal
import socket
import tempfile
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

from ..errors import UsageError, UserError
from ..process.run import Interrupt, InterruptedWorkError
from ..stack import Stack
from ..workspace.content import StackContent
from ..workspace.home import Home
from ..workspace.slot import Workspace
from .probe import Prober, ProbeRequest, ProbeResult

_WATCH_INTERVAL = 0.5
"""A worker checks once in this many seconds whether the driver lives."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The first message to a worker."""

    stack: Stack
    home: Home
    variables: Mapping[str, str]
    """The environment variables that commands inherit."""
    max_probes: int
    """The greatest number of probes that divide the machine's cores."""
    build_store: str | None = None
    """The URL of builds that machines share."""


@dataclass(frozen=True)
class ProbeOrder:
    """Asks the worker to make a probe, which the driver identifies by a number."""

    number: int
    request: ProbeRequest


@dataclass(frozen=True)
class CancelOrder:
    """Asks the worker to stop a probe. A probe that has ended is not affected."""

    number: int


@dataclass(frozen=True)
class StopOrder:
    """Tells the worker that no more probes will come."""


@dataclass(frozen=True)
class Activity:
    """Tells the driver the current activity for a probe, and where it takes place, in words."""

    number: int
    place: str
    text: str


@dataclass(frozen=True)
class ProbeDone:
    """Tells the driver the result of a probe; None where the probe was stopped."""

    number: int
    result: ProbeResult | None


@dataclass(frozen=True)
class WorkerFailure:
    """Tells the driver that the worker cannot make probes."""

    text: str
    expected: bool
    """Whether the user can remove the cause. Otherwise it is a fault of this program."""


def attach_to_driver(driver: int) -> None:
    """Make this process end when the driver ends, and ignore Ctrl-C, which the driver handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(_WATCH_INTERVAL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_worker(address: str, key: bytes) -> None:
    """Connect to the driver, and make its probes until it sends `StopOrder` or is gone."""
    try:
        connection = Client(address, authkey=key)
    except (OSError, EOFError, AuthenticationError):
        return  # The driver is gone already.
    with connection, contextlib.suppress(EOFError, ConnectionError):
        _serve(connection)


def _serve(connection: "Connection[Any, Any]") -> None:
    """Make the driver's probes until it sends `StopOrder`. Raises `EOFError` and `ConnectionError` when it is gone."""
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
                    case ProbeOrder(number=number, request=request):
                        try:
                            connection.send(ProbeDone(number, prober.probe(request)))
                        except InterruptedWorkError:
                            connection.send(ProbeDone(number, None))
                    case StopOrder():
                        return
                    case _:
                        pass  # This cancels a probe that has ended.
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
_ADDRESS_VARIABLES = {"dask": "DASK_SCHEDULER_ADDRESS", "ray": "RAY_ADDRESS"}
_SAFE_PATH = "PYTHONSAFEPATH"
"""If this variable is set, Python looks for no module in the current folder."""
_MAX_WORKERS_PER_CORE = 16
"""This machine has at most this many workers for each of its cores.

Workers that wait for boards need no core, but more of them would leave no time for anything else. A submission may ask
for any number."""


def check_backend(backend: Backend, *, jobs: int = 1) -> None:
    """Check that `jobs` workers of this kind are available.

    Raises:
        UsageError: the backend's package or its cluster's address is missing, or this machine has too few cores.
    """
    if backend == "loky":
        cores = os.cpu_count() or 1
        if jobs > cores * _MAX_WORKERS_PER_CORE:
            raise UsageError(
                f"--jobs {jobs}: expected at most {cores * _MAX_WORKERS_PER_CORE} runs at once on the {cores} cores "
                "of this machine; ask for fewer, or share the runs among machines with --backend"
            )
        return
    if importlib.util.find_spec(_MODULES[backend]) is None:
        raise UsageError(
            f"--backend {backend}: expected the package {_MODULES[backend]}, found none: "
            f"pip install 'precision-bisect[{backend}]'"
        )
    variable = _ADDRESS_VARIABLES[backend]
    if not os.environ.get(variable):
        raise UsageError(
            f"--backend {backend}: expected the address of a running cluster in ${variable}, found none; "
            f"start one and set it: {_START_COMMANDS[backend]}"
        )


def cluster_address(backend: Literal["dask", "ray"]) -> str:
    """Return the address of a cluster. Raises `UsageError`."""
    check_backend(backend)
    return os.environ[_ADDRESS_VARIABLES[backend]]


def call_in_parallel(function: Callable[..., None], arguments: tuple[Any, ...], *, times: int) -> None:
    """Call a function `times` times at once, each time in a process of its own, and wait. A single call runs here.

    Raises what a call raises, or loky's error where a process dies.
    """
    if times == 1:
        function(*arguments)
        return
    # The import takes as long as a short run, which has a single worker.
    from joblib.externals.loky.backend import (  # pyright: ignore[reportMissingTypeStubs]
        resource_tracker as loky_resource_tracker,
    )

    # The current folder may be a checkout with modules of any name, and the processes must not import them.
    with _variable(_SAFE_PATH, "1"):
        resource_tracker.ensure_running()
        cast(Any, loky_resource_tracker).ensure_running()
    threads = str(max(1, (os.cpu_count() or 1) // times))
    executor = _loky().get_reusable_executor(
        max_workers=times,
        initializer=attach_to_driver,
        initargs=(os.getpid(),),
        env={_SAFE_PATH: "1", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)},
    )
    for call in [executor.submit(function, *arguments) for _ in range(times)]:
        call.result()


def _loky() -> Any:
    from joblib.externals import loky  # pyright: ignore[reportMissingTypeStubs]

    return loky


@contextlib.contextmanager
def _variable(name: str, value: str) -> Generator[None]:
    """Set an environment variable for the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _kill_loky_processes() -> None:
    """Kill the processes that loky has started so far."""
    import psutil  # a worker that is alone starts sooner without it

    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any("popen_loky" in word for word in child.cmdline()):
                child.kill()


def _end_loky_processes() -> None:
    """End the processes that loky keeps for later calls."""
    _loky().get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


_MAX_LOSSES = 3
"""The pool gives up after this many deaths of workers in one probe, or of all workers before a probe is finished."""
_RESTART_DELAY = 1.0
"""Workers that ended are started again after this many seconds, so that a lasting fault does not make a busy loop."""

_KILL_INTERVAL = 0.1
"""Workers are killed again after this many seconds, because some may have been starting."""
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
    """The driver's side of a worker."""

    connection: "Connection[Any, Any]"
    number: int | None = None
    """The number of the probe that the worker makes now; None while it waits for one."""
    place: str | None = None
    """The place where the worker makes probes; None before its first result."""
    is_doomed: bool = False
    """Whether loky ends the worker, because another one died."""


@dataclass(frozen=True)
class _WorkerJoin:
    """A worker has connected to the pool."""

    worker: _Worker


@dataclass(frozen=True)
class _WorkerExit:
    """The connection of a worker has ended."""

    worker: _Worker


@dataclass(frozen=True)
class _PoolExit:
    """All workers have ended, and the pool did not stop them."""

    error: BaseException | None
    """Why loky ended them; None where each ended by itself, and its failure may be reported later."""


@dataclass(frozen=True)
class _WorkerResult:
    """A worker has finished a probe, and is free."""

    worker: _Worker
    done: ProbeDone


@dataclass(frozen=True)
class _WorkerError:
    """A worker cannot go on."""

    worker: _Worker
    failure: WorkerFailure


Event = Activity | ProbeDone | ProbeLost | ProbeRestart | ProbeDelay


class WorkerPool:
    """`jobs` workers that make probes of one stack. All methods are for one thread."""

    def __init__(self, setup: Setup, *, jobs: int) -> None:
        self._setup = setup
        self.jobs = jobs
        self._key = secrets.token_bytes(32)
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """The messages of workers, and reports about workers, from other threads."""
        self._probes: dict[int, ProbeRequest] = {}
        """The wanted probes, by number."""
        self._waiting: deque[int] = deque()
        self._workers: list[_Worker] = []
        self._numbers = itertools.count(1)
        self._losses: Counter[Path] = Counter()
        """The number of workers that died in each probe, by its directory."""
        self._vain_exits = 0
        """The number of deaths of all workers since the last probe that finished or was lost."""
        self._closing = threading.Event()

    def __enter__(self) -> Self:
        """Start the workers."""
        # The path of a socket has at most 107 bytes, and $TMPDIR may be longer.
        self._folder = tempfile.TemporaryDirectory(dir="/tmp")
        self._listener = Listener(f"{self._folder.name}/socket", family="AF_UNIX", authkey=self._key)
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
        # Callers other than workers may keep this thread waiting.
        self._acceptor.join(timeout=_CLOSE_TIMEOUT)
        self._listener.close()
        with contextlib.suppress(queue.Empty):
            while True:
                message = self._inbox.get_nowait()
                if isinstance(message, _WorkerJoin):
                    self._workers.append(message.worker)
        for worker in self._workers:
            _send(worker, StopOrder())
        if self.jobs > 1 and isinstance(error, KeyboardInterrupt):
            # Nobody waits for the work of the workers.
            while self._loops.is_alive():
                _kill_loky_processes()
                self._loops.join(_KILL_INTERVAL)
        self._loops.join()
        self._folder.cleanup()
        if self.jobs > 1:
            _end_loky_processes()

    def begin(self, request: ProbeRequest) -> int:
        """Give a probe to the next free worker, and return the number by which events identify the probe."""
        number = next(self._numbers)
        self._probes[number] = request
        self._waiting.append(number)
        self._assign()
        return number

    def cancel(self, number: int) -> None:
        """Stop a probe. No later event mentions it. A lost probe need not be stopped."""
        self._probes.pop(number, None)
        if number in self._waiting:
            self._waiting.remove(number)
        for worker in self._workers:
            if worker.number == number:
                _send(worker, CancelOrder(number))

    def next_event(self, *, timeout: float | None) -> Event | None:
        """Wait up to `timeout` seconds for an event of the current probes; return None if there is none.

        The caller has to begin a lost probe again.

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
                self._handle_pool_exit(error)
            case _WorkerResult(worker=worker, done=done):
                worker.number = None
                worker.place = worker.place if done.result is None else done.result.place
                self._assign()
                if self._probes.pop(done.number, None) is not None and done.result is not None:
                    self._vain_exits = 0
                    return done
            case Activity(number=number):
                return message if number in self._probes else None
            case _WorkerError(worker=worker) if worker.is_doomed:
                # Loky ends the processes below a worker before the worker, which then fails. Its exit follows.
                return None
            case _WorkerError(failure=WorkerFailure(text=text, expected=expected)):
                raise UserError(text) if expected else RuntimeError(f"a worker failed:\n{text}")
            case _:
                raise AssertionError(message)
        return None

    def catch_up(self, *, timeout: float = 0.0) -> None:
        """Process the events so far, and drop them. Raises the errors of `next_event`.

        While there is no worker, this waits up to `timeout` seconds for one.
        """
        if not self._workers:
            self.next_event(timeout=timeout)
        while not self._inbox.empty():
            self.next_event(timeout=0)

    def _assign(self) -> None:
        """Give waiting probes to free workers."""
        for worker in self._workers:
            if worker.number is not None:
                continue
            worker.number = next((each for each in self._waiting if self._may_make(worker, each)), None)
            if worker.number is not None:
                self._waiting.remove(worker.number)
                _send(worker, ProbeOrder(worker.number, self._probes[worker.number]))

    def _may_make(self, worker: _Worker, number: int) -> bool:
        """Return whether a worker may make a probe: its place is not to be avoided, or all places are."""
        avoid = self._probes[number].avoid
        # Workers that have not joined yet may be elsewhere.
        has_no_choice = len(self._workers) >= self.jobs and all(each.place in avoid for each in self._workers)
        return worker.place not in avoid or has_no_choice

    def _doom_workers(self) -> None:
        """Note that loky ends all workers of now, because one of them died."""
        for worker in self._workers:
            worker.is_doomed = True

    def _remove_worker(self, worker: _Worker) -> ProbeLost | None:
        """Remove a worker that died, and return its probe, if any. Raises `UserError`."""
        self._doom_workers()
        self._workers.remove(worker)
        if worker.number is None or (request := self._probes.pop(worker.number, None)) is None:
            return None
        self._losses[request.directory] += 1
        # The probe may be to blame, and its own limit names it. The exit of the pool may be reported before or after.
        self._vain_exits = 0
        if self._losses[request.directory] == _MAX_LOSSES:
            raise UserError(
                f"expected workers that live, found {_MAX_LOSSES} killed in the same probe ({request.directory}); "
                "is there enough memory? then resume"
            )
        return ProbeLost(worker.number)

    def _handle_pool_exit(self, error: BaseException | None) -> None:
        """Count the exit, and note what it means for the workers of now. Raises `UserError`."""
        if error is not None:
            self._doom_workers()
        self._vain_exits += 1
        if self._vain_exits == _MAX_LOSSES:
            why = "no worker says why" if error is None else f"{type(error).__name__}: {error}"
            raise UserError(
                f"expected workers, found that they end before any finishes a probe: {why}; "
                "is there enough memory? then resume"
            ) from error

    def _accept(self) -> None:
        """Accept connections of workers, and start a reader for each."""
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
                match message:
                    case ProbeDone():
                        self._inbox.put(_WorkerResult(worker, message))
                    case WorkerFailure():
                        self._inbox.put(_WorkerError(worker, message))
                    case _:
                        self._inbox.put(message)
        self._inbox.put(_WorkerExit(worker))

    def _run_loops(self, address: str) -> None:
        """Run the workers until the pool closes. When one dies, loky ends all, and they are started again."""
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
    """Send a message to a worker. If the worker has just died, the reader of its messages reports that."""
    with contextlib.suppress(OSError):
        worker.connection.send(message)


def _wake(listener: Listener) -> None:
    """Connect to a listener, so that the waiting thread notices that the pool is closing."""
    with socket.socket(socket.AF_UNIX) as caller, contextlib.suppress(OSError):
        caller.connect(listener.address)


_JOIN_TIMEOUT = 10.0
"""The pool waits this many seconds for its first worker."""


class OneWorker(Protocol):
    """What an `AheadBuilder` needs of a `WorkerPool` with one worker."""

    def begin(self, request: ProbeRequest) -> int:
        """Give a probe to the worker, and return its number."""
        ...

    def cancel(self, number: int) -> None:
        """Stop a probe."""
        ...

    def catch_up(self, *, timeout: float = 0.0) -> None:
        """Process the events so far; wait up to `timeout` seconds for a first worker."""
        ...


class AheadBuilder(ExitStack):
    """Makes one build at a time while a case runs, in a slot of its own and with a lower priority than the case.

    Later probes take a finished build from the cache of builds. Leaving the context stops the build and all its
    processes. All methods are for one thread.
    """

    def __init__(self, open_pool: Callable[[], AbstractContextManager[OneWorker]]) -> None:
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
        """Process the events so far. Raises `UserError` where no build can be made."""
        if self._pool is not None:
            self._pool.catch_up()
