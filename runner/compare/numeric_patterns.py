"""Detectors of wrong values that keep their places: scaled, rounded, clipped, or with other signs or bytes.

Each detector takes a `Scene` and yields a `PatternMatch` if its pattern fits:

- `detect_scale`, `detect_times_zero`, `detect_offset`, `detect_sign_flip` and `detect_saturation` find the result times
  or plus something, negated, or clipped.
- `detect_scaled_lines` finds a factor for each row, column or group: a quantization's scale that was lost or taken
  twice.
- `detect_flushed_denormals` finds zeros in place of numbers too small for the normal form of a type.
- `detect_narrower_type` and `detect_quantization` find the right value after a type with fewer digits or less range.
- `detect_rounding_mode` finds the right value, rounded the other way at the last step.
- `detect_sign_pairs` finds pairs with a wrong sign, as from a rotary embedding that turns the wrong way. Such an
  embedding (RoPE; Su et al., 2021) turns pairs of neighbours, or of elements half a head apart, by an angle.
- `detect_swapped_bytes` finds the bytes, halves or nibbles of an element in the wrong order.

`FloatGrid` describes the numbers that a type can hold, and `round_to_grid` rounds to them. Values are float64
throughout.
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
    fixed_permutation,
    place_confidence,
    sample_places,
    share,
)

SPACING = {
    DType.FLOAT64: 2.0**-52,
    DType.FLOAT32: 2.0**-23,
    DType.FLOAT16: 2.0**-10,
    DType.BFLOAT16: 2.0**-7,
}
"""Each type has this distance from 1 to the next larger number."""

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
    # Large values determine the ratio best.
    large = np.abs(expected) >= np.quantile(np.abs(expected), 0.75)
    scale = float(np.median(actual[large] / expected[large]))
    if scale in (0.0, -1.0) or not np.isfinite(scale):
        return
    if scene.dtype.is_floating and abs(scale - 1.0) <= 4 * SPACING[scene.dtype]:
        return
    if not scene.dtype.is_floating and abs((scale - 1.0) * np.median(np.abs(expected))) < 1.0:
        return
    hits = int(np.count_nonzero(np.abs(actual - scale * expected) <= slack(scene.dtype, actual)))
    at = sample_places(actual.size)
    yield PatternMatch(
        pattern=Pattern.SCALED,
        confidence=confidence(
            hits=hits - 1,
            total=scene.wrong_count - 1,
            chance=_scale_chance(scene, actual[at], expected[at], scale),
        ),
        evidence=f"{hits} of {scene.wrong_count} wrong elements are {scale:.6g} times the expected",
    )


def detect_times_zero(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual = 0 * expected: zeros with the signs of the expected values, or with the opposite ones.

    Zeros of one sign only are elements that were never written.
    """
    found = scene.wrong_actual_bits
    if not scene.dtype.is_floating or np.unique(found[scene.wrong_actual == 0]).size < 2:
        return
    sign = found.dtype.type(1 << (8 * scene.dtype.itemsize - 1))
    zeros = max(
        (scene.wrong_expected_bits & sign, ~scene.wrong_expected_bits & sign),
        key=lambda signed: np.count_nonzero(found == signed),
    )
    hits = int(np.count_nonzero(found == zeros))
    yield PatternMatch(
        pattern=Pattern.SCALED,
        confidence=confidence(
            hits=hits, total=found.size, chance=scene.null_model.chance(zeros), cost=math.log(2)
        ),
        evidence=f"{hits} of {found.size} wrong elements are zero: 0 times the expected, with their signs",
    )


def _scale_chance(scene: Scene, actual: Array, expected: Array, scale: float) -> float:
    """Return how often `actual` agrees with `scale` times expected by accident.

    Three accidents are considered. `actual` may fit another expected value, be the expected value itself, or be near it
    anyway.
    """

    def fits(e: Array) -> Array:
        return np.abs(actual - scale * e) <= slack(scene.dtype, actual)

    near = _is_noise(scene.dtype, (scale - 1.0) * expected, expected)
    return max(
        share(fits(fixed_permutation(expected))),
        share(fits(expected / scale)),
        scene.null_model.one_way_rate * share(near),
    )


