"""Measures the errors of a tensor, their places, and how several runs of one case behave.

- `measure` returns `Statistics` of one tensor against another, in a single pass over both.
- `breakdown` sums errors by rows, and `heat_map` by the blocks of a matrix.
- `compare_runs` compares several runs with their reference. A deterministic bug hits the same rows with the same values
  in every run. A race hits rows that move, or values that vary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce

import numpy as np

from ..tensor import (
    DType,
    TensorLayout,
    TensorView,
    bits,
    decode,
    map_in_two_threads,
    raw_run,
    run_values,
    spans,
)
from .elements import (
    HISTOGRAMS,
    PEAKS,
    SUMS,
    THRESHOLDS,
    Arithmetic,
    Array,
    CellGrid,
    Cells,
    Moments,
    Pair,
    Rule,
    Scales,
    bin_middle,
    new_block,
    new_cells,
    new_moments,
)

LEVELS = (0.5, 0.9, 0.99, 0.999, 1.0)
"""Quantiles are given at these shares of elements. The last one is the maximum."""

RELATIVE_ERROR = 1 / 32
"""The largest relative error of a quantile. The last quantile, the maximum, is exact."""


def histogram_quantiles(histogram: Array, *, largest: float) -> Mapping[float, float]:
    """Return the value at each of `LEVELS`: the smallest v such that at least that share of the elements is <= v.

    `histogram` counts elements by the bins of `elements.BINS`. `largest` is the exact maximum. Without elements every
    quantile is NaN.
    """
    cumulative = np.cumsum(histogram)
    total = int(cumulative[-1])
    if total == 0:
        return dict.fromkeys(LEVELS, math.nan)
    quantiles = {
        level: min(bin_middle(int(np.searchsorted(cumulative, math.ceil(level * total)))), largest)
        for level in LEVELS
    }
    return quantiles | {1.0: largest}


SUM_ERROR = 1.2e-13
"""The largest error of a sum, as a share of the sum of its terms' magnitudes.

Blocks of 1024 terms are added in float64 in any order, with an error of 1024 * 2**-53. Their sums are added with
Neumaier's compensation."""

_SAFE_TO_SQUARE = (1e-140, 1e140)
"""Values between these bounds can be squared. Other squares leave float64's range, or its normal numbers."""
_MAX_EXPONENT = 1023
"""The exponent of float64's largest power of two. A scale for the smallest values would exceed it."""

Index = tuple[int, ...]


