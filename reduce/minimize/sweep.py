"""The last word: no element can be dropped alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .graph import Graph
from .outcome import Candidate, Outcome, Query


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Ends 1-minimal: each closed candidate with one element less than `best` was tested and rejected.

    That is definition 10 of Zeller and Hildebrandt (2002) among closed candidates. Only elements that nothing left
    depends on can be dropped alone; to drop another with its dependents drops one of those, too, and is not tried.

    todo: elements left to drop from `best`, next one last.
    slipped: those that were not dropped because the failure became another one.
    group: a smaller candidate that is tried before these.
    """

    graph: Graph
    best: Candidate
    runs: int
    todo: tuple[int, ...]
    slipped: Candidate = frozenset()
    group: Candidate | None = None

    @staticmethod
    def start(graph: Graph, best: Candidate, *, runs: int = 1) -> Sweep:
        """From an interesting candidate, rejecting after `runs` passes."""
        return Sweep(graph=graph, best=best, runs=runs, todo=graph.last(best))

    @property
    def query(self) -> Query | None:
        """The best candidate without one element, or the group."""
        if self.group is not None:
            return Query(self.group, self.runs)
        return Query(self.best - {self.todo[-1]}, self.runs) if self.todo else None

    @property
    def chance(self) -> float:
        """Rarely is anything left to drop; if it is, then rarely alone."""
        return 0.05 if self.group is None else 0.5

    def after(self, outcome: Outcome) -> Sweep:
        """Drops it, or goes on with the next one."""
        if outcome is Outcome.INTERESTING:
            return self._smaller()
        if self.group is not None:
            return replace(self, group=None)
        slipped = self.slipped | {self.todo[-1]} if outcome is Outcome.SLIPPED else self.slipped
        if len(self.todo) > 1 or not slipped:
            return replace(self, todo=self.todo[:-1], slipped=slipped)
        # Each may be there for the others alone, none of them for the failure: without all of them, once.
        return replace(self, todo=(), slipped=frozenset(), group=self._without(slipped))

    def _smaller(self) -> Sweep:
        """A success makes all earlier rejections those of another candidate: they are asked anew, untested first.

        What was kept in vain had its ancestors kept in vain: those that nothing else needs are tried next, at once.
        """
        query = self.query
        assert query is not None
        best, before = query.candidate, self.graph.last(self.best)
        group = self._without(frozenset({self.todo[-1]})) if self.group is None else None
        tested = set(before) - set(self.todo)
        last = sorted(self.graph.last(best), key=lambda element: (element not in tested, element))
        return replace(
            self, best=best, todo=tuple(last), slipped=frozenset(), group=None if group == best else group
        )

    def _without(self, dropped: Candidate) -> Candidate:
        """The best candidate without these and the ancestors that only they need."""
        return self.graph.with_ancestors(set(self.graph.last(self.best)) - dropped)
