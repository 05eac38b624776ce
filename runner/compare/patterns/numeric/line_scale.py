"""The result times a factor of each row, column or group: a quantization's scale that was lost or taken twice."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch
from ..odds import confidence, share
from ..scene import Scene, shuffled
from .arithmetic import SPACING, slack

_GROUPS = (128, 64, 32)
_SAMPLED_LINES = 256
_SAMPLED_LENGTH = 512
_FEWEST = 3  # wrong elements of a line: the first one fixes its factor
_SURER = 0.01  # by which groups must explain more than whole rows and columns do
_NEAR_ONE = 8  # units in the last place of 1 that a factor of noise may be off


def scaled_lines(scene: Scene) -> Iterator[PatternMatch]:
    """actual = s * expected with one s a row, a column, or a group of neighbours in a row, up to rounding."""
    best: PatternMatch | None = None
    for noun, actual, expected, wrong in _lines(scene):
        found = _of_lines(scene, noun, actual, expected, wrong)
        if found is not None and (best is None or found.confidence > best.confidence + _SURER):
            best = found
    if best is not None:
        yield best


def _lines(scene: Scene) -> Iterator[tuple[str, Array, Array, Array]]:
    """What lines are called, and some of them, one a row: actual, expected, and which of their elements are wrong."""
    sides = (scene.actual, scene.expected, scene.wrong)
    if scene.rows > 1:
        yield "row", *_sampled(sides)
    if scene.columns > 1 and scene.rows > 1:
        yield "column", *_sampled(tuple(side.T for side in sides))
    for size in _GROUPS:
        if scene.columns % size == 0 and scene.columns > size:
            yield (
                f"group of {size} columns of a row",
                *_sampled(tuple(side.reshape(-1, size) for side in sides)),
            )


def _sampled(sides: tuple[Array, ...]) -> tuple[Array, Array, Array]:
    """At most so many lines of those that have wrong elements, cut to a bounded length."""
    actual, expected, wrong = (side[:, :_SAMPLED_LENGTH] for side in sides)
    at = np.flatnonzero(wrong.any(axis=1))
    at = at[np.linspace(0, at.size - 1, min(at.size, _SAMPLED_LINES)).astype(int)] if at.size else at
    return actual[at].astype(np.float64), expected[at].astype(np.float64), wrong[at]


def _of_lines(scene: Scene, noun: str, actual: Array, expected: Array, wrong: Array) -> PatternMatch | None:
    usable = wrong & np.isfinite(actual) & np.isfinite(expected) & (expected != 0)
    # Of one value alone any factor is that of its line.
    varied = np.where(usable, expected, -np.inf).max(axis=1) > np.where(usable, expected, np.inf).min(axis=1)
    told = varied & (usable.sum(axis=1) >= _FEWEST)
    actual, expected, usable = actual[told], expected[told], usable[told]
    if actual.shape[0] < 2:
        return None
    a, e = np.where(usable, actual, 0.0), np.where(usable, expected, 0.0)
    factors = (a * e).sum(axis=1) / (e * e).sum(axis=1)
    one = _NEAR_ONE * SPACING[scene.dtype] if scene.dtype.is_floating else 1.0 / np.abs(e).max(axis=1)
    other = np.abs(factors - 1.0) > one

    def fits(values: Array) -> Array:
        near: Array = np.abs(a - factors[:, None] * values) <= slack(scene.dtype, a)
        return near & usable & other[:, None]

    spent = int(np.count_nonzero(other))  # a line's first element fixes its factor
    total = int(np.count_nonzero(wrong))
    hits = int(np.count_nonzero(fits(e))) - spent
    unlike = np.zeros(e.shape)
    unlike[usable] = shuffled(e[usable])
    chance = share(fits(unlike)[usable])
    low, high = float(factors.min()), float(factors.max())
    return PatternMatch(
        pattern=Pattern.SCALED_LINES,
        confidence=confidence(hits=hits, total=total - spent, chance=chance, cost=math.log(2 + len(_GROUPS))),
        evidence=f"{hits + spent} of {total} wrong elements are the expected ones times a factor of their {noun}, "
        f"from {low:.6g} to {high:.6g}",
    )
