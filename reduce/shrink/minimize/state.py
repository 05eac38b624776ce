"""A minimizer as a chain of states that never change.

A state knows its best candidate so far and what it asks next; the answer makes the next state. As nothing changes
in place, what would be asked after either answer can be known before it comes (`Minimizer.ask`).
"""

from __future__ import annotations

from typing import Protocol

from .outcome import Candidate, Outcome, Query


class State(Protocol):
    """One point of a search."""

    @property
    def best(self) -> Candidate:
        """The smallest candidate found interesting."""
        ...

    @property
    def query(self) -> Query | None:
        """What to ask; None at the end."""
        ...

    @property
    def chance(self) -> float:
        """Estimated chance that the answer is INTERESTING; orders speculation, never changes the result."""
        ...

    def after(self, outcome: Outcome) -> State:
        """The state that an answer leads to."""
        ...
