"""What detectors look at, what they report, and how far a report is to be believed.

A detector looks at a `Scene`: the wrong part of a tensor, as a matrix small enough to hold. It reports
`PatternMatch`es. A match's confidence is its posterior against a null model, times the share of the wrong elements that
it explains. `confidence` judges what stands at the wrong elements, and `place_confidence` where they lie.

`NullModel` estimates how often wrong elements agree with an explanation by accident. It knows two accidents:

- A wrong element may hold any value, each as often as the tensor holds it. Where values are few, agreement is cheap.
- A wrong element may be off by any error, each as often as others are off by it. Where errors are a step or two of the
  type, as rounding makes them, being near proves nothing.
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
"""Noise may have moved a value by this many steps of the type. Values this near prove little."""

_SAMPLE_SIZE = 1 << 13
"""At most this many places of a tensor are looked at where a sample is enough. A share in it has a standard error of
0.6 % at most."""
_ACCIDENT_SEED = 2026
"""The sample has this seed. A fixed one makes the same tensors give the same answer again."""


@dataclass(frozen=True, eq=False)
class Counts:
    """The number of times that each value stands in a sample. `values` ascend; `counts` has one entry a value."""

    values: Array
    counts: Array

    @classmethod
    def from_sample(cls, sample: Array) -> Counts:
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

    def __call__(self, asked: Array) -> Array:
        """Return how often each of `asked` stands in the sample."""
        if self.values.size == 0:
            return np.zeros(asked.shape, np.int64)
        slot = np.minimum(np.searchsorted(self.values, asked), self.values.size - 1)
        return np.where(self.values[slot] == asked, self.counts[slot], 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class NullModel:
    """What accident makes of the wrong elements: the values and errors of a sample, counted.

    `at` are the sampled places, as indices into the wrong elements. `found` and `wanted` are the stored patterns of
    actual and expected there.
    """

    dtype: DType
    at: Array
    found: Array
    wanted: Array
    everywhere: Counts
    wrong: Counts
    errors: Counts

    @classmethod
    def from_wrong(cls, dtype: DType, found: Array, wanted: Array, expected: Array) -> NullModel:
        """Model wrong elements `found` where `wanted` was expected. `expected` is all of the tensor, flat."""
        at = sample_places(found.size)
        found, wanted = found[at], wanted[at]
        return cls(
            dtype=dtype,
            at=at,
            found=found,
            wanted=wanted,
            everywhere=Counts.from_sample(expected[sample_places(expected.size)]),
            wrong=Counts.from_sample(found),
            errors=Counts.from_sample(ulp_difference(dtype, found, wanted)),
        )

    def chance(self, there: Array) -> float:
        """Return how often the wrong elements hold `there` (stored patterns, one a wrong element) by accident."""
        there = there[self.at]
        agree = there == self.found
        drawn = np.maximum(
            self.everywhere(there) / max(self.everywhere.total, 1),
            self._other_share(self.wrong, there, agree),
        )
        kept = np.maximum(
            self.everywhere(self.wanted) / max(self.everywhere.total, 1),
            self._other_share(self.wrong, self.wanted, False),
        )
        possible = there != self.wanted  # an element that is wrong does not hold what was expected
        drawn = np.maximum(drawn, 2.0 ** (-8 * self.dtype.itemsize))
        replaced = np.where(possible, np.minimum(drawn / np.maximum(1.0 - kept, 1e-9), 1.0), 0.0)
        off = ulp_difference(self.dtype, there, self.wanted)
        near = possible & (np.abs(off) <= NEAR_STEPS)
        moved = np.where(near, self._other_share(self.errors, off, agree), 0.0)
        return float(max(replaced.mean(), moved.mean())) if there.size else 1.0

    def _other_share(self, counts: Counts, asked: Array, agree: Array | bool) -> Array:
        """Return the share of the other wrong elements that hold what is asked. An element does not count as its own
        evidence.
        """
        return (counts(asked) - agree) / max(self.found.size - 1, 1)

    @property
    def collision_rate(self) -> float:
        """Return how often two elements of the tensor hold one value."""
        rates = self.everywhere.counts / max(self.everywhere.total, 1)
        return float(np.sum(rates * rates))

    @property
    def one_way_rate(self) -> float:
        """Return how often noise of a few steps goes one way: half the time, and always from zero or an end of the
        type.

        Where one value alone is expected, noise may always go one way. Steps down from a power of two, for instance,
        are smaller than steps up.
        """
        single = self.wanted == Counts.from_sample(self.wanted).most_frequent
        patterns = self.wanted if self.dtype.is_floating else self.wanted.view(self.dtype.storage)
        ends = patterns == 0
        if not self.dtype.is_floating:
            info = np.iinfo(self.dtype.storage)
            ends |= (patterns == info.min) | (patterns == info.max)
        return float(max(0.5 + 0.5 * ends.mean(), single.mean()))

    def fill_chance(self, fill: int) -> float:
        """Return how often the wrong elements hold one value (a stored pattern) by accident."""
        held, total = self.everywhere.counts, max(self.everywhere.total, 1)
        rates = held / total
        rate = float(self.everywhere(np.asarray([fill], self.found.dtype))[0]) / total
        differing = float(np.sum(rates * (1.0 - rates)))
        chance = max(rate, rate * (1.0 - rate) / differing if differing > 0 else 0.0)
        # Where wrong elements hold few values, each of them is as frequent as the next one.
        others = self.wrong.counts[self.wrong.values != fill]
        chance = max(chance, float(others.max(initial=0)) / self.found.size)
        filled = np.full(self.wanted.shape, fill, self.wanted.dtype)
        near = np.abs(ulp_difference(self.dtype, filled, self.wanted)) <= NEAR_STEPS
        # Noise moves an element that is near to this value: as often as elements are near, and one way of two.
        return float(np.where(near, max(0.5, 1.0 - rate, chance), chance).mean())


def sample_places(total: int) -> Array:
    """Return places spread over `total`, or all of them where they are few.

    The distances between them vary, because a period in the data might match a fixed one.
    """
    if total <= _SAMPLE_SIZE:
        return np.arange(total)
    inside = np.random.default_rng(_ACCIDENT_SEED).random(_SAMPLE_SIZE)
    return ((np.arange(_SAMPLE_SIZE) + inside) * (total / _SAMPLE_SIZE)).astype(np.int64)


def ulp_difference(dtype: DType, first: Array, second: Array) -> Array:
    """Return how many numbers of the type lie between two stored patterns, up counted positive; int64, and wrapping."""
    return _ordinals(dtype, first) - _ordinals(dtype, second)


def _ordinals(dtype: DType, patterns: Array) -> Array:
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
    WILD_AT_VALUES = "NaN or Inf at rare values"
    NON_FINITE_SPREAD = "NaN or Inf spreading"


PLACE_PATTERNS = frozenset({Pattern.TILE, Pattern.TAIL, Pattern.PERIODIC, Pattern.OUTLIER_CHANNEL})
"""These patterns say where elements are wrong. Most others say what stands there instead."""

NON_FINITE_PATTERNS = frozenset({Pattern.NON_FINITE_SPREAD, Pattern.WILD_AT_VALUES})
"""The patterns of those wrong elements that are NaN or Inf, whatever the other wrong elements are."""


@dataclass(frozen=True, kw_only=True)
class PatternMatch:
    """A pattern that fits, with its evidence. `confidence` is between 0 and 1."""

    pattern: Pattern
    confidence: float
    evidence: str


PRIOR = 1e-3
"""Any one explanation has these odds before the data is seen. There are some thirty explanations, and most faults are
none of them."""

LEAST_CHANCE = 1e-4
"""The chance of an accident is assumed to be at least this. Values may agree for reasons that no null model knows."""

_LEAST_WHOLE_AGREEMENT = 0.95
"""At least this share of all elements must agree, because a part that moved says nothing about the rest."""
_LEAST_MOVED = 0.25
"""At least this share of sampled wrong elements must hold values of expected, for a move to be looked for."""
_MOST_LOG_ODDS = 700.0
"""Log odds are cut off at this many nats. Beyond it, odds leave float64."""


def share(fits: Array) -> float:
    """Return the share of true entries; 0 where there are none."""
    return int(np.count_nonzero(fits)) / max(fits.size, 1)


def confidence(*, hits: int, total: int, chance: float, cost: float = 0.0) -> float:
    """Return the chance that a wrong element, picked at random, is wrong because of the explanation.

    This is the posterior of the explanation, times the share it explains beyond `chance`. The share is the rate of
    agreement by Laplace's rule, (hits + 1) / (total + 2), corrected for chance as in Cohen's kappa (1960). `chance` is
    how often a wrong element agrees by accident. `cost` is the nats that it takes to name one of many explanations of a
    kind.

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
    """Return the nats by which `hits` of `total` speak for agreement at some rate above `chance` (Schwarz 1978).

    They are total * KL(hits / total || chance) - log(total + 1) / 2, and negative below `chance`.
    """
    chance = min(max(chance, LEAST_CHANCE), 1.0)
    rate = hits / total
    if rate <= chance:
        return -_MOST_LOG_ODDS
    divergence = rate * math.log(rate / chance)
    if rate < 1.0:
        divergence += (1.0 - rate) * math.log((1.0 - rate) / (1.0 - chance))
    return total * divergence - 0.5 * math.log(total + 1)


