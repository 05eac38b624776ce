"""Where the wrong elements lie: in tiles, in tails, in every k-th row or column."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch
from ..odds import confidence_of_place, log_ways
from ..scene import Scene

_LONGEST_PERIOD = 512
_LEADING = 1 << 14  # rows or columns in which a period is sought
_REGULAR = 0.95  # share of its places that a period must hit
_SHARE_WITHIN = 0.25  # of a structure's elements that must be wrong before it counts as hit
_FEWEST = 4
_SIDES = (256, 128, 64, 32, 16, 8)


def placement(scene: Scene) -> Iterator[PatternMatch]:
    """The one structure that describes best where the wrong elements are."""
    if scene.wrong_count < _FEWEST:
        return
    candidates = [
        *_box(scene),
        *_tiles(scene),
        *_periodic(scene, scene.wrong.mean(axis=0), axis=1),
        *_periodic(scene, scene.wrong.mean(axis=1), axis=0),
    ]
    if candidates:
        yield max(candidates, key=lambda finding: finding.confidence)


def _finding(scene: Scene, pattern: Pattern, area: Array, what: str, cost: float) -> Iterator[PatternMatch]:
    """A finding that the wrong elements of the matrix lie in `area` (a mask), if enough of it is wrong."""
    size, hits = int(np.count_nonzero(area)), int(np.count_nonzero(scene.wrong & area))
    for match in _match(scene, pattern, what, (hits, scene.wrong_count), (size, area.size), cost):
        yield replace(match, evidence=match.evidence + scene.part)


def _match(
    scene: Scene, pattern: Pattern, what: str, wrong: tuple[int, int], sizes: tuple[int, int], cost: float
) -> Iterator[PatternMatch]:
    """`wrong` and `sizes`: wrong elements, and all, within the area and in the whole."""
    hits, size = wrong[0], sizes[0]
    if size == 0 or size == sizes[1] or hits < _SHARE_WITHIN * size:
        return
    yield PatternMatch(
        pattern=pattern,
        confidence=confidence_of_place(
            wrong=wrong, sizes=sizes, strewn=scene.strewn * wrong[1] / scene.wrong_count, cost=cost
        ),
        evidence=f"{hits} of {wrong[1]} wrong elements are in {what}, where {hits / size:.0%} are wrong",
    )


def _box(scene: Scene) -> Iterator[PatternMatch]:
    """The smallest rectangle around all wrong elements of the tensor."""
    around, rows, columns = scene.extent, scene.tensor_rows, scene.tensor_columns
    height, width = around.bottom - around.top, around.right - around.left
    if width == columns and around.bottom == rows:
        pattern, what = Pattern.TAIL, f"the last {height} of {rows} rows"
    elif height == rows and around.right == columns:
        pattern, what = Pattern.TAIL, f"the last {width} of {columns} columns"
    else:
        pattern = Pattern.TILE
        what = f"rows {around.top}:{around.bottom}, columns {around.left}:{around.right}"
    sizes = (height * width, rows * columns)
    cost = log_ways(rows + 1, 2) + log_ways(columns + 1, 2)
    yield from _match(scene, pattern, what, (around.count, around.count), sizes, cost)


def _tiles(scene: Scene) -> Iterator[PatternMatch]:
    """A few tiles of a regular tiling, the largest tiling that tells."""
    for height in _SIDES:
        for width in _SIDES:
            if scene.rows % height or scene.columns % width:
                continue
            grid = scene.wrong.reshape(scene.rows // height, height, scene.columns // width, width)
            share = grid.mean(axis=(1, 3))
            hot = share >= 0.5 * share.max()
            if share.max() < _SHARE_WITHIN or np.count_nonzero(hot) > hot.size // 2:
                continue
            area = np.repeat(np.repeat(hot, height, axis=0), width, axis=1)
            row, column = (int(i) for i in np.argwhere(hot)[0])
            first = f"rows from {scene.top + row * height}, columns from {scene.left + column * width}"
            what = f"{np.count_nonzero(hot)} of {hot.size} tiles of {height}x{width} (the first: {first})"
            cost = math.log(len(_SIDES) ** 2) + log_ways(hot.size, int(np.count_nonzero(hot)))
            yield from _finding(scene, Pattern.TILE, area, what, cost)


def _periodic(scene: Scene, share: Array, *, axis: int) -> Iterator[PatternMatch]:
    """Rows or columns that are hit with a period: every k-th, or the same part of every k."""
    hot = share >= max(0.5 * float(share.max()), _SHARE_WITHIN)
    count = int(np.count_nonzero(hot))
    if count < 3 or count > 0.75 * hot.size:
        return
    first = int(np.flatnonzero(hot)[0])
    leading = hot[first : first + _LEADING]
    places = first + np.flatnonzero(leading)
    origin = scene.left if axis else scene.top
    for period in range(2, min(hot.size // 3, _LONGEST_PERIOD) + 1):
        residues = np.unique(places % period)
        if residues.size == period or places.size < _REGULAR * residues.size * (leading.size // period):
            continue
        again = np.isin(np.arange(hot.size) % period, residues)
        area = np.broadcast_to(again[None, :] if axis else again[:, None], scene.wrong.shape)
        pattern, what = _phase(np.sort((residues + origin) % period), period, "columns" if axis else "rows")
        cost = math.log(2 * _LONGEST_PERIOD) + log_ways(period, int(residues.size))
        yield from _finding(scene, pattern, area, what, cost)
        return


def _phase(residues: Array, period: int, noun: str) -> tuple[Pattern, str]:
    first, last = int(residues[0]), int(residues[-1])
    if residues.size == 1:
        return Pattern.PERIODIC, f"one of every {period} {noun}, from {first} on"
    if last - first + 1 == residues.size and last == period - 1:
        return Pattern.TAIL, f"the last {residues.size} of every {period} {noun}"
    listed = f"{first}:{last + 1}" if last - first + 1 == residues.size else str(residues.tolist())
    return Pattern.PERIODIC, f"{noun} {listed} of every {period}"
