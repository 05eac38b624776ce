"""The engine for ray. Each probe is an actor, which ray places by resources, which outlives the driver, and which has
the probe's key as its name.

A driver asks the actor for events. It has its own actor at each host for everything else that it asks there. Ray's own
configuration says who may connect to whom: its nodes reach each other and the driver.
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
"""The process checks once in this many seconds whether the driver lets go of the cluster."""

_NODES_INTERVAL = 5.0
"""The cluster's nodes are looked up once in this many seconds."""

_ANSWER_TIMEOUT = 5.0
"""An actor answers after this many seconds even where nothing has happened, so that a lost one is noticed."""

_CONNECT_TIMEOUT = 10.0
"""A cluster has to answer within this many seconds."""

_HEARTBEAT_INTERVAL = 1.0
"""This many seconds lie between two checks whether the head is there. A new head takes longer to start."""
_MAX_REFUSALS = 2
"""The head counts as gone after this many refused calls. One alone may be an accident."""

_SILENCE_TIMEOUT = 40.0
"""The head counts as gone after this many seconds without an answer. Ray ends the whole driver after 60."""
_UNREACHABLE_TIMEOUT = 180.0
"""An unreachable actor is given up after this many seconds, where the head believes that it lives."""

_STOP_TIMEOUT = 10.0
"""A probe gets this many seconds to stop by itself."""

_ABANDON_TIMEOUT = 900.0
"""The actor of a finished probe ends and frees its place after this many seconds, where no driver asks for it."""

_MAX_CONCURRENCY = 8
"""An actor answers at most this many calls at the same time."""

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True)
class _Question:
    """A question to an actor: what has happened after the first `seen` events."""

    key: str
    actor: Any
    seen: int
    unreachable_since: float | None = None
    """The time since which the actor cannot be reached; None where it can."""


@dataclass(frozen=True)
class _Placement:
    """Says where a probe that has not begun may run: at a node that has `resources` and is at none of the places
    `avoid`."""

    resources: frozenset[str]
    avoid: frozenset[str]


