"""Where wrong elements lie: their extent in the whole tensor, and how surprising their places are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...tensor.view import DType
from ..kernels.elements import Array
from .odds import log_ways

_FRACTION_BITS = {DType.FLOAT64: 52, DType.FLOAT32: 23, DType.FLOAT16: 10, DType.BFLOAT16: 7}


@dataclass(frozen=True, kw_only=True)
class Extent:
    """The smallest rectangle around all wrong elements of a tensor, in its rows and columns, and their number."""

    top: int
    bottom: int
    left: int
    right: int
    count: int

    def joined(self, other: Extent) -> Extent:
        """The extent of both."""
        return Extent(
            top=min(self.top, other.top),
            bottom=max(self.bottom, other.bottom),
            left=min(self.left, other.left),
            right=max(self.right, other.right),
            count=self.count + other.count,
        )


def extent_of(wrong: Array, *, top: int, left: int) -> Extent:
    """The extent of the true entries of a matrix, of which there is one, whose first stands at `top`, `left`."""
    rows, columns = np.flatnonzero(wrong.any(axis=1)), np.flatnonzero(wrong.any(axis=0))
    return Extent(
        top=top + int(rows[0]),
        bottom=top + int(rows[-1]) + 1,
        left=left + int(columns[0]),
        right=left + int(columns[-1]) + 1,
        count=int(np.count_nonzero(wrong)),
    )


def extent_at(places: Array, columns: int) -> Extent:
    """The extent of flat positions, at least one and ascending, in a matrix of so many columns."""
    across = places % columns
    return Extent(
        top=int(places[0]) // columns,
        bottom=int(places[-1]) // columns + 1,
        left=int(across.min()),
        right=int(across.max()) + 1,
        count=int(places.size),
    )


def strewn_nats(dtype: DType, expected_bits: Array, wrong: Array) -> float:
    """Nats that it takes to say which elements are wrong, if only the size of the expected value matters.

    Elements of one sign and binade are alike: noise leaves out what is zero, masked, or too large to be moved by it.
    The rates are those seen, and cost nothing, so that places are never more surprising than they should be.
    """
    kinds = _binades(dtype, expected_bits).ravel()
    totals = np.bincount(kinds)
    chosen = np.bincount(kinds[wrong.ravel()], minlength=totals.size)
    return sum(
        log_ways(int(total), int(count))
        for total, count in zip(totals, chosen, strict=True)
        if 0 < count < total
    )


def _binades(dtype: DType, patterns: Array) -> Array:
    if dtype.is_floating:
        return (patterns >> patterns.dtype.type(_FRACTION_BITS[dtype])).astype(np.int64)
    wide = patterns.view(dtype.storage).astype(np.float32)
    return (wide.view(np.uint32) >> np.uint32(23)).astype(np.int64)
