"""Smaller shapes: one size after another, in all dimensions that have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..program.candidate import Candidate
from ..program.pair import BuildPair
from ..program.shapes import extents_of

_TILES = (8, 16, 32, 64)


@dataclass(frozen=True)
class SmallerShapes:
    """For each size of the cut, the smaller ones to try, smallest first."""

    pair: BuildPair
    name: str = "shapes"

    def sizes(self, reduction: Candidate) -> tuple[int, ...]:
        """Sizes as they are in the unshrunk program, the largest first."""
        return extents_of(self.pair.failing_cut(replace(reduction, extents=(), plain=())))

    def alternatives(self, reduction: Candidate, size: int) -> Sequence[Candidate]:
        """`reduction` with each smaller size."""
        known = dict(reduction.extents)
        return [
            replace(reduction, extents=tuple(sorted({**known, size: smaller}.items())))
            for smaller in smaller_sizes(size)
        ]


def smaller_sizes(size: int) -> Sequence[int]:
    """1, and sizes that leave the same rest as `size` when cut in tiles, alone and behind one full tile.

    >>> list(smaller_sizes(72)), list(smaller_sizes(64)), list(smaller_sizes(2))
    ([1, 8, 24, 40], [1, 8, 16, 32], [1])
    """
    return sorted({one for one in _candidates(size) if 0 < one < size})


def _candidates(size: int) -> Iterator[int]:
    yield 1
    for tile in _TILES:
        yield size % tile
        yield tile + size % tile
