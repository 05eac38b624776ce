"""Sums over all ancestors, against those of each commit by itself."""

import math
import random

import numpy as np
import pytest

from precision_bisect.bisect.search.graph import AncestorSums, Ancestry
from tests.bisect.search.search_histories import Parents, ancestors, branching, line


def sums_of(parents: Parents) -> AncestorSums:
    ancestry = Ancestry()
    for those in parents:
        ancestry.add(those)
    return AncestorSums.from_ancestry(ancestry)


def tangle(size: int, rng: random.Random) -> Parents:
    """Commits with up to four parents, any of the earlier ones; some with none."""
    return [sorted(rng.sample(range(node), k=min(node, rng.randrange(5)))) for node in range(size)]


@pytest.mark.parametrize("seed", range(30))
def test_sums_are_those_of_each_ancestor_once(seed: int) -> None:
    rng = random.Random(seed)
    for parents in (tangle(16, rng), branching(40, 0.3, rng), line(1 + seed)):
        weights = [rng.randrange(1000) for _ in parents]
        expected = [
            sum(weights[ancestor] for ancestor in ancestors(parents, commit))
            for commit in range(len(parents))
        ]
        assert sums_of(parents).sum_weights(np.array(weights, dtype=np.float64)).tolist() == expected


@pytest.mark.parametrize("seed", range(30))
def test_sums_err_by_less_than_one_rounding_of_all_weights_for_each_commit(seed: int) -> None:
    rng = random.Random(seed)
    for parents in (tangle(16, rng), branching(40, 0.3, rng), line(200), [[], [], [0, 1]]):
        sums = sums_of(parents)
        weights = [rng.choice((-1, 1)) * 10 ** rng.uniform(-25, 0) for _ in parents]
        counted = [*weights, *(weights[each] for each in sums.brought)]
        bound = len(parents) * np.finfo(np.float64).eps * math.fsum(map(abs, counted))
        for commit, found in enumerate(sums.sum_weights(np.array(weights))):
            assert abs(found - math.fsum(weights[each] for each in ancestors(parents, commit))) <= bound


def test_what_is_prepared_once_sums_any_weights_and_leaves_them_as_they_are() -> None:
    sums = sums_of([[], [0], [0], [1, 2]])
    weights = np.array([1.0, 2.0, 4.0, 8.0])
    assert sums.sum_weights(weights).tolist() == [1, 3, 5, 15]
    assert sums.sum_weights(-weights).tolist() == [-1, -3, -5, -15]
    assert weights.tolist() == [1, 2, 4, 8]


def test_only_what_a_merge_brings_in_beside_its_largest_parent_is_kept() -> None:
    # 4 merges the trunk 0, 1, 2 and the branch 3: the branch is what it brings in.
    sums = sums_of([[], [0], [1], [0], [2, 3]])
    assert sums.merges.tolist() == [4]
    assert sums.brought.tolist() == [3]
    # A parent that the other one has already brings in nothing.
    assert sums_of([[], [0], [0, 1]]).merges.tolist() == []


def test_chains_of_a_line_are_one() -> None:
    sums = sums_of(line(50))
    assert sums.lengths.tolist() == [50]
    assert sums.order.tolist() == list(range(50))


@pytest.mark.parametrize("seed", range(30))
def test_an_ancestry_says_which_commit_builds_on_which(seed: int) -> None:
    rng = random.Random(seed)
    for parents in (tangle(24, rng), branching(60, 0.3, rng), line(1 + seed)):
        ancestry = Ancestry()
        numbers = [ancestry.add(those) for those in parents]
        assert numbers == list(range(len(parents)))
        sums = AncestorSums.from_ancestry(ancestry)
        for commit in numbers:
            expected = ancestors(parents, commit)
            assert {each for each in numbers if ancestry.is_ancestor(each, commit)} == expected
            assert set(np.flatnonzero(sums.ancestor_mask(commit)).tolist()) == expected
            assert ancestry.roots(commit) == sorted(each for each in expected if not parents[each])
