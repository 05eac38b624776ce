"""Where the errors lie: by rows, by any other axis, and by the blocks of a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ...tensor.chunks import in_two_lanes
from ...tensor.view import TensorView
from ..kernels.cells import CellGrid, Cells, add_to_cells, new_cells
from ..kernels.elements import Array, new_block
from .statistics import Tolerance, pair_at, require_comparable, rule_for

MAX_SLICES = 1 << 18
"""A breakdown keeps at most this many slices; neighbours are taken together where there are more."""


@dataclass(frozen=True, kw_only=True)
class Slice:
    """One row (or one index of the chosen axis; `start` to `stop` where neighbours were taken together)."""

    start: int
    stop: int
    over: int
    wild: int
    numel: int
    max_error: float
    relative_l2: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Breakdown:
    """Totals by slice of `step` neighbouring rows, or indices of `axis`; arrays with one entry a slice.

    `axis` None is by rows: leading dimensions flattened, so that a row is one run of the last dimension.
    """

    axis: int | None
    length: int
    step: int
    numel_of_one: int
    over: Array
    wild: Array
    max_error: Array
    relative_l2: Array

    def slices_over(self) -> list[int]:
        """Numbers of the slices with an element that is not close."""
        return [int(k) for k in np.flatnonzero(self.over)]

    def slice(self, number: int) -> Slice:
        """One entry of the arrays, with the indices it stands for."""
        start = number * self.step
        stop = min(start + self.step, self.length)
        return Slice(
            start=start,
            stop=stop,
            over=int(self.over[number]),
            wild=int(self.wild[number]),
            numel=(stop - start) * self.numel_of_one,
            max_error=float(self.max_error[number]),
            relative_l2=float(self.relative_l2[number]),
        )


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tensor with its leading dimensions flattened; a scalar is a 1 x 1 matrix."""
    columns = shape[-1] if shape else 1
    return math.prod(shape[:-1]), columns


def breakdown(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, *, axis: int | None = None
) -> Breakdown:
    """Errors by row, or by index of `axis`.

    Raises:
        IncomparableError: type or shape differ.
        IndexError: the tensors have no such axis.
    """
    require_comparable(actual, expected)
    shape = actual.shape
    if axis is None:
        length, columns = matrix_shape(shape)
        step = _step(length, MAX_SLICES)
        grid, at = CellGrid(columns, max(length, 1), step, max(columns, 1)), None
    else:
        if not -len(shape) <= axis < len(shape):
            raise IndexError(f"expected an axis of {-len(shape)} to {len(shape) - 1}, found {axis}")
        at = axis % len(shape)
        length, inner = shape[at], math.prod(shape[at + 1 :])
        step = _step(length, MAX_SLICES)
        grid = CellGrid(max(inner, 1), max(length, 1), step, max(inner, 1))
    cells = _fill(actual, expected, tolerance, grid, (math.ceil(length / step), 1))
    return Breakdown(
        axis=at,
        length=length,
        step=step,
        numel_of_one=actual.numel // max(length, 1),
        over=cells.over[:, 0],
        wild=cells.wild[:, 0],
        max_error=cells.worst[:, 0],
        relative_l2=_relative_l2(cells)[:, 0],
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class HeatMap:
    """Errors of the matrix of rows and columns by blocks of `row_step` x `column_step` elements.

    Arrays of shape (block rows, block columns): the share of elements that are not close, the largest error,
    and how many pairs hold NaN or Inf.
    """

    rows: int
    columns: int
    row_step: int
    column_step: int
    share_over: Array
    max_error: Array
    wild: Array


def heat_map(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, *, height: int, width: int
) -> HeatMap:
    """A map of at most `height` x `width` blocks; a block's sides are powers of two, as tiles' are.

    Raises:
        IncomparableError: type or shape differ.
    """
    require_comparable(actual, expected)
    rows, columns = matrix_shape(actual.shape)
    row_step, column_step = _tile_step(rows, height), _tile_step(columns, width)
    shape = (math.ceil(rows / row_step), math.ceil(columns / column_step))
    grid = CellGrid(max(columns, 1), max(rows, 1), row_step, column_step)
    cells = _fill(actual, expected, tolerance, grid, shape)
    heights = np.minimum(row_step, rows - row_step * np.arange(shape[0]))
    widths = np.minimum(column_step, columns - column_step * np.arange(shape[1]))
    return HeatMap(
        rows=rows,
        columns=columns,
        row_step=row_step,
        column_step=column_step,
        share_over=cells.over / np.outer(heights, widths),
        max_error=cells.worst,
        wild=cells.wild,
    )


def _step(length: int, most: int) -> int:
    return max(math.ceil(length / most), 1)


def _tile_step(length: int, most: int) -> int:
    return 1 << (_step(length, most) - 1).bit_length()


def _relative_l2(cells: Cells) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(cells.error_squared / cells.expected_squared)


def _fill(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, grid: CellGrid, shape: tuple[int, int]
) -> Cells:
    rule = rule_for(actual.dtype, tolerance)

    def lane(runs: Sequence[tuple[int, int]]) -> Cells:
        cells, block = new_cells(*shape), new_block()
        for start, stop in runs:
            add_to_cells(pair_at(actual, expected, start, stop), rule, start, grid, block, cells)
        return cells

    return reduce(_sum, in_two_lanes(actual.numel, lane))


def _sum(first: Cells, second: Cells) -> Cells:
    return Cells(
        first.over + second.over,
        first.wild + second.wild,
        np.maximum(first.worst, second.worst),
        first.error_squared + second.error_squared,
        first.expected_squared + second.expected_squared,
    )
