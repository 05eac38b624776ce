"""Commits that hold what an error blames fail alike; what is hidden is which explanation holds."""

import random

import numpy as np
import pytest

from precision_bisect.bisect.search.graph import CommitGraph, Integers, Mask
from precision_bisect.bisect.search.testability import BlamedFile, cause_skip_probability, skip_probability
from tests.bisect.search.search_histories import branching, line


def changed_at(commits: int, changes: set[int]) -> Integers:
    """Versions of a file that some commits of a line change; the good end holds the first."""
    return np.array([*np.cumsum([commit in changes for commit in range(commits)]), 0])


def holding(commits: int, broken: set[int]) -> Mask:
    return np.array([*(commit in broken for commit in range(commits)), False])


def test_the_line_tells_at_once_where_a_wall_ends() -> None:
    graph, wall = CommitGraph(line(100)), {*range(30, 80)}
    file = BlamedFile("a.hpp", changed_at(100, {*range(10, 100, 5)}), holding(100, wall))
    chance = skip_probability(graph, {50: True, 99: False}, {50: (file,)})
    inside = [commit for commit in wall if commit != 50]
    assert chance[inside].min() > 0.85
    assert chance[[*range(30), *range(80, 99)]].max() < 0.4


def test_the_version_tells_where_no_line_does() -> None:
    graph = CommitGraph(line(100))
    file = BlamedFile("a.hpp", changed_at(100, {30, 80}))
    chance = skip_probability(graph, {50: True, 99: False}, {50: (file,)})
    assert chance[31:79].min() > 0.7
    assert chance[[29, 80]].max() < 0.5


def test_a_file_in_which_the_error_only_shows_tells_no_more_than_nearness() -> None:
    """Commits that hold the same line were tested."""
    graph = CommitGraph(line(100))
    file = BlamedFile("a.hpp", changed_at(100, set()), np.array([True] * 101))
    tried = {50: True, 99: False, 20: False, 70: False}
    chance = skip_probability(graph, tried, {50: (file,)})
    assert chance[51] > 0.5
    assert chance[[5, 90]].max() < 0.35


def test_parallel_lines_that_hold_the_same_are_alike() -> None:
    """Two mirrors of one history: what was met on one is known of the other."""
    parents = [[] if commit < 2 else [commit - 2] for commit in range(100)]
    parents.append([98, 99])
    graph = CommitGraph(parents)
    broken = {commit for commit in range(100) if 20 <= commit // 2 < 40}
    versions = np.array([*(commit // 2 // 5 for commit in range(101)), -1])
    file = BlamedFile("a.hpp", versions, holding(101, broken))
    chance = skip_probability(graph, {60: True, 100: False}, {60: (file,)})
    assert chance[[commit for commit in broken if commit % 2]].min() > 0.85
    assert chance[[15, 17, 91, 93]].max() < 0.3


def test_breaks_are_stacked() -> None:
    """Each has its stretch; where one is mended the other goes on."""
    graph = CommitGraph(line(100))
    one = BlamedFile("a.hpp", changed_at(100, {20, 50}), holding(100, {*range(20, 50)}))
    other = BlamedFile("b.hpp", changed_at(100, {40, 70}), holding(100, {*range(40, 70)}))
    chance = skip_probability(graph, {30: True, 60: True, 99: False}, {30: (one,), 60: (other,)})
    assert chance[[*range(20, 30), *range(31, 60), *range(61, 70)]].min() > 0.85
    assert chance[[5, 90]].max() < 0.5


def test_an_error_that_names_nothing_is_judged_by_nearness() -> None:
    graph = CommitGraph(line(60))
    tried = {30: True, 59: False}
    assert np.array_equal(skip_probability(graph, tried), skip_probability(graph, tried, {30: ()}))


@pytest.mark.parametrize("seed", range(6))
def test_chances_are_calibrated_where_the_line_or_the_version_is_the_cause(seed: int) -> None:
    """On random graphs with a hidden cause: what is told likely untestable is, and the rest is not."""
    rng = random.Random(seed)
    parents = branching(120, 0.1, rng)
    graph = CommitGraph(parents)
    version = [0] * 120
    broken_versions = {*range(4, 4 + rng.randrange(2, 8))}
    for commit in range(120):
        inherited = version[parents[commit][0]] if parents[commit] else 0
        version[commit] = inherited + (rng.random() < 0.15)
    broken = {commit for commit in range(119) if version[commit] in broken_versions}
    if not broken:
        pytest.skip("nothing is broken here")
    holds = holding(120, broken) if seed % 2 else None
    file = BlamedFile("a.hpp", np.array([*version, 0]), holds)
    tried = {commit: commit in broken for commit in rng.sample(range(119), 6)} | {119: False}
    tried[min(broken)] = True
    chance = skip_probability(graph, tried, {c: (file,) for c, skipped in tried.items() if skipped})
    rest = [commit for commit in range(120) if commit not in tried]
    wrong = np.mean([(chance[commit] > 0.5) != (commit in broken) for commit in rest])
    assert wrong < 0.15


def test_the_same_cause_is_known_by_what_it_tells() -> None:
    versions, fails = changed_at(10, {5}), holding(10, {3, 4})
    one, same = BlamedFile("a", versions, fails), BlamedFile("a", versions.copy(), fails.copy())
    assert one.same_cause(same)
    assert not one.same_cause(BlamedFile("a", versions, holding(10, {3})))
    assert not one.same_cause(BlamedFile("a", versions))
    assert not one.same_cause(BlamedFile("b", versions, fails))
    assert cause_skip_probability(CommitGraph(line(10)), one, {3: True, 9: False}).shape == (10,)
