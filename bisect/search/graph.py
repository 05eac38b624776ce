"""The commits between the two ends of a bisection, as an immutable graph of indices.

`CommitGraph` holds the candidates, their ancestors and their order. `Ancestry` says which commit builds on which while
the graph grows. `AncestorSums` sums weights over the ancestors of every commit at once. `Window` is a stretch of
history between a change and its undoing.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

_NO_PARENT = -1
"""A commit that has no parent has this base. Commits are numbered from 0."""


class Ancestry:
    """Which commit builds on which. Commits are added parents first, and are the numbers 0, 1, ... in that order.

    Each ancestry is that of one parent, the base, and what the other parents bring in. The base is the parent with the
    most ancestors. That keeps the rest small: a long-lived branch that merges the trunk brings in its own few commits,
    not the trunk's many. The bases make a forest, so commit a is an ancestor of b in two cases. Either a lies on the
    line of bases from b, or a merge that brought in a does. Skips let a line be climbed in log2(n) steps. (Myers, An
    Applicative Random-Access Stack, 1983.)

    Adding a commit with one parent takes constant time. A merge takes log2(n) steps for each commit that it brings in.
    """

    def __init__(self) -> None:
        self.base: list[int] = []
        """The parent with the most ancestors of each commit, -1 where it has no parent."""
        self.brought: dict[int, list[int]] = {}
        """What each merge brings in beside its base, ascending. A merge that brings in nothing is left out."""
        self._parents: list[Sequence[int]] = []
        self._count: list[int] = []
        self._depth: list[int] = []
        self._skip: list[int] = []
        self._merges: dict[int, list[int]] = {}
        """The merges that brought in each commit."""

    def __len__(self) -> int:
        return len(self.base)

    def add(self, parents: Sequence[int]) -> int:
        """Add a commit and return its number."""
        commit = len(self.base)
        base = max(parents, key=self._count.__getitem__) if parents else _NO_PARENT
        brought = self._missing_ancestors(parents, base) if len(parents) > 1 else []
        if brought:
            self.brought[commit] = brought
            for each in brought:
                self._merges.setdefault(each, []).append(commit)
        self.base.append(base)
        self._parents.append(parents)
        if base == _NO_PARENT:
            self._count.append(1)
            self._depth.append(0)
            self._skip.append(commit)
            return commit
        self._count.append(self._count[base] + len(brought) + 1)
        self._depth.append(self._depth[base] + 1)
        near = self._skip[base]
        far = self._skip[near]
        even = self._depth[base] - self._depth[near] == self._depth[near] - self._depth[far]
        self._skip.append(far if even else base)
        return commit

    def _missing_ancestors(self, parents: Sequence[int], base: int) -> list[int]:
        """Return the ancestors of `parents` that are none of `base`, ascending."""
        found: set[int] = set()
        waiting = [*parents]
        while waiting:
            commit = waiting.pop()
            if commit not in found and not self.is_ancestor(commit, base):
                found.add(commit)
                waiting.extend(self._parents[commit])
        return sorted(found)

    def is_ancestor(self, ancestor: int, commit: int) -> bool:
        """Return whether `commit` builds on `ancestor`. A commit is its own ancestor."""
        if ancestor >= commit:
            return ancestor == commit
        return self._is_on_line(ancestor, commit) or any(
            self._is_on_line(merge, commit) for merge in self._merges.get(ancestor, ())
        )

    def _is_on_line(self, ancestor: int, commit: int) -> bool:
        depth = self._depth[ancestor]
        while self._depth[commit] > depth:
            skip = self._skip[commit]
            commit = skip if self._depth[skip] >= depth else self.base[commit]
        return commit == ancestor

    def roots(self, commit: int) -> list[int]:
        """Return the ancestors of a commit that have no parent."""
        seen = {commit}
        waiting = [commit]
        while waiting:
            new = set(self._parents[waiting.pop()]) - seen
            seen |= new
            waiting.extend(new)
        return [each for each in seen if not self._parents[each]]


@dataclass(frozen=True, eq=False)
class AncestorSums:
    """Sums over the ancestors of every commit, prepared from the parents of each.

    The forest of bases (`Ancestry`) is cut into chains. Each commit goes on with the child that has the most
    descendants there, so any path leaves a chain at most log2(n) times. (Heavy paths; Sleator and Tarjan, A Data
    Structure for Dynamic Trees, 1983.) A chain is summed at once, and the chains by depth.

    order: commits chain by chain, the chains of a depth together.
    depths: for each depth, its slice of the chains, and its slice of `order`.
    lengths: the number of commits of each chain.
    places, chains: for each commit its place in `order`, and its chain.
    heads: for each chain the place of its first commit in `order`; above: the place that it goes on from, or -1.
    Merge `merges[i]` brings in `brought[starts[i]:starts[i + 1]]`; merges that bring in nothing are left out.
    """

    order: NDArray[np.int64]
    places: NDArray[np.int64]
    chains: NDArray[np.int64]
    depths: list[tuple[slice, slice]]
    heads: NDArray[np.int64]
    above: NDArray[np.int64]
    lengths: NDArray[np.int64]
    merges: NDArray[np.int64]
    starts: NDArray[np.int64]
    brought: NDArray[np.int64]

    @classmethod
    def from_ancestry(cls, ancestry: Ancestry) -> "AncestorSums":
        """Prepare the sums over the commits of `ancestry`."""
        base, brought = ancestry.base, ancestry.brought
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
            places=place,
            chains=rank[chain],
            depths=depths,
            heads=heads,
            above=np.where(above == _NO_PARENT, _NO_PARENT, place[above]),
            lengths=lengths,
            merges=np.array(list(brought), dtype=np.int64),
            starts=np.cumsum([0, *counts], dtype=np.int64)[:-1],
            brought=np.fromiter(
                itertools.chain.from_iterable(brought.values()), dtype=np.int64, count=sum(counts)
            ),
        )

    def sum_weights(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for each commit the sum of `weights` over its ancestors, itself included."""
        own = np.array(weights, dtype=np.float64)
        if len(self.merges):
            own[self.merges] += np.add.reduceat(own[self.brought], self.starts)
        running = np.append(0.0, np.cumsum(own[self.order]))
        sums = running[1:]
        before = running[self.heads]
        for chains, places in self.depths:
            above = self.above[chains]
            # A chain of depth 0 goes on from nothing, all others from sums that are complete.
            reached = sums[above] if places.start else 0.0
            sums[places] += np.repeat(reached - before[chains], self.lengths[chains])
        result = np.empty_like(sums)
        result[self.order] = sums
        return result

    def ancestor_mask(self, commit: int) -> NDArray[np.bool_]:
        """Return which commits are ancestors of `commit`, itself included."""
        mask = np.zeros(len(self.order), dtype=np.bool_)
        place = int(self.places[commit])
        while place != _NO_PARENT:
            chain = self.chains[self.order[place]]
            mask[self.order[self.heads[chain] : place + 1]] = True
            place = int(self.above[chain])
        counts = np.diff(self.starts, append=len(self.brought))
        mask[self.brought[np.repeat(mask[self.merges], counts)]] = True
        return mask


