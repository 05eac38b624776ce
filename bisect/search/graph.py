"""The commits between the two ends of a bisection, as an immutable graph of indices.

`CommitGraph` holds the candidates, their ancestors and their order. `Windows` are stretches of history between a
change and its undoing. `Ancestry` answers which commit builds on which while a graph grows. `AncestorSums` sums weights
over the ancestors of every commit at once. `Chains` halves a history of any length.
"""

import itertools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Mask: TypeAlias = NDArray[np.bool_]

Floats: TypeAlias = NDArray[np.float64]

Integers: TypeAlias = NDArray[np.int64]

_MIN_CACHED_MASKS, _MASK_BYTES = 128, 32_000_000
"""At least this many ancestries are cached. More are kept while they fit into the second number, in bytes."""


class CommitGraph:
    """The candidates: ancestors of the bad end, itself included, that are not ancestors of the good end.

    Commits are the numbers 0..n-1 in an order that puts parents before their children, so the bad end is n-1. Neither
    attribute may be changed.

    parents: the parents of each commit that are candidates themselves, in git's order.
    times: the committer dates in any unit, which only break ties, as in git. The default is the index.

    Raises `ValueError` if there is no commit, a parent does not precede its child, or a commit does not lead to the bad
    end.
    """

    parents: Final[tuple[tuple[int, ...], ...]]
    times: Final[tuple[float, ...]]

    def __init__(self, parents: Sequence[Sequence[int]], times: Sequence[float] | None = None) -> None:
        self.parents = tuple(
            tuple(own_parents if len(own_parents) < 2 else dict.fromkeys(own_parents))
            for own_parents in parents
        )
        self.times = tuple(range(len(parents)) if times is None else times)
        self._ancestors: dict[int, Mask] = {}
        self._check()

    def _check(self) -> None:
        if not self.parents:
            raise ValueError("expected at least one candidate commit (the bad end), found none")
        if len(self.times) != len(self.parents):
            raise ValueError(f"expected one time per commit ({len(self.parents)}), found {len(self.times)}")
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
        """Return the bad end, to which all other commits lead."""
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
        """Return these commits and their children."""
        return frozenset(each for commit in commits for each in (commit, *self.children[commit]))

    def ancestors(self, commit: int) -> Mask:
        """Return the mask of the ancestors of `commit`, itself included. It is cached, and so read-only."""
        mask = self._ancestors.pop(commit, None)
        if mask is None:
            mask = self._ancestor_sums.ancestor_mask(commit)
            mask.flags.writeable = False
        # Masks are kept in the order of use, so the first one is the least recently used.
        self._ancestors[commit] = mask
        if len(self._ancestors) > max(_MIN_CACHED_MASKS, _MASK_BYTES // len(self)):
            del self._ancestors[next(iter(self._ancestors))]
        return mask

    def ancestor_sums(self, weights: Floats) -> Floats:
        """Return for each commit the sum of `weights` over its ancestors, itself included.

        The first call prepares the graph. Each call then takes time linear in the commits and in those that merges
        bring in. `AncestorSums.sum_weights` states the error.
        """
        return self._ancestor_sums.sum_weights(weights)

    @cached_property
    def _ancestor_sums(self) -> "AncestorSums":
        return AncestorSums.from_ancestry(self._ancestry)

    @cached_property
    def _ancestry(self) -> "Ancestry":
        ancestry = Ancestry()
        for parents in self.parents:
            ancestry.add(parents)
        return ancestry

    def is_ancestor(self, ancestor: int, commit: int) -> bool:
        """Return whether `commit` builds on `ancestor`. A commit is its own ancestor."""
        return self._ancestry.is_ancestor(ancestor, commit)

    @cached_property
    def generations_left(self) -> Integers:
        """Return the length of the longest path from each commit to the bad end. Shape [n]."""
        left = [0] * len(self)
        for commit in range(self.bad, -1, -1):
            for parent in self.parents[commit]:
                left[parent] = max(left[parent], left[commit] + 1)
        return np.array(left, dtype=np.int64)

    @cached_property
    def edges(self) -> tuple[Integers, Integers]:
        """Return the child and the parent of each edge, as two arrays of one length."""
        counts = [len(parents) for parents in self.parents]
        return np.repeat(np.arange(len(self)), counts), np.fromiter(
            itertools.chain.from_iterable(self.parents), dtype=np.int64, count=sum(counts)
        )

    @cached_property
    def has_distinct_dates(self) -> bool:
        """Return whether all dates differ, and each commit is younger than its parents."""
        times = np.array(self.times, dtype=np.float64)
        child, parent = self.edges
        return bool((times[child] > times[parent]).all()) and len(np.unique(times)) == len(times)

    def newest_first(self, among: Mask) -> list[int]:
        """Return the commits of `among` in the order of `git rev-list`: by committer date, the newest first.

        `among` must be convex: with two commits it holds all that lie between them. Commits with equal dates come in
        the order in which git's walk meets them (`limit_list`). Under skewed clocks a parent may precede a child.
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


class Window(NamedTuple):
    """A stretch of history: `end` undoes the change of `start`, an ancestor of it.

    The commits from `start` on before `end` are inside.

    is_declared_revert: whether `end` says that it reverts. People revert when something was wrong.
    """

    start: int
    end: int
    is_declared_revert: bool = False


class Windows:
    """The windows of a range, in arrays. A long history that toggles a file has one for each commit.

    start, end, is_declared_revert: as in `Window`, of each window; shape [w].
    """

    def __init__(self, windows: Iterable[Window] = ()) -> None:
        rows = np.array([*windows], dtype=np.int64).reshape(-1, len(Window._fields))
        self.start, self.end = rows[:, 0], rows[:, 1]
        self.is_declared_revert: Mask = rows[:, 2].astype(np.bool_)

    def __len__(self) -> int:
        return len(self.start)

    def rows(self, indices: Integers) -> Iterator[Window]:
        """Yield some of the windows."""
        columns = (self.start, self.end, self.is_declared_revert)
        return itertools.starmap(Window, zip(*(each[indices].tolist() for each in columns), strict=True))

    def renumber(self, numbers: Mapping[int, int]) -> "Windows":
        """Return the windows with other numbers of their commits, without those that have an end without one."""
        return Windows(
            Window(numbers[start], numbers[end], is_declared_revert)
            for start, end, is_declared_revert in self.rows(np.arange(len(self)))
            if start in numbers and end in numbers
        )


NO_WINDOWS = Windows()


_NO_PARENT = -1
"""The base of a commit without parents. Commits are numbered from 0."""


class Ancestry:
    """A growing graph that knows which commit builds on which.

    Commits are numbered in the order in which they are added.

    The base of a commit is its parent with the most ancestors. Its ancestry is stored as that of the base, plus the
    commits that the other parents bring in. So a long-lived branch that merges the trunk brings in its own few commits,
    and not the many of the trunk.

    The bases form a forest. The ancestors of b are the commits on the line of bases from b, and all commits that merges
    on that line bring in. Skip pointers climb a line in log2(n) steps. (Myers, An Applicative Random-Access Stack,
    1983.) Adding a commit with one parent takes constant time. A merge asks `is_ancestor` for each commit that it
    brings in, and for the parents of these commits. The answer takes log2(n) steps, and as many for each earlier merge
    that brought in the commit.
    """

    def __init__(self) -> None:
        self.base = array("q")
        """The base of each commit, -1 where it has no parent."""
        self.brought: dict[int, list[int]] = {}
        """The commits that each merge brings in, ascending. A merge that brings in nothing is left out."""
        self._parents: list[Sequence[int]] = []
        self._count = array("q")
        self._depth = array("q")
        self._skip = array("q")
        self._brought_by: dict[int, list[int]] = {}
        """The merges that brought in each commit."""

    def __len__(self) -> int:
        return len(self.base)

    def add(self, parents: Sequence[int]) -> int:
        """Add a commit, whose parents were added before, and return its number."""
        commit = len(self.base)
        base = max(parents, key=self._count.__getitem__) if parents else _NO_PARENT
        brought = self._missing_ancestors(parents, base) if len(parents) > 1 else []
        if brought:
            self.brought[commit] = brought
            for each in brought:
                self._brought_by.setdefault(each, []).append(commit)
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
        equal_jumps = self._depth[base] - self._depth[near] == self._depth[near] - self._depth[far]
        self._skip.append(far if equal_jumps else base)
        return commit

    def _missing_ancestors(self, parents: Sequence[int], base: int) -> list[int]:
        """Return the ancestors of `parents` that are not ancestors of `base`, ascending."""
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
            self._is_on_line(merge, commit) for merge in self._brought_by.get(ancestor, ())
        )

    def _is_on_line(self, ancestor: int, commit: int) -> bool:
        depth = self._depth[ancestor]
        while self._depth[commit] > depth:
            skip = self._skip[commit]
            commit = skip if self._depth[skip] >= depth else self.base[commit]
        return commit == ancestor

    def roots(self, commit: int) -> list[int]:
        """Return the ancestors of a commit that have no parent, ascending."""
        seen = {commit}
        waiting = [commit]
        while waiting:
            new = set(self._parents[waiting.pop()]) - seen
            seen |= new
            waiting.extend(new)
        return sorted(each for each in seen if not self._parents[each])


@dataclass(frozen=True, eq=False)
class AncestorSums:
    """Sums over the ancestors of every commit, in arrays that are computed once.

    The forest of bases (`Ancestry`) is cut into chains. A chain continues with the child that has the most descendants,
    so a path to a root passes at most log2(n) chains. (Heavy paths; Sleator and Tarjan, A Data Structure for Dynamic
    Trees, 1983.) The depth of a chain is the number of chains above it. All chains of one depth are summed at once.

    order: the commits chain by chain, by the depths of the chains.
    places, chains: the place of each commit in `order`, and its chain.
    levels: for each depth, its slice of the chains, and its slice of `order`.
    chain_starts: the place of each chain's first commit.
    above: the place from which each chain continues, or -1.
    lengths: the number of commits of each chain.
    merges, starts, brought: merge `merges[i]` brings in `brought[starts[i]:starts[i + 1]]`.
    """

    order: Integers
    places: Integers
    chains: Integers
    levels: list[tuple[slice, slice]]
    chain_starts: Integers
    above: Integers
    lengths: Integers
    merges: Integers
    starts: Integers
    brought: Integers

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
        chain_starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
        chain_bounds = np.cumsum(np.bincount(depth)).tolist()
        place_bounds = np.append(chain_starts, len(base))
        levels = [
            (slice(first, last), slice(int(place_bounds[first]), int(place_bounds[last])))
            for first, last in zip([0, *chain_bounds[:-1]], chain_bounds, strict=True)
        ]
        above = above[by_depth]
        counts = [len(commits) for commits in brought.values()]
        return cls(
            order=order,
            places=place,
            chains=rank[chain],
            levels=levels,
            chain_starts=chain_starts,
            above=np.where(above == _NO_PARENT, _NO_PARENT, place[above]),
            lengths=lengths,
            merges=np.array(list(brought), dtype=np.int64),
            starts=np.cumsum([0, *counts], dtype=np.int64)[:-1],
            brought=np.fromiter(
                itertools.chain.from_iterable(brought.values()), dtype=np.int64, count=sum(counts)
            ),
        )

    def sum_weights(self, weights: Floats) -> Floats:
        """Return for each commit the sum of `weights` over its ancestors, itself included.

        Each sum is a difference of running sums over all n commits. So its error is absolute: about n * eps times the
        sum of the magnitudes of all weights. A weight counts there again for each merge that brings it in. A smaller
        weight than this error is lost.
        """
        own = np.array(weights, dtype=np.float64)
        if len(self.merges):
            own[self.merges] += np.add.reduceat(own[self.brought], self.starts)
        running = np.append(0.0, np.cumsum(own[self.order]))
        sums = running[1:]
        before = running[self.chain_starts]
        for chains, places in self.levels:
            above = self.above[chains]
            # Chains of depth 0 have nothing above them. The sums above all other chains are complete by now.
            reached = sums[above] if places.start else 0.0
            sums[places] += np.repeat(reached - before[chains], self.lengths[chains])
        result = np.empty_like(sums)
        result[self.order] = sums
        return result

    def ancestor_mask(self, commit: int) -> Mask:
        """Return which commits are ancestors of `commit`, itself included."""
        mask = np.zeros(len(self.order), dtype=np.bool_)
        place = int(self.places[commit])
        while place != _NO_PARENT:
            chain = self.chains[self.order[place]]
            mask[self.order[self.chain_starts[chain] : place + 1]] = True
            place = int(self.above[chain])
        counts = np.diff(self.starts, append=len(self.brought))
        mask[self.brought[np.repeat(mask[self.merges], counts)]] = True
        return mask


def _chains(base: Sequence[int]) -> tuple[Integers, Integers, Integers]:
    """Return the chain of each commit, and two values for each chain.

    The two values are the commit from which it continues, and its depth.
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


class Chains:
    """A history of any length, in arrays. It is cut into chains, and halved by these.

    Commits are numbered so that parents come first. A chain is a run of consecutive numbers. Within it, the only parent
    of a commit is the commit before it, which has no other child. So a history without merges is one chain. Any history
    has about two chains for each merge.
    """

    def __init__(self, commits: int, child: Integers, parent: Integers) -> None:
        """`child` and `parent` are the two commits of each edge. The edges come in the order of the children.

        Raises `ValueError` where the commits cannot form a `CommitGraph`.
        """
        is_first = np.ones(commits, dtype=np.bool_)
        follows = child[parent == child - 1]
        edges_up, edges_down = (np.bincount(each, minlength=commits) for each in (child, parent))
        is_first[follows[(edges_up[follows] == 1) & (edges_down[follows - 1] == 1)]] = False
        self._start = np.flatnonzero(is_first)
        """The first commit of each chain."""
        self._size = np.diff(self._start, append=commits)
        self._chain_of = np.cumsum(is_first) - 1
        between = is_first[child]
        edges = zip(
            self._chain_of[child[between]].tolist(), self._chain_of[parent[between]].tolist(), strict=True
        )
        parents: dict[int, list[int]] = {chain: [] for chain in range(len(self._start))}
        for of_chain, above in edges:
            parents[of_chain].append(above)
        self._graph = CommitGraph([*parents.values()])

    def _counts(self, after: Sequence[int], upto: int) -> Integers:
        """Return how many commits of each chain are ancestors of `upto`, but of none of `after`. Shape [chains]."""
        return np.maximum(self._ancestor_counts((upto,)) - self._ancestor_counts(after), 0)

    def _ancestor_counts(self, commits: Sequence[int]) -> Integers:
        """Return how many commits of each chain are ancestors of any of some commits. They are the first ones."""
        counts = np.zeros(len(self._start), dtype=np.int64)
        for commit in commits:
            chain = int(self._chain_of[commit])
            own = np.where(self._graph.ancestors(chain), self._size, 0)
            own[chain] = commit - self._start[chain] + 1
            counts = np.maximum(counts, own)
        return counts

    def count(self, after: Sequence[int], upto: int) -> int:
        """Return the number of ancestors of `upto`, itself included, that are ancestors of none of `after`."""
        return int(self._counts(after, upto).sum())

    def members(self, after: Sequence[int], upto: int) -> list[int]:
        """Return the commits that `count` counts, parents first."""
        counts = self._counts(after, upto)
        first = np.repeat(self._start + self._ancestor_counts(after), counts)
        places = first + np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places.tolist()

    def halve(self, after: Sequence[int], upto: int) -> int:
        """Return the member that has nearest to half of all members among its ancestors, and is not `upto`.

        Raises `ValueError` where there are fewer than two members.
        """
        counts = self._counts(after, upto)
        total = int(counts.sum())
        if total < 2:
            raise ValueError(f"expected at least two commits to halve, found {total}")
        # In a chain, each commit has one ancestor more than the commit before it.
        last = np.rint(self._graph.ancestor_sums(counts.astype(np.float64))).astype(np.int64)
        most = np.minimum(last, total - 1)
        reach = np.clip(total // 2, last - counts + 1, most)
        distance = np.where((counts > 0) & (most > last - counts), np.abs(2 * reach - total), total + 1)
        chain = int(np.argmin(distance))
        place = self._ancestor_counts(after)[chain] + reach[chain] - (last[chain] - counts[chain])
        return int(self._start[chain] + place) - 1
