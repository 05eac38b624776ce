"""Workers on many machines that share nothing: probes are tasks of an engine, and travel as parcels.

What the engine loses, and a probe that a host cannot make, is made again, elsewhere if that can be; nothing of a probe
counts until its result has arrived here.
"""

import hashlib
import itertools
import json
import platform
import queue
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ....store.vocabulary import BuildSource, Verdict
from ...errors import UserError, reason
from ...stack.stack import Stack
from ...workspace.content import StackContent
from ...workspace.home import Home
from ...workspace.workspace import Workspace
from ..probe import RUNNING
from ..records import ProbeRequest, ProbeResult
from ..workers.pool import MadeAgain, Waits
from ..workers.worker import Activity, Done
from .delivery import ArrivedProbe, Delivery
from .engine import Began, Ended, Engine, Lacks, LostEngineError, LostPlaceError, PlaceNames, Says, Told
from .making import MadeProbe
from .parcel import ParcelMaker, ProbeParcel
from .trust import BuildingHosts
from .turns import BuildTurns

_MOST_TRIES = 4
"""So many hosts that cannot make a probe, or are lost in it, are no accident."""
_REST = 300.0
"""Seconds in which a host that could not make a probe is given none where another one can: its trouble may pass."""
_QUIET = 10.0
"""Seconds without news after which it is looked whether there is a worker at all."""
_TOLD_AGAIN = 60.0
"""Seconds after which it is told again that there is none."""
_TRANSFERS = 8
"""Hosts that are sent something at once."""

OpenEngine = Callable[[Callable[[Told], None]], Engine]
"""Connects to an engine, which tells what happens to the function it is given. Raises `UserError`."""


@dataclass(eq=False)
class _Probe:
    """A probe that is wanted."""

    number: int
    parcel: ProbeParcel
    key: str
    """Its name for the engine: the same for the same probe of a bisection that goes on after a stop."""
    build: str | None
    """The key of its build; None where nothing is built."""
    tries: int = 0
    place: str | None = None
    """Where it was begun last."""


@dataclass(frozen=True)
class _Arrived:
    """A result that is here; or why it is not."""

    key: str
    place: str
    result: ArrivedProbe | Exception


