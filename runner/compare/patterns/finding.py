"""What a detector reports, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ..kernels.elements import Array


class Pattern(Enum):
    """A way in which values may be wrong."""

    NEVER_WRITTEN = "never written"
    STALE = "stale"
    SHIFTED = "shifted"
    TRANSPOSED = "transposed"
    PERMUTED_BLOCKS = "permuted blocks"
    TILE = "a tile"
    TAIL = "a tail"
    PERIODIC = "periodic"
    SCALED = "constant scale"
    OFFSET = "constant offset"
    SIGN_FLIPPED = "sign flipped"
    SATURATED = "saturated"
    ROUNDING_MODE = "rounding mode"
    NARROWER_TYPE = "narrower type"
    LOWER_PRECISION = "accumulated in lower precision"
    OTHER_ORDER = "accumulated in another order"
    NON_FINITE_SPREAD = "NaN or Inf spreading"


@dataclass(frozen=True, kw_only=True)
class PatternMatch:
    """A pattern that fits, with what it was seen by. `confidence` is between 0 and 1."""

    pattern: Pattern
    confidence: float
    evidence: str


def share(fits: Array) -> float:
    """The share of true entries; 0 of none."""
    return int(np.count_nonzero(fits)) / max(fits.size, 1)


def confidence(*, hits: int, total: int, chance: float) -> float:
    """How far an agreement goes beyond chance: 0 as coincidence would have it, towards 1 if all and many agree.

    The rate of agreement, by Laplace's rule of succession (hits + 1) / (total + 2), is corrected for chance as in
    Cohen's kappa (1960).
    """
    if total == 0 or chance >= 1.0:
        return 0.0
    rate = (hits + 1) / (total + 2)
    return min(max((rate - chance) / (1.0 - chance), 0.0), 1.0)
