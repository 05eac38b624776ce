"""The right value, but through a type with fewer digits or less range."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from ....tensor.chunks import bits, encode
from ....tensor.view import DType
from ...kernels.elements import Array
from ..accident import evenly
from ..finding import Pattern, PatternMatch
from ..odds import confidence, share
from ..scene import Scene
from .grids import FLOAT_GRIDS, NARROW_GRIDS, FloatGrid, Mode, to_grid, unit_at

_NEAR_ZERO = 4
_SAMPLED_ROWS = 256
_INTEGER_TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32)
_LEVELS_OF_INT8 = 256
# float16 has more digits than bfloat16, but less range: each is narrower than the other.
_DIGITS = {DType.FLOAT64: 53, DType.FLOAT32: 24, DType.FLOAT16: 11, DType.BFLOAT16: 11}
_MOST_NARROWINGS = 40

Narrowing = Callable[[Array], Array]


def narrower_type(scene: Scene) -> Iterator[PatternMatch]:
    """The wrong elements are the expected ones, converted to a type with fewer digits or less range and back."""
    if scene.dtype is DType.BOOL:
        return
    at = evenly(scene.wrong_count)
    found, wanted = scene.wrong_actual[at], scene.wrong_expected[at]
    hits = {name: _agreeing(found, narrow(wanted)) for name, narrow in _narrowings(scene.dtype).items()}
    most = max(hits.values(), default=0)
    if most == 0:
        return
    names = [name for name, count in hits.items() if count == most]
    narrow = _narrowings(scene.dtype)[names[0]]
    all_hits = _agreeing(scene.wrong_actual, narrow(scene.wrong_expected))
    yield PatternMatch(
        pattern=Pattern.NARROWER_TYPE,
        confidence=confidence(
            hits=all_hits,
            total=scene.wrong_count,
            chance=_narrowing_chance(scene, narrow, at),
            cost=math.log(_MOST_NARROWINGS),
        ),
        evidence=f"{all_hits} of {scene.wrong_count} wrong elements are the expected ones through {_either(names)}",
    )


def _narrowing_chance(scene: Scene, narrow: Narrowing, at: Array) -> float:
    """How often wrong elements, sampled `at` places, are the narrowed ones by accident."""
    narrowed = narrow(scene.wrong_expected[at])
    if not np.isfinite(narrowed).any():
        # All are out of range: what tells is that no element within it is wrong, nor as precise as before.
        everywhere = evenly(scene.expected.size)
        expected, actual = scene.expected.ravel()[everywhere], scene.actual.ravel()[everywhere]
        through = narrow(expected)
        rounded = np.isfinite(through) & (through != expected)
        if share(actual[rounded] == expected[rounded]) > 0.5:
            return 1.0
        return share(~np.isfinite(through))
    there = np.array(scene.wanted_bits)
    there[at] = bits(scene.dtype, encode(scene.dtype, narrowed))
    return scene.accident.chance(there)


def _agreeing(found: Array, narrowed: Array) -> int:
    return int(np.count_nonzero((found == narrowed) | (np.isnan(found) & np.isnan(narrowed))))


def _either(names: Sequence[str]) -> str:
    """The first of the ways that fit as well as each other, which is the simplest, and one through another type."""
    others = [name for name in names if name.split()[0] != names[0].split()[0]]
    return f"{names[0]} (or {others[0]}, which would leave the same)" if others else names[0]


def _narrowings(dtype: DType) -> dict[str, Narrowing]:
    """Ways through a narrower type and back, by name, the simplest first."""
    found: dict[str, Narrowing] = {}
    for grid in (*FLOAT_GRIDS, *NARROW_GRIDS):
        if grid.name == dtype.value or grid.digits > _DIGITS.get(dtype, grid.digits):
            continue
        modes = Mode if grid in FLOAT_GRIDS else (Mode.NEAREST_EVEN, Mode.TRUNCATE)
        for mode in modes:
            how = "" if mode is Mode.NEAREST_EVEN else f" by {mode.value}"
            found[f"{grid.name}{how}"] = partial(_through_float, dtype, grid, mode)
    for narrow in _INTEGER_TYPES:
        if dtype.is_floating or narrow.itemsize < dtype.itemsize:
            found[narrow.value] = partial(_clipped, dtype, narrow)
        if not dtype.is_floating and narrow.itemsize < dtype.itemsize:
            found[f"{narrow.value}, wrapping around"] = partial(_wrapped, dtype, narrow)
    return found


def _through_float(dtype: DType, grid: FloatGrid, mode: Mode, wanted: Array) -> Array:
    narrowed = to_grid(grid, wanted.astype(np.float64), mode)
    return narrowed if dtype.is_floating else np.rint(narrowed)


def _clipped(dtype: DType, narrow: DType, wanted: Array) -> Array:
    info = np.iinfo(narrow.storage)
    if dtype.is_floating:
        return np.clip(np.rint(wanted), info.min, info.max)
    own = np.iinfo(dtype.storage)
    return np.clip(wanted, max(info.min, own.min), min(info.max, own.max))


def _wrapped(dtype: DType, narrow: DType, wanted: Array) -> Array:
    return wanted.astype(narrow.storage).astype(dtype.storage).astype(wanted.dtype)


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
    if np.unique(a[evenly(a.size)]).size > _LEVELS_OF_INT8:
        return 0
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