def _chains(base: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the chain of each commit, and two values for each chain.

    These are the commit that it goes on from, and how many chains lie above it.
    """
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


Mask: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_MASKS, _MASK_BYTES = 128, 32_000_000
"""At least this number of ancestries are kept for the next question. More are kept as long as they fit into the second
number, in bytes."""


class CommitGraph:
    """The candidates: ancestors of the bad end, itself included, that are not ancestors of the good end.

    Commits are the numbers 0..n-1 in an order that puts parents before their children, so the bad end is n-1.
    `parents[v]` lists the parents of v that are candidates themselves, in git's order: a parent on the good side is
    left out. `times[v]` is the committer date of v (any unit). It only breaks ties the way git does, and defaults to
    the index. Neither may change afterwards.

    Raises ValueError if there is no commit, a parent does not precede its child, or a commit does not lead to the bad
    end.
    """

    parents: Final[tuple[tuple[int, ...], ...]]
    times: Final[tuple[float, ...]]

    def __init__(self, parents: Sequence[Sequence[int]], times: Sequence[float] | None = None) -> None:
        self.parents = tuple(tuple(dict.fromkeys(of_one)) for of_one in parents)
        self.times = tuple(range(len(parents)) if times is None else times)
        self._ancestors: dict[int, Mask] = {}
        self._check()

    def _check(self) -> None:
        if not self.parents:
            raise ValueError("expected at least one candidate commit (the bad end), found none")
        if len(self.times) != len(self.parents):
            raise ValueError(f"expected one time a commit ({len(self.parents)}), found {len(self.times)}")
        for commit, parents in enumerate(self.parents):
            if any(not 0 <= parent < commit for parent in parents):
                raise ValueError(
                    f"expected the parents of commit {commit} in 0..{commit - 1}, found {list(parents)}: "
                    "give the commits parents first (git rev-list --topo-order --reverse)"
                )
        childless = [commit for commit, children in enumerate(self.children) if not children]
        if childless != [self.bad]:
            raise ValueError(
                f"expected only the bad end, commit {self.bad}, to have no child, found {childless}: "
                "leave out commits that are no ancestors of it"
            )

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def bad(self) -> int:
        """Return the bad end: the one commit that all others lead to."""
        return len(self.parents) - 1

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Return the children of each commit, in index order."""
        children: list[list[int]] = [[] for _ in self.parents]
        for commit, parents in enumerate(self.parents):
            for parent in parents:
                children[parent].append(commit)
        return tuple(map(tuple, children))

    def with_children(self, commits: Iterable[int]) -> frozenset[int]:
        """Return these commits and what builds on them directly."""
        return frozenset(each for commit in commits for each in (commit, *self.children[commit]))

    def ancestors(self, commit: int) -> Mask:
        """Return a mask over all commits, not to be written to: the ancestors of `commit`, itself included."""
        mask = self._ancestors.pop(commit, None)
        if mask is None:
            mask = self._ancestor_sums.ancestor_mask(commit)
        # Masks are kept in the order of use, so the first one is the least recently used.
        self._ancestors[commit] = mask
        if len(self._ancestors) > max(_MASKS, _MASK_BYTES // len(self)):
            del self._ancestors[next(iter(self._ancestors))]
        return mask

    def ancestor_sums(self, weights: Floats) -> Floats:
        """Return for each commit the sum of `weights` over its ancestors, itself included.

        The first call prepares the graph. A call then takes time linear in the commits and in what merges bring in.
        """
        return self._ancestor_sums.sum_weights(weights)

    @cached_property
    def _ancestor_sums(self) -> AncestorSums:
        return AncestorSums.from_ancestry(self._ancestry)

    @cached_property
    def _ancestry(self) -> Ancestry:
        ancestry = Ancestry()
        for parents in self.parents:
            ancestry.add(parents)
        return ancestry

    def is_ancestor(self, ancestor: int, commit: int) -> bool:
        """Return whether `commit` builds on `ancestor`. A commit is its own ancestor."""
        return self._ancestry.is_ancestor(ancestor, commit)

    @cached_property
    def generations_left(self) -> Integers:
        """Return how many commits follow each on the longest line to the bad end, each building on the one before it.
        Shape [n]."""
        left = [0] * len(self)
        for commit in range(self.bad, -1, -1):
            for parent in self.parents[commit]:
                left[parent] = max(left[parent], left[commit] + 1)
        return np.array(left, dtype=np.int64)

    @cached_property
    def edges(self) -> tuple[Integers, Integers]:
        """Return each commit that has a parent, as often as it has, and that parent. Both have one length."""
        counts = [len(parents) for parents in self.parents]
        return np.repeat(np.arange(len(self)), counts), np.fromiter(
            itertools.chain.from_iterable(self.parents), dtype=np.int64, count=sum(counts)
        )

    @cached_property
    def has_distinct_dates(self) -> bool:
        """Return whether no two commits have one date, and each is younger than its parents."""
        times = np.array(self.times, dtype=np.float64)
        child, parent = self.edges
        return bool((times[child] > times[parent]).all()) and len(np.unique(times)) == len(times)

    def newest_first(self, among: Mask) -> list[int]:
        """Return the commits of `among` in the order of `git rev-list`: by committer date, the newest first.

        `among` must hold, with two commits, all that lie between them. Equal dates come in the order in which the walk
        met them, as in git's `limit_list`. Under skewed clocks a parent may precede a child.
        """
        if self.has_distinct_dates:
            listed = np.flatnonzero(among)
            return listed[np.argsort(np.array(self.times, dtype=np.float64)[listed])[::-1]].tolist()
        heads = [
            int(commit)
            for commit in np.flatnonzero(among)
            if not any(among[c] for c in self.children[commit])
        ]
        queue = [(-self.times[head], met, head) for met, head in enumerate(reversed(heads))]
        heapify(queue)
        seen = {head for _, _, head in queue}
        order: list[int] = []
        while queue:
            _, _, commit = heappop(queue)
            order.append(commit)
            for parent in self.parents[commit]:
                if among[parent] and parent not in seen:
                    heappush(queue, (-self.times[parent], len(seen), parent))
                    seen.add(parent)
        return order


@dataclass(frozen=True)
class Window:
    """A stretch of history: `end` undoes what `start`, an ancestor of it, has changed.

    Inside are the commits from `start` on before `end`. `reverted`: `end` says so itself, which people do when
    something was wrong in between.
    """

    start: int
    end: int
    reverted: bool = False
