"""The product's own bisection and loop, on simulated workers: ends, search and confirmation as in use."""

from dataclasses import dataclass, field
from random import Random

from benchmarks.outsider.drive import Slots, Watched, drive
from benchmarks.outsider.world import Bench, World
from benchmarks.search.answer import MAX_RUNS, Answer
from benchmarks.search.cells import Cell
from precision_bisect.bisect.engine.range_search import Timings
from precision_bisect.bisect.engine.runs import ProbeTimes
from precision_bisect.bisect.search.rates import EarlierRuns, FlakyShare, Rates, RunTally, learn_rates
from precision_bisect.runner.probe.pool import Event
from precision_bisect.runner.probe.probe import ProbeRequest
from precision_bisect.store.vocabulary import BuildSource
from tests.bisect.engine.simulated import asked, finished_simulation, untimed

BUILD_SECONDS, REBUILD_SECONDS, RUN_SECONDS = 600.0, 50.0, 50.0
"""Of a first build, of taking a build from the cache, and of a run."""

_TIMINGS = Timings(run=RUN_SECONDS, full_build=BUILD_SECONDS, rebuild=REBUILD_SECONDS)
_BUILT = ProbeTimes(build_source=BuildSource.BUILT, build_seconds=BUILD_SECONDS, run_seconds=RUN_SECONDS)
_CACHED = ProbeTimes(build_source=BuildSource.CACHED, build_seconds=REBUILD_SECONDS, run_seconds=RUN_SECONDS)


@dataclass
class _TimedSlots(Slots):
    """Workers with a clock: the probe that is due first ends first. A content whose build is there is not built again.

    taken: what the last probe of each content took.
    """

    clock: float = 0.0
    due: dict[int, float] = field(default_factory=dict[int, float])
    contents: dict[int, str] = field(default_factory=dict[int, str])
    taken: dict[str, ProbeTimes] = field(default_factory=dict[str, ProbeTimes])
    there: set[str] = field(default_factory=set[str])

    def begin(self, request: ProbeRequest) -> int:
        """Start a probe."""
        number, content = super().begin(request), asked(request).target.content
        times = _CACHED if content in self.there else _BUILT
        self.taken[content] = times
        self.contents[number] = content
        self.due[number] = self.clock + times.build_seconds + times.run_seconds
        return number

    def next_event(self, *, timeout: float | None) -> Event:
        """The end of the probe that is due first; of several the one that was started first."""
        number = min(self.flying, key=lambda number: (self.due[number], number))
        self.flying.remove(number)
        self.clock = self.due[number]
        self.there.add(self.contents[number])
        return finished_simulation(number)


_KNOWN_CASE = EarlierRuns(
    good=(RunTally(failures=0, passes=1, commits=400),),
    faults=FlakyShare(flaky=0, all=6),
    other_cases=FlakyShare(flaky=2, all=60),
    other_faults=FlakyShare(flaky=1, all=100),
)
"""A year of nights: the case passed at 400 commits, and 6 faults of it failed in every run; of 60 other cases 2 are
flaky, and one of their 100 faults passed at times."""


def search(cell: Cell, world: World, seed: int) -> Answer:
    """One range. With one worker nothing is timed, so that its runs are counted as if all cost the same."""
    if cell.part == "workers":
        bench, workers = Bench(world, Random(f"{cell.key} {seed} runs")), _TimedSlots(jobs=cell.workers)
        watched = Watched.of(bench, workers, times=workers.taken.__getitem__)
        ended = drive(watched, max_runs=MAX_RUNS, timings=_TIMINGS)
        return Answer(ending=ended.ending, runs=ended.runs, seconds=workers.clock)
    rates = learn_rates(Rates.unknown(), _KNOWN_CASE) if cell.known_case else Rates.unknown()
    return search_knowing(rates, cell, world, seed)


def search_knowing(rates: Rates, cell: Cell, world: World, seed: int) -> Answer:
    """One range, untimed, with what is known of its rates beforehand."""
    slots = Slots(jobs=world.slots, chance=Random(f"{cell.key} {seed} order"))
    bench = Bench(world, Random(f"{cell.key} {seed} runs"))
    ended = drive(Watched.of(bench, slots, times=untimed, rates=rates), max_runs=MAX_RUNS)
    return Answer(ending=ended.ending, runs=ended.runs)
