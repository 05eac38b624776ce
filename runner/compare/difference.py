"""Two sources, tensor by tensor: what is equal, what differs and how, what cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from ...store.words import plural
from ..build_output.files.errors import BuildOutputError
from ..build_output.files.tensor_file import Scalar
from ..tensor.chunks import cast
from ..tensor.view import DType, TensorView
from .patterns.finding import PatternMatch
from .patterns.recognize import recognize
from .sources import Entry, Source, are_single, are_unrelated, same_scalar
from .statistics.agreement import Agreement
from .statistics.rows import Breakdown, HeatMap, breakdown, heat_map
from .statistics.statistics import IncomparableError, Statistics, Tolerance, measure

Judge = Callable[[str, TensorView, TensorView], Agreement]
"""A comparator: name, actual and expected in, verdict out."""

MAP_HEIGHT, MAP_WIDTH = 24, 64
_OTHERS = 16
_MOST_OTHER_BYTES = 2**30
"""Of what a buffer might still hold, or was computed from, the nearest first; a dump's tensors are read into memory."""


class Equality(Enum):
    """What became of one name."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "not compared"


@dataclass(frozen=True, kw_only=True, eq=False)
class Difference:
    """One name of the two sources. `reason` says why it is not equal; the rest is None where values were not read.

    `identical` means that no element differs at all; a tensor may be equal by tolerance without being it. `kernel` is
    the one whose argument it is, as far as known; `actual_name` is the actual side's, where the
    two single tensors compared have two names; `cast` says what was compared as what, where elements are not
    compared as they are; `only_in` is the path of the one source that has the name.
    """

    name: str
    outcome: Equality
    reason: str = ""
    identical: bool = False
    kernel: str = ""
    actual_name: str = ""
    cast: str = ""
    only_in: str = ""
    statistics: Statistics | None = None
    judgement: Agreement | None = None
    rows: Breakdown | None = None
    map: HeatMap | None = None
    findings: list[PatternMatch] = field(default_factory=list[PatternMatch])

    @property
    def label(self) -> str:
        """How it is called where people read: the kernel first, then the name, or both names."""
        name = f"{self.actual_name} against {self.name}" if self.actual_name else self.name
        return f"{self.kernel} {name}" if self.kernel else name


def is_divergent(difference: Difference) -> bool:
    """Whether both sources have the name, and not the same under it."""
    return difference.outcome is Equality.DIFFERENT and not difference.only_in


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How to compare. Without `judge` a tensor is equal if no element is over `tolerance`."""

    tolerance: Tolerance
    judge: Judge | None = None
    axis: int | None = None

    @property
    def exact(self) -> bool:
        """Whether nothing but the same values in the same type will do."""
        return self.judge is None and self.tolerance == Tolerance()


def compare_sources(
    actual: Source, expected: Source, how: Comparison, only: Callable[[str], bool] = lambda _label: True
) -> Iterator[Difference]:
    """One difference a name, as they are executed: the names of `expected` in their order, then what only `actual` has.

    Names whose label `only` refuses are passed over.
    """
    if are_single(actual, expected):
        ((name, theirs),) = expected.tensors.items()
        ((other, ours),) = actual.tensors.items()
        found = _tensor(name, ours, theirs, [], how)
        yield found if other == name else replace(found, actual_name=other)
        return
    # A name that one of them lacks is a difference of the two, unless they have nothing to do with each other.
    lacking = Equality.UNKNOWN if are_unrelated(actual, expected) else Equality.DIFFERENT
    for name in dict.fromkeys((*expected.names(), *actual.names())):
        kernel = expected.kernels.get(name) or actual.kernels.get(name, "")
        if only(f"{kernel} {name}"):
            yield replace(_named(name, actual, expected, how, lacking), kernel=kernel)


def _named(name: str, actual: Source, expected: Source, how: Comparison, lacking: Equality) -> Difference:
    here, there = name in actual.names(), name in expected.names()
    if not (here and there):
        place = str((actual if here else expected).path)
        return Difference(name=name, outcome=lacking, reason=f"only in {place}", only_in=place)
    if name in actual.flawed or name in expected.flawed:
        sides = [f"{side.path}: {side.flawed[name]}" for side in (actual, expected) if name in side.flawed]
        return Difference(name=name, outcome=Equality.UNKNOWN, reason="; ".join(sides))
    if name in actual.tensors and name in expected.tensors:
        # Only the reference's: in the actual run the next task's input is this same wrong value again.
        others = _neighbours(expected, name)
        return _tensor(name, actual.tensors[name], expected.tensors[name], others, how)
    if name in actual.scalars and name in expected.scalars:
        return _scalar(name, actual.scalars[name], expected.scalars[name])
    return Difference(name=name, outcome=Equality.DIFFERENT, reason="a scalar against a tensor")


