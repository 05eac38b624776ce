"""The engine for dask.distributed: `DaskEngine`.

Driver and hosts connect to the scheduler of dask, through which all data passes, with the security settings of dask. A
task's future is published under the task's key until its result is stored. So the task outlives a driver that dies, and
the next driver finds it.
"""

import asyncio
import contextlib
import importlib
import os
import platform
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from ...store.vocabulary import hide_credentials
from ..errors import UserError
from ..process.run import Interrupt
from ..workspace.home import Home, user_home
from .farm import EngineEvent, LostWorkerError, MissingContents, TaskActivity, TaskBegin, TaskEnd
from .host import HostMachine, HostProbeResult, ProbeParcel, attempt

_TOPIC = "precision-bisect"
"""Workers report the events of their tasks under this topic."""
_RECONNECT_TIMEOUT = 300.0
"""The driver tries this many seconds to reach a scheduler that is gone. A restart of its machine takes less."""

_RECONNECT_INTERVAL = 2.0
"""The driver tries once in this many seconds to reach a scheduler that is gone."""

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class DaskEngine:
    """An `Engine` of a dask scheduler, by the scheduler's address, such as `tls://scheduler:8786`."""

    def __init__(self, address: str, on_event: Callable[[EngineEvent], None]) -> None:
        """Connect to the scheduler. Raises `UserError`."""
        self._address = address
        self._on_event = on_event
        self._futures: dict[str, Any] = {}
        """The futures of wanted tasks, by key."""
        self._allowed: dict[str, set[str]] = {}
        """The workers that may run a task, by key; a task that any worker may run has no entry."""
        self._checked: set[str] = set()
        """The resources that at least one worker has."""
        self._closing = threading.Event()
        self._client = self._connect()

    def _connect(self) -> Any:
        distributed: Any = importlib.import_module("distributed")
        try:
            client = distributed.Client(self._address, set_as_default=False)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            settings = " or dask's settings distributed.comm.tls" if self._address.startswith("tls:") else ""
            raise UserError(
                f"{self._address}: expected a scheduler of dask, found none that answers: {error}; start it, or "
                f"correct $DASK_SCHEDULER_ADDRESS{settings}"
            ) from error
        return client

    def start(
        self,
        key: str,
        parcel: ProbeParcel,
        *,
        resources: Mapping[str, float],
        avoid: frozenset[str],
    ) -> None:
        """Start a probe. Raises `UserError` where no worker has the resources, or the scheduler does not come back."""
        latest = time.monotonic() + _RECONNECT_TIMEOUT
        while True:
            try:
                self._start(key, parcel, resources, avoid)
                return
            except self._connection_errors as error:
                if time.monotonic() > latest:
                    raise UserError(
                        f"{self._address}: expected the scheduler to come back, found it gone for "
                        f"{_RECONNECT_TIMEOUT:.0f} seconds; start it, then resume"
                    ) from error
            self._closing.wait(_RECONNECT_INTERVAL)

    @property
    def _connection_errors(self) -> tuple[type[Exception], ...]:
        """Return the types of the errors of a client that does not reach the scheduler."""
        distributed: Any = importlib.import_module("distributed")
        return OSError, TimeoutError, RuntimeError, distributed.client.ClosedClientError

    def _start(
        self,
        key: str,
        parcel: ProbeParcel,
        resources: Mapping[str, float],
        avoid: frozenset[str],
    ) -> None:
        workers = self._workers()
        self._check_resources(workers, resources)
        # A client that has reconnected to a scheduler gets no events until it subscribes again.
        self._client.subscribe_topic(_TOPIC, self._handle_event)
        self._client.subscribe_topic("all", self._handle_worker_event)
        able = {place for place, worker in workers.items() if resources.keys() <= worker["resources"].keys()}
        allowed = able - avoid if avoid else set[str]()
        future = self._client.submit(
            _make,
            parcel,
            key,
            key=key,
            pure=False,
            resources=dict(resources) or None,
            # These are the only workers, because idle workers steal tasks that merely prefer another worker.
            workers=sorted(allowed) or None,
        )
        self._client.publish_dataset(future, name=key, override=True)
        self._futures[key] = future
        if allowed:
            self._allowed[key] = allowed
            if not allowed & self._workers().keys():
                self._report_unplaceable(key)
        future.add_done_callback(partial(self._handle_end, key))

    def _workers(self) -> Mapping[str, Any]:
        """Return the workers, by address. Raises `ConnectionError` where the scheduler cannot be reached."""
        if self._client.status == "closed":
            # The client has given up a scheduler that was gone for a while.
            try:
                self._client = self._connect()
            except UserError as error:
                raise ConnectionError(self._address) from error
        workers: Mapping[str, Any] | None = self._client.scheduler_info(n_workers=-1).get("workers")
        if workers is None:
            raise ConnectionError(self._address)
        return workers

    def _check_resources(self, workers: Mapping[str, Any], resources: Mapping[str, float]) -> None:
        """Check that a worker has each resource, unless that was checked before. Raises `UserError`."""
        for name in resources.keys() - self._checked:
            if not any(name in worker["resources"] for worker in workers.values()):
                raise UserError(
                    f"{self._address}: expected a worker with a board {name}, found none among {len(workers)}; start "
                    f'one where the board is: dask worker ... --resources "{name}=1"'
                )
            self._checked.add(name)

    def existing_tasks(self, prefix: str) -> Collection[str]:
        """Return the keys of existing tasks that begin with a prefix; none where the scheduler cannot be reached."""
        with contextlib.suppress(*self._connection_errors):
            return [key for key in self._client.list_datasets() if key.startswith(prefix)]
        return []

    def stop(self, key: str) -> None:
        """Stop a task. Without a scheduler there is no task to stop."""
        self.release(key)
        with contextlib.suppress(Exception):
            self._client.run(_stop, key, on_error="ignore")

    def release(self, key: str) -> None:
        """Let the scheduler forget a task. A scheduler that is gone has forgotten it."""
        self._allowed.pop(key, None)
        future = self._futures.pop(key, None)
        with contextlib.suppress(Exception):
            self._client.unpublish_dataset(key)
        with contextlib.suppress(Exception):
            if future is not None:
                future.cancel()

    def ask(
        self,
        place: str,
        function: Callable[Concatenate[Home, _Arguments], _Result],
        *arguments: _Arguments.args,
        **keywords: _Arguments.kwargs,
    ) -> _Result:
        """Call a function at the host of a worker. Raises `LostWorkerError`, and a `UserError` of the function."""
        try:
            answers = self._client.run(_call_at_host, function, arguments, keywords, workers=[place])
        except UserError:
            raise
        except Exception as error:
            raise LostWorkerError(f"{place}: {error}") from error
        if place not in answers:
            raise LostWorkerError(f"{place}: the worker is gone")
        return cast(_Result, answers[place])

    def no_worker_notice(self) -> str | None:
        """Return a sentence that says how to start a worker; None if there is a worker, or if that is not known."""
        try:
            if self._client.scheduler_info(n_workers=-1)["workers"]:
                return None
        except (KeyError, *self._connection_errors):
            return None
        address = hide_credentials(self._address)
        return (
            f"no worker has joined {address}; on each machine that is to make runs, start one: "
            f"dask worker {address} --nthreads 1"
        )

    def close(self) -> None:
        """Disconnect from the scheduler."""
        self._closing.set()
        with contextlib.suppress(Exception):
            self._client.close()

    def _handle_event(self, event: tuple[float, Mapping[str, Any]]) -> None:
        message = event[1]
        key, place = message["key"], message["place"]
        match message["kind"]:
            case "began":
                self._on_event(TaskBegin(key, place, message["host"]))
            case "lacks":
                self._on_event(MissingContents(key, place))
            case _:
                self._on_event(TaskActivity(key, place, message["slot"], message["text"]))

    def _handle_worker_event(self, event: tuple[float, Mapping[str, Any]]) -> None:
        if event[1].get("action") == "remove-worker":
            for key, allowed in [*self._allowed.items()]:
                allowed.discard(event[1]["worker"])
                if not allowed:
                    self._report_unplaceable(key)

    def _report_unplaceable(self, key: str) -> None:
        """Report a task as lost, because the workers that may run it are gone. The scheduler would wait for them."""
        if self._allowed.pop(key, None) is not None:
            self._on_event(TaskEnd(key, "", None))

    def _handle_end(self, key: str, future: Any) -> None:
        if self._futures.get(key) is not future:
            return  # The task was stopped.
        self._allowed.pop(key, None)
        if future.status == "error":
            error: Exception = future.exception()
            # These are the names of dask's errors where it gives a task up. After any other error, the worker could
            # not even unpickle the task.
            is_lost = type(error).__name__ in ("KilledWorker", "NoValidWorkerError")
            unreadable = UserError(
                f"expected workers with precision-bisect installed, found one without: {error}"
            )
            self._on_event(TaskEnd(key, "a worker of the cluster", None if is_lost else unreadable))
            return
        try:
            place, result = future.result()
        except Exception:
            # The scheduler ended, or the result was lost on its way.
            place, result = "", None
        self._on_event(TaskEnd(key, place, result))


