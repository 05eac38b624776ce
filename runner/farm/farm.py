"""Makes probes on many machines, the hosts, which share no files.

`Farm` gives each probe as a task to an `Engine`: dask.distributed, ray, or another scheduler. The engine chooses a
worker, repeats a task whose worker was lost, and carries messages between driver and hosts. `Delivery` sends missing
contents to a host, and fetches results. `BuildTurns` lets one probe make a build that several need. `BuildHistory`
decides whether another host tries a build that failed.
"""

import contextlib
import itertools
import platform
import queue
import secrets
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar

from ...store.durable_files import sync_files, try_remove_tree
from ...store.vocabulary import BuildSource
from ..errors import UserError, reason
from ..probe.build_cache import digest_of, unpack_folder
from ..probe.builder import digest
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
    """A worker has begun a task."""

    key: str
    """The key of the task, as in all events."""
    place: str
    """The engine's name of the worker."""
    host: str
    """The name of the worker's machine."""


@dataclass(frozen=True)
class MissingContents:
    """A task waits for data that its host lacks. The event is repeated until the data has arrived."""

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
    """A task has ended."""

    key: str
    place: str
    result: HostProbeResult | Exception | None
    """The probe's result, or the error that prevents the probe there; None where the task was stopped or lost."""


EngineEvent = TaskBegin | MissingContents | TaskActivity | TaskEnd


class Engine(Protocol):
    """Runs tasks at hosts, and reports events from any thread to the function that its constructor got."""

    def start(
        self,
        key: str,
        parcel: ProbeParcel,
        *,
        resources: Mapping[str, float],
        avoid: frozenset[str],
    ) -> None:
        """Start a probe at a worker that has the resources. Places in `avoid` are used only if there is no other.

        If a task with the same key exists, it goes on, and its events are reported.
        """
        ...

    def existing_tasks(self, prefix: str) -> Collection[str]:
        """Return the keys of existing tasks that begin with a prefix, also those of other drivers."""
        ...

    def stop(self, key: str) -> None:
        """Stop a task, also one of another driver. No later event mentions it."""
        ...

    def release(self, key: str) -> None:
        """Forget a task that has ended."""
        ...

    def ask(
        self,
        place: str,
        function: Callable[Concatenate[Home, _Arguments], _Result],
        *arguments: _Arguments.args,
        **keywords: _Arguments.kwargs,
    ) -> _Result:
        """Call a function at a host while tasks run there. Its first argument is the host's home.

        Raises what the function raises.
        """
        ...

    def no_worker_notice(self) -> str | None:
        """Return a sentence that says how to start a worker; None if there is a worker, or if that is not known."""
        ...

    def close(self) -> None:
        """Disconnect from the engine. Tasks that were not stopped continue."""
        ...


class LostWorkerError(Exception):
    """The worker of a call is gone."""


class LostEngineError(UserError):
    """The engine is gone, and its tasks with it."""


class PlaceNames:
    """Names places for people: by the host, and by the place as well where several places are on that host."""

    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}

    def record(self, place: str, host: str) -> None:
        """Record the host of a place."""
        self._hosts[place] = host

    def name_of(self, place: str) -> str:
        """Return the name of a place; the place itself if its host is not known."""
        host = self._hosts.get(place)
        if host is None:
            return place
        return host if [*self._hosts.values()].count(host) == 1 else f"{host} ({place})"


