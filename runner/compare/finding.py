"""Defines what detectors read, what they report, and how sure a report is.

A detector reads a `Scene`: the wrong part of a tensor, as a matrix small enough for the memory. It reports a
`PatternMatch`. Its confidence is the posterior of the pattern against a null model, times the share of the wrong
elements that the pattern explains. `confidence` judges the values of wrong elements, `place_confidence` their places.

`NullModel` estimates how often wrong elements agree with an explanation by accident. It knows two accidents:

- A wrong element has any value, as often as the tensor has that value. If there are few values, agreement is likely.
- A wrong element has any error, as often as others have that error. If errors are a step or two of the type, as from
  rounding, values that are near prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from ..tensor import DType, TensorView, bits, decode, raw_run, spans
from .elements import Array, new_block
from .statistics import Tolerance, compile_tolerance, matrix_shape, read_pair, require_comparable

NEAR_STEPS = 8
"""Noise may move a value by this many steps of the type. Values this near prove little."""

_SAMPLE_SIZE = 1 << 13
"""A sample has at most this many elements. A share in it has a standard error of at most 0.6 %."""
_SEED = 2026
"""Samples and permutations have this seed, so that the same tensors always give the same answer."""


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """The number of times that each value is in a sample. `values` ascend. `counts` has one entry for each value."""

    values: Array
    counts: Array

    @classmethod
    def from_sample(cls, sample: Array) -> ValueCounts:
        """Count the values of a flat sample."""
        values, counts = np.unique(sample, return_counts=True)
        return cls(values, counts)

    @property
    def total(self) -> int:
        """Return the size of the sample."""
        return int(self.counts.sum())

    @property
    def most_frequent(self) -> int:
        """Return the value that occurs most often."""
        return int(self.values[self.counts.argmax()])

    def count_of(self, values: Array) -> Array:
        """Return how often each of `values` is in the sample."""
        if self.values.size == 0:
            return np.zeros(values.shape, np.int64)
        slot = np.minimum(np.searchsorted(self.values, values), self.values.size - 1)
        return np.where(self.values[slot] == values, self.counts[slot], 0)

    def rate_of(self, values: Array) -> Array:
        """Return the share of the sample that each of `values` has."""
        return self.count_of(values) / max(self.total, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class NullModel:
    """Estimates what wrong elements have by accident, from a sample of them.

    Attributes:
        places: the sampled places, as indices into the wrong elements.
        actual_bits, expected_bits: the stored patterns of actual and expected at these places.
        expected_values: the values of expected, wherever they are.
        wrong_values: the values of `actual_bits`.
        errors: the differences of `actual_bits` from `expected_bits`, in steps of the type.
    """

    dtype: DType
    places: Array
    actual_bits: Array
    expected_bits: Array
    expected_values: ValueCounts
    wrong_values: ValueCounts
    errors: ValueCounts

    @classmethod
    def from_wrong_elements(
        cls, dtype: DType, actual_bits: Array, expected_bits: Array, expected: Array
    ) -> NullModel:
        """Model wrong elements. `expected` is the whole expected tensor, flat, as stored patterns."""
        places = sample_places(actual_bits.size)
        actual_bits, expected_bits = actual_bits[places], expected_bits[places]
        return cls(
            dtype=dtype,
            places=places,
            actual_bits=actual_bits,
            expected_bits=expected_bits,
            expected_values=ValueCounts.from_sample(expected[sample_places(expected.size)]),
            wrong_values=ValueCounts.from_sample(actual_bits),
            errors=ValueCounts.from_sample(ulp_difference(dtype, actual_bits, expected_bits)),
        )

    def chance(self, predicted: Array) -> float:
        """Return how often wrong elements agree by accident with `predicted`, a stored pattern for each of them."""
        predicted = predicted[self.places]
        if predicted.size == 0:
            return 1.0
        agree = predicted == self.actual_bits
        possible = predicted != self.expected_bits  # a wrong element does not have the expected value
        # First accident: the element has any value.
        drawn = np.maximum(
            self.expected_values.rate_of(predicted), self._other_share(self.wrong_values, predicted, agree)
        )
        drawn = np.maximum(drawn, 2.0 ** (-8 * self.dtype.itemsize))
        right = np.maximum(
            self.expected_values.rate_of(self.expected_bits),
            self._other_share(self.wrong_values, self.expected_bits, False),
        )
        replaced = np.where(possible, np.minimum(drawn / np.maximum(1.0 - right, 1e-9), 1.0), 0.0)
        # Second accident: the element has any error.
        error = ulp_difference(self.dtype, predicted, self.expected_bits)
        near = possible & (np.abs(error) <= NEAR_STEPS)
        moved = np.where(near, self._other_share(self.errors, error, agree), 0.0)
        return float(max(replaced.mean(), moved.mean()))

    def _other_share(self, counts: ValueCounts, values: Array, agree: Array | bool) -> Array:
        """Return the share of the other wrong elements that have each of `values`.

        An element that agrees is not evidence for itself, and is not counted.
        """
        return (counts.count_of(values) - agree) / max(self.actual_bits.size - 1, 1)

    @property
    def collision_rate(self) -> float:
        """Return how often two elements of expected have the same value."""
        rates = self.expected_values.counts / max(self.expected_values.total, 1)
        return float(np.sum(rates * rates))

    @property
    def one_way_rate(self) -> float:
        """Return how often noise of a few steps goes in one given direction.

        It does so half the time, and always from zero or an end of the type. If only one value is expected, noise may
        always go in one direction. For instance, steps down from a power of two are smaller than steps up.
        """
        single = self.expected_bits == ValueCounts.from_sample(self.expected_bits).most_frequent
        patterns = (
            self.expected_bits if self.dtype.is_floating else self.expected_bits.view(self.dtype.storage)
        )
        ends = patterns == 0
        if not self.dtype.is_floating:
            info = np.iinfo(self.dtype.storage)
            ends |= (patterns == info.min) | (patterns == info.max)
        return float(max(0.5 + 0.5 * ends.mean(), single.mean()))

    def fill_chance(self, fill: int) -> float:
        """Return how often wrong elements have the value `fill`, a stored pattern, by accident."""
        rates = self.expected_values.counts / max(self.expected_values.total, 1)
        rate = float(self.expected_values.rate_of(np.asarray([fill], self.actual_bits.dtype))[0])
        differing = float(np.sum(rates * (1.0 - rates)))
        chance = max(rate, rate * (1.0 - rate) / differing if differing > 0 else 0.0)
        # If wrong elements have few values, each of them is as frequent as the next one.
        others = self.wrong_values.counts[self.wrong_values.values != fill]
        chance = max(chance, float(others.max(initial=0)) / self.actual_bits.size)
        filled = np.full(self.expected_bits.shape, fill, self.expected_bits.dtype)
        near = np.abs(ulp_difference(self.dtype, filled, self.expected_bits)) <= NEAR_STEPS
        # Noise moves an element that is near this value as often as others are near it, and in one of two directions.
        return float(np.where(near, max(0.5, 1.0 - rate, chance), chance).mean())


def sample_places(total: int) -> Array:
    """Return at most `_SAMPLE_SIZE` places, spread over `total`.

    The distances between them vary, because a fixed distance might match a period in the data.
    """
    if total <= _SAMPLE_SIZE:
        return np.arange(total)
    inside = np.random.default_rng(_SEED).random(_SAMPLE_SIZE)
    return ((np.arange(_SAMPLE_SIZE) + inside) * (total / _SAMPLE_SIZE)).astype(np.int64)


def ulp_difference(dtype: DType, first: Array, second: Array) -> Array:
    """Return how many steps of the type `first` is above `second`, both stored patterns. The int64 result may wrap."""
    return _ordinals(dtype, first) - _ordinals(dtype, second)


def _ordinals(dtype: DType, patterns: Array) -> Array:
    """Return integers in the order of the values, so that neighbouring numbers of the type differ by 1."""
    if not dtype.is_floating:
        return patterns.view(dtype.storage).astype(np.int64)
    top = np.uint64(1 << (8 * dtype.itemsize - 1))
    wide = patterns.astype(np.uint64)
    size = (wide & (top - np.uint64(1))).astype(np.int64)
    return np.where(wide & top != 0, -size, size)


class Pattern(Enum):
    """A way in which values may be wrong."""

    NEVER_WRITTEN = "never written"
    STALE = "stale"
    SHIFTED = "shifted"
    TRANSPOSED = "transposed"
    PERMUTED_BLOCKS = "permuted blocks"
    TILE = "a tile"
    TAIL = "a tail"
    PERIODIC = "periodic"
    SCALED = "constant scale"
    OFFSET = "constant offset"
    SIGN_FLIPPED = "sign flipped"
    SATURATED = "saturated"
    ROUNDING_MODE = "rounding mode"
    NARROWER_TYPE = "narrower type"
    LOWER_PRECISION = "accumulated in lower precision"
    OTHER_ORDER = "accumulated in another order"
    LOST_REDUCTION_TAIL = "lost tail of a reduction"
    SCALED_LINES = "scale by row, column or group"
    SIGN_PAIRS = "signs of pairs"
    SWAPPED_BYTES = "swapped bytes"
    SWAPPED_LINES = "swapped rows or columns"
    REVERSED = "reversed axis"
    FLUSHED_DENORMALS = "flushed denormals"
    OUTLIER_CHANNEL = "one outlier channel"
    NON_FINITE_AT_VALUES = "NaN or Inf at rare values"
    NON_FINITE_SPREAD = "NaN or Inf spreading"


PLACE_PATTERNS = frozenset({Pattern.TILE, Pattern.TAIL, Pattern.PERIODIC, Pattern.OUTLIER_CHANNEL})
"""These patterns say where elements are wrong. Most others say which values they have."""

NON_FINITE_PATTERNS = frozenset({Pattern.NON_FINITE_SPREAD, Pattern.NON_FINITE_AT_VALUES})
"""These patterns explain only the wrong elements that are NaN or Inf."""


@dataclass(frozen=True, kw_only=True)
class PatternMatch:
    """A pattern that fits, with its evidence. `confidence` is from 0 to 1."""

    pattern: Pattern
    confidence: float
    evidence: str


PRIOR = 1e-3
"""Each explanation has these odds before the data is seen. There are some thirty, and most faults are none of them."""

MIN_CHANCE = 1e-4
"""The chance of an accident is at least this, because values may agree for reasons that no null model knows."""

_MIN_WHOLE_AGREEMENT = 0.95
"""A whole tensor has moved only if this share of all its elements agrees. A part that moved proves nothing."""
_MIN_MOVED_SHARE = 0.25
"""A move is looked for only if this share of sampled wrong elements have values of expected."""
_MAX_LOG_ODDS = 700.0
"""Log odds are cut off at this many nats. Beyond it, odds leave float64."""


def share(fits: Array) -> float:
    """Return the share of true entries; 0 for an empty array."""
    return int(np.count_nonzero(fits)) / max(fits.size, 1)


def confidence(*, hits: int, total: int, chance: float, cost: float = 0.0) -> float:
    """Return the probability that the explanation is the cause of a wrong element, picked at random.

    `hits` of `total` wrong elements agree with the explanation. `chance` is how often one agrees by accident. `cost` is
    the nats that it takes to name one of many explanations of a kind.

    The result is the posterior of the explanation, times the share that it explains beyond `chance`. That share is the
    rate by Laplace's rule, (hits + 1) / (total + 2), corrected for chance as in Cohen's kappa (1960).

    >>> round(confidence(hits=100, total=100, chance=0.01), 2)
    0.99
    >>> confidence(hits=50, total=100, chance=0.5)
    0.0
    """
    if total <= 0 or hits <= 0 or chance >= 1.0:
        return 0.0
    rate = (hits + 1) / (total + 2)
    explained = min(max((rate - chance) / (1.0 - chance), 0.0), 1.0)
    return explained * posterior(agreement_evidence(hits, total, chance) - cost)


def agreement_evidence(hits: int, total: int, chance: float) -> float:
    """Return the evidence, in nats, that elements agree at a rate above `chance` if `hits` of `total` do.

    It is total * KL(hits / total || chance) - log(total + 1) / 2 (Schwarz 1978), and very negative below `chance`.
    """
    chance = min(max(chance, MIN_CHANCE), 1.0)
    rate = hits / total
    if rate <= chance:
        return -_MAX_LOG_ODDS
    divergence = rate * math.log(rate / chance)
    if rate < 1.0:
        divergence += (1.0 - rate) * math.log((1.0 - rate) / (1.0 - chance))
    return total * divergence - 0.5 * math.log(total + 1)


def posterior(evidence: float) -> float:
    """Return the probability of an explanation after `evidence` nats."""
    belief = evidence + math.log(PRIOR)
    return 1.0 / (1.0 + math.exp(-min(max(belief, -_MAX_LOG_ODDS), _MAX_LOG_ODDS)))


def whole_move_confidence(*, agree: int, unmoved: int, total: int, cost: float) -> float:
    """Return the confidence that a whole tensor has moved. Elements that are right are evidence as well.

    `agree` of `total` elements are as after the move. Without a move, `unmoved` of them would be.
    """
    if agree < _MIN_WHOLE_AGREEMENT * total:
        return 0.0
    return confidence(hits=agree, total=total, chance=unmoved / total, cost=cost)


def log_ways(total: int, chosen: int) -> float:
    """Return the logarithm of the number of ways to choose `chosen` of `total`; Inf if there is none."""
    if not 0 <= chosen <= total:
        return math.inf
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


def place_confidence(
    *, wrong: tuple[int, int], sizes: tuple[int, int], null_nats: float, cost: float
) -> float:
    """Return the probability that an area is the cause of a wrong element's place, picked at random.

    `wrong` are the numbers of wrong elements in the area and in the whole. `sizes` are the numbers of all elements.
    `null_nats` is what a null model needs to describe the places of the wrong elements. With the area, `cost` nats name
    the area, and further ones describe the places in it and outside. The evidence is the difference.
    """
    (hits, total), (size, whole) = wrong, sizes
    area_nats = cost + log_ways(size, hits) + log_ways(whole - size, total - hits) + math.log(total + 1)
    chance = size / whole
    explained = ((hits + 1) / (total + 2) - chance) / (1.0 - chance)
    return min(max(explained, 0.0), 1.0) * posterior(null_nats - area_nats)


_FRACTION_BITS = {DType.FLOAT64: 52, DType.FLOAT32: 23, DType.FLOAT16: 10, DType.BFLOAT16: 7}


@dataclass(frozen=True, kw_only=True)
class Extent:
    """The smallest rectangle of rows and columns around all wrong elements of a tensor. `count` is their number."""

    top: int
    bottom: int
    left: int
    right: int
    count: int

    def union(self, other: Extent) -> Extent:
        """Return the extent of both."""
        return Extent(
            top=min(self.top, other.top),
            bottom=max(self.bottom, other.bottom),
            left=min(self.left, other.left),
            right=max(self.right, other.right),
            count=self.count + other.count,
        )


def mask_extent(wrong: Array, *, top: int, left: int) -> Extent:
    """Return the extent of the true entries, at least one. The first entry is at row `top` and column `left`."""
    rows, columns = np.flatnonzero(wrong.any(axis=1)), np.flatnonzero(wrong.any(axis=0))
    return Extent(
        top=top + int(rows[0]),
        bottom=top + int(rows[-1]) + 1,
        left=left + int(columns[0]),
        right=left + int(columns[-1]) + 1,
        count=int(np.count_nonzero(wrong)),
    )


def position_extent(places: Array, columns: int) -> Extent:
    """Return the extent of ascending flat positions, at least one, in a matrix of `columns` columns."""
    column_numbers = places % columns
    return Extent(
        top=int(places[0]) // columns,
        bottom=int(places[-1]) // columns + 1,
        left=int(column_numbers.min()),
        right=int(column_numbers.max()) + 1,
        count=int(places.size),
    )


def null_place_nats(dtype: DType, expected_bits: Array, wrong: Array) -> float:
    """Return the nats that describe which elements are wrong, if only the size of the expected value matters.

    Elements of one sign and binade have the same probability, because noise does not change elements that are zero,
    masked, or large. The observed rates are used and cost nothing, so that places never seem too surprising.
    """
    binades = _binades(dtype, expected_bits).ravel()
    totals = np.bincount(binades)
    chosen = np.bincount(binades[wrong.ravel()], minlength=totals.size)
    return sum(
        log_ways(int(total), int(count))
        for total, count in zip(totals, chosen, strict=True)
        if 0 < count < total
    )


def _binades(dtype: DType, patterns: Array) -> Array:
    """Return one number for each sign and exponent of the values."""
    if dtype.is_floating:
        return (patterns >> patterns.dtype.type(_FRACTION_BITS[dtype])).astype(np.int64)
    wide = patterns.view(dtype.storage).astype(np.float32)
    return (wide.view(np.uint32) >> np.uint32(23)).astype(np.int64)


MAX_ELEMENTS = 1 << 21
"""A scene has at most this many elements. Of a larger tensor it is a window of rows, from the first wrong row on."""

_ALIGNMENT = 128
"""A window begins at a multiple of this many rows and columns, so that it does not cut tiles and blocks.

