"""The right values at the wrong places: shifted or transposed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from ....tensor.view import DType
from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch
from ..odds import confidence, confidence_of_whole
from ..scene import Scene

_SAMPLED = 4096
_TRANSPOSED_BLOCKS = (8, 16, 32, 64, 128)
_FRACTALS = ((16, 8), (16, 16), (16, 32))
_MOST_TRANSPOSITIONS = 20
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: odd, and its bits look random


def shifted(scene: Scene) -> Iterator[PatternMatch]:
    """actual[i] = expected[i + k], counted in row-major order; also where a row or the whole wraps around."""
    steps = _common_steps(scene)
    if not steps:
        return
    main, *more = steps
    wanted = scene.expected_bits.ravel()
    places = np.flatnonzero(scene.wrong)
    wraps = [step for step in more if abs(step - main) in (scene.columns, wanted.size)]
    there = _moved(wanted, places, main)
    for step in wraps:
        there = np.where(scene.found_bits == there, there, _moved(wanted, places, step))
    hits = int(np.count_nonzero(scene.found_bits == there))
    rows, rest = divmod(abs(main), scene.columns)
    distance = f"{abs(main)} elements" if rest or not rows else f"{rows} rows"
    halves = wraps and 2 * abs(main) == scene.columns
    wrapping = ", wrapping around" + (": halves of rows that changed places" if halves else "")
    yield PatternMatch(
        pattern=Pattern.SHIFTED,
        confidence=moved_confidence(
            scene, there, hits, math.log(2 * wanted.size), _moved_matrix(scene, main)
        ),
        evidence=f"{hits} of {places.size} wrong elements are those {distance} "
        f"{'further on' if main > 0 else 'further back'}{wrapping if wraps else ''}",
    )


def _moved_matrix(scene: Scene, step: int) -> Array:
    return np.roll(scene.expected_bits.ravel(), -step).reshape(scene.wrong.shape)


def moved_confidence(scene: Scene, there: Array, hits: int, cost: float, whole: Array | None) -> float:
    """How sure it is that the wrong elements, `hits` of them, are the patterns `there`.

    Where values are few a wrong element proves little; then `whole`, what each element of the matrix would be if all
    of them had moved, may still prove it by those that are right.
    """
    chance = scene.accident.chance(there)
    sure = confidence(hits=hits, total=there.size, chance=chance, cost=cost)
    if whole is None or sure >= 0.5 or hits < 0.9 * there.size:
        return sure
    agree = int(np.count_nonzero(scene.actual_bits == whole))
    unmoved = int(np.count_nonzero(scene.expected_bits == whole))
    return max(sure, confidence_of_whole(agree=agree, unmoved=unmoved, total=whole.size, cost=cost))


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
    best: tuple[int, str, Array] | None = None
    for what, moved in _transpositions(scene):
        hits = int(np.count_nonzero(scene.found_bits == moved[scene.wrong]))
        if hits and (best is None or hits > best[0]):
            best = hits, what, moved
    if best is None:
        return
    hits, what, moved = best
    yield PatternMatch(
        pattern=Pattern.TRANSPOSED,
        confidence=moved_confidence(scene, moved[scene.wrong], hits, math.log(_MOST_TRANSPOSITIONS), moved),
        evidence=f"{hits} of {scene.wrong_count} wrong elements are as in expected with {what}",
    )


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
