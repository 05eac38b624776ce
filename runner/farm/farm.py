"""Workers on many machines that share nothing. Probes are tasks of an engine, and travel as parcels.

`Engine` is all that a farm needs of what runs its tasks: dask.distributed, ray, or another scheduler. It chooses a
worker that has the resources, repeats a task whose worker was lost, and carries messages between driver and hosts. The
driver connects to the engine, and nothing connects to the driver.

`Farm` makes a probe again, elsewhere if possible, when the engine loses it or a host cannot make it. A probe counts
only once its result has arrived here. `Delivery` sends what a host lacks and fetches results. `BuildTurns` lets one
probe build what several need. `BuildHistory` decides whose failed builds are believed, because a host that lacks a
compiler, or room, fails at commits that others build.
"""

import hashlib
import itertools
import json
import platform
import queue
import secrets
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar

from ...store.durable_files import sync_files
from ...store.vocabulary import BuildSource
from ..errors import UserError, reason
from ..probe.build_cache import digest_of, unpack_folder
from ..probe.pool import Activity, ProbeDelay, ProbeDone, ProbeRestart
from ..probe.probe import RUN_ACTIVITY, ProbeRequest, ProbeResult
from ..stack import Stack
from ..workspace.content import StackContent
from ..workspace.home import Home
from ..workspace.slot import Workspace
from . import host
from .host import PIECE_BYTES, HostProbeResult, MissingCommits, ParcelMaker, ProbeParcel, write_missing_pack

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True)
class TaskBegin:
    """A worker has begun a task. `place` names the worker, `host` is its machine's own name."""

    key: str
    place: str
    host: str


@dataclass(frozen=True)
class MissingContents:
    """A task waits for data that its host lacks. The event is repeated until the data has come."""

    key: str
    place: str


@dataclass(frozen=True)
class TaskActivity:
    """The current activity of a task, and its slot."""

    key: str
    place: str
    slot: int
    text: str


@dataclass(frozen=True)
class TaskEnd:
    """A task has ended.

    `made` is its probe; None where it was stopped or lost for good; or the reason why the probe cannot be made there.
    """

    key: str
    place: str
    made: HostProbeResult | Exception | None


EngineEvent = TaskBegin | MissingContents | TaskActivity | TaskEnd


class Engine(Protocol):
    """Runs tasks at hosts. It reports events to the function that it was made with, from any thread."""

    def start(
        self,
        key: str,
        parcel: ProbeParcel,
        *,
        resources: Mapping[str, float],
        avoid: frozenset[str],
    ) -> None:
        """Start a probe at a worker that has such resources, at none of the places `avoid` if there is another.

        An existing task with the same key is continued.
        """
        ...

    def existing_tasks(self, prefix: str) -> Collection[str]:
        """Return the keys of existing tasks with a prefix, whichever driver started them."""
        ...

    def stop(self, key: str) -> None:
        """Stop a task, wherever it is and whoever started it. No further event mentions it."""
        ...

    def release(self, key: str) -> None:
        """Forget a task whose result is kept elsewhere."""
        ...

    def ask(
        self,
        place: str,
        function: Callable[Concatenate[Home, _Arguments], _Result],
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Result:
        """Call a function at a host, beside the tasks that run there, with the host's home as its first argument.

        Raises what the function raises.
        """
        ...

    def no_worker_notice(self) -> str | None:
        """Say that there is no worker, and how one is started; None where there is one, or where that is unknown."""
        ...

    def close(self) -> None:
        """Disconnect from the engine. Tasks that were not stopped continue."""
        ...


class LostWorkerError(Exception):
    """A worker that was asked something is gone."""


class LostEngineError(UserError):
    """The engine is gone, and all that it ran. No other worker can make a probe."""


class PlaceNames:
    """Names places for people: by their hosts, and by the place as well where several have one host's name."""

    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}

    def record(self, place: str, host: str) -> None:
        """Record the host of a place."""
        self._hosts[place] = host

    def name_of(self, place: str) -> str:
        """Return the name of a place; the place itself where its host is not known."""
        host = self._hosts.get(place)
        if host is None:
            return place
        return host if [*self._hosts.values()].count(host) == 1 else f"{host} ({place})"


