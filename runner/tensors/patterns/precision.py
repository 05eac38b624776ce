"""The right value, rounded in another way, through a narrower type, or added up with less care."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..kernels.elements import Array
from ..view import DType
from .finding import Finding, Pattern, confidence, share
from .grids import FLOAT_GRIDS, Mode, on_grid, to_grid, unit_at
from .scene import Scene, shuffled

_FEWEST = 8
_NEAR_ZERO = 4
_SAMPLED_ROWS = 256
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
    found = scene.wrong_actual
    # Values from anywhere, right or wrong: else elements that all overflow would seem to agree by chance.
    anywhere = shuffled(scene.expected.ravel())[: found.size]
    best: Finding | None = None
    for (name, narrowed), (_, elsewhere) in zip(
        _narrowings(scene.dtype, scene.wrong_expected), _narrowings(scene.dtype, anywhere), strict=True
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
    if dtype is DType.BOOL:
        return
    for grid in FLOAT_GRIDS:
        if grid.name == dtype.value or grid.digits > _DIGITS.get(dtype, grid.digits):
            continue
        for mode in Mode:
            how = "" if mode is Mode.NEAREST_EVEN else f" by {mode.value}"
            narrowed = to_grid(grid, wanted.astype(np.float64), mode)
            yield f"{grid.name}{how}", narrowed if dtype.is_floating else np.rint(narrowed)
    for narrow in _INTEGER_TYPES:
        info = np.iinfo(narrow.storage)
        if dtype.is_floating:
            yield narrow.value, np.clip(np.rint(wanted), info.min, info.max)
        elif narrow.itemsize < dtype.itemsize:
            own = np.iinfo(dtype.storage)
            yield narrow.value, np.clip(wanted, max(info.min, own.min), min(info.max, own.max))
            wrapped = wanted.astype(narrow.storage).astype(dtype.storage).astype(wanted.dtype)
            yield f"{narrow.value}, wrapping around", wrapped


def _quantized(scene: Scene) -> Iterator[Finding]:
    """Few evenly spaced values where expected has many: a scaled int8 on the way, as a whole or by row."""
    if scene.dtype is DType.BOOL or scene.dtype.itemsize == 1:
        return
    hits, total, how = (
        _evenly_spaced(scene.dtype, scene.wrong_actual, scene.wrong_expected),
        scene.wrong_count,
        "one",
    )
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
        yield Finding(
            pattern=Pattern.NARROWER_TYPE,
            confidence=confidence(hits=hits, total=total, chance=0.0),
            evidence=f"{hits} of {total} wrong elements lie on at most 256 evenly spaced values and within half "
            f"a step of the expected: through int8 with {how} scale",
        )


def _evenly_spaced(dtype: DType, actual: Array, expected: Array) -> int:
    """How many elements fit a quantization to at most 256 multiples of one step; 0 if the levels are not even."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    fine = np.isfinite(a) & np.isfinite(e)
    a, e = a[fine], e[fine]
    levels = np.unique(a)
    if not 4 <= levels.size <= _LEVELS_OF_INT8 or np.unique(e).size < 2 * levels.size:
        return 0
    # Levels near zero are rounded least by the type that holds them, so the step is measured there first.
    low = max(int(np.searchsorted(levels, 0.0)) - _NEAR_ZERO, 0)
    step = float(np.diff(levels[low : low + 2 * _NEAR_ZERO]).min())
    step = _fitted_step(levels[np.abs(levels) <= 16.5 * step], step)
    step = _fitted_step(levels, step)
    number = np.rint(levels / step)
    if not number[-1] - number[0] < _LEVELS_OF_INT8:
        return 0
    if (np.abs(levels - number * step) > _own_unit(dtype, np.abs(levels)) + 0.02 * step).any():
        return 0
    return int(np.count_nonzero(np.abs(a - e) <= 0.52 * step + _own_unit(dtype, np.abs(a))))


def _fitted_step(levels: Array, step: float) -> float:
    """The step of which `levels` are nearest to be multiples (least squares), near `step`."""
    number = np.rint(levels / step)
    squares = float(np.sum(number * number))
    return float(np.sum(number * levels)) / squares if squares else step


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