def posterior(evidence: float) -> float:
    """Return the probability of an explanation after `evidence` nats."""
    belief = evidence + math.log(PRIOR)
    return 1.0 / (1.0 + math.exp(-min(max(belief, -_MOST_LOG_ODDS), _MOST_LOG_ODDS)))


def whole_move_confidence(*, agree: int, unmoved: int, total: int, cost: float) -> float:
    """Return how sure it is that all of a tensor has moved, where values are few. Elements that are right count, too.

    `agree` of `total` elements are as they would be if all had moved. Without a move, `unmoved` of them would be.
    """
    if agree < _LEAST_WHOLE_AGREEMENT * total:
        return 0.0
    return confidence(hits=agree, total=total, chance=unmoved / total, cost=cost)


def log_ways(total: int, chosen: int) -> float:
    """Return the logarithm of the number of ways to choose `chosen` of `total`."""
    if not 0 <= chosen <= total:
        return math.inf
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


def place_confidence(*, wrong: tuple[int, int], sizes: tuple[int, int], strewn: float, cost: float) -> float:
    """Return the chance that a wrong element, picked at random, lies where it does because of an area.

    `wrong` and `sizes` are pairs of counts: wrong elements, and all elements, within the area and in the whole.
    `strewn` is the nats that a null model needs to say where the wrong elements are. With the area, `cost` nats name
    the area, and further nats the places within it and outside of it. The evidence is what this saves.
    """
    (hits, total), (size, whole) = wrong, sizes
    told = cost + log_ways(size, hits) + log_ways(whole - size, total - hits) + math.log(total + 1)
    chance = size / whole
    explained = ((hits + 1) / (total + 2) - chance) / (1.0 - chance)
    return min(max(explained, 0.0), 1.0) * posterior(strewn - told)


