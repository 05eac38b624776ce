"""The commits between the two ends of a bisection, as an immutable graph of indices."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .ancestor_sums import AncestorSums

Mask: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_MASKS, _MASK_BYTES = 128, 32_000_000
"""How many ancestries are kept for the next question, at least, and how many bytes of them."""


class CommitGraph:
    """The candidates: ancestors of the bad end, itself included, that are not ancestors of the good end.

    Commits are the numbers 0..n-1 in an order that puts parents before their children, so the bad end is
    n-1. `parents[v]` lists the parents of v that are candidates themselves, in git's order: a parent on
    the good side is left out. `times[v]` is the committer date of v (any unit); it only breaks ties the way
    git does, and defaults to the index. Neither may change afterwards.

    Raises ValueError if there is no commit, a parent does not precede its child, or a commit does not lead
    to the bad end.
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
        """The bad end: the one commit that all others lead to."""
        return len(self.parents) - 1

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The children of each commit, in index order."""
        children: list[list[int]] = [[] for _ in self.parents]
        for commit, parents in enumerate(self.parents):
            for parent in parents:
                children[parent].append(commit)
        return tuple(map(tuple, children))

    def with_children(self, commits: Iterable[int]) -> frozenset[int]:
        """These commits and what builds on them directly."""
        return frozenset(each for commit in commits for each in (commit, *self.children[commit]))

    def ancestors(self, commit: int) -> Mask:
        """A mask over all commits, not to be written to: the ancestors of `commit`, itself included."""
        mask = self._ancestors.pop(commit, None)
        if mask is None:
            mask = self._walk(commit)
        # Kept in the order of use, so that the first one was not needed for the longest time.
        self._ancestors[commit] = mask
        if len(self._ancestors) > max(_MASKS, _MASK_BYTES // len(self)):
            del self._ancestors[next(iter(self._ancestors))]
        return mask

    def _walk(self, commit: int) -> Mask:
        seen = bytearray(len(self))
        seen[commit] = 1
        todo = [commit]
        while todo:
            for parent in self.parents[todo.pop()]:
                if not seen[parent]:
                    seen[parent] = 1
                    todo.append(parent)
        return np.frombuffer(bytes(seen), dtype=np.bool_)

    def ancestor_sums(self, weights: Floats) -> Floats:
        """For each commit, the sum of `weights` over its ancestors, itself included. The first call prepares the
        graph; a call then takes time linear in the commits and in what merges bring in."""
        return self._ancestor_sums.of(weights)

    @cached_property
    def _ancestor_sums(self) -> AncestorSums:
        return AncestorSums.of_parents(self.parents, self.children)

    @cached_property
    def generations_left(self) -> Integers:
        """How many commits follow each on the longest line to the bad end, each building on the one before it. Shape
        [n]."""
        left = [0] * len(self)
        for commit in range(self.bad, -1, -1):
            for parent in self.parents[commit]:
                left[parent] = max(left[parent], left[commit] + 1)
        return np.array(left, dtype=np.int64)

    @cached_property
    def edges(self) -> tuple[Integers, Integers]:
        """Each commit that has a parent, as often as it has, and that parent; both of one length."""
        counts = [len(parents) for parents in self.parents]
        return np.repeat(np.arange(len(self)), counts), np.fromiter(
            chain.from_iterable(self.parents), dtype=np.int64, count=sum(counts)
        )

    @cached_property
    def dated(self) -> bool:
        """Whether no two commits have one date, and each is younger than its parents."""
        times = np.array(self.times, dtype=np.float64)
        child, parent = self.edges
        return bool((times[child] > times[parent]).all()) and len(np.unique(times)) == len(times)

    def newest_first(self, among: Mask) -> list[int]:
        """The commits of `among` in the order of `git rev-list`: by committer date, the newest first.

        `among` must hold, with two commits, all that lie between them. Equal dates come in the order in
        which the walk met them, as in git's `limit_list`; under skewed clocks a parent may precede a child.
        """
        if self.dated:
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
