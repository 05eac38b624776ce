"""Errors summed up over the cells of a grid laid over a matrix of elements."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .elements import BLOCK, Array, BlockScratch, Pair, Rule, take_apart
from .jit import compiled


class CellGrid(NamedTuple):
    """Which cell an element of a row-major matrix falls into.

    Row r of the matrix lies in grid row `(r % modulus) // row_step`, column c in column `c // column_step`.
    """

    columns: int
    modulus: int
    row_step: int
    column_step: int


class Cells(NamedTuple):
    """Totals, all of shape (grid rows, grid columns)."""

    over: Array  # int64, elements that are not close
    wild: Array  # int64, pairs with NaN or Inf on either side
    worst: Array  # float64, largest finite error
    error_squared: Array  # float64, of finite pairs
    expected_squared: Array  # float64


def new_cells(rows: int, columns: int) -> Cells:
    """Totals over nothing."""
    shape = (rows, columns)
    return Cells(
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
    )


@compiled
def add_to_cells(
    pair: Pair, rule: Rule, origin: int, grid: CellGrid, block: BlockScratch, cells: Cells
) -> None:
    """Add a run of elements, the first of which lies at flat position `origin` of the matrix."""
    total = pair.actual.size
    for start in range(0, total, BLOCK):
        count = min(BLOCK, total - start)
        take_apart(pair, rule, start, count, block)
        begin = 0
        while begin < count:
            row, column = divmod(origin + start + begin, grid.columns)
            cell_end = min((column // grid.column_step + 1) * grid.column_step, grid.columns)
            end = min(count, begin + cell_end - column)
            _add_segment(
                block, begin, end, (row % grid.modulus) // grid.row_step, column // grid.column_step, cells
            )
            begin = end


@compiled
def _add_segment(block: BlockScratch, begin: int, end: int, row: int, column: int, cells: Cells) -> None:
    over = wild = 0
    worst = error_squared = expected_squared = 0.0
    for i in range(begin, end):
        over += block.over[i]
        wild += block.wild[i] != 0
        error = block.error[i]
        worst = max(worst, error)
        error_squared += error * error
        expected_squared += block.expected[i] * block.expected[i]
    cells.over[row, column] += over
    cells.wild[row, column] += wild
    cells.worst[row, column] = max(cells.worst[row, column], worst)
    cells.error_squared[row, column] += error_squared
    cells.expected_squared[row, column] += expected_squared
