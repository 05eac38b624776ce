"""NaN or Inf that came from one place and filled a row, a column, a block, or all that follows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch, confidence
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
    for area, what in _areas(wild):
        size = int(np.count_nonzero(area))
        hits = int(np.count_nonzero(wild & area))
        if size == wild.size or hits < _FILLED * size:
            continue
        sure = confidence(hits=hits, total=count, chance=size / wild.size)
        if best is None or sure > best.confidence:
            evidence = f"{hits} of {count} NaN or Inf fill {what}; the first is at row {row}, column {column}"
            best = PatternMatch(pattern=Pattern.NON_FINITE_SPREAD, confidence=sure, evidence=evidence)
    if best is not None:
        yield best


def _areas(wild: Array) -> Iterator[tuple[Array, str]]:
    rows, columns = wild.mean(axis=1) >= _FILLED, wild.mean(axis=0) >= _FILLED
    for on_rows, on_columns in ((True, False), (False, True), (True, True)):
        area = (rows[:, None] & on_rows) | (columns[None, :] & on_columns)
        if area.any():
            yield area, " and ".join(_lines(rows, "row", on_rows) + _lines(columns, "column", on_columns))
    after = np.zeros(wild.size, bool)
    first = int(np.flatnonzero(wild)[0])
    after[first:] = True
    yield after.reshape(wild.shape), "everything from the first on"
    box = np.zeros(wild.shape, bool)
    at_rows, at_columns = np.flatnonzero(wild.any(axis=1)), np.flatnonzero(wild.any(axis=0))
    box[at_rows[0] : at_rows[-1] + 1, at_columns[0] : at_columns[-1] + 1] = True
    corners = f"rows {at_rows[0]}:{at_rows[-1] + 1}, columns {at_columns[0]}:{at_columns[-1] + 1}"
    yield box, corners


def _lines(filled: Array, noun: str, on: bool) -> list[str]:
    numbers = np.flatnonzero(filled)
    if not on or numbers.size == 0:
        return []
    if numbers.size == 1:
        return [f"{noun} {numbers[0]}"]
    return [f"{numbers.size} {noun}s from {numbers[0]} to {numbers[-1]}"]
