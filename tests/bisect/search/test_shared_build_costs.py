"""Builds that several searches share: the best set of them, by brute force, and who pays what."""

import itertools
import random

import numpy as np
import pytest

from precision_bisect.bisect.search.belief import blend_suspicions, shared_build_costs, shared_build_rates


def best_set(build: float, bits: list[float], runs: list[float]) -> float:
    """The most information by cost, over every set of searches."""
    sets = itertools.chain.from_iterable(
        itertools.combinations(range(len(bits)), size) for size in range(1, len(bits) + 1)
    )
    return max(sum(bits[i] for i in chosen) / (build + sum(runs[i] for i in chosen)) for chosen in sets)


def test_the_rate_of_a_build_is_that_of_the_best_set_and_its_price_is_paid_once() -> None:
    chance = random.Random(3)
    for _ in range(300):
        searches, contents = chance.randrange(1, 6), 4
        bits = np.array(
            [[chance.choice([0.0, chance.random()]) for _ in range(contents)] for _ in range(searches)]
        )
        runs = np.array([[chance.uniform(0.1, 5)] * contents for _ in range(searches)])
        builds = np.array([chance.choice([0.0, chance.uniform(0, 30)]) for _ in range(contents)])
        rates = shared_build_rates(builds, bits, runs)
        for content in range(contents):
            expected = best_set(builds[content], bits[:, content].tolist(), runs[:, content].tolist())
            assert rates[content] == pytest.approx(expected)
        costs = np.array([shared_build_costs(rates, bits[i], runs[i], builds) for i in range(searches)])
        for content in np.flatnonzero(rates > 0):
            shares = (bits[:, content] / runs[:, content] >= rates[content] * (1 - 1e-9)).nonzero()[0]
            paid = costs[shares, content].sum()
            assert paid == pytest.approx(builds[content] + runs[shares, content].sum())
            told = bits[shares, content] / costs[shares, content]
            assert told == pytest.approx(rates[content])


def test_a_search_alone_pays_its_build_and_its_run() -> None:
    builds, bits, runs = np.array([10.0, 0.0, 10.0]), np.array([1.0, 0.5, 0.0]), np.array([2.0, 2.0, 2.0])
    rates = shared_build_rates(builds, bits[None], runs[None])
    assert shared_build_costs(rates, bits, runs, builds) == pytest.approx([12, 2, 12])


def test_what_others_suspect_weighs_as_much_as_all_else_and_leaves_no_commit_out() -> None:
    assert blend_suspicions(None, [], commits=3) is None
    own = np.array([1.0, 1.0, 2.0])
    assert blend_suspicions(own, [], commits=3) is own
    certain = np.array([0.0, 1.0, 0.0])
    weights = blend_suspicions(own, [certain], commits=3)
    assert weights is not None
    assert weights == pytest.approx([0.125, 0.625, 0.25])
    # The culprit of another range: nothing of it is here.
    elsewhere = blend_suspicions(own, [certain, np.zeros(3)], commits=3)
    assert elsewhere is not None
    assert (elsewhere > 0).all()
