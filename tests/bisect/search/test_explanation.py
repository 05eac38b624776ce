"""How hypotheses explain runs: against brute force, with outcomes that belong to commits, and with two changes."""

import random
from itertools import product
from math import exp, log

import numpy as np
import pytest

from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.hypotheses import GOOD_END, Explanation, Groups, explain
from precision_bisect.bisect.search.rates import OutcomeModel, Rates
from tests.bisect.search.search_histories import ancestors, branching, line

Tallies = dict[int, tuple[float, float]]


def explained(graph: CommitGraph, tallies: Tallies, rates: Rates) -> tuple[Explanation, Groups]:
    groups = Groups.start(graph)
    for commit in tallies:
        groups = groups.split(graph, commit)
    return explain(graph, groups, tallies, rates), groups


def by_hand(graph: CommitGraph, tallies: Tallies, rates: Rates, culprit: int) -> float:
    """Log evidence of one culprit, model by model and rate by rate."""
    total = 0.0
    for model, weight in rates.models:
        for i, good in enumerate(rates.good):
            for j, bad in enumerate(rates.bad):
                logs = 0.0
                for commit, (fails, passes) in tallies.items():
                    is_bad = commit != GOOD_END and culprit in ancestors(graph.parents, commit)
                    told = commit == culprit or commit in graph.parents[culprit]
                    plain = commit in (GOOD_END, graph.bad)
                    used = OutcomeModel(concentration=model.concentration) if plain else model
                    rate = np.array([bad if is_bad else good])
                    logs += float(used.log_likelihood(rate, fails=fails, passes=passes, near_culprit=told)[0])
                total += weight * float(rates.weight[i, j]) * exp(logs)
    return log(total)


def growing_by_hand(
    graph: CommitGraph, tallies: Tallies, rates: Rates, culprit: int, begun: float, room: float
) -> float:
    """Log evidence of a fault that began at a commit, or so far into the range, and grows; by rates and shapes."""
    total = 0.0
    for (i, good), (j, last), (begins, power) in product(
        enumerate(rates.good), enumerate(rates.bad), ((0.05, 1.0), (0.05, 0.5), (0.3, 1.0))
    ):
        logs = 0.0
        for commit, (fails, passes) in tallies.items():
            is_bad = commit != GOOD_END and culprit in ancestors(graph.parents, commit)
            passed = (commit - begun) / (graph.bad - begun) if begun < graph.bad else 1.0
            way = begins + (1 - begins) * min(1.0, max(0.0, passed)) ** power if is_bad else 0.0
            rate = good + (last - good) * way
            logs += fails * log(rate) + passes * log(1 - rate)
        total += room * 0.05 / 3 * float(rates.weight[i, j]) * exp(logs)
    return log(total)


def room_to_grow(graph: CommitGraph, commit: int) -> float:
    """How likely a fault of a commit grows, next to one that has a long way to go."""

    def left(commit: int) -> int:
        return max((1 + left(child) for child in graph.children[commit]), default=0)

    beside = sum(left(other) == 1 for other in range(len(graph))) if left(commit) == 1 else 1
    return left(commit) / (left(commit) + 2) / beside


@pytest.mark.parametrize("seed", range(4))
def test_the_evidence_of_each_culprit_is_that_of_all_rates_and_models(seed: int) -> None:
    rng = random.Random(seed)
    graph = CommitGraph(branching(7, 0.2, rng))
    weight = np.array([[0.3, 0.4], [0.1, 0.2]])
    models = ((OutcomeModel(), 0.6), (OutcomeModel(own=0.3), 0.3), (OutcomeModel(concentration=3.0), 0.1))
    rates = Rates(np.array([0.05, 0.3]), np.array([0.5, 0.9]), weight, models)
    # Every failure has the first commit among its ancestors, so that one change explains all.
    tallies: Tallies = {GOOD_END: (0.0, 2.0), graph.bad: (2.0, 1.0), 3: (1.0, 1.0), 1: (0.0, 3.0)}
    found, groups = explained(graph, tallies, rates)
    for culprit in range(len(graph)):
        group = np.flatnonzero(groups.group_of_commit == groups.group_of_commit[culprit])
        room = float(np.mean([room_to_grow(graph, commit) for commit in group.tolist()])) or 1e-15
        grown = growing_by_hand(graph, tallies, rates, culprit, float(group.mean()), room)
        expected = np.logaddexp(by_hand(graph, tallies, rates, culprit), grown)
        assert found.log_evidence[groups.group_of_commit[culprit]] == pytest.approx(expected, abs=1e-6)


def test_reruns_of_one_commit_prove_no_more_than_that_its_outcome_is_its_own() -> None:
    graph, rates = CommitGraph(line(9)), Rates.unknown()
    ends = {GOOD_END: (0.0, 3.0), 8: (3.0, 0.0), 6: (2.0, 0.0), 2: (0.0, 2.0)}
    odds: list[float] = []
    for reruns in (1, 4, 16, 64):
        found, groups = explained(graph, {**ends, 4: (0.0, float(reruns))}, rates)
        later, earlier = (float(found.log_evidence[groups.group_of_commit[c]]) for c in (5, 3))
        odds.append(later - earlier)
    assert odds == sorted(odds)
    # However often it passes, that it would fail but for itself stays possible.
    assert odds[-1] - odds[-2] < 0.5
    assert odds[-1] < log(1000)
    wide, groups = explained(graph, {**ends, 4: (0.0, 2.0), 3: (0.0, 2.0)}, rates)
    apart = wide.log_evidence[groups.group_of_commit[[5, 3]]]
    assert apart[0] - apart[1] > odds[0]


def test_a_second_change_beside_it_explains_what_fails_on_another_line() -> None:
    graph = CommitGraph([[], [0], [1], [0], [3], [2, 4]])
    both = {GOOD_END: (0.0, 1.0), 0: (0.0, 2.0), 1: (2.0, 0.0), 2: (2.0, 0.0), 3: (2.0, 0.0), 4: (2.0, 0.0)}
    found, groups = explained(graph, {**both, 5: (2.0, 0.0)}, Rates.unknown())
    either = found.log_evidence[groups.group_of_commit[[1, 3]]]
    # But for a fault that grows, which asks for the order of the commits, they are alike.
    assert abs(float(either[0] - either[1])) < 0.01
    # A commit that all failures build on, or that only the last one is, explains them less well.
    others = found.log_evidence[groups.group_of_commit[[0, 5]]]
    assert float(either[0]) > float(others.max())


def test_what_a_rerun_would_show_follows_what_the_commit_showed() -> None:
    graph = CommitGraph(line(9))
    tallies: Tallies = {GOOD_END: (0.0, 1.0), 8: (1.0, 0.0), 4: (0.0, 2.0), 6: (3.0, 0.0), 7: (0.0, 3.0)}
    found, groups = explained(graph, tallies, Rates.unknown())
    here = groups.group_of_commit[5]
    assert found.reruns[7][here] < 0.2 < 0.8 < found.fail_if_bad[here]
