"""Searches for a smallest set of numbered elements, as searches among the programs that keep them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..minimize.answer import Answer, Query, Subset
from ..minimize.graph import DependencyGraph
from ..minimize.phases import minimize, sweep
from ..minimize.state import MinimizerState
from ..program.candidate import Candidate


@dataclass(frozen=True, kw_only=True)
class Subsets:
    """A search among subsets of elements; `keep` gives the program with the elements of a subset."""

    state: MinimizerState[Subset]
    keep: Callable[[Subset], Candidate]

    @staticmethod
    def search(
        graph: DependencyGraph,
        kept: Subset,
        keep: Callable[[Subset], Candidate],
        *,
        rate: float,
        again: bool,
        targets: Subset | None = None,
    ) -> Subsets:
        """The search for what of `kept` can go; `again` tries each element alone. `targets` wrote what fails."""
        if again:
            return Subsets(state=sweep(graph, kept, rate=rate), keep=keep)
        return Subsets(state=minimize(graph, best=kept, targets=targets, rate=rate), keep=keep)

    @property
    def best(self) -> Candidate:
        """The program with the smallest subset found interesting."""
        return self.keep(self.state.best)

    @property
    def query(self) -> Query[Candidate] | None:
        """The program with the subset that is asked next."""
        query = self.state.query
        return None if query is None else Query(self.keep(query.candidate), query.runs)

    @property
    def chance(self) -> float:
        """The chance that the subset is interesting."""
        return self.state.chance

    def after(self, answer: Answer) -> Subsets:
        """The search after its query was answered."""
        return replace(self, state=self.state.after(answer))
