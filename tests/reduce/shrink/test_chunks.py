"""Larger steps than one element: what they find where keeping more is not always as good, and what they cost."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from precision_bisect.reduce.shrink.minimize import (
    MAX_PARTS,
    PARTS_IF_MONOTONE,
    Answer,
    Chunks,
    DependencyGraph,
    Subset,
    minimize,
)
from tests.reduce.shrink.oracles import Caller, needing, random_graph

Interesting = Callable[[Subset], bool]


def reduced(graph: DependencyGraph, interesting: Interesting) -> tuple[Subset, int]:
    """What is left, and after how many tests."""
    caller = Caller(lambda run: Answer.INTERESTING if interesting(run.candidate) else Answer.PASSED)
    return caller.minimize(minimize(graph)), len(caller.made)


def parity(elements: Subset) -> Interesting:
    return lambda kept: len(kept & elements) % 2 == 1


@pytest.mark.parametrize("n", [15, 63, 127])
def test_one_element_is_left_of_an_odd_number_of_them(n: int) -> None:
    best, calls = reduced(DependencyGraph.edgeless(n), parity(frozenset(range(n))))
    assert len(best) == 1
    assert calls <= n.bit_length() + 3
    for seed in range(20):
        rng = random.Random(seed)
        some = frozenset(rng.sample(range(n), 2 * rng.randrange(1, n // 4) + 1))
        best, calls = reduced(DependencyGraph.edgeless(n), parity(some))
        assert len(best) == 1
        assert calls <= 4 * n.bit_length()


def test_what_undoes_each_other_goes_together() -> None:
    """The failure is there with both of a pair or with neither. It may lie anywhere between them."""
    sizes: list[int] = []
    for seed in range(20):
        fault, *pair = random.Random(seed).sample(range(64), 3)

        def interesting(kept: Subset, fault: int = fault, pair: list[int] = pair) -> bool:
            return fault in kept and len(kept.intersection(pair)) != 1

        best, calls = reduced(DependencyGraph.edgeless(64), interesting)
        assert interesting(best)
        assert calls <= 40
        sizes.append(len(best))
    assert sizes == [1] * 20


def test_nothing_is_asked_where_one_or_two_elements_are_needed() -> None:
    for elements in ({9}, {3, 40}):
        best = frozenset(elements)
        assert Chunks.start(DependencyGraph.edgeless(64), best, monotone=True).query is None


def test_in_vain_it_costs_no_more_than_its_bound() -> None:
    everything = frozenset(range(64))
    for monotone, most in ((True, PARTS_IF_MONOTONE), (False, 2 * (2 + 4 + 8 + MAX_PARTS))):
        caller = Caller(needing(*everything))
        assert (
            caller.minimize(Chunks.start(DependencyGraph.edgeless(64), everything, monotone=monotone))
            == everything
        )
        assert len(caller.made) <= most


def test_candidates_are_closed_smaller_and_never_empty() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        graph = random_graph(rng, rng.randrange(2, 20))
        state = Chunks.start(graph, graph.all_elements, monotone=False)
        while (query := state.query) is not None:
            assert query.candidate
            assert query.candidate < state.best
            assert graph.closed_subset(query.candidate) == query.candidate
            state = state.next_state(rng.choice(list(Answer)))
