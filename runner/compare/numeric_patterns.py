"""Detectors of wrong values at their right places: scaled, rounded, clipped, or with other signs or bytes.

A detector takes a `Scene`, and yields a `PatternMatch` if its pattern fits:

- `detect_scale`, `detect_times_zero`, `detect_offset`, `detect_sign_flip` and `detect_saturation` find results that are
  multiplied, shifted, negated, or clipped.
- `detect_scaled_lines` finds a factor for each row, column or group: the scale of a quantization that was lost or
  applied twice.
- `detect_flushed_denormals` finds zeros in place of numbers below the normal range of a type.
- `detect_narrower_type` and `detect_quantization` find right values that passed through a type with fewer digits or
  less range.
- `detect_rounding_mode` finds right values, rounded the other way at the last step.
- `detect_sign_pairs` finds pairs that a rotary embedding (RoPE; Su et al., 2021) turned the wrong way.
- `detect_swapped_bytes` finds elements with their bytes, halves or nibbles in the wrong order.

`FloatGrid` describes the numbers of a type, and `round_to_grid` rounds to them. Values are float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np

from ..tensor import DType, bits, encode
from .elements import Array
from .finding import (
    NEAR_STEPS,
    Pattern,
    PatternMatch,
    Scene,
    confidence,
    place_confidence,
    sample_places,
    share,
    shuffle,
)

SPACING = {
    DType.FLOAT64: 2.0**-52,
    DType.FLOAT32: 2.0**-23,
    DType.FLOAT16: 2.0**-10,
    DType.BFLOAT16: 2.0**-7,
}
"""The distance from 1 to the next larger number, by type."""

_LIMITS = {
    127.0: "int8",
    -128.0: "int8",
    255.0: "uint8",
    32767.0: "int16",
    -32768.0: "int16",
    65535.0: "uint16",
    2.0**31 - 1: "int32",
    -(2.0**31): "int32",
    2.0**32 - 1: "uint32",
    65504.0: "float16",
    -65504.0: "float16",
    float(np.finfo(np.float32).max): "float32",
    float(np.finfo(np.float32).min): "float32",
}


def detect_scale(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual = s * expected with one s, up to rounding."""
    actual, expected = scene.finite_wrong
    nonzero = expected != 0
    actual, expected = actual[nonzero], expected[nonzero]
    if actual.size < 2:
        return
    # Large values determine the factor best.
    large = np.abs(expected) >= np.quantile(np.abs(expected), 0.75)
    scale = float(np.median(actual[large] / expected[large]))
    if scale in (0.0, -1.0) or not np.isfinite(scale):
        return
    if scene.dtype.is_floating and abs(scale - 1.0) <= 4 * SPACING[scene.dtype]:
        return
    if not scene.dtype.is_floating and abs((scale - 1.0) * np.median(np.abs(expected))) < 1.0:
        return
    hits = int(np.count_nonzero(np.abs(actual - scale * expected) <= rounding_error(scene.dtype, actual)))
    sample = sample_places(actual.size)
    yield PatternMatch(
        pattern=Pattern.SCALED,
        confidence=confidence(
            hits=hits - 1,
            total=scene.wrong_count - 1,
            chance=_scale_chance(scene, actual[sample], expected[sample], scale),
        ),
        evidence=f"{hits} of {scene.wrong_count} wrong elements are {scale:.6g} times the expected",
    )


