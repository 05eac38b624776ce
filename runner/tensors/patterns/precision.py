"""The right value, rounded in another way, through a narrower type, or added up with less care."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..kernels.elements import Array
from ..view import DType
from .finding import Finding, Pattern, confidence, share
from .grids import FLOAT_GRIDS, Mode, on_grid, to_grid, to_integer, unit_at
from .scene import Scene, shuffled

_FEWEST = 8
_NEAR_ZERO = 4
_INTEGER_TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32)
_LEVELS_OF_INT8 = 256
# float16 has more digits than bfloat16, but less range: each is narrower than the other.
_DIGITS = {DType.FLOAT64: 53, DType.FLOAT32: 24, DType.FLOAT16: 11, DType.BFLOAT16: 11}


def rounding_mode(scene: Scene) -> Iterator[Finding]:
    """Every wrong element is one step off, always on the side that another rounding mode would take.

    Steps are those of the narrowest type that holds all the values. For float results that were rounded to
    nearest even, ties away from zero show where the expected significand is even.
    """
    steps = _steps(scene)
    if steps is None or steps[0].size < _FEWEST:
        return
    away, up, even = steps
    single = np.abs(away) == 1
    modes = (
        ("ties away from zero instead of to even", single & (away == 1) & even, 0.25),
        ("truncation towards zero", single & (away == -1), 0.5),
        ("rounding down", single & (up == -1), 0.5),
        ("rounding up", single & (up == 1), 0.5),
        ("rounding away from zero", single & (away == 1), 0.5),
    )
    best: Finding | None = None
    for name, fits, chance in modes:
        hits = int(np.count_nonzero(fits))
        sure = confidence(hits=hits, total=scene.wrong_count, chance=chance)
        if best is None or sure > best.confidence:
            evidence = f"{hits} of {scene.wrong_count} wrong elements are one step off, as by {name}"
            best = Finding(pattern=Pattern.ROUNDING_MODE, confidence=sure, evidence=evidence)
    if best is not None:
        yield best


def _steps(scene: Scene) -> tuple[Array, Array, Array] | None:
    """Per wrong element: steps away from zero, steps up, and whether expected is even."""
    if scene.dtype is DType.BOOL:
        return None
    if not scene.dtype.is_floating:
        # Modulo 2**64 also where the difference does not fit: only differences of 1 matter.
        up = (scene.wrong_actual - scene.wrong_expected).astype(np.int64)
        sign = np.where(scene.wrong_expected.astype(np.float64) < 0, -1, 1)
        sign = np.where(scene.wrong_expected == 0, np.sign(up), sign)
        return up * sign, up, scene.wrong_expected % 2 == 0
    actual, expected = scene.finite_wrong
    grid = next(grid for grid in FLOAT_GRIDS if on_grid(grid, actual).all() and on_grid(grid, expected).all())
    unit = unit_at(grid, np.minimum(np.abs(actual), np.abs(expected)))
    up = np.clip(np.rint((actual - expected) / unit), -4, 4)
    sign = np.where(expected == 0, np.sign(actual), np.sign(expected))
    even = np.rint(expected / unit_at(grid, np.abs(expected))) % 2 == 0
    return up * sign, up, even


def narrower_type(scene: Scene) -> Iterator[Finding]:
    """The wrong elements are the expected ones, converted to a type with fewer digits or less range and back."""
    found = scene.wrong_actual.astype(np.float64)
    wanted = scene.wrong_expected.astype(np.float64)
    # Values from anywhere, right or wrong: else elements that all overflow would seem to agree by chance.
    anywhere = shuffled(scene.expected.ravel())[: found.size].astype(np.float64)
    best: Finding | None = None
    for (name, narrowed), (_, elsewhere) in zip(
        _narrowings(scene.dtype, wanted), _narrowings(scene.dtype, anywhere), strict=True
    ):
        hits = int(np.count_nonzero(found == narrowed))
        sure = confidence(hits=hits, total=found.size, chance=share(found == elsewhere))
        if best is None or sure > best.confidence:
            evidence = f"{hits} of {found.size} wrong elements are the expected ones through {name}"
            best = Finding(pattern=Pattern.NARROWER_TYPE, confidence=sure, evidence=evidence)
    if best is not None:
        yield best
    yield from _quantized(scene)


def _narrowings(dtype: DType, wanted: Array) -> Iterator[tuple[str, Array]]:
    for grid in FLOAT_GRIDS:
        if grid.name == dtype.value or grid.digits > _DIGITS.get(dtype, grid.digits):
            continue
        for mode in Mode:
            how = "" if mode is Mode.NEAREST_EVEN else f" by {mode.value}"
            narrowed = to_grid(grid, wanted, mode)
            if not dtype.is_floating:
                narrowed = np.rint(narrowed)
            yield f"{grid.name}{how}", narrowed
    for narrow in _INTEGER_TYPES if dtype is not DType.BOOL else ():
        if not dtype.is_floating and narrow.itemsize < dtype.itemsize:
            yield f"{narrow.value}, wrapping around", to_integer(narrow, wanted, wrap=True)
        if dtype.is_floating or narrow.itemsize < dtype.itemsize:
            yield f"{narrow.value}", to_integer(narrow, wanted, wrap=False)


def _quantized(scene: Scene) -> Iterator[Finding]:
    """Few evenly spaced values where expected has many: a scaled int8 on the way, as a whole or by row."""
    if scene.dtype is DType.BOOL or scene.dtype.itemsize == 1:
        return
    rows = [np.flatnonzero(row) for row in scene.wrong]
    whole = _evenly_spaced(scene.dtype, scene.wrong_actual, scene.wrong_expected)
    hits = whole
    if whole < scene.wrong_count // 2:
        hits = sum(
            _evenly_spaced(scene.dtype, scene.actual[i, at], scene.expected[i, at])
            for i, at in enumerate(rows)
        )
    if hits == 0:
        return
    how = "one scale" if hits == whole else "a scale a row"
    yield Finding(
        pattern=Pattern.NARROWER_TYPE,
        confidence=confidence(hits=hits, total=scene.wrong_count, chance=0.0),
        evidence=f"{hits} of {scene.wrong_count} wrong elements lie on at most 256 evenly spaced values and "
        f"within half a step of the expected: through int8 with {how}",
    )


def _evenly_spaced(dtype: DType, actual: Array, expected: Array) -> int:
    """How many elements fit a quantization to at most 256 levels; 0 if the levels are not even."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    fine = np.isfinite(a) & np.isfinite(e)
    a, e = a[fine], e[fine]
    levels = np.unique(a)
    if not 4 <= levels.size <= _LEVELS_OF_INT8 or np.unique(e).size < 2 * levels.size:
        return 0
    # Levels near zero are rounded least by the type that holds them.
    low = max(int(np.searchsorted(levels, 0.0)) - _NEAR_ZERO, 0)
    step = float(np.diff(levels[low : low + 2 * _NEAR_ZERO]).min())
    number = np.rint((levels - levels[0]) / step)
    if number[-1] >= _LEVELS_OF_INT8:
        return 0
    step = float((levels[-1] - levels[0]) / number[-1])
    rounding = _own_unit(dtype, np.abs(levels))
    if (np.abs(levels - levels[0] - number * step) > rounding + 0.02 * step).any():
        return 0
    return int(np.count_nonzero(np.abs(a - e) <= 0.52 * step + _own_unit(dtype, np.abs(a))))


