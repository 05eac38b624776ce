"""The right value, but for what was lost while adding up."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...kernels.elements import Array
from ..accident import evenly
from ..finding import Pattern, PatternMatch
from ..numeric.grids import FLOAT_GRIDS, Mode, on_grid, to_grid, unit_at
from ..odds import confidence, share
from ..scene import Scene

_FEWEST = 8
_EVEN_ODDS = 0.5
_NEAR = 64  # steps of the shorter type that a long sum may be off
_FEW = 8  # units in the last place that the order of a sum may make


def lower_precision(scene: Scene) -> Iterator[PatternMatch]:
    """The wrong elements lie on the grid of a type that expected does not, a few of its steps away."""
    actual, expected = scene.finite_wrong
    if actual.size < _FEWEST:
        return
    at = evenly(actual.size)
    actual, expected = actual[at], expected[at]
    for grid in FLOAT_GRIDS:
        if grid.name == scene.dtype.value:
            continue
        lies, chance = on_grid(grid, actual), share(on_grid(grid, expected))
        steps = np.abs(actual - expected) / unit_at(grid, np.maximum(np.abs(expected), _typical(expected)))
        near = lies & (steps <= _NEAR)
        if share(actual == to_grid(grid, expected, Mode.NEAREST_EVEN)) > 0.9 or share(steps[lies] > 1) < 0.05:
            continue  # one rounding at the end explains it
        hits = int(np.count_nonzero(near))
        total = min(scene.wrong_count, at.size)
        sure = confidence(hits=hits, total=total, chance=chance, cost=math.log(len(FLOAT_GRIDS)))
        if sure >= 0.5:
            yield PatternMatch(
                pattern=Pattern.LOWER_PRECISION,
                confidence=sure,
                evidence=f"{hits} of {total} wrong elements are {grid.name} numbers, "
                f"up to {steps[near].max():.0f} of its steps off",
            )
            return


def other_order(scene: Scene) -> Iterator[PatternMatch]:
    """Errors of a few units in the last place of the usual magnitude, up as often as down.

    Any rounding may leave such, so that the odds of this cause among others are even at best.
    """
    if not scene.dtype.is_floating:
        return  # sums of integers do not depend on their order
    actual, expected = scene.finite_wrong
    if actual.size < _FEWEST:
        return
    own = next(grid for grid in FLOAT_GRIDS if grid.name == scene.dtype.value)
    magnitude = np.maximum(np.abs(expected), _typical(scene.expected.astype(np.float64)))
    steps = np.abs(actual - expected) / unit_at(own, magnitude)
    hits = int(np.count_nonzero(steps <= _FEW))
    up = share(actual > expected)
    balance = max(1.0 - 4.0 * abs(up - 0.5), 0.0)
    sure = confidence(hits=hits, total=scene.wrong_count, chance=0.0) * balance
    yield PatternMatch(
        pattern=Pattern.OTHER_ORDER,
        confidence=_EVEN_ODDS if sure >= _EVEN_ODDS else 0.0,
        evidence=f"{hits} of {scene.wrong_count} wrong elements are within {_FEW} units in the last place "
        f"({own.name}, at the tensor's usual magnitude), {up:.0%} of them upwards",
    )


def _typical(values: Array) -> float:
    """Root mean square of the finite values."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0
    largest = float(np.abs(finite).max())
    return largest * float(np.sqrt(np.mean((finite / largest) ** 2))) if largest else 0.0
