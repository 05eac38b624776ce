"""Whole rows or columns of the right values stand in the place of others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch
from ..scene import Scene
from .blocks import exchange, exchange_confidence


def swapped_lines(scene: Scene) -> Iterator[PatternMatch]:
    """Wrong rows are other rows of expected, or wrong columns other columns."""
    if scene.rows < 2 or scene.columns < 2:
        return
    for noun, height, width, origin in (
        ("row", 1, scene.columns, scene.top),
        ("column", scene.rows, 1, scene.left),
    ):
        found = exchange(scene, scene.actual_bits, scene.wrong, height, width)
        if not found.fits.any() or _are_bands(found.fits, found.source):
            continue
        target = int(np.flatnonzero(found.fits)[0])
        source = int(found.source[target])
        yield PatternMatch(
            pattern=Pattern.SWAPPED_LINES,
            confidence=exchange_confidence(scene, found),
            evidence=f"{np.count_nonzero(found.fits)} of {np.count_nonzero(found.wrong)} wrong {noun}s are other "
            f"{noun}s of expected: {noun} {origin + target} holds {noun} {origin + source}",
        )


def _are_bands(fits: Array, source: Array) -> bool:
    """Whether most lines came with their neighbours: then blocks say it better."""
    moved = np.flatnonzero(fits)
    together = (np.diff(moved) == 1) & (np.diff(source[moved]) == 1)
    return int(np.count_nonzero(together)) > moved.size // 2
