"""One row or column is far more wrong than all others are."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...kernels.elements import Array
from ..finding import Pattern, PatternMatch
from ..odds import confidence
from ..scene import Scene

_FEWEST = 8
_TIMES = 8.0
_BEYOND = 0.99  # quantile of the others' errors that an outlier's are compared with


def outlier_channel(scene: Scene) -> Iterator[PatternMatch]:
    """The errors of one row or column are many times those of all others, which have errors too.

    They are so in absolute size and relative to the values: a channel that is larger than the others may be as
    wrong as they are, as one with small values may.
    """
    if min(scene.rows, scene.columns) < _FEWEST or scene.wrong_count < 0.1 * scene.wrong.size:
        return
    expected = np.abs(scene.expected.astype(np.float64))
    errors = np.abs(scene.actual.astype(np.float64) - scene.expected.astype(np.float64))
    if not np.isfinite(errors).all():
        return
    for noun, axis, origin in (("column", 0, scene.left), ("row", 1, scene.top)):
        middle = np.median(errors, axis=axis)
        sizes = np.median(expected, axis=axis)
        at = int(middle.argmax())
        if not (_stands_out(middle, at) and _stands_out(middle / np.maximum(sizes, 1e-300), at)):
            continue
        line = errors[:, at] if axis == 0 else errors[at]
        others = np.quantile(np.delete(middle, at), _BEYOND)
        hits = int(np.count_nonzero(line > _TIMES / 2 * others))
        times = middle[at] / others
        yield PatternMatch(
            pattern=Pattern.OUTLIER_CHANNEL,
            confidence=confidence(
                hits=hits, total=line.size, chance=1.0 - _BEYOND, cost=math.log(middle.size)
            ),
            evidence=f"the errors in {noun} {origin + at} are {times:.3g} times those of the other {noun}s, in the "
            f"middle {middle[at]:.3g}",
        )
        return


def _stands_out(sizes: Array, at: int) -> bool:
    """Whether the size `at` one place is several times that at any other, and these are not zero."""
    others = np.delete(sizes, at)
    return bool(np.median(others) > 0 and sizes[at] > _TIMES * others.max())
