"""The chain of a lone task at fault, by group testing: ends of chains in groups (Dorfman 1943), halved where one fails.

A cut that fails otherwise tells nothing of where the task is, and neither do most cuts near it. A few chains alone are
less likely to hold a task that misses another one, and to lack the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..answer import Answer, Query, Subset
from ..graph import DependencyGraph

GROUPS = 4
LEAST = 0.2  # share of the suspects left, below which a lone task at fault is no longer believed in

Group = tuple[int, ...]
"""Ends of chains: elements that stay with their ancestors."""


@dataclass(frozen=True, kw_only=True)
class LoneTask:
    """Ends when a single chain is left, or no group failed alone.

    suspects: elements of `best`, one of which is at fault if only one is; `at_first` is how many they were.
    groups: to be tested, next one first; `doubtful` are those that failed otherwise.
    refused: candidates of those.
    confirmed: that one of the groups fails alone.
    """

    graph: DependencyGraph
    best: Subset
    suspects: Subset
    at_first: int
    groups: tuple[Group, ...]
    doubtful: tuple[Group, ...] = ()
    refused: frozenset[Subset] = frozenset()
    confirmed: bool = False

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, suspects: Subset) -> LoneTask:
        """Begins with an interesting candidate that is closed and always fails."""
        groups = _parts(graph.last(suspects), GROUPS)
        state = LoneTask(graph=graph, best=best, suspects=suspects, at_first=len(suspects), groups=groups)
        return state._settled()

    @property
    def query(self) -> Query[Subset] | None:
        """Asks for the chains of the next group."""
        return Query(self.graph.with_ancestors(self.groups[0])) if self.groups else None

    @property
    def chance(self) -> float:
        """The share of the suspects that the next group has."""
        query = self.query
        return len(query.candidate & self.suspects) / len(self.suspects) if query is not None else 0.0

    def after(self, answer: Answer) -> LoneTask:
        """Go into the group, leave it, or put it off; none is valid alone if elements need others that are unknown."""
        query, group, others = self.query, self.groups[0], self.groups[1:]
        assert query is not None
        kept = query.candidate
        if answer is Answer.INTERESTING:
            groups = _parts(group, 2) if len(group) > 1 else ()
            state = replace(self, best=kept, suspects=self.suspects & kept, groups=groups, doubtful=())
            return replace(state, confirmed=True)._settled()
        if answer is Answer.INVALID:
            return replace(self, groups=(), doubtful=())
        if answer is Answer.NOT:
            return replace(self, suspects=self.suspects - kept, groups=others)._settled()
        doubtful, refused = (*self.doubtful, group), self.refused | {kept}
        return replace(self, groups=others, doubtful=doubtful, refused=refused)._settled()

    def _settled(self) -> LoneTask:
        """With a group first that is worth a test, or without groups."""
        state = self
        while True:
            if not state.confirmed and len(state.suspects) < LEAST * state.at_first:
                return replace(state, groups=())
            if not state.groups:
                groups = tuple(part for group in state.doubtful for part in state._smaller(group))
                if not groups:
                    return state
                state = replace(state, groups=groups, doubtful=())
            group, others = state.groups[0], state.groups[1:]
            kept = state.graph.with_ancestors(group)
            is_known = kept == state.best or kept in state.refused
            is_implied = state.confirmed and len(group) > 1 and not others and not state.doubtful
            if not kept & state.suspects:
                state = replace(state, groups=others)
            elif is_known or is_implied:
                state = replace(state, groups=state._smaller(group) + others)
            else:
                return state

    def _smaller(self, group: Group) -> tuple[Group, ...]:
        """Its halves; of one chain, the lower half."""
        if len(group) > 1:
            return _parts(group, 2)
        chain = sorted(self.graph.with_ancestors(group) & self.suspects)
        return (self.graph.last(frozenset(chain[: len(chain) // 2])),) if len(chain) > 1 else ()


def _parts(ends: Sequence[int], most: int) -> tuple[Group, ...]:
    count = min(most, len(ends))
    places = [len(ends) * part // count for part in range(count)] if count else []
    return tuple(tuple(ends[low:high]) for low, high in zip(places, [*places[1:], len(ends)], strict=True))
