"""CutBisection where cuts fail otherwise: a lone task at fault is sought by its chain."""

from __future__ import annotations

import random

import pytest

from precision_bisect.reduce.shrink.minimize import Answer, Cuts, DependencyGraph, LoneTask, minimize
from tests.reduce.shrink.oracles import Caller, needing, random_graph, trapped

WIDE = 32
CHAINS = DependencyGraph(tuple((task - WIDE,) if task >= WIDE else () for task in range(8 * WIDE)))
"""32 chains of 8, submitted in turns."""
LAST = 8 * WIDE - 1


@pytest.mark.parametrize("fault", [4, 100, 250])
def test_a_lone_task_is_found_though_every_cut_fails_otherwise(fault: int) -> None:
    """Chain 1 begins with a task that needs the very last one."""
    caller = Caller(trapped(needing(fault), (1, LAST)))
    assert caller.minimize(minimize(CHAINS)) == CHAINS.with_ancestors({fault})
    assert len(caller.made) <= 20


@pytest.mark.parametrize("fault", [33, 130])
def test_it_is_found_too_where_groups_do_not_tell(fault: int) -> None:
    """In the chain that fails otherwise, and in one that is in all its groups until a lone task is not believed in."""
    caller = Caller(trapped(needing(fault), (1, LAST)))
    needed = {fault, LAST} if 1 in CHAINS.with_ancestors({fault}) else {fault}
    assert caller.minimize(minimize(CHAINS)) == CHAINS.with_ancestors(needed)


def test_several_tasks_are_found_as_before() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        needed = {chain + WIDE * rng.randrange(8) for chain in rng.sample(range(2, WIDE - 1), 3)}
        caller = Caller(trapped(needing(*needed), (1, LAST)))
        assert caller.minimize(minimize(CHAINS)) == CHAINS.with_ancestors(needed)


def test_rare_failures_are_not_sought_in_groups() -> None:
    state = Cuts.start(CHAINS, CHAINS.all_elements, rate=0.5)
    assert not isinstance(state.next_state(Answer.SLIPPED).state, LoneTask)
    assert isinstance(Cuts.start(CHAINS, CHAINS.all_elements).next_state(Answer.SLIPPED).state, LoneTask)


def test_a_group_that_is_invalid_ends_it() -> None:
    state = LoneTask.start(CHAINS, CHAINS.all_elements, CHAINS.all_elements)
    assert state.next_state(Answer.INVALID).query is None


def test_one_of_the_suspects_is_found_by_their_chains_alone() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        graph = random_graph(rng, rng.randrange(2, 60))
        fault = rng.randrange(len(graph))
        suspects = frozenset(range(rng.randrange(fault + 1), len(graph)))
        found = Caller(needing(fault)).minimize(LoneTask.start(graph, graph.all_elements, suspects))
        assert found >= graph.with_ancestors({fault})
        ends = graph.sinks(found)
        assert len(ends) == 1 or found == graph.all_elements
