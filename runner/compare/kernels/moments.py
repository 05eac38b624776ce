"""One pass over many blocks: extremes, sums, counts and histograms."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .elements import (
    ACTUAL_INF,
    ACTUAL_NAN,
    BLOCK,
    EXPECTED_INF,
    EXPECTED_NAN,
    Array,
    BlockScratch,
    Pair,
    Rule,
    take_apart,
)
from .jit import compiled, compiled_reordering_sums

THRESHOLDS = (1e-3, 3e-3, 5e-3, 1e-2, 3e-2, 5e-2)
"""Levels of pypto-lib's `error_distribution`."""

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
HISTOGRAMS = ("error", "relative", "distance", "expected")
WILD = (ACTUAL_NAN, ACTUAL_INF, EXPECTED_NAN, EXPECTED_INF)

BINS = 1 << 15
"""Sixteen bins between neighbouring powers of two: the upper 15 bits below the sign of a float64."""

_SHIFT = 48
_INFINITE_BIN = 0x7FF0


class Moments(NamedTuple):
    """Running totals of one thread. Positions are flat; -1 stands for none yet."""

    peaks: Array  # float64, one a name in PEAKS
    peak_positions: Array  # int64
    distance: Array  # uint64, one entry: the largest, exactly
    sums: Array  # float64, one a name in SUMS
    lost: Array  # float64, what rounding took from each sum (Neumaier)
    counts: Array  # int64: over, unequal, finite pairs, unequal where expected is 0
    beyond: Array  # int64, one a threshold
    wild_counts: Array  # int64, one a flag in WILD
    wild_positions: Array  # int64
    histograms: Array  # int64, HISTOGRAMS by BINS


class Scales(NamedTuple):
    """Powers of two by which values and errors are multiplied before they are squared.

    With them no square of a float64 leaves its range. `sums` of squares and products stay scaled.
    """

    values: float
    errors: float


def new_moments() -> Moments:
    """Totals over nothing."""
    return Moments(
        np.full(len(PEAKS), -1.0),
        np.full(len(PEAKS), -1, np.int64),
        np.zeros(1, np.uint64),
        np.zeros(len(SUMS)),
        np.zeros(len(SUMS)),
        np.zeros(4, np.int64),
        np.zeros(len(THRESHOLDS), np.int64),
        np.zeros(len(WILD), np.int64),
        np.full(len(WILD), -1, np.int64),
        np.zeros((len(HISTOGRAMS), BINS), np.int64),
    )


@compiled
def add_elements(
    pair: Pair, rule: Rule, origin: int, scales: Scales, block: BlockScratch, moments: Moments
) -> None:
    """Add a run of elements, the first of which lies at flat position `origin`."""
    total = pair.actual.size
    for start in range(0, total, BLOCK):
        count = min(BLOCK, total - start)
        take_apart(pair, rule, start, count, block)
        _add_counts(count, block, origin + start, moments)
        _add_peak(block.error, count, origin + start, moments, 0)
        _add_peak(block.relative, count, origin + start, moments, 1)
        _add_distance(block.distance, count, origin + start, moments)
        _add_magnitude(block.actual, count, origin + start, moments, 3)
        _add_magnitude(block.expected, count, origin + start, moments, 4)
        _add_sums(count, scales, block, moments)
        _add_beyond(count, block, moments.beyond)
        _add_histograms(count, block, moments.histograms)


@compiled
def _add_counts(count: int, block: BlockScratch, origin: int, moments: Moments) -> None:
    over = unequal = tame = without_reference = 0
    for i in range(count):
        over += block.over[i]
        tame += block.wild[i] == 0
        unequal += block.distance[i] != 0
        without_reference += (block.error[i] > 0.0) & (block.expected[i] == 0.0)
    if tame < count:
        for i in range(count):
            if block.wild[i]:
                unequal += _wild_pair_differs(block, i)
                _add_wild(block.wild[i], origin + i, moments)
    moments.counts[0] += over
    moments.counts[1] += unequal
    moments.counts[2] += tame
    moments.counts[3] += without_reference


@compiled
def _wild_pair_differs(block: BlockScratch, i: int) -> bool:
    both_nan = (block.wild[i] & ACTUAL_NAN) and (block.wild[i] & EXPECTED_NAN)
    # A finite float64 may turn into Inf as float32, so equal infinities are told by their flags as well.
    both_inf = (block.wild[i] & ACTUAL_INF) and (block.wild[i] & EXPECTED_INF)
    return not both_nan and not (both_inf and block.actual_single[i] == block.expected_single[i])


@compiled
def _add_wild(flags: int, position: int, moments: Moments) -> None:
    for k in range(len(WILD)):
        if flags & WILD[k]:
            moments.wild_counts[k] += 1
            if moments.wild_positions[k] < 0:
                moments.wild_positions[k] = position


