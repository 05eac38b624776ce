"""What every kind of edit is: a search among smaller programs, which it proposes and never runs.

To add one: write its `search` in a file of its own, and name it in `kinds.py`. A search need not be
clever. The gate makes its candidates canonical and passes over those that are not smaller than the best, the memory
knows what was asked before, and the schedule comes back until no kind finds anything.
"""

from __future__ import annotations

from typing import Protocol

from ..minimize.state import MinimizerState
from ..program.candidate import Candidate


class EditKind(Protocol):
    """Proposes candidates."""

    @property
    def name(self) -> str:
        """The name of the kind on the screen."""
        ...

    def search(self, best: Candidate, *, rate: float, again: bool) -> MinimizerState[Candidate]:
        """The search for what of `best` can go; it starts with `best`, and ends where no single edit of this kind is
        left to try.

        Args:
            best: a candidate that is interesting.
            rate: how often an interesting candidate fails.
            again: whether this kind has searched before, and other kinds have made the program smaller since then. It
                is likely to find little: trying each edit alone will do.
        """
        ...
