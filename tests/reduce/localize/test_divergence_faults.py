"""Graphs with planted faults: what is found is right, and takes few runs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.reduce.graph.tasks import Dag
from precision_bisect.reduce.localize.first_divergence import BudgetTooSmallError, Observations, next_tasks
from tests.support.quick import examples

Wiring = Callable[[random.Random, int], tuple[int, ...]]


def chain(_rng: random.Random, task: int) -> tuple[int, ...]:
    return (task - 1,) if task else ()


def nearby(rng: random.Random, task: int) -> tuple[int, ...]:
    return (
        tuple(sorted({rng.randrange(max(0, task - 8), task) for _ in range(rng.choice((1, 1, 2, 3)))}))
        if task
        else ()
    )


def layers(rng: random.Random, task: int, width: int = 20) -> tuple[int, ...]:
    start = (task // width - 1) * width
    return tuple(sorted(rng.sample(range(start, start + width), rng.choice((1, 2, 3))))) if start >= 0 else ()


def anywhere(rng: random.Random, task: int) -> tuple[int, ...]:
    return tuple(sorted({rng.randrange(task) for _ in range(rng.choice((1, 2, 3)))})) if task else ()


def lanes(_rng: random.Random, task: int) -> tuple[int, ...]:
    return (task - 10,) if task >= 10 else ()


def graph(rng: random.Random, tasks: int, wiring: Wiring) -> Dag:
    return Dag(
        predecessors=tuple(wiring(rng, task) for task in range(tasks)),
        sizes=tuple(rng.choice((256, 1024, 4096, 16384)) for _ in range(tasks)),
    )


def sinks(dag: Dag) -> list[int]:
    read = {above for predecessors in dag.predecessors for above in predecessors}
    return [task for task in range(len(dag)) if task not in read]


def spread(dag: Dag, faults: set[int], rng: random.Random, swallowed: float = 0.0) -> list[bool]:
    """Which tasks diverge if each edge swallows a divergence with a given probability."""
    diverges: list[bool] = []
    for task, predecessors in enumerate(dag.predecessors):
        hit = any(diverges[above] and rng.random() >= swallowed for above in predecessors)
        diverges.append(task in faults or hit)
    return diverges


def true_firsts(dag: Dag, diverges: list[bool]) -> set[int]:
    return {t for t in range(len(dag)) if diverges[t] and not any(diverges[p] for p in dag.predecessors[t])}


def search(observations: Observations, budget: int, diverges: list[bool]) -> list[tuple[int, ...]]:
    """Run to the end; the tasks dumped in each run."""
    runs: list[tuple[int, ...]] = []
    while tasks := next_tasks(observations, budget):
        assert sum(observations.dag.sizes[task] for task in tasks) <= budget
        assert not observations.observed_tasks[list(tasks)].any()
        observations.observe({task: diverges[task] for task in tasks})
        runs.append(tasks)
    return runs


def found(observations: Observations) -> set[int]:
    return set(np.flatnonzero(observations.firsts()).tolist())


@pytest.mark.parametrize("wiring", [chain, nearby, layers, anywhere, lanes])
def test_one_fault_among_a_thousand_tasks_takes_few_runs(wiring: Wiring) -> None:
    runs: list[int] = []
    for seed in range(20):
        rng = random.Random(seed)
        dag = graph(rng, 1000, wiring)
        fault = rng.randrange(len(dag))
        diverges = spread(dag, {fault}, rng)
        observations = Observations(dag)
        observations.observe({task: diverges[task] for task in sinks(dag)})
        runs.append(len(search(observations, sum(dag.sizes) // 20, diverges)))
        assert found(observations) == {fault}
    # Fifty tasks of mean size fit a run and cut a chain into 51 parts.
    ideal = math.ceil(math.log(1000) / math.log(51))
    assert max(runs) <= 6
    assert max(runs) <= 1.3 * ideal


def test_only_one_failing_output_known() -> None:
    runs: list[int] = []
    for seed in range(20):
        rng = random.Random(seed)
        dag = graph(rng, 1000, nearby)
        fault = rng.randrange(len(dag))
        diverges = spread(dag, {fault}, rng)
        observations = Observations(dag)
        observations.observe({rng.choice([task for task in sinks(dag) if diverges[task]]): True})
        runs.append(len(search(observations, sum(dag.sizes) // 20, diverges)))
        assert found(observations) == {fault}
    assert max(runs) <= 6


def test_a_budget_that_holds_everything_takes_one_run() -> None:
    rng = random.Random(1)
    dag = graph(rng, 100, nearby)
    diverges = spread(dag, {40}, rng)
    observations = Observations(dag)
    observations.observe({task: diverges[task] for task in sinks(dag) if diverges[task]})
    assert len(search(observations, sum(dag.sizes), diverges)) == 1
    assert found(observations) == {40}


@given(seed=st.integers(0, 10**9), faults=st.integers(1, 4), share=st.sampled_from((4, 8, 20)))
@settings(max_examples=examples(60), deadline=None)
def test_several_faults_explain_every_divergence_seen(seed: int, faults: int, share: int) -> None:
    rng = random.Random(seed)
    dag = graph(rng, 150, rng.choice((chain, nearby, layers, anywhere, lanes)))
    diverges = spread(dag, set(rng.sample(range(150), faults)), rng)
    observations = Observations(dag)
    observations.observe({task: diverges[task] for task in sinks(dag)})
    search(observations, max(sum(dag.sizes) // share, max(dag.sizes)), diverges)
    assert found(observations) <= true_firsts(dag, diverges)
    assert not (observations.divergent & ~observations.explained_tasks()).any()


@given(seed=st.integers(0, 10**9), swallowed=st.sampled_from((0.1, 0.5, 0.9)))
@settings(max_examples=examples(60), deadline=None)
def test_swallowed_divergences_never_give_a_wrong_first(seed: int, swallowed: float) -> None:
    rng = random.Random(seed)
    dag = graph(rng, 150, rng.choice((chain, nearby, layers, anywhere, lanes)))
    diverges = spread(dag, set(rng.sample(range(150), 2)), rng, swallowed)
    observations = Observations(dag)
    observations.observe({task: diverges[task] for task in sinks(dag)})
    search(observations, max(sum(dag.sizes) // 10, max(dag.sizes)), diverges)
    assert found(observations) <= true_firsts(dag, diverges)
    if any(diverges[task] for task in sinks(dag)):
        assert found(observations)
    assert not (observations.divergent & ~observations.explained_tasks()).any()


def test_a_clean_run_ends_without_a_first() -> None:
    rng = random.Random(3)
    dag = graph(rng, 60, nearby)
    observations = Observations(dag)
    search(observations, sum(dag.sizes) // 3, [False] * 60)
    assert found(observations) == set()
    assert not observations.unexplained_tasks().any()


def test_a_task_larger_than_the_budget_is_said() -> None:
    dag = Dag(predecessors=((), (0,), (1,)), sizes=(100, 200, 300))
    observations = Observations(dag)
    observations.observe({2: True})
    with pytest.raises(BudgetTooSmallError) as caught:
        next_tasks(observations, 50)
    assert caught.value.needed == 100


def test_the_budget_that_is_needed_is_that_of_a_task_that_would_be_chosen() -> None:
    """Before anything diverges, only the last results are dumped. Those before them may be smaller."""
    observations = Observations(Dag(predecessors=((), (0,)), sizes=(100, 300)))
    with pytest.raises(BudgetTooSmallError) as caught:
        next_tasks(observations, 50)
    assert next_tasks(observations, caught.value.needed) == (1,)


def test_predecessors_come_first() -> None:
    with pytest.raises(ValueError, match="before it"):
        Dag(predecessors=((1,), ()), sizes=(1, 1))
