"""The engine for ray: `RayEngine`.

Each task is a `ProbeActor`, which ray places by its resources. The actor has the task's key as its name, and outlives a
driver that dies, so that the next driver finds it. The driver asks the actor for events. For `Engine.ask`, a driver has
a `HostActor` at each host.
"""

import contextlib
import importlib
import os
import platform
import queue
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit

import psutil

from ...store.vocabulary import hide_credentials
from ..errors import UserError, reason
from ..process.run import Interrupt
from ..workspace.home import Home, user_home
from .farm import (
    EngineEvent,
    LostEngineError,
    LostWorkerError,
    MissingContents,
    TaskActivity,
    TaskBegin,
    TaskEnd,
)
from .host import HostMachine, HostProbeResult, ProbeParcel, attempt

_NAMESPACE = "precision-bisect"
_POLL_INTERVAL = 0.5
"""A wait for ray is interrupted once in this many seconds, to check whether the driver disconnects."""

_NODES_INTERVAL = 5.0
"""The driver looks up the cluster's nodes once in this many seconds."""

_ANSWER_TIMEOUT = 5.0
"""An actor answers after this many seconds even if there is no event, so that a lost actor is noticed."""

_CONNECT_TIMEOUT = 10.0
"""A cluster has to answer within this many seconds."""

_HEARTBEAT_INTERVAL = 1.0
"""The driver checks once in this many seconds whether the head is there. A new head would take longer to start."""
_MAX_REFUSALS = 2
"""The head counts as gone after this many refused connections. One alone may be an accident."""

_SILENCE_TIMEOUT = 40.0
"""The head counts as gone after this many seconds without an answer. After 60, ray would end the driver."""
_UNREACHABLE_TIMEOUT = 180.0
"""An actor that cannot be reached is given up after this many seconds, although the head believes that it lives."""

_STOP_TIMEOUT = 10.0
"""A probe has this many seconds to stop by itself."""

_ABANDON_TIMEOUT = 900.0
"""The actor of a finished probe ends after this many seconds in which no driver asks for its events."""

_MAX_CONCURRENCY = 8
"""An actor answers at most this many calls at the same time."""

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True)
class _Question:
    """A question to an actor about its events from index `start` on."""

    key: str
    actor: Any
    start: int
    unreachable_since: float | None = None
    """The time since which the actor cannot be reached; None if it can be."""


@dataclass(frozen=True)
class _Placement:
    """Where a probe may run: at a node that has all `resources`, and is at none of the places `avoid`."""

    resources: frozenset[str]
    avoid: frozenset[str]


