"""One block of element pairs, taken apart: values, errors, distances, and which are not close.

Everything later (moments, rows, heat maps) reduces what stands here, so there is one definition of an
element's error in this package.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .jit import compiled

Array: TypeAlias = npt.NDArray[Any]
Number: TypeAlias = Any  # inside compiled loops, whatever scalar the arrays hold

BLOCK = 1024
"""Elements of a block: its scratch arrays fit the first-level cache."""


class Arithmetic(IntEnum):
    """How torch computes `|a - e|` and `atol + rtol * |e|` for an element type.

    Integers and bool are converted to float32. The 16-bit types compute in float32 and round after every
    operation.
    """

    FLOAT32 = 0
    BFLOAT16 = 1
    FLOAT16 = 2
    FLOAT64 = 3
    INTEGER = 4


# Module constants, because compiled loops see an enum's members as objects.
_BFLOAT16 = int(Arithmetic.BFLOAT16)
_FLOAT16 = int(Arithmetic.FLOAT16)
_FLOAT64 = int(Arithmetic.FLOAT64)
_INTEGER = int(Arithmetic.INTEGER)

ACTUAL_NAN, ACTUAL_INF, EXPECTED_NAN, EXPECTED_INF = 1, 2, 4, 8
"""Flags in `BlockScratch.wild`."""


class Pair(NamedTuple):
    """Two flat runs of elements of one type. `bits` are the stored patterns, as unsigned integers."""

    actual: Array
    expected: Array
    actual_bits: Array
    expected_bits: Array


class Rule(NamedTuple):
    """`torch.isclose`'s arguments, with the arithmetic that its result depends on. With `signed_zeros` -0.0 is not
    close to 0.0."""

    arithmetic: int
    rtol: float
    atol: float
    equal_nan: bool
    signed_zeros: bool


class BlockScratch(NamedTuple):
    """Scratch of `BLOCK` entries. Where either side is NaN or Inf, values, errors and distance are 0."""

    actual: Array  # float64
    expected: Array  # float64
    error: Array  # float64, |actual - expected|
    relative: Array  # float64, error / |expected|; Inf where only expected is 0
    distance: Array  # uint64, units in the last place; the exact difference of integers
    actual_single: Array  # float32, as torch converts
    expected_single: Array  # float32
    over: Array  # uint8, 1 where the rule says no
    wild: Array  # uint8, the flags above


@compiled
def new_block() -> BlockScratch:
    """Scratch space for one thread."""
    return BlockScratch(
        np.zeros(BLOCK, np.float64),
        np.zeros(BLOCK, np.float64),
        np.zeros(BLOCK, np.float64),
        np.zeros(BLOCK, np.float64),
        np.zeros(BLOCK, np.uint64),
        np.zeros(BLOCK, np.float32),
        np.zeros(BLOCK, np.float32),
        np.zeros(BLOCK, np.uint8),
        np.zeros(BLOCK, np.uint8),
    )


@compiled
def take_apart(pair: Pair, rule: Rule, start: int, count: int, block: BlockScratch) -> None:
    """Fill the first `count` entries of `block` from element `start` of `pair` on."""
    _values(pair, start, count, block)
    if rule.arithmetic == _INTEGER:
        _integer_distances(pair, start, count, block)
    else:
        _float_distances(pair, start, count, block)
    _relative_errors(count, block)
    if rule.arithmetic == _FLOAT64:
        _over_in_double(pair, rule, start, count, block)
    elif rule.arithmetic == _BFLOAT16 or rule.arithmetic == _FLOAT16:
        _over_in_half(pair, rule, start, count, block)
    else:
        _over_in_single(pair, rule, start, count, block)
    if rule.signed_zeros and rule.arithmetic != _INTEGER:
        _over_by_sign(pair, start, count, block)


@compiled
def mark_over(pair: Pair, rule: Rule, block: BlockScratch, over: Array) -> None:
    """Set `over` (bool, one entry an element) where the rule says no."""
    for start in range(0, over.size, BLOCK):
        count = min(BLOCK, over.size - start)
        take_apart(pair, rule, start, count, block)
        for i in range(count):
            over[start + i] = block.over[i] != 0


@compiled
def _values(pair: Pair, start: int, count: int, block: BlockScratch) -> None:
    for i in range(count):
        a = pair.actual[start + i]
        e = pair.expected[start + i]
        block.actual_single[i] = np.float32(a)
        block.expected_single[i] = np.float32(e)
        wide_a = np.float64(a)
        wide_e = np.float64(e)
        a_nan, e_nan = wide_a != wide_a, wide_e != wide_e
        a_inf, e_inf = abs(wide_a) == np.inf, abs(wide_e) == np.inf
        wild = a_nan * ACTUAL_NAN + a_inf * ACTUAL_INF + e_nan * EXPECTED_NAN + e_inf * EXPECTED_INF
        tame = wild == 0
        block.wild[i] = wild
        block.actual[i] = wide_a if tame else 0.0
        block.expected[i] = wide_e if tame else 0.0


@compiled
def _integer_distances(pair: Pair, start: int, count: int, block: BlockScratch) -> None:
    for i in range(count):
        a = pair.actual[start + i]
        e = pair.expected[start + i]
        # Modulo 2**64 the difference of two int64 is exact, though it may not fit an int64.
        distance = np.uint64(a) - np.uint64(e) if a >= e else np.uint64(e) - np.uint64(a)
        block.distance[i] = distance
        block.error[i] = np.float64(distance)


@compiled
def _float_distances(pair: Pair, start: int, count: int, block: BlockScratch) -> None:
    width = np.uint64(8 * pair.actual_bits.itemsize - 1)
    magnitude = (np.uint64(1) << width) - np.uint64(1)
    for i in range(count):
        a = np.uint64(pair.actual_bits[start + i])
        e = np.uint64(pair.expected_bits[start + i])
        size_a, size_e = a & magnitude, e & magnitude
        same_sign = (a >> width) == (e >> width)
        apart = size_a - size_e if size_a >= size_e else size_e - size_a
        distance = apart if same_sign else size_a + size_e
        block.distance[i] = distance if block.wild[i] == 0 else np.uint64(0)
        block.error[i] = abs(block.actual[i] - block.expected[i])


@compiled
def _relative_errors(count: int, block: BlockScratch) -> None:
    for i in range(count):
        error = block.error[i]
        block.relative[i] = error / abs(block.expected[i]) if error > 0.0 else 0.0


@compiled
def _over_in_single(pair: Pair, rule: Rule, start: int, count: int, block: BlockScratch) -> None:
    rtol, atol = np.float32(rule.rtol), np.float32(rule.atol)
    # Unequal integers may be equal as float32; torch then asks for equality alone.
    tolerant = (rule.rtol > 0.0) | (rule.atol > 0.0)
    for i in range(count):
        a, e = block.actual_single[i], block.expected_single[i]
        error = abs(a - e)
        allowed = atol + abs(rtol * e)
        close = tolerant & (error <= allowed) & (error < np.float32(np.inf))
        close |= pair.actual[start + i] == pair.expected[start + i]
        close |= rule.equal_nan & (a != a) & (e != e)
        block.over[i] = not close


@compiled
def _over_in_double(pair: Pair, rule: Rule, start: int, count: int, block: BlockScratch) -> None:
    for i in range(count):
        a, e = pair.actual[start + i], pair.expected[start + i]
        error = abs(a - e)
        allowed = rule.atol + abs(rule.rtol * e)
        close = (error <= allowed) & (error < np.inf)
        close |= a == e
        close |= rule.equal_nan & (a != a) & (e != e)
        block.over[i] = not close


@compiled
def _over_in_half(pair: Pair, rule: Rule, start: int, count: int, block: BlockScratch) -> None:
    brain = rule.arithmetic == _BFLOAT16
    # torch keeps the factor rtol in float32, but rounds the addend atol to the element type.
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


@compiled
def _over_by_sign(pair: Pair, start: int, count: int, block: BlockScratch) -> None:
    for i in range(start, start + count):
        zeros = (pair.actual[i] == 0) & (pair.expected[i] == 0)
        if zeros & (pair.actual_bits[i] != pair.expected_bits[i]):
            block.over[i - start] = 1


@compiled
def nearest_bfloat16(size: Number) -> Number:
    """Non-negative float32 `size` rounded to bfloat16, ties to even, kept as float32; NaN stays."""
    if not size < np.float32(np.inf):
        return size
    bits = np.float32(size).view(np.uint32)
    bits += np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.uint32(bits & np.uint32(0xFFFF0000)).view(np.float32)


@compiled
def nearest_float16(size: Number) -> Number:
    """Non-negative float32 `size` rounded to float16, ties to even, kept as float32; NaN stays."""
    if not size < np.float32(65520.0):
        return size + np.float32(np.inf)
    if size < np.float32(2.0**-14):
        # Just above 0.5 float32 has the spacing of float16's subnormal numbers, 2**-24.
        return (size + np.float32(0.5)) - np.float32(0.5)
    bits = np.float32(size).view(np.uint32)
    bits += np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return np.uint32(bits & np.uint32(0xFFFFE000)).view(np.float32)