@dataclass
class _TaskPipes:
    """The tasks that run in this process of a worker, with the pipe by which each is stopped."""

    pipes: dict[str, int] = field(default_factory=dict[str, int])
    lock: threading.Lock = field(default_factory=threading.Lock)


_TASK_PIPES = _TaskPipes()


def _make(parcel: ProbeParcel, key: str) -> tuple[str, HostProbeResult | Exception | None]:
    """Run a task in a worker; return the worker's address, and what `attempt` returns."""
    distributed: Any = importlib.import_module("distributed")
    worker = distributed.get_worker()

    def report(kind: str, **more: object) -> None:
        worker.log_event(_TOPIC, {"kind": kind, "key": key, "place": worker.address, **more})

    def make(interrupt: Interrupt) -> HostProbeResult:
        report("began", host=platform.node())
        machine = HostMachine(home=user_home(), variables=_variables(), max_probes=worker.state.nthreads)
        return machine.make(
            key,
            parcel,
            on_missing=lambda: report("lacks"),
            on_activity=lambda slot, text: report("says", slot=slot, text=text),
            interrupt=interrupt,
        )

    source, sink = os.pipe()
    with os.fdopen(source, "rb") as stopped:
        with _TASK_PIPES.lock:
            _TASK_PIPES.pipes[key] = sink
        try:
            return worker.address, attempt(partial(make, Interrupt(stopped)))
        finally:
            with _TASK_PIPES.lock:
                del _TASK_PIPES.pipes[key]
                os.close(sink)


def _stop(key: str) -> None:
    """Stop a task if it runs in this process of a worker."""
    with _TASK_PIPES.lock:
        if key in _TASK_PIPES.pipes:
            os.write(_TASK_PIPES.pipes[key], b".")


async def _call_at_host(
    function: Callable[..., object], arguments: tuple[object, ...], keywords: Mapping[str, object]
) -> object:
    """Call a function in a thread, so that the worker's event loop can go on sending heartbeats."""
    return await asyncio.to_thread(function, user_home(), *arguments, **keywords)


def _variables() -> dict[str, str]:
    """Return the variables that commands inherit at a host: its own, without those that dask has set."""
    dask: Any = importlib.import_module("dask")
    settings: Mapping[str, object] = dask.config.get("distributed.nanny.pre-spawn-environ", {})
    set_by_dask = {(name, str(value)) for name, value in settings.items()}
    return dict(variable for variable in os.environ.items() if variable not in set_by_dask)
