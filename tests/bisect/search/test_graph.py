import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.bisect.search.graph import CommitGraph
from tests.bisect.search.search_histories import ancestors, branching, graphs, line


@given(graphs())
def test_ancestors_are_those_found_by_recursion(graph: CommitGraph):
    for commit in range(len(graph)):
        assert set(np.flatnonzero(graph.ancestors(commit))) == ancestors(graph.parents, commit)


def test_a_mask_that_others_will_get_cannot_be_written_to():
    graph = CommitGraph([[], [0]])
    with pytest.raises(ValueError, match="read-only"):
        graph.ancestors(1)[0] = False


@given(graphs(), st.data())
def test_ancestor_sums_count_each_ancestor_once(graph: CommitGraph, data: st.DataObject):
    weights = data.draw(st.lists(st.integers(0, 1000), min_size=len(graph), max_size=len(graph)))
    sums = graph.ancestor_sums(np.array(weights, dtype=np.float64))
    expected = [sum(weights[a] for a in ancestors(graph.parents, commit)) for commit in range(len(graph))]
    assert sums.tolist() == expected


@given(graphs())
def test_children_mirror_parents(graph: CommitGraph):
    pairs = {(parent, commit) for commit, parents in enumerate(graph.parents) for parent in parents}
    assert pairs == {
        (parent, commit) for parent, children in enumerate(graph.children) for commit in children
    }


@given(graphs())
def test_generations_left_are_the_commits_of_the_longest_line_to_the_bad_end(graph: CommitGraph):
    def left(commit: int) -> int:
        return max((1 + left(child) for child in graph.children[commit]), default=0)

    assert graph.generations_left.tolist() == [left(commit) for commit in range(len(graph))]


@pytest.mark.long
def test_a_range_of_100_000_commits_needs_no_square_of_memory():
    graph = CommitGraph(branching(100_000, 0.1, random.Random(7)))
    counts = graph.ancestor_sums(np.ones(len(graph)))
    assert counts[graph.bad] == len(graph)
    sample = random.Random(8).sample(range(len(graph)), 20)
    assert [counts[commit] for commit in sample] == [graph.ancestors(commit).sum() for commit in sample]
    assert len(graph._ancestor_sums.brought) < 2 * len(graph)


def test_a_branch_that_keeps_merging_the_trunk_brings_in_only_itself():
    trunk = 2000
    parents = line(trunk)
    for behind in range(0, trunk, 2):
        parents.append([len(parents) - 1 if behind else 0, behind])
    parents.append([len(parents) - 1, trunk - 1])
    graph = CommitGraph(parents)
    assert graph.ancestor_sums(np.ones(len(graph)))[graph.bad] == len(graph)
    assert len(graph._ancestor_sums.brought) < 3 * len(graph)


def test_listing_puts_newest_first_and_a_child_before_its_parent():
    graph = CommitGraph([[], [0], [0], [1, 2]], times=[10, 30, 20, 40])
    assert graph.newest_first(np.ones(4, dtype=np.bool_)) == [3, 1, 2, 0]
    assert graph.newest_first(np.array([True, True, False, False])) == [1, 0]


@pytest.mark.parametrize(
    ("parents", "times", "message"),
    [
        ([], None, "at least one candidate"),
        ([[], [1]], None, r"parents of commit 1 in 0\.\.0"),
        ([[], [2], []], None, r"parents of commit 1 in 0\.\.0"),
        ([[], [-1]], None, r"parents of commit 1 in 0\.\.0"),
        ([[], []], None, r"only the bad end, commit 1, to have no child, found \[0, 1\]"),
        ([[], [0]], [1.0], r"one time per commit \(2\), found 1"),
    ],
)
def test_refuses_what_is_no_range(parents: list[list[int]], times: list[float] | None, message: str):
    with pytest.raises(ValueError, match=message):
        CommitGraph(parents, times)


def test_a_parent_given_twice_counts_once():
    assert CommitGraph([[], [0, 0]]).parents == ((), (0,))
