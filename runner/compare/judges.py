"""The comparator that the options of `diff-tensors` ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..tensor.view import TensorView
from .difference import Judge
from .sources import Source
from .statistics.agreement import Agreement, AllClose, RatioAllClose, RatioRelDiff, TopKPairs, ValidRows
from .statistics.statistics import Tolerance

COMPARATORS = ("allclose", "ratio-allclose", "ratio-reldiff")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Options as given; None where the comparator's own default holds."""

    comparator: str = "allclose"
    max_error_ratio: float | None = None
    threshold: float | None = None
    valid: ValidRows | None = None
    topk: Mapping[str, str] = field(default_factory=dict[str, str])


def parse_topk(options: Sequence[str]) -> dict[str, str]:
    """`INDICES=SCORES` options as a mapping; `ValueError` for another form."""
    pairs: dict[str, str] = {}
    for option in options:
        indices, _, scores = option.partition("=")
        if not indices or not scores:
            raise ValueError(f"expected --topk INDICES=SCORES, two names of tensors, found {option!r}")
        pairs[indices] = scores
    return pairs


def judge_for(choice: Choice, tolerance: Tolerance, actual: Source) -> Judge | None:
    """The comparator of `choice`; None where `tolerance` alone decides.

    Raises:
        ValueError: options that do not go together, or scores that `actual` does not have.
    """
    ratio = _ratio(choice, tolerance)
    if ratio is None and (choice.valid or choice.max_error_ratio is not None or choice.threshold is not None):
        raise ValueError(
            f"--max-error-ratio, --diff-threshold and --valid-rows go with {' or '.join(COMPARATORS[1:])}"
        )
    for name in (name for pair in choice.topk.items() for name in pair):
        if name not in actual.tensors:
            raise ValueError(
                f"--topk names {name!r}, but {actual.path} holds {', '.join(actual.tensors) or 'nothing'}"
            )
    if ratio is None and not choice.topk:
        return None

    def judge(name: str, ours: TensorView, theirs: TensorView) -> Agreement:
        if name in choice.topk:
            return TopKPairs().judge(ours, theirs, actual.tensors[choice.topk[name]].open())
        if ratio is not None:
            return ratio.judge(ours, theirs)
        return AllClose(tolerance).judge(ours, theirs)

    return judge


def _ratio(choice: Choice, tolerance: Tolerance) -> RatioAllClose | RatioRelDiff | None:
    if choice.comparator == "ratio-allclose":
        if choice.threshold is not None:
            raise ValueError("--diff-threshold goes with ratio-reldiff")
        default = RatioAllClose(rtol=tolerance.rtol, atol=tolerance.atol, valid=choice.valid)
        return (
            default
            if choice.max_error_ratio is None
            else replace(default, max_error_ratio=choice.max_error_ratio)
        )
    if choice.comparator == "ratio-reldiff":
        default_reldiff = RatioRelDiff(valid=choice.valid)
        changes = {"threshold": choice.threshold, "max_error_ratio": choice.max_error_ratio}
        return replace(
            default_reldiff, **{name: value for name, value in changes.items() if value is not None}
        )
    return None