class Delivery:
    """Sends and fetches through an engine. Its methods are for any thread."""

    def __init__(self, engine: Engine, parcels: ParcelMaker) -> None:
        self._engine = engine
        self._parcels = parcels
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def send(self, parcel: ProbeParcel, place: str) -> None:
        """Send a host what it lacks for a probe. Raises `UserError`, and the errors of the engine."""
        # Probes of one host take turns, so that nothing is sent to it twice.
        with self._turns[place], tempfile.TemporaryDirectory() as temporary:
            lacking = self._engine.ask(place, host.find_missing, parcel)
            for name, lacked in lacking.commits.items():
                # Where an object was lost here, and was put back since, the host lacks it behind commits that it has.
                if not self._send_commits(parcel, place, name, lacked, Path(temporary)):
                    self._send_commits(parcel, place, name, replace(lacked, has=()), Path(temporary))
            for digest in lacking.objects:
                sender = self._send_pieces(place, digest, self._parcels.source(digest))
                self._engine.ask(place, host.seal, digest, sender)

    def _send_commits(
        self, parcel: ProbeParcel, place: str, name: str, lacked: MissingCommits, folder: Path
    ) -> bool:
        """Send commits of a repository, and return whether the host has all that it needs of it then."""
        pack = folder / name
        write_missing_pack(self._parcels.clone(name), lacked, pack)
        digest = digest_of(pack)
        sender = self._send_pieces(place, digest, pack)
        return self._engine.ask(place, host.take_pack, digest, sender, parcel.commits[name])

    def _send_pieces(self, place: str, digest: str, file: Path) -> str:
        """Send a file, and return the name that identifies its pieces as this sender's."""
        sender = secrets.token_hex(8)
        with file.open("rb") as stream:
            piece = stream.read(PIECE_BYTES)
            # An empty file is one empty piece.
            while piece or stream.tell() == 0:
                self._engine.ask(place, host.receive, digest, sender, stream.tell() - len(piece), piece)
                if not (piece := stream.read(PIECE_BYTES)):
                    break
        return sender

    def fetch(self, made: HostProbeResult, place: str, beside: Path) -> "ArrivedProbe":
        """Fetch the result of a probe into a new folder beside another one.

        Raises `OSError` where there is no room, and the errors of the engine.
        """
        beside.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{beside.name}-arriving-", dir=beside.parent))
        try:
            archive = folder / "archive"
            self._fetch_file(place, made, archive)
            unpack_folder(archive, folder / "run")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._engine.ask(place, host.forget, made.key)
        return ArrivedProbe(made, folder)

    def _fetch_file(self, place: str, made: HostProbeResult, target: Path) -> None:
        with target.open("wb") as file:
            while piece := self._engine.ask(place, host.read_piece, made.key, file.tell()):
                file.write(piece)
        if digest_of(target) != made.kept:
            raise UserError(f"{place}: expected what a probe left to arrive as it was kept, found it changed")


@dataclass(frozen=True)
class ArrivedProbe:
    """The result of a probe at the driver, still in a temporary folder."""

    made: HostProbeResult
    folder: Path

    def move_to(self, directory: Path) -> ProbeResult:
        """Move the logs and the build directory to `directory`, and return the result. Raises `OSError`."""
        shutil.rmtree(directory, ignore_errors=True)
        (self.folder / "run").rename(directory)
        sync_files(directory)
        self.discard()
        result, build, there = self.made.result, self.made.result.build_directory, self.made.directory
        return replace(
            result,
            log=directory / result.log.relative_to(there),
            build_directory=None if build is None else directory / build.relative_to(there),
        )

    def discard(self) -> None:
        """Remove a result that nobody wants any more."""
        shutil.rmtree(self.folder, ignore_errors=True)


class BuildHistory:
    """Records what hosts could build so far. Hosts are identified by their places, builds by key.

    `name` returns what people call a place.
    """

    def __init__(self, name: Callable[[str], str]) -> None:
        self._name = name
        self._hosts: set[str] = set()
        """The hosts that have built anything."""
        self._had: defaultdict[str, set[str]] = defaultdict(set)
        """The hosts that had each build, whether they built it or not."""
        self._failed: set[str] = set()
        """The builds that failed before."""

    def record_build(self, build: str, place: str, *, was_built: bool) -> None:
        """Record that a host has a build. `was_built` says whether it was built there."""
        self._had[build].add(place)
        if was_built:
            self._hosts.add(place)

    def doubt_reason(self, build: str, place: str, *, is_environment: bool) -> str | None:
        """Return why another host is to try a build that failed at this one; None where the failure is believed.

        A failure is doubted in two cases:

        1. Another host has the build.
        2. The build failed for the first time. In addition, the host has never built anything, or the error is one of
           machines rather than of commits (`is_environment`).
        """
        others = sorted(self._had[build] - {place})
        first = build not in self._failed
        self._failed.add(build)
        if others:
            return f"{self._name(others[0])} has that build"
        if first and is_environment:
            return "the error is one of machines, not of commits"
        if first and place not in self._hosts:
            return "nothing was ever built there"
        return None


