"""The right values in the opposite order along an axis."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..finding import Pattern, PatternMatch
from ..scene import Scene
from .movement import moved_confidence

_FEW = 3
"""Places along an axis of which a reversal leaves no two right."""


def reversed_axis(scene: Scene) -> Iterator[PatternMatch]:
    """The elements are those of expected with one axis, or all of them, read backwards."""
    if scene.windowed:
        return  # the other end lies outside
    tensor = scene.expected_bits.reshape(scene.shape)
    axes = [axis for axis, extent in enumerate(scene.shape) if extent > 1]
    choices = [(axis,) for axis in axes] + ([tuple(axes)] if len(axes) > 1 else [])
    for flipped in choices:
        if len(flipped) == 1 and _is_exchange(scene, flipped[0]):
            continue
        moved = np.flip(tensor, flipped).reshape(scene.wrong.shape)
        there = moved[scene.wrong]
        hits = int(np.count_nonzero(scene.found_bits == there))
        if hits < 0.5 * there.size:
            continue
        what = f"axis {flipped[0]}" if len(flipped) == 1 else "all axes"
        yield PatternMatch(
            pattern=Pattern.REVERSED,
            confidence=moved_confidence(scene, there, hits, math.log(len(choices)), moved),
            evidence=f"{hits} of {there.size} wrong elements are as in expected with {what} reversed",
        )


def _is_exchange(scene: Scene, axis: int) -> bool:
    """Whether two places alone along an axis, which has more, hold wrong elements: then these changed places."""
    wrong = scene.wrong.reshape(scene.shape)
    others = tuple(other for other in range(wrong.ndim) if other != axis)
    return scene.shape[axis] > _FEW and int(np.count_nonzero(wrong.any(axis=others))) == 2