_FRACTION_BITS = {DType.FLOAT64: 52, DType.FLOAT32: 23, DType.FLOAT16: 10, DType.BFLOAT16: 7}


@dataclass(frozen=True, kw_only=True)
class Extent:
    """The smallest rectangle around all wrong elements of a tensor, in its rows and columns, and their number."""

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
    """Return the extent of the true entries, at least one, of a matrix whose first entry stands at `top`, `left`."""
    rows, columns = np.flatnonzero(wrong.any(axis=1)), np.flatnonzero(wrong.any(axis=0))
    return Extent(
        top=top + int(rows[0]),
        bottom=top + int(rows[-1]) + 1,
        left=left + int(columns[0]),
        right=left + int(columns[-1]) + 1,
        count=int(np.count_nonzero(wrong)),
    )


def position_extent(places: Array, columns: int) -> Extent:
    """Return the extent of flat positions, at least one and ascending, in a matrix of `columns` columns."""
    across = places % columns
    return Extent(
        top=int(places[0]) // columns,
        bottom=int(places[-1]) // columns + 1,
        left=int(across.min()),
        right=int(across.max()) + 1,
        count=int(places.size),
    )


def null_place_nats(dtype: DType, expected_bits: Array, wrong: Array) -> float:
    """Return the nats that say which elements are wrong, if only the size of the expected value matters.

    Elements of one sign and binade are alike. Noise spares elements that are zero, masked, or too large to be moved by
    it. The rates are the observed ones and cost nothing, so that places never seem more surprising than they are.
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


MAX_ELEMENTS = 1 << 21
"""At most this many elements of a matrix are looked at. Of a larger tensor it is a window of rows, from the first wrong
one on."""

_ALIGNMENT = 128
"""A window begins at a multiple of this many rows and columns, so that tiles and blocks stay whole in it."""
_SEED = 2026
"""The permutation has this seed. A fixed one makes the same tensors give the same answer again."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """Two matrices (leading dimensions flattened) of decoded values, and which of their elements are wrong.

    `shape` is the tensor's, or the matrix's where `windowed`. `first` is the flat position of the matrix's first
    element in the tensor. That element stands in row `top` and column `left` of the tensor's `tensor_rows` and
    `tensor_columns`. `others` are tensors of the same type and size that might have been left in the buffer. `operands`
    are all tensors that it may have been computed from.
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
        """Return the number of rows."""
        return int(self.wrong.shape[0])

    @property
    def columns(self) -> int:
        """Return the number of columns."""
        return int(self.wrong.shape[1])

    @property
    def window_note(self) -> str:
        """Return the words that say that only a part of the tensor was counted; empty where the matrix is all of it."""
        if not self.windowed:
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
        """Return the null model of values: how often the wrong elements agree with an explanation by accident."""
        return NullModel.from_wrong(
            self.dtype, self.wrong_actual_bits, self.wrong_expected_bits, self.expected_bits.ravel()
        )

    @cached_property
    def may_have_moved(self) -> bool:
        """Return whether wrong elements hold values of expected often enough for them to be right values at wrong
        places.

        A match is reported if it explains half of the wrong elements. Of a sample, half as many are asked.
        """
        sample = self.wrong_actual_bits[sample_places(self.wrong_count)]
        return share(np.isin(sample, self.expected_bits)) >= _LEAST_MOVED

    @cached_property
    def place_nats(self) -> float:
        """Return the nats that the null model of places needs, in which wrong elements lie anywhere among those of like
        values.
        """
        return null_place_nats(self.dtype, self.expected_bits, self.wrong)

    def bits_of(self, other: TensorView) -> Array:
        """Return the elements of another tensor, as stored, at the places of the matrix."""
        raw = raw_run(other, self.first, self.first + self.wrong.size)
        return bits(self.dtype, raw).reshape(self.wrong.shape)

    def is_limit(self, value: float, beyond: Array) -> bool:
        """Return whether `value` is a limit: the expected `beyond` lie past it, and all correct elements before it."""
        right = self.expected[~self.wrong]
        if right.size == 0 or beyond.size == 0:
            return False
        above = bool(np.all(beyond > value)) and bool(np.all(right <= value))
        below = bool(np.all(beyond < value)) and bool(np.all(right >= value))
        return above or below

    @cached_property
    def finite_wrong(self) -> tuple[Array, Array]:
        """Return the actual and expected values, as float64, of wrong elements that are finite on both sides."""
        actual, expected = self.wrong_actual.astype(np.float64), self.wrong_expected.astype(np.float64)
        fine = np.isfinite(actual) & np.isfinite(expected)
        return actual[fine], expected[fine]


