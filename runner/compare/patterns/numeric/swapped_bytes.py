"""The right bits in the wrong order: bytes, halves or nibbles of an element exchanged."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ....tensor.view import DType
from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch
from ..odds import confidence
from ..scene import Scene


def swapped_bytes(scene: Scene) -> Iterator[PatternMatch]:
    """Each wrong element is the expected one with its bytes, halves or nibbles in another order."""
    if scene.dtype is DType.BOOL:
        return
    counted = [
        (int(np.count_nonzero(scene.found_bits == there)), what, there)
        for what, there in _orders(scene.wanted_bits)
    ]
    hits, what, there = max(counted, key=lambda order: order[0])
    if hits:
        yield PatternMatch(
            pattern=Pattern.SWAPPED_BYTES,
            confidence=confidence(
                hits=hits,
                total=there.size,
                chance=scene.accident.chance(there),
                cost=math.log(len(counted)),
            ),
            evidence=f"{hits} of {there.size} wrong elements are the expected ones with {what}",
        )


def _orders(patterns: Array) -> Iterator[tuple[str, Array]]:
    size = patterns.dtype.itemsize
    kind = patterns.dtype.type
    low = kind(int("0f" * size, 16))
    yield "the nibbles of each byte exchanged", ((patterns & low) << kind(4)) | ((patterns >> kind(4)) & low)
    if size > 1:
        yield "their bytes in reverse order", patterns.byteswap()
    if size > 2:
        half = kind(4 * size)
        yield "their halves exchanged", (patterns << half) | (patterns >> half)
