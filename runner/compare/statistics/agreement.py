"""Pass or fail, by the comparators of pypto-lib's golden harness (`golden/validation.py`).

Each `judge` gives the verdict that the harness would give, in the arithmetic it uses, but reads the tensors
in runs of bounded size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ....store.words import plural
from ...tensor.chunks import CHUNK, axis_last, narrow, run_values, spans
from ...tensor.view import TensorView
from ..kernels.elements import Array
from .statistics import IncomparableError, Index, Tolerance, measure

HARNESS_TOLERANCE = Tolerance(rtol=1e-5, atol=1e-5, equal_nan=False)
"""What the harness compares by where a case says nothing."""

SHOWN = 10
"""Mismatches that a judgement lists."""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """An element that was rejected."""

    index: Index
    actual: float
    expected: float


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A verdict with its reason: `rejected` of `numel` elements, where up to `allowed` may be."""

    passed: bool
    rejected: int
    allowed: int
    numel: int
    reason: str = ""
    first: tuple[Mismatch, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ValidRows:
    """Only the leading `rows` along `axis` count; with `zero_tail` the rest of actual must be zero."""

    rows: int
    axis: int = 0
    zero_tail: bool = False


@dataclass(frozen=True)
class AllClose:
    """The harness's default: `torch.allclose`."""

    tolerance: Tolerance = HARNESS_TOLERANCE

    def judge(self, actual: TensorView, expected: TensorView) -> Agreement:
        """The verdict. Raises `IncomparableError` where type or shape differ."""
        over = measure(actual, expected, self.tolerance).over
        limits = f"rtol={self.tolerance.rtol:g} atol={self.tolerance.atol:g}"
        reason = f"{over} of {plural(actual.numel, 'element')} over {limits}" if over else ""
        return Agreement(passed=over == 0, rejected=over, allowed=0, numel=actual.numel, reason=reason)


@dataclass(frozen=True, kw_only=True)
class RatioAllClose:
    """`ratio_allclose`: |a - e| > atol + rtol * |e| in float32 for at most a share of the elements.

    NaN or Inf on either side fails. The share is turned into a number of elements by Python's `round`.
    """

    rtol: float
    atol: float
    max_error_ratio: float = 0.005
    valid: ValidRows | None = None

    def judge(self, actual: TensorView, expected: TensorView) -> Agreement:
        """The verdict. Raises `IncomparableError` where the shapes differ."""
        rtol, atol = np.float32(self.rtol), np.float32(self.atol)

        def rejects(a: Array, e: Array) -> Array:
            return np.abs(a - e) > atol + rtol * np.abs(e)

        return _judge_share(actual, expected, self.valid, self.max_error_ratio, rejects)


@dataclass(frozen=True, kw_only=True)
class RatioRelDiff:
    """`ratio_reldiff`: a floored relative difference over `threshold` for at most a share of the elements.

    The difference counts as it is below the threshold, else divided by
    max(|a|, |e|, 2**-14 / threshold) + 1e-9, in float32. No element may reach `max_single`. NaN or Inf on
    either side fails.
    """

    threshold: float = 0.01
    max_error_ratio: float = 0.05
    max_single: float = math.inf
    valid: ValidRows | None = None

    def judge(self, actual: TensorView, expected: TensorView) -> Agreement:
        """The verdict. Raises `IncomparableError` where the shapes differ."""
        threshold, floor = np.float32(self.threshold), np.float32(2.0**-14 / self.threshold)
        worst = 0.0

        def rejects(a: Array, e: Array) -> Array:
            nonlocal worst
            difference = np.abs(a - e)
            size = np.maximum(np.maximum(np.abs(a), np.abs(e)), floor) + np.float32(1e-9)
            relative = np.where(difference < threshold, difference, difference / size)
            rejected = relative > threshold
            worst = max(worst, float(np.max(relative, where=rejected, initial=0.0)))
            return rejected

        judgement = _judge_share(actual, expected, self.valid, self.max_error_ratio, rejects)
        if judgement.passed and not worst < self.max_single:
            reason = f"largest relative difference {worst:g} reaches {self.max_single:g}"
            return replace(judgement, passed=False, reason=reason)
        return judgement


@dataclass(frozen=True, kw_only=True)
class TopKPairs:
    """`topk_pair_compare`: indices may differ where the scores beside them are in order nevertheless.

    An index of position i along `axis` that differs is legal if the actual scores at i - 1, i and i + 1 are
    still ordered (ties included). The expected scores are not consulted.
    """

    axis: int = -1
    descending: bool = True

    def judge(self, actual: TensorView, expected: TensorView, actual_scores: TensorView) -> Agreement:
        """The verdict on index tensors. Raises `IncomparableError` where shapes differ or `axis` is none."""
        _require_shape(actual, expected)
        _require_shape(actual, actual_scores)
        if not -len(actual.shape) <= self.axis < len(actual.shape):
            raise IncomparableError(f"axis {self.axis} of {actual.name}, which has shape {actual.shape}")
        a_view, e_view, s_view = (axis_last(view, self.axis) for view in (actual, expected, actual_scores))
        k = a_view.shape[-1]
        rejected = _Rejected(a_view)
        step = max(CHUNK // max(k, 1), 1) * max(k, 1)
        for start in range(0, a_view.numel, step):
            stop = min(start + step, a_view.numel)
            a, e = run_values(a_view, start, stop), run_values(e_view, start, stop)
            scores = run_values(s_view, start, stop).astype(np.float32).reshape(-1, k)
            bad = (a != e).reshape(-1, k) & ~self._in_order(scores)
            rejected.add(start, bad.ravel(), a, e)
        reason = (
            f"{rejected.count} indices differ where the scores are out of order" if rejected.count else ""
        )
        return rejected.judgement(allowed=0, reason=reason, restore_axis=self.axis)

    def _in_order(self, scores: Array) -> Array:
        left, right = scores[:, :-1], scores[:, 1:]
        ordered = left >= right if self.descending else left <= right
        fine = np.ones(scores.shape, bool)
        fine[:, 1:] &= ordered
        fine[:, :-1] &= ordered
        return fine


class _Rejected:
    """Counts rejected elements and keeps the first few."""

    def __init__(self, view: TensorView) -> None:
        self._view = view
        self._first: list[tuple[int, float, float]] = []
        self.count = 0

    def add(self, start: int, bad: Array, actual: Array, expected: Array) -> None:
        self.count += int(np.count_nonzero(bad))
        for i in np.flatnonzero(bad)[: SHOWN - len(self._first)]:
            self._first.append((start + int(i), float(actual[i]), float(expected[i])))

    def judgement(self, *, allowed: int, reason: str, restore_axis: int | None = None) -> Agreement:
        return Agreement(
            passed=self.count <= allowed,
            rejected=self.count,
            allowed=allowed,
            numel=self._view.numel,
            reason=reason,
            first=tuple(
                Mismatch(index=self._index(position, restore_axis), actual=a, expected=e)
                for position, a, e in self._first
            ),
        )

    def _index(self, position: int, restore_axis: int | None) -> Index:
        index = [int(i) for i in np.unravel_index(position, self._view.shape)]
        if restore_axis is not None:
            last = index.pop()
            index.insert(restore_axis % len(self._view.shape), last)
        return tuple(index)


def _judge_share(
    actual: TensorView,
    expected: TensorView,
    valid: ValidRows | None,
    share: float,
    rejects: Callable[[Array, Array], Array],
) -> Agreement:
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"expected a share of elements between 0 and 1, found {share}")
    _require_shape(actual, expected)
    if valid is not None:
        refusal = _tail_error(actual, valid)
        if refusal:
            return Agreement(passed=False, rejected=0, allowed=0, numel=actual.numel, reason=refusal)
        actual = narrow(actual, axis=valid.axis, start=0, stop=valid.rows)
        expected = narrow(expected, axis=valid.axis, start=0, stop=valid.rows)
    rejected = _Rejected(actual)
    wild = 0
    with np.errstate(invalid="ignore", over="ignore"):
        for start, stop in spans(actual.numel):
            a = run_values(actual, start, stop).astype(np.float32)
            e = run_values(expected, start, stop).astype(np.float32)
            wild += int(np.count_nonzero(~(np.isfinite(a) & np.isfinite(e))))
            rejected.add(start, rejects(a, e), a, e)
    allowed = round(share * actual.numel)
    if wild:
        reason = f"{plural(wild, 'element')} NaN or Inf on one side at least"
        return replace(rejected.judgement(allowed=allowed, reason=reason), passed=False)
    reason = f"{rejected.count} of {plural(actual.numel, 'element')} over tolerance, {allowed} allowed"
    return rejected.judgement(allowed=allowed, reason=reason if rejected.count > allowed else "")


def _tail_error(actual: TensorView, valid: ValidRows) -> str:
    """Why the prefix cannot be compared; empty if it can."""
    if not -len(actual.shape) <= valid.axis < len(actual.shape):
        raise IncomparableError(f"valid axis {valid.axis} of {actual.name}, which has shape {actual.shape}")
    length = actual.shape[valid.axis]
    if not 0 <= valid.rows <= length:
        return f"{valid.rows} valid rows asked of axis {valid.axis}, which has {length}"
    if not valid.zero_tail:
        return ""
    tail = narrow(actual, axis=valid.axis, start=valid.rows, stop=length)
    written = sum(int(np.count_nonzero(run_values(tail, *span))) for span in spans(tail.numel))
    return (
        f"the tail behind {valid.rows} valid rows holds {written} values that are not zero" if written else ""
    )


def _require_shape(first: TensorView, second: TensorView) -> None:
    if first.shape != second.shape:
        raise IncomparableError(f"shape {first.shape} against expected {second.shape}")
