"""All detectors, and the call that asks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ...tensor.view import TensorView
from ..statistics.statistics import Tolerance
from .finding import Pattern, PatternMatch
from .numeric.accumulation import lower_precision, other_order
from .numeric.arithmetic import offset, saturated, scaled, sign_flipped
from .numeric.narrowing import narrower_type, quantized
from .numeric.nonfinite import spread
from .numeric.rounding import rounding_mode
from .scene import Scene, look
from .spatial.movement import permuted_blocks, shifted, transposed
from .spatial.placement import placement
from .spatial.substitution import never_written, stale

LEAST_CONFIDENCE = 0.5
"""What is less sure is not reported."""

# At equal confidence the earlier is named first: the more special before the more general.
DETECTORS: tuple[Callable[[Scene], Iterator[PatternMatch]], ...] = (
    spread,
    never_written,
    stale,
    sign_flipped,
    saturated,
    rounding_mode,
    narrower_type,
    quantized,
    offset,
    scaled,
    shifted,
    transposed,
    permuted_blocks,
    lower_precision,
    other_order,
    placement,
)


def recognize(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, others: Sequence[TensorView] = ()
) -> list[PatternMatch]:
    """The patterns in what is not close, the surest first; none where everything is close, or fits no pattern.

    `others` are tensors that the buffer might still hold: earlier values of it, or others of the dump.

    Raises:
        IncomparableError: type or shape differ.
    """
    scene = look(actual, expected, tolerance, others)
    if scene is None:
        return []
    with np.errstate(all="ignore"):
        found = _one_of_nan(scene, [finding for detector in DETECTORS for finding in detector(scene)])
    if scene.windowed:
        part = f"; of {actual.numel} elements {scene.wrong.size} from {scene.first} on were looked at, and are counted"
        found = [replace(finding, evidence=finding.evidence + part) for finding in found]
    sure = [finding for finding in found if finding.confidence >= LEAST_CONFIDENCE]
    return sorted(sure, key=lambda finding: -finding.confidence)


def _one_of_nan(scene: Scene, found: list[PatternMatch]) -> list[PatternMatch]:
    """One pattern where all that is wrong is NaN in one area: what else fits says that again."""
    spreads = [each for each in found if each.pattern is Pattern.NON_FINITE_SPREAD]
    if not spreads or spreads[0].confidence < LEAST_CONFIDENCE or not np.isnan(scene.wrong_actual).all():
        return found
    unwritten = [each.evidence for each in found if each.pattern is Pattern.NEVER_WRITTEN]
    return [replace(each, evidence="; ".join((each.evidence, *unwritten))) for each in spreads]
