"""What every kind of edit is to the driver: a search over numbered elements, and how to apply what it leaves."""

from __future__ import annotations

from typing import Protocol

from ..minimize.answer import Subset
from ..minimize.state import MinimizerState
from ..program.candidate import Candidate


class Edit(Protocol):
    """Yields candidates and never runs them. `name` is the phase's in the journal and on the screen."""

    @property
    def name(self) -> str: ...

    def start(self, reduction: Candidate, rate: float) -> MinimizerState[Subset]:
        """The search for what of `reduction` can go; its best is `reduction` itself."""
        ...

    def apply(self, reduction: Candidate, kept: Subset) -> Candidate:
        """`reduction` with only the elements `kept`."""
        ...