class IncomparableError(ValueError):
    """Two tensors differ in type or shape, so that their elements do not correspond."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """The arguments of `torch.isclose`. By default only equal values are close, and NaN equals NaN.

    The default compares two runs. `HARNESS_TOLERANCE` of `judges.py` compares as the harness does.

    With `signed_zeros`, which torch does not have, -0.0 is not close to 0.0 at any tolerance.
    """

    rtol: float = 0.0
    atol: float = 0.0
    equal_nan: bool = True
    signed_zeros: bool = False

    def __post_init__(self) -> None:
        if not (self.rtol >= 0 and self.atol >= 0):
            raise ValueError(f"expected rtol and atol of at least 0, found rtol={self.rtol} atol={self.atol}")


@dataclass(frozen=True, kw_only=True)
class Extreme:
    """A largest value, and the index of its first element; None if there is no such element."""

    value: float
    index: Index | None


@dataclass(frozen=True, kw_only=True)
class NonFiniteCount:
    """The number of NaN, or of Inf, on one side, and the index of the first one."""

    count: int
    first: Index | None


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """All figures of one tensor against another.

    Errors are |actual - expected| in float64. Those of integers are exact, then rounded once. Errors and sums run over
    the `finite` pairs. Quantities without a definition, such as the cosine of a zero vector, are NaN.

    Attributes:
        over: the number of elements that the tolerance rejects.
        unequal: the number of elements that differ at all. NaN equals NaN.
        finite: the number of pairs without NaN and Inf.
        without_reference: the number of elements that differ from an expected 0. Their relative error, error over
            |expected|, is infinite.
        max_relative_error: the largest finite one.
        max_distance: in units in the last place; for integers the difference.
        beyond: the share of elements over each threshold, by the rule of pypto-lib's `ratio_reldiff`.
    """

    dtype: DType
    shape: tuple[int, ...]
    numel: int
    over: int
    unequal: int
    finite: int
    without_reference: int
    max_error: Extreme
    max_relative_error: Extreme
    max_distance: int
    max_distance_index: Index | None
    max_actual: Extreme
    max_expected: Extreme
    mean_error: float
    mean_difference: float
    rmse: float
    relative_l2: float
    cosine: float
    sum_actual: float
    sum_expected: float
    beyond: Mapping[float, float]
    error_quantiles: Mapping[float, float]
    relative_quantiles: Mapping[float, float]
    distance_quantiles: Mapping[float, float]
    expected_quantiles: Mapping[float, float]
    actual_nan: NonFiniteCount
    actual_inf: NonFiniteCount
    expected_nan: NonFiniteCount
    expected_inf: NonFiniteCount


def require_comparable(actual: TensorLayout, expected: TensorLayout) -> None:
    """Raise `IncomparableError` unless both have the same type and shape."""
    if actual.dtype is not expected.dtype:
        raise IncomparableError(f"dtype {actual.dtype.value} against expected {expected.dtype.value}")
    if actual.shape != expected.shape:
        raise IncomparableError(f"shape {actual.shape} against expected {expected.shape}")


def compile_tolerance(dtype: DType, tolerance: Tolerance) -> Rule:
    """Return `tolerance` as compiled loops take it, with the arithmetic in which torch compares `dtype`."""
    arithmetic = Arithmetic[dtype.name] if dtype.is_floating else Arithmetic.INTEGER
    return Rule(
        int(arithmetic),
        tolerance.rtol,
        tolerance.atol,
        tolerance.equal_nan,
        tolerance.signed_zeros,
    )


def read_pair(actual: TensorView, expected: TensorView, start: int, stop: int) -> Pair:
    """Return the elements `start` to `stop` of both, as compiled loops take them."""
    a, e = raw_run(actual, start, stop), raw_run(expected, start, stop)
    dtype = actual.dtype
    return Pair(
        _read_only_view(decode(dtype, a)),
        _read_only_view(decode(dtype, e)),
        _read_only_view(bits(dtype, a)),
        _read_only_view(bits(dtype, e)),
    )


def _read_only_view(array: Array) -> Array:
    """Return a read-only view, so that loops are compiled once for mapped files and for arrays in memory."""
    view = array.view()
    view.flags.writeable = False
    return view


def measure(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> Statistics:
    """Return all statistics of `actual` against `expected`.

    Two threads read both tensors once, in runs of bounded size. They read them again only if float64 squares overflow.
    The result does not depend on the scheduling of the threads.

    Raises:
        IncomparableError: types or shapes differ.
    """
    require_comparable(actual, expected)
    moments = _measure_moments(actual, expected, tolerance, Scales(1.0, 1.0))
    scales = _scales(moments)
    if scales != Scales(1.0, 1.0):
        moments = _measure_moments(actual, expected, tolerance, scales)
    return _statistics(actual, moments, scales)


def _measure_moments(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, scales: Scales
) -> Moments:
    from .loops import add_elements  # imports numba, which takes longer than most comparisons

    rule = compile_tolerance(actual.dtype, tolerance)

    def add_runs(runs: Sequence[tuple[int, int]]) -> Moments:
        moments, block = new_moments(), new_block()
        for start, stop in runs:
            add_elements(read_pair(actual, expected, start, stop), rule, start, scales, block, moments)
        return moments

    return _merge_moments(map_in_two_threads(actual.numel, add_runs))


def _merge_moments(parts: list[Moments]) -> Moments:
    """Return the totals of several threads."""
    total = new_moments()
    for k in range(len(PEAKS)):
        best = max(parts, key=lambda part: (_peak_key(part, k), -int(part.peak_positions[k])))
        total.peaks[k] = best.peaks[k]
        total.peak_positions[k] = best.peak_positions[k]
    for k in range(len(SUMS)):
        total.sums[k] = math.fsum(float(term) for part in parts for term in (part.sums[k], part.lost[k]))
    total.distance[0] = max(part.distance[0] for part in parts)
    for name in ("counts", "beyond", "non_finite_counts", "histograms"):
        arrays: list[Array] = [getattr(part, name) for part in parts]
        getattr(total, name)[...] = np.sum(arrays, axis=0)
    for k in range(len(total.non_finite_positions)):
        positions = [int(part.non_finite_positions[k]) for part in parts]
        total.non_finite_positions[k] = min((each for each in positions if each >= 0), default=-1)
    return total


def _peak_key(part: Moments, k: int) -> float | int:
    """Return peak `k` for comparisons. The largest distance is exact only as an integer."""
    return int(part.distance[0]) if PEAKS[k] == "distance" else float(part.peaks[k])


def _scales(moments: Moments) -> Scales:
    """Return powers of two that bring the largest value and the largest error near 1, or 1 if squares are safe."""
    peaks = dict(zip(PEAKS, moments.peaks.tolist(), strict=True))
    return Scales(_scale(max(peaks["actual"], peaks["expected"])), _scale(peaks["error"]))


def _scale(peak: float) -> float:
    low, high = _SAFE_TO_SQUARE
    if peak <= 0 or low <= peak <= high or math.isinf(peak):
        return 1.0
    return math.ldexp(1.0, min(1 - math.frexp(peak)[1], _MAX_EXPONENT))


def _statistics(view: TensorView, moments: Moments, scales: Scales) -> Statistics:
    """Return the statistics of a tensor from its moments."""

    def index(position: int) -> Index | None:
        if position < 0:
            return None
        return tuple(int(i) for i in np.unravel_index(position, view.shape))

    def extreme(name: str) -> Extreme:
        k = PEAKS.index(name)
        return Extreme(value=max(float(moments.peaks[k]), 0.0), index=index(int(moments.peak_positions[k])))

    def levels(name: str, largest: float) -> Mapping[float, float]:
        return histogram_quantiles(moments.histograms[HISTOGRAMS.index(name)], largest=largest)

    actual_nan, actual_inf, expected_nan, expected_inf = (
        NonFiniteCount(count=int(count), first=index(int(position)))
        for count, position in zip(moments.non_finite_counts, moments.non_finite_positions, strict=True)
    )
    over, unequal, finite, without_reference = (int(count) for count in moments.counts)
    sums = dict(zip(SUMS, (moments.sums + moments.lost).tolist(), strict=True))
    norm_error = math.sqrt(sums["error_squared"])
    norm_actual = math.sqrt(sums["actual_squared"])
    norm_expected = math.sqrt(sums["expected_squared"])
    max_error, max_relative = extreme("error"), extreme("relative")
    max_distance = int(moments.distance[0])
    return Statistics(
        dtype=view.dtype,
        shape=view.shape,
        numel=view.numel,
        over=over,
        unequal=unequal,
        finite=finite,
        without_reference=without_reference,
        max_error=max_error,
        max_relative_error=max_relative,
        max_distance=max_distance,
        max_distance_index=index(int(moments.peak_positions[PEAKS.index("distance")])),
        max_actual=extreme("actual"),
        max_expected=extreme("expected"),
        mean_error=_ratio(sums["error"], finite),
        mean_difference=_ratio(sums["difference"], finite),
        rmse=_ratio(norm_error, math.sqrt(finite)) / scales.errors,
        relative_l2=_ratio(norm_error, norm_expected) * (scales.values / scales.errors),
        cosine=_ratio(sums["product"], norm_actual * norm_expected),
        sum_actual=sums["actual"],
        sum_expected=sums["expected"],
        beyond={
            threshold: int(count) / max(view.numel, 1)
            for threshold, count in zip(THRESHOLDS, moments.beyond, strict=True)
        },
        error_quantiles=levels("error", max_error.value),
        relative_quantiles=levels("relative", math.inf if without_reference else max_relative.value),
        distance_quantiles=levels("distance", float(max_distance)),
        expected_quantiles=levels("expected", extreme("expected").value),
        actual_nan=actual_nan,
        actual_inf=actual_inf,
        expected_nan=expected_nan,
        expected_inf=expected_inf,
    )


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else math.nan


MAX_SLICES = 1 << 18
"""A breakdown has at most this many slices. In a tensor with more rows, a slice is several neighbouring rows."""


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The rows from `start` up to `stop`. `wild` is the number of pairs with NaN or Inf."""

    start: int
    stop: int
    over: int
    wild: int
    numel: int
    max_error: float
    relative_l2: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Breakdown:
    """The totals of each slice of `step` neighbouring rows, as arrays with one entry a slice.

    A row is one run of the last dimension. Leading dimensions are flattened to `length` rows. `row_numel` is the
    number of elements of one row, and `wild` the number of pairs with NaN or Inf.
    """

    length: int
    step: int
    row_numel: int
    over: Array
    wild: Array
    max_error: Array
    relative_l2: Array

    def slices_over(self) -> list[int]:
        """Return the indices of the slices with an element over the tolerance."""
        return [int(k) for k in np.flatnonzero(self.over)]

    def slice(self, number: int) -> Slice:
        """Return the slice of index `number`."""
        start = number * self.step
        stop = min(start + self.step, self.length)
        return Slice(
            start=start,
            stop=stop,
            over=int(self.over[number]),
            wild=int(self.wild[number]),
            numel=(stop - start) * self.row_numel,
            max_error=float(self.max_error[number]),
            relative_l2=float(self.relative_l2[number]),
        )


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns of a tensor with flattened leading dimensions. A scalar is a 1 x 1 matrix."""
    columns = shape[-1] if shape else 1
    return math.prod(shape[:-1]), columns


def breakdown(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> Breakdown:
    """Return the errors by row. Raises `IncomparableError` if types or shapes differ."""
    require_comparable(actual, expected)
    length, columns = matrix_shape(actual.shape)
    step = _step(length, MAX_SLICES)
    grid = CellGrid(columns, max(length, 1), step, max(columns, 1))
    cells = _measure_cells(actual, expected, tolerance, grid, (math.ceil(length / step), 1))
    return Breakdown(
        length=length,
        step=step,
        row_numel=actual.numel // max(length, 1),
        over=cells.over[:, 0],
        wild=cells.non_finite[:, 0],
        max_error=cells.worst[:, 0],
        relative_l2=_relative_l2(cells)[:, 0],
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class HeatMap:
    """The errors of a matrix by blocks of `row_step` x `column_step` elements.

    The arrays have shape (block rows, block columns). `share_over` is the share of elements over the tolerance, and
    `wild` the number of pairs with NaN or Inf.
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
    """Return a map of at most `height` x `width` blocks. The sides of a block are powers of two, as those of tiles.

    Raises:
        IncomparableError: types or shapes differ.
    """
    require_comparable(actual, expected)
    rows, columns = matrix_shape(actual.shape)
    row_step, column_step = _tile_step(rows, height), _tile_step(columns, width)
    shape = (math.ceil(rows / row_step), math.ceil(columns / column_step))
    grid = CellGrid(max(columns, 1), max(rows, 1), row_step, column_step)
    cells = _measure_cells(actual, expected, tolerance, grid, shape)
    heights = np.minimum(row_step, rows - row_step * np.arange(shape[0]))
    widths = np.minimum(column_step, columns - column_step * np.arange(shape[1]))
    return HeatMap(
        rows=rows,
        columns=columns,
        row_step=row_step,
        column_step=column_step,
        share_over=cells.over / np.outer(heights, widths),
        max_error=cells.worst,
        wild=cells.non_finite,
    )