class RayEngine:
    """An `Engine` of a running cluster that this machine belongs to, by the address of its head.

    A function of ray that is called after the driver has disconnected connects again, and blocks. `_guard_call`
    prevents such calls. Where the head is gone, ray's functions wait for it until ray ends the driver. `_call_head`
    prevents that.
    """

    def __init__(self, address: str, tell: Callable[[EngineEvent], None]) -> None:
        """Connect to the cluster. Raises `UserError`."""
        self._ray: Any = importlib.import_module("ray")
        self._address = address
        self._tell = tell
        self._actors: dict[str, Any] = {}
        """The actors of the probes that are wanted, by key."""
        self._found: dict[str, Any] = {}
        """The actors of earlier drivers."""
        self._questions: dict[Any, _Question] = {}
        """The open questions, by the reference of the answer."""
        self._unplaced: dict[str, _Placement] = {}
        """The placements of the probes that avoid some hosts and have not begun, by key."""
        self._places: dict[str, str] = {}
        """The places of the probes that were begun, by key."""
        self._unreached: list[_Question] = []
        """The questions that are to be asked again."""
        self._gone: LostEngineError | None = None
        """The error to raise once the head is gone."""
        self._hosts: dict[str, Any] = {}
        """The `HostActor`s of this driver, by place."""
        self._checked: set[str] = set()
        self._closing = threading.Event()
        self._change = threading.Condition()
        self._callers = 0
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
            # Ray makes the driver exit at once on these signals, and what it has begun would go on.
            if threading.current_thread() is threading.main_thread():
                for number, handler in handlers.items():
                    signal.signal(number, handler)

    @contextlib.contextmanager
    def _guard_call(self) -> Generator[None]:
        """Guard a call of ray. Raises `LostWorkerError` once the driver lets go."""
        with self._change:
            if self._gone is not None:
                raise self._gone
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
            self._check(resources)
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
                nodes = ",".join(sorted(map(_node, avoid)))
                options["label_selector"] = {"ray.io/node-id": f"!in({nodes})"}
                self._unplaced[key] = placement
            actor = self._call_head(
                lambda: self._ray.remote(ProbeActor).options(**options).remote(key, parcel)
            )
            self._actors[key] = actor
            # The loss of the head may have been reported before this probe was known.
            if self._gone is not None:
                raise self._gone
            self._ask_actor(_Question(key, actor, 0))

    def _nodes(self) -> list[Mapping[str, Any]]:
        return [node for node in self._call_head(self._ray.nodes) if node["Alive"]]

    def _call_head(self, function: Callable[[], Any]) -> Any:
        """Call a function that asks the head, in a thread of its own.

        Raises the function's errors, and `LostEngineError` where the head is gone, because the function would not
        return then.
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
                if self._gone is not None:
                    raise self._gone from None
            else:
                if error is not None:
                    raise error
                return result

    def _watch(self) -> None:
        """Check whether the head is there, and report its loss once."""
        refused, answered = 0, time.monotonic()
        while not self._closing.wait(_HEARTBEAT_INTERVAL):
            try:
                _check_reachable(self._address)
            except OSError as error:
                refused = refused + 1 if isinstance(error, ConnectionRefusedError) else 0
                if refused == _MAX_REFUSALS or time.monotonic() - answered > _SILENCE_TIMEOUT:
                    self._lose(error)
                    return
            else:
                refused, answered = 0, time.monotonic()

    def _lose(self, error: OSError) -> None:
        self._gone = LostEngineError(
            f"{self._address}: expected the head of ray to answer, found it gone ({reason(error)}); what its nodes "
            f"were running is lost; start the head and the nodes again, then resume"
        )
        for key in [*self._actors]:
            self._tell(TaskEnd(key, "", self._gone))

    def _check(self, resources: Iterable[str]) -> None:
        """Raise `UserError` where a resource is asked for the first time, and no node has it."""
        for name in {*resources} - self._checked:
            nodes = self._nodes()
            if not any(name in node["Resources"] for node in nodes):
                raise UserError(
                    f"{self._address}: expected a node with a board {name}, found none among {len(nodes)}; start one "
                    f"where the board is: ray start ... --resources '{{\"{name}\": 1}}'"
                )
            self._checked.add(name)

    def _is_possible(self, elsewhere: _Placement) -> bool:
        avoided = {_node(place) for place in elsewhere.avoid}
        return any(
            node["NodeID"] not in avoided and elsewhere.resources <= node["Resources"].keys()
            for node in self._nodes()
        )

    def _ask_actor(self, question: _Question) -> None:
        self._questions[question.actor.events_after.remote(question.seen)] = question

    def _listen(self) -> None:
        """Read the answers of actors. No other thread does."""
        try:
            self._read_answers()
        except LostEngineError:
            pass  # The loss was reported already.
        except Exception:
            trouble = RuntimeError(traceback.format_exc())
            for key in [*self._actors]:
                self._tell(TaskEnd(key, "the driver", trouble))

    def _read_answers(self) -> None:
        looked = time.monotonic()
        while not self._closing.is_set() and self._gone is None:
            asked = [*self._questions]
            if asked:
                for answer in self._ray.wait(asked, timeout=_POLL_INTERVAL)[0]:
                    self._handle_answer(answer, self._questions.pop(answer))
            else:
                self._closing.wait(_POLL_INTERVAL)
            if time.monotonic() - looked > _NODES_INTERVAL:
                looked = time.monotonic()
                if self._unplaced:
                    self._drop_unplaceable()
                self._ask_again()

    def _handle_answer(self, answer: Any, question: _Question) -> None:
        key = question.key
        place = self._places.get(key, "")
        try:
            told = cast(list[EngineEvent], self._ray.get(answer))
        except self._ray.exceptions.ActorUnavailableError:
            # Its connection may be cut. It lives until the head says otherwise.
            since = question.unreachable_since or time.monotonic()
            if time.monotonic() - since < _UNREACHABLE_TIMEOUT:
                self._unreached.append(replace(question, unreachable_since=since))
                return
            silent = f"expected the node to answer, found it silent for {_UNREACHABLE_TIMEOUT:.0f} seconds"
            told = [TaskEnd(key, place, UserError(silent))]
        except self._ray.exceptions.RayError as error:
            why = _start_failure(error)
            told = [TaskEnd(key, place if why is None else place or "a node of the cluster", why)]
        for each in told:
            if self._actors.get(key) is not question.actor:
                return  # The probe was stopped.
            self._unplaced.pop(key, None)
            self._places[key] = each.place
            self._tell(each)
        if not any(isinstance(each, TaskEnd) for each in told):
            self._ask_actor(_Question(key, question.actor, question.seen + len(told)))

    def _ask_again(self) -> None:
        """Repeat the questions to actors that could not be reached, where their probes are still wanted."""
        questions, self._unreached = self._unreached, []
        for question in questions:
            if self._actors.get(question.key) is question.actor:
                self._ask_actor(question)

    def _drop_unplaceable(self) -> None:
        """Give up the probes whose only possible nodes are gone; ray would wait for them."""
        for key, placement in [*self._unplaced.items()]:
            if not self._is_possible(placement) and self._unplaced.pop(key, None) is not None:
                self._tell(TaskEnd(key, "", None))

    def existing_tasks(self, prefix: str) -> Collection[str]:
        """Return the keys of existing probes with a prefix. Raises `LostEngineError`."""
        with self._guard_call():
            names: list[str] = self._call_head(importlib.import_module("ray.util").list_named_actors)
            for name in names:
                if name.startswith(prefix) and name not in self._actors:
                    with contextlib.suppress(ValueError):  # The actor has just ended.
                        self._found[name] = self._call_head(partial(self._ray.get_actor, name))
        return [name for name in names if name.startswith(prefix)]

    def stop(self, key: str) -> None:
        """Stop a probe, wherever it is."""
        self._end(key, patience=_STOP_TIMEOUT if key in self._places or key in self._found else 0)

    def release(self, key: str) -> None:
        """Free the place of a probe for another one."""
        self._end(key, patience=0)

    def _end(self, key: str, *, patience: float) -> None:
        self._unplaced.pop(key, None)
        self._places.pop(key, None)
        actor = self._actors.pop(key, self._found.pop(key, None))
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
        **named: _Arguments.kwargs,
    ) -> _Result:
        """Call a function at a node. Raises `LostWorkerError` where that is gone, or `LostEngineError`."""
        with self._guard_call():
            host = self._call_head(lambda: self._host(place))
            try:
                answer = host.call.remote(function, arguments, named)
                while not self._ray.wait([answer], timeout=_POLL_INTERVAL)[0]:
                    if self._gone is not None:
                        raise self._gone
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
        """Return this driver's own actor at a place. It ends with the driver."""
        strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
        with self._change:
            if place not in self._hosts:
                there = strategies.NodeAffinitySchedulingStrategy(node_id=_node(place), soft=False)
                actor = self._ray.remote(HostActor)
                options = {"num_cpus": 0, "max_concurrency": _MAX_CONCURRENCY, "scheduling_strategy": there}
                self._hosts[place] = actor.options(**options).remote()
            return self._hosts[place]

    def no_worker_notice(self) -> str | None:
        """Say that no node of the cluster has a processor for probes, and how one is started; None where one has."""
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
    """Check whether somebody answers, because ray itself waits for minutes. Raises `OSError` and `ValueError`."""
    where = urlsplit(f"//{address}")
    socket.create_connection((where.hostname or "", where.port or 0), timeout=_CONNECT_TIMEOUT).close()


