"""Costs are those of the store's own timings."""

import random

import numpy as np

from precision_bisect.bisect.run_costs import run_costs
from precision_bisect.bisect.search.decision import as_if_certain, next_run
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.knowledge import Observation, Outcome
from precision_bisect.bisect.search.planner import Probe as Step
from precision_bisect.bisect.search.planner import next_step
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.rates import Rates
from precision_bisect.bisect.shared_builds import SharedBuilds
from precision_bisect.store.schema import BuildSource, Probe

ALONE = SharedBuilds()


def probe(content: str, source: BuildSource, build: float, run: float) -> Probe:
    return Probe(content=content, build_source=source, build_seconds=build, run_seconds=run)


def test_nothing_is_said_before_anything_was_built() -> None:
    assert run_costs(["a"], [], ALONE) is None
    assert run_costs(["a"], [probe("a", BuildSource.NONE, 30, 0)], ALONE) is None


def test_a_built_commit_costs_its_run_and_a_new_one_its_build_too() -> None:
    probes = [
        probe("a", BuildSource.BUILT, 500, 40),
        probe("b", BuildSource.BUILT, 700, 60),
        probe("a", BuildSource.PRESENT, 10, 50),
        probe("broken", BuildSource.NONE, 90, 0),
    ]
    costs = run_costs(["a", "b", "new", "broken", None], probes, ALONE)
    assert costs is not None
    assert costs.tolist() == [60, 60, 650, 650, 650]


def test_equal_costs_leave_the_certain_search_to_halving() -> None:
    graph = CommitGraph([[commit - 1] if commit else [] for commit in range(6)])
    posterior = Posterior.start(graph, Rates.unknown())
    # The two ends were built: neither is to be tested, all others cost the same.
    costs = np.array([650.0] * 5 + [60.0, 60.0])
    step = next_run(posterior, costs=costs)
    assert step == next_run(posterior)
    assert isinstance(step, Step)


def test_builds_of_others_are_there_and_builds_for_others_are_shared() -> None:
    probes = [probe("a", BuildSource.BUILT, 600, 50), probe("a", BuildSource.PRESENT, 10, 50)]
    shared = SharedBuilds(built=frozenset({"theirs"}), wanted={"both": 1, "all": 2, "theirs": 2})
    costs = run_costs(["a", "theirs", "new", "both", "all", None], probes, shared)
    assert costs is not None
    assert costs.tolist() == [60, 60, 650, 350, 250, 650]


def builds_of_two(culprits: tuple[int, int], ranges: tuple[range, range], *, together: bool) -> int:
    """Builds that two searches of one line need, the second behind the first; contents are places of the line."""
    built: set[str] = set()
    for mine, other, culprit in zip(ranges, reversed(ranges), culprits, strict=True):
        wanted = {str(place): 1 for place in other} if together and mine is ranges[0] else {}
        shared = SharedBuilds(built=frozenset(built) if together else frozenset(), wanted=wanted)
        graph = CommitGraph([[place - 1] if place else [] for place in range(len(mine))])
        posterior = Posterior.start(graph, Rates.unknown())
        probes: list[Probe] = []

        def run(place: int, probes: list[Probe] = probes) -> None:
            built.add(str(place))
            probes.append(probe(str(place), BuildSource.BUILT, 200, 5))

        run(mine[-1])
        while isinstance(step := next_step_of(posterior, mine, probes, shared), Step):
            place = mine[step.commit]
            run(place)
            posterior = posterior.observe(
                Observation(step.commit, Outcome.BAD if place >= culprit else Outcome.GOOD)
            )
    return len(built)


def next_step_of(posterior: Posterior, mine: range, probes: list[Probe], shared: SharedBuilds) -> object:
    """What is run next, or the answer; an answer is taken as soon as one commit is left."""
    costs = run_costs([*map(str, mine), "good"], probes, shared)
    certain = as_if_certain(posterior)
    assert certain is not None
    assert costs is not None
    return next_step(certain, weights=posterior.weights, costs=costs[:-1])


def test_two_searches_together_build_less_than_two_alone() -> None:
    chance = random.Random(5)
    alone = together = 0
    for _ in range(60):
        first, second = range(64), range(chance.randrange(0, 30), 64)
        culprits = chance.randrange(first[0] + 1, 63), chance.randrange(second[0] + 1, 63)
        alone += builds_of_two(culprits, (first, second), together=False)
        together += builds_of_two(culprits, (first, second), together=True)
    assert together < 0.95 * alone
