"""Decides what is equal, what differs and how, and what cannot be compared.

`compare_sources` compares two sources, tensor by tensor. It decides by a tolerance or by a `Judge`: one of the
comparators of pypto-lib's golden harness (`golden/validation.py`). Each judge gives the verdict that the harness would
give, in the arithmetic it uses, but reads the tensors in runs of bounded size. `find_comparator` makes the judge that
the options of `diff-tensors` ask for.

`recognize_patterns` asks all detectors which patterns the differences have. `check_sources` looks for reasons to doubt
the comparison before numerics are blamed: platform, names, shapes, strides, inputs and tolerances.
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
    MOST_COMPARED_BYTES,
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
    SPACING,
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
from .sources import Entry, Source, are_single, are_unrelated, same_scalar
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

LEAST_CONFIDENCE = 0.5
"""A pattern is reported from this confidence on. Below it, chance is the better explanation."""

_LEAST_IMPROVEMENT = 0.05
"""A pattern must exceed a simpler one by this confidence. With less it is no better explanation."""

# The order is from the simple to the complex. Detectors without parameters or other tensors come before those with one,
# and known operations before fitted ones. Of patterns that fit equally well the first is reported.
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


_MOVES = frozenset(
    {
        detect_reversed_axis,
        detect_shift,
        detect_transposition,
        detect_swapped_lines,
        detect_permuted_blocks,
    }
)
"""These detectors find right values at wrong places. They take most of the time, and need values of expected in
actual."""


def recognize_patterns(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, others: Sequence[TensorView] = ()
) -> list[PatternMatch]:
    """Return the patterns in what is not close, the surest first; none where everything is close, or fits no pattern.

    `others` are tensors that the buffer might still hold, or that it was computed from. They are earlier values of it,
    inputs of the task, and others of the dump.

    Raises:
        IncomparableError: type or shape differ.
    """
    scene = build_scene(actual, expected, tolerance, others)
    if scene is None:
        return []
    with np.errstate(all="ignore"):
        tried = [detector for detector in DETECTORS if detector not in _MOVES or scene.may_have_moved]
        found = _merge_nan_patterns(scene, [finding for detector in tried for finding in detector(scene)])
    sure = keep_simplest([finding for finding in found if finding.confidence >= LEAST_CONFIDENCE])
    told = [
        each if each.pattern in PLACE_PATTERNS else replace(each, evidence=each.evidence + scene.window_note)
        for each in sure
    ]
    # Of two patterns that are equally sure, what stands there comes before where it stands.
    return sorted(
        told,
        key=lambda finding: -finding.confidence + _LEAST_IMPROVEMENT * (finding.pattern in PLACE_PATTERNS),
    )


def keep_simplest(found: Sequence[PatternMatch]) -> list[PatternMatch]:
    """Return the findings, ordered from the simple to the complex, without those that explain no more than a simpler
    one.

    There are three questions, and each may have an answer: where elements are wrong, what stands there, and what NaN
    and Inf have in common.
    """
    kept: list[PatternMatch] = []
    for finding in found:
        rivals = [each for each in kept if _answered_question(each) == _answered_question(finding)]
        if all(finding.confidence > each.confidence + _LEAST_IMPROVEMENT for each in rivals):
            kept.append(finding)
    return kept


def _answered_question(finding: PatternMatch) -> tuple[bool, bool]:
    """Return which of the three questions a finding answers: where, or what NaN and Inf share, or neither of them."""
    return finding.pattern in PLACE_PATTERNS, finding.pattern in NON_FINITE_PATTERNS


def _merge_nan_patterns(scene: Scene, found: list[PatternMatch]) -> list[PatternMatch]:
    """Keep one pattern where all that is wrong is NaN in one area, because the others would only repeat it."""
    spreads = [each for each in found if each.pattern is Pattern.NON_FINITE_SPREAD]
    if not spreads or spreads[0].confidence < LEAST_CONFIDENCE or not np.isnan(scene.wrong_actual).all():
        return found
    unwritten = [each.evidence for each in found if each.pattern is Pattern.NEVER_WRITTEN]
    return [replace(each, evidence="; ".join((each.evidence, *unwritten))) for each in spreads]


HARNESS_TOLERANCE = Tolerance(rtol=1e-5, atol=1e-5, equal_nan=False)
"""The harness compares by this tolerance where a case says nothing."""

MOST_MISMATCHES = 10
"""A judgement lists this many mismatches at most. Further ones are counted."""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """An element that was rejected."""

    index: Index
    actual: float
    expected: float


@dataclass(frozen=True, kw_only=True)
class ComparatorVerdict:
    """A verdict with its reason: `rejected` of `numel` elements, where up to `allowed` may be."""

    passed: bool
    rejected: int
    allowed: int
    numel: int
    reason: str = ""
    first: tuple[Mismatch, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ValidRows:
    """Only the leading `rows` along the first axis count. With `zero_tail` the rest of actual must be zero."""

    rows: int
    zero_tail: bool = False


@dataclass(frozen=True)
class AllClose:
    """The harness's default: `torch.allclose`."""

    tolerance: Tolerance = HARNESS_TOLERANCE

    def judge(self, actual: TensorView, expected: TensorView) -> ComparatorVerdict:
        """Return the verdict. Raises `IncomparableError` where type or shape differ."""
        over = measure(actual, expected, self.tolerance).over
        limits = f"rtol={self.tolerance.rtol:g} atol={self.tolerance.atol:g}"
        reason = f"{over} of {plural(actual.numel, 'element')} over {limits}" if over else ""
        return ComparatorVerdict(
            passed=over == 0, rejected=over, allowed=0, numel=actual.numel, reason=reason
        )


