"""What detectors look at: the wrong part of a tensor, as a matrix small enough to hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...tensor.chunks import bits, decode, raw_run, spans
from ...tensor.view import DType, TensorView
from ..kernels.elements import Array, mark_over, new_block
from ..statistics.rows import matrix_shape
from ..statistics.statistics import Tolerance, pair_at, require_comparable, rule_for
from .accident import NullModel
from .places import Extent, extent_at, extent_of, strewn_nats

MAX_ELEMENTS = 1 << 21
"""A larger tensor is looked at through a window of its rows, from the first wrong one on."""

_ALIGNMENT = 128
_SEED = 2026


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """Two matrices (leading dimensions flattened) of decoded values, and which of their elements are wrong.

    `shape` is the tensor's, or the matrix's where `windowed`. `first` is the flat position of the matrix's first
    element in the tensor; it stands in row `top` and column `left` of the tensor's `tensor_rows` and
    `tensor_columns`. `others` are tensors of the same type and size that might have been left in the buffer,
    `operands` all that it may have been computed from.
    """

    dtype: DType
    shape: tuple[int, ...]
    first: int
    top: int
    left: int
    windowed: bool
    tensor_rows: int
    tensor_columns: int
    extent: Extent
    actual: Array
    expected: Array
    actual_bits: Array
    expected_bits: Array
    wrong: Array
    others: Sequence[TensorView]
    operands: Sequence[TensorView]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.wrong.shape[0])

    @property
    def columns(self) -> int:
        """Number of columns."""
        return int(self.wrong.shape[1])

    @property
    def part(self) -> str:
        """What is to be said of counts in a part of the tensor; nothing where the matrix is all of it."""
        if not self.windowed:
            return ""
        rows = f"rows {self.top}:{self.top + self.rows} of {self.tensor_rows}"
        columns = f"columns {self.left}:{self.left + self.columns} of {self.tensor_columns}"
        return f"; looked at and counted were {rows}, {columns}"

    @cached_property
    def wrong_count(self) -> int:
        """Number of wrong elements."""
        return int(np.count_nonzero(self.wrong))

    @cached_property
    def wrong_actual(self) -> Array:
        """Actual values of the wrong elements, flat."""
        return self.actual[self.wrong]

    @cached_property
    def wrong_expected(self) -> Array:
        """Expected values of the wrong elements, flat."""
        return self.expected[self.wrong]

    @cached_property
    def found_bits(self) -> Array:
        """Stored patterns of the wrong elements in actual, flat."""
        return self.actual_bits[self.wrong]

    @cached_property
    def wanted_bits(self) -> Array:
        """Stored patterns of the wrong elements in expected, flat."""
        return self.expected_bits[self.wrong]

    @cached_property
    def accident(self) -> NullModel:
        """How often the wrong elements agree with an explanation by accident."""
        return NullModel.of(self.dtype, self.found_bits, self.wanted_bits, self.expected_bits.ravel())

    @cached_property
    def strewn(self) -> float:
        """Nats that the null model of places takes: wrong elements lie anywhere among those of like values."""
        return strewn_nats(self.dtype, self.expected_bits, self.wrong)

    def bits_of(self, other: TensorView) -> Array:
        """Elements of another tensor, as stored, at the places of the matrix."""
        raw = raw_run(other, self.first, self.first + self.wrong.size)
        return bits(self.dtype, raw).reshape(self.wrong.shape)

    def is_limit(self, value: float, beyond: Array) -> bool:
        """Whether `value` bounds what is right: the expected `beyond` lie past it, all correct elements before."""
        right = self.expected[~self.wrong]
        if right.size == 0 or beyond.size == 0:
            return False
        above = bool(np.all(beyond > value)) and bool(np.all(right <= value))
        below = bool(np.all(beyond < value)) and bool(np.all(right >= value))
        return above or below

    @cached_property
    def finite_wrong(self) -> tuple[Array, Array]:
        """Actual and expected as float64 where an element is wrong and both sides are finite."""
        actual, expected = self.wrong_actual.astype(np.float64), self.wrong_expected.astype(np.float64)
        fine = np.isfinite(actual) & np.isfinite(expected)
        return actual[fine], expected[fine]


def shuffled(values: Array) -> Array:
    """The same values in a random but fixed order: what agreement is left is coincidence."""
    return np.random.default_rng(_SEED).permutation(values)


def look(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, others: Sequence[TensorView] = ()
) -> Scene | None:
    """The scene of all that is not close; None where everything is.

    `others` of another type or size may only be operands.

    Raises:
        IncomparableError: type or shape differ.
    """
    require_comparable(actual, expected)
    position = _first_wrong(actual, expected, tolerance)
    if position is None:
        return None
    rows, columns = matrix_shape(actual.shape)
    height, width = _window(rows, columns)
    windowed = (height, width) != (rows, columns)
    top = min(position // columns // _ALIGNMENT, -(-(rows - height) // _ALIGNMENT)) * _ALIGNMENT
    height = min(height, rows - top)
    left = min(position % columns // _ALIGNMENT * _ALIGNMENT, columns - width)
    start = top * columns + left
    stop = start + height * width

    def matrix(flat: Array) -> Array:
        return flat.reshape(height, width)

    a, e = raw_run(actual, start, stop), raw_run(expected, start, stop)
    dtype = actual.dtype
    wrong = matrix(_over(actual, expected, tolerance, start, stop))
    return Scene(
        dtype=dtype,
        shape=(height, width) if windowed else actual.shape,
        first=start,
        top=top,
        left=left,
        windowed=windowed,
        tensor_rows=rows,
        tensor_columns=columns,
        extent=extent_of(wrong, top=top, left=left)
        if not windowed
        else _whole_extent(actual, expected, tolerance),
        actual=matrix(decode(dtype, a)),
        expected=matrix(decode(dtype, e)),
        actual_bits=matrix(bits(dtype, a)),
        expected_bits=matrix(bits(dtype, e)),
        wrong=wrong,
        others=[other for other in others if other.dtype is dtype and other.numel == actual.numel],
        operands=others,
    )


def _window(rows: int, columns: int) -> tuple[int, int]:
    """Height and width of the part that is looked at: whole rows, or a part of one row."""
    if columns > MAX_ELEMENTS:
        return 1, MAX_ELEMENTS
    return min(rows, max(MAX_ELEMENTS // max(columns, 1), 1)), columns


def _first_wrong(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> int | None:
    for start, stop in spans(actual.numel):
        found = np.flatnonzero(_over(actual, expected, tolerance, start, stop))
        if found.size:
            return start + int(found[0])
    return None


def _whole_extent(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> Extent:
    columns = matrix_shape(actual.shape)[1]
    whole: Extent | None = None
    for start, stop in spans(actual.numel):
        places = start + np.flatnonzero(_over(actual, expected, tolerance, start, stop))
        if places.size:
            part = extent_at(places, columns)
            whole = part if whole is None else whole.joined(part)
    if whole is None:
        raise ValueError("expected a wrong element")
    return whole


def _over(actual: TensorView, expected: TensorView, tolerance: Tolerance, start: int, stop: int) -> Array:
    over = np.empty(stop - start, np.bool_)
    mark_over(pair_at(actual, expected, start, stop), rule_for(actual.dtype, tolerance), new_block(), over)
    return over
