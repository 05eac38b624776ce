"""The right value, but through a type with fewer digits or less range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....tensor.view import DType
from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch, confidence, share
from ..scene import Scene, shuffled
from .grids import FLOAT_GRIDS, Mode, to_grid, unit_at

_NEAR_ZERO = 4
_SAMPLED_ROWS = 256
_INTEGER_TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32)
_LEVELS_OF_INT8 = 256
# float16 has more digits than bfloat16, but less range: each is narrower than the other.
_DIGITS = {DType.FLOAT64: 53, DType.FLOAT32: 24, DType.FLOAT16: 11, DType.BFLOAT16: 11}


def narrower_type(scene: Scene) -> Iterator[PatternMatch]:
    """The wrong elements are the expected ones, converted to a type with fewer digits or less range and back."""
    found = scene.wrong_actual
    # Values from anywhere, right or wrong: else elements that all overflow would seem to agree by chance.
    anywhere = shuffled(scene.expected.ravel())[: found.size]
    best: PatternMatch | None = None
    for (name, narrowed), (_, elsewhere) in zip(
        _narrowings(scene.dtype, scene.wrong_expected), _narrowings(scene.dtype, anywhere), strict=True
    ):
        hits = int(np.count_nonzero(found == narrowed))
        sure = confidence(hits=hits, total=found.size, chance=share(found == elsewhere))
        if best is None or sure > best.confidence:
            evidence = f"{hits} of {found.size} wrong elements are the expected ones through {name}"
            best = PatternMatch(pattern=Pattern.NARROWER_TYPE, confidence=sure, evidence=evidence)
    if best is not None:
        yield best


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


def quantized(scene: Scene) -> Iterator[PatternMatch]:
    """Few evenly spaced values where expected has many: a scaled int8 on the way, as a whole or by row."""
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