@dataclass(frozen=True, kw_only=True)
class RatioAllClose:
    """The harness's `ratio_allclose`: |a - e| > atol + rtol * |e| in float32 for at most a share of the elements.

    NaN or Inf on either side fails. Python's `round` turns the share into a number of elements.
    """

    rtol: float
    atol: float
    max_error_ratio: float = 0.005
    valid: ValidRows | None = None

    def judge(self, actual: TensorView, expected: TensorView) -> ComparatorVerdict:
        """Return the verdict. Raises `IncomparableError` where the shapes differ."""
        rtol, atol = np.float32(self.rtol), np.float32(self.atol)

        def rejects(a: Array, e: Array) -> Array:
            return np.abs(a - e) > atol + rtol * np.abs(e)

        return _judge_share(actual, expected, self.valid, self.max_error_ratio, rejects)


@dataclass(frozen=True, kw_only=True)
class RatioRelDiff:
    """The harness's `ratio_reldiff`: a relative difference over `threshold` for at most a share of the elements.

    A difference below the threshold counts as it is. Any other is first divided by max(|a|, |e|, 2**-14 /
    threshold) + 1e-9, in float32. No element may reach `max_single`. NaN or Inf on either side fails.
    """

    threshold: float = 0.01
    max_error_ratio: float = 0.05
    max_single: float = math.inf
    valid: ValidRows | None = None

    def judge(self, actual: TensorView, expected: TensorView) -> ComparatorVerdict:
        """Return the verdict. Raises `IncomparableError` where the shapes differ."""
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
    """The harness's `topk_pair_compare`: indices may differ where the actual scores around them are in order.

    An index at position i along `axis` may differ if the actual scores at i - 1, i and i + 1 are still ordered. Equal
    scores count as ordered. The expected scores are not consulted.

    """

    axis: int = -1
    descending: bool = True

    def judge(self, actual: TensorView, expected: TensorView, actual_scores: TensorView) -> ComparatorVerdict:
        """Return the verdict on index tensors. Raises `IncomparableError` where shapes differ or there is no `axis`."""
        _require_shape(actual, expected)
        _require_shape(actual, actual_scores)
        if not -len(actual.shape) <= self.axis < len(actual.shape):
            raise IncomparableError(f"axis {self.axis} of {actual.name}, which has shape {actual.shape}")
        a_view, e_view, s_view = (axis_last(view, self.axis) for view in (actual, expected, actual_scores))
        k = a_view.shape[-1]
        rejected = _RejectionCounter(a_view)
        step = max(CHUNK // max(k, 1), 1) * max(k, 1)
        for start in range(0, a_view.numel, step):
            stop = min(start + step, a_view.numel)
            a, e = run_values(a_view, start, stop), run_values(e_view, start, stop)
            scores = run_values(s_view, start, stop).astype(np.float32).reshape(-1, k)
            bad = (a != e).reshape(-1, k) & ~self._ordered_mask(scores)
            rejected.add(start, bad.ravel(), a, e)
        reason = (
            f"{rejected.count} indices differ where the scores are out of order" if rejected.count else ""
        )
        return rejected.judgement(allowed=0, reason=reason, restore_axis=self.axis)

    def _ordered_mask(self, scores: Array) -> Array:
        left, right = scores[:, :-1], scores[:, 1:]
        ordered = left >= right if self.descending else left <= right
        fine = np.ones(scores.shape, bool)
        fine[:, 1:] &= ordered
        fine[:, :-1] &= ordered
        return fine


class _RejectionCounter:
    """Counts rejected elements and keeps the first few."""

    def __init__(self, view: TensorView) -> None:
        self._view = view
        self._first: list[tuple[int, float, float]] = []
        self.count = 0

    def add(self, start: int, bad: Array, actual: Array, expected: Array) -> None:
        self.count += int(np.count_nonzero(bad))
        for i in np.flatnonzero(bad)[: MOST_MISMATCHES - len(self._first)]:
            self._first.append((start + int(i), float(actual[i]), float(expected[i])))

    def judgement(self, *, allowed: int, reason: str, restore_axis: int | None = None) -> ComparatorVerdict:
        return ComparatorVerdict(
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
) -> ComparatorVerdict:
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
        return replace(rejected.judgement(allowed=allowed, reason=reason), passed=False)
    reason = f"{rejected.count} of {plural(actual.numel, 'element')} over tolerance, {allowed} allowed"
    return rejected.judgement(allowed=allowed, reason=reason if rejected.count > allowed else "")


def _valid_rows_error(actual: TensorView, valid: ValidRows) -> str:
    """Return what is wrong: more valid rows than there are, or a tail that is not zero. Empty if nothing is."""
    if not actual.shape:
        raise IncomparableError(f"valid rows of {actual.name}, which is a scalar")
    length = actual.shape[0]
    if not 0 <= valid.rows <= length:
        return f"{valid.rows} valid rows asked, where there are {length}"
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
"""A function of a tensor's name, actual and expected. It returns the verdict of one of the comparators above."""

MAP_HEIGHT, MAP_WIDTH = 24, 64
"""A map of errors has at most this many blocks in each direction, so that it fits into a terminal."""
_UNKNOWN_FORMAT = "a file of unknown format"
_MOST_NEIGHBOURS = 16
"""This many tensors on each side in the listing may explain a wrong one. Buffers are reused soon, if at all."""
_MOST_OTHER_BYTES = 2**30
"""At most this many bytes of neighbouring tensors are opened to explain one wrong tensor, the nearest first.

Its buffer may still hold a neighbour's values, or it was computed from them. A limit is needed because a dump's tensors
are read into memory."""


class Equality(Enum):
    """The outcome for one name, or for one file. `LEFT_OUT` means that it was not to be compared."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "not compared"
    LEFT_OUT = "left out"


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparisonResult:
    """The outcome for one name in the two sources. A file without tensors has its path as its name.

    Attributes:
        reason: why the outcome is not `EQUAL`, or that all bytes of a file are the same. Empty for equal tensors.
        identical: no element differs at all. A tensor may be equal by tolerance and not identical.
        kernel: the kernel whose argument it is, as far as known.
        actual_name: the name in `actual`, where each source is a single tensor and their names differ.
        cast: what was compared as what, where elements are not compared as they are.
        only_in: the path of the one source that has the name.
        is_file: the name is the path of a file below the two folders.
        statistics, judgement, rows, map: None where values were not read, or all bytes are the same.
    """

    name: str
    outcome: Equality
    reason: str = ""
    identical: bool = False
    kernel: str = ""
    actual_name: str = ""
    cast: str = ""
    only_in: str = ""
    is_file: bool = False
    statistics: Statistics | None = None
    judgement: ComparatorVerdict | None = None
    rows: Breakdown | None = None
    map: HeatMap | None = None
    findings: list[PatternMatch] = field(default_factory=list[PatternMatch])

    @property
    def label(self) -> str:
        """Return the name that people read: the kernel first, then the name, or both names."""
        name = f"{self.actual_name} against {self.name}" if self.actual_name else self.name
        return f"{self.kernel} {name}" if self.kernel else name


def is_divergent(difference: ComparisonResult) -> bool:
    """Return whether both sources have the name, and differ in it."""
    return difference.outcome is Equality.DIFFERENT and not difference.only_in


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How to compare. Without `judge` a tensor is equal if no element is over `tolerance`."""

    tolerance: Tolerance
    judge: Judge | None = None

    @property
    def is_exact(self) -> bool:
        """Return whether only the same values in the same type are equal."""
        return self.judge is None and self.tolerance == Tolerance()


def compare_sources(
    actual: Source, expected: Source, how: Comparison, only: Callable[[str], bool] = lambda _label: True
) -> Iterator[ComparisonResult]:
    """Yield one result for each name, in execution order: those of `expected`, then those that only `actual` has.

    Files of the folders that hold no tensors follow. Names whose label `only` refuses are skipped.
    """
    if are_single(actual, expected):
        ((name, theirs),) = expected.tensors.items()
        ((other, ours),) = actual.tensors.items()
        found = _compare_tensors(name, ours, theirs, [], how)
        yield found if other == name else replace(found, actual_name=other)
    else:
        yield from _compare_names(actual, expected, how, only)
    yield from (found for found in compare_files(actual, expected) if only(found.name))


def _compare_names(
    actual: Source, expected: Source, how: Comparison, only: Callable[[str], bool]
) -> Iterator[ComparisonResult]:
    # A name that one of them does not have is a difference, unless the two have nothing to do with each other.
    lacking = Equality.UNKNOWN if are_unrelated(actual, expected) else Equality.DIFFERENT
    for name in dict.fromkeys((*expected.names(), *actual.names())):
        kernel = expected.kernels.get(name) or actual.kernels.get(name, "")
        if only(f"{kernel} {name}") and not is_in_refused_file(name, actual, expected):
            yield replace(_compare_name(name, actual, expected, how, lacking), kernel=kernel)


def is_in_refused_file(name: str, *sources: Source) -> bool:
    """Return whether the file that holds `name` in one source was refused in another.

    `compare_files` reports such a file as a whole.
    """
    files = [source.files[name] for source in sources if name in source.files]
    return any(source.is_refused(file) for source in sources for file in files)


def compare_files(actual: Source, expected: Source) -> Iterator[ComparisonResult]:
    """Yield one result for each file of the two folders whose tensors are not compared by name.

    It is compared by its bytes, or reported as not compared.
    """
    for path in dict.fromkeys((*expected.refused, *actual.refused)):
        sides = {side.path: side.refused[path] for side in (actual, expected) if path in side.refused}
        yield ComparisonResult(name=path, outcome=Equality.UNKNOWN, reason=_refusals(sides), is_file=True)
    ours, theirs = set(actual.plain), set(expected.plain)
    for path in sorted(ours | theirs):
        if path in ours & theirs:
            yield _compare_bytes(path, actual.path / path, expected.path / path)
        elif not (actual.is_refused(path) or expected.is_refused(path)):
            side = actual if path in ours else expected
            what = file_format(side.path / path) or _UNKNOWN_FORMAT
            reason = f"{what} in {side.path} alone"
            yield ComparisonResult(name=path, outcome=Equality.UNKNOWN, reason=reason, is_file=True)
    left_out = {**expected.left_out, **actual.left_out}
    for path in sorted(left_out.keys() - ours - theirs):
        yield ComparisonResult(name=path, outcome=Equality.LEFT_OUT, reason=left_out[path], is_file=True)


def _refusals(sides: Mapping[Path, Refusal]) -> str:
    """Return why a file is not read on one side or both, and what to do about it."""
    found = [f"{refusal.found} in {path}" for path, refusal in sides.items()]
    if len(sides) > 1 and len({refusal.found for refusal in sides.values()}) == 1:
        found = [f"{next(iter(sides.values())).found} in both"]
    remedies = dict.fromkeys(refusal.remedy for refusal in sides.values() if refusal.remedy)
    return "; ".join((", ".join(found), *remedies))


def _compare_bytes(path: str, ours: Path, theirs: Path) -> ComparisonResult:
    """Compare two files without tensors. Unless their bytes are the same, it is unknown whether they mean the same."""
    try:
        if (size := max(ours.stat().st_size, theirs.stat().st_size)) > MOST_COMPARED_BYTES:
            reason = f"{size} bytes without tensors, more than the {MOST_COMPARED_BYTES} that are compared"
            return ComparisonResult(name=path, outcome=Equality.UNKNOWN, reason=reason, is_file=True)
        place = first_difference(ours, theirs)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
        return ComparisonResult(name=path, outcome=Equality.UNKNOWN, reason=reason, is_file=True)
    if place is None:
        return ComparisonResult(
            name=path, outcome=Equality.EQUAL, reason="the same bytes", identical=True, is_file=True
        )
    reason = f"{file_format(ours) or _UNKNOWN_FORMAT} whose bytes differ from byte {place} on"
    return ComparisonResult(name=path, outcome=Equality.UNKNOWN, reason=reason, is_file=True)


def _compare_name(
    name: str, actual: Source, expected: Source, how: Comparison, lacking: Equality
) -> ComparisonResult:
    here, there = name in actual.names(), name in expected.names()
    if not (here and there):
        place = str((actual if here else expected).path)
        return ComparisonResult(name=name, outcome=lacking, reason=f"only in {place}", only_in=place)
    if name in actual.flawed or name in expected.flawed:
        sides = [f"{side.path}: {side.flawed[name]}" for side in (actual, expected) if name in side.flawed]
        return ComparisonResult(name=name, outcome=Equality.UNKNOWN, reason="; ".join(sides))
    if name in actual.tensors and name in expected.tensors:
        # Only the reference's tensors are used: in the actual run the next task's input is this same wrong value again.
        others = _neighbours(expected, name)
        return _compare_tensors(name, actual.tensors[name], expected.tensors[name], others, how)
    if name in actual.scalars and name in expected.scalars:
        return _compare_scalars(name, actual.scalars[name], expected.scalars[name])
    return ComparisonResult(name=name, outcome=Equality.DIFFERENT, reason="a scalar against a tensor")


def _neighbours(source: Source, name: str) -> list[Entry]:
    """Return tensors near this one in the listing, the nearest first: its buffer may still hold them, or it came from
    them.
    """
    at = source.positions[name]
    near = source.tensor_names[max(at - _MOST_NEIGHBOURS, 0) : at + _MOST_NEIGHBOURS]
    return [
        source.tensors[other]
        for other in sorted(near, key=lambda other: abs(source.positions[other] - at))
        if other != name
    ]


def _compare_tensors(
    name: str, ours: Entry, theirs: Entry, others: list[Entry], how: Comparison
) -> ComparisonResult:
    try:
        require_one_shape(ours, theirs)
        return _compare_values(name, ours.open(), theirs.open(), others, how)
    except BuildOutputError as error:
        return ComparisonResult(name=name, outcome=Equality.UNKNOWN, reason=str(error))
    except IncomparableError as error:
        return ComparisonResult(name=name, outcome=Equality.DIFFERENT, reason=str(error))
    except MemoryError:
        reason = "this machine has not the memory to compare them; compare parts of them"
        return ComparisonResult(name=name, outcome=Equality.UNKNOWN, reason=reason)


def require_one_shape(ours: Entry, theirs: Entry) -> None:
    """Raise `IncomparableError` for two tensors of different shapes before memory is taken for either."""
    actual, expected = ours.load_layout(), theirs.load_layout()
    if actual.shape != expected.shape:
        require_comparable(actual, expected)


def _compare_values(
    name: str, actual: TensorView, expected: TensorView, others: list[Entry], how: Comparison
) -> ComparisonResult:
    """Compare the values of two tensors of one shape, and describe how they differ."""
    types = f"dtype {actual.dtype.value} against expected {expected.dtype.value}"
    same_type = actual.dtype is expected.dtype
    actual, expected, stated = _to_common_type(actual, expected)
    if same_type and how.judge is None and _are_the_same(actual, expected):
        return ComparisonResult(name=name, outcome=Equality.EQUAL, identical=True, cast=stated)
    statistics = measure(actual, expected, how.tolerance)
    judgement = how.judge(name, actual, expected) if how.judge is not None else None
    passed = statistics.over == 0 if judgement is None else judgement.passed
    if passed and (same_type or not how.is_exact):
        return ComparisonResult(
            name=name,
            outcome=Equality.EQUAL,
            identical=same_type and statistics.unequal == 0,
            cast=stated,
            statistics=statistics,
            judgement=judgement,
        )
    if passed:
        return ComparisonResult(
            name=name, outcome=Equality.DIFFERENT, reason=f"{types}, equal values", statistics=statistics
        )
    reason = judgement.reason if judgement is not None else ""
    differ = "differs" if statistics.numel == 1 else "differ"
    return ComparisonResult(
        name=name,
        outcome=Equality.DIFFERENT,
        reason=reason or f"{statistics.over} of {plural(statistics.numel, 'element')} {differ}",
        cast=stated,
        statistics=statistics,
        judgement=judgement,
        rows=breakdown(actual, expected, how.tolerance),
        map=heat_map(actual, expected, how.tolerance, height=MAP_HEIGHT, width=MAP_WIDTH),
        findings=recognize_patterns(actual, expected, how.tolerance, _open_nearest(others))
        if statistics.over
        else [],
    )


def _are_the_same(actual: TensorView, expected: TensorView) -> bool:
    """Return whether two tensors are the same finite numbers, which no tolerance rejects and no remark is made of.

    It takes a small part of the time of `measure`.
    """
    return actual.shape == expected.shape and have_same_bytes(actual, expected) and is_finite(expected)


def _to_common_type(actual: TensorView, expected: TensorView) -> tuple[TensorView, TensorView, str]:
    """Return two tensors in one type, and what they were converted to where that is not their own type.

    Two floating-point types become float32, or float64 where one of them is that. Two integer types become the wider
    one, if it holds the other's values. The conversion changes no value.
    """
    stated = list(dict.fromkeys(each.converted for each in (actual, expected) if each.converted))
    types = (actual.dtype, expected.dtype)
    common = _common_type(*types)
    if common is not None and actual.shape == expected.shape:
        stated.append(f"{types[0].value} with {types[1].value}, both as {common.value}")
        actual, expected = (
            each if each.dtype is common else cast(each, common) for each in (actual, expected)
        )
    return actual, expected, "; ".join(stated)


def _common_type(one: DType, other: DType) -> DType | None:
    """Return the type that holds the values of two types of a kind; None where they are one, or there is none."""
    if one is other:
        return None
    if one.is_floating and other.is_floating:
        return DType.FLOAT64 if DType.FLOAT64 in (one, other) else DType.FLOAT32
    if one.is_integer and other.is_integer:
        return next(
            (
                wide
                for wide in (one, other)
                if np.can_cast(one.storage, wide.storage) and np.can_cast(other.storage, wide.storage)
            ),
            None,
        )
    return None


def _open_nearest(others: list[Entry]) -> list[TensorView]:
    views: list[TensorView] = []
    left = _MOST_OTHER_BYTES
    for entry in others:
        try:
            left -= entry.load_layout().nbytes
            if left < 0:
                break
            views.append(entry.open())
        except BuildOutputError:
            continue  # its own comparison reports it
    return views


def _compare_scalars(name: str, ours: Scalar, theirs: Scalar) -> ComparisonResult:
    if same_scalar(ours, theirs):
        return ComparisonResult(name=name, outcome=Equality.EQUAL, identical=True)
    return ComparisonResult(
        name=name, outcome=Equality.DIFFERENT, reason=f"scalar {ours} against expected {theirs}"
    )


COMPARATORS = ("allclose", "ratio-allclose", "ratio-reldiff")


@dataclass(frozen=True, kw_only=True)
class ComparatorOptions:
    """The comparator's options as given; None where the comparator's own default holds."""

    comparator: str = "allclose"
    max_error_ratio: float | None = None
    threshold: float | None = None
    valid: ValidRows | None = None
    topk: Mapping[str, str] = field(default_factory=dict[str, str])


def parse_topk(options: Sequence[str]) -> dict[str, str]:
    """Return `INDICES=SCORES` options as a mapping; `ValueError` for another form."""
    pairs: dict[str, str] = {}
    for option in options:
        indices, _, scores = option.partition("=")
        if not indices or not scores:
            raise ValueError(f"expected --topk INDICES=SCORES, two names of tensors, found {option!r}")
        pairs[indices] = scores
    return pairs


def find_comparator(choice: ComparatorOptions, tolerance: Tolerance, actual: Source) -> Judge | None:
    """Return the comparator of `choice`; None where `tolerance` alone decides.

    Raises:
        ValueError: options that do not go together, or scores that `actual` does not have.
    """
    ratio = _ratio_judge(choice, tolerance)
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

    def judge(name: str, ours: TensorView, theirs: TensorView) -> ComparatorVerdict:
        if name in choice.topk:
            return TopKPairs().judge(ours, theirs, actual.tensors[choice.topk[name]].open())
        if ratio is not None:
            return ratio.judge(ours, theirs)
        return AllClose(tolerance).judge(ours, theirs)

    return judge


def _ratio_judge(choice: ComparatorOptions, tolerance: Tolerance) -> RatioAllClose | RatioRelDiff | None:
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


_UNRELATED_COSINE = 0.5
"""Inputs with a cosine up to this one are called unrelated. Slightly changed inputs have one near 1."""
_MOSTLY_UNEQUAL = 0.9
"""Inputs are called unrelated only where more than this share of their elements differs."""


class Severity(Enum):
    """How serious a remark is. After an `ERROR` the comparison says nothing about numerics; after a `WARNING` it
    may not.
    """

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True)
class Remark:
    """A reason to doubt the comparison."""

    severity: Severity
    subject: str
    message: str