def _neighbours(source: Source, name: str) -> list[Entry]:
    """Tensors near this one in the listing, the nearest first: its buffer may still hold them, or it came from them."""
    at = source.positions[name]
    near = source.ordered[max(at - _OTHERS, 0) : at + _OTHERS]
    return [
        source.tensors[other]
        for other in sorted(near, key=lambda other: abs(source.positions[other] - at))
        if other != name
    ]


def _tensor(name: str, ours: Entry, theirs: Entry, others: list[Entry], how: Comparison) -> Difference:
    try:
        actual, expected = ours.open(), theirs.open()
    except BuildOutputError as error:
        return Difference(name=name, outcome=Equality.UNKNOWN, reason=str(error))
    try:
        return _values(name, actual, expected, others, how)
    except IncomparableError as error:
        return Difference(name=name, outcome=Equality.DIFFERENT, reason=str(error))


def _values(
    name: str, actual: TensorView, expected: TensorView, others: list[Entry], how: Comparison
) -> Difference:
    types = f"dtype {actual.dtype.value} against expected {expected.dtype.value}"
    same_type = actual.dtype is expected.dtype
    actual, expected, stated = _as_one_type(actual, expected)
    statistics = measure(actual, expected, how.tolerance)
    judgement = how.judge(name, actual, expected) if how.judge is not None else None
    passed = statistics.over == 0 if judgement is None else judgement.passed
    if passed and (same_type or not how.exact):
        return Difference(
            name=name,
            outcome=Equality.EQUAL,
            identical=same_type and statistics.unequal == 0,
            cast=stated,
            statistics=statistics,
            judgement=judgement,
        )
    if passed:
        return Difference(
            name=name, outcome=Equality.DIFFERENT, reason=f"{types}, equal values", statistics=statistics
        )
    reason = judgement.reason if judgement is not None else ""
    differ = "differs" if statistics.numel == 1 else "differ"
    return Difference(
        name=name,
        outcome=Equality.DIFFERENT,
        reason=reason or f"{statistics.over} of {plural(statistics.numel, 'element')} {differ}",
        cast=stated,
        statistics=statistics,
        judgement=judgement,
        rows=breakdown(actual, expected, how.tolerance, axis=how.axis),
        map=heat_map(actual, expected, how.tolerance, height=MAP_HEIGHT, width=MAP_WIDTH),
        findings=recognize(actual, expected, how.tolerance, _opened(others)),
    )


def _as_one_type(actual: TensorView, expected: TensorView) -> tuple[TensorView, TensorView, str]:
    """Two tensors in one type, and as what they are compared where that is not their own.

    Of two floating-point types both become float32, or float64 where one of them is that, of two types of integers the
    wider one, where it holds the other's: no value changes by it.
    """
    stated = list(dict.fromkeys(each.converted for each in (actual, expected) if each.converted))
    types = (actual.dtype, expected.dtype)
    common = _common(*types)
    if common is not None and actual.shape == expected.shape:
        stated.append(f"{types[0].value} with {types[1].value}, both as {common.value}")
        actual, expected = (
            each if each.dtype is common else cast(each, common) for each in (actual, expected)
        )
    return actual, expected, "; ".join(stated)


def _common(one: DType, other: DType) -> DType | None:
    """The type that holds the values of two types of a kind; None where they are one, or there is none."""
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


def _opened(others: list[Entry]) -> list[TensorView]:
    views: list[TensorView] = []
    for entry in others:
        if sum(view.nbytes for view in views) >= _MOST_OTHER_BYTES:
            break
        try:
            views.append(entry.open())
        except BuildOutputError:
            continue  # its own comparison reports it
    return views


def _scalar(name: str, ours: Scalar, theirs: Scalar) -> Difference:
    if same_scalar(ours, theirs):
        return Difference(name=name, outcome=Equality.EQUAL, identical=True)
    return Difference(
        name=name, outcome=Equality.DIFFERENT, reason=f"scalar {ours} against expected {theirs}"
    )
