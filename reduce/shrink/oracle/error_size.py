"""Whether an error is as large as the one that is looked for."""

from __future__ import annotations

import math
from collections.abc import Iterable

FACTOR = 100.0
"""By how much two errors of one failure may differ. An error of rounding and one that a case fails for are further
apart: in float32 by 1e3 or more. Smaller shapes and plain data change an error by less."""


def same_size(error: float, whole: Iterable[float]) -> bool:
    """Whether a relative L2 error is one of those of the whole run, within `FACTOR`.

    An infinite error (NaN or infinity where there should be none) is like an infinite one alone.

    >>> same_size(0.5, [0.01]), same_size(1e-7, [0.01]), same_size(0.1, [math.inf])
    (True, False, False)
    """
    return any(
        error == other if math.inf in (error, other) else other / FACTOR <= error <= other * FACTOR
        for other in whole
    )
