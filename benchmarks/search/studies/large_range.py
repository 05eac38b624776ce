"""python -m benchmarks.search.studies.large_range, from the repository's root: how long it takes to choose the next
probes in a range of 100,000 commits with 10 % merges, and how much memory."""

import random
import resource
from dataclasses import dataclass, field
from time import process_time

from precision_bisect.bisect.drive.loop import BudgetSpentError, Loop
from precision_bisect.bisect.engine.runs import ProbeLog
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.probe.pool import Event
from precision_bisect.store.vocabulary import Judgement, Phase
from tests.bisect.engine.simulated import (
    UNTIMED,
    Machine,
    SimulatedBisection,
    SimulatedTask,
    finished_simulation,
    loaded_range,
    simulated_probe,
    untimed,
)
from tests.bisect.search.search_histories import branching

_COMMITS = 100_000
_RUNS = 24
_RUNS_OF_EACH_END = 20
_GOOD = "good"


@dataclass(frozen=True, kw_only=True)
class LargeRange:
    """The slowest choice of a search, in seconds of processor time, and the most memory of the process so far.

    A choice is all that the tool computes between the end of a run and the start of the next ones, but for reading git
    and writing the store. The first one prepares the graph.
    """

    workers: int
    flaky: bool
    prepared: float
    seconds: float
    gigabytes: float


@dataclass
class _TimedMachine(Machine):
    """Its probes end in the order of their starts; it measures what is computed between them."""

    since: float = 0.0
    choices: list[float] = field(default_factory=list[float])

    def next_event(self, *, timeout: float | None) -> Event:
        """The end of the probe that was started first."""
        self.choices.append(process_time() - self.since)
        number = self.flying.pop(0)
        self.since = process_time()
        return finished_simulation(number)


def measure() -> list[LargeRange]:
    """Searches, deterministic and flaky, with one worker and with eight, of which some runs are skips."""
    return [_search(workers=workers, flaky=flaky) for workers in (1, 8) for flaky in (False, True)]


def _search(*, workers: int, flaky: bool) -> LargeRange:
    rng = random.Random(1)
    parents = branching(_COMMITS, 0.1, rng)
    culprit = rng.randrange(_COMMITS)
    started = process_time()
    graph = CommitGraph(parents)
    graph_seconds = process_time() - started
    machine = _TimedMachine(jobs=workers)

    def outcome(content: str) -> Judgement:
        if len(machine.choices) in (3, 6):
            return Judgement.SKIP
        bad = content != _GOOD and bool(graph.ancestors(int(content))[culprit])
        return Judgement.BAD if bad and (not flaky or rng.random() < 0.8) else Judgement.GOOD

    def check_budget() -> None:
        if len(machine.choices) >= _RUNS:
            raise BudgetSpentError("enough was measured")

    simulated = SimulatedBisection(
        loaded=loaded_range([*map(str, range(_COMMITS))], graph, _GOOD),
        outcome=outcome,
        times=untimed,
        machine=machine,
        log=_measured_ends(str(graph.bad), flaky=flaky),
    )
    machine.since = process_time()
    Loop(machine).run([SimulatedTask(simulated=simulated, on_check_budget=check_budget, timings=None)])
    first, *later = machine.choices
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return LargeRange(
        workers=workers,
        flaky=flaky,
        prepared=graph_seconds + first,
        seconds=max(later),
        gigabytes=memory,
    )


def _measured_ends(bad: str, *, flaky: bool) -> ProbeLog:
    """Both ends were run often enough before; where it is flaky, the bad one passed in every fifth run."""
    shown: list[tuple[str, Judgement]] = []
    for run in range(_RUNS_OF_EACH_END):
        passed = flaky and run % 5 == 4
        shown += [(_GOOD, Judgement.GOOD), (bad, Judgement.GOOD if passed else Judgement.BAD)]
    return ProbeLog(
        tuple(
            simulated_probe(number, content, Phase.ENDPOINT, judgement, times=UNTIMED)
            for number, (content, judgement) in enumerate(shown, 1)
        )
    )


def main() -> None:
    """Print what was measured."""
    for each in measure():
        runs = "flaky" if each.flaky else "deterministic"
        print(
            f"{each.workers} workers, {runs}: {each.prepared:.2f} s to prepare and choose first, "
            f"{each.seconds:.2f} s at most after that, {each.gigabytes:.2f} GB"
        )


if __name__ == "__main__":
    main()
