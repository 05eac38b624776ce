"""Quantiles from a histogram of logarithmic bins."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..kernels.elements import Array
from ..kernels.moments import bin_middle

LEVELS = (0.5, 0.9, 0.99, 0.999, 1.0)

RELATIVE_ERROR = 1 / 32
"""Every quantile but the last, which is exact, is within this share of the true one."""


def from_histogram(histogram: Array, *, largest: float) -> Mapping[float, float]:
    """The value at each of `LEVELS`: the smallest v such that at least that share of the elements is <= v.

    `histogram` counts elements by `kernels.moments.BINS`; `largest` is the exact maximum. Of nothing, every
    quantile is NaN.
    """
    upto = np.cumsum(histogram)
    total = int(upto[-1])
    if total == 0:
        return dict.fromkeys(LEVELS, math.nan)
    found = {
        level: min(bin_middle(int(np.searchsorted(upto, math.ceil(level * total)))), largest)
        for level in LEVELS
    }
    return found | {1.0: largest}
