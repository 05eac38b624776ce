"""Whole blocks of the right values stand in the place of other blocks; lines are blocks too."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch
from ..odds import confidence
from ..scene import Scene

_HEIGHTS = (1, 8, 16, 32, 64, 128, 256)
_WIDTHS = (8, 16, 32, 64, 128, 256)
_SEED = 2026
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: odd, and its bits look random


@dataclass(frozen=True, kw_only=True, eq=False)
class _Exchange:
    """Blocks of one size: which are wrong, which of these equal another block of expected, and which one that is."""

    height: int
    width: int
    wrong: Array
    fits: Array
    source: Array

    @property
    def explained(self) -> float:
        """The share of the wrong blocks that fit, in steps of 5 %."""
        return round(20 * int(np.count_nonzero(self.fits)) / max(int(np.count_nonzero(self.wrong)), 1)) / 20


def permuted_blocks(scene: Scene) -> Iterator[PatternMatch]:
    """Whole blocks of expected stand in the place of other blocks."""
    best: _Exchange | None = None
    for height, width in itertools.product(_HEIGHTS, (*_WIDTHS, scene.columns)):
        if scene.rows % height or scene.columns % width or height * width == scene.wrong.size:
            continue
        if height * width == 1 or (width > scene.columns // 2 and width != scene.columns):
            continue
        tried = exchange(scene, scene.actual_bits, scene.wrong, height, width)
        if tried.explained and (best is None or _rank(tried) > _rank(best)):
            best = tried
    if best is not None:
        across = scene.columns // best.width
        target = int(np.flatnonzero(best.fits)[0])
        places = (divmod(place, across) for place in (target, int(best.source[target])))
        held, there = (
            f"rows from {scene.top + row * best.height}, columns from {scene.left + column * best.width}"
            for row, column in places
        )
        yield PatternMatch(
            pattern=Pattern.PERMUTED_BLOCKS,
            confidence=exchange_confidence(scene, best),
            evidence=f"{np.count_nonzero(best.fits)} of {np.count_nonzero(best.wrong)} wrong blocks of "
            f"{best.height}x{best.width} are other blocks of expected: {held} holds {there}",
        )


def _rank(tried: _Exchange) -> tuple[float, int]:
    return tried.explained, tried.height * tried.width


def exchange_confidence(scene: Scene, found: _Exchange) -> float:
    """How sure an exchange is, against wrong elements that are put anywhere, and those that exchange their values."""
    height, width = found.height, found.width
    inside = np.broadcast_to(found.fits[:, None], (found.fits.size, height * width)) & blocks_of(
        scene.wrong, height, width
    )
    hits = int(np.count_nonzero(inside))
    by_chance = max(_fitting(scene, surrogate, height, width) for surrogate in _surrogates(scene))
    blocks = int(np.count_nonzero(found.fits))
    return confidence(
        hits=hits,
        total=scene.wrong_count,
        chance=max(by_chance, scene.accident.collision),
        cost=blocks * math.log(found.fits.size) + math.log(len(_HEIGHTS) * len(_WIDTHS)),
    )


def _surrogates(scene: Scene) -> Iterator[Array]:
    random = np.random.default_rng(_SEED)
    values = random.permutation(scene.found_bits)
    exchanged, strewn = scene.expected_bits.copy(), scene.expected_bits.copy()
    exchanged[scene.wrong] = values
    yield exchanged
    strewn.ravel()[random.choice(strewn.size, values.size, replace=False)] = values
    yield strewn


def _fitting(scene: Scene, actual: Array, height: int, width: int) -> float:
    """The share of the wrong blocks that are other blocks, where `actual` was found."""
    found = exchange(scene, actual, actual != scene.expected_bits, height, width)
    return int(np.count_nonzero(found.fits)) / max(int(np.count_nonzero(found.wrong)), 1)


def exchange(scene: Scene, actual: Array, wrong: Array, height: int, width: int) -> _Exchange:
    """What became of the blocks of one size, if `actual` was found and is wrong where `wrong` says so."""
    at: Array = np.any(blocks_of(wrong, height, width), axis=1)
    known = block_hashes(blocks_of(scene.expected_bits, height, width))
    blocks = blocks_of(actual, height, width)
    found = block_hashes(blocks)
    order = np.argsort(known, kind="stable")
    source = order[np.minimum(np.searchsorted(known[order], found), known.size - 1)]
    varied = (blocks != blocks[:, :1]).any(axis=1)  # equal fills prove nothing
    moved = source != np.arange(known.size)
    fits: Array = np.logical_and.reduce([at, varied, known[source] == found, moved])
    return _Exchange(height=height, width=width, wrong=at, fits=fits, source=source)


def blocks_of(matrix: Array, height: int, width: int) -> Array:
    """(blocks, elements of one), blocks in row-major order."""
    rows, columns = matrix.shape
    split = matrix.reshape(rows // height, height, columns // width, width)
    return split.transpose(0, 2, 1, 3).reshape(-1, height * width)


def block_hashes(blocks: Array) -> Array:
    """One number a block, equal for equal blocks."""
    places = np.arange(1, blocks.shape[1] + 1, dtype=np.uint64) * _MULTIPLIER
    mixed = (blocks.astype(np.uint64) + np.uint64(1)) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(31)
    return (mixed * (places | np.uint64(1))).sum(axis=1, dtype=np.uint64)
