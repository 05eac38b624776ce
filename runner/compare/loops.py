"""Measures element pairs in compiled loops: values, errors, distances, and which pairs are not close.

`measure_block` measures one block of pairs. All other loops reduce its result, so that there is one definition of an
element's error. `add_elements` adds many blocks to extremes, sums, counts and histograms. `add_to_cells` adds errors to
the cells of a grid on a matrix.

`jit` compiles a loop once and keeps the machine code between runs. Import this module only where elements are read,
because the import of numba takes longer than a small comparison.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import numba  # pyright: ignore[reportMissingTypeStubs]
import numpy as np

from ..cli_options import print_text
from ..errors import UserError
from ..workspace.home import user_home
from . import elements
from .elements import (
    ACTUAL_INF,
    ACTUAL_NAN,
    BLOCK,
    COUNTS,
    EXPECTED_INF,
    EXPECTED_NAN,
    HISTOGRAM_SHIFT,
    NON_FINITE_FLAGS,
    PEAKS,
    SUMS,
    THRESHOLDS,
    Arithmetic,
    Array,
    BlockScratch,
    CellGrid,
    Cells,
    Moments,
    Pair,
    Rule,
    Scales,
)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Number: TypeAlias = Any  # in compiled loops, the scalar type of the arrays

# Compiled loops cannot read the numbers of an enum's members.
_BFLOAT16 = int(Arithmetic.BFLOAT16)
_FLOAT16 = int(Arithmetic.FLOAT16)
_FLOAT64 = int(Arithmetic.FLOAT64)
_INTEGER = int(Arithmetic.INTEGER)

# Nor can they look up a name, so each entry of an array has a constant.
_OVER, _UNEQUAL, _FINITE, _WITHOUT_REFERENCE = range(len(COUNTS))
_ERROR, _RELATIVE, _DISTANCE, _ACTUAL, _EXPECTED = range(len(PEAKS))


def _kernel_folder() -> Path:
    # numba checks only the outermost function to decide whether its cache is current. So the folder's name contains a
    # hash of all loops, and of the constants in them.
    text = Path(__file__).read_bytes() + Path(elements.__file__).read_bytes()
    return user_home().cache / f"kernels-{hashlib.sha256(text).hexdigest()[:16]}"


@cache
def _set_up_cache() -> bool:
    """Make numba use our cache folder, and return whether it is writable.

    If the folder has no loops yet, a line on a terminal says so, because the first compilation takes many seconds.
    """
    try:
        folder = Path(os.environ.get("NUMBA_CACHE_DIR") or _kernel_folder())
    except UserError as error:
        print_text(f"note: {error}; until then every run compiles its kernels again (some seconds)", err=True)
        return False
    if sys.stderr.isatty() and next(folder.rglob("*.nbi"), None) is None:
        print_text("compiling what compares for this machine, once: this takes a while", err=True)
    if os.environ.get("NUMBA_CACHE_DIR"):
        return True
    try:
        user_home().make_cache()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        print_text(
            f"note: expected to keep compiled kernels in {folder}, found {error.strerror}: every run compiles them "
            "again (some seconds); set PRECISION_BISECT_HOME to a folder that can be written",
            err=True,
        )
        return False
    cast(Any, numba).config.CACHE_DIR = str(folder)
    return True


def jit(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return `function` as machine code, compiled at the first call with each set of argument types.

    It runs without the interpreter's lock, so that threads share the work. Floating-point operations keep their order.
    """
    return _compile(function, reorder_sums=False)


