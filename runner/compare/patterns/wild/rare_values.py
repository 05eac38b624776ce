"""NaN or Inf exactly where the result, or an input, has values that few elements have."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ....tensor.chunks import run_values
from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch
from ..odds import confidence_of_place, log_ways
from ..scene import Scene

_FILLED = 0.9
_KINDS = 5


def wild_at_values(scene: Scene) -> Iterator[PatternMatch]:
    """Elements that are not finite, though expected, are those whose expected value or input is the most extreme."""
    if not scene.dtype.is_floating:
        return
    tame = np.isfinite(scene.expected).ravel()
    wild = ~np.isfinite(scene.actual).ravel() & tame
    count = int(np.count_nonzero(wild))
    if count == 0 or count == np.count_nonzero(tame):
        return
    best: PatternMatch | None = None
    sources = list(_sources(scene))
    for name, values in sources:
        for area, what in _extremes(values, wild, tame):
            size, hits = int(np.count_nonzero(area)), int(np.count_nonzero(area & wild))
            if hits < _FILLED * size:
                continue
            whole = int(np.count_nonzero(tame))
            sure = confidence_of_place(
                wrong=(hits, count),
                sizes=(size, whole),
                strewn=log_ways(whole, count),
                cost=math.log(_KINDS * len(sources)) + math.log(abs(size - count) + 1),
            )
            if best is None or sure > best.confidence:
                evidence = (
                    f"{hits} of {count} NaN or Inf stand where {name} is {what}, which {size} elements are"
                )
                best = PatternMatch(pattern=Pattern.WILD_AT_VALUES, confidence=sure, evidence=evidence)
    if best is not None:
        yield best


def _sources(scene: Scene) -> Iterator[tuple[str, Array]]:
    """Values that may decide: the inputs of one element each, and what is expected; flat, as float64."""
    for operand in scene.operands:
        if operand.numel == scene.tensor_rows * scene.tensor_columns:
            values = run_values(operand, scene.first, scene.first + scene.wrong.size)
            yield operand.name, values.astype(np.float64)
    yield "expected", scene.expected.ravel().astype(np.float64)


def _extremes(values: Array, wild: Array, tame: Array) -> Iterator[tuple[Array, str]]:
    """Areas of extreme values, bounded by those at the NaN and Inf, and what the values are there."""
    at = values[wild]
    if np.isnan(at).any():
        return
    low, high = float(at.min()), float(at.max())
    yield (values >= low) & tame, f"{low:.6g} or more"
    yield (values <= high) & tame, f"{high:.6g} or less"
    small, large = float(np.abs(at).min()), float(np.abs(at).max())
    yield (np.abs(values) >= small) & tame, f"{small:.6g} or more in size"
    yield (np.abs(values) <= large) & tame, f"{large:.6g} or less in size"
    if low == high:
        yield (values == low) & tame, f"{low:.6g}"