def detect_offset(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual = expected + c with one c, up to rounding."""
    actual, expected = scene.finite_wrong
    if actual.size < 2:
        return
    difference = actual - expected
    shift = float(np.median(difference))
    size = np.maximum(np.maximum(np.abs(actual), np.abs(expected)), abs(shift))
    room = size * SPACING[scene.dtype] if scene.dtype.is_floating else np.zeros_like(size)
    # Where the offset is lost in rounding it explains nothing.
    told = room * 4 < abs(shift)
    hits = int(np.count_nonzero((np.abs(difference - shift) <= room) & told))
    at = sample_places(actual.size)
    elsewhere = np.abs(actual[at] - fixed_permutation(expected[at]) - shift) <= room[at]
    near = _is_noise(scene.dtype, np.full(at.shape, shift), expected[at])
    yield PatternMatch(
        pattern=Pattern.OFFSET,
        confidence=confidence(
            hits=hits - 1,
            total=scene.wrong_count - 1,
            chance=max(share(elsewhere), scene.null_model.one_way_rate * share(near)),
        ),
        evidence=f"{hits} of {scene.wrong_count} wrong elements are {shift:+.6g} off",
    )


def _is_noise(dtype: DType, errors: Array, values: Array) -> Array:
    """Return whether noise of a few steps of the type may make such errors."""
    step = SPACING[dtype] * np.abs(values) if dtype.is_floating else 1.0
    near: Array = np.abs(errors) <= NEAR_STEPS * step
    return near


def detect_sign_flip(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual = -expected, exactly. Integers are negated modulo their width."""
    found, wanted = scene.wrong_actual_bits, scene.wrong_expected_bits
    if scene.dtype is DType.BOOL:
        return
    if scene.dtype.is_floating:
        negated = wanted ^ found.dtype.type(1 << (8 * scene.dtype.itemsize - 1))
    else:
        negated = np.negative(wanted)
    hits = int(np.count_nonzero(found == negated))
    if hits:
        yield PatternMatch(
            pattern=Pattern.SIGN_FLIPPED,
            confidence=confidence(hits=hits, total=found.size, chance=scene.null_model.chance(negated)),
            evidence=f"{hits} of {found.size} wrong elements are the expected ones negated",
        )


def detect_saturation(scene: Scene) -> Iterator[PatternMatch]:
    """Find wrong elements at the largest or smallest value in actual, where more or less was expected."""
    actual, expected = scene.finite_wrong
    everywhere = scene.actual[np.isfinite(scene.actual)]
    if actual.size == 0 or scene.dtype is DType.BOOL:
        return
    high, low = float(everywhere.max()), float(everywhere.min())
    above, below = (
        expected[(actual == high) & (expected > high)],
        expected[(actual == low) & (expected < low)],
    )
    over = above.size if scene.is_limit(high, above) else 0
    under = below.size if scene.is_limit(low, below) else 0
    # The limits were picked from the data, so their first occurrences prove nothing.
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


def slack(dtype: DType, values: Array) -> Array:
    """Return what rounding of a product may add: two units in the last place, or less than one for an integer."""
    if not dtype.is_floating:
        return np.full(values.shape, 0.999)
    return 2 * SPACING[dtype] * np.abs(values)


_SMALLEST_NORMAL = {"float16": 2.0**-14, "float32 and bfloat16": 2.0**-126, "float64": 2.0**-1022}
_FLOATS = (DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


def detect_flushed_denormals(scene: Scene) -> Iterator[PatternMatch]:
    """Find zeros where a denormal number was expected, of the tensor's type or of a narrower one.

    The evidence is that the other elements, none of them denormal, are right.
    """
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


class Mode(Enum):
    """How a value between two numbers of a type is rounded."""

    NEAREST_EVEN = "nearest, ties to even"
    NEAREST_AWAY = "nearest, ties away from zero"
    TRUNCATE = "truncation"


@dataclass(frozen=True, kw_only=True)
class FloatGrid:
    """A binary floating-point type: bits of the significand, exponent of the smallest step, largest number."""

    name: str
    digits: int
    lowest: int
    largest: float


FLOAT_GRIDS = (
    FloatGrid(name="bfloat16", digits=8, lowest=-133, largest=float.fromhex("0x1.fep127")),
    FloatGrid(name="float16", digits=11, lowest=-24, largest=65504.0),
    FloatGrid(name="float32", digits=24, lowest=-149, largest=float(np.finfo(np.float32).max)),
    FloatGrid(name="float64", digits=53, lowest=-1074, largest=float(np.finfo(np.float64).max)),
)
"""Tensors have these types, ordered by their number of digits, few digits first."""

NARROW_GRIDS = (
    FloatGrid(name="float8_e5m2", digits=3, lowest=-16, largest=57344.0),
    FloatGrid(name="float8_e4m3", digits=4, lowest=-9, largest=448.0),
    FloatGrid(name="float8_e5m2, scaled", digits=3, lowest=-1074, largest=np.inf),
    FloatGrid(name="float8_e4m3, scaled", digits=4, lowest=-1074, largest=np.inf),
    FloatGrid(name="tf32", digits=11, lowest=-136, largest=float.fromhex("0x1.ffcp127")),
)
"""Values may pass through these types, though no tensor is stored in them.

They are OCP's 8-bit floats (OFP8, 2023), also at a scale that is a power of two, and NVIDIA's TensorFloat-32 (2020).
Beyond the largest OFP8 number hardware either saturates, or gives Inf or NaN."""


def grid_step(grid: FloatGrid, size: Array | float) -> Array:
    """Return the step between neighbouring numbers of `grid` at non-negative `size`."""
    exponent = np.frexp(size)[1] - grid.digits
    return np.ldexp(1.0, np.maximum(np.where(np.equal(size, 0), grid.lowest, exponent), grid.lowest))


def round_to_grid(grid: FloatGrid, values: Array, mode: Mode) -> Array:
    """Round `values` to `grid`, beyond its largest number to Inf (truncated: to that number). NaN and Inf stay."""
    size = np.abs(values)
    finite = np.isfinite(size)
    tame = np.where(finite, size, 0.0)
    unit = grid_step(grid, tame)
    steps = tame / unit
    if mode is Mode.NEAREST_EVEN:
        steps = np.rint(steps)
    elif mode is Mode.NEAREST_AWAY:
        steps = np.floor(steps) + (steps - np.floor(steps) >= 0.5)
    else:
        steps = np.floor(steps)
    with np.errstate(over="ignore"):
        rounded = steps * unit
    beyond = grid.largest if mode is Mode.TRUNCATE else np.inf
    rounded = np.where(rounded > grid.largest, beyond, rounded)
    return np.copysign(np.where(finite, rounded, size), values)


def is_on_grid(grid: FloatGrid, values: Array) -> Array:
    """Return whether each value is a number of `grid`."""
    held: Array = round_to_grid(grid, values, Mode.TRUNCATE) == values
    return held


_GROUPS = (128, 64, 32)
"""Groups of this many neighbouring columns may share a factor. Quantized types use such blocks."""
_SAMPLED_LINES = 256
"""At most this many wrong lines are looked at, spread over the tensor. A factor shows in a few."""
_SAMPLED_LENGTH = 512
"""At most this many elements of a line are looked at. They are enough to fix and to test one factor."""
_FEWEST_OF_LINE = 3
"""A line needs this many wrong elements, because the first one fixes its factor."""
_LEAST_GROUP_GAIN = 0.01
"""Groups must exceed whole rows and columns by this confidence. They have more factors to fit with."""
_MOST_FACTOR_NOISE = 8
"""Noise may move a factor by this many units in the last place of 1."""


def detect_scaled_lines(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual = s * expected with one s for each row, column, or group of neighbours in a row, up to rounding."""
    best: PatternMatch | None = None
    for noun, actual, expected, wrong in _lines(scene):
        found = _match_lines(scene, noun, actual, expected, wrong)
        if found is not None and (best is None or found.confidence > best.confidence + _LEAST_GROUP_GAIN):
            best = found
    if best is not None:
        yield best


def _lines(scene: Scene) -> Iterator[tuple[str, Array, Array, Array]]:
    """Yield the name of each kind of line, and sampled lines, one a row: actual, expected, and which elements are
    wrong.
    """
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
    """Return a bounded number of lines with wrong elements, cut to a bounded length."""
    actual, expected, wrong = (side[:, :_SAMPLED_LENGTH] for side in sides)
    at = np.flatnonzero(wrong.any(axis=1))
    at = at[np.linspace(0, at.size - 1, min(at.size, _SAMPLED_LINES)).astype(int)] if at.size else at
    return actual[at].astype(np.float64), expected[at].astype(np.float64), wrong[at]


def _match_lines(
    scene: Scene, noun: str, actual: Array, expected: Array, wrong: Array
) -> PatternMatch | None:
    """Return the pattern of lines whose wrong elements are a factor times the expected ones."""
    usable = wrong & np.isfinite(actual) & np.isfinite(expected) & (expected != 0)
    # Where all expected values of a line are alike, any factor fits.
    varied = np.where(usable, expected, -np.inf).max(axis=1) > np.where(usable, expected, np.inf).min(axis=1)
    told = varied & (usable.sum(axis=1) >= _FEWEST_OF_LINE)
    actual, expected, usable = actual[told], expected[told], usable[told]
    if actual.shape[0] < 2:
        return None
    a, e = np.where(usable, actual, 0.0), np.where(usable, expected, 0.0)
    factors = (a * e).sum(axis=1) / (e * e).sum(axis=1)
    one = (
        _MOST_FACTOR_NOISE * SPACING[scene.dtype] if scene.dtype.is_floating else 1.0 / np.abs(e).max(axis=1)
    )
    other = np.abs(factors - 1.0) > one

    def fits(values: Array) -> Array:
        near: Array = np.abs(a - factors[:, None] * values) <= slack(scene.dtype, a)
        return near & usable & other[:, None]

    spent = int(np.count_nonzero(other))  # a line's first element fixes its factor
    total = int(np.count_nonzero(wrong))
    hits = int(np.count_nonzero(fits(e))) - spent
    unlike = np.zeros(e.shape)
    unlike[usable] = fixed_permutation(e[usable])
    chance = share(fits(unlike)[usable])
    low, high = float(factors.min()), float(factors.max())
    return PatternMatch(
        pattern=Pattern.SCALED_LINES,
        confidence=confidence(hits=hits, total=total - spent, chance=chance, cost=math.log(2 + len(_GROUPS))),
        evidence=f"{hits + spent} of {total} wrong elements are the expected ones times a factor of their {noun}, "
        f"from {low:.6g} to {high:.6g}",
    )


_LEVELS_NEAR_ZERO = 4
"""The step is first measured between this many levels on each side of zero. The type rounds these least."""
_SAMPLED_ROWS = 256
"""At most this many wrong rows are tried for a scale of their own, spread over the tensor."""
_INTEGER_TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32)
_LEVELS_OF_INT8 = 256
"""An int8 has this many values. More levels cannot have come through one."""
# float16 has more digits than bfloat16, but less range: each is narrower than the other.
_DIGITS = {DType.FLOAT64: 53, DType.FLOAT32: 24, DType.FLOAT16: 11, DType.BFLOAT16: 11}
_MOST_NARROWINGS = 40
"""At most this many conversions are tried for one type. The confidence pays for having had the choice."""

Narrowing = Callable[[Array], Array]


def detect_narrower_type(scene: Scene) -> Iterator[PatternMatch]:
    """Find the expected values, converted to a type with fewer digits or less range and back."""
    if scene.dtype is DType.BOOL:
        return
    at = sample_places(scene.wrong_count)
    found, wanted = scene.wrong_actual[at], scene.wrong_expected[at]
    hits = {name: _count_agreeing(found, narrow(wanted)) for name, narrow in _narrowings(scene.dtype).items()}
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
            chance=_narrowing_chance(scene, narrow, at),
            cost=math.log(_MOST_NARROWINGS),
        ),
        evidence=f"{all_hits} of {scene.wrong_count} wrong elements are the expected ones through "
        f"{_describe_ways(names)}",
    )


def _narrowing_chance(scene: Scene, narrow: Narrowing, at: Array) -> float:
    """Return how often wrong elements, sampled `at` places, are the narrowed ones by accident."""
    narrowed = narrow(scene.wrong_expected[at])
    if not np.isfinite(narrowed).any():
        # All wrong elements are out of range. The evidence is that elements within the range are not wrong, and not as
        # precise as before.
        everywhere = sample_places(scene.expected.size)
        expected, actual = scene.expected.ravel()[everywhere], scene.actual.ravel()[everywhere]
        through = narrow(expected)
        rounded = np.isfinite(through) & (through != expected)
        if share(actual[rounded] == expected[rounded]) > 0.5:
            return 1.0
        return share(~np.isfinite(through))
    there = np.array(scene.wrong_expected_bits)
    there[at] = bits(scene.dtype, encode(scene.dtype, narrowed))
    return scene.null_model.chance(there)


def _count_agreeing(found: Array, narrowed: Array) -> int:
    return int(np.count_nonzero((found == narrowed) | (np.isnan(found) & np.isnan(narrowed))))


def _describe_ways(names: Sequence[str]) -> str:
    """Return the first of the ways that fit equally well, which is the simplest, and one through another type."""
    others = [name for name in names if name.split()[0] != names[0].split()[0]]
    return f"{names[0]} (or {others[0]}, which would leave the same)" if others else names[0]


def _narrowings(dtype: DType) -> dict[str, Narrowing]:
    """Return the ways through a narrower type and back, by name, the simplest first."""
    found: dict[str, Narrowing] = {}
    for grid in (*FLOAT_GRIDS, *NARROW_GRIDS):
        if grid.name == dtype.value or grid.digits > _DIGITS.get(dtype, grid.digits):
            continue
        modes = Mode if grid in FLOAT_GRIDS else (Mode.NEAREST_EVEN, Mode.TRUNCATE)
        for mode in modes:
            how = "" if mode is Mode.NEAREST_EVEN else f" by {mode.value}"
            found[f"{grid.name}{how}"] = partial(_round_trip_float, dtype, grid, mode)
    for narrow in _INTEGER_TYPES:
        if dtype.is_floating or narrow.itemsize < dtype.itemsize:
            found[narrow.value] = partial(_clip, dtype, narrow)
        if not dtype.is_floating and narrow.itemsize < dtype.itemsize:
            found[f"{narrow.value}, wrapping around"] = partial(_wrap, dtype, narrow)
    return found


def _round_trip_float(dtype: DType, grid: FloatGrid, mode: Mode, wanted: Array) -> Array:
    narrowed = round_to_grid(grid, wanted.astype(np.float64), mode)
    return narrowed if dtype.is_floating else np.rint(narrowed)


def _clip(dtype: DType, narrow: DType, wanted: Array) -> Array:
    info = np.iinfo(narrow.storage)
    if dtype.is_floating:
        return np.clip(np.rint(wanted), info.min, info.max)
    own = np.iinfo(dtype.storage)
    return np.clip(wanted, max(info.min, own.min), min(info.max, own.max))


def _wrap(dtype: DType, narrow: DType, wanted: Array) -> Array:
    return wanted.astype(narrow.storage).astype(dtype.storage).astype(wanted.dtype)


def detect_quantization(scene: Scene) -> Iterator[PatternMatch]:
    """Find few evenly spaced values where expected has many: a scaled int8 on the way, as a whole or by row."""
    if scene.dtype is DType.BOOL or scene.dtype.itemsize == 1:
        return
    hits = _evenly_spaced(scene.dtype, scene.wrong_actual, scene.wrong_expected)
    total, how = scene.wrong_count, "one"
    if hits < total // 2:
        rows = np.flatnonzero(scene.wrong.any(axis=1))
        rows = rows[np.linspace(0, rows.size - 1, min(rows.size, _SAMPLED_ROWS)).astype(int)]
        wrong = [scene.wrong[row] for row in rows]
        hits = sum(
            _evenly_spaced(scene.dtype, scene.actual[row][at], scene.expected[row][at])
            for row, at in zip(rows, wrong, strict=True)
        )
        total, how = sum(int(np.count_nonzero(at)) for at in wrong), "by row a"
    if hits:
        yield PatternMatch(
            pattern=Pattern.NARROWER_TYPE,
            confidence=confidence(hits=hits, total=total, chance=0.0),
            evidence=f"{hits} of {total} wrong elements lie on at most 256 evenly spaced values and within half "
            f"a step of the expected: through int8 with {how} scale",
        )


def _evenly_spaced(dtype: DType, actual: Array, expected: Array) -> int:
    """Return how many elements fit a quantization to at most 256 multiples of one step; 0 for uneven levels."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    fine = np.isfinite(a) & np.isfinite(e)
    a, e = a[fine], e[fine]
    if np.unique(a[sample_places(a.size)]).size > _LEVELS_OF_INT8:
        return 0
    levels = np.unique(a)
    if not 4 <= levels.size <= _LEVELS_OF_INT8 or np.unique(e).size < 2 * levels.size:
        return 0
    # Levels near zero are rounded least by the type that holds them, so the step is measured there first.
    low = max(int(np.searchsorted(levels, 0.0)) - _LEVELS_NEAR_ZERO, 0)
    step = float(np.diff(levels[low : low + 2 * _LEVELS_NEAR_ZERO]).min())
    step = _fit_step(levels[np.abs(levels) <= 16.5 * step], step)
    step = _fit_step(levels, step)
    number = np.rint(levels / step)
    if not number[-1] - number[0] < _LEVELS_OF_INT8:
        return 0
    if (np.abs(levels - number * step) > _own_unit(dtype, np.abs(levels)) + 0.02 * step).any():
        return 0
    return int(np.count_nonzero(np.abs(a - e) <= 0.52 * step + _own_unit(dtype, np.abs(a))))


def _fit_step(levels: Array, step: float) -> float:
    """Return the step near `step` of which `levels` are most nearly multiples (least squares)."""
    number = np.rint(levels / step)
    squares = float(np.sum(number * number))
    return float(np.sum(number * levels)) / squares if squares else step


def _own_unit(dtype: DType, size: Array) -> Array:
    """Return the step of the type that holds the values, 1 for integers, at `size`."""
    for grid in FLOAT_GRIDS:
        if grid.name == dtype.value:
            return grid_step(grid, size)
    return np.ones(size.shape)


_FEWEST = 8
"""A rounding mode needs this many wrong elements. Fewer may lie on one side by chance."""


def detect_rounding_mode(scene: Scene) -> Iterator[PatternMatch]:
    """Find wrong elements that are all one step off, always on the side that another rounding mode would take.

    Steps are those of the narrowest type that holds all the values. If expected was rounded to nearest even, ties away
    from zero show where its significand is even.
    """
    steps = _steps(scene)
    if steps is None or steps[0].size < _FEWEST:
        return
    away, up, even = steps
    if not scene.dtype.is_floating and scene.wrong.all() and np.ptp(up) == 0:
        return  # an offset, because rounding leaves whole numbers as they are
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
    """Return for each wrong element: steps away from zero, steps up, and whether expected is even."""
    if scene.dtype is DType.BOOL:
        return None
    if not scene.dtype.is_floating:
        # The difference wraps modulo 2**64 where it does not fit. That is harmless, because only differences of 1
        # matter.
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
"""Attention heads of these sizes are tried for pairs half a head apart, as rotary embeddings make them."""
_LEAST_HEAD_GAIN = 0.01
"""A larger head must exceed a smaller one by this confidence. Multiples of a head fit as well as it does."""
_LEAST_ROTATION = 32
"""A pair must have moved by this many steps of its type, because less is rounding."""


def detect_sign_pairs(scene: Scene) -> Iterator[PatternMatch]:
    """Find pairs of which one element is negated, or pairs that are as long as expected but turned another way."""
    if not scene.dtype.is_floating or scene.columns < 2:
        return
    best: PatternMatch | None = None
    pairings = list(_pairings(scene.columns))
    for what, second in pairings:
        for found in (
            *_find_negated(scene, what, second, len(pairings)),
            *_find_rotated(scene, what, second, len(pairings)),
        ):
            if best is None or found.confidence > best.confidence + _LEAST_HEAD_GAIN:
                best = found
    if best is not None:
        yield best


def _pairings(columns: int) -> Iterator[tuple[str, Array]]:
    """Yield what a pair is, and which columns hold the second of each. Firsts and seconds come in the same order."""
    number = np.arange(columns)
    if columns % 2 == 0:
        yield "neighbouring columns", number % 2 == 1
    for head in dict.fromkeys((*_HEADS, columns)):
        if head >= 4 and head % 2 == 0 and columns % head == 0:
            yield f"columns {head // 2} apart in heads of {head}", number % head >= head // 2


def _find_negated(scene: Scene, what: str, second: Array, pairings: int) -> Iterator[PatternMatch]:
    top = scene.wrong_expected_bits.dtype.type(1 << (8 * scene.dtype.itemsize - 1))
    negated = np.zeros(scene.wrong.shape, bool)
    negated[scene.wrong] = scene.wrong_actual_bits == scene.wrong_expected_bits ^ top
    for name, half in (("second", second), ("first", ~second)):
        area = np.broadcast_to(half, scene.wrong.shape)
        hits = int(np.count_nonzero(negated & area))
        if hits < 0.5 * scene.wrong_count:
            continue
        count = int(np.count_nonzero(area))
        place = place_confidence(
            wrong=(hits, scene.wrong_count),
            sizes=(count, area.size),
            strewn=scene.place_nats,
            cost=math.log(4 * pairings),
        )
        value = confidence(
            hits=hits,
            total=scene.wrong_count,
            chance=scene.null_model.chance(scene.wrong_expected_bits ^ top),
            cost=math.log(4 * pairings),
        )
        yield PatternMatch(
            pattern=Pattern.SIGN_PAIRS,
            confidence=min(place, value),
            evidence=f"{hits} of {scene.wrong_count} wrong elements are the {name} of a pair ({what}), negated",
        )


def _find_rotated(scene: Scene, what: str, second: Array, pairings: int) -> Iterator[PatternMatch]:
    """Find pairs of elements that were turned by an angle, as a rotary embedding does."""
    wrong = scene.wrong[:, second] | scene.wrong[:, ~second]
    at = np.flatnonzero(wrong)
    at = at[sample_places(at.size)]
    actual, expected = (
        np.stack([side[:, half].ravel()[at] for half in (~second, second)]).astype(np.float64)
        for side in (scene.actual, scene.expected)
    )
    error = actual - expected
    step = SPACING[scene.dtype]
    length = np.hypot(*expected)
    # A pair whose elements keep their sizes, or exchange them, is negated in part, or moved. It is not turned.
    resized = (np.sort(np.abs(actual), axis=0) != np.sort(np.abs(expected), axis=0)).any(axis=0)
    large = np.hypot(*error) > _LEAST_ROTATION * step * length
    moved = resized & large & np.isfinite(length) & np.isfinite(error).all(axis=0)
    if np.count_nonzero(moved) < 0.5 * at.size:
        return

    def fits(first: Array, other: Array) -> Array:
        long = np.hypot(first, other)
        near: Array = (np.abs(long - length) <= 2 * step * length) & moved
        return near

    hits = int(np.count_nonzero(fits(*actual)))
    # The chance of keeping a length by accident comes from errors and values of other pairs, put on these.
    chances = (
        fits(*(expected + np.stack([fixed_permutation(error[0]), fixed_permutation(error[1])]))),
        fits(*fixed_permutation(actual.T).T),
    )
    yield PatternMatch(
        pattern=Pattern.SIGN_PAIRS,
        confidence=confidence(
            hits=hits,
            total=at.size,
            chance=max(share(each) for each in chances),
            cost=math.log(4 * pairings),
        ),
        evidence=f"{hits} of {at.size} wrong pairs ({what}) are as long as expected and turned another way, as by a "
        "sine of the wrong sign",
    )


def detect_swapped_bytes(scene: Scene) -> Iterator[PatternMatch]:
    """Find the expected elements with their bytes, halves or nibbles in another order."""
    if scene.dtype is DType.BOOL:
        return
    counted = [
        (int(np.count_nonzero(scene.wrong_actual_bits == there)), what, there)
        for what, there in _byte_orders(scene.wrong_expected_bits)
    ]
    hits, what, there = max(counted, key=lambda order: order[0])
    if hits:
        yield PatternMatch(
            pattern=Pattern.SWAPPED_BYTES,
            confidence=confidence(
                hits=hits,
                total=there.size,
                chance=scene.null_model.chance(there),
                cost=math.log(len(counted)),
            ),
            evidence=f"{hits} of {there.size} wrong elements are the expected ones with {what}",
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
