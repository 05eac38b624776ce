"""A minimizer as a chain of states that never change.

A state knows its best candidate so far and what it asks next; the answer makes the next state. As nothing changes
in place, what would be asked after either answer can be known before it comes (`Minimizer.ask`).
"""

from __future__ import annotations

from typing import Protocol

from .answer import Answer, C, Query


class MinimizerState(Protocol[C]):
    """One point of a search among candidates of one type."""

    @property
    def best(self) -> C:
        """The smallest candidate found interesting."""
        ...

    @property
    def query(self) -> Query[C] | None:
        """What to ask; None at the end."""
        ...

    @property
    def chance(self) -> float:
        """Estimated chance that the answer is INTERESTING; orders speculation, never changes the result."""
        ...

    def after(self, answer: Answer) -> MinimizerState[C]:
        """The state that an answer leads to."""
        ...
