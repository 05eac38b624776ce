"""From what was measured to what is written down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Literal

from ....runner.build_output.generated_sources import GeneratedDifference
from ....runner.build_output.task_id import format_task_id
from ....runner.compare.patterns.recognize import recognize
from ....runner.compare.statistics.rows import breakdown, heat_map
from ....runner.compare.statistics.statistics import IncomparableError, Tolerance, measure
from ....runner.localization.divergence import DivergentPass, Generated, NamedTask
from ....runner.localization.orders import OrderConfirmation, OrderTrial, Race, UnorderedTasks
from ....runner.localization.tensors import (
    DownstreamTask,
    ErrorMap,
    FirstDivergent,
    PatternFit,
    TaskDistances,
    TensorStatistics,
)
from ....runner.tensor.view import TensorView
from ...graph.alignment import Alignment
from ...graph.races import MissingEdge
from ...graph.task_list import KernelTask
from ...graph.tensor_names import submit_lines, tensor_name
from ...replay.comparison import TaskValues, alike, differs
from ...replay.side import Side
from ...rewrite.single_task import submits_of
from ..assess import Assessment
from ..classes import Distances
from ..localize import DivergentTask

_FIRST_ROWS = 10
_HEAT_HEIGHT, _HEAT_WIDTH = 32, 48
"""Blocks of a heat map, at most."""


def task(found: KernelTask) -> NamedTask:
    """A task by id and kernel."""
    return NamedTask(task_id=format_task_id(found.task.task_id), kernel=found.name)


def first_divergent(
    found: KernelTask,
    values: TaskValues,
    right: Mapping[int, TensorView],
    assessment: Assessment,
    *,
    reference: KernelTask | None,
    others: Sequence[TensorView],
    failing: Side,
    tolerance: Tolerance,
) -> Iterable[FirstDivergent]:
    """One entry a tensor that the task left wrong, by what is `right`; `others` may be there in its place."""
    submits = submits_of(failing.orchestration, found)
    kernels = [failing.config.kernels.get(one) for one in found.task.kernels or () if one >= 0]
    for index, expected in sorted(right.items()):
        actual = values.after[index]
        if not differs(actual, expected, tolerance):
            continue
        yield FirstDivergent(
            task_id=format_task_id(found.task.task_id),
            position=found.ordinal,
            kernel=found.name,
            kernel_sources=tuple(str(kernel.source) for kernel in kernels if kernel is not None),
            reference_kernel=None if reference is None else reference.name,
            reference_task_id=None if reference is None else format_task_id(reference.task.task_id),
            orchestration_source=str(failing.config.orchestration.source),
            orchestration_lines=submit_lines(failing.orchestration, submits),
            argument=index,
            tensor=tensor_name(failing.orchestration, submits, index),
            task_class=assessment.task_class.value,
            reason=assessment.reason,
            distances=_distances(assessment.distances),
            pattern=_pattern(actual, expected, tolerance, others),
            statistics=_statistics(actual, expected, tolerance),
        )


def generated(found: GeneratedDifference, firsts: Sequence[FirstDivergent]) -> Generated:
    """What the compiler made differently, and whether that settles who is at fault.

    That two builds have equal sources says nothing of the runtime by itself: frozen data, the machine or a race may be
    behind the failure. A kernel that was seen to leave other results alone, on the same inputs, does.
    """
    first = found.first_pass
    changed = {*found.differing, *found.only_failing, *found.only_reference}
    makers = {source for one in firsts for source in one.kernel_sources}
    orchestrations = {one.orchestration_source for one in firsts}
    introduced = any(one.task_class == "introduced" for one in firsts)
    interaction = any(one.task_class == "interaction" for one in firsts)
    origin: Literal["compiler", "runtime"] | None = None
    if introduced and changed & makers:
        origin, shown = "compiler", "the source of the kernel that is wrong alone was generated differently"
    elif introduced and found.is_empty:
        origin = "runtime"
        shown = "all generated sources are the same, and yet the kernel alone leaves other results on the same inputs"
    elif interaction and changed & orchestrations:
        origin, shown = (
            "compiler",
            "the orchestration of the task that is right alone was generated differently",
        )
    elif found.is_empty:
        shown = "all generated sources are the same; whether the runtime is at fault was not shown"
    else:
        shown = "generated sources differ, but not shown to be those that make the difference"
    return Generated(
        differing=found.differing,
        only_failing=found.only_failing,
        only_reference=found.only_reference,
        first_pass=None
        if first is None
        else DivergentPass(number=first.number, name=first.name, diff=first.diff),
        origin=origin,
        shown=shown,
    )


def race(trials: Sequence[OrderTrial], confirmation: OrderConfirmation | None) -> Race:
    """What became of the failing build under each schedule."""
    return Race(
        confirmed=confirmation is not None and confirmation.holds,
        trials=tuple(trials),
        confirmation=confirmation,
    )


def missing_edge(
    found: MissingEdge, *, alignment: Alignment | None, in_reference: Set[tuple[int, int]] | None
) -> UnorderedTasks:
    """A missing edge; `in_reference` are the pairs of ordinals that the reference does not order either. None where
    there is no other build."""
    ordered = None
    if alignment is not None and in_reference is not None:
        pair = tuple(alignment.reference_of.get(one.ordinal) for one in (found.before, found.after))
        ordered = None if None in pair else pair not in in_reference
    return UnorderedTasks(
        before_task_id=format_task_id(found.before.task.task_id),
        before_kernel=found.before.name,
        before_argument=found.first_argument,
        after_task_id=format_task_id(found.after.task.task_id),
        after_kernel=found.after.name,
        after_argument=found.second_argument,
        hazard=found.hazard.value,
        cause=found.cause,
        ordered_in_reference=ordered,
    )


def downstream(found: DivergentTask, assessment: Assessment) -> DownstreamTask:
    """What a task made of the error that reached it."""
    return DownstreamTask(
        task_id=format_task_id(found.failing.task.task_id),
        position=found.failing.ordinal,
        kernel=found.failing.name,
        task_class=assessment.task_class.value,
        reason=assessment.reason,
        distances=_distances(assessment.distances),
    )


def _distances(found: Distances | None) -> TaskDistances | None:
    if found is None:
        return None
    return TaskDistances(
        out=_finite(found.out),
        introduced=_finite(found.introduced),
        propagated=_finite(found.propagated),
        inputs=_finite(found.inputs),
        floor=_finite(found.floor),
        factor=None if found.factor is None else _finite(found.factor),
    )


def _pattern(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, others: Sequence[TensorView]
) -> PatternFit | None:
    try:
        findings = recognize(*alike(actual, expected), tolerance, others)
    except IncomparableError:
        return None
    if not findings:
        return None
    best = findings[0]
    return PatternFit(name=best.pattern.value, confidence=best.confidence, evidence=best.evidence)


def _statistics(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> TensorStatistics | None:
    ours, theirs = alike(actual, expected)
    try:
        found, rows = measure(ours, theirs, tolerance), breakdown(ours, theirs, tolerance)
    except IncomparableError:
        return None
    over = rows.slices_over()
    return TensorStatistics(
        dtype=actual.dtype.value,
        reference_dtype=expected.dtype.value,
        shape=actual.shape,
        elements=found.numel,
        different=found.over,
        max_error=found.max_error.value,
        max_error_index=found.max_error.index,
        max_relative_error=_finite(found.max_relative_error.value),
        relative_l2=_finite(found.relative_l2),
        rmse=_finite(found.rmse),
        max_ulps=found.max_distance,
        nan=found.actual_nan.count,
        inf=found.actual_inf.count,
        rows=rows.length,
        rows_different=len(over),
        first_rows_different=tuple(rows.slice(int(number)).start for number in over[:_FIRST_ROWS]),
        heat=_heat(ours, theirs, tolerance),
    )


def _heat(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> ErrorMap:
    found = heat_map(actual, expected, tolerance, height=_HEAT_HEIGHT, width=_HEAT_WIDTH)
    return ErrorMap(
        rows=found.rows,
        columns=found.columns,
        row_step=found.row_step,
        column_step=found.column_step,
        wrong=tuple(tuple(round(float(share), 4) for share in row) for row in found.share_over),
        wild=tuple(tuple(int(count) for count in row) for row in found.wild),
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