class RayEngine:
    """An `Engine` of a running cluster that this machine belongs to, by the address of its head.

    A function of ray that is called after the driver has disconnected would connect again, and block. `_guard_call`
    prevents such calls. While the head is gone, ray's functions wait for it until ray ends the driver. `_call_head`
    prevents that.
    """

    def __init__(self, address: str, on_event: Callable[[EngineEvent], None]) -> None:
        """Connect to the cluster. Raises `UserError`."""
        self._ray: Any = importlib.import_module("ray")
        self._address = address
        self._on_event = on_event
        self._actors: dict[str, Any] = {}
        """The actors of the wanted probes, by key."""
        self._orphan_actors: dict[str, Any] = {}
        """The actors that earlier drivers have left, by key."""
        self._questions: dict[Any, _Question] = {}
        """The open questions, by the reference of the answer."""
        self._placements: dict[str, _Placement] = {}
        """The placements of the probes that avoid some hosts and have not begun, by key."""
        self._places: dict[str, str] = {}
        """The places of the probes that have begun, by key."""
        self._unreached_questions: list[_Question] = []
        """The questions to ask again, because the actors could not be reached."""
        self._loss: LostEngineError | None = None
        """The error to raise once the head is gone."""
        self._hosts: dict[str, Any] = {}
        """The `HostActor`s of this driver, by place."""
        self._checked: set[str] = set()
        """The resources that at least one node has."""
        self._closing = threading.Event()
        self._change = threading.Condition()
        self._callers = 0
        """The number of threads in a guarded call."""
        self._connect()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _connect(self) -> None:
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            _check_reachable(self._address)
            self._ray.init(
                address=self._address, namespace=_NAMESPACE, log_to_driver=False, logging_level="ERROR"
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(
                f"{self._address}: expected a cluster of ray, found none that lets this machine in: {error}; start it, "
                "or correct $RAY_ADDRESS (HOST:PORT), $RAY_AUTH_MODE and $RAY_AUTH_TOKEN"
            ) from error
        finally:
            # Ray sets handlers that end the driver at once, and its probes would go on.
            if threading.current_thread() is threading.main_thread():
                for number, handler in handlers.items():
                    signal.signal(number, handler)

    @contextlib.contextmanager
    def _guard_call(self) -> Generator[None]:
        """Let `close` wait for the calls of ray in the block. Raises `LostWorkerError` once the driver disconnects."""
        with self._change:
            if self._loss is not None:
                raise self._loss
            if self._closing.is_set():
                raise LostWorkerError("the driver has let go of ray")
            self._callers += 1
        try:
            yield
        finally:
            with self._change:
                self._callers -= 1
                self._change.notify_all()

    def start(
        self,
        key: str,
        parcel: ProbeParcel,
        *,
        resources: Mapping[str, float],
        avoid: frozenset[str],
    ) -> None:
        """Start a probe. Raises `UserError` where no node has the resources, or the head is gone."""
        with self._guard_call():
            self._check_resources(resources)
            options: dict[str, Any] = {
                "name": key,
                "lifetime": "detached",
                "get_if_exists": True,
                "num_cpus": 1,
                "resources": dict(resources),
                "max_concurrency": _MAX_CONCURRENCY,
            }
            placement = _Placement(frozenset(["CPU", *resources]), avoid)
            if avoid and self._is_possible(placement):
                nodes = ",".join(sorted(map(_node_id, avoid)))
                options["label_selector"] = {"ray.io/node-id": f"!in({nodes})"}
                self._placements[key] = placement
            actor = self._call_head(
                lambda: self._ray.remote(ProbeActor).options(**options).remote(key, parcel)
            )
            self._actors[key] = actor
            # `_report_loss` may have reported the loss of the head before it could know this probe.
            if self._loss is not None:
                raise self._loss
            self._ask_actor(_Question(key, actor, 0))

    def _nodes(self) -> list[Mapping[str, Any]]:
        return [node for node in self._call_head(self._ray.nodes) if node["Alive"]]

    def _call_head(self, function: Callable[[], Any]) -> Any:
        """Call a function that asks the head, and raise its errors. Raises `LostEngineError` once the head is gone.

        The function runs in a thread of its own, because it would not return then.
        """
        outcomes: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def call() -> None:
            try:
                outcomes.put((function(), None))
            except BaseException as error:
                outcomes.put((None, error))

        threading.Thread(target=call, daemon=True).start()
        while True:
            try:
                result, error = outcomes.get(timeout=_POLL_INTERVAL)
            except queue.Empty:
                if self._loss is not None:
                    raise self._loss from None
            else:
                if error is not None:
                    raise error
                return result

    def _watch(self) -> None:
        """Check whether the head is there, and report its loss once."""
        refusals, last_answer = 0, time.monotonic()
        while not self._closing.wait(_HEARTBEAT_INTERVAL):
            try:
                _check_reachable(self._address)
            except OSError as error:
                refusals = refusals + 1 if isinstance(error, ConnectionRefusedError) else 0
                if refusals == _MAX_REFUSALS or time.monotonic() - last_answer > _SILENCE_TIMEOUT:
                    self._report_loss(error)
                    return
            else:
                refusals, last_answer = 0, time.monotonic()

    def _report_loss(self, error: OSError) -> None:
        """Report all probes as lost with the head."""
        self._loss = LostEngineError(
            f"{self._address}: expected the head of ray to answer, found it gone ({reason(error)}); what its nodes "
            f"were running is lost; start the head and the nodes again, then resume"
        )
        for key in [*self._actors]:
            self._on_event(TaskEnd(key, "", self._loss))

    def _check_resources(self, resources: Iterable[str]) -> None:
        """Check that a node has each resource, unless that was checked before. Raises `UserError`."""
        for name in {*resources} - self._checked:
            nodes = self._nodes()
            if not any(name in node["Resources"] for node in nodes):
                raise UserError(
                    f"{self._address}: expected a node with a board {name}, found none among {len(nodes)}; start one "
                    f"where the board is: ray start ... --resources '{{\"{name}\": 1}}'"
                )
            self._checked.add(name)

    def _is_possible(self, placement: _Placement) -> bool:
        """Return whether the cluster has a node for a placement."""
        avoided = {_node_id(place) for place in placement.avoid}
        return any(
            node["NodeID"] not in avoided and placement.resources <= node["Resources"].keys()
            for node in self._nodes()
        )

    def _ask_actor(self, question: _Question) -> None:
        self._questions[question.actor.events_after.remote(question.start)] = question

    def _listen(self) -> None:
        """Read the answers of actors. No other thread does."""
        try:
            self._read_answers()
        except LostEngineError:
            pass  # The loss was reported already.
        except Exception:
            error = RuntimeError(traceback.format_exc())
            for key in [*self._actors]:
                self._on_event(TaskEnd(key, "the driver", error))

    def _read_answers(self) -> None:
        last_look = time.monotonic()
        while not self._closing.is_set() and self._loss is None:
            references = [*self._questions]
            if references:
                for answer in self._ray.wait(references, timeout=_POLL_INTERVAL)[0]:
                    self._handle_answer(answer, self._questions.pop(answer))
            else:
                self._closing.wait(_POLL_INTERVAL)
            if time.monotonic() - last_look > _NODES_INTERVAL:
                last_look = time.monotonic()
                if self._placements:
                    self._drop_unplaceable()
                self._ask_again()

    def _handle_answer(self, answer: Any, question: _Question) -> None:
        """Report the events in an actor's answer, and ask for the next ones."""
        key = question.key
        place = self._places.get(key, "")
        try:
            events = cast(list[EngineEvent], self._ray.get(answer))
        except self._ray.exceptions.ActorUnavailableError:
            # The connection may be cut. The actor lives until the head says otherwise.
            unreachable_since = question.unreachable_since or time.monotonic()
            if time.monotonic() - unreachable_since < _UNREACHABLE_TIMEOUT:
                self._unreached_questions.append(replace(question, unreachable_since=unreachable_since))
                return
            message = f"expected the node to answer, found it silent for {_UNREACHABLE_TIMEOUT:.0f} seconds"
            events = [TaskEnd(key, place, UserError(message))]
        except self._ray.exceptions.RayError as error:
            start_error = _start_error(error)
            if start_error is not None:
                place = place or "a node of the cluster"
            events = [TaskEnd(key, place, start_error)]
        for event in events:
            if self._actors.get(key) is not question.actor:
                return  # The probe was stopped.
            self._placements.pop(key, None)
            self._places[key] = event.place
            self._on_event(event)
        if not any(isinstance(event, TaskEnd) for event in events):
            self._ask_actor(_Question(key, question.actor, question.start + len(events)))

    def _ask_again(self) -> None:
        """Repeat the questions to actors that could not be reached, if their probes are still wanted."""
        questions, self._unreached_questions = self._unreached_questions, []
        for question in questions:
            if self._actors.get(question.key) is question.actor:
                self._ask_actor(question)

    def _drop_unplaceable(self) -> None:
        """Report probes as lost for which the cluster no longer has a node. Ray would wait for one."""
        for key, placement in [*self._placements.items()]:
            if not self._is_possible(placement) and self._placements.pop(key, None) is not None:
                self._on_event(TaskEnd(key, "", None))

    def existing_tasks(self, prefix: str) -> Collection[str]:
        """Return the keys of existing tasks that begin with a prefix. Raises `LostEngineError`."""
        with self._guard_call():
            names: list[str] = self._call_head(importlib.import_module("ray.util").list_named_actors)
            for name in names:
                if name.startswith(prefix) and name not in self._actors:
                    with contextlib.suppress(ValueError):  # The actor has just ended.
                        self._orphan_actors[name] = self._call_head(partial(self._ray.get_actor, name))
        return [name for name in names if name.startswith(prefix)]

    def stop(self, key: str) -> None:
        """Stop a probe, and end its actor."""
        may_run = key in self._places or key in self._orphan_actors
        self._end_actor(key, patience=_STOP_TIMEOUT if may_run else 0)

    def release(self, key: str) -> None:
        """End the actor of a finished probe, which frees its resources."""
        self._end_actor(key, patience=0)

    def _end_actor(self, key: str, *, patience: float) -> None:
        """End an actor. The probe gets `patience` seconds to stop by itself."""
        self._placements.pop(key, None)
        self._places.pop(key, None)
        actor = self._actors.pop(key, self._orphan_actors.pop(key, None))
        with contextlib.suppress(LostWorkerError, LostEngineError, self._ray.exceptions.RayError):
            if actor is not None:
                with self._guard_call():
                    if patience:
                        self._ray.wait([actor.stop.remote()], timeout=patience)
                    self._ray.kill(actor)

    def ask(
        self,
        place: str,
        function: Callable[Concatenate[Home, _Arguments], _Result],
        *arguments: _Arguments.args,
        **keywords: _Arguments.kwargs,
    ) -> _Result:
        """Call a function at a node. Raises `LostWorkerError`, `LostEngineError`, and a `UserError` of the function."""
        with self._guard_call():
            host = self._call_head(lambda: self._host(place))
            try:
                answer = host.call.remote(function, arguments, keywords)
                while not self._ray.wait([answer], timeout=_POLL_INTERVAL)[0]:
                    if self._loss is not None:
                        raise self._loss
                    if self._closing.is_set():
                        raise LostWorkerError(f"{place}: the driver lets go of ray")
                return cast(_Result, self._ray.get(answer))
            except self._ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, UserError):
                    raise error.cause from error
                raise LostWorkerError(f"{place}: {error}") from error
            except self._ray.exceptions.RayError as error:
                with self._change:
                    if self._hosts.get(place) is host:
                        del self._hosts[place]
                raise LostWorkerError(f"{place}: {error}") from error

    def _host(self, place: str) -> Any:
        """Return this driver's `HostActor` at a place, which ends with the driver."""
        with self._change:
            if place in self._hosts:
                return self._hosts[place]
        strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
        strategy = strategies.NodeAffinitySchedulingStrategy(node_id=_node_id(place), soft=False)
        options = {"num_cpus": 0, "max_concurrency": _MAX_CONCURRENCY, "scheduling_strategy": strategy}
        # This waits for a head that is gone, and whoever lets go of ray needs the lock.
        host = self._ray.remote(HostActor).options(**options).remote()
        with self._change:
            return self._hosts.setdefault(place, host)

    def no_worker_notice(self) -> str | None:
        """Return a sentence that says how to start a node; None if a node has a CPU, or if that is not known."""
        try:
            with self._guard_call():
                if any("CPU" in node["Resources"] for node in self._nodes()):
                    return None
        except (LostWorkerError, LostEngineError, self._ray.exceptions.RayError):
            return None
        address = hide_credentials(self._address)
        return (
            f"no node of {address} can run probes; start one on each machine that should run them: "
            f"ray start --address={address}"
        )

    def close(self) -> None:
        """Disconnect from the cluster."""
        with self._change:
            self._closing.set()
            self._change.wait_for(lambda: self._callers == 0)
        self._listener.join()
        self._watcher.join()
        self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Check that somebody accepts a connection. Raises `OSError` and `ValueError`."""
    # Ray itself would wait for minutes.
    where = urlsplit(f"//{address}")
    socket.create_connection((where.hostname or "", where.port or 0), timeout=_CONNECT_TIMEOUT).close()


def _node_id(place: str) -> str:
    """Return ray's id of the node at a place."""
    return place.rpartition(" ")[2]