def _step(length: int, limit: int) -> int:
    return max(math.ceil(length / limit), 1)


def _tile_step(length: int, limit: int) -> int:
    return 1 << (_step(length, limit) - 1).bit_length()


def _relative_l2(cells: Cells) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(cells.error_squared / cells.expected_squared)


def _measure_cells(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, grid: CellGrid, shape: tuple[int, int]
) -> Cells:
    from .loops import add_to_cells  # imports numba

    rule = compile_tolerance(actual.dtype, tolerance)

    def add_runs(runs: Sequence[tuple[int, int]]) -> Cells:
        cells, block = new_cells(*shape), new_block()
        for start, stop in runs:
            add_to_cells(read_pair(actual, expected, start, stop), rule, start, grid, block, cells)
        return cells

    return reduce(_add_cells, map_in_two_threads(actual.numel, add_runs))


def _add_cells(first: Cells, second: Cells) -> Cells:
    return Cells(
        first.over + second.over,
        first.non_finite + second.non_finite,
        np.maximum(first.worst, second.worst),
        first.error_squared + second.error_squared,
        first.expected_squared + second.expected_squared,
    )


DRAWS = 9999
"""The number of random placements in the permutation test. Its smallest p-value is therefore 1 / 10000."""

_SEED = 2026
"""The permutation test has this seed, so that the same runs always give the same p-value."""
_SIGNIFICANCE = 0.01
"""Rows recur if the p-value is at most this. Random rows are called recurring this often."""