class Farm:
    """Has `jobs` probes of one stack made at once. With a `build_store`, the URL of builds that hosts share, no two of
    them make the same build at once. All methods are for one thread."""

    def __init__(
        self,
        stack: Stack,
        home: Home,
        *,
        jobs: int,
        open_engine: OpenEngine,
        build_store: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stack = stack
        self._home = home
        self._build_store = build_store
        self._turns = BuildTurns()
        self._names = PlaceNames()
        self._builders = BuildingHosts(self._names.of)
        self._clock = clock
        self._told_again = clock()
        """When it may be told again that there is no worker."""
        self._resting: dict[str, float] = {}
        """Until when hosts rest, by their places."""
        self.jobs = jobs
        self._open_engine = open_engine
        self._inbox: queue.SimpleQueue[Told | _Arrived] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        self._starts: defaultdict[str, itertools.count[int]] = defaultdict(itertools.count)
        """How often each probe was started, by its name."""
        self._probes: dict[str, _Probe] = {}
        """Those that are wanted, by key."""
        self._sending: set[str] = set()
        self._workers: dict[str, str] = {}
        """The worker that makes the probes of a place, as the engine calls it."""
        self._bisections: set[str] = set()
        """What the names of their probes begin with."""
        self._taken_up: list[str] = []
        """Those of which a driver that died may have left probes that nobody wants."""
        self._stored: list[str] = []
        """Keys of results that have been handed on."""

    def __enter__(self) -> Self:
        """Connect to the engine. Raises `UserError`."""
        self._folder = tempfile.TemporaryDirectory()
        workspace = Workspace(self._stack, self._home)
        self._content = StackContent(self._stack, workspace)
        self._parcels = ParcelMaker(
            self._stack, workspace, Path(self._folder.name), build_store=self._build_store
        )
        self._engine = self._open_engine(self._inbox.put)
        self._delivery = Delivery(self._engine, self._parcels)
        self._transfers = ThreadPoolExecutor(_TRANSFERS)
        self._farewells = ThreadPoolExecutor(_TRANSFERS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transfers.shutdown(wait=False, cancel_futures=True)
        # Transfers may be given up; a probe that nobody stops would run on, and a result that nobody releases stay.
        self._farewells.shutdown()
        for key in self._stored:
            self._engine.release(key)
        for probe in self._probes.values():
            self._engine.stop(probe.key)
        self._engine.close()
        self._transfers.shutdown()
        self._folder.cleanup()

    def begin(self, request: ProbeRequest) -> int:
        """Have a probe made; the result is the number by which events name it. Raises `UserError`."""
        parcel = self._parcels.parcel(request)
        bisection = _bisection_of(request)
        if bisection not in self._bisections:
            self._bisections.add(bisection)
            self._taken_up.append(bisection)
        name = f"{bisection}-{_name_of(request, self._stack)}"
        probe = _Probe(next(self._numbers), parcel, self._new_key(name), self._build_of(request))
        self._probes[probe.key] = probe
        if self._may_begin(probe):
            self._start(probe)
        return probe.number

    def _build_of(self, request: ProbeRequest) -> str | None:
        if not self._stack.steps:
            return None
        return f"{self._content.of_build(request.revisions)} for {request.platform}"

    def _may_begin(self, probe: _Probe) -> bool:
        if self._build_store is None or probe.build is None:
            return True
        return self._turns.may_begin(probe.number, probe.build)

    def _begin_those(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._start(next(probe for probe in self._probes.values() if probe.number == number))

    def _new_key(self, name: str) -> str:
        """The next key of a probe: what is still told of an earlier one, which was stopped or lost, is not of this."""
        return f"{name}-{next(self._starts[name])}"

    def cancel(self, number: int) -> None:
        """Stop a probe, wherever it is. Nothing more is heard of it."""
        probe = next((each for each in self._probes.values() if each.number == number), None)
        if probe is None:
            return
        del self._probes[probe.key]
        self._farewells.submit(self._engine.stop, probe.key)
        self._begin_those(self._turns.gone(number))

    def next_event(self, *, timeout: float | None) -> Activity | Done | MadeAgain | Waits | None:
        """Wait for news of the probes under way; None where there is none, after `timeout` seconds at the latest.

        Raises:
            UserError: a probe can be made nowhere.
            RuntimeError: a host failed by a fault of this program.
        """
        try:
            return self._next_event(timeout)
        except OSError as error:
            raise UserError(
                f"{error.filename or self._home.bisections}: expected to be able to write here: {reason(error)}; "
                "free space or set PRECISION_BISECT_HOME to a folder with room, then resume"
            ) from error

    def _next_event(self, timeout: float | None) -> Activity | Done | MadeAgain | Waits | None:
        self._release_stored()
        self._stop_unwanted()
        try:
            message = self._inbox.get(timeout=_QUIET if timeout is None else min(timeout, _QUIET))
        except queue.Empty:
            return self._waits()
        probe = self._probes.get(message.key)
        if probe is not None:
            return self._event_of(probe, message)
        if isinstance(message, _Arrived) and isinstance(message.result, ArrivedProbe):
            message.result.discard()
        return None

    def _stop_unwanted(self) -> None:
        """Stop what a driver that died has left of a bisection, unless it is among what is begun first now: it would
        keep its place for long."""
        while self._taken_up:
            left = self._engine.left(self._taken_up.pop())
            for key in {*left} - self._probes.keys():
                self._farewells.submit(self._engine.stop, key)

    def _waits(self) -> Waits | None:
        """That no worker is there: once, and then once a minute."""
        now = self._clock()
        if not self._probes or now < self._told_again or (why := self._engine.nobody()) is None:
            return None
        self._told_again = now + _TOLD_AGAIN
        return Waits(next(iter(self._probes.values())).number, why)

    def _event_of(self, probe: _Probe, message: Told | _Arrived) -> Activity | Done | MadeAgain | None:
        match message:
            case Began(place=place, host=host):
                self._names.note(place, host)
                return self._began(probe, place)
            case Lacks(place=place):
                self._send(probe, place)
            case Says(place=place, slot=slot, text=text):
                if text == RUNNING:
                    self._begin_those(self._turns.built(probe.number))
                return Activity(probe.number, f"{self._names.of(place)}, slot {slot}", text)
            case Ended(place=place, made=made):
                if not isinstance(made, MadeProbe):
                    return self._again(probe, place, made)
                self._transfers.submit(self._fetch, probe, made, place)
            case _Arrived(place=place, result=Exception() as error):
                return self._again(probe, place, error)
            case _Arrived(place=place, result=ArrivedProbe() as arrived):
                return self._arrived(probe, place, arrived)
            case _:
                raise AssertionError(message)
        return None

    def _start(self, probe: _Probe) -> None:
        request = probe.parcel.request
        is_board = self._stack.platforms[request.platform].board
        self._engine.start(
            probe.key,
            probe.parcel,
            resources={request.platform: 1} if is_board else {},
            avoid=frozenset([*self._tired(), *self._workers_of(request.avoid)]),
        )

    def _tired(self) -> Iterator[str]:
        """The places of hosts that rest."""
        return (place for place, until in self._resting.items() if until > self._clock())

    def _workers_of(self, places: Iterable[str]) -> Iterator[str]:
        """The workers that are known to make the probes of some places."""
        return (self._workers[place] for place in places if place in self._workers)

    def _began(self, probe: _Probe, place: str) -> MadeAgain | None:
        """The engine runs a task anew whose worker it lost."""
        lost, probe.place = probe.place, place
        return None if lost is None else MadeAgain(probe.number, _lost_at(self._names.of(lost)))

    def _send(self, probe: _Probe, place: str) -> None:
        if probe.key not in self._sending:
            self._sending.add(probe.key)
            self._transfers.submit(self._deliver, probe.key, probe.parcel, place)

    def _deliver(self, key: str, parcel: ProbeParcel, place: str) -> None:
        try:
            self._delivery.send(parcel, place)
        except LostPlaceError:
            pass  # the engine runs the task elsewhere, which says again what is lacking there
        except Exception as error:
            self._engine.stop(key)
            self._inbox.put(_Arrived(key, place, error))
        finally:
            self._sending.discard(key)

    def _fetch(self, probe: _Probe, made: MadeProbe, place: str) -> None:
        try:
            arrived = self._delivery.fetch(made, place, probe.parcel.request.directory)
        except Exception as error:
            self._inbox.put(_Arrived(made.key, place, error))
        else:
            self._inbox.put(_Arrived(made.key, place, arrived))

    def _arrived(self, probe: _Probe, place: str, arrived: ArrivedProbe) -> Done | MadeAgain:
        doubt = self._doubt(probe, place, arrived.made.result)
        if doubt is not None:
            arrived.discard()
            return self._again(probe, place, UserError(doubt))
        result = arrived.kept_in(probe.parcel.request.directory)
        if probe.place is not None:
            self._workers[result.place] = probe.place
        del self._probes[probe.key]
        self._stored.append(probe.key)
        self._begin_those(self._turns.built(probe.number))
        return Done(probe.number, result)

    def _doubt(self, probe: _Probe, place: str, result: ProbeResult) -> str | None:
        """Why a failed build is not believed; None where it is, and where none failed."""
        if probe.build is None:
            return None
        if result.toolchain is not None:
            self._builders.had(probe.build, place, was_built=result.build_source is BuildSource.BUILT)
            return None
        verdict = result.classification.verdict
        if verdict not in (Verdict.BUILD_ERROR, Verdict.ENVIRONMENT_ERROR):
            return None
        is_environment = verdict is Verdict.ENVIRONMENT_ERROR
        why = self._builders.doubt(probe.build, place, is_environment=is_environment)
        if why is None:
            return None
        found = result.classification.signature or verdict
        return f"the build failed ({found}), and {why}: it is tried elsewhere"

    def _again(self, probe: _Probe, place: str, error: Exception | None) -> MadeAgain:
        """Make a probe anew that was lost, or that a host cannot make."""
        self._engine.release(probe.key)
        del self._probes[probe.key]
        where = self._names.of(probe.place or place)
        if isinstance(error, OSError | LostEngineError):
            raise error  # there is no room at the driver, or no worker any more
        if error is not None and not isinstance(error, UserError | LostPlaceError):
            raise RuntimeError(f"a worker failed at {where}: {error}") from error
        if probe.tries + 1 == _MOST_TRIES:
            why = "its workers were lost" if error is None else f"at last at {where}: {error}"
            raise UserError(
                f"expected a worker that makes the probe {probe.parcel.request.directory}, found {_MOST_TRIES} that "
                f"do not, {why}; then resume"
            )
        probe.tries += 1
        probe.key = self._new_key(probe.key.rpartition("-")[0])
        probe.place = None
        if isinstance(error, UserError):
            self._resting[place] = self._clock() + _REST
        self._probes[probe.key] = probe
        self._start(probe)
        return MadeAgain(probe.number, _lost_at(where) if error is None else f"{where}: {error}")

    def _release_stored(self) -> None:
        """What was handed on is in the store by the next call: the engine need not keep it."""
        for key in self._stored:
            self._farewells.submit(self._engine.release, key)
        self._stored.clear()


def _lost_at(where: str) -> str:
    return f"its worker at {where} was lost" if where else "its worker was lost"


def _bisection_of(request: ProbeRequest) -> str:
    """What names the bisection of a probe."""
    return "probe-" + _digest({"driver": platform.node(), "folder": str(request.directory.parent)})


def _name_of(request: ProbeRequest, stack: Stack) -> str:
    """What names a probe of a bisection, but for the time that it gets, which depends on the probes before it."""
    return _digest(
        {
            "directory": str(request.directory),
            "stack": stack.model_dump(mode="json"),
            "revisions": dict(request.revisions),
            "case": str(request.case),
            "platform": request.platform,
            "device": request.device,
            "golden": request.golden.digest if request.golden else None,
            "bad when": str(request.bad_when),
            "options": str(request.options),
        }
    )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