class Delivery:
    """Sends parcels and fetches results through an engine. Its methods are for any thread."""

    def __init__(self, engine: Engine, parcels: ParcelMaker) -> None:
        self._engine = engine
        self._parcels = parcels
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def send(self, parcel: ProbeParcel, place: str) -> None:
        """Send a host the contents that it lacks for a probe. Raises `UserError`, and the errors of the engine."""
        # Probes of one host take turns, so that nothing is sent to it twice.
        with self._turns[place], tempfile.TemporaryDirectory() as temporary:
            missing = self._engine.ask(place, host.find_missing, parcel)
            for name, commits in missing.commits.items():
                # An object may have been missing here when the host got a commit. Then the host lacks an object of a
                # commit that it has, and gets the whole history.
                if not self._send_commits(parcel, place, name, commits, Path(temporary)):
                    self._send_commits(parcel, place, name, replace(commits, has=()), Path(temporary))
            for digest in missing.objects:
                sender = self._send_pieces(place, digest, self._parcels.source(digest))
                self._engine.ask(place, host.seal, digest, sender)

    def _send_commits(
        self, parcel: ProbeParcel, place: str, name: str, missing: MissingCommits, folder: Path
    ) -> bool:
        """Send commits of a repository; return whether the host then has all that the parcel needs of it."""
        pack = folder / name
        write_missing_pack(self._parcels.clone(name), missing, pack)
        digest = digest_of(pack)
        sender = self._send_pieces(place, digest, pack)
        return self._engine.ask(place, host.take_pack, digest, sender, parcel.commits[name])

    def _send_pieces(self, place: str, digest: str, file: Path) -> str:
        """Send a file in pieces. Return the sender's name, which distinguishes them from pieces of other senders."""
        sender = secrets.token_hex(8)
        with file.open("rb") as stream:
            piece = stream.read(PIECE_BYTES)
            # An empty file is one empty piece.
            while piece or stream.tell() == 0:
                self._engine.ask(place, host.receive, digest, sender, stream.tell() - len(piece), piece)
                if not (piece := stream.read(PIECE_BYTES)):
                    break
        return sender

    def fetch(self, result: HostProbeResult, place: str, target: Path) -> "ArrivedProbe":
        """Fetch the result of a probe into a new folder beside `target`.

        Raises `OSError` where there is no room, and the errors of the engine.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{target.name}-arriving-", dir=target.parent))
        try:
            archive = folder / "archive"
            self._fetch_archive(place, result, archive)
            unpack_folder(archive, folder / "run")
        except BaseException:
            try_remove_tree(folder)
            raise
        with contextlib.suppress(LostWorkerError):  # The host removes old results by itself.
            self._engine.ask(place, host.forget, result.key)
        return ArrivedProbe(result, folder)

    def _fetch_archive(self, place: str, result: HostProbeResult, target: Path) -> None:
        with target.open("wb") as file:
            while piece := self._engine.ask(place, host.read_piece, result.key, file.tell()):
                file.write(piece)
        if digest_of(target) != result.archive_digest:
            raise UserError(f"{place}: expected what a probe left to arrive as it was kept, found it changed")


@dataclass(frozen=True)
class ArrivedProbe:
    """The result of a probe at the driver. Its files are still in a temporary folder."""

    host_result: HostProbeResult
    folder: Path

    def move_to(self, directory: Path) -> ProbeResult:
        """Move the logs and the build directory to `directory`, and return the result. Raises `OSError`."""
        try_remove_tree(directory)
        (self.folder / "run").rename(directory)
        sync_files(directory)
        self.discard()
        result, host_directory = self.host_result.result, self.host_result.directory
        build = result.build_directory
        return replace(
            result,
            log=directory / result.log.relative_to(host_directory),
            build_directory=None if build is None else directory / build.relative_to(host_directory),
        )

    def discard(self) -> None:
        """Remove the temporary folder."""
        try_remove_tree(self.folder)


class BuildHistory:
    """Records which hosts have which builds. A host is identified by its place, and a build by its key."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        """`name_of` returns the name of a place for people."""
        self._name_of = name_of
        self._builders: set[str] = set()
        """The hosts that have built anything."""
        self._holders: defaultdict[str, set[str]] = defaultdict(set)
        """The hosts that have each build, whether they built it or not."""
        self._failed: set[str] = set()
        """The builds that have failed."""

    def record_build(self, build: str, place: str, *, was_built: bool) -> None:
        """Record that a host has a build. `was_built` says whether the host built it itself."""
        self._holders[build].add(place)
        if was_built:
            self._builders.add(place)

    def doubt_reason(self, build: str, place: str, *, is_environment: bool) -> str | None:
        """Record that a build failed at a host. Return why another host should try it; None if no other should.

        A failure is doubted if the host may be the cause, for example by a missing compiler or a full disk:

        1. Another host has the build.
        2. The build failed for the first time, with an error of machines rather than of commits (`is_environment`).
        3. The build failed for the first time, at a host that has never built anything.
        """
        others = sorted(self._holders[build] - {place})
        is_first = build not in self._failed
        self._failed.add(build)
        if others:
            return f"{self._name_of(others[0])} has that build"
        if is_first and is_environment:
            return "the error is one of machines, not of commits"
        if is_first and place not in self._builders:
            return "nothing was ever built there"
        return None


class BuildTurns:
    """Lets one probe make a build that several need. Probes are identified by number, and builds by key."""

    def __init__(self) -> None:
        self._builders: dict[str, int] = {}
        """The probe that makes each build now."""
        self._waiting: defaultdict[str, list[int]] = defaultdict(list)
        """The probes that wait for each build."""
        self._finished: set[str] = set()

    def may_begin(self, number: int, build: str) -> bool:
        """Return whether a new probe may begin. Otherwise it waits until another probe has made its build."""
        if build in self._finished or self._builders.setdefault(build, number) == number:
            return True
        self._waiting[build].append(number)
        return False

    def finish_build(self, number: int) -> list[int]:
        """Record that a probe's build was made, or failed. Return the waiting probes, which may begin."""
        build = self._current_build(number)
        if build is None:
            return []
        del self._builders[build]
        self._finished.add(build)
        return self._waiting.pop(build, [])

    def drop(self, number: int) -> list[int]:
        """Record that a probe will not be made. Return the waiting probes that may begin."""
        for waiting in self._waiting.values():
            if number in waiting:
                waiting.remove(number)
        build = self._current_build(number)
        if build is None:
            return []
        del self._builders[build]
        if not self._waiting[build]:
            return []
        next_probe = self._waiting[build].pop(0)
        self._builders[build] = next_probe
        return [next_probe]

    def _current_build(self, number: int) -> str | None:
        return next((build for build, builder in self._builders.items() if builder == number), None)