class Behaviour(Enum):
    """How several runs of one case behave."""

    ALL_PASS = "all runs pass"
    DETERMINISTIC = "the same rows with the same values in every run"
    VARYING_VALUES = "the same rows in every run, with values that vary"
    RECURRING_ROWS = "rows that differ from run to run, but recur more often than chance would have it"
    MOVING_ROWS = "rows that move as if placed at random"


@dataclass(frozen=True, kw_only=True)
class RunsReport:
    """A comparison of several runs of one tensor with its reference.

    Attributes:
        runs: the number of runs.
        rows: the number of slices of rows in the tensor.
        wrong_rows: the number of wrong rows in each run.
        always_wrong: the rows that are wrong in all runs.
        overlap: the number of wrong rows that pairs of runs share, summed over all pairs.
        p_value: the probability of at least that overlap, if each run had its wrong rows at random places. If it is
            small, the rows recur.
        bit_identical: whether all runs have the same bytes.
        hidden_rate: the largest rate, at 95 % confidence, at which runs may differ although none did; NaN if some did.
    """

    behaviour: Behaviour
    runs: int
    rows: int
    wrong_rows: tuple[int, ...]
    always_wrong: tuple[int, ...]
    overlap: int
    p_value: float
    bit_identical: bool
    hidden_rate: float

    @property
    def is_race(self) -> bool:
        """Return whether the runs differ. Then the case is not deterministic, whatever the p-value."""
        return not self.bit_identical


