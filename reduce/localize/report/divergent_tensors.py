"""Divergent tensors as they are written down: what made them, how they differ, and what that looks like."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ....runner.build_output.task_id import format_task_id
from ....runner.compare.patterns.recognize import recognize
from ....runner.compare.statistics.rows import breakdown, heat_map
from ....runner.compare.statistics.statistics import IncomparableError, Tolerance, measure
from ....runner.localization.tensors import (
    DownstreamTask,
    ErrorMap,
    FirstDivergent,
    PatternFit,
    TaskDistances,
    TensorStatistics,
)
from ....runner.tensor.view import TensorView
from ...graph.tensor_names import submit_lines
from ...replay.comparison import alike, differs
from ...replay.recorded_build import RecordedBuild
from ...rewrite.argument_names import ArgumentNames
from ...rewrite.single_task import submits_of
from ..attribution.attribution import Attribution, DivergentTask
from ..attribution.task_class import Distances

_FIRST_ROWS = 10
_HEAT_HEIGHT, _HEAT_WIDTH = 32, 48
"""Blocks of a heat map, at most."""


def first_divergent(
    divergent: DivergentTask, attribution: Attribution, failing: RecordedBuild, tolerance: Tolerance
) -> Iterator[FirstDivergent]:
    """One entry a tensor that the task of the failing build left wrong, as far as the right one is known."""
    task, actual, expected = divergent.task, divergent.actual, divergent.expected
    submits = submits_of(failing.orchestration, task)
    names = ArgumentNames(failing.orchestration, failing.tasks)
    kernels = [failing.config.kernels.get(number) for number in task.task.kernels or () if number >= 0]
    reference = divergent.counterpart
    # What a task read may stand in the place of what it should have left.
    read = list((expected.before or actual.before).values())
    for index, right in sorted(expected.after.items()):
        left = actual.after[index]
        if not differs(left, right, tolerance):
            continue
        yield FirstDivergent(
            task_id=format_task_id(task.task.task_id),
            position=task.ordinal,
            kernel=task.name,
            kernel_sources=tuple(str(kernel.source) for kernel in kernels if kernel is not None),
            reference_kernel=None if reference is None else reference.name,
            reference_task_id=None if reference is None else format_task_id(reference.task.task_id),
            orchestration_source=str(failing.config.orchestration.source),
            orchestration_lines=submit_lines(failing.orchestration, submits),
            argument=index,
            tensor=names.name_of(task, index),
            task_class=attribution.task_class.value,
            reason=attribution.reason,
            distances=_distances(attribution.distances),
            pattern=best_pattern(left, right, tolerance, read),
            statistics=tensor_statistics(left, right, tolerance),
        )


def downstream_task(divergent: DivergentTask, attribution: Attribution) -> DownstreamTask:
    """What a task made of the error that reached it."""
    return DownstreamTask(
        task_id=format_task_id(divergent.task.task.task_id),
        position=divergent.task.ordinal,
        kernel=divergent.task.name,
        task_class=attribution.task_class.value,
        reason=attribution.reason,
        distances=_distances(attribution.distances),
    )


def _distances(distances: Distances | None) -> TaskDistances | None:
    if distances is None:
        return None
    return TaskDistances(
        out=_finite(distances.out),
        introduced=_finite(distances.introduced),
        propagated=_finite(distances.propagated),
        inputs=_finite(distances.inputs),
        floor=_finite(distances.floor),
        factor=None if distances.factor is None else _finite(distances.factor),
    )


def best_pattern(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, others: Sequence[TensorView]
) -> PatternFit | None:
    """The kind of wrong that fits best, where one does. `others` may stand in the place of what is expected. Signs of
    zeros are none."""
    try:
        findings = recognize(*alike(actual, expected), replace(tolerance, signed_zeros=False), others)
    except IncomparableError:
        return None
    if not findings:
        return None
    best = findings[0]
    return PatternFit(name=best.pattern.value, confidence=best.confidence, evidence=best.evidence)


def tensor_statistics(
    actual: TensorView, expected: TensorView, tolerance: Tolerance
) -> TensorStatistics | None:
    """How two tensors differ; None where their elements do not correspond."""
    left, right = alike(actual, expected)
    try:
        measured, rows = measure(left, right, tolerance), breakdown(left, right, tolerance)
    except IncomparableError:
        return None
    over = rows.slices_over()
    return TensorStatistics(
        dtype=actual.dtype.value,
        reference_dtype=expected.dtype.value,
        shape=actual.shape,
        elements=measured.numel,
        different=measured.over,
        max_error=measured.max_error.value,
        max_error_index=measured.max_error.index,
        max_relative_error=_finite(measured.max_relative_error.value),
        relative_l2=_finite(measured.relative_l2),
        rmse=_finite(measured.rmse),
        max_ulps=measured.max_distance,
        nan=measured.actual_nan.count,
        inf=measured.actual_inf.count,
        rows=rows.length,
        rows_different=len(over),
        first_rows_different=tuple(rows.slice(int(number)).start for number in over[:_FIRST_ROWS]),
        heat=_heat(left, right, tolerance),
    )


def _heat(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> ErrorMap:
    blocks = heat_map(actual, expected, tolerance, height=_HEAT_HEIGHT, width=_HEAT_WIDTH)
    return ErrorMap(
        rows=blocks.rows,
        columns=blocks.columns,
        row_step=blocks.row_step,
        column_step=blocks.column_step,
        wrong=tuple(tuple(round(float(share), 4) for share in row) for row in blocks.share_over),
        wild=tuple(tuple(int(count) for count in row) for row in blocks.wild),
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
