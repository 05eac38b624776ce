"""The engine for dask.distributed, which chooses workers by their resources and repeats the tasks that it loses.

All data between driver and hosts passes through the scheduler, to which both connect. The security is the one that dask
is configured with. A task's future is published under its key until its result is stored. So the task outlives a driver
that dies, and the next driver finds it.
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
_RECONNECT_TIMEOUT = 300.0
"""A scheduler that is gone may come back within this many seconds. A restart of its machine takes less."""

_RECONNECT_INTERVAL = 2.0
"""The driver tries to reach the scheduler once in this many seconds."""

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class DaskEngine:
    """An `Engine` whose scheduler has an address, such as `tls://scheduler:8786`."""

    def __init__(self, address: str, tell: Callable[[EngineEvent], None]) -> None:
        """Connect to the scheduler. Raises `UserError`."""
        self._address = address
        self._tell = tell
        self._futures: dict[str, Any] = {}
        self._only: dict[str, set[str]] = {}
        """The only workers that may make a task, by key."""
        self._checked: set[str] = set()
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
        """Start a probe. Raises `UserError` where no worker has the resources, or the scheduler stays away."""
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
        """Return the errors of a client that does not reach the scheduler."""
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
        self._check(workers, resources)
        # A client that has reconnected to a scheduler, or to another one, gets no events until it subscribes again.
        self._client.subscribe_topic(_TOPIC, self._handle_event)
        self._client.subscribe_topic("all", self._handle_worker_event)
        only = workers.keys() - avoid if avoid else set[str]()
        future = self._client.submit(
            _make,
            parcel,
            key,
            key=key,
            pure=False,
            resources=dict(resources) or None,
            # The choice is strict, because idle workers steal tasks that merely prefer another worker.
            workers=sorted(only) or None,
        )
        self._client.publish_dataset(future, name=key, override=True)
        self._futures[key] = future
        if only:
            self._only[key] = only
            if not only & self._workers().keys():
                self._report_unplaceable(key)
        future.add_done_callback(partial(self._handle_end, key))

    def _workers(self) -> Mapping[str, Any]:
        """Return the workers, by their addresses. Raises `ConnectionError` where the scheduler is away."""
        if self._client.status == "closed":
            # The client has tried for a while to reach a scheduler that was gone, and given up.
            try:
                self._client = self._connect()
            except UserError as error:
                raise ConnectionError(self._address) from error
        workers: Mapping[str, Any] | None = self._client.scheduler_info(n_workers=-1).get("workers")
        if workers is None:
            raise ConnectionError(self._address)
        return workers

    def _check(self, workers: Mapping[str, Any], resources: Mapping[str, float]) -> None:
        """Raise `UserError` where a resource is asked for the first time, and no worker has it."""
        for name in resources.keys() - self._checked:
            if not any(name in worker["resources"] for worker in workers.values()):
                raise UserError(
                    f"{self._address}: expected a worker with a board {name}, found none among {len(workers)}; start "
                    f'one where the board is: dask worker ... --resources "{name}=1"'
                )
            self._checked.add(name)

    def existing_tasks(self, prefix: str) -> Collection[str]:
        """Return the keys of existing tasks with a prefix; none where the scheduler is away and has forgotten them."""
        with contextlib.suppress(*self._connection_errors):
            return [key for key in self._client.list_datasets() if key.startswith(prefix)]
        return []

    def stop(self, key: str) -> None:
        """Stop a task, wherever it is. Where the scheduler is gone, there is no task."""
        self.release(key)
        with contextlib.suppress(Exception):
            self._client.run(_stop, key, on_error="ignore")

    def release(self, key: str) -> None:
        """Let the scheduler forget a task. Where the scheduler is gone, it already has."""
        self._only.pop(key, None)
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
        **named: _Arguments.kwargs,
    ) -> _Result:
        """Call a function at the host of a worker. Raises `LostWorkerError` where that is gone."""
        try:
            answers = self._client.run(_call_at_host, function, arguments, named, workers=[place])
        except UserError:
            raise
        except Exception as error:
            raise LostWorkerError(f"{place}: {error}") from error
        if place not in answers:
            raise LostWorkerError(f"{place}: the worker is gone")
        return cast(_Result, answers[place])

    def no_worker_notice(self) -> str | None:
        """Say that no worker has joined the scheduler, and how one is started; None where there is a worker."""
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
                self._tell(TaskBegin(key, place, message["host"]))
            case "lacks":
                self._tell(MissingContents(key, place))
            case _:
                self._tell(TaskActivity(key, place, message["slot"], message["text"]))

    def _handle_worker_event(self, event: tuple[float, Mapping[str, Any]]) -> None:
        if event[1].get("action") == "remove-worker":
            for key, only in [*self._only.items()]:
                only.discard(event[1]["worker"])
                if not only:
                    self._report_unplaceable(key)

    def _report_unplaceable(self, key: str) -> None:
        """Report a task as lost whose only possible workers are gone; the scheduler would wait for them."""
        if self._only.pop(key, None) is not None:
            self._tell(TaskEnd(key, "", None))

    def _handle_end(self, key: str, future: Any) -> None:
        if self._futures.get(key) is not future:
            return
        self._only.pop(key, None)
        if future.status == "error":
            error: Exception = future.exception()
            # The errors of dask where it gives up have these names. After any other error the task could not even be
            # read.
            lost = type(error).__name__ in ("KilledWorker", "NoValidWorkerError")
            unread = UserError(
                f"expected workers with precision-bisect installed, found one without: {error}"
            )
            self._tell(TaskEnd(key, "a worker of the cluster", None if lost else unread))
            return
        try:
            place, made = future.result()
        except (
            Exception
        ):  # The task was cancelled by a scheduler that ended, or its result was lost on the way here.
            self._tell(TaskEnd(key, "", None))
        else:
            self._tell(TaskEnd(key, place, made))


@dataclass
class _TaskPipes:
    """The tasks that run in this process of a worker, and the pipe by which each is stopped."""

    pipes: dict[str, int] = field(default_factory=dict[str, int])
    lock: threading.Lock = field(default_factory=threading.Lock)


_TASK_PIPES = _TaskPipes()


def _make(parcel: ProbeParcel, key: str) -> tuple[str, HostProbeResult | Exception | None]:
    """Run a task; return the worker's address and the probe.

    In place of the probe it returns None where it was stopped, or the reason why it cannot be made here.
    """
    distributed: Any = importlib.import_module("distributed")
    worker = distributed.get_worker()

    def tell(kind: str, **more: object) -> None:
        worker.log_event(_TOPIC, {"kind": kind, "key": key, "place": worker.address, **more})

    def make(interrupt: Interrupt) -> HostProbeResult:
        tell("began", host=platform.node())
        machine = HostMachine(home=user_home(), variables=_variables(), max_probes=worker.state.nthreads)
        return machine.make(
            key,
            parcel,
            on_lack=lambda: tell("lacks"),
            on_activity=lambda slot, text: tell("says", slot=slot, text=text),
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
    with _TASK_PIPES.lock:
        if key in _TASK_PIPES.pipes:
            os.write(_TASK_PIPES.pipes[key], b".")


async def _call_at_host(
    function: Callable[..., object], arguments: tuple[object, ...], named: Mapping[str, object]
) -> object:
    """Call a function in a thread, so that the worker's event loop can go on reporting that it lives."""
    return await asyncio.to_thread(function, user_home(), *arguments, **named)


def _variables() -> dict[str, str]:
    """Return what commands inherit at a host: its variables, without those that dask has set for its own process."""
    dask: Any = importlib.import_module("dask")
    own: Mapping[str, object] = dask.config.get("distributed.nanny.pre-spawn-environ", {})
    return {name: text for name, text in os.environ.items() if text != str(own.get(name))}
