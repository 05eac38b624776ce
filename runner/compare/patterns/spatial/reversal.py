"""The right values in the opposite order along an axis."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..finding import Pattern, PatternMatch
from ..scene import Scene
from .movement import moved_confidence


def reversed_axis(scene: Scene) -> Iterator[PatternMatch]:
    """The elements are those of expected with one axis, or all of them, read backwards."""
    if scene.windowed:
        return  # the other end lies outside
    tensor = scene.expected_bits.reshape(scene.shape)
    axes = [axis for axis, extent in enumerate(scene.shape) if extent > 1]
    choices = [(axis,) for axis in axes] + ([tuple(axes)] if len(axes) > 1 else [])
    for flipped in choices:
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
