"""One minimizer after another, each from what the last one left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .ancestors import Ancestors
from .answer import Answer, Query, Subset
from .cuts import Cuts
from .graph import DependencyGraph
from .patience import passes_to_reject
from .state import MinimizerState
from .sweep import Sweep

Phase = Callable[[Subset], MinimizerState[Subset]]


@dataclass(frozen=True, kw_only=True)
class Phases:
    """The phase under way, and those that follow it."""

    state: MinimizerState[Subset]
    following: tuple[Phase, ...]

    @staticmethod
    def of(first: MinimizerState[Subset], *following: Phase) -> Phases:
        """Begins with a state; each phase makes one from the best candidate so far."""
        return Phases(state=first, following=following)._settled()

    @property
    def best(self) -> Subset:
        """The smallest candidate of the phase under way."""
        return self.state.best

    @property
    def query(self) -> Query[Subset] | None:
        """What the phase under way asks next."""
        return self.state.query

    @property
    def chance(self) -> float:
        """The chance that the phase under way sees."""
        return self.state.chance

    def after(self, answer: Answer) -> Phases:
        """The phase's next state, or the next phase."""
        return replace(self, state=self.state.after(answer))._settled()

    def _settled(self) -> Phases:
        state, following = self.state, self.following
        while state.query is None and following:
            state, following = following[0](state.best), following[1:]
        return Phases(state=state, following=following)


ERROR = 0.01
"""The chance that a candidate is interesting which was rejected."""


def minimize(
    graph: DependencyGraph,
    *,
    best: Subset | None = None,
    targets: Subset | None = None,
    rate: float = 1.0,
    error: float = ERROR,
) -> MinimizerState[Subset]:
    """The whole search: ancestors of the failing output, closed cuts, a sweep to 1-minimality.

    Args:
        best: what to start from, interesting; all elements if not given.
        targets: the elements that write the failing output, if known.
        rate: how often an interesting candidate fails (`cautious_rate`).
        error: of a candidate that is rejected, the chance that it is interesting nevertheless.
    """
    runs = passes_to_reject(rate, error)
    best = graph.everything if best is None else best
    return Phases.of(
        Ancestors.start(graph, best, best if targets is None else targets, runs=runs),
        lambda left: Cuts.start(graph, left, rate=rate),
        lambda left: Sweep.start(graph, left, runs=runs),
    )


def sweep(graph: DependencyGraph, best: Subset, *, rate: float = 1.0, error: float = ERROR) -> Sweep:
    """The end of the search alone: for what was 1-minimal before something else changed; arguments as `minimize`'s."""
    return Sweep.start(graph, best, runs=passes_to_reject(rate, error))
