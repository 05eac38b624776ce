"""Measures how far one tensor is from another, where the errors lie, and how several runs of one case behave.

`measure` reads both tensors in a single pass. `histogram_quantiles` reads quantiles off a histogram of logarithmic
bins. `breakdown` sums errors by rows, and `heat_map` by the blocks of a matrix.

`compare_runs` compares several runs with their reference. A deterministic bug hits the same rows with the same values
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
"""A quantile has at most this relative error. The last quantile, the maximum, is exact."""


def histogram_quantiles(histogram: Array, *, largest: float) -> Mapping[float, float]:
    """Return the value at each of `LEVELS`: the smallest v such that at least that share of the elements is <= v.

    `histogram` counts elements by the bins of `elements.BINS`. `largest` is the exact maximum. Where there are no
    elements, every quantile is NaN.
    """
    upto = np.cumsum(histogram)
    total = int(upto[-1])
    if total == 0:
        return dict.fromkeys(LEVELS, math.nan)
    found = {
        level: min(bin_middle(int(np.searchsorted(upto, math.ceil(level * total)))), largest)
        for level in LEVELS
    }
    return found | {1.0: largest}


SUM_ERROR = 1.2e-13
"""A sum errs by at most this share of the sum of its terms' magnitudes.

Blocks of 1024 terms are added in float64 in any order, with an error of 1024 * 2**-53. Neumaier's compensation adds
these sums."""

_SAFE_TO_SQUARE = (1e-140, 1e140)
"""Values between these bounds can be squared. The squares of others leave float64's range, or its normal numbers."""
_LARGEST_EXPONENT = 1023
"""Float64 holds no larger power of two. A scale for the smallest values would exceed it."""

Index = tuple[int, ...]


class IncomparableError(ValueError):
    """Two tensors differ in type or shape, so that elements do not correspond."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """The arguments of `torch.isclose`. By default only equal values are close, and NaN equals NaN.

    With `signed_zeros`, which torch does not know, -0.0 is not close to 0.0 whatever the others allow.
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
    """A largest value and the index at which it comes first; None where no element has one."""

    value: float
    index: Index | None


@dataclass(frozen=True, kw_only=True)
class NonFiniteCount:
    """The NaN or Inf elements of one side: how many, and the index of the first."""

    count: int
    first: Index | None


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What is measured. Errors and sums run over the `finite` pairs: those without NaN or Inf on either side.

    `over` counts elements that the tolerance rejects, and `unequal` those that differ at all (NaN equals NaN).

    Errors are |actual - expected| in float64. For integers they are exact, then rounded once. Relative errors are
    divided by |expected|. They are infinite for the `without_reference` elements, where only expected is 0;
    `max_relative_error` leaves these out.

    A distance is exact, in units in the last place, and for integers the difference. `beyond` is the share of elements
    over each threshold by the rule of pypto-lib's `ratio_reldiff`. Quantities without a definition (the cosine of a
    zero vector) are NaN.
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


def choose_arithmetic(dtype: DType) -> Arithmetic:
    """Return the arithmetic in which torch decides closeness of `dtype`."""
    return Arithmetic[dtype.name] if dtype.is_floating else Arithmetic.INTEGER


def require_comparable(actual: TensorLayout, expected: TensorLayout) -> None:
    """Raise `IncomparableError` unless both have the same type and shape."""
    if actual.dtype is not expected.dtype:
        raise IncomparableError(f"dtype {actual.dtype.value} against expected {expected.dtype.value}")
    if actual.shape != expected.shape:
        raise IncomparableError(f"shape {actual.shape} against expected {expected.shape}")


