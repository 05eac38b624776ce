"""The commits between the two ends of a bisection, as an immutable graph of indices."""

from collections.abc import Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Mask: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

NO_PARENT = -1
_MASKS, _MASK_BYTES = 128, 32_000_000
"""How many ancestries are kept for the next question, at least, and how many bytes of them."""


class _Bases(NamedTuple):
    """Each ancestry as that of one parent, the base, and the commits that the other parents bring in.

    `base[v]` is NO_PARENT for a root. Merge `merges[i]` brings in `brought[starts[i]:starts[i + 1]]`; merges
    that bring in nothing are left out.
    """

    base: list[int]
    merges: Integers
    starts: Integers
    brought: Integers


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
        """For each commit, the sum of `weights` over its ancestors, itself included.

        The first call prepares the graph: about 2 microseconds a commit and, for each merge, one index for
        each commit that it brings in. A call then takes time linear in the commits and those indices.
        """
        base, merges, starts, brought = self._bases
        own = np.array(weights, dtype=np.float64)
        if len(merges):
            own[merges] += np.add.reduceat(own[brought], starts)
        sums: list[float] = own.tolist()
        for commit, parent in enumerate(base):
            if parent != NO_PARENT:
                sums[commit] += sums[parent]
        return np.array(sums)

    @cached_property
    def _bases(self) -> _Bases:
        """The base is the parent with the most ancestors, which keeps what is brought in small.

        (A long-lived branch that merges the trunk brings in its own few commits, not the trunk's many.)
        Ancestries are bit sets that live until the last child is done: at most the width of the history.
        """
        base: list[int] = []
        brought: dict[int, Integers] = {}
        count: list[int] = []
        ancestry: dict[int, int] = {}
        unfinished = [len(children) for children in self.children]
        for commit, parents in enumerate(self.parents):
            largest = max(parents, key=count.__getitem__, default=NO_PARENT)
            known = ancestry[largest] if parents else 0
            everything = known
            if len(parents) > 1:
                for parent in parents:
                    everything |= ancestry[parent]
                if everything != known:
                    brought[commit] = _set_bits(everything & ~known)
            base.append(largest)
            count.append(
                everything.bit_count() + 1 if commit in brought else 1 + (count[largest] if parents else 0)
            )
            ancestry[commit] = everything | 1 << commit
            for parent in parents:
                unfinished[parent] -= 1
                if not unfinished[parent]:
                    del ancestry[parent]
        lengths = [len(commits) for commits in brought.values()]
        return _Bases(
            base=base,
            merges=np.array(list(brought), dtype=np.int64),
            starts=np.cumsum([0, *lengths[:-1]], dtype=np.int64),
            brought=np.concatenate([*brought.values(), np.zeros(0, dtype=np.int64)]),
        )

    def newest_first(self, among: Mask) -> list[int]:
        """The commits of `among` in the order of `git rev-list`: by committer date, the newest first.

        `among` must hold, with two commits, all that lie between them. Equal dates come in the order in
        which the walk met them, as in git's `limit_list`; under skewed clocks a parent may precede a child.
        """
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


def _set_bits(bits: int) -> Integers:
    """The positions of the ones in `bits`, ascending; `bits` is not 0."""
    lowest = (bits & -bits).bit_length() - 1
    window = bits >> lowest
    octets = np.frombuffer(window.to_bytes((window.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(octets, bitorder="little")) + lowest
