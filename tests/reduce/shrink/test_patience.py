"""What a flaky failure asks for: chances counted over all outcomes of the runs."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from precision_bisect.reduce.shrink.minimize import (
    Answer,
    DependencyGraph,
    Memory,
    Query,
    Trial,
    cautious_rate,
    minimize,
    passes_to_reject,
)
from tests.reduce.shrink.oracles import Caller, needing

ONE = frozenset({0})


@pytest.mark.parametrize("rate", [0.35, 0.6, 0.9])
def test_a_candidate_that_fails_at_the_rate_is_rejected_with_the_error_s_chance_at_most(rate: float) -> None:
    """Over all sequences of outcomes of as many runs as are asked for."""
    error = 0.05
    runs = passes_to_reject(rate, error)
    rejected = 0.0
    for fails in product((True, False), repeat=runs):
        memory = Memory(
            (Trial(ONE, number), Answer.INTERESTING if fail else Answer.PASSED)
            for number, fail in enumerate(fails)
        )
        if memory.answer(Query(ONE, runs)) is Answer.PASSED:
            rejected += prod(rate if fail else 1 - rate for fail in fails)
    assert rejected == pytest.approx((1 - rate) ** runs)
    assert rejected <= error
    assert (1 - rate) ** (runs - 1) > error


def test_one_failure_accepts_and_all_passes_are_waited_for() -> None:
    runs = passes_to_reject(0.5, 0.01)
    memory = Memory((Trial(ONE, number), Answer.PASSED) for number in range(runs - 1))
    assert memory.answer(Query(ONE, runs)) is None
    memory.record(Trial(ONE, runs - 1), Answer.INTERESTING)
    assert memory.answer(Query(ONE, runs)) is Answer.INTERESTING


def test_a_rate_seen_in_few_runs_is_planned_with_as_less() -> None:
    """With the bound in the place of the share seen, no more than the error is rejected where the rate is that low."""
    for failures, runs in ((1, 8), (3, 8), (7, 8), (50, 100)):
        rate = cautious_rate(failures, runs)
        assert 0 < rate < failures / runs
        assert passes_to_reject(rate, 0.01) > passes_to_reject(failures / runs, 0.01)
    assert cautious_rate(50, 100) > cautious_rate(4, 8)


@pytest.mark.parametrize("rate", [0.3, 0.6])
def test_the_last_rejection_had_all_the_passes_that_the_rate_asks_for(rate: float) -> None:
    """However sure the bisection was: it is the sweep that has the last word."""
    for seed in range(10):
        caller = Caller(needing(5, 11, rate=rate, seed=seed))
        assert caller.minimize(minimize(DependencyGraph.edgeless(32), rate=rate)) == {5, 11}
        for one in (5, 11):
            outcomes = [outcome for run, outcome in caller.made if run.candidate == {one}]
            assert len(outcomes) >= passes_to_reject(rate, 0.01)
            assert set(outcomes) == {Answer.PASSED}
