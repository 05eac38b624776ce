"""Closed-cut bisection, and what to do where a cut fails otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..answer import Answer, Query, Subset
from ..graph import DependencyGraph
from .bisection import CutBisection
from .lone_task import LoneTask


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """Bisection up to the first cut that fails otherwise; then, once, the search for a lone task at fault; then
    bisection of what that left, to which a cut that fails otherwise is one that does not fail.

    Where failures are rare, or a needed element is known already, it is bisection to the end.
    """

    state: CutBisection | LoneTask
    may_be_lone: bool

    @staticmethod
    def start(graph: DependencyGraph, best: Subset, *, rate: float = 1.0) -> Cuts:
        """Begins with an interesting candidate that is closed and fails at `rate`."""
        return Cuts(state=CutBisection.start(graph, best, rate=rate), may_be_lone=rate == 1)

    @property
    def best(self) -> Subset:
        """The smallest candidate of the search under way."""
        return self.state.best

    @property
    def query(self) -> Query[Subset] | None:
        """What the search under way asks next."""
        return self.state.query

    @property
    def chance(self) -> float:
        """The chance that the search under way sees."""
        return self.state.chance

    def after(self, answer: Answer) -> Cuts:
        """Its next state, or the next search."""
        state = self.state
        if not (isinstance(state, CutBisection) and self._turns_at(state, answer)):
            return replace(self, state=state.after(answer))._settled()
        cleared = max((cut for cut, _ in state.seen), default=0)
        search = LoneTask.start(state.graph, state.best, frozenset(state.open[cleared:]))
        return replace(self, state=search, may_be_lone=False)._settled()

    def _turns_at(self, state: CutBisection, answer: Answer) -> bool:
        return self.may_be_lone and state.found == 0 and answer is Answer.SLIPPED

    def _settled(self) -> Cuts:
        if isinstance(self.state, LoneTask) and self.state.query is None:
            return replace(self, state=CutBisection.start(self.state.graph, self.state.best))
        return self