_MAX_TRIES = 4
"""A probe is given up after this many hosts have failed to make it, or were lost. So many are no accident."""
_HOST_COOLDOWN = 300.0
"""A host that could not make a probe is avoided for this many seconds, if possible. Its problem may be temporary."""
_WORKER_CHECK_INTERVAL = 10.0
"""After this many seconds without an event the farm checks whether there is a worker at all."""

_NOTICE_INTERVAL = 60.0
"""The farm reports once in this many seconds that there is no worker. More reports would fill a log."""

_MAX_TRANSFERS = 8
"""At most this many transfers to hosts run at the same time, so that they do not fill the driver's memory."""

OpenEngine = Callable[[Callable[[EngineEvent], None]], Engine]
"""Connects to an engine, which reports events to the given function. Raises `UserError`."""


@dataclass(eq=False)
class _Probe:
    """A probe that the caller wants."""

    number: int
    parcel: ProbeParcel
    key: str
    """The key of its task. A driver that continues a bisection uses the same key."""
    build: str | None
    """The key of its build; None where nothing is built."""
    tries: int = 0
    """The number of hosts that failed to make the probe."""
    place: str | None = None
    """The place where its task began last."""


@dataclass(frozen=True)
class _FetchOutcome:
    """A result that has arrived, or the error that prevented that."""

    key: str
    place: str
    result: ArrivedProbe | Exception


