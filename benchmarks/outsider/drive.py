"""The product's own bisection and loop, driven over a world; what it ended with; and git bisect beside it."""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from time import perf_counter

from benchmarks.outsider.git import git_bisect
from benchmarks.outsider.history import GOOD, History
from benchmarks.outsider.world import Bench, Ending, Shown, World
from benchmarks.outsider.worlds import WORLDS
from precision_bisect.bisect.commits.range import LoadedRange
from precision_bisect.bisect.engine.log import FinishedProbe
from precision_bisect.bisect.engine.needs import Needs
from precision_bisect.bisect.engine.probes import WantedProbe
from precision_bisect.bisect.result import Conclusion
from precision_bisect.bisect.run.budget import BudgetSpentError
from precision_bisect.bisect.run.loop import Loop
from precision_bisect.bisect.search.graph.graph import CommitGraph
from precision_bisect.runner.probe.records import ProbeRequest
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Verdict
from tests.bisect.engine.simulated import (
    Machine,
    SimulatedBisection,
    SimulatedTask,
    loaded_range,
    simulated_probe,
)

MOST_RUNS = 500
CONFIDENCE = 0.99
_GOOD = "good"
_JUDGEMENTS = {Shown.PASS: Judgement.GOOD, Shown.FAIL: Judgement.BAD}
_VERDICTS = {
    Shown.PASS: Verdict.PASS,
    Shown.FAIL: Verdict.MISMATCH,
    Shown.SKIP: Verdict.BUILD_ERROR,
    Shown.CRASH: Verdict.CRASH,
    Shown.DEVICE: Verdict.DEVICE_ERROR,
}
_ENDINGS = {
    BisectionOutcome.NO_CULPRIT: Ending.NONE,
    BisectionOutcome.ENDS_DO_NOT_DIFFER: Ending.REFUSED,
    BisectionOutcome.BUDGET: Ending.UNENDED,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One range: its truth, what the product made of it, and what git bisect did."""

    world: str
    seed: int
    commits: int
    merges: int
    answers: str
    ending: Ending
    acceptable: bool
    named: str
    confidence: float
    suspects: str
    runs: int
    end_runs: int
    confirm_runs: int
    seconds: float
    message: str
    git_tests: int
    git_named: str
    git_right: bool


@dataclass
class _Slots(Machine):
    """Workers that know in which slot of the machine a run is made."""

    slots: dict[int, int] = field(default_factory=dict[int, int])

    def begin(self, request: ProbeRequest) -> int:
        taken = {self.slots[number] for number in self.flying}
        number = super().begin(request)
        self.slots[number] = min({*range(self.jobs)} - taken)
        return number


@dataclass(eq=False, kw_only=True)
class _Watched(SimulatedBisection):
    """A bisection whose runs are a bench's. `trace`, where it is wanted, has all that can be seen of it."""

    bench: Bench
    workers: _Slots
    phases: Counter[str] = field(default_factory=Counter[str])
    trace: list[str] = field(default_factory=list[str])

    def finished(self, number: int, wanted: WantedProbe) -> FinishedProbe:
        content, slot = wanted.target.content, self.workers.slots[number]
        shown = self.bench.run(_commit(content), slot)
        self.phases[wanted.phase.value] += 1
        self.trace.append(f"{wanted.phase.value} {content} {shown.value}" + f" slot {slot}" * (slot > 0))
        probe = simulated_probe(
            number, content, wanted.phase, _JUDGEMENTS.get(shown, Judgement.SKIP), times=self.times(content)
        )
        return replace(probe, verdict=_VERDICTS[shown], place=f"host {slot}")


def search(name: str, seed: int, trace: list[str] | None = None) -> Row:
    """One range of a world, by the product and by git bisect."""
    world = _made(name, seed)
    before = perf_counter()
    watched = _watched(world, name, seed)
    if trace is not None:
        watched.trace = trace
    task = SimulatedTask(simulated=watched, on_permit=lambda: _permit(watched), timings=None)
    crash = ""
    try:
        Loop(watched.workers).run([task])
    except Exception as error:
        crash = f"{type(error).__name__}: {error}"
    ending = Ending.CRASHED if crash else _ending(world, task.conclusion)
    culprits = task.conclusion.culprits if task.conclusion else ()
    suspects = task.conclusion.suspects if task.conclusion else ()
    git_world = _made(name, seed)
    git = git_bisect(git_world.history, Bench(git_world, Random(f"{name} {seed} runs")).run)
    return Row(
        world=name,
        seed=seed,
        commits=len(world.history),
        merges=world.history.merges,
        answers=" ".join(map(str, sorted(world.answers))),
        ending=ending,
        acceptable=ending in (Ending.RIGHT, Ending.WITH) or ending in world.fine,
        named=" ".join(each.commit for each in culprits),
        confidence=min((each.confidence or 0.0 for each in culprits), default=0.0),
        suspects=" ".join(each.commit for each in suspects),
        runs=len(watched.started),
        end_runs=watched.phases["endpoint"],
        confirm_runs=watched.phases["confirm"],
        seconds=round(perf_counter() - before, 3),
        message=crash or (task.conclusion.message if task.conclusion else str(task.error)),
        git_tests=git.tests,
        git_named="" if git.culprit is None else str(git.culprit),
        git_right=git.culprit in world.answers,
    )


def _made(name: str, seed: int) -> World:
    return WORLDS[name](Random(f"{name} {seed}"))


def _watched(world: World, name: str, seed: int) -> _Watched:
    workers = _Slots(jobs=world.slots, chance=Random(f"{name} {seed} order"))
    watched = _Watched(
        loaded=_loaded(world.history),
        outcome=lambda content: Judgement.SKIP,
        machine=workers,
        workers=workers,
        confidence=CONFIDENCE,
        bench=Bench(world, Random(f"{name} {seed} runs")),
    )

    def note(needs: Needs) -> None:
        watched.trace.extend(f"    {note}" for note in needs.notes)

    watched.on_needs = note
    return watched


def _permit(watched: _Watched) -> None:
    if len(watched.started) >= MOST_RUNS:
        raise BudgetSpentError(f"{MOST_RUNS} runs were made")


def _ending(world: World, conclusion: Conclusion | None) -> Ending:
    """What a conclusion is worth. What is named with less than the confidence is as a suspect."""
    if conclusion is None:
        # The loop has stopped with an error for the user, and there is one that a world can bring about.
        return Ending.REFUSED
    if conclusion.outcome in _ENDINGS:
        return _ENDINGS[conclusion.outcome]
    if conclusion.culprits and all((each.confidence or 0.0) >= CONFIDENCE for each in conclusion.culprits):
        named = {_commit(each.commit) for each in conclusion.culprits}
        return Ending.RIGHT if named <= world.answers else Ending.WRONG
    listed = {_commit(each.commit) for each in (*conclusion.culprits, *conclusion.suspects)}
    if not listed:
        return Ending.GAVE_UP
    return Ending.WITH if listed & world.answers else Ending.WITHOUT


def _loaded(history: History) -> LoadedRange:
    """A history as a bisection reads it; each commit has content of its own."""
    return loaded_range(
        [*map(str, range(len(history)))],
        CommitGraph([list(parents) for parents in history.parents]),
        _GOOD,
        forked={commit: str(parent) for commit, parent in history.forks.items() if parent != GOOD},
    )


def _commit(name: str) -> int:
    """The number of a commit in its history."""
    return GOOD if name == _GOOD else int(name)
