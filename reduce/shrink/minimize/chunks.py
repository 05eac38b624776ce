"""Larger steps after the sweep, for oracles to which keeping more is not always as good.

The bisection and the sweep take what is interesting to stay so when more is kept. Where that fails (elements that undo
each other: a sign that is turned twice, a value that is computed in two ways), dropping one element alone ends the
failure, and dropping a second with it brings it back. ddmin (Zeller and Hildebrandt 2002) finds such steps by its parts
and their complements; here they are tried in that order, up to a bound, on what the sweep has left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .answer import Answer, Query, Subset
from .graph import DependencyGraph

FINEST = 16
"""Parts at most, so that a search in vain costs no more than 2 (2 + 4 + 8 + 16) tests."""
UNSEEN_PARTS = 4
"""Parts where nothing so far has shown that keeping more is worse: as many tests, and one round of them."""


@dataclass(frozen=True, kw_only=True)
class Chunks:
    """`parts` equal parts of `best` in dependency order: each alone with its ancestors, then each left out with its
    dependents; anew with smaller parts, at last one for each element.

    `seen`: whether an interesting candidate was found inside one that is not. Where none was, what nothing depends on
    is parted once, and each part is tried alone: without it the sweep has tried.
    """

    graph: DependencyGraph
    best: Subset
    runs: int
    seen: bool
    parts: int
    place: int = 0

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, *, runs: int = 1, seen: bool) -> Chunks:
        """Begins with what a sweep has left."""
        parts = 2 if seen else min(UNSEEN_PARTS, len(graph.last(best)))
        return Chunks(graph=graph, best=best, runs=runs, seen=seen, parts=parts)._settled()

    @property
    def query(self) -> Query[Subset] | None:
        """The next part, or the next rest."""
        candidate = None if self._done else self._candidate
        return None if candidate is None else Query(candidate, self.runs)

    @property
    def chance(self) -> float:
        """Rarely does a larger step help where a small one does not."""
        return 0.1

    def after(self, answer: Answer) -> Chunks:
        """Begins anew with a smaller candidate, or goes on."""
        if answer is Answer.INTERESTING:
            assert self._candidate is not None
            return Chunks.start(self.graph, self._candidate, runs=self.runs, seen=True)
        return replace(self, place=self.place + 1)._settled()

    @property
    def _elements(self) -> tuple[int, ...]:
        return tuple(sorted(self.best)) if self.seen else self.graph.last(self.best)

    @property
    def _done(self) -> bool:
        if self.seen:
            return self.parts > min(FINEST, len(self.best))
        # Of two parts each is what the sweep has left of the other.
        return self.parts < 3 or self.place >= self.parts

    @property
    def _candidate(self) -> Subset | None:
        """None where the step would leave nothing or everything."""
        elements = self._elements
        part = self.place % self.parts
        low, high = (len(elements) * end // self.parts for end in (part, part + 1))
        if self.place < self.parts:
            kept = self.graph.with_ancestors(elements[low:high])
        else:
            kept = self.graph.closed(self.best.difference(elements[low:high]))
        return kept if kept and kept < self.best else None

    def _settled(self) -> Chunks:
        """The next step that is one."""
        state = self
        while not state._done:
            if state.place >= 2 * state.parts:
                state = replace(state, parts=state._finer, place=0)
            elif state._candidate is None:
                state = replace(state, place=state.place + 1)
            else:
                break
        return state

    @property
    def _finer(self) -> int:
        """Twice as many parts, at last one for each element."""
        elements = len(self.best)
        return min(2 * self.parts, elements) if self.parts < elements else elements + 1
