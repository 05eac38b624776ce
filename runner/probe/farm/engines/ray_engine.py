"""Probes on ray: each is an actor, which ray places by resources and which outlives the driver, found by its key.

A driver asks the actor what has happened, and has an actor of its own at each host for whatever else it asks there.
Who may connect to whom is as ray is configured: its nodes reach each other and the driver.
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

from ....errors import UserError, reason
from ....process.interrupt import Interrupt
from ....workspace.home import Home, user_home
from ..engine import Began, Ended, Lacks, LostEngineError, LostPlaceError, Says, Told
from ..making import HostMachine, MadeProbe, attempted
from ..parcel import ProbeParcel

_NAMESPACE = "precision-bisect"
_LOOK = 0.5
"""Seconds between two looks whether the driver lets go of the cluster."""
_NODES = 5.0
"""Seconds between two looks at the cluster's nodes."""
_ANSWER = 5.0
"""Seconds after which an actor answers, also where nothing has happened."""
_CALL = 10.0
"""Seconds in which a cluster has to answer."""
_HEARTBEAT = 1.0
"""Seconds between two looks whether the head is there: less than a new one takes to start."""
_GONE = 2
"""So many looks find nobody at a head that is gone."""
_SILENT = 40.0
"""Seconds after which a head that does not answer is gone: ray ends the whole driver after 60."""
_UNREACHABLE = 180.0
"""Seconds after which an actor that cannot be reached is given up, where the head believes that it lives."""
_FAREWELL = 10.0
"""Seconds that a probe gets to stop by itself."""
_ABANDONED = 900.0
"""Seconds after which the actor of a probe that has ended gives its place up, where no driver asks for it."""
_AT_ONCE = 8
"""Calls that an actor answers beside each other."""

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True)
class _Question:
    """What an actor was asked: what has happened after the first `seen` that it told."""

    key: str
    actor: Any
    seen: int
    unreachable_since: float | None = None
    """When it could be reached last."""


@dataclass(frozen=True)
class _Elsewhere:
    """Where a probe that has not begun may be made: at nodes that have the resources, none of which is at `avoid`."""

    resources: frozenset[str]
    avoid: frozenset[str]


