"""1-minimality: what it means on a graph, and what a sweep tries beyond it."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from precision_bisect.reduce.shrink.minimize import Answer, DependencyGraph, Subset, Sweep, Trial, minimize
from tests.reduce.shrink.oracles import Caller, lawless, needing, random_graph, trapped


def closed_sets(graph: DependencyGraph) -> set[Subset]:
    elements = range(len(graph))
    subsets = (frozenset(kept) for size in range(len(graph) + 1) for kept in combinations(elements, size))
    return {kept for kept in subsets if all(set(graph.predecessors[one]) <= kept for one in kept)}


def test_no_closed_candidate_that_lacks_one_element_is_interesting_whatever_the_oracle() -> None:
    """The covers of the result among all closed sets, found by listing them."""
    for seed in range(40):
        rng = random.Random(seed)
        graph = random_graph(rng, rng.randrange(1, 10))
        oracle = lawless(seed, graph.all_elements)
        for start in (minimize(graph), Sweep.start(graph, graph.all_elements)):
            best = Caller(oracle).minimize(start)
            covers = [kept for kept in closed_sets(graph) if kept < best and len(kept) == len(best) - 1]
            assert not any(kept and oracle(Trial(kept, 0)) is Answer.INTERESTING for kept in covers)


def test_of_all_that_is_interesting_when_more_is_kept_nothing_smaller_is_left_inside() -> None:
    """Interesting above any of several causes: no closed set inside the result is, at any distance."""
    for seed in range(40):
        rng = random.Random(seed)
        graph = random_graph(rng, 9)
        causes = [set(rng.sample(range(9), rng.randrange(1, 4))) for _ in range(3)]

        def interesting(candidate: Subset, causes: list[set[int]] = causes) -> bool:
            return any(cause <= candidate for cause in causes)

        best = Caller(
            lambda run: Answer.INTERESTING if interesting(run.candidate) else Answer.PASSED
        ).minimize(minimize(graph))
        assert interesting(best)
        assert not any(interesting(kept) for kept in closed_sets(graph) if kept < best)


def test_only_what_nothing_depends_on_is_tried() -> None:
    chain = DependencyGraph(tuple((task - 1,) if task else () for task in range(30)))
    caller = Caller(needing(29))
    assert caller.minimize(Sweep.start(chain, chain.all_elements)) == chain.all_elements
    assert len(caller.made) == 1


def test_what_only_a_vain_element_needs_goes_with_it_at_once() -> None:
    """A chain of 30, and the fault: the chain's end goes, then the rest of it in one test, then the fault stays."""
    graph = DependencyGraph(((), *((task - 1,) for task in range(1, 30)), ()))
    caller = Caller(needing(30))
    assert caller.minimize(Sweep.start(graph, graph.all_elements)) == {30}
    assert len(caller.made) == 3


def test_elements_that_are_there_for_each_other_go_together() -> None:
    """0 needs 4, of which 1 is an ancestor, which needs 3, of which 0 is one; the fault is 2."""
    graph = DependencyGraph(((), (), (), (0,), (1,)))
    oracle = trapped(needing(2), (0, 4), (1, 3))
    assert oracle(Trial(graph.all_elements, 0)) is Answer.INTERESTING
    assert {oracle(Trial(graph.all_elements - {one}, 0)) for one in (3, 4)} == {Answer.SLIPPED}
    assert Caller(oracle).minimize(Sweep.start(graph, graph.all_elements)) == {2}


@pytest.mark.parametrize("otherwise", [Answer.SLIPPED, Answer.INVALID])
def test_what_cannot_go_alone_goes_with_its_dependents(otherwise: Answer) -> None:
    """A block of statements, of which the last must not be missing: the fault 1 is inside another one, by 0."""
    graph = DependencyGraph(((), (0,), (0,), (2,), (3,)))

    def oracle(run: Trial[Subset]) -> Answer:
        if 2 in run.candidate and 4 not in run.candidate:
            return otherwise
        return Answer.INTERESTING if 1 in run.candidate else Answer.PASSED

    assert Caller(oracle).minimize(Sweep.start(graph, graph.all_elements)) == {0, 1}

    def needs_three(run: Trial[Subset]) -> Answer:
        """Now 2 and 3 are needed, and 4 still cannot go alone: all that may be dropped with it is tried."""
        return (
            oracle(run) if {2, 3} <= run.candidate or oracle(run) is not Answer.INTERESTING else Answer.PASSED
        )

    caller = Caller(needs_three)
    assert caller.minimize(Sweep.start(graph, graph.all_elements)) == graph.all_elements
    assert {frozenset({0, 1}), frozenset({0, 1, 2})} <= {run.candidate for run, _ in caller.made}


def test_traps_are_left_at_the_optimum_or_the_sweep_saw_each_step_slip() -> None:
    optimal = 0
    for seed in range(60):
        rng = random.Random(seed)
        graph = random_graph(rng, 40)
        fault = rng.randrange(40)
        others = [task for task in range(40) if task not in graph.with_ancestors({fault})]
        if len(others) < 4:
            continue
        traps = [tuple[int, int](sorted(rng.sample(others, 2))) for _ in range(3)]
        oracle = trapped(needing(fault), *traps)
        best = Caller(oracle).minimize(minimize(graph))
        assert oracle(Trial(best, 0)) is Answer.INTERESTING
        if best == graph.with_ancestors({fault}):
            optimal += 1
        else:
            assert Answer.SLIPPED in {oracle(Trial(best - {one}, 0)) for one in graph.sinks(best)}
    assert optimal >= 50