def _start_error(error: Any) -> Exception | None:
    """Return an error to report if an actor could not be created; None if it was created, and lost later."""
    if not getattr(error, "actor_init_failed", False):
        return None
    return UserError(f"expected nodes with precision-bisect installed, found one without: {error}")


class ProbeActor:
    """Makes a probe at a node. Ray may run several of its methods at the same time, in threads."""

    def __init__(self, key: str, parcel: ProbeParcel) -> None:
        """Begin the probe."""
        ray: Any = importlib.import_module("ray")
        node: str = ray.get_runtime_context().get_node_id()
        (resources,) = (each["Resources"] for each in ray.nodes() if each["NodeID"] == node)
        self._key = key
        self._place = f"{socket.gethostname()} {node}"
        self._max_probes = max(1, int(resources.get("CPU", 1)))
        self._events: list[EngineEvent] = []
        self._change = threading.Condition()
        self._last_question = time.monotonic()
        """The time at which a driver asked for events last."""
        self._stop_reader, self._stop_writer = os.pipe()
        threading.Thread(target=self._run, args=(parcel,), daemon=True).start()

    def _run(self, parcel: ProbeParcel) -> None:
        """Make the probe, and end the process once no driver asks for its events any more."""
        self._add_event(TaskBegin(self._key, self._place, platform.node()))
        self._add_event(TaskEnd(self._key, self._place, attempt(lambda: self._make_probe(parcel))))
        with self._change:
            while (remaining := self._last_question + _ABANDON_TIMEOUT - time.monotonic()) > 0:
                self._change.wait(remaining)
        os._exit(0)

    def _make_probe(self, parcel: ProbeParcel) -> HostProbeResult:
        with os.fdopen(self._stop_reader, "rb") as stopped:
            return HostMachine(home=user_home(), variables=_variables(), max_probes=self._max_probes).make(
                self._key,
                parcel,
                on_missing=lambda: self._add_event(MissingContents(self._key, self._place)),
                on_activity=lambda slot, text: self._add_event(
                    TaskActivity(self._key, self._place, slot, text)
                ),
                interrupt=Interrupt(stopped),
            )

    def _add_event(self, event: EngineEvent) -> None:
        with self._change:
            self._events.append(event)
            self._change.notify_all()

    def events_after(self, start: int) -> list[EngineEvent]:
        """Return the events from index `start` on; wait up to `_ANSWER_TIMEOUT` for one."""
        with self._change:
            self._last_question = time.monotonic()
            self._change.wait_for(lambda: len(self._events) > start, timeout=_ANSWER_TIMEOUT)
            return self._events[start:]

    def stop(self) -> None:
        """Stop the probe, and wait until it has ended."""
        os.write(self._stop_writer, b".")
        with self._change:
            self._change.wait_for(lambda: any(isinstance(event, TaskEnd) for event in self._events))


class HostActor:
    """Calls functions at a node for a driver."""

    def call(
        self, function: Callable[..., object], arguments: tuple[object, ...], keywords: Mapping[str, object]
    ) -> object:
        """Call a function with the node's home."""
        return function(user_home(), *arguments, **keywords)


def _variables() -> dict[str, str]:
    """Return the variables that commands inherit at a node: those with which ray was started, without ray's own."""
    started = psutil.Process(os.getppid()).environ()
    return {name: text for name, text in started.items() if not name.startswith("RAY_")}
