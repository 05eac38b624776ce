"""Bisections on hosts of dask in simulated time.

Dask's own scheduler chooses who makes what, the tool's own search what is made. A build takes ten minutes of a clock
that stands still while anything else is done: what the tool, git and dask take is left out (`__main__.py` times it).
"""

import logging
import queue
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, cast
from unittest.mock import patch

from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.bisect.engine.runs import FinishedProbe, ProbeTimes, WantedProbe
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.farm import dask
from precision_bisect.runner.farm.farm import EngineEvent, TaskBegin, TaskEnd
from precision_bisect.runner.farm.host import HostProbeResult, ProbeParcel
from precision_bisect.runner.probe.pool import Event
from precision_bisect.runner.probe.probe import ProbeRequest
from precision_bisect.runner.process.run import Interrupt
from precision_bisect.store.vocabulary import BuildSource, Judgement
from tests.bisect.engine.simulated import (
    Machine,
    SimulatedBisection,
    SimulatedTask,
    asked,
    finished_simulation,
    loaded_range,
)

BUILD = 600.0
AGAIN, RUN = 5.0, 5.0
"""Seconds of a build, of one that is there already, and of the case."""
_LONGEST = 120.0
"""Seconds, by the clock on the wall, in which dask has to begin or end what it was given."""

_ended: set[str] = set()
"""The keys of tasks whose time is over."""


@dataclass(frozen=True, kw_only=True)
class Makespan:
    """What a bisection took: seconds until its end, runs, also those that were stopped, and builds over all hosts."""

    seconds: float
    runs: int
    builds: int


class TimelessMachine:
    """In place of `HostMachine`: a probe lasts until its time is over."""

    def __init__(self, **host: object) -> None:
        pass

    def make(self, key: str, parcel: ProbeParcel, *, interrupt: Interrupt, **told: object) -> HostProbeResult:
        """Wait."""
        interrupt.wait(lambda: key in _ended)
        return cast(HostProbeResult, key)


@dataclass
class ClockedHosts(Machine):
    """Workers that dask's scheduler at `address` has, one probe at a time each. The clock goes on to the end of the
    probe that ends next once each host is at one, or nothing is left to begin."""

    address: str = ""
    clock: float = 0.0
    inbox: "queue.SimpleQueue[EngineEvent]" = field(default_factory=queue.SimpleQueue["EngineEvent"])
    wanted: dict[int, WantedProbe] = field(default_factory=dict[int, WantedProbe])
    due: dict[int, float] = field(default_factory=dict[int, float])
    """When the probes end that have begun."""
    took: dict[int, ProbeTimes] = field(default_factory=dict[int, ProbeTimes])
    places: dict[int, str] = field(default_factory=dict[int, str])
    there: dict[str, float] = field(default_factory=dict[str, float])
    """Since when builds are there, by content."""

    def __post_init__(self) -> None:
        self.engine = dask.DaskEngine(self.address, self.inbox.put)

    def begin(self, request: ProbeRequest) -> int:
        """Hand a probe to the scheduler."""
        number = super().begin(request)
        self.wanted[number] = asked(request)
        avoid = frozenset(self.wanted[number].avoid)
        self.engine.start(str(number), cast(ProbeParcel, number), resources={}, avoid=avoid)
        return number

    def cancel(self, number: int) -> None:
        """Stop a probe."""
        super().cancel(number)
        self.engine.stop(str(number))
        content = self.wanted[number].target.content
        if self.due.pop(number, 0.0) > self.clock and self.there.get(content, 0.0) > self.clock:
            del self.there[content]

    def next_event(self, *, timeout: float | None) -> Event:
        """The end of the probe that ends next."""
        while len(self.due) < min(self.jobs, len(self.flying)):
            self._hear(TaskBegin)
        number = min(self.due, key=lambda number: (self.due[number], number))
        self.clock = max(self.clock, self.due[number])
        _ended.add(str(number))
        while number in self.due:
            self._hear(TaskEnd)
        self.engine.release(str(number))
        self.flying.remove(number)
        return finished_simulation(number)

    def _hear(self, kind: type[EngineEvent]) -> None:
        """Wait for news, and take note of it where it is of this kind, and of a probe that is still wanted."""
        told = self.inbox.get(timeout=_LONGEST)
        number = int(told.key)
        if number not in self.flying or not isinstance(told, kind):
            return
        if isinstance(told, TaskEnd):
            del self.due[number]
            return
        content = self.wanted[number].target.content
        is_there = content in self.there
        ready = self.there.setdefault(content, self.clock + BUILD)
        seconds = max(AGAIN, ready - self.clock)
        source = BuildSource.CACHED if is_there else BuildSource.BUILT
        self.took[number] = ProbeTimes(build_source=source, build_seconds=seconds, run_seconds=RUN)
        self.due[number] = self.clock + seconds + RUN
        self.places[number] = told.place


@dataclass(eq=False, kw_only=True)
class _Bisection(SimulatedBisection):
    hosts: ClockedHosts

    def finished(self, number: int, wanted: WantedProbe) -> FinishedProbe:
        shown = super().finished(number, wanted)
        return replace(shown, times=self.hosts.took[number], place=self.hosts.places[number])


@contextmanager
def cluster(hosts: int) -> Generator[str]:
    """A scheduler of dask and so many workers in this process, where probes last as long as is said; its address."""
    distributed: Any = import_module("distributed")
    with (
        patch.object(dask, "HostMachine", TimelessMachine),
        distributed.LocalCluster(
            n_workers=hosts,
            threads_per_worker=1,
            processes=False,
            protocol="tcp",
            dashboard_address=None,
            silence_logs=logging.CRITICAL + 1,  # of connections that end
        ) as made,
    ):
        yield made.scheduler_address


def makespan(commits: int, *, hosts: int, culprit: int) -> Makespan:
    """Bisect a line of so many commits, of which all from the culprit on fail. Raises `RuntimeError` where another one
    is named."""
    names = [str(number) for number in range(1, commits)]
    graph = CommitGraph([[place - 1] if place else [] for place in range(len(names))])
    _ended.clear()
    with cluster(hosts) as address:
        machine = ClockedHosts(jobs=hosts, address=address)
        bisection = _Bisection(
            loaded=loaded_range(names, graph, "0"),
            outcome=lambda content: Judgement.BAD if int(content) >= culprit else Judgement.GOOD,
            machine=machine,
            hosts=machine,
        )
        task = SimulatedTask(simulated=bisection, timings=None)
        try:
            Loop(machine).run([task])
        finally:
            machine.engine.close()
    if task.culprit != str(culprit):
        raise RuntimeError(f"expected {culprit} to be named, found {task.culprit}")
    return Makespan(seconds=machine.clock, runs=machine.runs, builds=len(machine.there))