def fixed_permutation(values: Array) -> Array:
    """Return the same values in a random but fixed order. Agreement that is left is coincidence."""
    return np.random.default_rng(_SEED).permutation(values)


def build_scene(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, others: Sequence[TensorView] = ()
) -> Scene | None:
    """Return the scene of all elements that are not close; None where everything is.

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
    wrong = matrix(_mark_wrong(actual, expected, tolerance, start, stop))
    return Scene(
        dtype=dtype,
        shape=(height, width) if windowed else actual.shape,
        first=start,
        top=top,
        left=left,
        windowed=windowed,
        tensor_rows=rows,
        tensor_columns=columns,
        extent=mask_extent(wrong, top=top, left=left)
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
    """Return height and width of the part that is looked at: whole rows, or a part of one row."""
    if columns > MAX_ELEMENTS:
        return 1, MAX_ELEMENTS
    return min(rows, max(MAX_ELEMENTS // max(columns, 1), 1)), columns


def _first_wrong(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> int | None:
    for start, stop in spans(actual.numel):
        found = np.flatnonzero(_mark_wrong(actual, expected, tolerance, start, stop))
        if found.size:
            return start + int(found[0])
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
    from .loops import mark_over  # imports numba, which takes longer than most comparisons

    over = np.empty(stop - start, np.bool_)
    mark_over(
        read_pair(actual, expected, start, stop),
        compile_tolerance(actual.dtype, tolerance),
        new_block(),
        over,
    )
    return over