def check_platform(case: str | None, build: str | None) -> Iterator[Remark]:
    """Check that the build's target is the one that the case is run for. None means that a target is unknown."""
    if case is not None and build is not None and case != build:
        yield _error("platform", f"the case is run for {case}, the build was made for {build}")


def check_sources(actual: Source, expected: Source, tolerance: Tolerance) -> list[Remark]:
    """Return all remarks on two sources: platform, geometry, inputs, and the tolerance for each type."""
    remarks = list(check_platform(expected.platform, actual.platform))
    remarks += [
        _error(str(side.path), f"the dump is not whole: {side.incomplete}")
        for side in (actual, expected)
        if side.incomplete
    ]
    remarks += [
        _warning(str(side.path), reason) for side in (actual, expected) for reason in side.read_errors
    ]
    remarks += _check_names(actual, expected)
    seen: set[DType] = set()
    for name, theirs in expected.tensors.items():
        ours = actual.tensors.get(name)
        if ours is None:
            continue
        try:
            golden = theirs.load_layout()
            remarks += _check_tensor(name, ours, theirs)
        except (BuildOutputError, MemoryError):
            continue  # the comparison reports it
        if golden.dtype not in seen:
            seen.add(golden.dtype)
            remarks += check_tolerance(golden.dtype, tolerance)
    return remarks


