"""ddmin: Zeller, Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 28(2), 2002, figure 8."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from precision_bisect.reduce.shrink.minimize import Answer, DependencyGraph, Query, Subset


@dataclass(frozen=True, kw_only=True)
class Ddmin:
    """At granularity g, parts 0 ... g - 1 of the best candidate, then their complements."""

    graph: DependencyGraph
    best: Subset
    runs: int
    granularity: int = 2
    place: int = 0
    done: bool = False

    @staticmethod
    def start(graph: DependencyGraph, best: Subset | None = None, *, runs: int = 1) -> Ddmin:
        """From `best` (all elements), rejecting after `runs` passes."""
        best = graph.all_elements if best is None else best
        return Ddmin(graph=graph, best=best, runs=runs, granularity=min(2, len(best)))

    @cached_property
    def query(self) -> Query[Subset] | None:
        """The next part or complement; at granularity 2 the complements are the parts."""
        if self.done or len(self.best) < 2:
            return None
        ordered, part = sorted(self.best), self.place % self.granularity
        low, high = (len(ordered) * end // self.granularity for end in (part, part + 1))
        kept = ordered[low:high] if self.place < self.granularity else ordered[:low] + ordered[high:]
        return Query(self.graph.closed_subset(kept), self.runs)

    @property
    def chance(self) -> float:
        """A share of the elements is taken for as likely as its size."""
        return 1 / self.granularity if self.place < self.granularity else 0.5

    def next_state(self, answer: Answer) -> Ddmin:
        """Go on with a smaller candidate, with the next one, or with finer parts."""
        if answer is Answer.INTERESTING:
            query = self.query
            assert query is not None
            finer = 2 if self.place < self.granularity else max(self.granularity - 1, 2)
            best = query.candidate
            return replace(self, best=best, granularity=max(1, min(finer, len(best))), place=0)
        place = self.place + 1
        if place < (2 if self.granularity == 2 else 2 * self.granularity):
            return replace(self, place=place)
        if self.granularity == len(self.best):
            return replace(self, done=True)
        return replace(self, granularity=min(2 * self.granularity, len(self.best)), place=0)