def compare_runs(runs: Sequence[TensorView], expected: TensorView, tolerance: Tolerance) -> RunsReport:
    """Compare two or more runs of one tensor with its reference `expected`.

    Raises:
        ValueError: there are fewer than two runs.
        IncomparableError: type or shape of a run differ from the reference's.
    """
    if len(runs) < 2:
        raise ValueError(f"expected at least two runs, found {len(runs)}")
    for run in runs:
        require_comparable(run, expected)
    rows = [breakdown(run, expected, tolerance) for run in runs]
    wrong = np.stack([each.over > 0 for each in rows])
    identical = all(have_same_bytes(runs[0], run) for run in runs[1:])
    overlap = count_shared_rows(wrong)
    p_value = overlap_p_value(wrong)
    return RunsReport(
        behaviour=_behaviour(wrong, identical, p_value),
        runs=len(runs),
        rows=int(wrong.shape[1]),
        wrong_rows=tuple(int(n) for n in wrong.sum(axis=1)),
        always_wrong=tuple(rows[0].slice(int(row)).start for row in np.flatnonzero(wrong.all(axis=0))),
        overlap=overlap,
        p_value=p_value,
        bit_identical=identical,
        hidden_rate=1 - 0.05 ** (1 / (len(runs) - 1)) if identical else math.nan,
    )


