"""The whole search on random histories against truths of every kind, and against exact dynamic programs."""

import random
from collections.abc import Callable
from functools import cache
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.bisect.search.belief import Belief, Observation, Outcome, information_gain
from precision_bisect.bisect.search.decision import Answer, Round, Undecided, next_round
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.halving import FoundCulprit, OnlySkipped
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.rates import Rates
from tests.bisect.search.search_histories import branching, graphs, line, see_ends, untestable
from tests.bisect.search.test_prior import number_of_tests
from tests.support.quick import examples, quick_first


def ask(
    graph: CommitGraph,
    is_bad: list[bool],
    *,
    good: float = 0.0,
    bad: float = 1.0,
    skips: frozenset[int] | set[int] = frozenset(),
    rng: random.Random,
) -> Answer | None:
    """Sees the ends, searches and confirms. None: 300 runs were not enough."""

    def run(commit: int) -> Observation:
        if commit in skips:
            return Observation(commit, Outcome.SKIP)
        rate = bad if commit != GOOD_END and is_bad[commit] else good
        return Observation(commit, Outcome.BAD if rng.random() < rate else Outcome.GOOD)

    posterior = Posterior.start(graph, Rates.unknown())
    posterior = see_ends(posterior, run)
    while len(posterior.observations) < 300:
        step = next_round(posterior)
        if not isinstance(step, Round):
            return step
        posterior = posterior.observe(run(step.start[0]))
    return None


def first_bad(graph: CommitGraph, is_bad: list[bool]) -> set[int]:
    """The bad commits all of whose parents are good: what may be named."""
    return {c for c in range(len(graph)) if is_bad[c] and not any(is_bad[p] for p in graph.parents[c])}


@settings(deadline=None, max_examples=examples(40))
@given(graphs(), st.data())
def test_an_interaction_of_two_commits_is_the_merge_that_joins_them_never_one_of_the_two(
    graph: CommitGraph, data: st.DataObject
):
    one, other = (data.draw(st.integers(0, graph.bad)) for _ in range(2))
    is_bad = [bool(graph.ancestors(c)[one] and graph.ancestors(c)[other]) for c in range(len(graph))]
    answer = ask(graph, is_bad, rng=random.Random(0))
    joined = first_bad(graph, is_bad)
    if isinstance(answer, FoundCulprit):
        assert answer.culprit in joined
    if len(joined) == 1:
        assert answer == FoundCulprit(*joined)


@settings(deadline=None, max_examples=examples(20))
@given(graphs(), st.data())
def test_whatever_the_truth_a_commit_is_named_only_if_it_fails_and_its_parents_pass(
    graph: CommitGraph, data: st.DataObject
):
    """Any set of bad commits that holds the bad end: broken, mended, broken again, on any branch."""
    is_bad = [*data.draw(st.lists(st.booleans(), min_size=graph.bad, max_size=graph.bad)), True]
    answer = ask(graph, is_bad, rng=random.Random(0))
    if isinstance(answer, FoundCulprit):
        assert answer.culprit in first_bad(graph, is_bad)


@pytest.mark.parametrize("seed", quick_first(range(12), 3))
def test_merges_and_skips_under_noise_end_at_the_culprit_or_say_that_it_cannot_be_told(seed: int):
    rng = random.Random(seed)
    n = 40
    graph = CommitGraph(branching(n, rng.choice([0.1, 0.3]), rng))
    skips = untestable(n, rng.choice([0.1, 0.3]), rng.choice([1, 4]), rng)
    culprit = rng.randrange(n)
    is_bad = [bool(graph.ancestors(c)[culprit]) for c in range(n)]
    answer = ask(graph, is_bad, good=0.1, bad=0.9, skips=skips, rng=rng)
    told = not skips & {culprit, *graph.parents[culprit]}
    match answer:
        case FoundCulprit(culprit=found):
            assert found == culprit
        case OnlySkipped(candidates=candidates):
            assert culprit in candidates
            assert not told
        case Undecided(suspects=suspects):
            assert culprit in suspects
        case other:
            pytest.fail(f"no answer: {other}")


