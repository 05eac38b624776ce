"""Builds that cost what they compile again, and slots with a clock that make them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from benchmarks.outsider.drive import Slots
from precision_bisect.bisect.engine.runs import FinishedProbe, ProbeTimes, WantedProbe
from precision_bisect.bisect.history.range import LoadedRange
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.probe.pool import Activity, Event
from precision_bisect.runner.probe.probe import RUN_ACTIVITY, ProbeRequest
from precision_bisect.store.vocabulary import BuildSource, TreeChange
from tests.bisect.engine.simulated import SimulatedBisection, asked, finished_simulation, loaded_range

_NOISE = 0.15
"""How far builds of the same size lie apart: the standard deviation of their logarithm."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What builds of a stack take, in seconds.

    objects: of the whole. of_commits: how many objects single commits made to be compiled again. fixed, each: of any
    build, and of an object. again, run: of a build that is cached, and of the case. keeps_all: objects are kept by
    content, whichever commit they were made at; else a slot goes on from what stands in it.
    """

    objects: int
    of_commits: Sequence[int]
    fixed: float
    each: float
    again: float
    run: float
    keeps_all: bool


def built_line(costs: Costs, commits: int, rng: Random) -> LoadedRange:
    """A line of commits, each of which changes a file that so many objects are made of. Neighbouring objects are of one
    part, and most changes of a part concern the same ones."""
    names = [str(commit) for commit in range(commits)]
    plain = loaded_range(names, CommitGraph([[each - 1] if each else [] for each in range(commits)]), "good")
    objects = {"whole": (1 << costs.objects) - 1}
    changed = list[TreeChange]()
    for name in names:
        count = rng.choice(costs.of_commits)
        first = rng.randrange(costs.objects)
        objects[name] = sum(1 << (first + place) % costs.objects for place in range(count))
        changed.append(TreeChange(name, "100644", "0", "100644", "1"))
    changing = [
        replace(commit, changes=(change,)) for commit, change in zip(plain.commits, changed, strict=True)
    ]
    nodes = tuple(
        replace(node, members=(commit,))
        for node, commit in zip(plain.commit_range.nodes, changing, strict=True)
    )
    collapsed = replace(plain.commit_range, nodes=nodes)
    return replace(plain, commits=tuple(changing), commit_range=collapsed, objects=objects)


@dataclass(kw_only=True)
class BuildingSlots(Slots):
    """Slots whose builds take what they have to compile again. The probe that is due first ends first."""

    costs: Costs
    truth: LoadedRange
    noise: Random
    clock: float = 0.0
    due: dict[int, float] = field(default_factory=dict[int, float])
    wanted: dict[int, WantedProbe] = field(default_factory=dict[int, WantedProbe])
    took: dict[int, ProbeTimes] = field(default_factory=dict[int, ProbeTimes])
    told: set[int] = field(default_factory=set[int])
    """The probes whose cases have begun."""
    begun: dict[int, float] = field(default_factory=dict[int, float])
    """Seconds of the builds of candidates that were begun ahead and stopped: their objects are kept."""
    standing: dict[int, int] = field(default_factory=dict[int, int])
    """What stands in each slot, by its candidate, or the good end."""
    there: list[int] = field(default_factory=list[int])

    def begin(self, request: ProbeRequest) -> int:
        """Start a probe."""
        number = super().begin(request)
        wanted = self.wanted[number] = asked(request)
        node = self.truth.node_of_content[wanted.target.content]
        times = self.took[number] = self._times(node, self.slots[number])
        self.standing[self.slots[number]] = node
        self.due[number] = self.clock + times.build_seconds + times.run_seconds
        return number

    def cancel(self, number: int) -> None:
        """Stop a probe. A slot whose build was killed starts anew."""
        super().cancel(number)
        times = self.took[number]
        if self.clock < self.due[number] - times.run_seconds:
            del self.standing[self.slots[number]]

    def _times(self, node: int, slot: int) -> ProbeTimes:
        costs = self.costs
        if node in self.there:
            return ProbeTimes(
                build_source=BuildSource.CACHED, build_seconds=costs.again, run_seconds=costs.run
            )
        again = self.truth.recompiled_objects
        assert again is not None
        count = float(costs.objects)
        if costs.keeps_all and self.there:
            count = float(again.objects_after(self.there)[node])
        elif not costs.keeps_all and slot in self.standing:
            count = float(again.objects_from(self.standing[slot])[node])
        seconds = (costs.fixed + costs.each * count) * self.noise.lognormvariate(0.0, _NOISE)
        left = max(costs.again, seconds - self.begun.get(node, 0.0))
        return ProbeTimes(build_source=BuildSource.BUILT, build_seconds=left, run_seconds=costs.run)

    def next_event(self, *, timeout: float | None) -> Event:
        """That a case begins, or the end of the probe that is due first; of several the one that was started first."""
        number = min(self.flying, key=lambda number: (self.due[number], number))
        begins = {
            each: self.due[each] - self.took[each].run_seconds
            for each in self.flying
            if each not in self.told
        }
        if begins and min(begins.values()) <= self.due[number]:
            first = min(begins, key=lambda each: (begins[each], each))
            self.clock = begins[first]
            self.told.add(first)
            return Activity(first, f"slot {self.slots[first]}", RUN_ACTIVITY)
        self.flying.remove(number)
        self.clock = self.due[number]
        self.there.append(self.truth.node_of_content[self.wanted[number].target.content])
        return finished_simulation(number)


@dataclass
class BuildingAhead:
    """Builds ahead on cores that nobody else needs."""

    slots: BuildingSlots
    node: int | None = None
    since: float = 0.0

    def begin(self, request: ProbeRequest) -> None:
        """Begin a build."""
        self.stop()
        self.node = self.slots.truth.node_of_content[asked(request).target.content]
        self.since = self.slots.clock

    def stop(self) -> None:
        """Keep what was made until now."""
        if self.node is not None:
            done = self.slots.begun.get(self.node, 0.0)
            self.slots.begun[self.node] = done + self.slots.clock - self.since
        self.node = None

    def catch_up(self) -> None:
        """Nothing happens by itself."""


@dataclass(eq=False, kw_only=True)
class BuiltBisection(SimulatedBisection):
    """A bisection whose probes are made in such slots."""

    slots: BuildingSlots

    def finished(self, number: int, wanted: WantedProbe) -> FinishedProbe:
        """What a probe shows, with what it took, and where."""
        shown = super().finished(number, wanted)
        return replace(shown, times=self.slots.took[number], place=f"host {self.slots.slots[number]}")