class RayEngine:
    """An `Engine` of a running cluster that this machine belongs to, by the address of its head.

    Ray's functions connect anew, and wait, where one is called after the driver has let go: none is, see `_inside`.
    Where the head is gone, its cluster is, and they wait for it until ray ends the driver: see `_patiently`.
    """

    def __init__(self, address: str, tell: Callable[[Told], None]) -> None:
        """Connect. Raises `UserError`."""
        self._ray: Any = importlib.import_module("ray")
        self._address = address
        self._tell = tell
        self._actors: dict[str, Any] = {}
        """Those of the probes that are wanted, by key."""
        self._found: dict[str, Any] = {}
        """Those of drivers before this one."""
        self._questions: dict[Any, _Question] = {}
        """By the reference of the answer."""
        self._elsewhere: dict[str, _Elsewhere] = {}
        self._places: dict[str, str] = {}
        """Where those that were begun are, by key."""
        self._unreached: list[_Question] = []
        """Those that are to be asked again."""
        self._gone: LostEngineError | None = None
        """That the head is."""
        self._hosts: dict[str, Any] = {}
        """Actors that answer what is asked beside probes, by place."""
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
            _call(self._address)
            self._ray.init(
                address=self._address, namespace=_NAMESPACE, log_to_driver=False, logging_level="ERROR"
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(
                f"{self._address}: expected a cluster of ray, found none that lets this machine in: {error}; start it, "
                "or correct $RAY_ADDRESS (HOST:PORT), $RAY_AUTH_MODE and $RAY_AUTH_TOKEN"
            ) from error
        finally:
            # Ray has the driver exit at once where it is told to end: what it has begun would go on.
            if threading.current_thread() is threading.main_thread():
                for number, handler in handlers.items():
                    signal.signal(number, handler)

    @contextlib.contextmanager
    def _inside(self) -> Generator[None]:
        """To be held while ray is called. Raises `LostPlaceError` once the driver lets go."""
        with self._change:
            if self._gone is not None:
                raise self._gone
            if self._closing.is_set():
                raise LostPlaceError("the driver has let go of ray")
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
        """Have a probe made. Raises `UserError` where no node has the resources, or the head is gone."""
        with self._inside():
            self._check(resources)
            options: dict[str, Any] = {
                "name": key,
                "lifetime": "detached",
                "get_if_exists": True,
                "num_cpus": 1,
                "resources": dict(resources),
                "max_concurrency": _AT_ONCE,
            }
            elsewhere = _Elsewhere(frozenset(["CPU", *resources]), avoid)
            if avoid and self._is_possible(elsewhere):
                nodes = ",".join(sorted(map(_node, avoid)))
                options["label_selector"] = {"ray.io/node-id": f"!in({nodes})"}
                self._elsewhere[key] = elsewhere
            actor = self._patiently(
                lambda: self._ray.remote(ProbeActor).options(**options).remote(key, parcel)
            )
            self._actors[key] = actor
            # Whose loss was told before this was known is not told of it.
            if self._gone is not None:
                raise self._gone
            self._question(_Question(key, actor, 0))

    def _nodes(self) -> list[Mapping[str, Any]]:
        return [node for node in self._patiently(self._ray.nodes) if node["Alive"]]

    def _patiently(self, function: Callable[[], Any]) -> Any:
        """Call what asks the head. Raises what it raises, and `LostEngineError` where the head is gone: it would not
        come back then."""
        outcomes: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def call() -> None:
            try:
                outcomes.put((function(), None))
            except BaseException as error:
                outcomes.put((None, error))

        threading.Thread(target=call, daemon=True).start()
        while True:
            try:
                result, error = outcomes.get(timeout=_LOOK)
            except queue.Empty:
                if self._gone is not None:
                    raise self._gone from None
            else:
                if error is not None:
                    raise error
                return result

    def _watch(self) -> None:
        """Look whether the head is there, and tell once that it is not."""
        refused, answered = 0, time.monotonic()
        while not self._closing.wait(_HEARTBEAT):
            try:
                _call(self._address)
            except OSError as error:
                refused = refused + 1 if isinstance(error, ConnectionRefusedError) else 0
                if refused == _GONE or time.monotonic() - answered > _SILENT:
                    self._lose(error)
                    return
            else:
                refused, answered = 0, time.monotonic()

    def _lose(self, error: OSError) -> None:
        self._gone = LostEngineError(
            f"{self._address}: expected the head of ray, found it gone, and with it what its nodes were running: "
            f"{reason(error)}; start the head and the nodes again, then resume"
        )
        for key in [*self._actors]:
            self._tell(Ended(key, "", self._gone))

    def _check(self, resources: Iterable[str]) -> None:
        """Raises `UserError` where a resource is asked for the first time, and no node has it."""
        for name in {*resources} - self._checked:
            nodes = self._nodes()
            if not any(name in node["Resources"] for node in nodes):
                raise UserError(
                    f"{self._address}: expected a node with a board {name}, found none among {len(nodes)}; start one "
                    f"where the board is: ray start ... --resources '{{\"{name}\": 1}}'"
                )
            self._checked.add(name)

    def _is_possible(self, elsewhere: _Elsewhere) -> bool:
        avoided = {_node(place) for place in elsewhere.avoid}
        return any(
            node["NodeID"] not in avoided and elsewhere.resources <= node["Resources"].keys()
            for node in self._nodes()
        )

    def _question(self, question: _Question) -> None:
        self._questions[question.actor.told.remote(question.seen)] = question

    def _listen(self) -> None:
        """Hear what actors answer. This is the only thread that does."""
        try:
            self._hear_all()
        except LostEngineError:
            pass  # it is told of
        except Exception:
            trouble = RuntimeError(traceback.format_exc())
            for key in [*self._actors]:
                self._tell(Ended(key, "the driver", trouble))

    def _hear_all(self) -> None:
        looked = time.monotonic()
        while not self._closing.is_set() and self._gone is None:
            asked = [*self._questions]
            if asked:
                for answer in self._ray.wait(asked, timeout=_LOOK)[0]:
                    self._hear(answer, self._questions.pop(answer))
            else:
                self._closing.wait(_LOOK)
            if time.monotonic() - looked > _NODES:
                looked = time.monotonic()
                if self._elsewhere:
                    self._look_elsewhere()
                self._ask_again()

    def _hear(self, answer: Any, question: _Question) -> None:
        key = question.key
        place = self._places.get(key, "")
        try:
            told = cast(list[Told], self._ray.get(answer))
        except self._ray.exceptions.ActorUnavailableError:
            # Its link may be cut: it lives until the head says otherwise.
            since = question.unreachable_since or time.monotonic()
            if time.monotonic() - since < _UNREACHABLE:
                self._unreached.append(replace(question, unreachable_since=since))
                return
            silent = f"expected the node to answer, found it silent for {_UNREACHABLE:.0f} seconds"
            told = [Ended(key, place, UserError(silent))]
        except self._ray.exceptions.RayError as error:
            why = _reason(error)
            told = [Ended(key, place if why is None else place or "a node of the cluster", why)]
        for each in told:
            if self._actors.get(key) is not question.actor:
                return  # it was stopped
            self._elsewhere.pop(key, None)
            self._places[key] = each.place
            self._tell(each)
        if not any(isinstance(each, Ended) for each in told):
            self._question(_Question(key, question.actor, question.seen + len(told)))

    def _ask_again(self) -> None:
        """Ask those again that could not be reached, and are still wanted."""
        questions, self._unreached = self._unreached, []
        for question in questions:
            if self._actors.get(question.key) is question.actor:
                self._question(question)

    def _look_elsewhere(self) -> None:
        """Give up those whose only nodes are gone: ray would wait for them."""
        for key, elsewhere in [*self._elsewhere.items()]:
            if not self._is_possible(elsewhere) and self._elsewhere.pop(key, None) is not None:
                self._tell(Ended(key, "", None))

    def left(self, prefix: str) -> Collection[str]:
        """The keys of probes that are there and begin so. Raises `LostEngineError`."""
        with self._inside():
            names: list[str] = self._patiently(importlib.import_module("ray.util").list_named_actors)
            for name in names:
                if name.startswith(prefix) and name not in self._actors:
                    with contextlib.suppress(ValueError):  # it has just ended
                        self._found[name] = self._patiently(partial(self._ray.get_actor, name))
        return [name for name in names if name.startswith(prefix)]

    def stop(self, key: str) -> None:
        """Stop a probe, wherever it is."""
        self._end(key, patience=_FAREWELL if key in self._places or key in self._found else 0)

    def release(self, key: str) -> None:
        """Let another probe have the place."""
        self._end(key, patience=0)

    def _end(self, key: str, *, patience: float) -> None:
        self._elsewhere.pop(key, None)
        self._places.pop(key, None)
        actor = self._actors.pop(key, self._found.pop(key, None))
        with contextlib.suppress(LostPlaceError, LostEngineError, self._ray.exceptions.RayError):
            if actor is not None:
                with self._inside():
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
        """Call a function at a node. Raises `LostPlaceError` where that is gone, or `LostEngineError`."""
        with self._inside():
            host = self._patiently(lambda: self._host(place))
            try:
                answer = host.call.remote(function, arguments, named)
                while not self._ray.wait([answer], timeout=_LOOK)[0]:
                    if self._gone is not None:
                        raise self._gone
                    if self._closing.is_set():
                        raise LostPlaceError(f"{place}: the driver lets go of ray")
                return cast(_Result, self._ray.get(answer))
            except self._ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, UserError):
                    raise error.cause from error
                raise LostPlaceError(f"{place}: {error}") from error
            except self._ray.exceptions.RayError as error:
                with self._change:
                    if self._hosts.get(place) is host:
                        del self._hosts[place]
                raise LostPlaceError(f"{place}: {error}") from error

    def _host(self, place: str) -> Any:
        """The actor at a place that ends with this driver."""
        strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
        with self._change:
            if place not in self._hosts:
                there = strategies.NodeAffinitySchedulingStrategy(node_id=_node(place), soft=False)
                actor = self._ray.remote(HostActor)
                options = {"num_cpus": 0, "max_concurrency": _AT_ONCE, "scheduling_strategy": there}
                self._hosts[place] = actor.options(**options).remote()
            return self._hosts[place]

    def nobody(self) -> str | None:
        """That no node of the cluster has a processor to make probes, and how one is started."""
        try:
            with self._inside():
                if any("CPU" in node["Resources"] for node in self._nodes()):
                    return None
        except (LostPlaceError, LostEngineError, self._ray.exceptions.RayError):
            return None
        return (
            f"no node of {self._address} makes runs; on each machine that is to, start one: "
            f"ray start --address={self._address}"
        )

    def close(self) -> None:
        """Let go of the cluster."""
        with self._change:
            self._closing.set()
            self._change.wait_for(lambda: self._callers == 0)
        self._listener.join()
        self._watcher.join()
        self._ray.shutdown()