def jit_reordering_sums(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile like `jit`, but allow additions in any order, so that they fill vector registers.

    It is only for sums. The error of a sum of n terms is below n units in the last place of the sum of magnitudes.
    """
    return _compile(function, reorder_sums=True)


def _compile(function: Callable[Arguments, Result], *, reorder_sums: bool) -> Callable[Arguments, Result]:
    njit = cast(Any, numba).njit
    flags: set[str] = {"reassoc"} if reorder_sums else set()
    compiler = njit(cache=_set_up_cache(), nogil=True, fastmath=flags, error_model="numpy")
    return cast(Callable[Arguments, Result], compiler(function))


@jit
def measure_block(pair: Pair, rule: Rule, start: int, count: int, block: BlockScratch) -> None:
    """Fill the first `count` entries of `block` with the elements of `pair` from `start` on."""
    _fill_values(pair, start, count, block)
    if rule.arithmetic == _INTEGER:
        _fill_integer_distances(pair, start, count, block)
    else:
        _fill_float_distances(pair, start, count, block)
    _fill_relative_errors(count, block)
    if rule.arithmetic == _FLOAT64:
        _mark_over_float64(pair, rule, start, count, block)
    elif rule.arithmetic == _BFLOAT16 or rule.arithmetic == _FLOAT16:
        _mark_over_half(pair, rule, start, count, block)
    else:
        _mark_over_float32(pair, rule, start, count, block)
    if rule.signed_zeros and rule.arithmetic != _INTEGER:
        _mark_over_signed_zeros(pair, start, count, block)


@jit
def mark_over(pair: Pair, rule: Rule, block: BlockScratch, over: Array) -> None:
    """Set the entries of `over` (bool) for the pairs that the rule rejects, and clear the others."""
    for start in range(0, over.size, BLOCK):
        count = min(BLOCK, over.size - start)
        measure_block(pair, rule, start, count, block)
        for i in range(count):
            over[start + i] = block.over[i] != 0


@jit
def _fill_values(pair: Pair, start: int, count: int, block: BlockScratch) -> None:
    for i in range(count):
        a = pair.actual[start + i]
        e = pair.expected[start + i]
        block.actual_single[i] = np.float32(a)
        block.expected_single[i] = np.float32(e)
        wide_a = np.float64(a)
        wide_e = np.float64(e)
        a_nan, e_nan = wide_a != wide_a, wide_e != wide_e
        a_inf, e_inf = abs(wide_a) == np.inf, abs(wide_e) == np.inf
        non_finite = a_nan * ACTUAL_NAN + a_inf * ACTUAL_INF + e_nan * EXPECTED_NAN + e_inf * EXPECTED_INF
        is_finite = non_finite == 0
        block.non_finite[i] = non_finite
        block.actual[i] = wide_a if is_finite else 0.0
        block.expected[i] = wide_e if is_finite else 0.0


@jit
def _fill_integer_distances(pair: Pair, start: int, count: int, block: BlockScratch) -> None:
    for i in range(count):
        a = pair.actual[start + i]
        e = pair.expected[start + i]
        # Modulo 2**64 the difference of two int64 is exact, though it may not fit an int64.
        distance = np.uint64(a) - np.uint64(e) if a >= e else np.uint64(e) - np.uint64(a)
        block.distance[i] = distance
        block.error[i] = np.float64(distance)


@jit
def _fill_float_distances(pair: Pair, start: int, count: int, block: BlockScratch) -> None:
    width = np.uint64(8 * pair.actual_bits.itemsize - 1)
    magnitude = (np.uint64(1) << width) - np.uint64(1)
    for i in range(count):
        a = np.uint64(pair.actual_bits[start + i])
        e = np.uint64(pair.expected_bits[start + i])
        size_a, size_e = a & magnitude, e & magnitude
        same_sign = (a >> width) == (e >> width)
        difference = size_a - size_e if size_a >= size_e else size_e - size_a
        distance = difference if same_sign else size_a + size_e
        block.distance[i] = distance if block.non_finite[i] == 0 else np.uint64(0)
        block.error[i] = abs(block.actual[i] - block.expected[i])


@jit
def _fill_relative_errors(count: int, block: BlockScratch) -> None:
    for i in range(count):
        error = block.error[i]
        block.relative[i] = error / abs(block.expected[i]) if error > 0.0 else 0.0


@jit
def _mark_over_float32(pair: Pair, rule: Rule, start: int, count: int, block: BlockScratch) -> None:
    rtol, atol = np.float32(rule.rtol), np.float32(rule.atol)
    # Unequal integers may be equal as float32. Without a tolerance torch compares them as integers.
    tolerant = (rule.rtol > 0.0) | (rule.atol > 0.0)
    for i in range(count):
        a, e = block.actual_single[i], block.expected_single[i]
        error = abs(a - e)
        allowed = atol + abs(rtol * e)
        close = tolerant & (error <= allowed) & (error < np.float32(np.inf))
        close |= pair.actual[start + i] == pair.expected[start + i]
        close |= rule.equal_nan & (a != a) & (e != e)
        block.over[i] = not close


@jit
def _mark_over_float64(pair: Pair, rule: Rule, start: int, count: int, block: BlockScratch) -> None:
    for i in range(count):
        a, e = pair.actual[start + i], pair.expected[start + i]
        error = abs(a - e)
        allowed = rule.atol + abs(rule.rtol * e)
        close = (error <= allowed) & (error < np.inf)
        close |= a == e
        close |= rule.equal_nan & (a != a) & (e != e)
        block.over[i] = not close


@jit
def _mark_over_half(pair: Pair, rule: Rule, start: int, count: int, block: BlockScratch) -> None:
    brain = rule.arithmetic == _BFLOAT16
    # torch keeps rtol in float32, but rounds atol to the element type.
    rtol, atol = np.float32(rule.rtol), np.float32(rule.atol)
    atol = nearest_bfloat16(atol) if brain else nearest_float16(atol)
    for i in range(count):
        a, e = block.actual_single[i], block.expected_single[i]
        if brain:
            error = nearest_bfloat16(abs(a - e))
            allowed = nearest_bfloat16(atol + nearest_bfloat16(abs(rtol * e)))
        else:
            error = nearest_float16(abs(a - e))
            allowed = nearest_float16(atol + nearest_float16(abs(rtol * e)))
        close = (error <= allowed) & (error < np.float32(np.inf))
        close |= a == e
        close |= rule.equal_nan & (a != a) & (e != e)
        block.over[i] = not close


@jit
def _mark_over_signed_zeros(pair: Pair, start: int, count: int, block: BlockScratch) -> None:
    for i in range(start, start + count):
        zeros = (pair.actual[i] == 0) & (pair.expected[i] == 0)
        if zeros & (pair.actual_bits[i] != pair.expected_bits[i]):
            block.over[i - start] = 1


@jit
def nearest_bfloat16(size: Number) -> Number:
    """Return the non-negative float32 `size`, or NaN, rounded to bfloat16, ties to even. The result is float32."""
    if not size < np.float32(np.inf):
        return size
    bits = np.float32(size).view(np.uint32)
    bits += np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.uint32(bits & np.uint32(0xFFFF0000)).view(np.float32)


@jit
def nearest_float16(size: Number) -> Number:
    """Return the non-negative float32 `size`, or NaN, rounded to float16, ties to even. The result is float32."""
    if not size < np.float32(65520.0):
        return size + np.float32(np.inf)
    if size < np.float32(2.0**-14):
        # From 0.5 on, float32 has the spacing of float16's subnormal numbers, 2**-24.
        return (size + np.float32(0.5)) - np.float32(0.5)
    bits = np.float32(size).view(np.uint32)
    bits += np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return np.uint32(bits & np.uint32(0xFFFFE000)).view(np.float32)


@jit
def add_to_cells(
    pair: Pair, rule: Rule, origin: int, grid: CellGrid, block: BlockScratch, cells: Cells
) -> None:
    """Add a run of elements to `cells`. The first one is at flat position `origin` of the matrix."""
    total = pair.actual.size
    for start in range(0, total, BLOCK):
        count = min(BLOCK, total - start)
        measure_block(pair, rule, start, count, block)
        begin = 0
        while begin < count:
            row, column = divmod(origin + start + begin, grid.columns)
            cell_end = min((column // grid.column_step + 1) * grid.column_step, grid.columns)
            end = min(count, begin + cell_end - column)
            _add_segment(
                block, begin, end, (row % grid.modulus) // grid.row_step, column // grid.column_step, cells
            )
            begin = end


@jit
def _add_segment(block: BlockScratch, begin: int, end: int, row: int, column: int, cells: Cells) -> None:
    over = non_finite = 0
    worst = error_squared = expected_squared = 0.0
    for i in range(begin, end):
        over += block.over[i]
        non_finite += block.non_finite[i] != 0
        error = block.error[i]
        worst = max(worst, error)
        error_squared += error * error
        expected_squared += block.expected[i] * block.expected[i]
    cells.over[row, column] += over
    cells.non_finite[row, column] += non_finite
    cells.worst[row, column] = max(cells.worst[row, column], worst)
    cells.error_squared[row, column] += error_squared
    cells.expected_squared[row, column] += expected_squared


@jit
def add_elements(
    pair: Pair, rule: Rule, origin: int, scales: Scales, block: BlockScratch, moments: Moments
) -> None:
    """Add a run of elements to `moments`. The first one is at flat position `origin`."""
    total = pair.actual.size
    for start in range(0, total, BLOCK):
        count = min(BLOCK, total - start)
        measure_block(pair, rule, start, count, block)
        _add_counts(count, block, origin + start, moments)
        _add_peak(block.error, count, origin + start, moments, _ERROR)
        _add_peak(block.relative, count, origin + start, moments, _RELATIVE)
        _add_distance(block.distance, count, origin + start, moments)
        _add_magnitude(block.actual, count, origin + start, moments, _ACTUAL)
        _add_magnitude(block.expected, count, origin + start, moments, _EXPECTED)
        _add_sums(count, scales, block, moments)
        _add_beyond(count, block, moments.beyond)
        _add_histograms(count, block, moments.histograms)


@jit
def _add_counts(count: int, block: BlockScratch, origin: int, moments: Moments) -> None:
    over = unequal = finite = without_reference = 0
    for i in range(count):
        over += block.over[i]
        finite += block.non_finite[i] == 0
        unequal += block.distance[i] != 0
        without_reference += (block.error[i] > 0.0) & (block.expected[i] == 0.0)
    if finite < count:
        for i in range(count):
            if block.non_finite[i]:
                unequal += _non_finite_pair_differs(block, i)
                _add_non_finite(block.non_finite[i], origin + i, moments)
    moments.counts[_OVER] += over
    moments.counts[_UNEQUAL] += unequal
    moments.counts[_FINITE] += finite
    moments.counts[_WITHOUT_REFERENCE] += without_reference


@jit
def _non_finite_pair_differs(block: BlockScratch, i: int) -> bool:
    both_nan = (block.non_finite[i] & ACTUAL_NAN) and (block.non_finite[i] & EXPECTED_NAN)
    # A finite float64 may become Inf as float32. The flags say that both values are really infinite.
    both_inf = (block.non_finite[i] & ACTUAL_INF) and (block.non_finite[i] & EXPECTED_INF)
    return not both_nan and not (both_inf and block.actual_single[i] == block.expected_single[i])


@jit
def _add_non_finite(flags: int, position: int, moments: Moments) -> None:
    for k in range(len(NON_FINITE_FLAGS)):
        if flags & NON_FINITE_FLAGS[k]:
            moments.non_finite_counts[k] += 1
            if moments.non_finite_positions[k] < 0:
                moments.non_finite_positions[k] = position


@jit
def _add_peak(values: Array, count: int, origin: int, moments: Moments, peak: int) -> None:
    """Keep the largest finite entry of the non-negative `values`, and its first position."""
    # Non-negative floats have the order of their bit patterns, and integer maxima fill vector registers.
    infinity = np.int64(0x7FF0000000000000)
    bits = values.view(np.int64)
    largest = np.int64(0)
    for i in range(count):
        largest = max(largest, bits[i] if bits[i] < infinity else np.int64(0))
    before = moments.peaks[peak]
    if before < 0.0 or largest > np.float64(before).view(np.int64):
        for i in range(count):
            if bits[i] == largest:
                moments.peaks[peak] = values[i]
                moments.peak_positions[peak] = origin + i
                return


@jit
def _add_magnitude(values: Array, count: int, origin: int, moments: Moments, peak: int) -> None:
    largest = np.int64(0)
    bits = values.view(np.int64)
    unsigned = np.int64(0x7FFFFFFFFFFFFFFF)
    for i in range(count):
        largest = max(largest, bits[i] & unsigned)
    before = moments.peaks[peak]
    if before < 0.0 or largest > np.float64(before).view(np.int64):
        for i in range(count):
            if bits[i] & unsigned == largest:
                moments.peaks[peak] = abs(values[i])
                moments.peak_positions[peak] = origin + i
                return


@jit
def _add_distance(distance: Array, count: int, origin: int, moments: Moments) -> None:
    largest = np.uint64(0)
    for i in range(count):
        largest = max(largest, distance[i])
    if moments.peaks[_DISTANCE] < 0.0 or largest > moments.distance[0]:
        moments.distance[0] = largest
        moments.peaks[_DISTANCE] = largest
        for i in range(count):
            if distance[i] == largest:
                moments.peak_positions[_DISTANCE] = origin + i
                return


@jit
def _add_sums(count: int, scales: Scales, block: BlockScratch, moments: Moments) -> None:
    terms = _block_sums(count, scales, block)
    for k in range(len(SUMS)):
        total = moments.sums[k]
        raised = total + terms[k]
        # Neumaier (1974): this is exactly what rounding took from the smaller addend.
        if abs(total) >= abs(terms[k]):
            moments.lost[k] += (total - raised) + terms[k]
        else:
            moments.lost[k] += (terms[k] - raised) + total
        moments.sums[k] = raised


@jit_reordering_sums
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


@jit
def _add_beyond(count: int, block: BlockScratch, beyond: Array) -> None:
    """Count errors beyond each threshold by the rule of pypto-lib's `ratio_reldiff`, in float32 as it does."""
    for k in range(len(THRESHOLDS)):
        threshold = np.float32(THRESHOLDS[k])
        floor = np.float32(2.0**-14 / THRESHOLDS[k])
        hits = 0
        for i in range(count):
            a, e = block.actual_single[i], block.expected_single[i]
            error = abs(a - e)
            size = max(max(abs(a), abs(e)), floor) + np.float32(1e-9)
            hits += (block.non_finite[i] == 0) & (error >= threshold) & (error / size > threshold)
        beyond[k] += hits


@jit
def _add_histograms(count: int, block: BlockScratch, histograms: Array) -> None:
    error = block.error.view(np.int64)
    relative = block.relative.view(np.int64)
    for i in range(count):
        if block.non_finite[i] == 0:
            histograms[0, error[i] >> HISTOGRAM_SHIFT] += 1
            histograms[1, relative[i] >> HISTOGRAM_SHIFT] += 1
            histograms[2, np.float64(block.distance[i]).view(np.int64) >> HISTOGRAM_SHIFT] += 1
            histograms[3, np.float64(abs(block.expected[i])).view(np.int64) >> HISTOGRAM_SHIFT] += 1
