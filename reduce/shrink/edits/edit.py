"""What every kind of edit is to the driver: a search over numbered elements, and how to apply what it leaves."""

from __future__ import annotations

from typing import Protocol

from ..minimize.outcome import Candidate
from ..minimize.state import State
from ..program.model import Reduction


class Edit(Protocol):
    """Yields candidates and never runs them. `name` is the phase's in the journal and on the screen."""

    @property
    def name(self) -> str: ...

    def start(self, reduction: Reduction, rate: float) -> State:
        """The search for what of `reduction` can go; its best is `reduction` itself."""
        ...

    def apply(self, reduction: Reduction, kept: Candidate) -> Reduction:
        """`reduction` with only the elements `kept`."""
        ...
