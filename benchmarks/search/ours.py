"""This project's search: the tool's own bisection and loop, on simulated workers."""

from dataclasses import dataclass, field, replace
from functools import lru_cache

from benchmarks.search.world import BUILD_SECONDS, REBUILD_SECONDS, RUN_SECONDS, World
from precision_bisect.bisect.commits.range import LoadedRange
from precision_bisect.bisect.engine.needs import Confirming, Narrowed, Needs
from precision_bisect.bisect.engine.priority.costs import Timings
from precision_bisect.bisect.engine.probes import ProbeTimes
from precision_bisect.bisect.run.loop import Loop
from precision_bisect.bisect.search.evidence.knowledge import Outcome
from precision_bisect.bisect.search.graph.graph import CommitGraph
from precision_bisect.bisect.search.model.groups import GOOD_END
from precision_bisect.bisect.search.model.rates import Rates
from precision_bisect.runner.probe.records import ProbeRequest
from precision_bisect.runner.probe.workers.pool import Event
from precision_bisect.store.vocabulary import BuildSource, Judgement, Phase
from tests.bisect.engine.simulated import (
    Machine,
    SimulatedBisection,
    SimulatedTask,
    asked,
    finished_simulation,
    loaded_range,
)

CONFIDENCE = 0.99
_GOOD = "good"
_MOST_PROBES = 20_000
_JUDGEMENTS = {Outcome.GOOD: Judgement.GOOD, Outcome.BAD: Judgement.BAD, Outcome.SKIP: Judgement.SKIP}
_TIMINGS = Timings(run=RUN_SECONDS, anew=BUILD_SECONDS, again=REBUILD_SECONDS)
_UNTIMED = ProbeTimes(build_source=BuildSource.NONE, build_seconds=0.0, run_seconds=0.0)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a method ended with: the culprit (None: it names none), how sure it is, and what it took.

    probes: until a commit was first named, at 0.99; or was the only suspect left, where it then got there by reruns.
    confirming: all after that, reruns of it and its parents in turns, and what followed if it did not stand. Both leave
    out end_runs, those of the two ends. seconds are from the first probe to the last, on all workers, once the ends
    were measured. named, named_claim: what was first named, and how sure the search was; None if nothing was.
    """

    culprit: int | None
    claimed: float
    probes: int
    end_runs: int
    builds: int
    seconds: float
    confirming: int = 0
    named: int | None = None
    named_claim: float | None = None


@dataclass(frozen=True)
class _Naming:
    """What was named, after how many probes, and how surely once that was 0.99; None before."""

    culprit: int
    probes: int
    claim: float | None = None


@dataclass
class _TimedWorkers(Machine):
    """Workers with a clock: the probe that is due first ends first.

    began: when the first probe started that was not of a measurement of the ends.
    """

    world: World = field(kw_only=True)
    clock: float = 0.0
    began: float | None = None
    due: dict[int, float] = field(default_factory=dict[int, float])

    def begin(self, request: ProbeRequest) -> int:
        """Start a probe; it ends after what the world says."""
        number, wanted = super().begin(request), asked(request)
        if self.began is None and wanted.phase is not Phase.ENDPOINT:
            self.began = self.clock
        self.due[number] = self.clock + self.world.seconds(_commit(wanted.target.content))
        return number

    def next_event(self, *, timeout: float | None) -> Event:
        """The end of the probe that is due first; of several the one that was started first."""
        number = min(self.flying, key=lambda number: (self.due[number], number))
        self.flying.remove(number)
        self.clock = self.due[number]
        return finished_simulation(number)


@dataclass(eq=False)
class _Watched:
    """What a world shows to a bisection, and what is named on the way."""

    world: World
    naming: _Naming | None = None

    def outcome(self, content: str) -> Judgement:
        """What a run of a commit shows. Raises `RuntimeError` where a search has no end."""
        if self.world.probes > _MOST_PROBES:
            raise RuntimeError(f"expected an end of the search, found none: {self.world}")
        return _JUDGEMENTS[self.world.run(_commit(content))]

    def times(self, content: str) -> ProbeTimes:
        """What a run of a commit takes. A search with one worker is not told: its probes are counted, not timed."""
        if self.world.cell.workers == 1:
            return _UNTIMED
        again = _commit(content) in self.world.built
        return ProbeTimes(
            build_source=BuildSource.CACHED if again else BuildSource.BUILT,
            build_seconds=REBUILD_SECONDS if again else BUILD_SECONDS,
            run_seconds=RUN_SECONDS,
        )

    def watch(self, needs: Needs) -> None:
        """Note what is named now; once that had the confidence, it stays the first."""
        for note in needs.notes:
            if self.naming is not None and self.naming.claim is not None:
                return
            match note:
                case Narrowed():
                    self.naming = None
                case Confirming(commit=name, confidence=confidence):
                    culprit = _commit(name)
                    if self.naming is None or self.naming.culprit != culprit:
                        self.naming = _Naming(culprit, self.world.probes)
                    if confidence >= CONFIDENCE:
                        self.naming = replace(self.naming, claim=confidence)
                case _:
                    pass


def search(world: World) -> Answer:
    """Measure the ends, search, and confirm until culprit and parents stand."""
    cell, watched = world.cell, _Watched(world)
    workers = _TimedWorkers(jobs=cell.workers, world=world)
    task = SimulatedTask(
        simulated=SimulatedBisection(
            loaded=_loaded(world.graph),
            outcome=watched.outcome,
            times=watched.times,
            machine=workers,
            confidence=CONFIDENCE,
            rates=Rates.known(good=cell.good, bad=cell.bad) if cell.known else Rates.unknown(),
            on_needs=watched.watch,
        ),
        timings=None if cell.workers == 1 else _TIMINGS,
    )
    Loop(workers).run([task])
    culprits = task.conclusion.culprits if task.conclusion is not None else ()
    named = next(iter(culprits), None)
    naming = watched.naming if watched.naming is not None and watched.naming.claim is not None else None
    probes = naming.probes if naming is not None else world.probes
    return Answer(
        culprit=_commit(named.commit) if named is not None else None,
        claimed=named.confidence or 0.0 if named is not None else 0.0,
        probes=probes,
        confirming=world.probes - probes,
        end_runs=world.end_runs,
        builds=len(world.built),
        seconds=workers.clock - workers.began if workers.began is not None else 0.0,
        named=naming.culprit if naming is not None else None,
        named_claim=naming.claim if naming is not None else None,
    )


@lru_cache(maxsize=20)
def _loaded(graph: CommitGraph) -> LoadedRange:
    """A history as a bisection reads it; each commit has content of its own."""
    return loaded_range([*map(str, range(len(graph)))], graph, _GOOD)


def _commit(name: str) -> int:
    """The number of a commit in its history."""
    return GOOD_END if name == _GOOD else int(name)
