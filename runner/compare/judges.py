"""Decides whether two tensors, or two sources of tensors, are equal, and how they differ.

- `compare_sources` compares two sources by name: tensors, scalars, and files without tensors.
- `AllClose`, `RatioAllClose`, `RatioRelDiff` and `TopKPairs` are the comparators of pypto-lib's golden harness
  (`golden/validation.py`). Each gives the verdict that the harness would give, in the arithmetic that it uses. It reads
  the tensors in runs of bounded size.
- `recognize_patterns` returns which known patterns the differences have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

import numpy as np

from ...store.vocabulary import plural
from ..build_output.files import (
    MAX_COMPARED_BYTES,
    BuildOutputError,
    Refusal,
    file_format,
    first_difference,
)
from ..build_output.tensor_files import Scalar
from ..tensor import CHUNK, DType, TensorView, axis_last, cast, narrow, run_values, spans
from .elements import Array
from .finding import NON_FINITE_PATTERNS, PLACE_PATTERNS, Pattern, PatternMatch, Scene, build_scene
from .numeric_patterns import (
    detect_flushed_denormals,
    detect_narrower_type,
    detect_offset,
    detect_quantization,
    detect_rounding_mode,
    detect_saturation,
    detect_scale,
    detect_scaled_lines,
    detect_sign_flip,
    detect_sign_pairs,
    detect_swapped_bytes,
    detect_times_zero,
)
from .reduction_patterns import (
    detect_lost_tail,
    detect_lower_precision,
    detect_non_finite_at_values,
    detect_other_order,
    detect_spread,
)
from .sources import Entry, Source, are_equal_scalars, are_single_tensors, are_unrelated
from .spatial_patterns import (
    detect_never_written,
    detect_outlier_channel,
    detect_permuted_blocks,
    detect_placement,
    detect_reversed_axis,
    detect_shift,
    detect_stale,
    detect_swapped_lines,
    detect_transposition,
)
from .statistics import (
    Breakdown,
    HeatMap,
    IncomparableError,
    Index,
    Statistics,
    Tolerance,
    breakdown,
    have_same_bytes,
    heat_map,
    is_finite,
    measure,
    require_comparable,
)

HARNESS_TOLERANCE = Tolerance(rtol=1e-5, atol=1e-5, equal_nan=False)
"""The harness compares by this tolerance if a case sets none. As in `torch.allclose`, NaN is not close to NaN."""

MAX_MISMATCHES = 10
"""A verdict lists at most this many mismatches. All mismatches are counted."""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A rejected element."""

    index: Index
    actual: float
    expected: float


