"""Costs are those of the store's own timings."""

from dataclasses import replace

import numpy as np

from precision_bisect.bisect.engine.range_search import Context, Timings, compute_expected_gain
from precision_bisect.bisect.engine.runs import FinishedProbe, ProbeLog, ProbeTimes
from precision_bisect.bisect.history.range import LoadedRange, SlotBuild
from precision_bisect.bisect.search.decision import next_run
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.halving import Probe as Step
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.rates import Rates
from precision_bisect.store.vocabulary import BuildSource, Judgement, Phase, Verdict
from tests.bisect.engine.simulated import loaded_range


def took(source: BuildSource, build: float, run: float) -> ProbeTimes:
    return ProbeTimes(build_source=source, build_seconds=build, run_seconds=run)


def test_nothing_is_said_before_anything_was_built() -> None:
    assert Timings.from_probes([]) is None
    assert Timings.from_probes([took(BuildSource.NONE, 30, 0)]) is None


def test_a_built_commit_costs_its_run_and_a_new_one_its_build_too() -> None:
    timings = Timings.from_probes(
        [
            took(BuildSource.BUILT, 500, 40),
            took(BuildSource.BUILT, 700, 60),
            took(BuildSource.PRESENT, 10, 50),
            took(BuildSource.NONE, 90, 0),
        ]
    )
    assert timings == Timings(run=50, full_build=600, rebuild=10)
    builds = timings.builds(np.array([True, True, False, False, False]))
    assert builds.tolist() == [10, 10, 600, 600, 600]


def test_builds_of_earlier_bisections_count_until_one_was_made_here() -> None:
    taken_up = took(BuildSource.CACHED, 5, 50)
    assert Timings.from_probes([], earlier=[500, 700]) is None
    assert Timings.from_probes([taken_up], earlier=[500, 700]) == Timings(run=50, full_build=600, rebuild=5)
    own = [taken_up, took(BuildSource.BUILT, 400, 70)]
    assert Timings.from_probes(own, earlier=[500, 700]) == Timings(run=60, full_build=400, rebuild=5)


def test_equal_costs_leave_the_certain_search_to_halving() -> None:
    graph = CommitGraph([[commit - 1] if commit else [] for commit in range(6)])
    posterior = Posterior.start(graph, Rates.unknown())
    # The two ends were built: neither is to be tested, all others cost the same.
    costs = np.array([650.0] * 5 + [60.0, 60.0])
    step = next_run(posterior, costs=costs)
    assert step == next_run(posterior)
    assert isinstance(step, Step)


def test_a_commit_whose_build_another_one_made_costs_no_build() -> None:
    graph = CommitGraph([[commit - 1] if commit else [] for commit in range(4)])
    loaded = loaded_range(["a", "b", "c", "d"], graph, "good")
    shared = replace(loaded, builds={"good": "old", "a": "old", "b": "old", "c": "new", "d": "new"})
    context = Context(timings=Timings(run=50, full_build=600, rebuild=10), built={"good", "d"})
    posterior = Posterior.start(graph, Rates.unknown())

    def builds(of: LoadedRange) -> list[float]:
        promise = compute_expected_gain(
            of, posterior, log=ProbeLog(), context=context, confidence=0.99, in_flight=[], before=0
        )
        return promise.builds.tolist()

    assert builds(loaded) == [600, 600, 600, 10, 10]
    assert builds(shared) == [10, 10, 10, 10, 10]
    context = replace(context, built={"good"})
    assert builds(shared) == [10, 10, 600, 600, 10]


def test_what_an_earlier_bisection_has_built_costs_no_build() -> None:
    graph = CommitGraph([[commit - 1] if commit else [] for commit in range(4)])
    loaded = replace(
        loaded_range(["a", "b", "c", "d"], graph, "good"),
        earlier_builds=((SlotBuild("b", "x", 300.0), SlotBuild("outside", "x", 500.0)),),
    )
    finished = FinishedProbe(
        number=1,
        content="good",
        phase=Phase.ENDPOINT,
        judgement=Judgement.GOOD,
        verdict=Verdict.PASS,
        metrics={},
        times=took(BuildSource.CACHED, 5, 50),
    )
    promise = compute_expected_gain(
        loaded,
        Posterior.start(graph, Rates.unknown()),
        log=ProbeLog(ended=(finished,)),
        context=Context(),
        confidence=0.99,
        in_flight=[],
        before=0,
    )
    assert promise.builds.tolist() == [400, 5, 400, 400, 5]
