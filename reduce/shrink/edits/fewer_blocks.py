"""Run tasks in fewer blocks, one task after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..program.candidate import Candidate
from .choices import Choices


@dataclass(frozen=True)
class FewerBlocks:
    """`blocks` are those of tasks that run in several, as many in the reference, by ordinal."""

    blocks: Mapping[int, int]
    name: str = "blocks"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """At each task that is left, smaller numbers."""
        places = [partial(self._alternatives, task) for task in best.tasks if task in self.blocks]
        return Choices.search(best, places, rate=rate)

    def _alternatives(self, task: int, best: Candidate) -> Sequence[Candidate]:
        return [
            replace(best, blocks=tuple({**dict(best.blocks), task: fewer}.items()))
            for fewer in smaller_counts(self.blocks[task])
        ]


def smaller_counts(blocks: int) -> Sequence[int]:
    """Powers of two below a number of blocks.

    >>> smaller_counts(24), smaller_counts(4), smaller_counts(1)
    ([1, 2, 4, 8, 16], [1, 2], [])
    """
    return [1 << power for power in range((blocks - 1).bit_length())]