def compile_tolerance(dtype: DType, tolerance: Tolerance) -> Rule:
    """Return `tolerance` as compiled loops take it. The type decides in which arithmetic it is applied."""
    return Rule(
        int(choose_arithmetic(dtype)),
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
    """Return a read-only view. With it, loops are compiled once for mapped files and for arrays in memory."""
    view = array.view()
    view.flags.writeable = False
    return view


def measure(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> Statistics:
    """Return all statistics of `actual` against `expected`.

    Two threads read both once, in runs of bounded size, and a second time only where float64 squares would overflow.
    The result does not depend on how the threads are scheduled.

    Raises:
        IncomparableError: type or shape differ.
    """
    require_comparable(actual, expected)
    moments = _gather(actual, expected, tolerance, Scales(1.0, 1.0))
    scales = _scales(moments)
    if scales != Scales(1.0, 1.0):
        moments = _gather(actual, expected, tolerance, scales)
    return _summary(actual, moments, scales)


def _gather(actual: TensorView, expected: TensorView, tolerance: Tolerance, scales: Scales) -> Moments:
    from .loops import add_elements  # imports numba, which takes longer than most comparisons

    rule = compile_tolerance(actual.dtype, tolerance)

    def lane(runs: Sequence[tuple[int, int]]) -> Moments:
        moments, block = new_moments(), new_block()
        for start, stop in runs:
            add_elements(read_pair(actual, expected, start, stop), rule, start, scales, block, moments)
        return moments

    return _merge_lanes(map_in_two_threads(actual.numel, lane))


def _merge_lanes(lanes: list[Moments]) -> Moments:
    total = new_moments()
    for k in range(len(PEAKS)):
        best = max(lanes, key=lambda lane: (_peak_key(lane, k), -int(lane.peak_positions[k])))
        total.peaks[k] = best.peaks[k]
        total.peak_positions[k] = best.peak_positions[k]
    for k in range(len(SUMS)):
        total.sums[k] = math.fsum(float(part) for lane in lanes for part in (lane.sums[k], lane.lost[k]))
    total.distance[0] = max(lane.distance[0] for lane in lanes)
    for name in ("counts", "beyond", "wild_counts", "histograms"):
        parts: list[Array] = [getattr(lane, name) for lane in lanes]
        getattr(total, name)[...] = np.sum(parts, axis=0)
    for k in range(len(total.wild_positions)):
        found = [int(lane.wild_positions[k]) for lane in lanes if lane.wild_positions[k] >= 0]
        total.wild_positions[k] = min(found, default=-1)
    return total


def _peak_key(lane: Moments, k: int) -> float | int:
    return int(lane.distance[0]) if PEAKS[k] == "distance" else float(lane.peaks[k])


def _scales(moments: Moments) -> Scales:
    """Return powers of two that bring the largest value and the largest error near 1, where squares need it."""
    peaks = dict(zip(PEAKS, moments.peaks.tolist(), strict=True))
    return Scales(_scale(max(peaks["actual"], peaks["expected"])), _scale(peaks["error"]))


def _scale(peak: float) -> float:
    low, high = _SAFE_TO_SQUARE
    if peak <= 0 or low <= peak <= high or math.isinf(peak):
        return 1.0
    return math.ldexp(1.0, min(1 - math.frexp(peak)[1], _LARGEST_EXPONENT))


def _summary(view: TensorView, moments: Moments, scales: Scales) -> Statistics:
    """Return the statistics of a tensor from the moments of all its chunks."""

    def index(position: int) -> Index | None:
        if position < 0:
            return None
        return tuple(int(i) for i in np.unravel_index(position, view.shape))

    def extreme(name: str) -> Extreme:
        k = PEAKS.index(name)
        return Extreme(value=max(float(moments.peaks[k]), 0.0), index=index(int(moments.peak_positions[k])))

    def levels(name: str, largest: float) -> Mapping[float, float]:
        return histogram_quantiles(moments.histograms[HISTOGRAMS.index(name)], largest=largest)

    wild = [
        NonFiniteCount(count=int(count), first=index(int(position)))
        for count, position in zip(moments.wild_counts, moments.wild_positions, strict=True)
    ]
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
        actual_nan=wild[0],
        actual_inf=wild[1],
        expected_nan=wild[2],
        expected_inf=wild[3],
    )


def _ratio(over: float, under: float) -> float:
    return over / under if under else math.nan


MAX_SLICES = 1 << 18
"""A breakdown keeps at most this many slices. Where there are more, neighbours are taken together."""


@dataclass(frozen=True, kw_only=True)
class Slice:
    """One row; `start` to `stop` where neighbours were taken together."""

    start: int
    stop: int
    over: int
    wild: int
    numel: int
    max_error: float
    relative_l2: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Breakdown:
    """The totals by slice of `step` neighbouring rows, as arrays with one entry a slice.

    Leading dimensions are flattened, so that a row is one run of the last dimension.
    """

    length: int
    step: int
    numel_of_one: int
    over: Array
    wild: Array
    max_error: Array
    relative_l2: Array

    def slices_over(self) -> list[int]:
        """Return the numbers of the slices with an element that is not close."""
        return [int(k) for k in np.flatnonzero(self.over)]

    def slice(self, number: int) -> Slice:
        """Return one entry of the arrays, with the indices it stands for."""
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
    """Return rows and columns of a tensor with its leading dimensions flattened; a scalar is a 1 x 1 matrix."""
    columns = shape[-1] if shape else 1
    return math.prod(shape[:-1]), columns


def breakdown(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> Breakdown:
    """Return the errors by row. Raises `IncomparableError` where type or shape differ."""
    require_comparable(actual, expected)
    length, columns = matrix_shape(actual.shape)
    step = _step(length, MAX_SLICES)
    grid = CellGrid(columns, max(length, 1), step, max(columns, 1))
    cells = _fill(actual, expected, tolerance, grid, (math.ceil(length / step), 1))
    return Breakdown(
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
    """The errors of the matrix of rows and columns by blocks of `row_step` x `column_step` elements.

    The arrays have shape (block rows, block columns). They are the share of elements that are not close, the largest
    error, and how many pairs hold NaN or Inf.
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
    """Return a map of at most `height` x `width` blocks. A block's sides are powers of two, as tiles' are.

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
    from .loops import add_to_cells  # as above

    rule = compile_tolerance(actual.dtype, tolerance)

    def lane(runs: Sequence[tuple[int, int]]) -> Cells:
        cells, block = new_cells(*shape), new_block()
        for start, stop in runs:
            add_to_cells(read_pair(actual, expected, start, stop), rule, start, grid, block, cells)
        return cells

    return reduce(_add_cells, map_in_two_threads(actual.numel, lane))


def _add_cells(first: Cells, second: Cells) -> Cells:
    return Cells(
        first.over + second.over,
        first.wild + second.wild,
        np.maximum(first.worst, second.worst),
        first.error_squared + second.error_squared,
        first.expected_squared + second.expected_squared,
    )


DRAWS = 9999
"""The permutation test makes this number of random placements. Its smallest p-value is therefore 1 / 10000."""

_SEED = 2026
"""The permutation test has this seed. A fixed one makes the same runs give the same p-value again."""
_SIGNIFICANCE = 0.01
"""Rows count as recurring up to this p-value. Random rows are called recurring this often."""


class Behaviour(Enum):
    """How several runs of one case behave."""

    ALL_PASS = "all runs pass"
    DETERMINISTIC = "the same rows with the same values in every run"
    VARYING_VALUES = "the same rows in every run, with values that vary"
    RECURRING_ROWS = "rows that differ from run to run, but recur more often than chance would have it"
    MOVING_ROWS = "rows that move as if placed at random"


@dataclass(frozen=True, kw_only=True)
class RunsReport:
    """How alike the runs are.

    Attributes:
        wrong_rows: the number of wrong rows in each run.
        always_wrong: the rows that are wrong in all runs.
        overlap: the number of wrong rows that pairs of runs share, summed over all pairs.
        p_value: the chance of at least that overlap, if every run had its number of wrong rows at random places. A
            small one means that the rows recur.
        hidden_rate: the largest rate, at 95 % confidence, at which single runs could differ from the others although
            none did here; NaN where some did.
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
        """Return whether equal inputs gave unequal results. Then something is not deterministic, at any p-value."""
        return not self.bit_identical


def compare_runs(runs: Sequence[TensorView], expected: TensorView, tolerance: Tolerance) -> RunsReport:
    """Judge two or more runs of one tensor.

    Raises:
        ValueError: fewer than two runs.
        IncomparableError: type or shape of a run differ from the reference's.
    """
    if len(runs) < 2:
        raise ValueError(f"expected at least two runs, found {len(runs)}")
    for run in runs:
        require_comparable(run, expected)
    rows = [breakdown(run, expected, tolerance) for run in runs]
    wrong = np.stack([found.over > 0 for found in rows])
    identical = all(have_same_bytes(runs[0], run) for run in runs[1:])
    overlap = shared_rows(wrong)
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


def shared_rows(wrong: Array) -> int:
    """Return the number of wrong rows that pairs of runs share, over all pairs; `wrong` has shape (runs, rows)."""
    hits = wrong.sum(axis=0, dtype=np.int64)
    return int((hits * (hits - 1) // 2).sum())


def overlap_p_value(wrong: Array) -> float:
    """Return the chance of at least the overlap seen, if every run's wrong rows lay at random.

    For two runs it is exact: the upper tail of the hypergeometric distribution. For more it is a permutation test of
    `DRAWS` draws with a fixed seed. It returns (1 + at least as large) / (1 + draws), after Phipson and Smyth (2010).
    """
    counts = [int(n) for n in wrong.sum(axis=1)]
    seen = shared_rows(wrong)
    rows = int(wrong.shape[1])
    if len(counts) == 2:
        return _hypergeometric_tail(rows, counts[0], counts[1], seen)
    reached = int(np.count_nonzero(_random_overlaps(rows, counts) >= seen))
    return (1 + reached) / (1 + DRAWS)


def _random_overlaps(rows: int, counts: Sequence[int]) -> Array:
    """Return the overlap in each of `DRAWS` random placements.

    The overlap depends only on how many rows were hit how often. A further run takes its rows from these classes as
    balls are drawn from an urn. That is the multivariate hypergeometric distribution, drawn one class after another.
    """
    random = np.random.default_rng(_SEED)
    classes = [np.full(DRAWS, rows, np.int64)]  # entry h: rows hit h times
    for count in counts:
        left, pool = np.full(DRAWS, count, np.int64), np.full(DRAWS, rows, np.int64)
        taken: list[Array] = []
        for size in classes:
            pool = pool - size
            taken.append(random.hypergeometric(size, pool, left))
            left = left - taken[-1]
        kept = [size - gone for size, gone in zip(classes, taken, strict=True)]
        classes = [*kept, np.zeros(DRAWS, np.int64)]
        for hits, gone in enumerate(taken):
            classes[hits + 1] += gone
    pairs = [hits * (hits - 1) // 2 * size for hits, size in enumerate(classes)]
    return np.sum(pairs, axis=0)


def _hypergeometric_tail(rows: int, first: int, second: int, least: int) -> float:
    """Return P(overlap >= least) of two random subsets of `rows`, of sizes `first` and `second`."""

    def log_choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    least = max(least, first + second - rows)
    whole = log_choose(rows, second)
    terms = (
        math.exp(log_choose(first, k) + log_choose(rows - first, second - k) - whole)
        for k in range(least, min(first, second) + 1)
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
    """Return whether a tensor holds neither NaN nor Inf."""
    return not view.dtype.is_floating or all(
        bool(np.isfinite(run_values(view, *span)).all()) for span in spans(view.numel)
    )