def count_shared_rows(wrong: Array) -> int:
    """Return the number of wrong rows that pairs of runs share, over all pairs. `wrong` has shape (runs, rows)."""
    hits = wrong.sum(axis=0, dtype=np.int64)
    return int((hits * (hits - 1) // 2).sum())


def overlap_p_value(wrong: Array) -> float:
    """Return the probability of at least the observed overlap, if each run had its wrong rows at random places.

    For two runs it is exact: the upper tail of the hypergeometric distribution. For more runs it is estimated
    by a permutation test: (1 + draws with at least this overlap) / (1 + `DRAWS`), after Phipson and Smyth (2010).
    """
    counts = [int(n) for n in wrong.sum(axis=1)]
    overlap = count_shared_rows(wrong)
    rows = int(wrong.shape[1])
    if len(counts) == 2:
        return _hypergeometric_tail(rows, counts[0], counts[1], overlap)
    hits = int(np.count_nonzero(_random_overlaps(rows, counts) >= overlap))
    return (1 + hits) / (1 + DRAWS)


def _random_overlaps(rows: int, counts: Sequence[int]) -> Array:
    """Return the overlap in each of `DRAWS` random placements.

    The overlap depends only on how many rows are hit how often. The rows that a further run draws from these classes
    have the multivariate hypergeometric distribution. It is drawn one class after another.
    """
    random = np.random.default_rng(_SEED)
    classes = [np.full(DRAWS, rows, np.int64)]  # entry h: rows hit h times
    for count in counts:
        remaining, pool = np.full(DRAWS, count, np.int64), np.full(DRAWS, rows, np.int64)
        draws: list[Array] = []
        for size in classes:
            pool = pool - size
            draws.append(random.hypergeometric(size, pool, remaining))
            remaining = remaining - draws[-1]
        kept = [size - drawn for size, drawn in zip(classes, draws, strict=True)]
        classes = [*kept, np.zeros(DRAWS, np.int64)]
        for hits, drawn in enumerate(draws):
            classes[hits + 1] += drawn
    pairs = [hits * (hits - 1) // 2 * size for hits, size in enumerate(classes)]
    return np.sum(pairs, axis=0)


def _hypergeometric_tail(rows: int, first: int, second: int, minimum: int) -> float:
    """Return P(overlap >= minimum) of two random subsets of `rows`, of sizes `first` and `second`."""

    def log_choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    minimum = max(minimum, first + second - rows)
    whole = log_choose(rows, second)
    terms = (
        math.exp(log_choose(first, k) + log_choose(rows - first, second - k) - whole)
        for k in range(minimum, min(first, second) + 1)
    )
    return min(math.fsum(terms), 1.0)


def _behaviour(wrong: Array, identical: bool, p_value: float) -> Behaviour:
    if not wrong.any():
        return Behaviour.ALL_PASS
    if (wrong == wrong[0]).all():
        return Behaviour.DETERMINISTIC if identical else Behaviour.VARYING_VALUES
    return Behaviour.RECURRING_ROWS if p_value <= _SIGNIFICANCE else Behaviour.MOVING_ROWS


def have_same_bytes(first: TensorView, second: TensorView) -> bool:
    """Return whether two tensors of one type and shape are stored as the same bytes."""
    return all(
        bool(
            np.array_equal(
                bits(first.dtype, raw_run(first, *span)), bits(second.dtype, raw_run(second, *span))
            )
        )
        for span in spans(first.numel)
    )


def is_finite(view: TensorView) -> bool:
    """Return whether a tensor has neither NaN nor Inf."""
    return not view.dtype.is_floating or all(
        bool(np.isfinite(run_values(view, *span)).all()) for span in spans(view.numel)
    )