class BuildTurns:
    """Decides which probe makes a build. Probes are identified by number, builds by key."""

    def __init__(self) -> None:
        self._builders: dict[str, int] = {}
        self._waiting: defaultdict[str, list[int]] = defaultdict(list)
        self._made: set[str] = set()

    def may_begin(self, number: int, build: str) -> bool:
        """Return whether a new probe may begin now. Otherwise it waits for another one's build."""
        if build in self._made or self._builders.setdefault(build, number) == number:
            return True
        self._waiting[build].append(number)
        return False

    def finish_build(self, number: int) -> list[int]:
        """Record that a probe has its build, or cannot get it. Return the waiting probes that begin now."""
        build = self._current_build(number)
        if build is None:
            return []
        del self._builders[build]
        self._made.add(build)
        return self._waiting.pop(build, [])

    def drop(self, number: int) -> list[int]:
        """Record that a probe will not be made. Return the waiting probes that begin now."""
        for waiting in self._waiting.values():
            if number in waiting:
                waiting.remove(number)
        build = self._current_build(number)
        if build is None:
            return []
        del self._builders[build]
        if not self._waiting[build]:
            return []
        following = self._waiting[build].pop(0)
        self._builders[build] = following
        return [following]

    def _current_build(self, number: int) -> str | None:
        return next((build for build, builder in self._builders.items() if builder == number), None)


_MAX_TRIES = 4
"""This number of hosts may fail to make a probe, or be lost in it. More failures are no accident."""
_HOST_COOLDOWN = 300.0
"""A host that could not make a probe is avoided for this many seconds where possible. Its trouble may pass."""
_WORKER_CHECK_INTERVAL = 10.0
"""After this many seconds without news the farm checks whether there is a worker at all."""

_NOTICE_INTERVAL = 60.0
"""The farm reports again after this many seconds that there is no worker. More reports would fill a log."""

_MAX_TRANSFERS = 8
"""At most this many transfers to hosts run at the same time, so that they do not fill the driver's memory."""

OpenEngine = Callable[[Callable[[EngineEvent], None]], Engine]
"""Connects to an engine, which reports events to the function that it is given. Raises `UserError`."""


@dataclass(eq=False)
class _Probe:
    """A probe that is wanted."""

    number: int
    parcel: ProbeParcel
    key: str
    """The name of the probe for the engine. A bisection that continues after a stop uses the same name."""
    build: str | None
    """The key of its build; None where nothing is built."""
    tries: int = 0
    place: str | None = None
    """The place where it was begun last."""


@dataclass(frozen=True)
class _FetchOutcome:
    """A result that has arrived, or the reason why it has not."""

    key: str
    place: str
    result: ArrivedProbe | Exception


