"""What a detector reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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
    LOST_REDUCTION_TAIL = "lost tail of a reduction"
    SCALED_LINES = "scale by row, column or group"
    SIGN_PAIRS = "signs of pairs"
    SWAPPED_BYTES = "swapped bytes"
    SWAPPED_LINES = "swapped rows or columns"
    REVERSED = "reversed axis"
    FLUSHED_DENORMALS = "flushed denormals"
    OUTLIER_CHANNEL = "one outlier channel"
    WILD_AT_VALUES = "NaN or Inf at rare values"
    NON_FINITE_SPREAD = "NaN or Inf spreading"


PLACES = frozenset({Pattern.TILE, Pattern.TAIL, Pattern.PERIODIC, Pattern.OUTLIER_CHANNEL})
"""Patterns that say where elements are wrong; most others say what stands there instead."""

WILD = frozenset({Pattern.NON_FINITE_SPREAD, Pattern.WILD_AT_VALUES})
"""Patterns of the wrong elements that are NaN or Inf, whatever becomes of the others."""


@dataclass(frozen=True, kw_only=True)
class PatternMatch:
    """A pattern that fits, with what it was seen by. `confidence` is between 0 and 1."""

    pattern: Pattern
    confidence: float
    evidence: str