def _check_names(actual: Source, expected: Source) -> Iterator[Remark]:
    """Check that names correspond. The names of single tensors do not matter."""
    if actual.renamed:
        theirs, ours = next(iter(actual.renamed.items()))
        others = plural(len(actual.renamed), "tensor")
        yield _warning(
            str(actual.path),
            f"{others} named as in {expected.path} but for what stands before the last /, such as {ours} for {theirs}",
        )
    elif actual.names() and expected.names() and are_unrelated(actual, expected):
        ours, theirs = (next(iter(side.names())) for side in (actual, expected))
        yield _error(
            "names",
            f"expected a name that both have, found {ours!r} and the like here, {theirs!r} there: nothing is compared",
        )


def _check_tensor(name: str, ours: Entry, theirs: Entry) -> Iterator[Remark]:
    mine, golden = ours.load_layout(), theirs.load_layout()
    if mine.is_contiguous != golden.is_contiguous:
        yield _warning(name, f"strides {mine.strides} against expected {golden.strides}")
    if not theirs.is_input:
        return
    try:
        require_one_shape(ours, theirs)
    except IncomparableError as error:
        yield _case_mismatch(name, error)
    else:
        yield from check_input(name, ours.open(), theirs.open())


def _case_mismatch(name: str, error: IncomparableError) -> Remark:
    return _error(name, f"inputs of different geometry: {error}; the golden was recorded for another case")


