"""Fewer blocks: one task after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..program.candidate import Candidate
from ..program.pair import BuildPair


@dataclass(frozen=True)
class FewerBlocks:
    """For each task, the smaller numbers of blocks to try, smallest first."""

    pair: BuildPair
    name: str = "blocks"

    def tasks(self, reduction: Candidate) -> tuple[int, ...]:
        """Ordinals of those that run in several blocks, as many in the reference."""
        failing, reference = self.pair.failing.program.tasks, self.pair.reference.program.tasks
        aligned = self.pair.alignment.reference_of
        return tuple(
            one
            for one in reduction.tasks
            if (failing[one].blocks or 1) > 1
            and one in aligned
            and reference[aligned[one]].blocks == failing[one].blocks
        )

    def alternatives(self, reduction: Candidate, ordinal: int) -> Sequence[Candidate]:
        """`reduction` with each smaller number for one task."""
        known = dict(reduction.blocks)
        blocks = self.pair.failing.program.tasks[ordinal].blocks or 1
        return [
            replace(reduction, blocks=tuple(sorted({**known, ordinal: fewer}.items())))
            for fewer in smaller_counts(blocks)
        ]


def smaller_counts(blocks: int) -> Sequence[int]:
    """Powers of two below it.

    >>> smaller_counts(24), smaller_counts(4), smaller_counts(1)
    ([1, 2, 4, 8, 16], [1, 2], [])
    """
    return [1 << power for power in range((blocks - 1).bit_length())]
