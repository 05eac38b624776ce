"""How far one tensor is from another, measured in a single pass over both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...tensor.chunks import bits, decode, in_two_lanes, raw_run
from ...tensor.view import DType, TensorView
from ..kernels.elements import Arithmetic, Array, Pair, Rule, new_block
from ..kernels.moments import (
    HISTOGRAMS,
    PEAKS,
    SUMS,
    THRESHOLDS,
    Moments,
    Scales,
    add_elements,
    new_moments,
)
from . import quantiles

SUM_ERROR = 1.2e-13
"""Every sum is exact to this share of the sum of its terms' magnitudes: 1024 terms at a time are added in
float64 in any order (1024 * 2**-53), and those sums with Neumaier's compensation."""

# Squares of float64 values beyond these leave its range, or its normal numbers.
_SAFE_TO_SQUARE = (1e-140, 1e140)
_LARGEST_EXPONENT = 1023

Index = tuple[int, ...]


class IncomparableError(ValueError):
    """Two tensors differ in type or shape, so that elements do not correspond."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Arguments of `torch.isclose`. As they stand, only equal values are close, and NaN equals NaN.

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
class Wild:
    """NaN or Inf elements of one side: how many, and the index of the first."""

    count: int
    first: Index | None


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What is measured. Errors and sums run over the `finite` pairs: those without NaN or Inf on either side.

    `over` counts elements that the tolerance rejects, `unequal` those that differ at all (NaN equals NaN).
    Errors are |actual - expected| in float64 (of integers: exact, then rounded once); relative errors are
    divided by |expected|, and infinite for the `without_reference` elements where only expected is 0, which
    `max_relative_error` leaves out. A distance is in units in the last place, exact, and for integers the
    difference. `beyond` is the share of elements over each threshold by the rule of pypto-lib's
    `ratio_reldiff`. Quantities without a definition (the cosine of a zero vector) are NaN.
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
    actual_nan: Wild
    actual_inf: Wild
    expected_nan: Wild
    expected_inf: Wild


def arithmetic_of(dtype: DType) -> Arithmetic:
    """The arithmetic in which torch decides closeness of `dtype`."""
    return Arithmetic[dtype.name] if dtype.is_floating else Arithmetic.INTEGER


def require_comparable(actual: TensorView, expected: TensorView) -> None:
    """Raise `IncomparableError` unless both have the same type and shape."""
    if actual.dtype is not expected.dtype:
        raise IncomparableError(f"dtype {actual.dtype.value} against expected {expected.dtype.value}")
    if actual.shape != expected.shape:
        raise IncomparableError(f"shape {actual.shape} against expected {expected.shape}")


def rule_for(dtype: DType, tolerance: Tolerance) -> Rule:
    """`tolerance` as compiled loops take it."""
    return Rule(
        int(arithmetic_of(dtype)),
        tolerance.rtol,
        tolerance.atol,
        tolerance.equal_nan,
        tolerance.signed_zeros,
    )


def pair_at(actual: TensorView, expected: TensorView, start: int, stop: int) -> Pair:
    """Elements `start` to `stop` of both, as compiled loops take them."""
    a, e = raw_run(actual, start, stop), raw_run(expected, start, stop)
    dtype = actual.dtype
    return Pair(
        _frozen(decode(dtype, a)), _frozen(decode(dtype, e)), _frozen(bits(dtype, a)), _frozen(bits(dtype, e))
    )


def _frozen(array: Array) -> Array:
    """A read-only view: loops are compiled once for mapped files and for arrays in memory."""
    view = array.view()
    view.flags.writeable = False
    return view


def measure(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> Statistics:
    """All statistics of `actual` against `expected`.

    Two threads read both once, in runs of bounded size (a second time only where float64 squares would
    overflow). The result does not depend on how the threads are scheduled.

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
    rule = rule_for(actual.dtype, tolerance)

    def lane(runs: Sequence[tuple[int, int]]) -> Moments:
        moments, block = new_moments(), new_block()
        for start, stop in runs:
            add_elements(pair_at(actual, expected, start, stop), rule, start, scales, block, moments)
        return moments

    return _merged(in_two_lanes(actual.numel, lane))


def _merged(lanes: list[Moments]) -> Moments:
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
    """Powers of two that bring the largest value and the largest error near 1, where squares need it."""
    peaks = dict(zip(PEAKS, moments.peaks.tolist(), strict=True))
    return Scales(_scale(max(peaks["actual"], peaks["expected"])), _scale(peaks["error"]))


def _scale(peak: float) -> float:
    low, high = _SAFE_TO_SQUARE
    if peak <= 0 or low <= peak <= high or math.isinf(peak):
        return 1.0
    return math.ldexp(1.0, min(1 - math.frexp(peak)[1], _LARGEST_EXPONENT))


def _summary(view: TensorView, moments: Moments, scales: Scales) -> Statistics:
    def index(position: int) -> Index | None:
        if position < 0:
            return None
        return tuple(int(i) for i in np.unravel_index(position, view.shape))

    def extreme(name: str) -> Extreme:
        k = PEAKS.index(name)
        return Extreme(value=max(float(moments.peaks[k]), 0.0), index=index(int(moments.peak_positions[k])))

    def levels(name: str, largest: float) -> Mapping[float, float]:
        return quantiles.from_histogram(moments.histograms[HISTOGRAMS.index(name)], largest=largest)

    wild = [
        Wild(count=int(count), first=index(int(position)))
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
