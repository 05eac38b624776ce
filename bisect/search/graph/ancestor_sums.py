"""Sums over the ancestors of every commit at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_NO_PARENT = -1


@dataclass(frozen=True, eq=False)
class AncestorSums:
    """Prepared from the parents of each commit: about 5 microseconds a commit, and an index for each commit that a
    merge brings in.

    Each ancestry is that of one parent, the base, and what the other parents bring in. The bases make a forest,
    which is cut into chains, each commit going on with the child that has the most descendants there: any path
    leaves a chain at most log2(n) times (heavy paths; Sleator and Tarjan, A Data Structure for Dynamic Trees, 1983).
    A chain is summed at once, and the chains by depth.

    order: commits chain by chain, the chains of a depth together. depths: ends of the depths in `order`.
    heads: for each chain the place of its first commit in `order`; above: the place that it goes on from, or -1.
    Merge `merges[i]` brings in `brought[starts[i]:starts[i + 1]]`; merges that bring in nothing are left out.
    """

    order: NDArray[np.int64]
    depths: list[tuple[slice, slice]]
    heads: NDArray[np.int64]
    above: NDArray[np.int64]
    lengths: NDArray[np.int64]
    merges: NDArray[np.int64]
    starts: NDArray[np.int64]
    brought: NDArray[np.int64]

    @classmethod
    def of_parents(
        cls, parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]
    ) -> "AncestorSums":
        """`parents` and `children` of each commit, parents before children."""
        base, brought = _bases(parents, children)
        chain, above, depth = _chains(base)
        by_depth = np.argsort(depth, kind="stable")
        rank = np.empty(len(depth), dtype=np.int64)
        rank[by_depth] = np.arange(len(depth))
        order = np.argsort(rank[chain], kind="stable")
        place = np.empty(len(base), dtype=np.int64)
        place[order] = np.arange(len(base))
        lengths = np.bincount(rank[chain])
        heads = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
        of_depth = np.cumsum(np.bincount(depth)).tolist()
        ends = np.append(heads, len(base))
        depths = [
            (slice(first, last), slice(int(ends[first]), int(ends[last])))
            for first, last in zip([0, *of_depth[:-1]], of_depth, strict=True)
        ]
        above = above[by_depth]
        counts = [len(commits) for commits in brought.values()]
        return cls(
            order=order,
            depths=depths,
            heads=heads,
            above=np.where(above == _NO_PARENT, _NO_PARENT, place[above]),
            lengths=lengths,
            merges=np.array(list(brought), dtype=np.int64),
            starts=np.cumsum([0, *counts[:-1]], dtype=np.int64),
            brought=np.concatenate([*brought.values(), np.zeros(0, dtype=np.int64)]),
        )

    def of(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each commit, the sum of `weights` over its ancestors, itself included."""
        own = np.array(weights, dtype=np.float64)
        if len(self.merges):
            own[self.merges] += np.add.reduceat(own[self.brought], self.starts)
        running = np.append(0.0, np.cumsum(own[self.order]))
        sums = running[1:]
        before = running[self.heads]
        for chains, places in self.depths:
            above = self.above[chains]
            # Depth 0 goes on from nothing; all others from sums that are complete.
            reached = sums[above] if places.start else 0.0
            sums[places] += np.repeat(reached - before[chains], self.lengths[chains])
        result = np.empty_like(sums)
        result[self.order] = sums
        return result


def _bases(
    parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]
) -> tuple[list[int], dict[int, NDArray[np.int64]]]:
    """Each commit's base, the parent with the most ancestors, and what each merge brings in beside it.

    (The largest keeps that small: a long-lived branch that merges the trunk brings in its own few commits, not the
    trunk's many.) Ancestries are bit sets that live until the last child is done: at most the width of the history.
    """
    base: list[int] = []
    brought: dict[int, NDArray[np.int64]] = {}
    count: list[int] = []
    ancestry: dict[int, int] = {}
    unfinished = [len(those) for those in children]
    for commit, those in enumerate(parents):
        if len(those) == 1:
            (largest,) = those
            known = everything = ancestry[largest]
        else:
            largest = max(those, key=count.__getitem__, default=_NO_PARENT)
            known = everything = ancestry[largest] if those else 0
            for parent in those:
                everything |= ancestry[parent]
        if everything != known:
            brought[commit] = _set_bits(everything & ~known)
            count.append(everything.bit_count() + 1)
        else:
            count.append(1 + (count[largest] if those else 0))
        base.append(largest)
        ancestry[commit] = everything | 1 << commit
        for parent in those:
            unfinished[parent] -= 1
            if not unfinished[parent]:
                del ancestry[parent]
    return base, brought


def _chains(base: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The chain of each commit; for each chain the commit that it goes on from, and how many chains lie above it."""
    size = [1] * len(base)
    heavy = [_NO_PARENT] * len(base)
    for commit in range(len(base) - 1, -1, -1):
        parent = base[commit]
        if parent != _NO_PARENT:
            size[parent] += size[commit]
            if heavy[parent] == _NO_PARENT or size[heavy[parent]] < size[commit]:
                heavy[parent] = commit
    chain: list[int] = []
    above: list[int] = []
    depth: list[int] = []
    for commit, parent in enumerate(base):
        if parent != _NO_PARENT and heavy[parent] == commit:
            chain.append(chain[parent])
        else:
            chain.append(len(above))
            above.append(parent)
            depth.append(0 if parent == _NO_PARENT else depth[chain[parent]] + 1)
    return (
        np.array(chain, dtype=np.int64),
        np.array(above, dtype=np.int64),
        np.array(depth, dtype=np.int64),
    )


def _set_bits(bits: int) -> NDArray[np.int64]:
    """The positions of the ones in `bits`, ascending; `bits` is not 0."""
    lowest = (bits & -bits).bit_length() - 1
    window = bits >> lowest
    octets = np.frombuffer(window.to_bytes((window.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(octets, bitorder="little")) + lowest