@dataclass(frozen=True, kw_only=True)
class ComparatorVerdict:
    """The verdict of a comparator: `rejected` of `numel` elements differ, and `allowed` may.

    `first` are the first rejected elements. `reason` is empty for a tensor that passes.
    """

    passed: bool
    rejected: int
    allowed: int
    numel: int
    reason: str = ""
    first: tuple[Mismatch, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ValidRows:
    """Only the first `rows` along the first axis are compared. With `zero_tail`, all others must be zero in actual."""

    rows: int
    zero_tail: bool = False


@dataclass(frozen=True)
class AllClose:
    """The harness's default: `torch.allclose`."""

    tolerance: Tolerance = HARNESS_TOLERANCE

    def judge(self, actual: TensorView, expected: TensorView) -> ComparatorVerdict:
        """Return the verdict. Raises `IncomparableError` if types or shapes differ."""
        over = measure(actual, expected, self.tolerance).over
        limits = f"rtol={self.tolerance.rtol:g} atol={self.tolerance.atol:g}"
        reason = f"{over} of {plural(actual.numel, 'element')} over {limits}" if over else ""
        return ComparatorVerdict(
            passed=over == 0, rejected=over, allowed=0, numel=actual.numel, reason=reason
        )


@dataclass(frozen=True, kw_only=True)
class RatioAllClose:
    """The harness's `ratio_allclose`: |a - e| > atol + rtol * |e| for at most `max_error_ratio` of the elements.

    It computes in float32. A tensor with NaN or Inf on either side fails. Python's `round` turns the share into a
    number of elements.
    """

    rtol: float
    atol: float
    max_error_ratio: float = 0.005
    valid: ValidRows | None = None

    def judge(self, actual: TensorView, expected: TensorView) -> ComparatorVerdict:
        """Return the verdict. Raises `IncomparableError` if the shapes differ."""
        rtol, atol = np.float32(self.rtol), np.float32(self.atol)

        def rejects(a: Array, e: Array) -> Array:
            return np.abs(a - e) > atol + rtol * np.abs(e)

        return _judge_share(actual, expected, self.valid, self.max_error_ratio, rejects)


@dataclass(frozen=True, kw_only=True)
class RatioRelDiff:
    """The harness's `ratio_reldiff`: a difference over `threshold` for at most `max_error_ratio` of the elements.

    It computes in float32. A difference below the threshold is taken as it is. Any other one is first divided by
    max(|a|, |e|, 2**-14 / threshold) + 1e-9. No element may reach `max_single`. A tensor with NaN or Inf on either side
    fails.
    """

    threshold: float = 0.01
    max_error_ratio: float = 0.05
    max_single: float = math.inf
    valid: ValidRows | None = None

    def judge(self, actual: TensorView, expected: TensorView) -> ComparatorVerdict:
        """Return the verdict. Raises `IncomparableError` if the shapes differ."""
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

        verdict = _judge_share(actual, expected, self.valid, self.max_error_ratio, rejects)
        if verdict.passed and not worst < self.max_single:
            reason = f"largest relative difference {worst:g} reaches {self.max_single:g}"
            return replace(verdict, passed=False, reason=reason)
        return verdict


@dataclass(frozen=True, kw_only=True)
class TopKPairs:
    """The harness's `topk_pair_compare`: indices may differ if their scores are in order.

    An index at position i along `axis` may differ if the actual scores at i - 1, i and i + 1 are ordered. Equal scores
    are ordered. The expected scores are not read.
    """

    axis: int = -1
    descending: bool = True

    def judge(self, actual: TensorView, expected: TensorView, actual_scores: TensorView) -> ComparatorVerdict:
        """Return the verdict on index tensors.

        Raises:
            IncomparableError: the shapes differ, or the tensors have no such axis.
        """
        _require_shape(actual, expected)
        _require_shape(actual, actual_scores)
        if not -len(actual.shape) <= self.axis < len(actual.shape):
            raise IncomparableError(f"axis {self.axis} of {actual.name}, which has shape {actual.shape}")
        a_view, e_view, s_view = (axis_last(view, self.axis) for view in (actual, expected, actual_scores))
        k = a_view.shape[-1]
        rejected = _RejectionCounter(a_view)
        step = max(CHUNK // max(k, 1), 1) * max(k, 1)  # whole rows of k elements
        for start in range(0, a_view.numel, step):
            stop = min(start + step, a_view.numel)
            a, e = run_values(a_view, start, stop), run_values(e_view, start, stop)
            scores = run_values(s_view, start, stop).astype(np.float32).reshape(-1, k)
            mismatch = (a != e).reshape(-1, k) & ~self._are_ordered(scores)
            rejected.add(start, mismatch.ravel(), a, e)
        reason = (
            f"{rejected.count} indices differ where the scores are out of order" if rejected.count else ""
        )
        return rejected.verdict(allowed=0, reason=reason, axis=self.axis)

    def _are_ordered(self, scores: Array) -> Array:
        """Return whether each score is in order with its neighbours along the last axis."""
        left, right = scores[:, :-1], scores[:, 1:]
        pair_ordered = left >= right if self.descending else left <= right
        ordered = np.ones(scores.shape, bool)
        ordered[:, 1:] &= pair_ordered
        ordered[:, :-1] &= pair_ordered
        return ordered


class _RejectionCounter:
    """Counts the rejected elements of a tensor and keeps the first `MAX_MISMATCHES`."""

    def __init__(self, view: TensorView) -> None:
        self._view = view
        self._first: list[tuple[int, float, float]] = []
        self.count = 0

    def add(self, start: int, rejections: Array, actual: Array, expected: Array) -> None:
        self.count += int(np.count_nonzero(rejections))
        for i in np.flatnonzero(rejections)[: MAX_MISMATCHES - len(self._first)]:
            self._first.append((start + int(i), float(actual[i]), float(expected[i])))

    def verdict(self, *, allowed: int, reason: str, axis: int | None = None) -> ComparatorVerdict:
        """Return the verdict. `axis` is the place of the view's last axis in the tensor, if it is another one."""
        return ComparatorVerdict(
            passed=self.count <= allowed,
            rejected=self.count,
            allowed=allowed,
            numel=self._view.numel,
            reason=reason,
            first=tuple(
                Mismatch(index=self._index(position, axis), actual=a, expected=e)
                for position, a, e in self._first
            ),
        )

    def _index(self, position: int, axis: int | None) -> Index:
        index = [int(i) for i in np.unravel_index(position, self._view.shape)]
        if axis is not None:
            last = index.pop()
            index.insert(axis % len(self._view.shape), last)
        return tuple(index)


def _judge_share(
    actual: TensorView,
    expected: TensorView,
    valid: ValidRows | None,
    share: float,
    rejects: Callable[[Array, Array], Array],
) -> ComparatorVerdict:
    """Return the verdict if at most `share` of the elements may be rejected.

    Raises:
        ValueError: `share` is not between 0 and 1.
        IncomparableError: the shapes differ.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"expected a share of elements between 0 and 1, found {share}")
    _require_shape(actual, expected)
    if valid is not None:
        problem = _valid_rows_error(actual, valid)
        if problem:
            return ComparatorVerdict(passed=False, rejected=0, allowed=0, numel=actual.numel, reason=problem)
        actual = narrow(actual, start=0, stop=valid.rows)
        expected = narrow(expected, start=0, stop=valid.rows)
    rejected = _RejectionCounter(actual)
    non_finite = 0
    with np.errstate(invalid="ignore", over="ignore"):
        for start, stop in spans(actual.numel):
            a = run_values(actual, start, stop).astype(np.float32)
            e = run_values(expected, start, stop).astype(np.float32)
            non_finite += int(np.count_nonzero(~(np.isfinite(a) & np.isfinite(e))))
            rejected.add(start, rejects(a, e), a, e)
    allowed = round(share * actual.numel)
    if non_finite:
        reason = f"{plural(non_finite, 'element')} NaN or Inf on one side at least"
        return replace(rejected.verdict(allowed=allowed, reason=reason), passed=False)
    reason = f"{rejected.count} of {plural(actual.numel, 'element')} over tolerance, {allowed} allowed"
    return rejected.verdict(allowed=allowed, reason=reason if rejected.count > allowed else "")


def _valid_rows_error(actual: TensorView, valid: ValidRows) -> str:
    """Return the reason why the valid rows do not fit the tensor, or why its tail is wrong; empty if neither."""
    if not actual.shape:
        raise IncomparableError(f"valid rows of {actual.name}, which is a scalar")
    length = actual.shape[0]
    if not 0 <= valid.rows <= length:
        return f"expected 0 to {length} valid rows, found {valid.rows}"
    if not valid.zero_tail:
        return ""
    tail = narrow(actual, start=valid.rows, stop=length)
    written = sum(int(np.count_nonzero(run_values(tail, *span))) for span in spans(tail.numel))
    return (
        f"the tail behind {valid.rows} valid rows holds {written} values that are not zero" if written else ""
    )


def _require_shape(first: TensorView, second: TensorView) -> None:
    if first.shape != second.shape:
        raise IncomparableError(f"shape {first.shape} against expected {second.shape}")


Judge = Callable[[str, TensorView, TensorView], ComparatorVerdict]
"""Returns the verdict of a comparator on a tensor. Its arguments are the name, the actual and the expected tensor."""

MAP_HEIGHT, MAP_WIDTH = 24, 64
"""A heat map has at most this many blocks in each direction, so that it fits on a terminal."""
_UNKNOWN_FORMAT = "a file of unknown format"
_MAX_NEIGHBOURS = 16
"""A wrong tensor may be explained by this many tensors on each side of it in the listing.

Its buffer may still hold the values of one, or it was computed from one. Buffers are reused soon, if at all."""
_MAX_OTHER_BYTES = 2**30
"""At most this many bytes of neighbours are opened, the nearest first. Tensors of a dump are read into memory."""


class Equality(Enum):
    """The outcome for one name, or for one file. `LEFT_OUT` is for files that the user ignores."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "not compared"
    LEFT_OUT = "left out"


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparisonResult:
    """The outcome for one name in the two sources.

    Attributes:
        name: the name of a tensor or scalar, or the path of a file without tensors.
        reason: why the outcome is not `EQUAL`. Empty for equal tensors.
        identical: whether no element differs at all. A tensor may be equal by tolerance and not identical.
        kernel: the kernel whose argument it is; empty if not known.
        actual_name: the name in `actual`, if each source is a single tensor and their names differ.
        conversion: a description of the conversion before the comparison; empty if there was none.
        only_in: the path of the only source that has the name; empty if both have it.
        is_file: whether the name is the path of a file below the two folders.
        statistics, verdict, rows, map: None if values were not read, or all bytes are the same.
    """

    name: str
    outcome: Equality
    reason: str = ""
    identical: bool = False
    kernel: str = ""
    actual_name: str = ""
    conversion: str = ""
    only_in: str = ""
    is_file: bool = False
    statistics: Statistics | None = None
    verdict: ComparatorVerdict | None = None
    rows: Breakdown | None = None
    map: HeatMap | None = None
    patterns: list[PatternMatch] = field(default_factory=list[PatternMatch])

    @property
    def label(self) -> str:
        """Return the name for people, preceded by the kernel."""
        name = f"{self.actual_name} against {self.name}" if self.actual_name else self.name
        return f"{self.kernel} {name}" if self.kernel else name


def is_divergent(difference: ComparisonResult) -> bool:
    """Return whether both sources have the name, and its values differ."""
    return difference.outcome is Equality.DIFFERENT and not difference.only_in


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The rule of a comparison. Without `judge`, a tensor is equal if no element is over `tolerance`."""

    tolerance: Tolerance
    judge: Judge | None = None

    @property
    def is_exact(self) -> bool:
        """Return whether only equal values of one type are equal."""
        return self.judge is None and self.tolerance == Tolerance()


def compare_sources(
    actual: Source,
    expected: Source,
    comparison: Comparison,
    is_selected: Callable[[str], bool] = lambda _label: True,
) -> Iterator[ComparisonResult]:
    """Yield one result for each name, in execution order. The names that only `actual` has follow those of `expected`.

    Results for files without tensors come last. Names whose label is not selected are skipped.
    """
    if are_single_tensors(actual, expected):
        ((name, expected_entry),) = expected.tensors.items()
        ((actual_name, actual_entry),) = actual.tensors.items()
        result = _compare_tensors(name, actual_entry, expected_entry, [], comparison)
        yield result if actual_name == name else replace(result, actual_name=actual_name)
    else:
        yield from _compare_names(actual, expected, comparison, is_selected)
    yield from (result for result in compare_files(actual, expected) if is_selected(result.name))


def _compare_names(
    actual: Source, expected: Source, comparison: Comparison, is_selected: Callable[[str], bool]
) -> Iterator[ComparisonResult]:
    # If the sources have nothing in common, a missing name does not say that they differ.
    missing = Equality.UNKNOWN if are_unrelated(actual, expected) else Equality.DIFFERENT
    for name in dict.fromkeys((*expected.names(), *actual.names())):
        kernel = expected.kernels.get(name) or actual.kernels.get(name, "")
        if is_selected(f"{kernel} {name}") and not is_in_refused_file(name, actual, expected):
            yield replace(_compare_name(name, actual, expected, comparison, missing), kernel=kernel)


def is_in_refused_file(name: str, *sources: Source) -> bool:
    """Return whether the file that holds `name` in one source was refused in another.

    `compare_files` reports such a file.
    """
    files = [source.files[name] for source in sources if name in source.files]
    return any(source.is_refused(file) for source in sources for file in files)


def compare_files(actual: Source, expected: Source) -> Iterator[ComparisonResult]:
    """Yield one result for each file of the two folders whose tensors are not compared by name.

    Files without tensors are compared by their bytes. Refused and ignored files are reported as not compared.
    """
    for path in dict.fromkeys((*expected.refused, *actual.refused)):
        refusals = {side.path: side.refused[path] for side in (actual, expected) if path in side.refused}
        yield ComparisonResult(
            name=path, outcome=Equality.UNKNOWN, reason=_refusal_reason(refusals), is_file=True
        )
    actual_files, expected_files = set(actual.plain_files), set(expected.plain_files)
    for path in sorted(actual_files | expected_files):
        if path in actual_files and path in expected_files:
            yield _compare_bytes(path, actual.path / path, expected.path / path)
        elif not (actual.is_refused(path) or expected.is_refused(path)):
            side = actual if path in actual_files else expected
            reason = f"{file_format(side.path / path) or _UNKNOWN_FORMAT} in {side.path} alone"
            yield ComparisonResult(name=path, outcome=Equality.UNKNOWN, reason=reason, is_file=True)
    left_out = {**expected.left_out, **actual.left_out}
    for path in sorted(left_out.keys() - actual_files - expected_files):
        yield ComparisonResult(name=path, outcome=Equality.LEFT_OUT, reason=left_out[path], is_file=True)


def _refusal_reason(refusals: Mapping[Path, Refusal]) -> str:
    """Return why a file is not read, and what to do about it. `refusals` has one entry for each side that refuses."""
    reasons = [f"{refusal.found} in {path}" for path, refusal in refusals.items()]
    if len(refusals) > 1 and len({refusal.found for refusal in refusals.values()}) == 1:
        reasons = [f"{next(iter(refusals.values())).found} in both"]
    remedies = dict.fromkeys(refusal.remedy for refusal in refusals.values() if refusal.remedy)
    return "; ".join((", ".join(reasons), *remedies))


def _compare_bytes(path: str, actual: Path, expected: Path) -> ComparisonResult:
    """Compare two files without tensors. If their bytes differ, they may still mean the same."""

    def unknown(reason: str) -> ComparisonResult:
        return ComparisonResult(name=path, outcome=Equality.UNKNOWN, reason=reason, is_file=True)

    try:
        if (size := max(actual.stat().st_size, expected.stat().st_size)) > MAX_COMPARED_BYTES:
            return unknown(
                f"{size} bytes without tensors, more than the {MAX_COMPARED_BYTES} that are compared"
            )
        offset = first_difference(actual, expected)
    except OSError as error:
        return unknown(f"{error.filename}: {error.strerror}")
    if offset is None:
        return ComparisonResult(
            name=path, outcome=Equality.EQUAL, reason="the same bytes", identical=True, is_file=True
        )
    return unknown(f"{file_format(actual) or _UNKNOWN_FORMAT} whose bytes differ from byte {offset} on")


def _compare_name(
    name: str, actual: Source, expected: Source, comparison: Comparison, missing: Equality
) -> ComparisonResult:
    """Compare what both sources have under one name. `missing` is the outcome if one of them does not have it."""
    in_actual, in_expected = name in actual.names(), name in expected.names()
    if not (in_actual and in_expected):
        path = str((actual if in_actual else expected).path)
        return ComparisonResult(name=name, outcome=missing, reason=f"only in {path}", only_in=path)
    if name in actual.flawed or name in expected.flawed:
        sides = [f"{side.path}: {side.flawed[name]}" for side in (actual, expected) if name in side.flawed]
        return ComparisonResult(name=name, outcome=Equality.UNKNOWN, reason="; ".join(sides))
    if name in actual.tensors and name in expected.tensors:
        # Neighbours come from the reference: in the actual run the next task's input is this same wrong value.
        others = _neighbours(expected, name)
        return _compare_tensors(name, actual.tensors[name], expected.tensors[name], others, comparison)
    if name in actual.scalars and name in expected.scalars:
        return _compare_scalars(name, actual.scalars[name], expected.scalars[name])
    return ComparisonResult(name=name, outcome=Equality.DIFFERENT, reason="a scalar against a tensor")


def _neighbours(source: Source, name: str) -> list[Entry]:
    """Return the tensors near this one in the listing, the nearest first."""
    position = source.positions[name]
    neighbours = source.tensor_names[max(position - _MAX_NEIGHBOURS, 0) : position + _MAX_NEIGHBOURS + 1]
    nearest_first = sorted(neighbours, key=lambda other: abs(source.positions[other] - position))
    return [source.tensors[other] for other in nearest_first if other != name]


def _compare_tensors(
    name: str, actual: Entry, expected: Entry, others: list[Entry], comparison: Comparison
) -> ComparisonResult:
    try:
        require_one_shape(actual, expected)
        return _compare_values(name, actual.open(), expected.open(), others, comparison)
    except BuildOutputError as error:
        return ComparisonResult(name=name, outcome=Equality.UNKNOWN, reason=str(error))
    except IncomparableError as error:
        return ComparisonResult(name=name, outcome=Equality.DIFFERENT, reason=str(error))
    except MemoryError:
        reason = "this machine does not have enough memory to compare them; compare parts of them"
        return ComparisonResult(name=name, outcome=Equality.UNKNOWN, reason=reason)


def require_one_shape(actual: Entry, expected: Entry) -> None:
    """Raise `IncomparableError` if the shapes of two tensors differ, without loading their elements."""
    actual_layout, expected_layout = actual.load_layout(), expected.load_layout()
    if actual_layout.shape != expected_layout.shape:
        require_comparable(actual_layout, expected_layout)


def _compare_values(
    name: str, actual: TensorView, expected: TensorView, others: list[Entry], comparison: Comparison
) -> ComparisonResult:
    """Compare the values of two tensors of one shape, and describe how they differ."""
    actual_type, expected_type = (each.converted or each.dtype.value for each in (actual, expected))
    types = f"dtype {actual_type} against expected {expected_type}"
    same_type = actual_type == expected_type
    actual, expected, conversion = _to_common_type(actual, expected)
    if same_type and comparison.judge is None and are_same_finite_values(actual, expected):
        return ComparisonResult(name=name, outcome=Equality.EQUAL, identical=True, conversion=conversion)
    tolerance = comparison.tolerance
    statistics = measure(actual, expected, tolerance)
    verdict = comparison.judge(name, actual, expected) if comparison.judge is not None else None
    passed = statistics.over == 0 if verdict is None else verdict.passed
    if passed and (same_type or not comparison.is_exact):
        return ComparisonResult(
            name=name,
            outcome=Equality.EQUAL,
            identical=same_type and statistics.unequal == 0,
            conversion=conversion,
            statistics=statistics,
            verdict=verdict,
        )
    if passed:
        return ComparisonResult(
            name=name, outcome=Equality.DIFFERENT, reason=f"{types}, equal values", statistics=statistics
        )
    reason = verdict.reason if verdict is not None else ""
    differ = "differs" if statistics.numel == 1 else "differ"
    patterns: list[PatternMatch] = []
    if statistics.over:
        patterns = recognize_patterns(actual, expected, tolerance, _open_within_limit(others))
    return ComparisonResult(
        name=name,
        outcome=Equality.DIFFERENT,
        reason=reason or f"{statistics.over} of {plural(statistics.numel, 'element')} {differ}",
        conversion=conversion,
        statistics=statistics,
        verdict=verdict,
        rows=breakdown(actual, expected, tolerance),
        map=heat_map(actual, expected, tolerance, height=MAP_HEIGHT, width=MAP_WIDTH),
        patterns=patterns,
    )


def are_same_finite_values(actual: TensorView, expected: TensorView) -> bool:
    """Return whether two tensors of one type have the same shape and bytes, without NaN or Inf.

    It takes a small part of the time of `measure`.
    """
    return actual.shape == expected.shape and have_same_bytes(actual, expected) and is_finite(expected)


def _to_common_type(actual: TensorView, expected: TensorView) -> tuple[TensorView, TensorView, str]:
    """Return two tensors in one type, and a description of the conversion, empty if there was none.

    Two floating-point types become float32, or float64 if one of them is float64. Two integer types become the wider
    one, if it holds the other's values. The conversion changes no value. Tensors without a common type are not
    converted.
    """
    conversions = list(dict.fromkeys(each.converted for each in (actual, expected) if each.converted))
    types = (actual.dtype, expected.dtype)
    common = _common_type(*types)
    if common is not None and actual.shape == expected.shape:
        conversions.append(f"{types[0].value} with {types[1].value}, both as {common.value}")
        actual, expected = (
            each if each.dtype is common else cast(each, common) for each in (actual, expected)
        )
    return actual, expected, "; ".join(conversions)


def _common_type(one: DType, other: DType) -> DType | None:
    """Return the type that holds all values of two different types; None if there is none."""
    if one is other:
        return None
    if one.is_floating and other.is_floating:
        return DType.FLOAT64 if DType.FLOAT64 in (one, other) else DType.FLOAT32
    if not (one.is_integer and other.is_integer):
        return None
    if np.can_cast(one.storage, other.storage):
        return other
    return one if np.can_cast(other.storage, one.storage) else None


def _open_within_limit(others: list[Entry]) -> list[TensorView]:
    """Open tensors, in order, until `_MAX_OTHER_BYTES` are reached."""
    views: list[TensorView] = []
    remaining_bytes = _MAX_OTHER_BYTES
    for entry in others:
        try:
            remaining_bytes -= entry.load_layout().nbytes
            if remaining_bytes < 0:
                break
            views.append(entry.open())
        except BuildOutputError:
            continue  # its own comparison reports it
    return views


def _compare_scalars(name: str, actual: Scalar, expected: Scalar) -> ComparisonResult:
    if are_equal_scalars(actual, expected):
        return ComparisonResult(name=name, outcome=Equality.EQUAL, identical=True)
    return ComparisonResult(
        name=name, outcome=Equality.DIFFERENT, reason=f"scalar {actual} against expected {expected}"
    )


MIN_CONFIDENCE = 0.5
"""A pattern with less confidence is not reported, because chance explains the differences better."""

_MIN_IMPROVEMENT = 0.05
"""A pattern must exceed a simpler one by this confidence. Otherwise it is no better an explanation."""

# From the simple to the complex: detectors without parameters or other tensors come first, and known operations before
# fitted ones. Of patterns that fit equally well the first is reported.
DETECTORS: tuple[Callable[[Scene], Iterator[PatternMatch]], ...] = (
    detect_spread,
    detect_non_finite_at_values,
    detect_flushed_denormals,
    detect_never_written,
    detect_times_zero,
    detect_sign_pairs,
    detect_sign_flip,
    detect_rounding_mode,
    detect_saturation,
    detect_narrower_type,
    detect_offset,
    detect_scale,
    detect_scaled_lines,
    detect_swapped_bytes,
    detect_reversed_axis,
    detect_shift,
    detect_transposition,
    detect_stale,
    detect_swapped_lines,
    detect_permuted_blocks,
    detect_quantization,
    detect_lost_tail,
    detect_lower_precision,
    detect_other_order,
    detect_placement,
    detect_outlier_channel,
)

_MOVE_DETECTORS = frozenset(
    {
        detect_reversed_axis,
        detect_shift,
        detect_transposition,
        detect_swapped_lines,
        detect_permuted_blocks,
    }
)
"""These slow detectors find right values at wrong places. They can match only if actual has values of expected."""


def recognize_patterns(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, others: Sequence[TensorView] = ()
) -> list[PatternMatch]:
    """Return the patterns that elements over the tolerance have, the surest first; none if no pattern fits.

    `others` are tensors that may explain the values: earlier values of the buffer, inputs of the task, and other
    tensors of the dump.

    Raises:
        IncomparableError: types or shapes differ.
    """
    scene = build_scene(actual, expected, tolerance, others)
    if scene is None:
        return []
    detectors = [each for each in DETECTORS if each not in _MOVE_DETECTORS or scene.may_have_moved]
    with np.errstate(all="ignore"):
        matches = [match for detector in detectors for match in detector(scene)]
        matches = _merge_nan_patterns(scene, matches)
    simplest = [
        match
        if match.pattern in PLACE_PATTERNS
        else replace(match, evidence=match.evidence + scene.window_note)
        for match in keep_simplest([match for match in matches if match.confidence >= MIN_CONFIDENCE])
    ]

    def sort_key(match: PatternMatch) -> float:
        # Of two patterns that are equally sure, the wrong values are more telling than their places.
        return -match.confidence + _MIN_IMPROVEMENT * (match.pattern in PLACE_PATTERNS)

    return sorted(simplest, key=sort_key)


def keep_simplest(matches: Sequence[PatternMatch]) -> list[PatternMatch]:
    """Return the matches without those that explain no more than a simpler one. Simple ones come first.

    Only matches that answer the same question compete. There are three questions: where elements are wrong, which
    values they have, and what NaN and Inf have in common.
    """
    kept: list[PatternMatch] = []
    for match in matches:
        rivals = [each for each in kept if _question(each) == _question(match)]
        if all(match.confidence > each.confidence + _MIN_IMPROVEMENT for each in rivals):
            kept.append(match)
    return kept


def _question(match: PatternMatch) -> tuple[bool, bool]:
    """Return whether a match says where elements are wrong, and whether it says what NaN and Inf have in common."""
    return match.pattern in PLACE_PATTERNS, match.pattern in NON_FINITE_PATTERNS


def _merge_nan_patterns(scene: Scene, matches: list[PatternMatch]) -> list[PatternMatch]:
    """If all wrong elements are NaN in one area, keep that pattern alone. Other patterns would only repeat it."""
    spreads = [each for each in matches if each.pattern is Pattern.NON_FINITE_SPREAD]
    if not spreads or spreads[0].confidence < MIN_CONFIDENCE or not np.isnan(scene.wrong_actual).all():
        return matches
    unwritten = [each.evidence for each in matches if each.pattern is Pattern.NEVER_WRITTEN]
    return [replace(each, evidence="; ".join((each.evidence, *unwritten))) for each in spreads]
