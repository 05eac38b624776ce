"""The one place that decides what becomes the best program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .minimize.answer import Answer, Query
from .minimize.state import MinimizerState
from .program.candidate import Candidate
from .program.order import CandidateOrder


@dataclass(kw_only=True)
class Gate:
    """Candidates pass in this order: made canonical; passed over unless smaller than the best; asked of the memory,
    then of the oracle, by whoever holds the gate; accepted. `on_better` is called with each new best."""

    order: CandidateOrder
    best: Candidate
    on_better: Callable[[Candidate], None]

    def screen(self, search: MinimizerState[Candidate]) -> Screened:
        """The search, with only those candidates left in it that are worth asking for."""
        return Screened.of(self.order, search)

    def accept(self, candidate: Candidate) -> bool:
        """Makes a canonical candidate that was found interesting the best, if it is smaller; whether it did."""
        if not self.order.is_smaller(candidate, self.best):
            return False
        self.best = candidate
        self.on_better(candidate)
        return True


@dataclass(frozen=True, kw_only=True)
class Screened:
    """A search of which all candidates are canonical. Those that are not smaller than its best, or have no task, are
    answered with NOT at once: without a task there is no failure of the build's own."""

    order: CandidateOrder
    search: MinimizerState[Candidate]
    best: Candidate
    query: Query[Candidate] | None

    @staticmethod
    def of(order: CandidateOrder, search: MinimizerState[Candidate]) -> Screened:
        """The search, up to its first candidate that is to be asked for."""
        while True:
            best, query = order.canonical(search.best), search.query
            if query is not None:
                query = Query(order.canonical(query.candidate), query.runs)
                if not query.candidate.tasks or not order.is_smaller(query.candidate, best):
                    search = search.after(Answer.NOT)
                    continue
            return Screened(order=order, search=search, best=best, query=query)

    @property
    def chance(self) -> float:
        """The chance that the search sees."""
        return self.search.chance

    def after(self, answer: Answer) -> Screened:
        """The search, up to its next candidate that is to be asked for."""
        return Screened.of(self.order, self.search.after(answer))
