"""Small graphs with made-up outcomes, and a caller that makes the runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from precision_bisect.reduce.shrink.minimize import (
    Answer,
    DependencyGraph,
    Memory,
    Minimizer,
    MinimizerState,
    Subset,
    Trial,
)

Oracle = Callable[[Trial[Subset]], Answer]


def random_graph(rng: random.Random, n: int) -> DependencyGraph:
    """Each element needs up to three earlier ones."""
    return DependencyGraph(
        tuple(
            tuple(sorted(rng.sample(range(element), min(element, rng.choice((0, 0, 1, 1, 2, 3))))))
            for element in range(n)
        )
    )


def needing(*elements: int, rate: float = 1.0, seed: int = 0) -> Oracle:
    """Interesting with all of these, at a rate."""

    def oracle(run: Trial[Subset]) -> Answer:
        chance = random.Random(f"{seed} {hash(run.candidate)} {run.number}").random()
        return Answer.INTERESTING if set(elements) <= run.candidate and chance < rate else Answer.PASSED

    return oracle


def trapped(oracle: Oracle, *traps: tuple[int, int]) -> Oracle:
    """Of each trap, the first fails otherwise while the second is dropped."""

    def judged(run: Trial[Subset]) -> Answer:
        slips = any(task in run.candidate and need not in run.candidate for task, need in traps)
        return Answer.SLIPPED if slips else oracle(run)

    return judged


def lawless(seed: int, whole: Subset) -> Oracle:
    """The whole is interesting, anything else is what a die says, yet always the same."""

    def oracle(run: Trial[Subset]) -> Answer:
        if run.candidate == whole:
            return Answer.INTERESTING
        rng = random.Random(f"{seed} {hash(run.candidate)}")
        return rng.choices(list(Answer), [0.25, 0.45, 0.15, 0.15])[0]

    return oracle


@dataclass
class Caller:
    """Makes up to `workers` runs at once, which end in any order; keeps those it made."""

    oracle: Oracle
    workers: int = 1
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    made: list[tuple[Trial[Subset], Answer]] = field(default_factory=list)

    def minimize(
        self, start: MinimizerState[Subset], memory: Memory[Subset] | None = None, *, most: int | None = None
    ) -> Subset:
        """Until nothing is left to ask, or `most` runs were made."""
        minimizer = Minimizer(start, memory)
        under_way: list[Trial[Subset]] = []
        while not minimizer.is_done and (most is None or len(self.made) < most):
            if self.workers > len(under_way):
                under_way += minimizer.ask(self.workers - len(under_way))
            run = under_way.pop(self.rng.randrange(len(under_way)))
            outcome = self.oracle(run)
            self.made.append((run, outcome))
            minimizer.tell(run, outcome)
        return minimizer.best