def check_input(name: str, actual: TensorView, expected: TensorView) -> Iterator[Remark]:
    """Check that an input is finite, and the same on both sides. If not, the golden belongs to another run."""
    if actual.dtype is expected.dtype and _are_the_same(actual, expected):
        return
    try:
        found = measure(actual, expected, Tolerance())
    except IncomparableError as error:
        yield _case_mismatch(name, error)
        return
    yield from _check_finite(name, found)
    if found.unequal == 0:
        return
    share = found.unequal / found.numel
    if share > _MOSTLY_UNEQUAL and not abs(found.cosine) > _UNRELATED_COSINE:
        yield _error(
            name,
            f"{share:.0%} of the input's elements differ, cosine {found.cosine:.3f}: unrelated values, as from "
            "another seed; record the golden anew, or run with --golden-data",
        )
    else:
        yield _error(
            name,
            f"the input differs between the sides in {found.unequal} of {plural(found.numel, 'element')}",
        )


def check_tolerance(dtype: DType, tolerance: Tolerance) -> Iterator[Remark]:
    """Check whether neighbouring numbers of `dtype` can be within `tolerance` at all.

    They are up to one spacing apart (2**-10 of their size for float16), and rounding alone makes half of it.
    """
    if not dtype.is_floating or (tolerance.rtol == 0 and tolerance.atol == 0):
        return
    spacing = SPACING[dtype]
    if tolerance.rtol >= spacing / 2:
        return
    size = tolerance.atol / (spacing / 2 - tolerance.rtol)
    where = "everywhere" if size == 0 or math.isinf(size) else f"for values over {size:.3g}"
    yield _warning(
        dtype.value,
        f"rtol={tolerance.rtol:g} atol={tolerance.atol:g} is finer than {dtype.value} can hold {where}: one "
        f"rounding is up to {spacing / 2:.2g} of a value",
    )


def _check_finite(name: str, found: Statistics) -> Iterator[Remark]:
    for side, wild, what in (
        ("actual", found.actual_nan, "NaN"),
        ("actual", found.actual_inf, "Inf"),
        ("expected", found.expected_nan, "NaN"),
        ("expected", found.expected_inf, "Inf"),
    ):
        if wild.count:
            yield _warning(name, f"the {side} input holds {wild.count} {what}, the first at {wild.first}")


def _error(subject: str, message: str) -> Remark:
    return Remark(severity=Severity.ERROR, subject=subject, message=message)


def _warning(subject: str, message: str) -> Remark:
    return Remark(severity=Severity.WARNING, subject=subject, message=message)
