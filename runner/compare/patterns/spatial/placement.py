"""Where the wrong elements lie: in tiles, in tails, in every k-th row or column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch, confidence
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


def _finding(scene: Scene, pattern: Pattern, area: Array, what: str) -> Iterator[PatternMatch]:
    """A finding that all wrong elements lie in `area` (a mask), if enough of it is wrong."""
    size = int(np.count_nonzero(area))
    hits = int(np.count_nonzero(scene.wrong & area))
    if size == 0 or size == area.size or hits < _SHARE_WITHIN * size:
        return
    sure = confidence(hits=hits, total=scene.wrong_count, chance=size / area.size)
    yield PatternMatch(
        pattern=pattern,
        confidence=sure,
        evidence=f"{hits} of {scene.wrong_count} wrong elements are in {what}, "
        f"where {hits / size:.0%} are wrong",
    )


def _box(scene: Scene) -> Iterator[PatternMatch]:
    """The smallest rectangle around the wrong elements."""
    rows, columns = np.flatnonzero(scene.wrong.any(axis=1)), np.flatnonzero(scene.wrong.any(axis=0))
    top, bottom, left, right = int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1
    area = np.zeros(scene.wrong.shape, bool)
    area[top:bottom, left:right] = True
    all_rows, all_columns = (top, bottom) == (0, scene.rows), (left, right) == (0, scene.columns)
    if all_columns and bottom == scene.rows and not scene.windowed:
        yield from _finding(scene, Pattern.TAIL, area, f"the last {bottom - top} of {scene.rows} rows")
    elif all_rows and right == scene.columns:
        yield from _finding(scene, Pattern.TAIL, area, f"the last {right - left} of {scene.columns} columns")
    else:
        what = f"rows {top}:{bottom}, columns {left}:{right}"
        yield from _finding(scene, Pattern.TILE, area, what)


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
            first = tuple(int(i) for i in np.argwhere(hot)[0])
            what = f"{np.count_nonzero(hot)} of {hot.size} tiles of {height}x{width} (first {first})"
            yield from _finding(scene, Pattern.TILE, area, what)


def _periodic(scene: Scene, share: Array, *, axis: int) -> Iterator[PatternMatch]:
    """Rows or columns that are hit with a period: every k-th, or the same part of every k."""
    hot = share >= max(0.5 * float(share.max()), _SHARE_WITHIN)
    count = int(np.count_nonzero(hot))
    if count < 3 or count > 0.75 * hot.size:
        return
    first = int(np.flatnonzero(hot)[0])
    leading = hot[first : first + _LEADING]
    places = first + np.flatnonzero(leading)
    for period in range(2, min(hot.size // 3, _LONGEST_PERIOD) + 1):
        residues = np.unique(places % period)
        if residues.size == period or places.size < _REGULAR * residues.size * (leading.size // period):
            continue
        again = np.isin(np.arange(hot.size) % period, residues)
        area = np.broadcast_to(again[None, :] if axis else again[:, None], scene.wrong.shape)
        pattern, what = _phase(residues, period, "columns" if axis else "rows")
        yield from _finding(scene, pattern, area, what)
        return


def _phase(residues: Array, period: int, noun: str) -> tuple[Pattern, str]:
    first, last = int(residues[0]), int(residues[-1])
    if residues.size == 1:
        return Pattern.PERIODIC, f"one of every {period} {noun}, from {first} on"
    if last - first + 1 == residues.size and last == period - 1:
        return Pattern.TAIL, f"the last {residues.size} of every {period} {noun}"
    listed = f"{first}:{last + 1}" if last - first + 1 == residues.size else str(residues.tolist())
    return Pattern.PERIODIC, f"{noun} {listed} of every {period}"
