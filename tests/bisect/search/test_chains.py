"""A history in chains: which commits a stretch has, and where it is halved, beside a count of all ancestors."""

import random

import numpy as np
import pytest

from precision_bisect.bisect.search.graph import Chains, CommitGraph


def random_parents(chance: random.Random) -> list[list[int]]:
    """A history of up to 30 commits with merges and roots, whose last commit builds on all others."""
    parents: list[list[int]] = []
    for commit in range(chance.randint(1, 29)):
        count = min(commit, chance.choice([0, 1, 1, 1, 1, 2, 2, 3]))
        own = {commit - 1} if count and chance.random() < 0.6 else set[int]()
        while len(own) < count:
            own.add(chance.randrange(commit))
        parents.append(chance.sample(sorted(own), len(own)))
    built_on = {parent for own in parents for parent in own}
    return [*parents, [commit for commit in range(len(parents)) if commit not in built_on]]


def in_chains(parents: list[list[int]]) -> Chains:
    edges = [(child, parent) for child, own in enumerate(parents) for parent in own]
    child, parent = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return Chains(len(parents), child, parent)


@pytest.mark.parametrize("seed", range(300))
def test_stretches_are_counted_listed_and_halved(seed: int) -> None:
    chance = random.Random(seed)
    parents = random_parents(chance)
    graph, chains = CommitGraph(parents), in_chains(parents)
    for _ in range(6):
        upto = chance.randrange(len(parents))
        after = [chance.randrange(len(parents)) for _ in range(chance.choice([0, 0, 1, 1, 2]))]
        stretch = graph.ancestors(upto).copy()
        for each in after:
            stretch &= ~graph.ancestors(each)
        members = np.flatnonzero(stretch).tolist()
        assert chains.count(after, upto) == len(members)
        assert chains.members(after, upto) == members
        if len(members) < 2:
            with pytest.raises(ValueError, match="at least two commits to halve"):
                chains.halve(after, upto)
            continue
        imbalance = {
            each: abs(2 * int((graph.ancestors(each) & stretch).sum()) - len(members))
            for each in members
            if each != upto
        }
        assert imbalance[chains.halve(after, upto)] == min(imbalance.values())
