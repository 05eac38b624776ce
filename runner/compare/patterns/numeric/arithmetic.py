"""The result, but times or plus something, negated, or clipped."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ....tensor.view import DType
from ...kernels.elements import Array
from ..accident import NEAR, evenly
from ..finding import Pattern, PatternMatch
from ..odds import confidence, share
from ..scene import Scene, shuffled

SPACING = {
    DType.FLOAT64: 2.0**-52,
    DType.FLOAT32: 2.0**-23,
    DType.FLOAT16: 2.0**-10,
    DType.BFLOAT16: 2.0**-7,
}
"""Distance from 1 to the next larger number."""

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


def scaled(scene: Scene) -> Iterator[PatternMatch]:
    """actual = s * expected with one s, up to rounding."""
    actual, expected = scene.finite_wrong
    nonzero = expected != 0
    actual, expected = actual[nonzero], expected[nonzero]
    if actual.size < 2:
        return
    # Large values fix the ratio best.
    large = np.abs(expected) >= np.quantile(np.abs(expected), 0.75)
    scale = float(np.median(actual[large] / expected[large]))
    if scale in (0.0, -1.0) or not np.isfinite(scale):
        return
    if scene.dtype.is_floating and abs(scale - 1.0) <= 4 * SPACING[scene.dtype]:
        return
    if not scene.dtype.is_floating and abs((scale - 1.0) * np.median(np.abs(expected))) < 1.0:
        return
    hits = int(np.count_nonzero(np.abs(actual - scale * expected) <= slack(scene.dtype, actual)))
    at = evenly(actual.size)
    yield PatternMatch(
        pattern=Pattern.SCALED,
        confidence=confidence(
            hits=hits - 1,
            total=scene.wrong_count - 1,
            chance=_scale_chance(scene, actual[at], expected[at], scale),
        ),
        evidence=f"{hits} of {scene.wrong_count} wrong elements are {scale:.6g} times the expected",
    )


def times_zero(scene: Scene) -> Iterator[PatternMatch]:
    """actual = 0 * expected: zeros with the signs of the expected, or with the other ones. Zeros of one sign are what
    nobody wrote."""
    found = scene.found_bits
    if not scene.dtype.is_floating or np.unique(found[scene.wrong_actual == 0]).size < 2:
        return
    sign = found.dtype.type(1 << (8 * scene.dtype.itemsize - 1))
    zeros = max(
        (scene.wanted_bits & sign, ~scene.wanted_bits & sign),
        key=lambda signed: np.count_nonzero(found == signed),
    )
    hits = int(np.count_nonzero(found == zeros))
    yield PatternMatch(
        pattern=Pattern.SCALED,
        confidence=confidence(
            hits=hits, total=found.size, chance=scene.accident.chance(zeros), cost=math.log(2)
        ),
        evidence=f"{hits} of {found.size} wrong elements are zero: 0 times the expected, with their signs",
    )


def _scale_chance(scene: Scene, actual: Array, expected: Array, scale: float) -> float:
    """How often `actual` is `scale` times another expected value, or the value itself, or near it all the same."""

    def fits(e: Array) -> Array:
        return np.abs(actual - scale * e) <= slack(scene.dtype, actual)

    near = _near(scene.dtype, (scale - 1.0) * expected, expected)
    return max(
        share(fits(shuffled(expected))), share(fits(expected / scale)), scene.accident.one_way * share(near)
    )


def offset(scene: Scene) -> Iterator[PatternMatch]:
    """actual = expected + c with one c, up to rounding."""
    actual, expected = scene.finite_wrong
    if actual.size < 2:
        return
    difference = actual - expected
    shift = float(np.median(difference))
    size = np.maximum(np.maximum(np.abs(actual), np.abs(expected)), abs(shift))
    room = size * SPACING[scene.dtype] if scene.dtype.is_floating else np.zeros_like(size)
    # Where the offset drowns in rounding it explains nothing.
    told = room * 4 < abs(shift)
    hits = int(np.count_nonzero((np.abs(difference - shift) <= room) & told))
    at = evenly(actual.size)
    elsewhere = np.abs(actual[at] - shuffled(expected[at]) - shift) <= room[at]
    near = _near(scene.dtype, np.full(at.shape, shift), expected[at])
    yield PatternMatch(
        pattern=Pattern.OFFSET,
        confidence=confidence(
            hits=hits - 1,
            total=scene.wrong_count - 1,
            chance=max(share(elsewhere), scene.accident.one_way * share(near)),
        ),
        evidence=f"{hits} of {scene.wrong_count} wrong elements are {shift:+.6g} off",
    )


def _near(dtype: DType, errors: Array, values: Array) -> Array:
    """Whether noise of a few steps of the type may make such errors."""
    step = SPACING[dtype] * np.abs(values) if dtype.is_floating else 1.0
    near: Array = np.abs(errors) <= NEAR * step
    return near


def sign_flipped(scene: Scene) -> Iterator[PatternMatch]:
    """actual = -expected, exactly; of integers, modulo their width."""
    found, wanted = scene.found_bits, scene.wanted_bits
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
            confidence=confidence(hits=hits, total=found.size, chance=scene.accident.chance(negated)),
            evidence=f"{hits} of {found.size} wrong elements are the expected ones negated",
        )


def saturated(scene: Scene) -> Iterator[PatternMatch]:
    """The wrong elements stand at the largest or smallest value found, where more or less was expected."""
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
    # The limits were picked from the data: their first occurrences prove nothing.
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
    """What rounding of a product may add: two units in the last place, or less than one of an integer."""
    if not dtype.is_floating:
        return np.full(values.shape, 0.999)
    return 2 * SPACING[dtype] * np.abs(values)
