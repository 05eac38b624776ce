"""What to check before numerics are blamed: files, shapes, types, strides, devices, inputs, tolerances."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ...store.words import plural
from ..build_output.files.errors import BuildOutputError
from ..tensor.view import DType, TensorView
from .patterns.numeric.arithmetic import SPACING
from .sources import Source, are_unrelated
from .statistics.statistics import IncomparableError, Statistics, Tolerance, measure

_UNRELATED_COSINE = 0.5
_MOSTLY_UNEQUAL = 0.9


class Severity(Enum):
    """`ERROR`: the comparison says nothing about numerics. `WARNING`: it may not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True)
class Remark:
    """One thing that is not as it should be."""

    severity: Severity
    subject: str
    message: str


def check_platform(case: str | None, build: str | None) -> Iterator[Remark]:
    """The target that the case is run for against the one of the build; None where it is not said."""
    if case is not None and build is not None and case != build:
        yield _error("platform", f"the case is run for {case}, the build was made for {build}")


def check_sources(actual: Source, expected: Source, tolerance: Tolerance) -> list[Remark]:
    """Everything that can be said of two sources: platform, geometry, inputs, and the tolerance for each type."""
    remarks = list(check_platform(expected.platform, actual.platform))
    remarks += [
        _error(str(side.path), f"the dump is not whole: {side.incomplete}")
        for side in (actual, expected)
        if side.incomplete
    ]
    remarks += [_warning(str(side.path), reason) for side in (actual, expected) for reason in side.unread]
    remarks += _check_names(actual, expected)
    seen: set[DType] = set()
    for name, theirs in expected.tensors.items():
        ours = actual.tensors.get(name)
        if ours is None:
            continue
        dtype = theirs.dtype
        if dtype is None:
            try:
                mine, golden = ours.open(), theirs.open()
            except BuildOutputError:
                continue  # the comparison reports it
            dtype = golden.dtype
            remarks += _check_opened(name, mine, golden, is_input=theirs.is_input)
        if dtype not in seen:
            seen.add(dtype)
            remarks += check_tolerance(dtype, tolerance)
    return remarks


def _check_names(actual: Source, expected: Source) -> Iterator[Remark]:
    """Which names stand for one thing; of single tensors that does not matter."""
    if actual.renamed:
        theirs, ours = next(iter(actual.renamed.items()))
        others = plural(len(actual.renamed), "tensor")
        yield _warning(
            str(actual.path),
            f"{others} named as in {expected.path} but for what stands before the last /, such as {ours} for {theirs}",
        )
    elif are_unrelated(actual, expected):
        ours, theirs = (next(iter(side.names()), "none") for side in (actual, expected))
        yield _error(
            "names",
            f"expected a name that both have, found {ours!r} and the like here, {theirs!r} there: nothing is compared",
        )


def _check_opened(name: str, mine: TensorView, golden: TensorView, *, is_input: bool) -> Iterator[Remark]:
    if mine.is_contiguous != golden.is_contiguous:
        yield _warning(name, f"strides {mine.strides} against expected {golden.strides}")
    if is_input:
        yield from check_input(name, mine, golden)


def check_input(name: str, actual: TensorView, expected: TensorView) -> Iterator[Remark]:
    """An input is finite, and the same on both sides: else the golden belongs to another run."""
    try:
        found = measure(actual, expected, Tolerance())
    except IncomparableError as error:
        yield _error(name, f"inputs of different geometry: {error}; the golden was recorded for another case")
        return
    yield from _not_finite(name, found)
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
    """Whether neighbouring numbers of `dtype` can be within `tolerance` at all.

    They are up to one spacing (2**-10 of their size for float16) apart; rounding alone is half of it.
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


def _not_finite(name: str, found: Statistics) -> Iterator[Remark]:
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