class Farm:
    """Makes `jobs` probes of one stack at once. All methods are for one thread.

    With a `build_store`, the URL of builds that hosts share, no two probes make the same build at once.
    """

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
        self._builders = BuildHistory(self._names.name_of)
        self._clock = clock
        self._told_again = clock()
        """The time after which the absence of workers may be reported again."""
        self._resting: dict[str, float] = {}
        """The time until which each host rests, by its place."""
        self.jobs = jobs
        self._open_engine = open_engine
        self._inbox: queue.SimpleQueue[EngineEvent | _FetchOutcome] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        self._starts: defaultdict[str, itertools.count[int]] = defaultdict(itertools.count)
        """How often each probe was started, by its name."""
        self._probes: dict[str, _Probe] = {}
        """The probes that are wanted, by key."""
        self._sending: set[str] = set()
        self._workers: dict[str, str] = {}
        """The worker that makes the probes of a place, as the engine calls it."""
        self._bisections: set[str] = set()
        """The prefixes of the probes' names, one for each bisection."""
        self._taken_up: list[str] = []
        """The bisections of which a driver that died may have left unwanted probes."""
        self._stored: list[str] = []
        """The keys of results that the caller has received."""

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
        self._transfers = ThreadPoolExecutor(_MAX_TRANSFERS)
        self._farewells = ThreadPoolExecutor(_MAX_TRANSFERS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transfers.shutdown(wait=False, cancel_futures=True)
        # Transfers may be given up. A probe that nobody stops would run on, and a result that nobody releases would
        # stay.
        self._farewells.shutdown()
        for key in self._stored:
            self._engine.release(key)
        for probe in self._probes.values():
            self._engine.stop(probe.key)
        self._engine.close()
        self._transfers.shutdown()
        self._folder.cleanup()

    def begin(self, request: ProbeRequest) -> int:
        """Start a probe, and return the number by which events identify it. Raises `UserError`."""
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
        return f"{self._content.build_key(request.revisions)} for {request.platform}"

    def _may_begin(self, probe: _Probe) -> bool:
        if self._build_store is None or probe.build is None:
            return True
        return self._turns.may_begin(probe.number, probe.build)

    def _start_probes(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._start(next(probe for probe in self._probes.values() if probe.number == number))

    def _new_key(self, name: str) -> str:
        """Return the next key of a probe, so that late events of a stopped or lost attempt do not concern this one."""
        return f"{name}-{next(self._starts[name])}"

    def cancel(self, number: int) -> None:
        """Stop a probe, wherever it is. No further event mentions it."""
        probe = next((each for each in self._probes.values() if each.number == number), None)
        if probe is None:
            return
        del self._probes[probe.key]
        self._farewells.submit(self._engine.stop, probe.key)
        self._start_probes(self._turns.drop(number))

    def next_event(self, *, timeout: float | None) -> Activity | ProbeDone | ProbeRestart | ProbeDelay | None:
        """Wait for news of the current probes; return None where there is none, after `timeout` seconds at the
        latest.

        Raises:
            UserError: no host can make a probe.
            RuntimeError: a host failed by a fault of this program.
        """
        try:
            return self._next_event(timeout)
        except OSError as error:
            raise UserError(
                f"{error.filename or self._home.bisections}: expected to be able to write here: {reason(error)}; "
                "free space or set PRECISION_BISECT_HOME to a folder with room, then resume"
            ) from error

    def _next_event(self, timeout: float | None) -> Activity | ProbeDone | ProbeRestart | ProbeDelay | None:
        self._release_stored()
        self._stop_unwanted()
        try:
            message = self._inbox.get(
                timeout=_WORKER_CHECK_INTERVAL if timeout is None else min(timeout, _WORKER_CHECK_INTERVAL)
            )
        except queue.Empty:
            return self._check_workers()
        probe = self._probes.get(message.key)
        if probe is not None:
            return self._event_of(probe, message)
        if isinstance(message, _FetchOutcome) and isinstance(message.result, ArrivedProbe):
            message.result.discard()
        return None

    def _stop_unwanted(self) -> None:
        """Stop probes of a bisection that a dead driver left, except those that are wanted now.

        Otherwise they would keep their places for long.
        """
        while self._taken_up:
            left = self._engine.existing_tasks(self._taken_up.pop())
            for key in {*left} - self._probes.keys():
                self._farewells.submit(self._engine.stop, key)

    def _check_workers(self) -> ProbeDelay | None:
        """Report that there is no worker: once, and then once a minute."""
        now = self._clock()
        if not self._probes or now < self._told_again or (why := self._engine.no_worker_notice()) is None:
            return None
        self._told_again = now + _NOTICE_INTERVAL
        return ProbeDelay(next(iter(self._probes.values())).number, why)

    def _event_of(
        self, probe: _Probe, message: EngineEvent | _FetchOutcome
    ) -> Activity | ProbeDone | ProbeRestart | None:
        match message:
            case TaskBegin(place=place, host=host):
                self._names.record(place, host)
                return self._record_begin(probe, place)
            case MissingContents(place=place):
                self._send(probe, place)
            case TaskActivity(place=place, slot=slot, text=text):
                if text == RUN_ACTIVITY:
                    self._start_probes(self._turns.finish_build(probe.number))
                return Activity(probe.number, f"{self._names.name_of(place)}, slot {slot}", text)
            case TaskEnd(place=place, made=made):
                if not isinstance(made, HostProbeResult):
                    return self._restart(probe, place, made)
                self._transfers.submit(self._fetch, probe, made, place)
            case _FetchOutcome(place=place, result=Exception() as error):
                return self._restart(probe, place, error)
            case _FetchOutcome(place=place, result=ArrivedProbe() as arrived):
                return self._accept(probe, place, arrived)
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
            avoid=frozenset([*self._resting_places(), *self._workers_of(request.avoid)]),
        )

    def _resting_places(self) -> Iterator[str]:
        """Yield the places of hosts that rest."""
        return (place for place, until in self._resting.items() if until > self._clock())

    def _workers_of(self, places: Iterable[str]) -> Iterator[str]:
        """Yield the workers that are known to make the probes of some places."""
        return (self._workers[place] for place in places if place in self._workers)

    def _record_begin(self, probe: _Probe, place: str) -> ProbeRestart | None:
        """Record where a task begins. The engine begins a task again where it lost its worker."""
        lost, probe.place = probe.place, place
        return None if lost is None else ProbeRestart(probe.number, _loss_message(self._names.name_of(lost)))

    def _send(self, probe: _Probe, place: str) -> None:
        if probe.key not in self._sending:
            self._sending.add(probe.key)
            self._transfers.submit(self._deliver, probe.key, probe.parcel, place)

    def _deliver(self, key: str, parcel: ProbeParcel, place: str) -> None:
        try:
            self._delivery.send(parcel, place)
        except LostWorkerError:
            pass  # The engine runs the task elsewhere, which reports again what is missing there.
        except Exception as error:
            self._engine.stop(key)
            self._inbox.put(_FetchOutcome(key, place, error))
        finally:
            self._sending.discard(key)

    def _fetch(self, probe: _Probe, made: HostProbeResult, place: str) -> None:
        try:
            arrived = self._delivery.fetch(made, place, probe.parcel.request.directory)
        except Exception as error:
            self._inbox.put(_FetchOutcome(made.key, place, error))
        else:
            self._inbox.put(_FetchOutcome(made.key, place, arrived))

    def _accept(self, probe: _Probe, place: str, arrived: ArrivedProbe) -> ProbeDone | ProbeRestart:
        doubt = self._doubt_reason(probe, place, arrived.made.result)
        if doubt is not None:
            arrived.discard()
            return self._restart(probe, place, UserError(doubt))
        result = arrived.move_to(probe.parcel.request.directory)
        if probe.place is not None:
            self._workers[result.place] = probe.place
        del self._probes[probe.key]
        self._stored.append(probe.key)
        self._start_probes(self._turns.finish_build(probe.number))
        return ProbeDone(probe.number, result)

    def _doubt_reason(self, probe: _Probe, place: str, result: ProbeResult) -> str | None:
        """Return why a failed build is not believed; None where it is believed, and where no build failed."""
        if probe.build is None:
            return None
        if result.toolchain is not None:
            self._builders.record_build(
                probe.build, place, was_built=result.build_source is BuildSource.BUILT
            )
            return None
        verdict = result.classification.verdict
        is_environment = not verdict.traits.judges_commit
        if not (is_environment or verdict.traits.fails_to_build):
            return None
        why = self._builders.doubt_reason(probe.build, place, is_environment=is_environment)
        if why is None:
            return None
        found = result.classification.signature or verdict
        return f"the build failed ({found}), and {why}: it is tried elsewhere"

    def _restart(self, probe: _Probe, place: str, error: Exception | None) -> ProbeRestart:
        """Start a probe again that was lost, or that a host cannot make."""
        self._engine.release(probe.key)
        del self._probes[probe.key]
        where = self._names.name_of(probe.place or place)
        if isinstance(error, OSError | LostEngineError):
            raise error  # There is no room at the driver, or no worker any more.
        if error is not None and not isinstance(error, UserError | LostWorkerError):
            raise RuntimeError(f"a worker failed at {where}: {error}") from error
        if probe.tries + 1 == _MAX_TRIES:
            why = "its workers were lost" if error is None else f"at last at {where}: {error}"
            raise UserError(
                f"expected a worker that makes the probe {probe.parcel.request.directory}, found {_MAX_TRIES} that "
                f"do not, {why}; then resume"
            )
        probe.tries += 1
        probe.key = self._new_key(probe.key.rpartition("-")[0])
        probe.place = None
        if isinstance(error, UserError):
            self._resting[place] = self._clock() + _HOST_COOLDOWN
        self._probes[probe.key] = probe
        self._start(probe)
        return ProbeRestart(probe.number, _loss_message(where) if error is None else f"{where}: {error}")

    def _release_stored(self) -> None:
        """Release the results that the caller has received. By its next call it has stored them."""
        for key in self._stored:
            self._farewells.submit(self._engine.release, key)
        self._stored.clear()


def _loss_message(where: str) -> str:
    return f"its worker at {where} was lost" if where else "its worker was lost"


def _bisection_of(request: ProbeRequest) -> str:
    """Return the name of a probe's bisection."""
    return "probe-" + _digest({"driver": platform.node(), "folder": str(request.directory.parent)})


def _name_of(request: ProbeRequest, stack: Stack) -> str:
    """Return the name of a probe in a bisection.

    It does not include the time limit, which depends on the probes before it.
    """
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
