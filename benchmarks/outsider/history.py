"""Made-up histories: lines and graphs with merges, whose last commit is the bad end."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

GOOD = -1
"""The good end."""


@dataclass(frozen=True, kw_only=True)
class History:
    """Commits 0, 1, ..., parents before children; the last one is the bad end. A commit without parents builds on the
    good end, or on the commit from before the range (-2, -3, ...) that `forks` gives it."""

    parents: tuple[tuple[int, ...], ...]
    forks: Mapping[int, int] = field(default_factory=dict[int, int])

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def end(self) -> int:
        """The bad end."""
        return len(self.parents) - 1

    @property
    def merges(self) -> int:
        """How many commits have several parents."""
        return sum(len(parents) > 1 for parents in self.parents)

    @cached_property
    def ancestors(self) -> tuple[frozenset[int], ...]:
        """What each commit holds, itself included."""
        found: list[frozenset[int]] = []
        for place, parents in enumerate(self.parents):
            found.append(frozenset({place}).union(*(found[parent] for parent in parents)))
        return tuple(found)

    def below(self, *commits: int) -> frozenset[int]:
        """The commits that hold any of these, themselves included."""
        below = {*commits}
        for place, parents in enumerate(self.parents):
            if not below.isdisjoint(parents):
                below.add(place)
        return frozenset(below)

    def breaks(self, bad: Collection[int]) -> frozenset[int]:
        """The bad commits all of whose parents are good."""
        return frozenset(
            commit
            for commit in range(len(self))
            if commit in bad and not any(parent in bad for parent in self.outer_parents(commit))
        )

    def outer_parents(self, commit: int) -> tuple[int, ...]:
        """A commit's parents, those from before the range too."""
        return self.parents[commit] or (self.forks.get(commit, GOOD),)


def line(size: int) -> History:
    """One commit after the other."""
    return History(parents=tuple((place - 1,) if place else () for place in range(size)))


def feature_branches(rng: Random, size: int) -> History:
    """A main line into which short branches are merged."""
    parents: list[tuple[int, ...]] = [()]
    main, branches = 0, list[int]()
    while len(parents) + len(branches) + 1 < size:
        draw, new = rng.random(), len(parents)
        if draw < 0.15 and len(branches) < 4:
            parents.append((rng.choice([commit for commit in range(new) if commit >= main - 8]),))
            branches.append(new)
        elif draw < 0.35 and branches:
            parents.append((main, branches.pop(rng.randrange(len(branches)))))
            main = new
        elif draw < 0.65 and branches:
            which = rng.randrange(len(branches))
            parents.append((branches[which],))
            branches[which] = new
        else:
            parents.append((main,))
            main = new
    return History(parents=_joined(parents, [main, *branches]))


def tangle(rng: Random, size: int) -> History:
    """Anybody merges anybody."""
    parents: list[tuple[int, ...]] = [()]
    heads = {0}
    while len(parents) + len(heads) < size:
        new = len(parents)
        near = [commit for commit in range(new) if commit >= new - 10]
        first, second = rng.choice(near), rng.choice(near)
        merged = (first, second) if first != second and rng.random() < 0.4 else (first,)
        heads -= {*merged}
        heads.add(new)
        parents.append(merged)
    return History(parents=_joined(parents, sorted(heads)))


def _joined(parents: list[tuple[int, ...]], heads: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """All heads merged into the first, and one commit after that."""
    head, *others = heads
    for other in others:
        parents.append((head, other))
        head = len(parents) - 1
    parents.append((head,))
    return tuple(parents)


def size(rng: Random, least: int = 8, most: int = 200) -> int:
    """A number of commits, small ones as probable as large ones."""
    return round(least * (most / least) ** rng.random())


def any_history(rng: Random, least: int = 8, most: int = 200) -> History:
    """A line as often as a graph."""
    commits, draw = size(rng, least, most), rng.random()
    if draw < 0.5:
        return line(commits)
    return feature_branches(rng, commits) if draw < 0.8 else tangle(rng, commits)
