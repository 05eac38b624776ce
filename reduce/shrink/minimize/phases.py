"""One minimizer after another, each from what the last one left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .ancestors import Ancestors
from .answer import Answer, Query, Subset
from .chunks import Chunks
from .cuts.cuts import Cuts
from .graph import DependencyGraph
from .patience import passes_to_reject
from .state import MinimizerState
from .sweep import Sweep

Phase = Callable[[Subset, bool], MinimizerState[Subset]]
"""Begins with the best candidate so far; told whether an interesting one was found inside one that is not."""


@dataclass(frozen=True, kw_only=True)
class Phases:
    """The phase under way, and those that follow it.

    rejected: candidates after which the failure was gone; `seen` says that one of them holds an interesting one, so
    that keeping more is not always as good.
    """

    state: MinimizerState[Subset]
    following: tuple[Phase, ...]
    rejected: frozenset[Subset] = frozenset()
    seen: bool = False

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
        query = self.query
        rejected, seen = self.rejected, self.seen
        if query is not None and answer is Answer.NOT:
            rejected |= {query.candidate}
        if query is not None and answer is Answer.INTERESTING:
            seen = seen or any(query.candidate < candidate for candidate in rejected)
        return replace(self, state=self.state.after(answer), rejected=rejected, seen=seen)._settled()

    def _settled(self) -> Phases:
        state, following = self.state, self.following
        while state.query is None and following:
            state, following = following[0](state.best, self.seen), following[1:]
        return replace(self, state=state, following=following)


ERROR = 0.01
"""The chance that a candidate is interesting which was rejected."""


ROUNDS = 2
"""Of larger steps, each followed by a sweep; what was asked before is known."""


def minimize(
    graph: DependencyGraph,
    *,
    best: Subset | None = None,
    targets: Subset | None = None,
    rate: float = 1.0,
    error: float = ERROR,
) -> MinimizerState[Subset]:
    """The whole search: ancestors of the failing output, closed cuts, a sweep to 1-minimality, and larger steps (with
    another sweep) where a failure is sure.

    Args:
        best: what to start from, interesting; all elements if not given.
        targets: the elements that write the failing output, if known.
        rate: how often an interesting candidate fails (`cautious_rate`).
        error: of a candidate that is rejected, the chance that it is interesting nevertheless.
    """
    runs = passes_to_reject(rate, error)
    best = graph.everything if best is None else best

    def swept(left: Subset, _seen: bool) -> Sweep:
        return Sweep.start(graph, left, runs=runs)

    def in_chunks(left: Subset, seen: bool) -> Chunks:
        return Chunks.start(graph, left, runs=runs, seen=seen)

    return Phases.of(
        Ancestors.start(graph, best, best if targets is None else targets, runs=runs),
        lambda left, _seen: Cuts.start(graph, left, rate=rate),
        swept,
        # A flaky failure that stays away looks like one that keeping more has ended.
        *((in_chunks, swept) * ROUNDS if rate == 1 else ()),
    )


def sweep(graph: DependencyGraph, best: Subset, *, rate: float = 1.0, error: float = ERROR) -> Sweep:
    """The end of the search alone: for what was 1-minimal before something else changed; arguments as `minimize`'s."""
    return Sweep.start(graph, best, runs=passes_to_reject(rate, error))
