"""What the failing output is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .answer import Answer, Query, Subset
from .graph import DependencyGraph


@dataclass(frozen=True, kw_only=True)
class Ancestors:
    """One question: do the elements that the failing output depends on suffice?"""

    best: Subset
    candidate: Subset
    runs: int
    asked: bool = False

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, targets: Subset, *, runs: int = 1) -> Ancestors:
        """`targets` are the elements that write the failing output."""
        candidate = graph.with_ancestors(targets) & best
        return Ancestors(best=best, candidate=candidate, runs=runs, asked=candidate == best)

    @property
    def query(self) -> Query[Subset] | None:
        """Asks for the ancestors, once."""
        return None if self.asked else Query(self.candidate, self.runs)

    @property
    def chance(self) -> float:
        """What a failing output depends on nearly always suffices."""
        return 0.95

    def after(self, answer: Answer) -> Ancestors:
        """The end, with the ancestors as the best if they suffice."""
        best = self.candidate if answer is Answer.INTERESTING else self.best
        return replace(self, best=best, asked=True)
