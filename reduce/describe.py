"""From what was measured to what is written down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set

from ..runner.build_output.task_id import format_task_id
from ..runner.tensors.patterns.recognize import recognize
from ..runner.tensors.rows import breakdown
from ..runner.tensors.statistics import IncomparableError, Tolerance, measure
from ..runner.tensors.view import TensorView
from . import divergence as written
from .alignment import Alignment
from .assess import Assessment
from .classes import Distances
from .comparison import alike, differs
from .generated import GeneratedDifference
from .localize import Divergence
from .races import MissingEdge
from .schedules import Trial
from .side import Side
from .single_task import submits_of
from .task_list import KernelTask
from .tensor_names import submit_lines, tensor_name

_FIRST_ROWS = 10


def task(found: KernelTask) -> written.Task:
    """A task by id and kernel."""
    return written.Task(task_id=format_task_id(found.task.task_id), kernel=found.name)


def first_divergent(
    found: Divergence, assessment: Assessment, *, failing: Side, tolerance: Tolerance
) -> Iterable[written.FirstDivergent]:
    """One entry a tensor that the task left wrong."""
    submits = submits_of(failing.orchestration, found.failing)
    kernels = [failing.config.kernels.get(one) for one in found.failing.task.kernels or () if one >= 0]
    for index, actual in sorted(found.actual.after.items()):
        expected = found.expected.after[index]
        if not differs(actual, expected, tolerance):
            continue
        yield written.FirstDivergent(
            task_id=format_task_id(found.failing.task.task_id),
            position=found.failing.ordinal,
            kernel=found.failing.name,
            kernel_sources=tuple(str(kernel.source) for kernel in kernels if kernel is not None),
            reference_kernel=found.reference.name,
            reference_task_id=format_task_id(found.reference.task.task_id),
            orchestration_source=str(failing.config.orchestration.source),
            orchestration_lines=submit_lines(failing.orchestration, submits),
            argument=index,
            tensor=tensor_name(failing.orchestration, submits, index),
            task_class=assessment.task_class.value,
            reason=assessment.reason,
            distances=_distances(assessment.distances),
            pattern=_pattern(actual, expected, tolerance, list(found.expected.before.values())),
            statistics=_statistics(actual, expected, tolerance),
        )


def generated(found: GeneratedDifference) -> written.Generated:
    """What the compiler made differently."""
    first = found.first_pass
    return written.Generated(
        differing=found.differing,
        only_failing=found.only_failing,
        only_reference=found.only_reference,
        first_pass=None
        if first is None
        else written.PassDifference(number=first.number, name=first.name, diff=first.diff),
        origin="runtime" if found.is_empty else "compiler",
    )


def race(trials: Sequence[Trial], *, confirmed: bool) -> written.Race:
    """What became of the failing build under each schedule."""
    return written.Race(
        confirmed=confirmed,
        trials=tuple(
            written.Trial(
                schedule=trial.schedule,
                variables=trial.variables,
                runs=trial.runs,
                failed=trial.failed,
                stopped=trial.stopped,
            )
            for trial in trials
        ),
    )


def missing_edge(
    found: MissingEdge, *, alignment: Alignment, in_reference: Set[tuple[int, int]]
) -> written.MissingEdge:
    """A missing edge; `in_reference` are the pairs of ordinals that the reference does not order either."""
    before = alignment.reference_of.get(found.before.ordinal)
    after = alignment.reference_of.get(found.after.ordinal)
    return written.MissingEdge(
        before_task_id=format_task_id(found.before.task.task_id),
        before_kernel=found.before.name,
        before_argument=found.first_argument,
        after_task_id=format_task_id(found.after.task.task_id),
        after_kernel=found.after.name,
        after_argument=found.second_argument,
        hazard=found.hazard.value,
        cause=found.cause,
        ordered_in_reference=None if before is None or after is None else (before, after) not in in_reference,
    )


def _distances(found: Distances | None) -> written.Distances | None:
    if found is None:
        return None
    return written.Distances(
        out=_finite(found.out),
        introduced=_finite(found.introduced),
        propagated=_finite(found.propagated),
        inputs=_finite(found.inputs),
        floor=_finite(found.floor),
    )


def _pattern(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, others: Sequence[TensorView]
) -> written.Pattern | None:
    try:
        findings = recognize(*alike(actual, expected), tolerance, others)
    except IncomparableError:
        return None
    if not findings:
        return None
    best = findings[0]
    return written.Pattern(name=best.pattern.value, confidence=best.confidence, evidence=best.evidence)


def _statistics(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> written.Statistics | None:
    ours, theirs = alike(actual, expected)
    try:
        found, rows = measure(ours, theirs, tolerance), breakdown(ours, theirs, tolerance)
    except IncomparableError:
        return None
    over = rows.slices_over()
    return written.Statistics(
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
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