class Farm:
    """Makes probes of one stack at hosts. All methods are for one thread.

    A probe is made again, elsewhere if possible, when the engine loses it or a host cannot make it.
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
        """The caller makes `jobs` probes at once. `build_store` is the URL of builds that hosts share.

        With a build store, no two probes make the same build at once.
        """
        self._stack = stack
        self._home = home
        self._build_store = build_store
        self._turns = BuildTurns()
        self._names = PlaceNames()
        self._history = BuildHistory(self._names.name_of)
        self._clock = clock
        self._next_notice = clock()
        """The time after which the absence of workers is reported again."""
        self._cooldowns: dict[str, float] = {}
        """The time until which each host is avoided, by its place."""
        self.jobs = jobs
        self._open_engine = open_engine
        self._inbox: queue.SimpleQueue[EngineEvent | _FetchOutcome] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        self._starts: defaultdict[str, itertools.count[int]] = defaultdict(itertools.count)
        """The number of starts of each probe, by its name."""
        self._probes: dict[str, _Probe] = {}
        """The wanted probes, by key."""
        self._sending_keys: set[str] = set()
        """The keys of the probes whose parcels are being sent."""
        self._workers: dict[str, str] = {}
        """The engine's name of the worker that made probes in a slot, by `place_name` of the slot."""
        self._bisections: set[str] = set()
        """The prefixes of the probes' names, one for each bisection."""
        self._unchecked_bisections: list[str] = []
        """The bisections of which a dead driver may have left probes that nobody wants."""
        self._unwanted_keys: set[str] = set()
        """The keys of such probes, which may still be being stopped."""
        self._received_keys: list[str] = []
        """The keys of results that the caller has received, and not yet stored."""

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
        self._stops = ThreadPoolExecutor(_MAX_TRANSFERS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transfers.shutdown(wait=False, cancel_futures=True)
        for probe in self._probes.values():
            self._stops.submit(self._engine.stop, probe.key)
        self._release_received()
        # Transfers may be given up, but a probe that nobody stops would run on.
        self._stops.shutdown()
        self._engine.close()
        self._transfers.shutdown()
        self._folder.cleanup()

    def begin(self, request: ProbeRequest) -> int:
        """Start a probe, and return the number by which events identify it. Raises `UserError`."""
        parcel = self._parcels.parcel(request)
        bisection = _bisection_prefix(request)
        if bisection not in self._bisections:
            self._bisections.add(bisection)
            self._unchecked_bisections.append(bisection)
        name = f"{bisection}-{_probe_digest(request, self._stack)}"
        probe = _Probe(next(self._numbers), parcel, self._new_key(name), self._build_key(request))
        self._probes[probe.key] = probe
        if self._may_begin(probe):
            try:
                self._start(probe)
            except UserError:
                self.cancel(probe.number)
                raise
        return probe.number

    def _build_key(self, request: ProbeRequest) -> str | None:
        """Return the key of a probe's build; None where nothing is built."""
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
        """Return a new key for a probe's task. Late events of its earlier tasks have other keys."""
        keys = (f"{name}-{start}" for start in self._starts[name])
        return next(key for key in keys if key not in self._unwanted_keys)

    def cancel(self, number: int) -> None:
        """Stop a probe, also one that no host can make. No later event mentions it."""
        probe = next((each for each in self._probes.values() if each.number == number), None)
        if probe is not None:
            del self._probes[probe.key]
            self._stops.submit(self._engine.stop, probe.key)
        self._start_probes(self._turns.drop(number))

    def next_event(self, *, timeout: float | None) -> Activity | ProbeDone | ProbeRestart | ProbeDelay | None:
        """Wait up to `timeout` seconds for an event of the current probes; return None if there is none.

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
        self._release_received()
        self._stop_unwanted()
        try:
            message = self._inbox.get(
                timeout=_WORKER_CHECK_INTERVAL if timeout is None else min(timeout, _WORKER_CHECK_INTERVAL)
            )
        except queue.Empty:
            return self._check_workers()
        probe = self._probes.get(message.key)
        if probe is not None:
            return self._handle_event(probe, message)
        if isinstance(message, _FetchOutcome) and isinstance(message.result, ArrivedProbe):
            message.result.discard()
        return None

    def _stop_unwanted(self) -> None:
        """Stop the probes that a dead driver left, which would occupy workers, except those that are wanted now."""
        while self._unchecked_bisections:
            existing = self._engine.existing_tasks(self._unchecked_bisections.pop())
            for key in {*existing} - self._probes.keys():
                self._unwanted_keys.add(key)
                self._stops.submit(self._engine.stop, key)

    def _check_workers(self) -> ProbeDelay | None:
        """Report that there is no worker: once, and then once in `_NOTICE_INTERVAL`."""
        now = self._clock()
        if not self._probes or now < self._next_notice:
            return None
        notice = self._engine.no_worker_notice()
        if notice is None:
            return None
        self._next_notice = now + _NOTICE_INTERVAL
        return ProbeDelay(next(iter(self._probes.values())).number, notice)

    def _handle_event(
        self, probe: _Probe, message: EngineEvent | _FetchOutcome
    ) -> Activity | ProbeDone | ProbeRestart | None:
        """Handle an event of a probe; return what it means for the caller, if anything."""
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
            case TaskEnd(place=place, result=result):
                if not isinstance(result, HostProbeResult):
                    return self._restart(probe, place, result)
                self._transfers.submit(self._fetch, probe, result, place)
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
        cooling = (place for place, until in self._cooldowns.items() if until > self._clock())
        avoided = (self._workers[slot] for slot in request.avoid if slot in self._workers)
        self._engine.start(
            probe.key,
            probe.parcel,
            resources={request.platform: 1} if is_board else {},
            avoid=frozenset([*cooling, *avoided]),
        )

    def _record_begin(self, probe: _Probe, place: str) -> ProbeRestart | None:
        """Record where a task begins. A second begin means that the engine lost the first worker."""
        lost, probe.place = probe.place, place
        return None if lost is None else ProbeRestart(probe.number, _loss_message(self._names.name_of(lost)))

    def _send(self, probe: _Probe, place: str) -> None:
        if probe.key not in self._sending_keys:
            self._sending_keys.add(probe.key)
            self._transfers.submit(self._deliver, probe.key, probe.parcel, place)

    def _deliver(self, key: str, parcel: ProbeParcel, place: str) -> None:
        try:
            self._delivery.send(parcel, place)
        except LostWorkerError:
            pass  # The engine begins the task elsewhere, and reports again that contents are missing.
        except Exception as error:
            self._engine.stop(key)
            self._inbox.put(_FetchOutcome(key, place, error))
        finally:
            self._sending_keys.discard(key)

    def _fetch(self, probe: _Probe, result: HostProbeResult, place: str) -> None:
        try:
            arrived = self._delivery.fetch(result, place, probe.parcel.request.directory)
        except Exception as error:
            self._inbox.put(_FetchOutcome(result.key, place, error))
        else:
            self._inbox.put(_FetchOutcome(result.key, place, arrived))

    def _accept(self, probe: _Probe, place: str, arrived: ArrivedProbe) -> ProbeDone | ProbeRestart:
        """Finish a probe whose result has arrived, or restart it if its failed build is doubted."""
        doubt = self._doubt_reason(probe, place, arrived.host_result.result)
        if doubt is not None:
            arrived.discard()
            return self._restart(probe, place, UserError(doubt))
        result = arrived.move_to(probe.parcel.request.directory)
        self._workers[result.place] = place
        del self._probes[probe.key]
        self._received_keys.append(probe.key)
        self._start_probes(self._turns.finish_build(probe.number))
        return ProbeDone(probe.number, result)

    def _doubt_reason(self, probe: _Probe, place: str, result: ProbeResult) -> str | None:
        """Return why a failed build is doubted; None if it is not, or if no build failed."""
        if probe.build is None:
            return None
        if result.toolchain is not None:
            was_built = result.build_source is BuildSource.BUILT
            self._history.record_build(probe.build, place, was_built=was_built)
            return None
        verdict = result.classification.verdict
        is_environment = not verdict.traits.judges_commit
        if not (is_environment or verdict.traits.fails_to_build):
            return None
        doubt = self._history.doubt_reason(probe.build, place, is_environment=is_environment)
        if doubt is None:
            return None
        failure = result.classification.signature or verdict
        return f"the build failed ({failure}), and {doubt}: it is tried elsewhere"

    def _restart(self, probe: _Probe, place: str, error: Exception | None) -> ProbeRestart:
        """Start a probe again that was lost, or that a host cannot make.

        Raises the errors that would recur at any other host.
        """
        self._engine.release(probe.key)
        del self._probes[probe.key]
        host_name = self._names.name_of(probe.place or place)
        if isinstance(error, OSError | LostEngineError):
            raise error  # There is no room at the driver, or no worker any more.
        if error is not None and not isinstance(error, UserError | LostWorkerError):
            raise RuntimeError(f"a worker failed at {host_name}: {error}") from error
        if probe.tries + 1 == _MAX_TRIES:
            why = "its workers were lost" if error is None else f"at last at {host_name}: {error}"
            raise UserError(
                f"expected a worker that makes the probe {probe.parcel.request.directory}, found {_MAX_TRIES} that "
                f"do not, {why}; then resume"
            )
        probe.tries += 1
        probe.key = self._new_key(probe.key.rpartition("-")[0])
        probe.place = None
        if isinstance(error, UserError):
            self._cooldowns[place] = self._clock() + _HOST_COOLDOWN
        self._probes[probe.key] = probe
        self._start(probe)
        return ProbeRestart(
            probe.number, _loss_message(host_name) if error is None else f"{host_name}: {error}"
        )

    def _release_received(self) -> None:
        """Release the results of the caller's last calls. By now the caller has stored them."""
        for key in self._received_keys:
            self._stops.submit(self._engine.release, key)
        self._received_keys.clear()


def _loss_message(host_name: str) -> str:
    return f"its worker at {host_name} was lost" if host_name else "its worker was lost"


def _bisection_prefix(request: ProbeRequest) -> str:
    """Return the prefix of the keys of a bisection's probes."""
    return "probe-" + digest({"driver": platform.node(), "folder": str(request.directory.parent)})


def _probe_digest(request: ProbeRequest, stack: Stack) -> str:
    """Return a digest of a request, without the timeout, which depends on the probes before it."""
    return digest(
        {
            "directory": str(request.directory),
            "stack": stack.model_dump(mode="json"),
            "revisions": dict(request.revisions),
            "case": str(request.case),
            "platform": request.platform,
            "device": request.device,
            "golden": request.golden.digest if request.golden else None,
            "bad when": str(request.judging_rule),
            "options": str(request.options),
        }
    )
