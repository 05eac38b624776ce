"""All contenders on the same elements and oracle, behind the same memory, equally patient with flaky failures."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.reduce.minimizers.ddmin import Ddmin
from benchmarks.reduce.minimizers.probdd import ProbDD
from benchmarks.reduce.minimizers.window import Window
from benchmarks.reduce.world import World
from precision_bisect.reduce.shrink.minimize import (
    Answer,
    DependencyGraph,
    Memory,
    Minimizer,
    MinimizerState,
    Query,
    Subset,
    Trial,
    minimize,
    passes_to_reject,
)

ERROR = 0.01


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """The result, all runs made for it, and the simulated seconds from the first to the last."""

    best: Subset
    runs: Memory[Subset]
    seconds: float


# Of a graph, how often an interesting candidate fails, and after how many passes one is rejected.
STATES: dict[str, Callable[[DependencyGraph, float, int], MinimizerState[Subset]]] = {
    "ours": lambda graph, rate, _runs: minimize(graph, rate=rate, error=ERROR),
    "ddmin": lambda graph, _rate, runs: Ddmin.start(graph, runs=runs),
    "ProbDD .1": lambda graph, _rate, runs: ProbDD.start(graph, prior=0.1, runs=runs),
    "ProbDD 2/n": lambda graph, _rate, runs: ProbDD.start(graph, runs=runs),
    "window": lambda graph, _rate, runs: Window.start(graph, runs=runs),
}
NAMES = [*STATES, "picire"]


def run(name: str, world: World, *, adapted: bool, workers: int) -> Reduced:
    """`adapted`: the contender knows the graph, and candidates are closed; if not, it has a list of tasks."""
    graph = world.graph if adapted else DependencyGraph.edgeless(world.cell.n)
    runs = passes_to_reject(world.cell.rate, ERROR)
    if name == "picire":
        return _picire(world, graph, runs)
    return _simulate(world, STATES[name](graph, world.cell.rate, runs), workers)


def _simulate(world: World, start: MinimizerState[Subset], workers: int) -> Reduced:
    """In rounds, as the product does: as many runs as there are workers, and then their outcomes."""
    minimizer = Minimizer(start)
    seconds = 0.0
    while not minimizer.is_done:
        asked = minimizer.ask(workers)
        seconds += max(world.seconds(one) for one in asked)
        for one in asked:
            minimizer.tell(one, world.outcome(one))
    return Reduced(best=minimizer.best, runs=minimizer.memory, seconds=seconds)


def _picire(world: World, graph: DependencyGraph, runs: int) -> Reduced:
    """picire's DD with its defaults; it tests its best again and again, which the memory answers."""
    import picire

    memory, seconds = Memory(), 0.0

    def test(config: list[int], _config_id: object) -> picire.Outcome:
        nonlocal seconds
        candidate = graph.closed_subset(config)
        if candidate == graph.all_elements:
            return picire.Outcome.FAIL  # as all contenders know
        number = 0
        while (answer := memory.answer(Query(candidate, runs))) is None:
            asked = Trial(candidate, number)
            memory.record(asked, world.outcome(asked))
            seconds += world.seconds(asked)
            number += 1
        return picire.Outcome.FAIL if answer is Answer.INTERESTING else picire.Outcome.PASS

    minimal = picire.DD(test)(list(range(world.cell.n)))
    return Reduced(best=graph.closed_subset(minimal), runs=memory, seconds=seconds)