def _call(address: str) -> None:
    """Look whether somebody answers: ray itself waits for minutes. Raises `OSError` and `ValueError`."""
    where = urlsplit(f"//{address}")
    socket.create_connection((where.hostname or "", where.port or 0), timeout=_CALL).close()


def _node(place: str) -> str:
    """Ray's name of the node at a place."""
    return place.rpartition(" ")[2]


def _reason(error: Any) -> Exception | None:
    """Why no actor answers; None where it was lost, with its node or alone."""
    if not getattr(error, "actor_init_failed", False):
        return None
    return UserError(f"expected nodes with precision-bisect installed, found one without: {error}")


class ProbeActor:
    """A probe at a node. Its methods are called beside each other."""

    def __init__(self, key: str, parcel: ProbeParcel) -> None:
        """Begin it."""
        ray: Any = importlib.import_module("ray")
        node: str = ray.get_runtime_context().get_node_id()
        (resources,) = (each["Resources"] for each in ray.nodes() if each["NodeID"] == node)
        self._key = key
        self._place = f"{socket.gethostname()} {node}"
        self._share = max(1, int(resources.get("CPU", 1)))
        self._told: list[Told] = []
        self._news = threading.Condition()
        self._asked = time.monotonic()
        self._stop, self._stopping = os.pipe()
        threading.Thread(target=self._make, args=(parcel,), daemon=True).start()

    def _make(self, parcel: ProbeParcel) -> None:
        self._tell(Began(self._key, self._place, platform.node()))
        self._tell(Ended(self._key, self._place, attempted(lambda: self._made(parcel))))
        with self._news:
            while (left := self._asked + _ABANDONED - time.monotonic()) > 0:
                self._news.wait(left)
        os._exit(0)

    def _made(self, parcel: ProbeParcel) -> MadeProbe:
        with os.fdopen(self._stop, "rb") as stopped:
            return HostMachine(home=user_home(), variables=_variables(), share=self._share).make(
                self._key,
                parcel,
                on_lack=lambda: self._tell(Lacks(self._key, self._place)),
                on_activity=lambda slot, text: self._tell(Says(self._key, self._place, slot, text)),
                interrupt=Interrupt(stopped),
            )

    def _tell(self, told: Told) -> None:
        with self._news:
            self._told.append(told)
            self._news.notify_all()

    def told(self, seen: int) -> list[Told]:
        """What has happened after the first `seen`; waits for it a while."""
        with self._news:
            self._asked = time.monotonic()
            self._news.wait_for(lambda: len(self._told) > seen, timeout=_ANSWER)
            return self._told[seen:]

    def stop(self) -> None:
        """Stop the probe, and wait until it has."""
        os.write(self._stopping, b".")
        with self._news:
            self._news.wait_for(lambda: any(isinstance(each, Ended) for each in self._told))


class HostActor:
    """A node, for what its driver asks beside probes."""

    def call(
        self, function: Callable[..., object], arguments: tuple[object, ...], named: Mapping[str, object]
    ) -> object:
        """Call a function with the node's home."""
        return function(user_home(), *arguments, **named)


def _variables() -> dict[str, str]:
    """What commands inherit at a node: the variables that ray was started with there, but for its own."""
    started = psutil.Process(os.getppid()).environ()
    return {name: text for name, text in started.items() if not name.startswith("RAY_")}
