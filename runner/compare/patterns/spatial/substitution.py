"""Other values stand where the result should: a fill, zeros, or what was in the buffer before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..finding import Pattern, PatternMatch, confidence, share
from ..scene import Scene, shuffled


def never_written(scene: Scene) -> Iterator[PatternMatch]:
    """All wrong elements hold one value: zero, or whatever the buffer was filled with."""
    found = scene.actual_bits[scene.wrong]
    values, counts = np.unique(found, return_counts=True)
    fill, hits = values[counts.argmax()], int(counts.max())
    value = scene.wrong_actual[np.flatnonzero(found == fill)[0]]
    beside = scene.wrong_expected[found == fill]
    if value != 0 and scene.is_limit(float(value), beside):
        return  # clipped, not filled
    # A value other than zero was picked from the data, so its first occurrence proves nothing.
    picked = int(value != 0)
    chance = share(scene.expected_bits == fill)
    sure = confidence(hits=hits - picked, total=found.size - picked, chance=chance)
    what = "0" if value == 0 else f"the fill {value!s} (0x{int(fill):0{2 * scene.dtype.itemsize}x})"
    yield PatternMatch(
        pattern=Pattern.NEVER_WRITTEN,
        confidence=sure if found.size - picked > 0 else 0.0,
        evidence=f"{hits} of {found.size} wrong elements hold {what}",
    )


def stale(scene: Scene) -> Iterator[PatternMatch]:
    """The wrong elements equal, bit for bit, another tensor's at the same places."""
    found = scene.actual_bits[scene.wrong]
    for other in scene.others:
        there = scene.bits_of(other)[scene.wrong]
        hits = int(np.count_nonzero(found == there))
        chance = share(found == shuffled(there))
        yield PatternMatch(
            pattern=Pattern.STALE,
            confidence=confidence(hits=hits, total=found.size, chance=chance),
            evidence=f"{hits} of {found.size} wrong elements equal those of {other.name}",
        )
