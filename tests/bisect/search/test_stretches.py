"""Stretches against a simulation of what the model says, and the nearest tried commits against a search."""

import random

import numpy as np
import pytest

from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.testability import (
    Stretches,
    date_neighbours,
    descent_neighbours,
    line_neighbours,
)
from tests.bisect.search.search_histories import line


@pytest.mark.parametrize(("length", "share"), [(8, 0.15), (20, 0.35)])
def test_chances_are_those_of_stretches_that_start_at_random(length: int, share: float) -> None:
    rng = random.Random(length)
    starts = 1 - (1 - share) ** (1 / length)
    covered: list[bool] = []
    last = -length
    for place in range(200_000):
        last = place if rng.random() < starts else last
        covered.append(place - last < length)
    known = np.array(covered)
    model = Stretches(length, share)
    for distance in (1, 5):
        beside = known[distance:][known[:-distance]]
        assert 1 - model.testable_given_one(np.array([distance]), np.array([True]))[0] == pytest.approx(
            beside.mean(), abs=0.02
        )
    between = known[3:-4][known[:-7] & ~known[7:]]
    near = line_neighbours(np.arange(8), {0: True, 7: False}, ends=(-1000, 1000))
    assert 1 - model.testable_given_both(near)[3] == pytest.approx(between.mean(), abs=0.03)


def test_neighbours_on_a_line_are_the_same_by_descent_and_by_date() -> None:
    graph = CommitGraph(line(30))
    tried = {3: True, 10: False, 20: True, 29: False}
    one, other = descent_neighbours(graph, tried), date_neighbours(graph, tried)
    for mine, its in zip(vars(one).values(), vars(other).values(), strict=True):
        assert mine.tolist() == its.tolist()
    assert one.distance_before[[0, 5, 20]].tolist() == [1, 2, 10]
    assert one.skipped_after[[0, 5, 15, 25]].tolist() == [True, False, True, False]


def test_dates_see_over_parallel_lines_where_descent_does_not() -> None:
    graph = CommitGraph([[], [], [0], [1], [2, 3]])
    tried = {2: True, 4: False}
    assert descent_neighbours(graph, tried).skipped_after.tolist()[:4] == [True, False, False, False]
    assert date_neighbours(graph, tried).skipped_before.tolist()[3]
