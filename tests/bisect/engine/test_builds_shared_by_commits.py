"""What a search gains by knowing which commits share a build: simulated searches on a clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from statistics import fmean

from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.bisect.engine.range_search import Timings
from precision_bisect.bisect.engine.runs import ProbeTimes
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.probe.pool import Event
from precision_bisect.runner.probe.probe import ProbeRequest
from precision_bisect.store.vocabulary import BuildSource, Judgement
from tests.bisect.engine.simulated import (
    Machine,
    SimulatedBisection,
    SimulatedTask,
    asked,
    finished_simulation,
    loaded_range,
)

TIMINGS = Timings(run=50.0, full_build=600.0, rebuild=5.0)
COMMITS = 128


@dataclass
class Timed(Machine):
    """Workers with a clock, which build what is not there; a build that another one makes is waited for."""

    kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    clock: float = 0.0
    due: dict[int, float] = field(default_factory=dict[int, float])
    ready: dict[str, float] = field(default_factory=dict[str, float])
    """When each build is there."""
    taken: dict[str, ProbeTimes] = field(default_factory=dict[str, ProbeTimes])

    def begin(self, request: ProbeRequest) -> int:
        content, number = asked(request).target.content, super().begin(request)
        kind = self.kinds[content]
        is_new = kind not in self.ready
        if is_new:
            self.ready[kind] = self.clock + TIMINGS.full_build
        waited = max(0.0, self.ready[kind] - self.clock)
        seconds = waited if is_new else waited + TIMINGS.rebuild
        source = BuildSource.BUILT if is_new else BuildSource.CACHED
        self.taken[content] = ProbeTimes(build_source=source, build_seconds=seconds, run_seconds=TIMINGS.run)
        self.due[number] = self.clock + seconds + TIMINGS.run
        return number

    def next_event(self, *, timeout: float | None) -> Event:
        number = min(self.flying, key=lambda number: (self.due[number], number))
        self.flying.remove(number)
        self.clock = self.due[number]
        return finished_simulation(number)


def seconds(seed: int, *, jobs: int, knows: bool, moves_every: int = 8) -> float:
    """What a search takes that finds its culprit; one commit in `moves_every` changes what is built."""
    chance = Random(seed)
    names = [f"c{place}" for place in range(COMMITS)]
    kinds, latest = {"good": "build 0"}, 0
    for name in names:
        latest += chance.random() < 1 / moves_every
        kinds[name] = f"build {latest}"
    culprit = chance.randrange(COMMITS)
    loaded = loaded_range(
        names, CommitGraph([[place - 1] if place else [] for place in range(COMMITS)]), "good"
    )
    machine = Timed(jobs=jobs, kinds=kinds)
    simulated = SimulatedBisection(
        loaded=replace(loaded, builds=kinds) if knows else loaded,
        outcome=lambda content: (
            Judgement.BAD if content != "good" and int(content[1:]) >= culprit else Judgement.GOOD
        ),
        machine=machine,
        times=machine.taken.__getitem__,
    )
    task = SimulatedTask(simulated=simulated, timings=TIMINGS)
    Loop(machine).run([task])
    assert task.culprit == names[culprit]
    return machine.clock


def test_a_search_with_one_worker_takes_less_time() -> None:
    seeds = range(12)
    known, unknown = (fmean(seconds(seed, jobs=1, knows=knows) for seed in seeds) for knows in (True, False))
    assert known < 0.95 * unknown


def test_with_four_workers_it_takes_hardly_more_at_worst() -> None:
    seeds = range(8)
    known, unknown = (fmean(seconds(seed, jobs=4, knows=knows) for seed in seeds) for knows in (True, False))
    assert known < 1.05 * unknown
