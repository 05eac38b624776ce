"""The right value, rounded the other way at the last step."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ....tensor.view import DType
from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch
from ..odds import confidence, share
from ..scene import Scene
from .grids import FLOAT_GRIDS, on_grid, unit_at

_FEWEST = 8


def rounding_mode(scene: Scene) -> Iterator[PatternMatch]:
    """Every wrong element is one step off, always on the side that another rounding mode would take.

    Steps are those of the narrowest type that holds all the values. For float results that were rounded to
    nearest even, ties away from zero show where the expected significand is even.
    """
    steps = _steps(scene)
    if steps is None or steps[0].size < _FEWEST:
        return
    away, up, even = steps
    if not scene.dtype.is_floating and scene.wrong.all() and np.ptp(up) == 0:
        return  # an offset: rounding leaves whole numbers as they are
    single = np.abs(away) == 1
    one_way = scene.accident.one_way
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