def detect_times_zero(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual = 0 * expected: zeros with the signs of the expected values, or with the opposite ones.

    Zeros of a single sign are no evidence, because elements that were never written have them.
    """
    actual_bits = scene.wrong_actual_bits
    if not scene.dtype.is_floating or np.unique(actual_bits[scene.wrong_actual == 0]).size < 2:
        return
    sign = actual_bits.dtype.type(1 << (8 * scene.dtype.itemsize - 1))
    zeros = max(
        (scene.wrong_expected_bits & sign, ~scene.wrong_expected_bits & sign),
        key=lambda signed: np.count_nonzero(actual_bits == signed),
    )
    hits = int(np.count_nonzero(actual_bits == zeros))
    yield PatternMatch(
        pattern=Pattern.SCALED,
        confidence=confidence(
            hits=hits, total=actual_bits.size, chance=scene.null_model.chance(zeros), cost=math.log(2)
        ),
        evidence=f"{hits} of {actual_bits.size} wrong elements are zero: 0 times the expected, with their signs",
    )


def _scale_chance(scene: Scene, actual: Array, expected: Array, scale: float) -> float:
    """Return how often `actual` is `scale` times `expected` by accident.

    There are three accidents. `actual` fits another element, or equals the expected value, or differs from it by noise.
    """

    def fits(e: Array) -> Array:
        return np.abs(actual - scale * e) <= rounding_error(scene.dtype, actual)

    near = _is_noise(scene.dtype, (scale - 1.0) * expected, expected)
    return max(
        share(fits(shuffle(expected))),
        share(fits(expected / scale)),
        scene.null_model.one_way_rate * share(near),
    )


def detect_offset(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual = expected + c with one c, up to rounding."""
    actual, expected = scene.finite_wrong
    if actual.size < 2:
        return
    difference = actual - expected
    offset = float(np.median(difference))
    size = np.maximum(np.maximum(np.abs(actual), np.abs(expected)), abs(offset))
    rounding = size * SPACING[scene.dtype] if scene.dtype.is_floating else np.zeros_like(size)
    # An offset that is lost in rounding explains nothing.
    visible = rounding * 4 < abs(offset)
    hits = int(np.count_nonzero((np.abs(difference - offset) <= rounding) & visible))
    sample = sample_places(actual.size)
    fits_others = np.abs(actual[sample] - shuffle(expected[sample]) - offset) <= rounding[sample]
    near = _is_noise(scene.dtype, np.full(sample.shape, offset), expected[sample])
    yield PatternMatch(
        pattern=Pattern.OFFSET,
        confidence=confidence(
            hits=hits - 1,
            total=scene.wrong_count - 1,
            chance=max(share(fits_others), scene.null_model.one_way_rate * share(near)),
        ),
        evidence=f"{hits} of {scene.wrong_count} wrong elements are {offset:+.6g} off",
    )


def _is_noise(dtype: DType, errors: Array, values: Array) -> Array:
    """Return which `errors` are at most a few steps of the type at `values`, as those of noise are."""
    step = SPACING[dtype] * np.abs(values) if dtype.is_floating else 1.0
    near: Array = np.abs(errors) <= NEAR_STEPS * step
    return near


def detect_sign_flip(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual = -expected, exactly. Integers are negated modulo their width."""
    actual_bits, expected_bits = scene.wrong_actual_bits, scene.wrong_expected_bits
    if scene.dtype is DType.BOOL:
        return
    if scene.dtype.is_floating:
        negated = expected_bits ^ actual_bits.dtype.type(1 << (8 * scene.dtype.itemsize - 1))
    else:
        negated = np.negative(expected_bits)
    hits = int(np.count_nonzero(actual_bits == negated))
    if hits:
        yield PatternMatch(
            pattern=Pattern.SIGN_FLIPPED,
            confidence=confidence(hits=hits, total=actual_bits.size, chance=scene.null_model.chance(negated)),
            evidence=f"{hits} of {actual_bits.size} wrong elements are the expected ones negated",
        )


def detect_saturation(scene: Scene) -> Iterator[PatternMatch]:
    """Find wrong elements that are the largest or smallest value of actual, and were expected to be beyond it."""
    actual, expected = scene.finite_wrong
    finite = scene.actual[np.isfinite(scene.actual)]
    if actual.size == 0 or scene.dtype is DType.BOOL:
        return
    high, low = float(finite.max()), float(finite.min())
    above = expected[(actual == high) & (expected > high)]
    below = expected[(actual == low) & (expected < low)]
    over = above.size if scene.is_limit(high, above) else 0
    under = below.size if scene.is_limit(low, below) else 0
    # The limits were picked from the data, so the first element of each proves nothing.
    picked = (over > 0) + (under > 0)
    if over + under <= picked:
        return
    at = [f"{side} at {limit:g}" for side, limit, n in (("above", high, over), ("below", low, under)) if n]
    names = {_LIMITS[limit] for limit, n in ((high, over), (low, under)) if n and limit in _LIMITS}
    known = f" (the limits of {', '.join(sorted(names))})" if names else ""
    yield PatternMatch(
        pattern=Pattern.SATURATED,
        confidence=confidence(hits=over + under - picked, total=scene.wrong_count - picked, chance=0.0),
        evidence=f"{over + under} of {scene.wrong_count} wrong elements are clipped {' and '.join(at)}{known}",
    )


def rounding_error(dtype: DType, values: Array) -> Array:
    """Return the rounding error of a product: two units in the last place, or less than one for an integer."""
    if not dtype.is_floating:
        return np.full(values.shape, 0.999)
    return 2 * SPACING[dtype] * np.abs(values)


_SMALLEST_NORMAL = {"float16": 2.0**-14, "float32 and bfloat16": 2.0**-126, "float64": 2.0**-1022}
_FLOATS = (DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


def detect_flushed_denormals(scene: Scene) -> Iterator[PatternMatch]:
    """Find zeros in place of denormal numbers of the tensor's type, or of a narrower one."""
    if scene.dtype not in _FLOATS:
        return
    size = np.abs(scene.expected)
    for name, normal in _SMALLEST_NORMAL.items():
        denormal = (size < normal) & (size > 0)
        flushed = denormal & scene.wrong & (scene.actual == 0)
        hits, expected = int(np.count_nonzero(flushed)), int(np.count_nonzero(denormal))
        if hits == 0 or hits < 0.9 * expected:
            continue
        yield PatternMatch(
            pattern=Pattern.FLUSHED_DENORMALS,
            confidence=confidence(
                hits=hits,
                total=scene.wrong_count,
                chance=expected / int(np.count_nonzero(size > 0)),
                cost=math.log(len(_SMALLEST_NORMAL)),
            ),
            evidence=f"{hits} of {scene.wrong_count} wrong elements are 0, and {hits} of {expected} where expected "
            f"is a denormal number of {name} (below {normal:.3g})",
        )
        return


class RoundingMode(Enum):
    """How a value between two numbers of a type is rounded."""

    NEAREST_EVEN = "nearest, ties to even"
    NEAREST_AWAY = "nearest, ties away from zero"
    TRUNCATE = "truncation"


@dataclass(frozen=True, kw_only=True)
class FloatGrid:
    """A binary floating-point type.

    digits: the bits of the significand.
    step_exponent: the exponent of the smallest step.
    largest: the largest number.
    """

    name: str
    digits: int
    step_exponent: int
    largest: float


FLOAT_GRIDS = (
    FloatGrid(name="bfloat16", digits=8, step_exponent=-133, largest=float.fromhex("0x1.fep127")),
    FloatGrid(name="float16", digits=11, step_exponent=-24, largest=65504.0),
    FloatGrid(name="float32", digits=24, step_exponent=-149, largest=float(np.finfo(np.float32).max)),
    FloatGrid(name="float64", digits=53, step_exponent=-1074, largest=float(np.finfo(np.float64).max)),
)
"""The types of tensors, by their number of digits, few digits first."""

NARROW_GRIDS = (
    FloatGrid(name="float8_e5m2", digits=3, step_exponent=-16, largest=57344.0),
    FloatGrid(name="float8_e4m3", digits=4, step_exponent=-9, largest=448.0),
    FloatGrid(name="float8_e5m2, scaled", digits=3, step_exponent=-1074, largest=np.inf),
    FloatGrid(name="float8_e4m3, scaled", digits=4, step_exponent=-1074, largest=np.inf),
    FloatGrid(name="tf32", digits=11, step_exponent=-136, largest=float.fromhex("0x1.ffcp127")),
)
"""Types that values may pass through, though no tensor is stored in them.

They are OCP's 8-bit floats (OFP8, 2023), also with a scale that is a power of two, and NVIDIA's TensorFloat-32 (2020).
Beyond the largest OFP8 number hardware saturates, or gives Inf or NaN."""


def grid_step(grid: FloatGrid, size: Array | float) -> Array:
    """Return the step between neighbouring numbers of `grid` at non-negative `size`."""
    exponent = np.frexp(size)[1] - grid.digits
    return np.ldexp(
        1.0, np.maximum(np.where(np.equal(size, 0), grid.step_exponent, exponent), grid.step_exponent)
    )


def round_to_grid(grid: FloatGrid, values: Array, mode: RoundingMode) -> Array:
    """Round `values` to `grid`. NaN and Inf stay.

    A value beyond the largest number becomes Inf, or that number by truncation.
    """
    size = np.abs(values)
    finite = np.isfinite(size)
    finite_size = np.where(finite, size, 0.0)
    unit = grid_step(grid, finite_size)
    steps = finite_size / unit
    if mode is RoundingMode.NEAREST_EVEN:
        steps = np.rint(steps)
    elif mode is RoundingMode.NEAREST_AWAY:
        steps = np.floor(steps) + (steps - np.floor(steps) >= 0.5)
    else:
        steps = np.floor(steps)
    with np.errstate(over="ignore"):
        rounded = steps * unit
    beyond = grid.largest if mode is RoundingMode.TRUNCATE else np.inf
    rounded = np.where(rounded > grid.largest, beyond, rounded)
    return np.copysign(np.where(finite, rounded, size), values)


def is_on_grid(grid: FloatGrid, values: Array) -> Array:
    """Return which values are numbers of `grid`."""
    unchanged: Array = round_to_grid(grid, values, RoundingMode.TRUNCATE) == values
    return unchanged


_GROUPS = (128, 64, 32)
"""Groups of this many neighbouring columns may share a factor. Quantized types have such blocks."""
_SAMPLED_LINES = 256
"""At most this many wrong lines are read, spread over the tensor. A few are enough to find factors."""
_SAMPLED_LENGTH = 512
"""At most this many elements of a line are read. They are enough to fit and to test one factor."""
_MIN_LINE_ELEMENTS = 3
"""A line needs this many wrong elements, because the first one determines its factor."""
_MIN_GROUP_GAIN = 0.01
"""Groups must exceed whole rows and columns by this confidence, because they have more factors to fit."""
_MAX_FACTOR_NOISE = 8
"""Noise may move a factor by this many units in the last place of 1."""


def detect_scaled_lines(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual = s * expected with one s for each row, column, or group of neighbours in a row, up to rounding."""
    best: PatternMatch | None = None
    for noun, actual, expected, wrong in _lines(scene):
        match = _match_lines(scene, noun, actual, expected, wrong)
        if match is not None and (best is None or match.confidence > best.confidence + _MIN_GROUP_GAIN):
            best = match
    if best is not None:
        yield best


def _lines(scene: Scene) -> Iterator[tuple[str, Array, Array, Array]]:
    """Yield the name of each kind of line, and samples of its lines as rows: actual, expected, and wrong."""
    sides = (scene.actual, scene.expected, scene.wrong)
    if scene.rows > 1:
        yield "row", *_sample_lines(sides)
    if scene.columns > 1 and scene.rows > 1:
        yield "column", *_sample_lines(tuple(side.T for side in sides))
    for size in _GROUPS:
        if scene.columns % size == 0 and scene.columns > size:
            yield (
                f"group of {size} columns of a row",
                *_sample_lines(tuple(side.reshape(-1, size) for side in sides)),
            )


def _sample_lines(sides: tuple[Array, ...]) -> tuple[Array, Array, Array]:
    """Return at most `_SAMPLED_LINES` lines with wrong elements, cut to `_SAMPLED_LENGTH`."""
    actual, expected, wrong = (side[:, :_SAMPLED_LENGTH] for side in sides)
    lines = np.flatnonzero(wrong.any(axis=1))
    if lines.size:
        lines = lines[np.linspace(0, lines.size - 1, min(lines.size, _SAMPLED_LINES)).astype(int)]
    return actual[lines].astype(np.float64), expected[lines].astype(np.float64), wrong[lines]


def _match_lines(
    scene: Scene, noun: str, actual: Array, expected: Array, wrong: Array
) -> PatternMatch | None:
    """Return the pattern of lines whose wrong elements are a factor times the expected ones; None for too few lines."""
    usable = wrong & np.isfinite(actual) & np.isfinite(expected) & (expected != 0)
    # If all expected values of a line are equal, some factor always fits.
    varied = np.where(usable, expected, -np.inf).max(axis=1) > np.where(usable, expected, np.inf).min(axis=1)
    tested = varied & (usable.sum(axis=1) >= _MIN_LINE_ELEMENTS)
    actual, expected, usable = actual[tested], expected[tested], usable[tested]
    if actual.shape[0] < 2:
        return None
    a, e = np.where(usable, actual, 0.0), np.where(usable, expected, 0.0)
    factors = (a * e).sum(axis=1) / (e * e).sum(axis=1)
    noise = (
        _MAX_FACTOR_NOISE * SPACING[scene.dtype] if scene.dtype.is_floating else 1.0 / np.abs(e).max(axis=1)
    )
    scaled = np.abs(factors - 1.0) > noise

    def fits(values: Array) -> Array:
        near: Array = np.abs(a - factors[:, None] * values) <= rounding_error(scene.dtype, a)
        return near & usable & scaled[:, None]

    # One element of each line determines its factor, and proves nothing.
    fitted = int(np.count_nonzero(scaled))
    total = int(np.count_nonzero(wrong))
    hits = int(np.count_nonzero(fits(e))) - fitted
    permuted = np.zeros(e.shape)
    permuted[usable] = shuffle(e[usable])
    chance = share(fits(permuted)[usable])
    low, high = float(factors.min()), float(factors.max())
    return PatternMatch(
        pattern=Pattern.SCALED_LINES,
        confidence=confidence(
            hits=hits, total=total - fitted, chance=chance, cost=math.log(2 + len(_GROUPS))
        ),
        evidence=f"{hits + fitted} of {total} wrong elements are the expected ones times a factor of their {noun}, "
        f"from {low:.6g} to {high:.6g}",
    )


_LEVELS_NEAR_ZERO = 4
"""The step is first measured between this many levels on each side of zero. The type rounds these least."""
_SAMPLED_ROWS = 256
"""At most this many wrong rows are tested for their own scale, spread over the tensor."""
_INTEGER_TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32)
_LEVELS_OF_INT8 = 256
"""An int8 has this many values. Values with more levels did not pass through one."""
_DIGITS = {DType.FLOAT64: 53, DType.FLOAT32: 24, DType.FLOAT16: 11, DType.BFLOAT16: 11}
"""A type is compared with narrower ones of at most this many digits.

bfloat16 has 8 digits. It has 11 here, because float16 has less range: each of the two is narrower than the other."""
_MAX_NARROWINGS = 40
"""At most this many conversions are tried for one type. The confidence is reduced for the choice."""

Narrowing = Callable[[Array], Array]
"""Converts values to a narrower type and back."""


def detect_narrower_type(scene: Scene) -> Iterator[PatternMatch]:
    """Find expected values that were converted to a type with fewer digits or less range, and back."""
    if scene.dtype is DType.BOOL:
        return
    sample = sample_places(scene.wrong_count)
    actual, expected = scene.wrong_actual[sample], scene.wrong_expected[sample]
    hits = {
        name: _count_agreeing(actual, narrow(expected)) for name, narrow in _narrowings(scene.dtype).items()
    }
    most = max(hits.values(), default=0)
    if most == 0:
        return
    names = [name for name, count in hits.items() if count == most]
    narrow = _narrowings(scene.dtype)[names[0]]
    all_hits = _count_agreeing(scene.wrong_actual, narrow(scene.wrong_expected))
    yield PatternMatch(
        pattern=Pattern.NARROWER_TYPE,
        confidence=confidence(
            hits=all_hits,
            total=scene.wrong_count,
            chance=_narrowing_chance(scene, narrow, sample),
            cost=math.log(_MAX_NARROWINGS),
        ),
        evidence=f"{all_hits} of {scene.wrong_count} wrong elements are the expected ones through "
        f"{_describe_conversions(names)}",
    )


def _narrowing_chance(scene: Scene, narrow: Narrowing, sample: Array) -> float:
    """Return how often the wrong elements at the places `sample` are the narrowed ones by accident."""
    narrowed = narrow(scene.wrong_expected[sample])
    if not np.isfinite(narrowed).any():
        # All wrong elements overflow the narrower type. This shows a conversion only if it rounded the others too.
        whole_sample = sample_places(scene.expected.size)
        expected, actual = scene.expected.ravel()[whole_sample], scene.actual.ravel()[whole_sample]
        narrowed = narrow(expected)
        rounded = np.isfinite(narrowed) & (narrowed != expected)
        if share(actual[rounded] == expected[rounded]) > 0.5:
            return 1.0
        return share(~np.isfinite(narrowed))
    predicted = np.array(scene.wrong_expected_bits)
    predicted[sample] = bits(scene.dtype, encode(scene.dtype, narrowed))
    return scene.null_model.chance(predicted)


def _count_agreeing(actual: Array, narrowed: Array) -> int:
    return int(np.count_nonzero((actual == narrowed) | (np.isnan(actual) & np.isnan(narrowed))))


def _describe_conversions(names: Sequence[str]) -> str:
    """Return the simplest of the conversions that fit equally well, and one through another type, if any."""
    others = [name for name in names if name.split()[0] != names[0].split()[0]]
    return f"{names[0]} (or {others[0]}, which gives the same values)" if others else names[0]


def _narrowings(dtype: DType) -> dict[str, Narrowing]:
    """Return the conversions to a narrower type and back, by name, the simplest first."""
    conversions: dict[str, Narrowing] = {}
    for grid in (*FLOAT_GRIDS, *NARROW_GRIDS):
        if grid.name == dtype.value or grid.digits > _DIGITS.get(dtype, grid.digits):
            continue
        modes = RoundingMode if grid in FLOAT_GRIDS else (RoundingMode.NEAREST_EVEN, RoundingMode.TRUNCATE)
        for mode in modes:
            suffix = "" if mode is RoundingMode.NEAREST_EVEN else f" by {mode.value}"
            conversions[f"{grid.name}{suffix}"] = partial(_round_trip_float, dtype, grid, mode)
    for narrow in _INTEGER_TYPES:
        if dtype.is_floating or narrow.itemsize < dtype.itemsize:
            conversions[narrow.value] = partial(_clip, dtype, narrow)
        if not dtype.is_floating and narrow.itemsize < dtype.itemsize:
            conversions[f"{narrow.value}, wrapping around"] = partial(_wrap, dtype, narrow)
    return conversions


def _round_trip_float(dtype: DType, grid: FloatGrid, mode: RoundingMode, values: Array) -> Array:
    narrowed = round_to_grid(grid, values.astype(np.float64), mode)
    return narrowed if dtype.is_floating else np.rint(narrowed)


def _clip(dtype: DType, narrow: DType, values: Array) -> Array:
    info = np.iinfo(narrow.storage)
    if dtype.is_floating:
        return np.clip(np.rint(values), info.min, info.max)
    own = np.iinfo(dtype.storage)
    return np.clip(values, max(info.min, own.min), min(info.max, own.max))


def _wrap(dtype: DType, narrow: DType, values: Array) -> Array:
    return values.astype(narrow.storage).astype(dtype.storage).astype(values.dtype)


def detect_quantization(scene: Scene) -> Iterator[PatternMatch]:
    """Find few evenly spaced values in place of many: the values passed through a scaled int8.

    The scale is that of the whole tensor, or each row has its own.
    """
    if scene.dtype is DType.BOOL or scene.dtype.itemsize == 1:
        return
    hits = _count_evenly_spaced(scene.dtype, scene.wrong_actual, scene.wrong_expected)
    total, scales = scene.wrong_count, "one scale"
    if hits < total // 2:
        rows = np.flatnonzero(scene.wrong.any(axis=1))
        rows = rows[np.linspace(0, rows.size - 1, min(rows.size, _SAMPLED_ROWS)).astype(int)]
        wrong = [scene.wrong[row] for row in rows]
        hits = sum(
            _count_evenly_spaced(scene.dtype, scene.actual[row][at], scene.expected[row][at])
            for row, at in zip(rows, wrong, strict=True)
        )
        total, scales = sum(int(np.count_nonzero(at)) for at in wrong), "a scale for each row"
    if hits:
        yield PatternMatch(
            pattern=Pattern.NARROWER_TYPE,
            confidence=confidence(hits=hits, total=total, chance=0.0),
            evidence=f"{hits} of {total} wrong elements lie on at most 256 evenly spaced values and within half "
            f"a step of the expected: through int8 with {scales}",
        )


def _count_evenly_spaced(dtype: DType, actual: Array, expected: Array) -> int:
    """Return how many elements fit a quantization to at most 256 multiples of one step; 0 for uneven levels."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(e)
    a, e = a[finite], e[finite]
    if np.unique(a[sample_places(a.size)]).size > _LEVELS_OF_INT8:
        return 0
    levels = np.unique(a)
    if not 4 <= levels.size <= _LEVELS_OF_INT8 or np.unique(e).size < 2 * levels.size:
        return 0
    # The type rounds levels near zero least, so the step is measured there first.
    low = max(int(np.searchsorted(levels, 0.0)) - _LEVELS_NEAR_ZERO, 0)
    step = float(np.diff(levels[low : low + 2 * _LEVELS_NEAR_ZERO]).min())
    step = _fit_step(levels[np.abs(levels) <= 16.5 * step], step)
    step = _fit_step(levels, step)
    number = np.rint(levels / step)
    if not number[-1] - number[0] < _LEVELS_OF_INT8:
        return 0
    if (np.abs(levels - number * step) > _type_step(dtype, np.abs(levels)) + 0.02 * step).any():
        return 0
    return int(np.count_nonzero(np.abs(a - e) <= 0.52 * step + _type_step(dtype, np.abs(a))))


def _fit_step(levels: Array, step: float) -> float:
    """Return the step near `step` of which `levels` are most nearly multiples (least squares)."""
    number = np.rint(levels / step)
    squares = float(np.sum(number * number))
    return float(np.sum(number * levels)) / squares if squares else step


def _type_step(dtype: DType, size: Array) -> Array:
    """Return the step of the type at `size`, which is 1 for integers."""
    for grid in FLOAT_GRIDS:
        if grid.name == dtype.value:
            return grid_step(grid, size)
    return np.ones(size.shape)


_MIN_WRONG = 8
"""A rounding mode needs this many wrong elements. Fewer may all err in one direction by chance."""


def detect_rounding_mode(scene: Scene) -> Iterator[PatternMatch]:
    """Find wrong elements that are one step off, in the direction of another rounding mode.

    Steps are those of the narrowest type that has all the values. If expected is rounded with ties to even, and
    actual with ties away from zero, then the ties that differ are even in expected.
    """
    steps = _steps(scene)
    if steps is None or steps[0].size < _MIN_WRONG:
        return
    away, up, even = steps
    if not scene.dtype.is_floating and scene.wrong.all() and np.ptp(up) == 0:
        return  # it is an offset: rounding does not change whole numbers
    single = np.abs(away) == 1
    one_way = scene.null_model.one_way_rate
    modes = (
        ("ties away from zero instead of to even", single & (away == 1) & even, one_way * share(even)),
        ("truncation towards zero", single & (away == -1), one_way),
        ("rounding down", single & (up == -1), one_way),
        ("rounding up", single & (up == 1), one_way),
        ("rounding away from zero", single & (away == 1), one_way),
    )
    name, fits, chance = max(modes, key=lambda mode: (int(np.count_nonzero(mode[1])), -mode[2]))
    hits = int(np.count_nonzero(fits))
    yield PatternMatch(
        pattern=Pattern.ROUNDING_MODE,
        confidence=confidence(
            hits=hits,
            total=scene.wrong_count,
            chance=chance,
            cost=math.log(len(modes)),
        ),
        evidence=f"{hits} of {scene.wrong_count} wrong elements are one step off, as by {name}",
    )


def _steps(scene: Scene) -> tuple[Array, Array, Array] | None:
    """Return for each wrong element its steps away from zero, its steps up, and whether expected is even."""
    if scene.dtype is DType.BOOL:
        return None
    if not scene.dtype.is_floating:
        # The difference may wrap modulo 2**64. This is harmless, because only differences of 1 matter.
        up = (scene.wrong_actual - scene.wrong_expected).astype(np.int64)
        sign = np.where(scene.wrong_expected.astype(np.float64) < 0, -1, 1)
        sign = np.where(scene.wrong_expected == 0, np.sign(up), sign)
        return up * sign, up, scene.wrong_expected % 2 == 0
    actual, expected = scene.finite_wrong
    grid = next(
        grid for grid in FLOAT_GRIDS if is_on_grid(grid, actual).all() and is_on_grid(grid, expected).all()
    )
    unit = grid_step(grid, np.minimum(np.abs(actual), np.abs(expected)))
    up = np.clip(np.rint((actual - expected) / unit), -4, 4)
    sign = np.where(expected == 0, np.sign(actual), np.sign(expected))
    even = np.rint(expected / grid_step(grid, np.abs(expected))) % 2 == 0
    return up * sign, up, even


_HEADS = (16, 32, 64, 128, 256)
"""The sizes of attention heads that are tried. Rotary embeddings pair elements half a head apart."""
_MIN_HEAD_GAIN = 0.01
"""A larger head must exceed a smaller one by this confidence, because multiples of the true head fit as well."""
_MIN_ROTATION = 32
"""A pair must have moved by this many steps of its type. Smaller moves are rounding."""


def detect_sign_pairs(scene: Scene) -> Iterator[PatternMatch]:
    """Find pairs of elements with one of them negated, or pairs that are rotated by another angle than expected."""
    if not scene.dtype.is_floating or scene.columns < 2:
        return
    best: PatternMatch | None = None
    pairings = list(_pairings(scene.columns))
    for description, second in pairings:
        for match in (
            *_find_negated(scene, description, second, len(pairings)),
            *_find_rotated(scene, description, second, len(pairings)),
        ):
            if best is None or match.confidence > best.confidence + _MIN_HEAD_GAIN:
                best = match
    if best is not None:
        yield best


def _pairings(columns: int) -> Iterator[tuple[str, Array]]:
    """Yield descriptions of pairs, and a mask of the columns that have the second elements.

    The n-th column outside of the mask is paired with the n-th inside of it.
    """
    number = np.arange(columns)
    if columns % 2 == 0:
        yield "neighbouring columns", number % 2 == 1
    for head in dict.fromkeys((*_HEADS, columns)):
        if head >= 4 and head % 2 == 0 and columns % head == 0:
            yield f"columns {head // 2} apart in heads of {head}", number % head >= head // 2


def _find_negated(scene: Scene, description: str, second: Array, pairings: int) -> Iterator[PatternMatch]:
    sign_bit = scene.wrong_expected_bits.dtype.type(1 << (8 * scene.dtype.itemsize - 1))
    negated = np.zeros(scene.wrong.shape, bool)
    negated[scene.wrong] = scene.wrong_actual_bits == scene.wrong_expected_bits ^ sign_bit
    for name, half in (("second", second), ("first", ~second)):
        area = np.broadcast_to(half, scene.wrong.shape)
        hits = int(np.count_nonzero(negated & area))
        if hits < 0.5 * scene.wrong_count:
            continue
        count = int(np.count_nonzero(area))
        place = place_confidence(
            wrong=(hits, scene.wrong_count),
            sizes=(count, area.size),
            null_nats=scene.place_nats,
            cost=math.log(4 * pairings),
        )
        value = confidence(
            hits=hits,
            total=scene.wrong_count,
            chance=scene.null_model.chance(scene.wrong_expected_bits ^ sign_bit),
            cost=math.log(4 * pairings),
        )
        yield PatternMatch(
            pattern=Pattern.SIGN_PAIRS,
            confidence=min(place, value),
            evidence=f"{hits} of {scene.wrong_count} wrong elements are the {name} of a pair ({description}), negated",
        )


def _find_rotated(scene: Scene, description: str, second: Array, pairings: int) -> Iterator[PatternMatch]:
    """Find pairs that are as long as expected, but rotated by another angle, as by a rotary embedding."""
    wrong = scene.wrong[:, second] | scene.wrong[:, ~second]
    pairs = np.flatnonzero(wrong)
    pairs = pairs[sample_places(pairs.size)]
    actual, expected = (
        np.stack([side[:, half].ravel()[pairs] for half in (~second, second)]).astype(np.float64)
        for side in (scene.actual, scene.expected)
    )
    error = actual - expected
    step = SPACING[scene.dtype]
    length = np.hypot(*expected)
    # A pair whose elements keep or exchange their sizes is negated or moved, not rotated.
    resized = (np.sort(np.abs(actual), axis=0) != np.sort(np.abs(expected), axis=0)).any(axis=0)
    large = np.hypot(*error) > _MIN_ROTATION * step * length
    moved = resized & large & np.isfinite(length) & np.isfinite(error).all(axis=0)
    if np.count_nonzero(moved) < 0.5 * pairs.size:
        return

    def fits(first: Array, other: Array) -> Array:
        near: Array = np.abs(np.hypot(first, other) - length) <= 2 * step * length
        return near & moved

    hits = int(np.count_nonzero(fits(*actual)))
    # How often is a length kept by accident, with the errors or the values of other pairs?
    chances = (
        fits(*(expected + np.stack([shuffle(error[0]), shuffle(error[1])]))),
        fits(*shuffle(actual.T).T),
    )
    yield PatternMatch(
        pattern=Pattern.SIGN_PAIRS,
        confidence=confidence(
            hits=hits,
            total=pairs.size,
            chance=max(share(each) for each in chances),
            cost=math.log(4 * pairings),
        ),
        evidence=f"{hits} of {pairs.size} wrong pairs ({description}) are as long as expected and turned another way, "
        "as by a sine of the wrong sign",
    )


def detect_swapped_bytes(scene: Scene) -> Iterator[PatternMatch]:
    """Find expected elements with their bytes, halves or nibbles in another order."""
    if scene.dtype is DType.BOOL:
        return
    counted = [
        (int(np.count_nonzero(scene.wrong_actual_bits == reordered)), description, reordered)
        for description, reordered in _byte_orders(scene.wrong_expected_bits)
    ]
    hits, description, reordered = max(counted, key=lambda order: order[0])
    if hits:
        yield PatternMatch(
            pattern=Pattern.SWAPPED_BYTES,
            confidence=confidence(
                hits=hits,
                total=reordered.size,
                chance=scene.null_model.chance(reordered),
                cost=math.log(len(counted)),
            ),
            evidence=f"{hits} of {reordered.size} wrong elements are the expected ones with {description}",
        )


def _byte_orders(patterns: Array) -> Iterator[tuple[str, Array]]:
    size = patterns.dtype.itemsize
    kind = patterns.dtype.type
    low = kind(int("0f" * size, 16))
    yield "the nibbles of each byte exchanged", ((patterns & low) << kind(4)) | ((patterns >> kind(4)) & low)
    if size > 1:
        yield "their bytes in reverse order", patterns.byteswap()
    if size > 2:
        half = kind(4 * size)
        yield "their halves exchanged", (patterns << half) | (patterns >> half)
