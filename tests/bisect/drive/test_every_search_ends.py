"""Every search ends within its bound, whatever the runs show: random graphs, and oracles in and out of the model."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.bisect.engine.range_search import Context
from precision_bisect.bisect.engine.runs import Needs
from precision_bisect.bisect.search.decision import max_runs
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.runner.errors import EndsError
from precision_bisect.store.vocabulary import Judgement
from tests.bisect.engine.simulated import Machine, SimulatedBisection, SimulatedTask, loaded_range
from tests.bisect.search.search_histories import branching

_GOOD = "good"
Oracle = Callable[[str, int], float]
"""The chance that a run of a commit fails, which is the n-th of all."""


def one_culprit(rng: random.Random, graph: CommitGraph) -> Oracle:
    """In the model: two rates."""
    culprit, good, bad = (
        rng.randrange(len(graph)),
        rng.choice([0, 0, 0.05, 0.2]),
        rng.choice([1, 1, 0.9, 0.5]),
    )
    return lambda name, run: bad if name != _GOOD and graph.ancestors(int(name))[culprit] else good


def any_outcomes(rng: random.Random, graph: CommitGraph) -> Oracle:
    """Each commit always shows what was drawn for it, but the ends."""
    fails = {str(commit): float(rng.random() < 0.5) for commit in range(len(graph))} | {_GOOD: 0.0}
    fails[str(graph.bad)] = 1.0
    return lambda name, run: fails[name]


def any_rates(rng: random.Random, graph: CommitGraph) -> Oracle:
    """Each commit, the ends too, has a rate of its own."""
    rates = {name: rng.random() for name in [_GOOD, *map(str, range(len(graph)))]}
    return lambda name, run: rates[name]


def one_rate(rng: random.Random, graph: CommitGraph) -> Oracle:
    """Nothing broke."""
    rate = rng.choice([0.0, 0.02, 0.3, 0.7, 1.0])
    return lambda name, run: rate


def moving(rng: random.Random, graph: CommitGraph) -> Oracle:
    """From some run on everything shows the same, then the truth again, in turns."""
    truth, period, shows = one_culprit(rng, graph), rng.randint(3, 40), rng.choice([0.0, 1.0])
    return lambda name, run: truth(name, run) if run // period % 2 == 0 else shows


def contrary(rng: random.Random, graph: CommitGraph) -> Oracle:
    """The runs of a commit take turns."""
    runs = Counter[str]()

    def shows(name: str, run: int) -> float:
        runs[name] += 1
        return float(runs[name] % 2 == (name != _GOOD))

    return shows


ORACLES = (one_culprit, any_outcomes, any_rates, one_rate, moving, contrary)


def ending(seed: int) -> str:
    """Search one range, and tell how it ended. Fails where it went past its bound."""
    rng = random.Random(seed)
    graph = CommitGraph(branching(rng.randint(1, 24), rng.choice([0.0, 0.1, 0.3]), rng))
    oracle = ORACLES[seed % len(ORACLES)](rng, graph)
    skips = {str(commit) for commit in range(graph.bad) if rng.random() < rng.choice([0, 0, 0.3])}
    bounds = [0]

    def outcome(name: str) -> Judgement:
        fails = rng.random() < oracle(name, len(simulated.started))
        return Judgement.SKIP if name in skips else Judgement.BAD if fails else Judgement.GOOD

    def note(needs: Needs) -> None:
        search = simulated.bisection.state.search
        if search is not None:
            bounds.append(max_runs(search.posterior(simulated.bisection.known, Context())))

    simulated = SimulatedBisection(
        loaded=loaded_range([*map(str, range(len(graph)))], graph, _GOOD),
        outcome=outcome,
        machine=Machine(jobs=rng.choice([1, 1, 3])),
        on_needs=note,
    )
    task = SimulatedTask(simulated=simulated)
    Loop(simulated.machine).run([task])
    # Runs that were cancelled, for they had lost their value, count for nothing.
    judged = sum(probe.judgement is not Judgement.SKIP for probe in simulated.bisection.known.log.ended)
    # Workers end what they have begun.
    assert judged < max(bounds) + simulated.machine.jobs, (seed, judged, max(bounds))
    if task.conclusion is None:
        assert isinstance(task.error, EndsError), (seed, task.error)
        return "ends do not differ"
    return task.conclusion.outcome.value


def test_a_search_ends_within_its_bound() -> None:
    """Two of each oracle."""
    assert sum(Counter(map(ending, range(12))).values()) == 12


@pytest.mark.long
@pytest.mark.parametrize("hundred", range(2))
def test_hundreds_of_searches_end_within_their_bounds(
    hundred: int, record_property: Callable[[str, object], None]
) -> None:
    for outcome, count in Counter(map(ending, range(100 * hundred, 100 * (hundred + 1)))).items():
        record_property(outcome, count)
