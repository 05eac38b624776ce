"""A simulated range with a truth that only the simulation knows."""

import random
from dataclasses import dataclass, field
from functools import lru_cache
from math import log2

import numpy as np

from precision_bisect.bisect.search.evidence.knowledge import Outcome
from precision_bisect.bisect.search.graph.graph import CommitGraph
from precision_bisect.bisect.search.model.groups import GOOD_END
from tests.bisect.search.search_histories import branching, untestable

BUILD_SECONDS = 600.0
REBUILD_SECONDS = 50.0
RUN_SECONDS = 50.0
"""Of a first build, of taking a build from the cache, and of a run."""

_HISTORIES = 10


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One row of the table: a kind of range.

    good, bad: fail rates of good and bad commits. known: whether the search is told these rates.
    skip_share, skip_cluster: the share of commits that cannot be tested, in stretches of so many.
    innocent: the share of ranges in which no commit is to blame.
    """

    n: int
    good: float = 0.0
    bad: float = 1.0
    known: bool = False
    merge_rate: float = 0.0
    skip_share: float = 0.0
    skip_cluster: int = 1
    innocent: float = 0.0
    workers: int = 1


@lru_cache(maxsize=2 * _HISTORIES)
def _history(n: int, merge_rate: float, number: int) -> CommitGraph:
    return CommitGraph(branching(n, merge_rate, random.Random(number)))


@dataclass
class World:
    """One range of a cell. Every run is counted; runs of the two ends apart."""

    cell: Cell
    seed: int
    graph: CommitGraph = field(init=False)
    skips: frozenset[int] = field(init=False)
    culprit: int | None = field(init=False)
    probes: int = 0
    end_runs: int = 0
    built: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        cell, rng = self.cell, random.Random(self.seed)
        # A few histories, each used by many seeds: what is planned or asked of git once serves again.
        self.graph = _history(cell.n, cell.merge_rate, self.seed % _HISTORIES)
        self.skips, told = self._untestable()
        self.culprit = None if rng.random() < cell.innocent else rng.choice(told)
        bad = [False] * (cell.n + 1)
        if self.culprit is not None:
            for commit in range(self.culprit, cell.n):
                bad[commit] = commit == self.culprit or any(bad[of] for of in self.graph.parents[commit])
        self._bad = bad
        self._rng = rng

    def _untestable(self) -> tuple[frozenset[int], tuple[int, ...]]:
        """Commits that cannot be tested, and culprits that can be told: they and their parents can."""
        cell, skips = self.cell, frozenset[int]()
        if cell.skip_share:
            rng = random.Random(f"untestable {self.seed}")
            skips = frozenset(untestable(cell.n, cell.skip_share, cell.skip_cluster, rng))
        parents = self.graph.parents
        return skips, tuple(commit for commit in range(cell.n) if not skips & {commit, *parents[commit]})

    def run(self, commit: int) -> Outcome:
        """One run of a commit, or of `GOOD_END`."""
        if commit in (GOOD_END, self.graph.bad):
            self.end_runs += 1
        else:
            self.probes += 1
        self.built.add(commit)
        if commit in self.skips:
            return Outcome.SKIP
        rate = self.cell.bad if self._bad[commit] else self.cell.good
        return Outcome.BAD if self._rng.random() < rate else Outcome.GOOD

    def seconds(self, commit: int) -> float:
        """What the next run of a commit takes."""
        return (REBUILD_SECONDS if commit in self.built else BUILD_SECONDS) + RUN_SECONDS


def capacity(good: float, bad: float) -> float:
    """Of the channel from good or bad to pass or fail, in bits a run (the largest mutual information)."""

    def h(p: float) -> float:
        return -sum(q * log2(q) for q in (p, 1 - p) if q > 0)

    shares = np.linspace(0, 1, 2001)
    return max(h(b * bad + (1 - b) * good) - b * h(bad) - (1 - b) * h(good) for b in shares)
