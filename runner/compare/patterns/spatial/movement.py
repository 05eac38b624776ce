"""The right values at the wrong places: shifted, transposed, or with blocks exchanged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ....tensor.view import DType
from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch, confidence, share
from ..scene import Scene, shuffled

_SAMPLED = 4096
_BLOCK_HEIGHTS = (1, 8, 16, 32, 64, 128, 256)
_BLOCK_WIDTHS = (8, 16, 32, 64, 128, 256)
_TRANSPOSED_BLOCKS = (8, 16, 32, 64, 128)
_FRACTALS = ((16, 8), (16, 16), (16, 32))
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: odd, and its bits look random


def shifted(scene: Scene) -> Iterator[PatternMatch]:
    """actual[i] = expected[i + k], counted in row-major order; also where a row or the whole wraps around."""
    steps = _common_steps(scene)
    if not steps:
        return
    main, *more = steps
    found, wanted = scene.actual_bits.ravel(), scene.expected_bits.ravel()
    places = np.flatnonzero(scene.wrong)
    wraps = [step for step in more if abs(step - main) in (scene.columns, found.size)]
    moved = _moved(wanted, places, main)
    fits = found[places] == moved
    for step in wraps:
        fits |= found[places] == _moved(wanted, places, step)
    chance = (1 + len(wraps)) * share(found[places] == shuffled(moved))
    rows, rest = divmod(abs(main), scene.columns)
    distance = f"{abs(main)} elements" if rest or not rows else f"{rows} rows"
    yield PatternMatch(
        pattern=Pattern.SHIFTED,
        confidence=confidence(hits=int(np.count_nonzero(fits)), total=places.size, chance=min(chance, 1.0)),
        evidence=f"{np.count_nonzero(fits)} of {places.size} wrong elements are those {distance} "
        f"{'further on' if main > 0 else 'further back'}{', wrapping around' if wraps else ''}",
    )


def _moved(values: Array, places: Array, step: int) -> Array:
    """`values[places + step]`; beyond the ends the value that stands at the place itself, which is no hit."""
    source = places + step
    return values[np.where((source >= 0) & (source < values.size), source, places)]


def _common_steps(scene: Scene) -> list[int]:
    """The steps by which runs of wrong elements are most often found again in expected, most frequent first."""
    width = 48 if scene.dtype is DType.BOOL else 8
    if scene.wrong.size <= width:
        return []
    at = np.flatnonzero(scene.wrong)
    at = at[at <= scene.wrong.size - width]
    at = at[np.linspace(0, at.size - 1, min(_SAMPLED, at.size)).astype(int)] if at.size else at
    known = _run_hashes(scene.expected_bits.ravel(), width)
    sought = _run_hashes(scene.actual_bits.ravel(), width)[at]
    order = np.argsort(known, kind="stable")
    slot = np.minimum(np.searchsorted(known[order], sought), known.size - 1)
    source = order[slot]
    steps = (source - at)[known[source] == sought]
    values, counts = np.unique(steps[steps != 0], return_counts=True)
    ranked = values[np.argsort(-counts, kind="stable")]
    return [int(step) for step in ranked[:4]]


def _run_hashes(values: Array, width: int) -> Array:
    """A hash of every run of `width` values."""
    count = values.size - width + 1
    hashes = np.zeros(count, np.uint64)
    for k in range(width):
        hashes = (hashes + values[k : k + count].astype(np.uint64) + np.uint64(1)) * _MULTIPLIER
        hashes ^= hashes >> np.uint64(29)
    return hashes


def transposed(scene: Scene) -> Iterator[PatternMatch]:
    """The elements are those of expected with two axes exchanged, as a whole or block by block."""
    found = scene.actual_bits[scene.wrong]
    best: PatternMatch | None = None
    for what, moved in _transpositions(scene):
        there = moved[scene.wrong]
        hits = int(np.count_nonzero(found == there))
        sure = confidence(hits=hits, total=found.size, chance=share(found == shuffled(there)))
        if best is None or sure > best.confidence:
            evidence = f"{hits} of {found.size} wrong elements are as in expected with {what}"
            best = PatternMatch(pattern=Pattern.TRANSPOSED, confidence=sure, evidence=evidence)
    if best is not None:
        yield best


def _transpositions(scene: Scene) -> Iterator[tuple[str, Array]]:
    wanted, rows, columns = scene.expected_bits, scene.rows, scene.columns
    tensor = wanted.reshape(scene.shape)
    for i, j in itertools.combinations(range(len(scene.shape)), 2):
        if scene.shape[i] > 1 and scene.shape[j] > 1:
            yield f"axes {i} and {j} exchanged", tensor.swapaxes(i, j).reshape(rows, columns)
    if rows > 1 and columns > 1 and rows != columns:
        yield "rows and columns exchanged, read back by the other shape", wanted.reshape(columns, rows).T
    for side in _TRANSPOSED_BLOCKS:
        if rows % side == columns % side == 0 and (rows, columns) != (side, side):
            blocks = wanted.reshape(rows // side, side, columns // side, side)
            yield f"each {side}x{side} block transposed", blocks.transpose(0, 3, 2, 1).reshape(rows, columns)
    for height, width in _FRACTALS:
        if rows % height == columns % width == 0 and columns > width:
            blocks = wanted.reshape(rows // height, height, columns // width, width)
            yield (
                f"{height}x{width} fractals stored column of blocks by column of blocks (NZ)",
                blocks.transpose(2, 0, 1, 3).reshape(rows, columns),
            )
            strips = wanted.reshape(columns // width, rows // height, height, width)
            yield (
                f"{height}x{width} fractals (NZ) read as if they were rows",
                strips.transpose(1, 2, 0, 3).reshape(rows, columns),
            )


def permuted_blocks(scene: Scene) -> Iterator[PatternMatch]:
    """Whole blocks of expected stand in the place of other blocks."""
    best: tuple[float, int, PatternMatch] | None = None
    for height, width in itertools.product(_BLOCK_HEIGHTS, (*_BLOCK_WIDTHS, scene.columns)):
        if scene.rows % height or scene.columns % width or height * width == scene.wrong.size:
            continue
        if height * width == 1 or (width > scene.columns // 2 and width != scene.columns):
            continue
        finding, explained = _exchange(scene, height, width)
        if explained and (best is None or (explained, height * width) > best[:2]):
            best = (explained, height * width, finding)
    if best is not None:
        yield best[2]


def _exchange(scene: Scene, height: int, width: int) -> tuple[PatternMatch, float]:
    """A finding for blocks of one size, and the share of the wrong blocks that it explains, in steps of 5 %."""
    fits, wrong, example = _exchanged(scene, height, width)
    inside = np.broadcast_to(fits[:, None], (fits.size, height * width)) & _blocks(scene.wrong, height, width)
    hits, total = int(np.count_nonzero(fits)), int(np.count_nonzero(wrong))
    evidence = f"{hits} of {total} wrong blocks of {height}x{width} are other blocks of expected{example}"
    sure = confidence(hits=int(np.count_nonzero(inside)), total=scene.wrong_count, chance=0.0)
    return PatternMatch(pattern=Pattern.PERMUTED_BLOCKS, confidence=sure, evidence=evidence), round(
        20 * hits / total
    ) / 20


def _exchanged(scene: Scene, height: int, width: int) -> tuple[Array, Array, str]:
    """Which blocks are wrong and equal another expected block, which are wrong, and one such pair in words."""
    wrong: Array = np.any(_blocks(scene.wrong, height, width), axis=1)
    known = _block_hashes(_blocks(scene.expected_bits, height, width))
    found = _block_hashes(_blocks(scene.actual_bits, height, width))
    varied = _varied(_blocks(scene.actual_bits, height, width))
    order = np.argsort(known, kind="stable")
    source = order[np.minimum(np.searchsorted(known[order], found), known.size - 1)]
    moved = source != np.arange(known.size)
    fits: Array = np.logical_and.reduce([wrong, varied, known[source] == found, moved])
    if not fits.any():
        return fits, wrong, ""
    across = scene.columns // width
    target = int(np.flatnonzero(fits)[0])
    return fits, wrong, f": {divmod(target, across)} holds {divmod(int(source[target]), across)}"


def _blocks(matrix: Array, height: int, width: int) -> Array:
    """(blocks, elements of one), blocks in row-major order."""
    rows, columns = matrix.shape
    split = matrix.reshape(rows // height, height, columns // width, width)
    return split.transpose(0, 2, 1, 3).reshape(-1, height * width)


def _block_hashes(blocks: Array) -> Array:
    places = np.arange(1, blocks.shape[1] + 1, dtype=np.uint64) * _MULTIPLIER
    mixed = (blocks.astype(np.uint64) + np.uint64(1)) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(31)
    return (mixed * (places | np.uint64(1))).sum(axis=1, dtype=np.uint64)


def _varied(blocks: Array) -> Array:
    """Blocks that hold more than one value: equal fills prove nothing."""
    return (blocks != blocks[:, :1]).any(axis=1)
