"""The last word: no element can be dropped alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .answer import Answer, Query, Subset
from .graph import DependencyGraph


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Ends 1-minimal: each closed candidate with one element less than `best` was tested and rejected.

    That is definition 10 of Zeller and Hildebrandt (2002) among closed candidates. Only an element that nothing left
    depends on can be dropped alone. To drop another with its dependents is to drop one of those, too: if the failure
    was gone without that one, it is not tried. If what was without it failed otherwise or was invalid, it is.

    todo: elements left to drop from `best` with their dependents, next one last.
    unclear: those that nothing depends on and that were kept for another reason than that the failure was gone.
    group: a smaller candidate that is tried before these.
    """

    graph: DependencyGraph
    best: Subset
    runs: int
    todo: tuple[int, ...]
    unclear: Subset = frozenset()
    group: Subset | None = None

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, *, runs: int = 1) -> Sweep:
        """Begins with an interesting candidate; others are rejected after `runs` passes."""
        return Sweep(graph=graph, best=best, runs=runs, todo=graph.last(best))

    @property
    def query(self) -> Query[Subset] | None:
        """The best candidate without an element, or the group."""
        if self.group is not None:
            return Query(self.group, self.runs)
        if not self.todo:
            return None
        return Query(self.graph.closed(self.best - {self.todo[-1]}), self.runs)

    @property
    def chance(self) -> float:
        """Rarely is anything left to drop; if it is, then rarely alone."""
        return 0.05 if self.group is None else 0.5

    def after(self, answer: Answer) -> Sweep:
        """Drops it, or goes on with the next one."""
        if answer is Answer.INTERESTING:
            return self._smaller()
        if self.group is not None:
            return replace(self, group=None)
        element, todo = self.todo[-1], self.todo[:-1]
        is_last = element in self.graph.last(self.best)
        unclear = self.unclear | {element} if is_last and answer is not Answer.NOT else self.unclear
        if todo or not unclear:
            return replace(self, todo=todo, unclear=unclear)
        # They may be there for each other alone: without all of them and what only they need, then without parts.
        group = self._without(unclear)
        return replace(
            self, todo=tuple(sorted(self.best - group - unclear)), unclear=frozenset(), group=group
        )

    def _smaller(self) -> Sweep:
        """A success makes all earlier rejections those of another candidate: they are asked anew, untested first.

        What was kept in vain had its ancestors kept in vain: those that nothing else needs are tried next, at once.
        """
        query = self.query
        assert query is not None
        best, before = query.candidate, self.graph.last(self.best)
        group = self._without(frozenset(before) - best) if self.group is None else None
        tested = set(before) - set(self.todo)
        last = sorted(self.graph.last(best), key=lambda element: (element not in tested, element))
        return replace(
            self, best=best, todo=tuple(last), unclear=frozenset(), group=None if group == best else group
        )

    def _without(self, dropped: Subset) -> Subset:
        """The best candidate without these and the ancestors that only they need."""
        return self.graph.with_ancestors(set(self.graph.last(self.best)) - dropped)
