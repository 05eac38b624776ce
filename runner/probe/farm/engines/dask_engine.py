"""Tasks of dask.distributed: it chooses workers by their resources, and runs again what it loses.

Whatever goes between driver and hosts goes by way of the scheduler, which both connect to, under the security that
dask is configured with. A task's future is published under its key until its result is stored, so that it outlives
a driver that dies, and is found by the one that goes on.
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

from ....errors import UserError
from ....process.interrupt import Interrupt
from ....workspace.home import Home, user_home
from ..engine import Began, Ended, Lacks, LostPlaceError, Says, Told
from ..making import HostMachine, MadeProbe, attempted
from ..parcel import ProbeParcel

_TOPIC = "precision-bisect"
_PATIENCE = 300.0
"""Seconds in which a scheduler that is gone may come back."""
_PAUSE = 2.0
"""Seconds between two tries to reach it."""

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class DaskEngine:
    """An `Engine` whose scheduler has an address, such as `tls://scheduler:8786`."""

    def __init__(self, address: str, tell: Callable[[Told], None]) -> None:
        """Connect. Raises `UserError`."""
        self._address = address
        self._tell = tell
        self._futures: dict[str, Any] = {}
        self._only: dict[str, set[str]] = {}
        """The workers that alone may make some tasks, by key."""
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
        """Have a probe made. Raises `UserError` where no worker has the resources, or the scheduler stays away."""
        latest = time.monotonic() + _PATIENCE
        while True:
            try:
                self._start(key, parcel, resources, avoid)
                return
            except self._away as error:
                if time.monotonic() > latest:
                    raise UserError(
                        f"{self._address}: expected the scheduler to come back, found it gone for {_PATIENCE:.0f} "
                        "seconds; start it, then resume"
                    ) from error
            self._closing.wait(_PAUSE)

    @property
    def _away(self) -> tuple[type[Exception], ...]:
        """What a client raises that does not reach the scheduler."""
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
        # Each time: a client that has lost the scheduler and found it again, or another one, is told nothing there.
        self._client.subscribe_topic(_TOPIC, self._hear)
        self._client.subscribe_topic("all", self._hear_of_workers)
        only = workers.keys() - avoid if avoid else set[str]()
        future = self._client.submit(
            _make,
            parcel,
            key,
            key=key,
            pure=False,
            resources=dict(resources) or None,
            # Strictly, for idle workers steal tasks that others are merely preferred for.
            workers=sorted(only) or None,
        )
        self._client.publish_dataset(future, name=key, override=True)
        self._futures[key] = future
        if only:
            self._only[key] = only
            if not only & self._workers().keys():
                self._nowhere(key)
        future.add_done_callback(partial(self._ended, key))

    def _workers(self) -> Mapping[str, Any]:
        """The workers, by their addresses. Raises `ConnectionError` where the scheduler is away."""
        if self._client.status == "closed":
            # It has tried for a while to reach a scheduler that was gone, and given up.
            try:
                self._client = self._connect()
            except UserError as error:
                raise ConnectionError(self._address) from error
        workers: Mapping[str, Any] | None = self._client.scheduler_info(n_workers=-1).get("workers")
        if workers is None:
            raise ConnectionError(self._address)
        return workers

    def _check(self, workers: Mapping[str, Any], resources: Mapping[str, float]) -> None:
        """Raises `UserError` where a resource is asked for the first time, and no worker ever had it."""
        for name in resources.keys() - self._checked:
            if not any(name in worker["resources"] for worker in workers.values()):
                raise UserError(
                    f"{self._address}: expected a worker with a board {name}, found none among {len(workers)}; start "
                    f'one where the board is: dask worker ... --resources "{name}=1"'
                )
            self._checked.add(name)

    def left(self, prefix: str) -> Collection[str]:
        """The keys of tasks that are there and begin so; none where the scheduler is away, and has forgotten them."""
        with contextlib.suppress(*self._away):
            return [key for key in self._client.list_datasets() if key.startswith(prefix)]
        return []

    def stop(self, key: str) -> None:
        """Stop a task, wherever it is. Where the scheduler is gone, there is none."""
        self.release(key)
        with contextlib.suppress(Exception):
            self._client.run(_stop, key, on_error="ignore")

    def release(self, key: str) -> None:
        """Let the scheduler forget a task. Where it is gone, it has."""
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
        """Call a function at the host of a worker. Raises `LostPlaceError` where that is gone."""
        try:
            answers = self._client.run(_at_host, function, arguments, named, workers=[place])
        except UserError:
            raise
        except Exception as error:
            raise LostPlaceError(f"{place}: {error}") from error
        if place not in answers:
            raise LostPlaceError(f"{place}: the worker is gone")
        return cast(_Result, answers[place])

    def nobody(self) -> str | None:
        """That no worker has joined the scheduler, and how one is started."""
        try:
            if self._client.scheduler_info(n_workers=-1)["workers"]:
                return None
        except (KeyError, *self._away):
            return None
        return (
            f"no worker has joined {self._address}; on each machine that is to make runs, start one: "
            f"dask worker {self._address} --nthreads 1"
        )

    def close(self) -> None:
        """Let go of the scheduler."""
        self._closing.set()
        with contextlib.suppress(Exception):
            self._client.close()

    def _hear(self, event: tuple[float, Mapping[str, Any]]) -> None:
        message = event[1]
        key, place = message["key"], message["place"]
        match message["kind"]:
            case "began":
                self._tell(Began(key, place, message["host"]))
            case "lacks":
                self._tell(Lacks(key, place))
            case _:
                self._tell(Says(key, place, message["slot"], message["text"]))

    def _hear_of_workers(self, event: tuple[float, Mapping[str, Any]]) -> None:
        if event[1].get("action") == "remove-worker":
            for key, only in [*self._only.items()]:
                only.discard(event[1]["worker"])
                if not only:
                    self._nowhere(key)

    def _nowhere(self, key: str) -> None:
        """The workers that alone may make a task are gone: the scheduler would wait for them."""
        if self._only.pop(key, None) is not None:
            self._tell(Ended(key, "", None))

    def _ended(self, key: str, future: Any) -> None:
        if self._futures.get(key) is not future:
            return
        self._only.pop(key, None)
        if future.status == "error":
            error: Exception = future.exception()
            # What dask raises where it gives up has a name of its own; else the task could not even be read.
            lost = type(error).__name__ in ("KilledWorker", "NoValidWorkerError")
            unread = UserError(
                f"expected workers with precision-bisect installed, found one without: {error}"
            )
            self._tell(Ended(key, "a worker of the cluster", None if lost else unread))
            return
        try:
            place, made = future.result()
        except Exception:  # cancelled by a scheduler that ended, or lost on the way here
            self._tell(Ended(key, "", None))
        else:
            self._tell(Ended(key, place, made))


@dataclass
class _Running:
    """The tasks that run in this process of a worker: where to write so that one stops."""

    pipes: dict[str, int] = field(default_factory=dict[str, int])
    lock: threading.Lock = field(default_factory=threading.Lock)


_RUNNING = _Running()


def _make(parcel: ProbeParcel, key: str) -> tuple[str, MadeProbe | Exception | None]:
    """A task: the worker's address, and the probe; None where it was stopped, or why it cannot be made here."""
    distributed: Any = importlib.import_module("distributed")
    worker = distributed.get_worker()

    def tell(kind: str, **more: object) -> None:
        worker.log_event(_TOPIC, {"kind": kind, "key": key, "place": worker.address, **more})

    def make(interrupt: Interrupt) -> MadeProbe:
        tell("began", host=platform.node())
        machine = HostMachine(home=user_home(), variables=_variables(), share=worker.state.nthreads)
        return machine.make(
            key,
            parcel,
            on_lack=lambda: tell("lacks"),
            on_activity=lambda slot, text: tell("says", slot=slot, text=text),
            interrupt=interrupt,
        )

    source, sink = os.pipe()
    with os.fdopen(source, "rb") as stopped:
        with _RUNNING.lock:
            _RUNNING.pipes[key] = sink
        try:
            return worker.address, attempted(partial(make, Interrupt(stopped)))
        finally:
            with _RUNNING.lock:
                del _RUNNING.pipes[key]
                os.close(sink)


def _stop(key: str) -> None:
    with _RUNNING.lock:
        if key in _RUNNING.pipes:
            os.write(_RUNNING.pipes[key], b".")


async def _at_host(
    function: Callable[..., object], arguments: tuple[object, ...], named: Mapping[str, object]
) -> object:
    """Call a function beside the loop in which a worker says that it lives."""
    return await asyncio.to_thread(function, user_home(), *arguments, **named)


def _variables() -> dict[str, str]:
    """What commands inherit at a host: its variables, but for those that dask has set for its own process."""
    dask: Any = importlib.import_module("dask")
    own: Mapping[str, object] = dask.config.get("distributed.nanny.pre-spawn-environ", {})
    return {name: text for name, text in os.environ.items() if text != str(own.get(name))}
