"""The last word: no element can be dropped with its dependents."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .graph import Graph
from .outcome import Candidate, Outcome, Query


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Ends 1-minimal: for each element of `best`, `best` without it and its dependents was tested and rejected.

    `todo` are the elements left to drop from `best`, next one last: those that nothing depends on come first.
    """

    graph: Graph
    best: Candidate
    runs: int
    todo: tuple[int, ...]

    @staticmethod
    def start(graph: Graph, best: Candidate, *, runs: int = 1) -> Sweep:
        """From an interesting candidate, rejecting after `runs` passes."""
        return Sweep(graph=graph, best=best, runs=runs, todo=tuple(sorted(best)))

    @property
    def query(self) -> Query | None:
        """The best candidate without one element."""
        if not self.todo:
            return None
        return Query(self.graph.closed(self.best - {self.todo[-1]}), self.runs)

    @property
    def chance(self) -> float:
        """Rarely is anything left to drop."""
        return 0.05

    def after(self, outcome: Outcome) -> Sweep:
        """A success makes all earlier rejections those of another candidate: they are asked anew, untested first."""
        if outcome is not Outcome.INTERESTING:
            return replace(self, todo=self.todo[:-1])
        query = self.query
        assert query is not None
        best = query.candidate
        untested = [element for element in self.todo if element in best]
        tested = sorted(best - set(untested))
        return replace(self, best=best, todo=(*tested, *untested))