A window of fewer rows begins at a multiple of a smaller power of two, so that it contains the first wrong row."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """The wrong part of a tensor, as matrices: leading dimensions are flattened.

    Attributes:
        shape: the tensor's, or that of the matrices if they are a window.
        origin: the flat position in the tensor of the matrices' first element.
        top, left: the row and column of this element.
        is_window: whether the matrices are only a part of the tensor.
        tensor_rows, tensor_columns: the size of the whole tensor.
        extent: the rectangle around all wrong elements of the tensor.
        actual, expected: the decoded values.
        actual_bits, expected_bits: the stored patterns.
        wrong: which elements are wrong.
        stale_candidates: tensors of the same type and size that the buffer may still have.
        operands: all tensors that this one may have been computed from.
    """

    dtype: DType
    shape: tuple[int, ...]
    origin: int
    top: int
    left: int
    is_window: bool
    tensor_rows: int
    tensor_columns: int
    extent: Extent
    actual: Array
    expected: Array
    actual_bits: Array
    expected_bits: Array
    wrong: Array
    stale_candidates: Sequence[TensorView]
    operands: Sequence[TensorView]

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(self.wrong.shape[0])

    @property
    def columns(self) -> int:
        """Return the number of columns."""
        return int(self.wrong.shape[1])

    @property
    def window_note(self) -> str:
        """Return a remark that only a part of the tensor was counted; empty if the scene is the whole tensor."""
        if not self.is_window:
            return ""
        rows = f"rows {self.top}:{self.top + self.rows} of {self.tensor_rows}"
        columns = f"columns {self.left}:{self.left + self.columns} of {self.tensor_columns}"
        return f"; looked at and counted were {rows}, {columns}"

    @cached_property
    def wrong_count(self) -> int:
        """Return the number of wrong elements."""
        return int(np.count_nonzero(self.wrong))

    @cached_property
    def wrong_actual(self) -> Array:
        """Return the actual values of the wrong elements, flat."""
        return self.actual[self.wrong]

    @cached_property
    def wrong_expected(self) -> Array:
        """Return the expected values of the wrong elements, flat."""
        return self.expected[self.wrong]

    @cached_property
    def wrong_actual_bits(self) -> Array:
        """Return the stored patterns of the wrong elements in actual, flat."""
        return self.actual_bits[self.wrong]

    @cached_property
    def wrong_expected_bits(self) -> Array:
        """Return the stored patterns of the wrong elements in expected, flat."""
        return self.expected_bits[self.wrong]

    @cached_property
    def null_model(self) -> NullModel:
        """Return the null model of values."""
        return NullModel.from_wrong_elements(
            self.dtype, self.wrong_actual_bits, self.wrong_expected_bits, self.expected_bits.ravel()
        )

    @cached_property
    def may_have_moved(self) -> bool:
        """Return whether enough wrong elements have values of expected, so that a move may explain them.

        A match must explain half of the wrong elements. Of a sample, half of that is enough.
        """
        sample = self.wrong_actual_bits[sample_places(self.wrong_count)]
        return share(np.isin(sample, self.expected_bits)) >= _MIN_MOVED_SHARE

    @cached_property
    def place_nats(self) -> float:
        """Return the nats that the null model of places needs. In it, elements of similar values are equally likely."""
        return null_place_nats(self.dtype, self.expected_bits, self.wrong)

    def bits_of(self, other: TensorView) -> Array:
        """Return the stored patterns of another tensor at the places of the scene."""
        raw = raw_run(other, self.origin, self.origin + self.wrong.size)
        return bits(self.dtype, raw).reshape(self.wrong.shape)

    def is_limit(self, value: float, beyond: Array) -> bool:
        """Return whether `value` separates the expected values `beyond` from those of all correct elements."""
        correct = self.expected[~self.wrong]
        if correct.size == 0 or beyond.size == 0:
            return False
        above = bool(np.all(beyond > value)) and bool(np.all(correct <= value))
        below = bool(np.all(beyond < value)) and bool(np.all(correct >= value))
        return above or below

    @cached_property
    def finite_wrong(self) -> tuple[Array, Array]:
        """Return actual and expected of the wrong elements that are finite on both sides, as float64."""
        actual, expected = self.wrong_actual.astype(np.float64), self.wrong_expected.astype(np.float64)
        finite = np.isfinite(actual) & np.isfinite(expected)
        return actual[finite], expected[finite]


def shuffle(values: Array) -> Array:
    """Return the values in a random but fixed order. Agreement that remains is accidental."""
    return np.random.default_rng(_SEED).permutation(values)


def build_scene(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, others: Sequence[TensorView] = ()
) -> Scene | None:
    """Return the scene of all elements over the tolerance; None if there are none.

    `others` are the tensors that may explain them. Those of another type or size may only be operands.

    Raises:
        IncomparableError: types or shapes differ.
    """
    require_comparable(actual, expected)
    position = _first_wrong(actual, expected, tolerance)
    if position is None:
        return None
    rows, columns = matrix_shape(actual.shape)
    height, width = _window(rows, columns)
    is_window = (height, width) != (rows, columns)
    alignment = min(_ALIGNMENT, 1 << (height.bit_length() - 1))
    top = min(position // columns // alignment, -(-(rows - height) // alignment)) * alignment
    height = min(height, rows - top)
    left = min(position % columns // _ALIGNMENT * _ALIGNMENT, columns - width)
    start = top * columns + left
    stop = start + height * width

    def matrix(flat: Array) -> Array:
        return flat.reshape(height, width)

    a, e = raw_run(actual, start, stop), raw_run(expected, start, stop)
    dtype = actual.dtype
    wrong = matrix(_mark_wrong(actual, expected, tolerance, start, stop))
    extent = mask_extent(wrong, top=top, left=left)
    if is_window:
        extent = _whole_extent(actual, expected, tolerance)
    return Scene(
        dtype=dtype,
        shape=(height, width) if is_window else actual.shape,
        origin=start,
        top=top,
        left=left,
        is_window=is_window,
        tensor_rows=rows,
        tensor_columns=columns,
        extent=extent,
        actual=matrix(decode(dtype, a)),
        expected=matrix(decode(dtype, e)),
        actual_bits=matrix(bits(dtype, a)),
        expected_bits=matrix(bits(dtype, e)),
        wrong=wrong,
        stale_candidates=[other for other in others if other.dtype is dtype and other.numel == actual.numel],
        operands=others,
    )


def _window(rows: int, columns: int) -> tuple[int, int]:
    """Return height and width of a scene: whole rows, or a part of one row."""
    if columns > MAX_ELEMENTS:
        return 1, MAX_ELEMENTS
    return min(rows, max(MAX_ELEMENTS // max(columns, 1), 1)), columns


def _first_wrong(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> int | None:
    for start, stop in spans(actual.numel):
        positions = np.flatnonzero(_mark_wrong(actual, expected, tolerance, start, stop))
        if positions.size:
            return start + int(positions[0])
    return None


def _whole_extent(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> Extent:
    columns = matrix_shape(actual.shape)[1]
    whole: Extent | None = None
    for start, stop in spans(actual.numel):
        places = start + np.flatnonzero(_mark_wrong(actual, expected, tolerance, start, stop))
        if places.size:
            part = position_extent(places, columns)
            whole = part if whole is None else whole.union(part)
    if whole is None:
        raise ValueError("expected a wrong element")
    return whole


def _mark_wrong(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, start: int, stop: int
) -> Array:
    """Return which elements from `start` up to `stop` are over the tolerance."""
    from .loops import mark_over  # imports numba, which takes longer than most comparisons

    over = np.empty(stop - start, np.bool_)
    mark_over(
        read_pair(actual, expected, start, stop),
        compile_tolerance(actual.dtype, tolerance),
        new_block(),
        over,
    )
    return over
