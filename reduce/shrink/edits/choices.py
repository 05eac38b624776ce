"""One alternative after the other, at one place of the program after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ..minimize.answer import Answer, Query
from ..minimize.patience import passes_to_reject
from ..minimize.phases import ERROR
from ..program.candidate import Candidate

Place = Callable[[Candidate], Sequence[Candidate]]
"""Gives what to try at one place of a program, the smallest first."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """At each place, the first of its alternatives that is interesting is taken.

    options: those of the place under way that are left.
    places: those that follow it.
    """

    best: Candidate
    options: tuple[Candidate, ...]
    places: tuple[Place, ...]
    runs: int

    @staticmethod
    def search(best: Candidate, places: Iterable[Place], *, rate: float) -> Choices:
        """Begins at the first place; an option is rejected after as many runs as the rate asks for."""
        runs = passes_to_reject(rate, ERROR)
        return Choices(best=best, options=(), places=tuple(places), runs=runs)._settled()

    @property
    def query(self) -> Query[Candidate] | None:
        """Asks for the next option."""
        return Query(self.options[0], self.runs) if self.options else None

    @property
    def chance(self) -> float:
        """An alternative is about as often refused as not."""
        return 0.5

    def after(self, answer: Answer) -> Choices:
        """Takes the option and goes to the next place, or goes to the next option."""
        if answer is Answer.INTERESTING:
            return replace(self, best=self.options[0], options=())._settled()
        return replace(self, options=self.options[1:])._settled()

    def _settled(self) -> Choices:
        """At a place with options, or at the end."""
        best, options, places = self.best, self.options, self.places
        while places and not options:
            options, places = tuple(places[0](best)), places[1:]
        return replace(self, options=options, places=places)
