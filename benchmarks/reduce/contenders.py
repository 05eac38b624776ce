"""All contenders on the same elements and oracle, behind the same memory, equally patient with flaky failures."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.reduce.minimizers.ddmin import Ddmin
from benchmarks.reduce.minimizers.probdd import ProbDD
from benchmarks.reduce.minimizers.window import Window
from benchmarks.reduce.world import World
from precision_bisect.reduce.shrink.minimize.graph import Graph
from precision_bisect.reduce.shrink.minimize.memory import Memory
from precision_bisect.reduce.shrink.minimize.minimizer import Minimizer
from precision_bisect.reduce.shrink.minimize.outcome import Candidate, Outcome, Query, Run
from precision_bisect.reduce.shrink.minimize.patience import passes_to_reject
from precision_bisect.reduce.shrink.minimize.schedule import minimize
from precision_bisect.reduce.shrink.minimize.state import State

ERROR = 0.01


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result, all runs made for it, and the simulated seconds from the first to the last."""

    best: Candidate
    runs: Memory
    seconds: float


# Of a graph, how often an interesting candidate fails, and after how many passes one is rejected.
STATES: dict[str, Callable[[Graph, float, int], State]] = {
    "ours": lambda graph, rate, _runs: minimize(graph, rate=rate, error=ERROR),
    "ddmin": lambda graph, _rate, runs: Ddmin.start(graph, runs=runs),
    "ProbDD .1": lambda graph, _rate, runs: ProbDD.start(graph, prior=0.1, runs=runs),
    "ProbDD 2/n": lambda graph, _rate, runs: ProbDD.start(graph, runs=runs),
    "window": lambda graph, _rate, runs: Window.start(graph, runs=runs),
}
NAMES = [*STATES, "picire"]


def run(name: str, world: World, *, adapted: bool, workers: int) -> Answer:
    """`adapted`: the contender knows the graph, and candidates are closed; if not, it has a list of tasks."""
    graph = world.graph if adapted else Graph.free(world.cell.n)
    runs = passes_to_reject(world.cell.rate, ERROR)
    if name == "picire":
        return _picire(world, graph, runs)
    return _simulate(world, STATES[name](graph, world.cell.rate, runs), workers)


def _simulate(world: World, start: State, workers: int) -> Answer:
    """In rounds, as the driver does: as many runs as there are workers, and then their outcomes."""
    minimizer = Minimizer(start)
    seconds = 0.0
    while not minimizer.done:
        asked = minimizer.ask(workers)
        seconds += max(world.seconds(one) for one in asked)
        for one in asked:
            minimizer.tell(one, world.outcome(one))
    return Answer(best=minimizer.best, runs=minimizer.memory, seconds=seconds)


def _picire(world: World, graph: Graph, runs: int) -> Answer:
    """picire's DD with its defaults; it tests its best again and again, which the memory answers."""
    import picire

    memory, seconds = Memory(), 0.0

    def test(config: list[int], _config_id: object) -> picire.Outcome:
        nonlocal seconds
        candidate = graph.closed(config)
        if candidate == graph.everything:
            return picire.Outcome.FAIL  # as all contenders know
        number = 0
        while (answer := memory.answer(Query(candidate, runs))) is None:
            asked = Run(candidate, number)
            memory.record(asked, world.outcome(asked))
            seconds += world.seconds(asked)
            number += 1
        return picire.Outcome.FAIL if answer is Outcome.INTERESTING else picire.Outcome.PASS

    minimal = picire.DD(test)(list(range(world.cell.n)))
    return Answer(best=graph.closed(minimal), runs=memory, seconds=seconds)
