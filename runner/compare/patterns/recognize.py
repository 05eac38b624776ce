"""All detectors, and the call that asks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ...tensor.view import TensorView
from ..statistics.statistics import Tolerance
from .finding import PLACES, WILD, Pattern, PatternMatch
from .numeric.arithmetic import offset, saturated, scaled, sign_flipped, times_zero
from .numeric.denormals import flushed_denormals
from .numeric.line_scale import scaled_lines
from .numeric.narrowing import narrower_type, quantized
from .numeric.rounding import rounding_mode
from .numeric.sign_pairs import sign_pairs
from .numeric.swapped_bytes import swapped_bytes
from .reduction.accumulation import lower_precision, other_order
from .reduction.lost_tail import lost_tail
from .scene import Scene, look
from .spatial.blocks import permuted_blocks
from .spatial.channel import outlier_channel
from .spatial.lines import swapped_lines
from .spatial.movement import shifted, transposed
from .spatial.placement import placement
from .spatial.reversal import reversed_axis
from .spatial.substitution import never_written, stale
from .wild.nonfinite import spread
from .wild.rare_values import wild_at_values

LEAST_CONFIDENCE = 0.5
"""What is less sure is not reported."""

_AS_GOOD = 0.05
"""What explains the wrong elements better by less than this is no better explanation."""

# From the simple to the complex: what takes no parameter and no other tensor before what takes one, a known operation
# before a fitted one. Of what fits equally well the first is named.
DETECTORS: tuple[Callable[[Scene], Iterator[PatternMatch]], ...] = (
    spread,
    wild_at_values,
    flushed_denormals,
    never_written,
    times_zero,
    sign_pairs,
    sign_flipped,
    rounding_mode,
    saturated,
    narrower_type,
    offset,
    scaled,
    scaled_lines,
    swapped_bytes,
    reversed_axis,
    shifted,
    transposed,
    stale,
    swapped_lines,
    permuted_blocks,
    quantized,
    lost_tail,
    lower_precision,
    other_order,
    placement,
    outlier_channel,
)


def recognize(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, others: Sequence[TensorView] = ()
) -> list[PatternMatch]:
    """The patterns in what is not close, the surest first; none where everything is close, or fits no pattern.

    `others` are tensors that the buffer might still hold, or that it was computed from: earlier values of it, inputs of
    the task, others of the dump.

    Raises:
        IncomparableError: type or shape differ.
    """
    scene = look(actual, expected, tolerance, others)
    if scene is None:
        return []
    with np.errstate(all="ignore"):
        found = _one_of_nan(scene, [finding for detector in DETECTORS for finding in detector(scene)])
    sure = simplest([finding for finding in found if finding.confidence >= LEAST_CONFIDENCE])
    told = [
        each if each.pattern in PLACES else replace(each, evidence=each.evidence + scene.part)
        for each in sure
    ]
    # As sure of both, what stands there is told before where that is.
    return sorted(told, key=lambda finding: -finding.confidence + _AS_GOOD * (finding.pattern in PLACES))


def simplest(found: Sequence[PatternMatch]) -> list[PatternMatch]:
    """Findings, ordered from the simple to the complex, without those that explain no more than a simpler one.

    Where elements are wrong, what stands there, and what NaN and Inf have in common are three questions: each may be
    answered.
    """
    kept: list[PatternMatch] = []
    for finding in found:
        rivals = [each for each in kept if _question(each) == _question(finding)]
        if all(finding.confidence > each.confidence + _AS_GOOD for each in rivals):
            kept.append(finding)
    return kept


def _question(finding: PatternMatch) -> tuple[bool, bool]:
    return finding.pattern in PLACES, finding.pattern in WILD


def _one_of_nan(scene: Scene, found: list[PatternMatch]) -> list[PatternMatch]:
    """One pattern where all that is wrong is NaN in one area: what else fits says that again."""
    spreads = [each for each in found if each.pattern is Pattern.NON_FINITE_SPREAD]
    if not spreads or spreads[0].confidence < LEAST_CONFIDENCE or not np.isnan(scene.wrong_actual).all():
        return found
    unwritten = [each.evidence for each in found if each.pattern is Pattern.NEVER_WRITTEN]
    return [replace(each, evidence="; ".join((each.evidence, *unwritten))) for each in spreads]
