"""Pairs of elements with a wrong sign between them, as a rotary embedding (RoPE) leaves that turns the wrong way.

A rotary embedding (Su et al., 2021) turns pairs of neighbours, or of elements half a head apart, by an angle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...kernels.elements import Array
from ..accident import evenly
from ..finding import Pattern, PatternMatch
from ..odds import confidence, confidence_of_place, share
from ..scene import Scene, shuffled
from .arithmetic import SPACING

_HEADS = (16, 32, 64, 128, 256)
_SURER = 0.01  # by which a larger head must explain more
_TURNED = 32  # steps of the type that a pair must have moved by: less is rounding


def sign_pairs(scene: Scene) -> Iterator[PatternMatch]:
    """One of each pair is negated, or the pairs are as long as expected but turned another way."""
    if not scene.dtype.is_floating or scene.columns < 2:
        return
    best: PatternMatch | None = None
    pairings = list(_pairings(scene.columns))
    for what, second in pairings:
        for found in (
            *_negated(scene, what, second, len(pairings)),
            *_turned(scene, what, second, len(pairings)),
        ):
            if best is None or found.confidence > best.confidence + _SURER:
                best = found
    if best is not None:
        yield best


def _pairings(columns: int) -> Iterator[tuple[str, Array]]:
    """What a pair is, and which columns hold the second of each; firsts and seconds come in the same order."""
    number = np.arange(columns)
    if columns % 2 == 0:
        yield "neighbouring columns", number % 2 == 1
    for head in dict.fromkeys((*_HEADS, columns)):
        if head >= 4 and head % 2 == 0 and columns % head == 0:
            yield f"columns {head // 2} apart in heads of {head}", number % head >= head // 2


def _negated(scene: Scene, what: str, second: Array, pairings: int) -> Iterator[PatternMatch]:
    top = scene.wanted_bits.dtype.type(1 << (8 * scene.dtype.itemsize - 1))
    negated = np.zeros(scene.wrong.shape, bool)
    negated[scene.wrong] = scene.found_bits == scene.wanted_bits ^ top
    for name, half in (("second", second), ("first", ~second)):
        area = np.broadcast_to(half, scene.wrong.shape)
        hits = int(np.count_nonzero(negated & area))
        if hits < 0.5 * scene.wrong_count:
            continue
        count = int(np.count_nonzero(area))
        place = confidence_of_place(
            wrong=(hits, scene.wrong_count),
            sizes=(count, area.size),
            strewn=scene.strewn,
            cost=math.log(4 * pairings),
        )
        value = confidence(
            hits=hits,
            total=scene.wrong_count,
            chance=scene.accident.chance(scene.wanted_bits ^ top),
            cost=math.log(4 * pairings),
        )
        yield PatternMatch(
            pattern=Pattern.SIGN_PAIRS,
            confidence=min(place, value),
            evidence=f"{hits} of {scene.wrong_count} wrong elements are the {name} of a pair ({what}), negated",
        )


def _turned(scene: Scene, what: str, second: Array, pairings: int) -> Iterator[PatternMatch]:
    wrong = scene.wrong[:, second] | scene.wrong[:, ~second]
    at = np.flatnonzero(wrong)
    at = at[evenly(at.size)]
    actual, expected = (
        np.stack([side[:, half].ravel()[at] for half in (~second, second)]).astype(np.float64)
        for side in (scene.actual, scene.expected)
    )
    error = actual - expected
    step = SPACING[scene.dtype]
    length = np.hypot(*expected)
    # A pair whose elements keep their sizes, or exchange them, is not turned but negated in part, or moved.
    resized = (np.sort(np.abs(actual), axis=0) != np.sort(np.abs(expected), axis=0)).any(axis=0)
    large = np.hypot(*error) > _TURNED * step * length
    moved = resized & large & np.isfinite(length) & np.isfinite(error).all(axis=0)
    if np.count_nonzero(moved) < 0.5 * at.size:
        return

    def fits(first: Array, other: Array) -> Array:
        long = np.hypot(first, other)
        near: Array = (np.abs(long - length) <= 2 * step * length) & moved
        return near

    hits = int(np.count_nonzero(fits(*actual)))
    # Errors of other pairs, put on these, and other pairs' values: what is kept of the length by accident.
    chances = (
        fits(*(expected + np.stack([shuffled(error[0]), shuffled(error[1])]))),
        fits(*shuffled(actual.T).T),
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
