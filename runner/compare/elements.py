"""Defines the arrays for measuring element pairs: runs of pairs, the results of one block, and running totals.

The compiled code of `loops` fills them. This module does not import numba, which takes long, so that modules which only
read the totals start quickly.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

BLOCK = 1024
"""A block has this many elements, so that its scratch arrays fit into the first-level cache."""


class Arithmetic(IntEnum):
    """How torch computes `|a - e|` and `atol + rtol * |e|` for an element type.

    Integers and bool are converted to float32. The 16-bit types compute in float32 and round after every operation.
    """

    FLOAT32 = 0
    BFLOAT16 = 1
    FLOAT16 = 2
    FLOAT64 = 3
    INTEGER = 4


ACTUAL_NAN, ACTUAL_INF, EXPECTED_NAN, EXPECTED_INF = 1, 2, 4, 8
"""The flags of `BlockScratch.non_finite`."""


class Pair(NamedTuple):
    """Two flat runs of elements of one type. `bits` are the stored patterns, as unsigned integers."""

    actual: Array
    expected: Array
    actual_bits: Array
    expected_bits: Array


class Rule(NamedTuple):
    """The arguments of `torch.isclose`, and the arithmetic of the element type.

    With `signed_zeros`, -0.0 is not close to 0.0.
    """

    arithmetic: int
    rtol: float
    atol: float
    equal_nan: bool
    signed_zeros: bool


class BlockScratch(NamedTuple):
    """Scratch arrays of `BLOCK` entries. If either side is NaN or Inf, values, errors and distance are 0."""

    actual: Array  # float64
    expected: Array  # float64
    error: Array  # float64, |actual - expected|
    relative: Array  # float64, error / |expected|; Inf if only expected is 0
    distance: Array  # uint64, units in the last place; the exact difference of integers
    actual_single: Array  # float32, as torch converts
    expected_single: Array  # float32
    over: Array  # uint8, 1 if the rule rejects the pair
    non_finite: Array  # uint8, the flags above


def new_block() -> BlockScratch:
    """Return scratch space for one thread."""
    return BlockScratch(
        np.zeros(BLOCK, np.float64),
        np.zeros(BLOCK, np.float64),
        np.zeros(BLOCK, np.float64),
        np.zeros(BLOCK, np.float64),
        np.zeros(BLOCK, np.uint64),
        np.zeros(BLOCK, np.float32),
        np.zeros(BLOCK, np.float32),
        np.zeros(BLOCK, np.uint8),
        np.zeros(BLOCK, np.uint8),
    )


class CellGrid(NamedTuple):
    """Maps an element of a row-major matrix to its cell in a grid.

    Row r of the matrix is in grid row `(r % modulus) // row_step`, column c in grid column `c // column_step`.
    `columns` is the number of the matrix's columns.
    """

    columns: int
    modulus: int
    row_step: int
    column_step: int


class Cells(NamedTuple):
    """The totals of each cell, all of shape (grid rows, grid columns)."""

    over: Array  # int64, elements that are not close
    non_finite: Array  # int64, pairs with NaN or Inf on either side
    worst: Array  # float64, largest finite error
    error_squared: Array  # float64, of finite pairs
    expected_squared: Array  # float64


def new_cells(rows: int, columns: int) -> Cells:
    """Return totals over no elements."""
    shape = (rows, columns)
    return Cells(
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
    )


THRESHOLDS = (1e-3, 3e-3, 5e-3, 1e-2, 3e-2, 5e-2)
"""The error levels of pypto-lib's `error_distribution`."""

PEAKS = ("error", "relative", "distance", "actual", "expected")
SUMS = (
    "actual",
    "expected",
    "difference",
    "error",
    "error_squared",
    "actual_squared",
    "expected_squared",
    "product",
)
COUNTS = ("over", "unequal", "finite", "without_reference")
"""Pairs that are not close, unequal ones, finite ones, and finite unequal ones whose expected value is 0."""
HISTOGRAMS = ("error", "relative", "distance", "expected")
NON_FINITE_FLAGS = (ACTUAL_NAN, ACTUAL_INF, EXPECTED_NAN, EXPECTED_INF)

BINS = 1 << 15
"""The number of bins of a histogram. There are sixteen between neighbouring powers of two."""

HISTOGRAM_SHIFT = 48
"""The bin of a non-negative float64 is its bits, shifted right by this many places. The upper 15 bits remain."""
_INFINITE_BIN = 0x7FF0
"""The bin of infinity, whose exponent has all bits set. Higher bins are for NaN."""


class Moments(NamedTuple):
    """The running totals of one thread. Positions are flat. -1 means that there is none yet."""

    peaks: Array  # float64, one entry for each name in PEAKS
    peak_positions: Array  # int64
    distance: Array  # uint64, one entry: the largest, exactly
    sums: Array  # float64, one entry for each name in SUMS
    lost: Array  # float64, the rounding error of each sum (Neumaier)
    counts: Array  # int64, one entry for each name in COUNTS
    beyond: Array  # int64, one entry for each threshold
    non_finite_counts: Array  # int64, one entry for each flag in NON_FINITE_FLAGS
    non_finite_positions: Array  # int64, of the first one
    histograms: Array  # int64, HISTOGRAMS by BINS


class Scales(NamedTuple):
    """The powers of two by which values and errors are multiplied before they are squared.

    They keep squares in the range of float64. The sums of squares and products in `Moments` are scaled.
    """

    values: float
    errors: float


def new_moments() -> Moments:
    """Return totals over no elements."""
    return Moments(
        np.full(len(PEAKS), -1.0),
        np.full(len(PEAKS), -1, np.int64),
        np.zeros(1, np.uint64),
        np.zeros(len(SUMS)),
        np.zeros(len(SUMS)),
        np.zeros(len(COUNTS), np.int64),
        np.zeros(len(THRESHOLDS), np.int64),
        np.zeros(len(NON_FINITE_FLAGS), np.int64),
        np.full(len(NON_FINITE_FLAGS), -1, np.int64),
        np.zeros((len(HISTOGRAMS), BINS), np.int64),
    )


def bin_middle(index: int) -> float:
    """Return the middle of a histogram bin, which is within 1/32 of every value in it. That of bin 0 is 0."""
    if index == 0:
        return 0.0
    if index >= _INFINITE_BIN:
        return math.inf
    edges = np.array([index << HISTOGRAM_SHIFT, (index + 1) << HISTOGRAM_SHIFT], np.int64).view(np.float64)
    return float(edges[0] / 2 + edges[1] / 2)
