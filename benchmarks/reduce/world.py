"""Task graphs with planted faults. A kept task whose input was dropped dangles: the candidate is invalid."""

import random
from dataclasses import dataclass
from math import comb, log2

from precision_bisect.reduce.shrink.minimize import Answer, DependencyGraph, Subset, Trial

CHAIN = 8  # tasks in a block's chain
JOINS = 0.15  # share of the tasks that read a task of another chain, too
TRAPS = 4
CONTRIBUTIONS = (10, 1, 1, 1, -1, -1, -1, -1)
THRESHOLD = 8
FAULTS = {"edge": 2, "scattered": 3}
"""Tasks that are at fault; one elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """kind: one fault; edge (two tasks that race, neither reads the other); scattered (three tasks); value (a task
    that fails only if what is added up before it is large: one contribution is, others take away from it); trap (one
    fault; other tasks fail otherwise if a task that they do not declare to need is dropped).

    rate: how often the failure shows where it can.
    """

    kind: str
    n: int
    rate: float = 1.0

    @property
    def bits(self) -> float:
        """About what an answer tells: so many tests with two outcomes any method needs in the mean to end at it."""
        return log2(comb(self.n, 2 if self.kind == "value" else FAULTS.get(self.kind, 1)))


class World:
    """One reduction. `optimum` is the least size at which the failure shows, and the only such candidate."""

    def __init__(self, cell: Cell, seed: int) -> None:
        self.cell, self.seed = cell, seed
        rng = random.Random(f"{cell.kind} {cell.n} {seed}")
        self.graph = _graph(cell.n, rng)
        self.faults = self._independent(rng, FAULTS.get(cell.kind, 1))
        tasks = [task for task in range(cell.n) if task not in self.graph.with_ancestors(self.faults)]
        self.contributions: dict[int, int] = {}
        self.traps: dict[int, int] = {}
        if cell.kind == "value":
            chosen = rng.sample(tasks, len(CONTRIBUTIONS))
            self.contributions = dict(zip(chosen, CONTRIBUTIONS, strict=True))
        if cell.kind == "trap":
            for task in rng.sample(tasks, TRAPS):
                self.traps[task] = rng.choice(
                    [other for other in range(cell.n) if task not in self.graph.with_ancestors({other})]
                )
        self.minimum = self._minimum()
        assert self.outcome(Trial(self.minimum, 0), rate=1) is Answer.INTERESTING

    def _independent(self, rng: random.Random, count: int) -> frozenset[int]:
        while True:
            chosen = frozenset(rng.sample(range(self.cell.n), count))
            if all(
                one == other or one not in self.graph.with_ancestors({other})
                for one in chosen
                for other in chosen
            ):
                return chosen

    def _minimum(self) -> Subset:
        """Faults with their ancestors; also the large contribution; nothing of that has an undeclared need."""
        large = {task for task, amount in self.contributions.items() if amount == max(CONTRIBUTIONS)}
        needed = self.graph.with_ancestors(self.faults | large)
        amount = sum(self.contributions.get(task, 0) for task in needed)
        if self.contributions and amount < THRESHOLD:
            # An ancestor of the large one takes away from it: contributions are drawn again.
            raise DrawAgainError
        return needed

    def outcome(self, run: Trial[Subset], *, rate: float | None = None) -> Answer:
        """What a run of a candidate ends with; the same run always ends alike."""
        kept = run.candidate
        if not all(map(kept.issuperset, map(self.graph.predecessors.__getitem__, kept))):
            return Answer.INVALID
        if any(task in kept and need not in kept for task, need in self.traps.items()):
            return Answer.SLIPPED
        if not self.faults <= kept:
            return Answer.PASSED
        if self.contributions and sum(self.contributions.get(task, 0) for task in kept) < THRESHOLD:
            return Answer.PASSED
        rate = self.cell.rate if rate is None else rate
        chance = random.Random(f"{self.seed} {hash(kept)} {run.number}").random()
        return Answer.INTERESTING if chance < rate else Answer.PASSED

    def seconds(self, run: Trial[Subset]) -> float:
        """A start of one second, and up to four of running."""
        return 1 + 4 * len(run.candidate) / self.cell.n


class DrawAgainError(Exception):
    """A draw whose optimum would not be known."""


def draw(cell: Cell, seed: int) -> World:
    """The first world from `seed` on, in steps of 1000, of which the optimum is known."""
    while True:
        try:
            return World(cell, seed)
        except DrawAgainError:
            seed += 1000


def _graph(n: int, rng: random.Random) -> DependencyGraph:
    """Chains of tasks, submitted in turns as a loop over blocks does, some joined to earlier tasks of others."""
    blocks = n // CHAIN
    predecessors: list[tuple[int, ...]] = []
    for task in range(n):
        reads = {task - blocks} if task >= blocks else set[int]()
        if task and rng.random() < JOINS:
            reads.add(rng.randrange(task))
        predecessors.append(tuple(sorted(reads)))
    return DependencyGraph(tuple(predecessors))