def _node(place: str) -> str:
    """Return ray's name of the node at a place."""
    return place.rpartition(" ")[2]


def _start_failure(error: Any) -> Exception | None:
    """Return the error if the actor could not be created; None if it ran and was lost, alone or with its node."""
    if not getattr(error, "actor_init_failed", False):
        return None
    return UserError(f"expected nodes with precision-bisect installed, found one without: {error}")


class ProbeActor:
    """A probe at a node. Ray may run several of its methods at the same time, in threads."""

    def __init__(self, key: str, parcel: ProbeParcel) -> None:
        """Begin the probe."""
        ray: Any = importlib.import_module("ray")
        node: str = ray.get_runtime_context().get_node_id()
        (resources,) = (each["Resources"] for each in ray.nodes() if each["NodeID"] == node)
        self._key = key
        self._place = f"{socket.gethostname()} {node}"
        self._max_probes = max(1, int(resources.get("CPU", 1)))
        self._told: list[EngineEvent] = []
        self._news = threading.Condition()
        self._asked = time.monotonic()
        self._stop_reader, self._stop_writer = os.pipe()
        threading.Thread(target=self._make, args=(parcel,), daemon=True).start()

    def _make(self, parcel: ProbeParcel) -> None:
        self._tell(TaskBegin(self._key, self._place, platform.node()))
        self._tell(TaskEnd(self._key, self._place, attempt(lambda: self._make_probe(parcel))))
        with self._news:
            while (left := self._asked + _ABANDON_TIMEOUT - time.monotonic()) > 0:
                self._news.wait(left)
        os._exit(0)

    def _make_probe(self, parcel: ProbeParcel) -> HostProbeResult:
        with os.fdopen(self._stop_reader, "rb") as stopped:
            return HostMachine(home=user_home(), variables=_variables(), max_probes=self._max_probes).make(
                self._key,
                parcel,
                on_lack=lambda: self._tell(MissingContents(self._key, self._place)),
                on_activity=lambda slot, text: self._tell(TaskActivity(self._key, self._place, slot, text)),
                interrupt=Interrupt(stopped),
            )

    def _tell(self, told: EngineEvent) -> None:
        with self._news:
            self._told.append(told)
            self._news.notify_all()

    def events_after(self, seen: int) -> list[EngineEvent]:
        """Return the events after the first `seen`; wait a while for one."""
        with self._news:
            self._asked = time.monotonic()
            self._news.wait_for(lambda: len(self._told) > seen, timeout=_ANSWER_TIMEOUT)
            return self._told[seen:]

    def stop(self) -> None:
        """Stop the probe, and wait until it has ended."""
        os.write(self._stop_writer, b".")
        with self._news:
            self._news.wait_for(lambda: any(isinstance(each, TaskEnd) for each in self._told))


class HostActor:
    """Answers what a driver asks of a node, other than to run probes."""

    def call(
        self, function: Callable[..., object], arguments: tuple[object, ...], named: Mapping[str, object]
    ) -> object:
        """Call a function with the node's home."""
        return function(user_home(), *arguments, **named)


def _variables() -> dict[str, str]:
    """Return what commands inherit at a node: the variables with which ray was started there, without its own."""
    started = psutil.Process(os.getppid()).environ()
    return {name: text for name, text in started.items() if not name.startswith("RAY_")}