def _own_unit(dtype: DType, size: Array) -> Array:
    """The step of the type that holds the values, 1 of integers, at `size`."""
    for grid in FLOAT_GRIDS:
        if grid.name == dtype.value:
            return unit_at(grid, size)
    return np.ones(size.shape)


def lower_precision(scene: Scene) -> Iterator[Finding]:
    """The wrong elements lie on the grid of a type that expected does not, a few of its steps away."""
    actual, expected = scene.finite_wrong
    if actual.size < _FEWEST:
        return
    for grid in FLOAT_GRIDS:
        if grid.name == scene.dtype.value:
            continue
        lies, chance = on_grid(grid, actual), share(on_grid(grid, expected))
        steps = np.abs(actual - expected) / unit_at(grid, np.maximum(np.abs(expected), _typical(expected)))
        near = lies & (steps <= 64)
        if share(actual == to_grid(grid, expected, Mode.NEAREST_EVEN)) > 0.9 or share(steps[lies] > 1) < 0.05:
            continue  # one rounding at the end explains it
        hits = int(np.count_nonzero(near))
        sure = confidence(hits=hits, total=scene.wrong_count, chance=chance)
        if sure >= 0.5:
            yield Finding(
                pattern=Pattern.LOWER_PRECISION,
                confidence=sure,
                evidence=f"{hits} of {scene.wrong_count} wrong elements are {grid.name} numbers, "
                f"up to {steps[near].max():.0f} of its steps off",
            )
            return


def other_order(scene: Scene) -> Iterator[Finding]:
    """Errors of a few units in the last place of the usual magnitude, up as often as down."""
    if not scene.dtype.is_floating:
        return  # sums of integers do not depend on their order
    actual, expected = scene.finite_wrong
    if actual.size < _FEWEST:
        return
    own = next(grid for grid in FLOAT_GRIDS if grid.name == scene.dtype.value)
    magnitude = np.maximum(np.abs(expected), _typical(scene.expected.astype(np.float64)))
    steps = np.abs(actual - expected) / unit_at(own, magnitude)
    hits = int(np.count_nonzero(steps <= 8))
    up = share(actual > expected)
    balance = max(1.0 - 4.0 * abs(up - 0.5), 0.0)
    yield Finding(
        pattern=Pattern.OTHER_ORDER,
        confidence=confidence(hits=hits, total=scene.wrong_count, chance=0.0) * balance,
        evidence=f"{hits} of {scene.wrong_count} wrong elements are within 8 units in the last place "
        f"({own.name}, at the tensor's usual magnitude), {up:.0%} of them upwards",
    )


def _typical(values: Array) -> float:
    """Root mean square of the finite values."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0
    largest = float(np.abs(finite).max())
    return largest * float(np.sqrt(np.mean((finite / largest) ** 2))) if largest else 0.0