@pytest.mark.parametrize(("good", "bad"), quick_first([(0.3, 0.3), (0.0, 0.0), (1.0, 1.0), (0.5, 0.5)]))
def test_ranges_without_a_culprit_accuse_nobody(good: float, bad: float):
    graph = CommitGraph(branching(32, 0.2, random.Random(1)))
    for seed in range(6):
        assert not isinstance(
            ask(graph, [True] * 32, good=good, bad=bad, rng=random.Random(seed)), FoundCulprit
        )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_ends_that_differed_by_luck_end_the_search_before_long(seed: int):
    """Every commit fails at one rate, but both ends showed otherwise at first."""
    rng = random.Random(seed)
    graph = CommitGraph(branching(128, 0.0, rng))
    posterior = Posterior.start(graph, Rates.unknown())
    for _ in range(6):
        posterior = posterior.observe(Observation(GOOD_END, Outcome.GOOD))
        posterior = posterior.observe(Observation(graph.bad, Outcome.BAD))
    while len(posterior.observations) < 1500:
        step = next_round(posterior)
        if not isinstance(step, Round):
            assert not isinstance(step, FoundCulprit)
            return
        seen = Observation(step.start[0], Outcome.BAD if rng.random() < 0.4 else Outcome.GOOD)
        posterior = posterior.observe(seen)
    pytest.fail("no end in 1,500 runs")


SURE = 0.95
PASS = 0.5
"""Of a run of a bad commit; good ones never fail."""
MOST = 8
"""Runs of one commit: as many passes make it good, near enough."""


def chances(passes: tuple[int, ...]) -> list[float]:
    """Of each of len(passes) commits to be the culprit, where the last is known to be bad: those up to a commit that
    passed so many times are less likely to be."""
    likelihood = [PASS ** sum(passes[commit:]) for commit in range(len(passes))]
    return [each / sum(likelihood) for each in likelihood]


@cache
def runs_at_best(passes: tuple[int, ...]) -> float:
    """The fewest runs expected until one commit of a line is sure, by dynamic programming."""
    chance = chances(passes)
    if max(chance) >= SURE:
        return 0.0
    return min(
        after(passes, commit, runs_at_best) for commit in range(len(passes) - 1) if passes[commit] < MOST
    )


@cache
def runs_of_ours(passes: tuple[int, ...]) -> float:
    """The same for the run with the most information."""
    chance = chances(passes)
    if max(chance) >= SURE:
        return 0.0
    n = len(passes)
    belief = Belief(np.array(chance), np.full(n, 1 - PASS), np.zeros(n), 0.0, 0.5, 0.0, 0.5)
    best = int(np.argmax(information_gain(CommitGraph(line(n)), belief)[:-1]))
    return after(passes, best, runs_of_ours)


def after(passes: tuple[int, ...], commit: int, expected: Callable[[tuple[int, ...]], float]) -> float:
    """One run of a commit, and what is expected after a fail, which makes it the last, and after a pass."""
    fails = sum(chances(passes)[: commit + 1]) * (1 - PASS)
    more = (*passes[:commit], passes[commit] + 1, *passes[commit + 1 :])
    return float(1 + fails * expected((*passes[:commit], 0)) + (1 - fails) * expected(more))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_on_small_lines_information_takes_hardly_more_runs_than_the_optimum(n: int):
    best, ours = runs_at_best((0,) * n), runs_of_ours((0,) * n)
    assert best - 1e-9 <= ours <= 1.1 * best


@cache
def weighted_tests_at_best(weights: tuple[int, ...]) -> float:
    """The least sum of weight times tests over the culprits of a line (an optimal alphabetic tree)."""
    if len(weights) == 1:
        return 0.0
    return sum(weights) + min(
        weighted_tests_at_best(weights[:k]) + weighted_tests_at_best(weights[k:])
        for k in range(1, len(weights))
    )


def test_with_prior_weights_lines_take_hardly_more_tests_than_the_optimum():
    rng = random.Random(0)
    ours = best = bound = 0.0
    for _ in range(20):
        weights = tuple(rng.choice([1, 1, 1, 8]) for _ in range(16))
        graph = CommitGraph(line(16))
        total = sum(weights)
        ours += (
            sum(w * number_of_tests(graph, c, np.array(weights, float)) for c, w in enumerate(weights))
            / total
        )
        best += weighted_tests_at_best(weights) / total
        bound += sum(-w / total * log2(w / total) for w in weights)
    assert bound <= best <= ours <= 1.04 * best
