"""Other values stand where the result should: a fill, zeros, or what was in the buffer before."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch
from ..odds import confidence
from ..scene import Scene


def never_written(scene: Scene) -> Iterator[PatternMatch]:
    """All wrong elements hold one value: zero, or whatever the buffer was filled with."""
    found = scene.found_bits
    values, counts = np.unique(found, return_counts=True)
    fill, hits = values[counts.argmax()], int(counts.max())
    value = float(scene.wrong_actual[np.flatnonzero(found == fill)[0]])
    beside = scene.wrong_expected[found == fill]
    if value != 0 and (scene.is_limit(value, beside) or _is_overflow(scene, value, beside)):
        return  # clipped, not filled
    # A value other than zero was picked from the data, so its first occurrence proves nothing.
    picked = int(value != 0)
    what = "0" if value == 0 else f"the fill {value:g} (0x{int(fill):0{2 * scene.dtype.itemsize}x})"
    yield PatternMatch(
        pattern=Pattern.NEVER_WRITTEN,
        confidence=confidence(
            hits=hits - picked,
            total=found.size - picked,
            chance=scene.accident.fill_chance(int(fill)),
            cost=picked * math.log(values.size),
        ),
        evidence=f"{hits} of {found.size} wrong elements hold {what}",
    )


def _is_overflow(scene: Scene, value: float, beside: Array) -> bool:
    """Whether the value is infinite and stands only where expected is larger than wherever all is right."""
    right = np.abs(scene.expected[~scene.wrong])
    return math.isinf(value) and right.size > 0 and bool(np.abs(beside).min() > right.max())


def stale(scene: Scene) -> Iterator[PatternMatch]:
    """The wrong elements equal, bit for bit, another tensor's at the same places."""
    for other in scene.others:
        there = scene.bits_of(other)[scene.wrong]
        hits = int(np.count_nonzero(scene.found_bits == there))
        if hits == 0:
            continue
        yield PatternMatch(
            pattern=Pattern.STALE,
            confidence=confidence(
                hits=hits,
                total=there.size,
                chance=scene.accident.chance(there),
                cost=math.log(len(scene.others)),
            ),
            evidence=f"{hits} of {there.size} wrong elements equal those of {other.name}",
        )