@compiled
def _add_peak(values: Array, count: int, origin: int, moments: Moments, which: int) -> None:
    """Keep the largest finite entry of non-negative `values` and where it came first."""
    # Floats without a sign order as their bit patterns do, and integer maxima fill vector registers.
    infinity = np.int64(0x7FF0000000000000)
    bits = values.view(np.int64)
    largest = np.int64(0)
    for i in range(count):
        largest = max(largest, bits[i] if bits[i] < infinity else np.int64(0))
    peak = moments.peaks[which]
    if peak < 0.0 or largest > np.float64(peak).view(np.int64):
        for i in range(count):
            if bits[i] == largest:
                moments.peaks[which] = values[i]
                moments.peak_positions[which] = origin + i
                return


@compiled
def _add_magnitude(values: Array, count: int, origin: int, moments: Moments, which: int) -> None:
    largest = np.int64(0)
    bits = values.view(np.int64)
    unsigned = np.int64(0x7FFFFFFFFFFFFFFF)
    for i in range(count):
        largest = max(largest, bits[i] & unsigned)
    peak = moments.peaks[which]
    if peak < 0.0 or largest > np.float64(peak).view(np.int64):
        for i in range(count):
            if bits[i] & unsigned == largest:
                moments.peaks[which] = abs(values[i])
                moments.peak_positions[which] = origin + i
                return


@compiled
def _add_distance(distance: Array, count: int, origin: int, moments: Moments) -> None:
    largest = np.uint64(0)
    for i in range(count):
        largest = max(largest, distance[i])
    if moments.peaks[2] < 0.0 or largest > moments.distance[0]:
        moments.distance[0] = largest
        moments.peaks[2] = largest
        for i in range(count):
            if distance[i] == largest:
                moments.peak_positions[2] = origin + i
                return


@compiled
def _add_sums(count: int, scales: Scales, block: BlockScratch, moments: Moments) -> None:
    terms = _block_sums(count, scales, block)
    for k in range(len(SUMS)):
        total = moments.sums[k]
        raised = total + terms[k]
        # Neumaier (1974): the smaller addend's lost digits are the exact difference.
        if abs(total) >= abs(terms[k]):
            moments.lost[k] += (total - raised) + terms[k]
        else:
            moments.lost[k] += (terms[k] - raised) + total
        moments.sums[k] = raised


@compiled_reordering_sums
def _block_sums(
    count: int, scales: Scales, block: BlockScratch
) -> tuple[float, float, float, float, float, float, float, float]:
    actual = expected = difference = error = 0.0
    error_squared = actual_squared = expected_squared = product = 0.0
    for i in range(count):
        a, e = block.actual[i], block.expected[i]
        scaled_error = block.error[i] * scales.errors
        scaled_a, scaled_e = a * scales.values, e * scales.values
        actual += a
        expected += e
        difference += a - e
        error += block.error[i]
        error_squared += scaled_error * scaled_error
        actual_squared += scaled_a * scaled_a
        expected_squared += scaled_e * scaled_e
        product += scaled_a * scaled_e
    return (
        actual,
        expected,
        difference,
        error,
        error_squared,
        actual_squared,
        expected_squared,
        product,
    )


@compiled
def _add_beyond(count: int, block: BlockScratch, beyond: Array) -> None:
    """Count errors beyond each threshold by the rule of pypto-lib's `ratio_reldiff`, in float32 as there."""
    for k in range(len(THRESHOLDS)):
        threshold = np.float32(THRESHOLDS[k])
        floor = np.float32(2.0**-14 / THRESHOLDS[k])
        found = 0
        for i in range(count):
            a, e = block.actual_single[i], block.expected_single[i]
            error = abs(a - e)
            size = max(max(abs(a), abs(e)), floor) + np.float32(1e-9)
            found += (block.wild[i] == 0) & (error >= threshold) & (error / size > threshold)
        beyond[k] += found


@compiled
def _add_histograms(count: int, block: BlockScratch, histograms: Array) -> None:
    error = block.error.view(np.int64)
    relative = block.relative.view(np.int64)
    for i in range(count):
        if block.wild[i] == 0:
            histograms[0, error[i] >> _SHIFT] += 1
            histograms[1, relative[i] >> _SHIFT] += 1
            histograms[2, np.float64(block.distance[i]).view(np.int64) >> _SHIFT] += 1
            histograms[3, np.float64(abs(block.expected[i])).view(np.int64) >> _SHIFT] += 1


def bin_middle(index: int) -> float:
    """Middle of a histogram bin: within 1/32 of every value in it. Bin 0, which holds zero, gives 0."""
    if index == 0:
        return 0.0
    if index >= _INFINITE_BIN:
        return math.inf
    edges = np.array([index << _SHIFT, (index + 1) << _SHIFT], np.int64).view(np.float64)
    return float(edges[0] / 2 + edges[1] / 2)
