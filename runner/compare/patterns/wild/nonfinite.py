"""NaN or Inf that came from one place and filled a row, a column, a block, or all that follows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch
from ..odds import confidence_of_place, log_ways
from ..scene import Scene

_FILLED = 0.9


def spread(scene: Scene) -> Iterator[PatternMatch]:
    """Elements that are not finite, though expected, fill one simple area."""
    if not scene.dtype.is_floating:
        return
    wild = ~np.isfinite(scene.actual) & np.isfinite(scene.expected)
    count = int(np.count_nonzero(wild))
    if count == 0:
        return
    row, column = (int(i) for i in np.argwhere(wild)[0])
    best: PatternMatch | None = None
    for area, what, cost in _areas(scene, wild):
        size = int(np.count_nonzero(area))
        hits = int(np.count_nonzero(wild & area))
        if size == wild.size or hits < _FILLED * size:
            continue
        sure = confidence_of_place(
            wrong=(hits, count), sizes=(size, wild.size), strewn=log_ways(wild.size, count), cost=cost
        )
        if best is None or sure > best.confidence:
            first = f"the first is at row {scene.top + row}, column {scene.left + column}"
            evidence = f"{hits} of {count} NaN or Inf fill {what}; {first}"
            best = PatternMatch(pattern=Pattern.NON_FINITE_SPREAD, confidence=sure, evidence=evidence)
    if best is not None:
        yield best


def _areas(scene: Scene, wild: Array) -> Iterator[tuple[Array, str, float]]:
    """Areas, what they are called, and the nats that it takes to name one."""
    rows, columns = wild.mean(axis=1) >= _FILLED, wild.mean(axis=0) >= _FILLED
    costs = [log_ways(line.size, int(np.count_nonzero(line))) for line in (rows, columns)]
    for on_rows, on_columns in ((True, False), (False, True), (True, True)):
        area = (rows[:, None] & on_rows) | (columns[None, :] & on_columns)
        if area.any():
            parts = (
                _lines(rows, "row", scene.top) * on_rows + _lines(columns, "column", scene.left) * on_columns
            )
            yield area, " and ".join(parts), costs[0] * on_rows + costs[1] * on_columns
    after = np.zeros(wild.size, bool)
    first = int(np.flatnonzero(wild)[0])
    after[first:] = True
    yield after.reshape(wild.shape), "everything from the first on", math.log(wild.size)
    box = np.zeros(wild.shape, bool)
    at_rows, at_columns = np.flatnonzero(wild.any(axis=1)), np.flatnonzero(wild.any(axis=0))
    box[at_rows[0] : at_rows[-1] + 1, at_columns[0] : at_columns[-1] + 1] = True
    corners = (
        f"rows {scene.top + at_rows[0]}:{scene.top + at_rows[-1] + 1}, "
        f"columns {scene.left + at_columns[0]}:{scene.left + at_columns[-1] + 1}"
    )
    yield box, corners, log_ways(wild.shape[0] + 1, 2) + log_ways(wild.shape[1] + 1, 2)


def _lines(filled: Array, noun: str, origin: int) -> list[str]:
    numbers = np.flatnonzero(filled) + origin
    if numbers.size == 0:
        return []
    if numbers.size == 1:
        return [f"{noun} {numbers[0]}"]
    return [f"{numbers.size} {noun}s from {numbers[0]} to {numbers[-1]}"]
