"""ProbDD: Wang, Shen, Chen, Xiong, Zhang, Probabilistic Delta Debugging, ESEC/FSE 2021, section 3."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from precision_bisect.reduce.shrink.minimize import Answer, DependencyGraph, Query, Subset

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ProbDD:
    """`needed[i]`: probability that `elements[i]` is needed, each independent of the others; 1: known to be."""

    graph: DependencyGraph
    elements: npt.NDArray[np.int64]
    needed: Floats
    runs: int

    @staticmethod
    def start(
        graph: DependencyGraph, best: Subset | None = None, *, prior: float | None = None, runs: int = 1
    ) -> ProbDD:
        """From `best` (all elements). `prior` is 2 / n if not given; the paper has 0.1."""
        elements = np.array(sorted(graph.all_elements if best is None else best), np.int64)
        prior = min(0.5, 2 / max(1, len(elements))) if prior is None else prior
        return ProbDD(graph=graph, elements=elements, needed=np.full(len(elements), prior), runs=runs)

    @property
    def best(self) -> Subset:
        """Elements that are left."""
        return frozenset(self.elements.tolist())

    @cached_property
    def dropped(self) -> npt.NDArray[np.int64]:
        """Places of the elements to drop next: the least needed ones, as many as make the expected gain largest."""
        order = np.argsort(self.needed, kind="stable")
        order = order[self.needed[order] < 1]
        gains = np.arange(1, len(order) + 1) * np.cumprod(1 - self.needed[order])
        return order[: int(gains.argmax()) + 1] if len(order) else order

    @cached_property
    def query(self) -> Query[Subset] | None:
        """The best candidate without these."""
        if not len(self.dropped):
            return None
        return Query(self.graph.closed_subset(np.delete(self.elements, self.dropped).tolist()), self.runs)

    @property
    def chance(self) -> float:
        """None of the dropped ones is needed."""
        return float(np.prod(1 - self.needed[self.dropped]))

    def next_state(self, answer: Answer) -> ProbDD:
        """Bayes' rule on the dropped ones, or go on without them."""
        if answer is Answer.INTERESTING:
            assert self.query is not None
            left = np.isin(self.elements, list(self.query.candidate))
            return replace(self, elements=self.elements[left], needed=self.needed[left])
        needed = self.needed.copy()
        # A single one that was dropped in vain is needed, whatever rounding says.
        needed[self.dropped] = 1 if len(self.dropped) == 1 else needed[self.dropped] / (1 - self.chance)
        return replace(self, needed=np.minimum(needed, 1))
