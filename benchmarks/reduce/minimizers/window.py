"""Bisection of one end, then of the other, as Polygraphy's `debug reduce` does."""

from __future__ import annotations

from dataclasses import dataclass, replace

from precision_bisect.reduce.shrink.minimize import Answer, DependencyGraph, Query, Subset


@dataclass(frozen=True, kw_only=True)
class Window:
    """The shortest interesting prefix, then its shortest interesting suffix, if such were monotone.

    Keeping fewer than `low` elements was rejected, the best candidate keeps `high` of `ordered`.
    """

    graph: DependencyGraph
    best: Subset
    runs: int
    ordered: tuple[int, ...]
    low: int
    high: int
    suffix: bool = False

    @staticmethod
    def start(graph: DependencyGraph, best: Subset | None = None, *, runs: int = 1) -> Window:
        """From `best` (all elements), rejecting after `runs` passes."""
        best = graph.all_elements if best is None else best
        ordered = tuple(sorted(best))
        return Window(graph=graph, best=best, runs=runs, ordered=ordered, low=1, high=len(ordered))

    @property
    def _kept(self) -> int:
        return (self.low + self.high) // 2

    @property
    def query(self) -> Query[Subset] | None:
        """The half of what is open."""
        if self.low >= self.high:
            return None
        kept = self.ordered[-self._kept :] if self.suffix else self.ordered[: self._kept]
        return Query(self.graph.closed_subset(kept), self.runs)

    @property
    def chance(self) -> float:
        """As in any bisection."""
        return 0.5

    def next_state(self, answer: Answer) -> Window:
        """Keep fewer or more; turn to the other end when this one is settled."""
        if answer is Answer.INTERESTING:
            query = self.query
            assert query is not None
            state = replace(self, best=query.candidate, high=self._kept)
        else:
            state = replace(self, low=self._kept + 1)
        if state.low < state.high or self.suffix:
            return state
        ordered = tuple(sorted(state.best))
        return replace(state, ordered=ordered, low=1, high=len(ordered), suffix=True)
