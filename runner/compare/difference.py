"""Two sources, tensor by tensor: what is equal, what differs and how, what cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from ..build_output.files.errors import BuildOutputError
from ..tensor.view import TensorView
from .patterns.finding import PatternMatch
from .patterns.recognize import recognize
from .sources import Entry, Scalar, Source, same_scalar
from .statistics.agreement import Agreement
from .statistics.rows import Breakdown, HeatMap, breakdown, heat_map
from .statistics.statistics import IncomparableError, Statistics, Tolerance, measure

Judge = Callable[[str, TensorView, TensorView], Agreement]
"""A comparator: name, actual and expected in, verdict out."""

MAP_HEIGHT, MAP_WIDTH = 24, 64
_OTHERS = 16


class Equality(Enum):
    """What became of one name."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "not compared"


@dataclass(frozen=True, kw_only=True, eq=False)
class Difference:
    """One name of the two sources. `reason` says why it is not equal; the rest is None where values were not read.

    `identical` means that no element differs at all; a tensor may be equal by tolerance without being it.
    """

    name: str
    outcome: Equality
    reason: str = ""
    identical: bool = False
    statistics: Statistics | None = None
    judgement: Agreement | None = None
    rows: Breakdown | None = None
    map: HeatMap | None = None
    findings: list[PatternMatch] = field(default_factory=list[PatternMatch])


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How to compare. Without `judge` a tensor is equal if no element is over `tolerance`."""

    tolerance: Tolerance
    judge: Judge | None = None
    axis: int | None = None


def compare_sources(actual: Source, expected: Source, how: Comparison) -> Iterable[Difference]:
    """One difference a name: the names of `expected` in their order, then what only `actual` has."""
    if _are_single(actual, expected):
        ((name, theirs),) = expected.tensors.items()
        (ours,) = actual.tensors.values()
        yield _tensor(name, ours, theirs, [], how)
        return
    for name in dict.fromkeys((*expected.names(), *actual.names())):
        if name not in actual.names() or name not in expected.names():
            there = expected if name in expected.names() else actual
            yield Difference(name=name, outcome=Equality.DIFFERENT, reason=f"only in {there.path}")
        elif name in actual.flawed or name in expected.flawed:
            sides = [
                f"{side.path}: {side.flawed[name]}" for side in (actual, expected) if name in side.flawed
            ]
            yield Difference(name=name, outcome=Equality.UNKNOWN, reason="; ".join(sides))
        elif name in actual.tensors and name in expected.tensors:
            # Only the reference's: in the actual run the next task's input is this same wrong value again.
            others = _neighbours(expected, name)
            yield _tensor(name, actual.tensors[name], expected.tensors[name], others, how)
        elif name in actual.scalars and name in expected.scalars:
            yield _scalar(name, actual.scalars[name], expected.scalars[name])
        else:
            yield Difference(name=name, outcome=Equality.DIFFERENT, reason="a scalar against a tensor")


def _are_single(actual: Source, expected: Source) -> bool:
    """Two single tensors belong together whatever their names."""
    return all(len(source.names()) == len(source.tensors) == 1 for source in (actual, expected))


def _neighbours(source: Source, name: str) -> list[Entry]:
    """Tensors that stand near this one in the listing: what its buffer might still hold."""
    at = source.positions[name]
    return [
        source.tensors[other]
        for other in source.ordered[max(at - _OTHERS, 0) : at + _OTHERS]
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
    statistics = measure(actual, expected, how.tolerance)
    judgement = how.judge(name, actual, expected) if how.judge is not None else None
    passed = statistics.over == 0 if judgement is None else judgement.passed
    if passed:
        return Difference(
            name=name,
            outcome=Equality.EQUAL,
            identical=statistics.unequal == 0,
            statistics=statistics,
            judgement=judgement,
        )
    reason = judgement.reason if judgement is not None else ""
    return Difference(
        name=name,
        outcome=Equality.DIFFERENT,
        reason=reason or f"{statistics.over} of {statistics.numel} elements differ",
        statistics=statistics,
        judgement=judgement,
        rows=breakdown(actual, expected, how.tolerance, axis=how.axis),
        map=heat_map(actual, expected, how.tolerance, height=MAP_HEIGHT, width=MAP_WIDTH),
        findings=recognize(actual, expected, how.tolerance, _opened(others, expected)),
    )


def _opened(others: list[Entry], like: TensorView) -> list[TensorView]:
    views: list[TensorView] = []
    for entry in others:
        try:
            view = entry.open()
        except BuildOutputError:
            continue  # its own comparison reports it
        if view.dtype is like.dtype and view.numel == like.numel:
            views.append(view)
    return views


def _scalar(name: str, ours: Scalar, theirs: Scalar) -> Difference:
    if same_scalar(ours, theirs):
        return Difference(name=name, outcome=Equality.EQUAL, identical=True)
    return Difference(
        name=name, outcome=Equality.DIFFERENT, reason=f"scalar {ours} against expected {theirs}"
    )
