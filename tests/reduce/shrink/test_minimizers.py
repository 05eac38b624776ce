"""Each minimizer's promise, on oracles of which the truth is known."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from itertools import combinations
from math import ceil, log2

import pytest

from benchmarks.reduce.minimizers.ddmin import Ddmin
from benchmarks.reduce.minimizers.probdd import ProbDD
from benchmarks.reduce.minimizers.window import Window
from precision_bisect.reduce.shrink.minimize import (
    Answer,
    CutBisection,
    Cuts,
    DependencyGraph,
    Memory,
    Minimizer,
    MinimizerState,
    Phases,
    Query,
    Subset,
    Sweep,
    Trial,
    cautious_rate,
    minimize,
    passes_to_reject,
)
from tests.reduce.shrink.oracles import Caller, lawless, needing, random_graph

STARTS: dict[str, Callable[[DependencyGraph], MinimizerState[Subset]]] = {  # pyright: ignore[reportAssignmentType]
    "schedule": minimize,
    "bisection": CutBisection.start,
    "cuts": lambda graph: Cuts.start(graph, graph.all_elements),
    "ddmin": Ddmin.start,
    "probdd": ProbDD.start,
    "probdd .1": lambda graph: ProbDD.start(graph, prior=0.1),
    "window": Window.start,
    "sweep": lambda graph: Sweep.start(graph, graph.all_elements),
}
MINIMAL = ("schedule", "ddmin", "sweep")
EXACT = tuple(name for name in STARTS if name != "window")


def is_closed(graph: DependencyGraph, candidate: Subset) -> bool:
    return all(set(graph.predecessors[element]) <= candidate for element in candidate)


@pytest.mark.parametrize("name", STARTS)
def test_on_lawless_oracles_the_result_is_interesting_closed_and_was_asked_once(name: str) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        graph = random_graph(rng, rng.randrange(1, 14))
        oracle = lawless(seed, graph.all_elements)
        caller = Caller(oracle)
        best = caller.minimize(STARTS[name](graph))
        assert oracle(Trial(best, 0)) is Answer.INTERESTING
        assert is_closed(graph, best)
        runs = [run for run, _ in caller.made]
        assert len(runs) == len(set(runs))
        assert all(run.candidate and is_closed(graph, run.candidate) for run in runs)
        if name in MINIMAL:
            for element in graph.sinks(best):
                less = best - {element}
                assert not less or oracle(Trial(less, 0)) is not Answer.INTERESTING


@pytest.mark.parametrize("name", STARTS)
def test_workers_and_their_order_change_nothing(name: str) -> None:
    for seed in range(25):
        graph = random_graph(random.Random(seed), 12)
        oracle = lawless(seed, graph.all_elements)
        results = {
            Caller(oracle, workers, random.Random(seed)).minimize(STARTS[name](graph))
            for workers in (1, 2, 3, 8)
        }
        assert len(results) == 1


def test_workers_and_their_order_change_nothing_of_flaky_failures() -> None:
    for seed in range(10):
        graph = random_graph(random.Random(seed), 30)
        oracle = needing(3, 17, rate=0.5, seed=seed)
        results = {
            Caller(oracle, workers, random.Random(seed)).minimize(minimize(graph, rate=0.5))
            for workers in (1, 2, 5)
        }
        assert len(results) == 1


@pytest.mark.parametrize("name", EXACT)
def test_what_is_needed_is_found_with_its_ancestors_and_no_more(name: str) -> None:
    for seed in range(40):
        rng = random.Random(seed)
        graph = random_graph(rng, rng.randrange(2, 60))
        needed = rng.sample(range(len(graph)), rng.randrange(1, min(6, len(graph) + 1)))
        assert Caller(needing(*needed)).minimize(STARTS[name](graph)) == graph.with_ancestors(needed)


def test_the_result_is_a_least_one_by_brute_force() -> None:
    """Oracles that stay interesting when more is kept, and have one least candidate or several."""
    for seed in range(40):
        rng = random.Random(seed)
        graph = random_graph(rng, 9)
        causes = [set(rng.sample(range(9), 2)) for _ in range(rng.choice((1, 2)))]

        def interesting(candidate: Subset, causes: list[set[int]] = causes) -> bool:
            return any(cause <= candidate for cause in causes)

        best = Caller(
            lambda run: Answer.INTERESTING if interesting(run.candidate) else Answer.PASSED
        ).minimize(minimize(graph))
        smaller = (frozenset(kept) for size in range(len(best)) for kept in combinations(sorted(best), size))
        assert interesting(best)
        assert not any(interesting(kept) for kept in smaller if is_closed(graph, kept))


@pytest.mark.parametrize("n", [64, 1024])
def test_one_fault_takes_a_bisection_and_a_sweep(n: int) -> None:
    for fault in range(0, n, n // 16):
        caller = Caller(needing(fault))
        assert caller.minimize(minimize(DependencyGraph.edgeless(n))) == {fault}
        assert len(caller.made) <= log2(n) + 4


def test_few_faults_take_about_as_many_bisections() -> None:
    rng = random.Random(0)
    for count in (2, 3, 5):
        for _ in range(10):
            needed = frozenset(rng.sample(range(512), count))
            caller = Caller(needing(*needed))
            assert caller.minimize(minimize(DependencyGraph.edgeless(512))) == needed
            assert len(caller.made) <= count * (log2(512) + 5)


def test_when_all_is_needed_it_costs_little_more_than_to_test_each() -> None:
    caller = Caller(needing(*range(64)))
    assert caller.minimize(minimize(DependencyGraph.edgeless(64))) == set(range(64))
    assert len(caller.made) <= 3 * 64


def test_the_ancestors_of_the_failing_output_come_first() -> None:
    graph = DependencyGraph(tuple((task - 2,) if task >= 2 else () for task in range(40)))
    caller = Caller(needing(5))
    assert caller.minimize(minimize(graph, targets=frozenset({39}))) == {1, 3, 5}
    assert caller.made[0][0].candidate == set(range(1, 40, 2))


def test_another_failure_is_stepped_around() -> None:
    """Task 20 fails otherwise without task 50, which it does not declare to need."""

    def oracle(run: Trial[Subset]) -> Answer:
        if 20 in run.candidate and 50 not in run.candidate:
            return Answer.SLIPPED
        return Answer.INTERESTING if 30 in run.candidate else Answer.PASSED

    caller = Caller(oracle)
    assert caller.minimize(minimize(DependencyGraph.edgeless(64))) == {30}
    assert Answer.SLIPPED in {outcome for _, outcome in caller.made}


@pytest.mark.parametrize("rate", [0.3, 0.6])
def test_a_flaky_failure_is_never_lost_and_nearly_always_minimal(rate: float) -> None:
    minimal = 0
    for seed in range(40):
        rng = random.Random(seed)
        graph = random_graph(rng, 40)
        needed = rng.sample(range(40), 2)
        best = Caller(needing(*needed, rate=rate, seed=seed)).minimize(minimize(graph, rate=rate))
        assert set(needed) <= best
        minimal += best == graph.with_ancestors(needed)
    assert minimal >= 38


@pytest.mark.parametrize("instant", range(25))
def test_what_was_interrupted_goes_on_and_repeats_no_run(instant: int) -> None:
    rng = random.Random(instant)
    graph = random_graph(rng, 60)
    rate = rng.choice((1.0, 0.5))
    oracle = needing(*rng.sample(range(60), 3), rate=rate, seed=instant)
    whole = Caller(oracle)
    best = whole.minimize(minimize(graph, rate=rate))
    first = Caller(oracle, workers=rng.choice((1, 2)))
    first.minimize(minimize(graph, rate=rate), most=rng.randrange(len(whole.made)))
    second = Caller(oracle)
    assert second.minimize(minimize(graph, rate=rate), Memory(first.made)) == best
    assert not {run for run, _ in first.made} & {run for run, _ in second.made}


def test_a_finished_search_is_replayed_without_a_run() -> None:
    graph = DependencyGraph.edgeless(50)
    first = Caller(needing(7, 31))
    best = first.minimize(minimize(graph))
    again = Minimizer(minimize(graph), Memory(first.made))
    assert (again.is_done, again.best, again.ask(4)) == (True, best, [])


def test_picire_comes_to_the_same_result_in_more_runs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks for pkg_resources, which setuptools gives up
        picire = pytest.importorskip("picire", reason="picire is not installed")
    ours = theirs = 0
    for seed in range(10):
        rng = random.Random(seed)
        graph = random_graph(rng, 64)
        oracle = needing(*rng.sample(range(64), 2))
        asked: set[Subset] = set()

        def test(config: list[int], _id: object) -> object:
            candidate = graph.closed_subset(config)  # noqa: B023
            asked.add(candidate)  # noqa: B023
            fails = oracle(Trial(candidate, 0)) is Answer.INTERESTING  # noqa: B023
            return picire.Outcome.FAIL if fails else picire.Outcome.PASS

        caller = Caller(oracle)
        assert caller.minimize(minimize(graph)) == graph.closed_subset(picire.DD(test)(list(range(64))))
        ours, theirs = ours + len(caller.made), theirs + len(asked - {graph.all_elements, frozenset()})
    assert ours < theirs


def test_probdd_first_drops_what_gains_most() -> None:
    """With p = 0.1, i (1 - p)^i is largest at i = 9 or 10; with 2 / n, at about n / 2."""
    few, many = (
        ProbDD.start(DependencyGraph.edgeless(100), prior=0.1),
        ProbDD.start(DependencyGraph.edgeless(100)),
    )
    assert few.query
    assert many.query
    assert 100 - len(few.query.candidate) in (9, 10)
    assert 100 - len(many.query.candidate) in (49, 50)


def test_window_keeps_a_prefix_and_then_a_suffix() -> None:
    caller = Caller(needing(20, 40))
    assert caller.minimize(Window.start(DependencyGraph.edgeless(64))) == set(range(20, 41))
    assert len(caller.made) <= 2 * ceil(log2(64))


def test_a_schedule_skips_phases_with_nothing_to_ask() -> None:
    one = DependencyGraph.edgeless(1)
    assert Phases.start(Ddmin.start(one), lambda best, _seen: Sweep.start(one, best)).best == {0}  # pyright: ignore[reportArgumentType]
    assert Caller(needing(0)).minimize(minimize(one)) == {0}
    assert Minimizer(minimize(DependencyGraph.edgeless(0))).is_done


def test_all_of_a_long_series_of_passes_is_asked_for() -> None:
    start = minimize(DependencyGraph.edgeless(2), rate=0.02)
    assert passes_to_reject(0.02, 0.01) > 200
    assert Caller(needing(0, 1, rate=0.02)).minimize(start) == {0, 1}


def test_no_run_is_asked_for_twice_or_told_unasked() -> None:
    minimizer = Minimizer(minimize(DependencyGraph.edgeless(32)))
    asked = [run for _ in range(4) for run in minimizer.ask(3)]
    assert len(asked) == len(set(asked)) == 12
    minimizer.tell(asked[0], Answer.PASSED)
    with pytest.raises(ValueError, match="expected a run that was asked for"):
        minimizer.tell(asked[0], Answer.PASSED)


def test_memory_answers_from_the_first_runs_alone() -> None:
    candidate = frozenset({1})
    memory = Memory([(Trial(candidate, 1), Answer.INTERESTING)])
    assert memory.answer(Query(candidate, 2)) is None
    memory.record(Trial(candidate, 0), Answer.SLIPPED)
    assert memory.answer(Query(candidate, 1)) is Answer.SLIPPED
    assert memory.answer(Query(candidate, 2)) is Answer.INTERESTING
    assert memory.answer(Query(frozenset(), 9)) is Answer.PASSED
    with pytest.raises(ValueError, match="expected a new run"):
        memory.record(Trial(candidate, 0), Answer.PASSED)
    assert dict(Memory(memory)) == dict(memory)


def test_patience_keeps_its_error() -> None:
    for rate in (0.05, 0.3, 0.6, 0.99):
        m = passes_to_reject(rate, 0.01)
        assert (1 - rate) ** m <= 0.01 * (1 + 1e-9)
        assert m == 1 or (1 - rate) ** (m - 1) > 0.01
    assert cautious_rate(5, 5) == 1
    assert 0.1 < cautious_rate(3, 10) < 0.3
    for wrong in (
        lambda: cautious_rate(0, 5),
        lambda: passes_to_reject(0, 0.01),
        lambda: DependencyGraph(((1,), ())),
    ):
        with pytest.raises(ValueError, match="expected"):
            wrong()
