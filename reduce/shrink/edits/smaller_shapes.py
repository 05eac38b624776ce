"""Make shapes smaller: one size after another, in all dimensions that have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..program.candidate import Candidate
from .choices import Choices

_TILES = (8, 16, 32, 64)


@dataclass(frozen=True)
class SmallerShapes:
    """`extents` tells the sizes that a candidate's tensors have in the whole program, the largest first."""

    extents: Callable[[Candidate], Sequence[int]]
    name: str = "shapes"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Choices:
        """At each size, smaller ones, smallest first."""
        places = [partial(_alternatives, size) for size in self.extents(best)]
        return Choices.search(best, places, rate=rate)


def _alternatives(size: int, best: Candidate) -> Sequence[Candidate]:
    return [
        replace(best, extents=tuple({**dict(best.extents), size: smaller}.items()))
        for smaller in smaller_sizes(size)
    ]


def smaller_sizes(size: int) -> Sequence[int]:
    """1, and sizes that leave the same rest as `size` when cut in tiles, alone and behind one full tile.

    >>> list(smaller_sizes(72)), list(smaller_sizes(64)), list(smaller_sizes(2))
    ([1, 8, 24, 40], [1, 8, 16, 32], [1])
    """
    return sorted({smaller for smaller in _candidates(size) if 0 < smaller < size})


def _candidates(size: int) -> Iterator[int]:
    yield 1
    for tile in _TILES:
        yield size % tile
        yield tile + size % tile
