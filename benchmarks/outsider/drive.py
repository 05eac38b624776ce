"""The product's own bisection and loop, driven over a world; what it ended with; and git bisect beside it."""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from time import perf_counter
from typing import Any, Self

from benchmarks.outsider.git import git_bisect
from benchmarks.outsider.history import GOOD, History
from benchmarks.outsider.world import Bench, Ending, Shown, World
from benchmarks.outsider.worlds import WORLDS
from precision_bisect.bisect.drive.loop import BudgetSpentError, Loop
from precision_bisect.bisect.engine.answer import Conclusion
from precision_bisect.bisect.engine.range_search import Timings
from precision_bisect.bisect.engine.runs import FinishedProbe, WantedProbe
from precision_bisect.bisect.history.range import LoadedRange
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.probe.probe import ProbeRequest
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Verdict
from tests.bisect.engine.simulated import (
    Machine,
    SimulatedBisection,
    SimulatedTask,
    asked,
    loaded_range,
    simulated_probe,
)

MAX_RUNS = 500
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
class Slots(Machine):
    """Workers that know in which slot of the machine a run is made."""

    slots: dict[int, int] = field(default_factory=dict[int, int])

    def begin(self, request: ProbeRequest) -> int:
        """Start a probe in the first free slot."""
        taken = {self.slots[number] for number in self.flying}
        number = super().begin(request)
        free = {*range(self.jobs)} - taken
        avoided = {slot for slot in free if _place(slot) in asked(request).avoid}
        self.slots[number] = min(free - avoided or free)
        return number


@dataclass(eq=False, kw_only=True)
class Watched(SimulatedBisection):
    """A bisection of a world, whose runs are a bench's. `trace`, where it is wanted, has all that can be seen of it."""

    bench: Bench
    workers: Slots
    phases: Counter[str] = field(default_factory=Counter[str])
    trace: list[str] = field(default_factory=list[str])

    @classmethod
    def of(cls, bench: Bench, workers: Slots, **asked: Any) -> Self:
        """A bisection of the world of a bench. `asked`: fields of `SimulatedBisection`."""
        return cls(
            loaded=_loaded(bench.world.history),
            outcome=lambda content: Judgement.SKIP,
            machine=workers,
            workers=workers,
            bench=bench,
            confidence=CONFIDENCE,
            **asked,
        )

    def finished(self, number: int, wanted: WantedProbe) -> FinishedProbe:
        """What a run shows, in the slot where it was made."""
        content, slot = wanted.target.content, self.workers.slots[number]
        shown = self.bench.run(commit_number(content), slot)
        self.phases[wanted.phase.value] += 1
        self.trace.append(f"{wanted.phase.value} {content} {shown.value}" + f" slot {slot}" * (slot > 0))
        probe = simulated_probe(
            number, content, wanted.phase, _JUDGEMENTS.get(shown, Judgement.SKIP), times=self.times(content)
        )
        return replace(probe, verdict=_VERDICTS[shown], place=_place(slot))


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a search ended. named, suspects: commits. runs: all that a user waited for."""

    ending: Ending
    named: tuple[int, ...]
    confidence: float
    suspects: tuple[int, ...]
    runs: int
    message: str


def drive(watched: Watched, *, max_runs: int = MAX_RUNS, timings: Timings | None = None) -> Ended:
    """The product's loop and bisection, to their end or until so many runs were made."""

    def check_budget() -> None:
        if len(watched.started) >= max_runs:
            raise BudgetSpentError(f"{max_runs} runs were made")

    task = SimulatedTask(simulated=watched, on_check_budget=check_budget, timings=timings)
    crash = ""
    try:
        Loop(watched.workers).run([task])
    except Exception as error:
        crash = f"{type(error).__name__}: {error}"
    culprits = task.conclusion.culprits if task.conclusion else ()
    suspects = task.conclusion.suspects if task.conclusion else ()
    return Ended(
        ending=Ending.CRASHED if crash else _ending(watched.bench.world, task.conclusion),
        named=tuple(commit_number(each.commit) for each in culprits),
        confidence=min((each.confidence or 0.0 for each in culprits), default=0.0),
        suspects=tuple(commit_number(each.commit) for each in suspects),
        runs=len(watched.started),
        message=crash or (task.conclusion.message if task.conclusion else str(task.error)),
    )


def search(name: str, seed: int, trace: list[str] | None = None) -> Row:
    """One range of a world, by the product and by git bisect."""
    world = _made(name, seed)
    before = perf_counter()
    workers = Slots(jobs=world.slots, chance=Random(f"{name} {seed} order"))
    watched = Watched.of(Bench(world, Random(f"{name} {seed} runs")), workers)
    watched.on_needs = lambda needs: watched.trace.extend(f"    {note}" for note in needs.notes)
    if trace is not None:
        watched.trace = trace
    ended = drive(watched)
    git_world = _made(name, seed)
    git = git_bisect(git_world.history, Bench(git_world, Random(f"{name} {seed} runs")).run)
    return Row(
        world=name,
        seed=seed,
        commits=len(world.history),
        merges=world.history.merges,
        answers=" ".join(map(str, sorted(world.answers))),
        ending=ended.ending,
        acceptable=ended.ending in (Ending.RIGHT, Ending.WITH) or ended.ending in world.fine,
        named=" ".join(map(str, ended.named)),
        confidence=ended.confidence,
        suspects=" ".join(map(str, ended.suspects)),
        runs=ended.runs,
        end_runs=watched.phases["endpoint"],
        confirm_runs=watched.phases["confirm"],
        seconds=round(perf_counter() - before, 3),
        message=ended.message,
        git_tests=git.tests,
        git_named="" if git.culprit is None else str(git.culprit),
        git_right=git.culprit in world.answers,
    )


def _made(name: str, seed: int) -> World:
    return WORLDS[name](Random(f"{name} {seed}"))


def _ending(world: World, conclusion: Conclusion | None) -> Ending:
    """What a conclusion is worth. What is named with less than the confidence is as a suspect."""
    if conclusion is None:
        # The loop has stopped with an error for the user, and there is one that a world can bring about.
        return Ending.REFUSED
    if conclusion.outcome in _ENDINGS:
        return _ENDINGS[conclusion.outcome]
    if conclusion.culprits and all((each.confidence or 0.0) >= CONFIDENCE for each in conclusion.culprits):
        named = {commit_number(each.commit) for each in conclusion.culprits}
        return Ending.RIGHT if named <= world.answers else Ending.WRONG
    listed = {commit_number(each.commit) for each in (*conclusion.culprits, *conclusion.suspects)}
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


def _place(slot: int) -> str:
    return f"slot {slot}"


def commit_number(name: str) -> int:
    """The number of a commit in its history."""
    return GOOD if name == _GOOD else int(name)
