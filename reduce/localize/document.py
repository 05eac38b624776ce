"""What a localization has found, as it is written to `divergence.json`.

Each kind of findings has a `document` and a `page`. `ExplainedFindings` is for a build that gets to its outputs.
`StallFindings` is for one that does not end, and `EndingFindings` for one that crashes or does not compile. First stand
the causes (what changed, how the tasks differ, which of them goes wrong), then the divergent tensors that show them.
`origin_of_fault` decides between compiler and runtime, from the generated sources and from what the kernels did alone.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...runner.build_output.args_dump import format_task_id
from ...runner.build_output.directory import BuildDirectory, GeneratedDifference, compare_generated
from ...runner.compare.judges import recognize_patterns
from ...runner.compare.statistics import IncomparableError, Tolerance, breakdown, heat_map, measure
from ...runner.localization import (
    BuildChange,
    CaseFailure,
    CauseKind,
    ColumnRun,
    Divergence,
    DivergentPass,
    DownstreamTask,
    ErrorMap,
    FailingOutput,
    FailureCause,
    FirstDivergent,
    GeneratedSources,
    NamedTask,
    OrderTrial,
    PatternFit,
    Race,
    RowRun,
    Stall,
    TaskDistances,
    TensorStatistics,
    UnorderedTasks,
    UnwrittenRows,
)
from ...runner.localization_job import TaskFootprint
from ...runner.tensor import TensorView
from ..graph.differences import DifferenceKind, TaskDifference, program_differences
from ..graph.submits import find_submits, submit_lines
from ..graph.tasks import KernelTask, MissingEdge
from ..replay.replay import RecordedBuild, differs, promote_tensors
from .attribute import Attribution, Distances, DivergentTask
from .causes import Cause, FailureExplanation, LocalizationRequest
from .changes import Change, ChangedPart
from .endings import RUNS_OF_A_STALL, CrashingTask
from .failure import UnwrittenElements
from .first_divergence import AttributedDivergences
from .footprints import describe_writes
from .localization_text import page
from .reference import ExpectedValues

_MOST_ROWS = 8
"""The document names at most this many runs of rows or columns. A reader sees where a failure lies from a few."""
_MOST_DIFFERENCES = 40
"""The document holds at most this many differences of a cause. Unlike builds may differ in thousands of places."""
_MOST_LINES = 12
"""The document quotes at most this many lines of a difference between sources. The sources hold the rest."""
_MOST_NAMED = 6
"""A sentence names at most this many tasks or lines, so that it stays readable. It counts the rest."""


@dataclass(frozen=True, kw_only=True)
class CauseInTasks:
    """How the tasks of the build with one cause alone differ from the good build's tasks."""

    cause: Cause
    differences: tuple[TaskDifference, ...]

    @classmethod
    def from_cause(
        cls,
        cause: Cause,
        build: RecordedBuild,
        good: RecordedBuild | None,
        divergent: Sequence[DivergentTask],
    ) -> CauseInTasks:
        """Compare the task graphs of the two builds, and the scalars of the tasks that were dumped whole."""
        scalars = [difference for each in divergent for difference in _scalars(each)]
        graphs = (
            ()
            if good is None
            else program_differences(
                build.tasks,
                good.tasks,
                name_of=build.argument_names.name_of,
                reference_name_of=good.argument_names.name_of,
            )
        )
        return cls(cause=cause, differences=(*scalars, *_harm_first(graphs)))

    @property
    def kernel(self) -> str | None:
        """Return the kernel that is at fault, or the kernel of the first task that differs."""
        named = next((change.kernel for change in self.cause.changes if change.kernel), None)
        return named or next((difference.kernel for difference in self.differences), None)

    def classify_tensors(self, tensors: Sequence[FirstDivergent]) -> tuple[FirstDivergent, ...]:
        """The tensors that show the cause, those of its own tasks first.

        A task that is submitted differently makes an error of its own in what it leaves wrong, whatever it reads.
        """
        told = [self._classify_tensor(tensor) for tensor in tensors]
        return tuple(sorted(told, key=lambda tensor: tensor.kernel != self.kernel))

    def _classify_tensor(self, tensor: FirstDivergent) -> FirstDivergent:
        given = [
            each
            for each in self.differences
            if each.task is not None and each.task.ordinal == tensor.position and not each.kind.is_order
        ]
        if not given or any(change.part is ChangedPart.KERNEL for change in self.cause.changes):
            return tensor
        reason = f"it is submitted otherwise: {given[0].text}"
        return tensor.model_copy(update={"task_class": "introduced", "reason": reason})


def _harm_first(differences: Sequence[TaskDifference]) -> Sequence[TaskDifference]:
    """Among differences of placement, puts the tasks first that therefore read what another tensor left there."""
    harm = [each for each in differences if each.kind is DifferenceKind.CONTENTS]
    placed = [each for each in differences if each.kind is DifferenceKind.PLACEMENT]
    return [*harm, *placed] if len(harm) + len(placed) == len(differences) else differences


def failure_cause(
    cause: Cause,
    in_tasks: CauseInTasks | None,
    tensors: Sequence[FirstDivergent],
    *,
    unwritten: Sequence[UnwrittenElements] = (),
    identical: bool = False,
    beside: Sequence[TaskFootprint] = (),
) -> FailureCause:
    """The written form of a cause.

    `in_tasks` is None where the tasks of the cause were not examined. `unwritten` is what no task of the failing build
    writes. `identical` says that all sources are the same. `beside` are tasks of the cause that write outside of their
    tensors, where none of them was seen to make an error in its own.
    """
    shown = () if in_tasks is None else in_tasks.classify_tensors(tensors)
    differences = () if in_tasks is None else in_tasks.differences
    first = shown[0] if shown else None
    if beside and all(tensor.task_class == "interaction" for tensor in shown):
        return _out_of_place_cause(cause, beside, identical=identical)
    kernel = _missing_writer(differences, unwritten) or (
        in_tasks.kernel
        if in_tasks is not None
        else next((change.kernel for change in cause.changes if change.kernel), None)
    )
    elsewhere = _first_moved_write(kernel, differences, shown)
    if elsewhere is not None:
        position, task_class, tensor = _position([elsewhere]), "introduced", elsewhere.tensor
    elif first is not None:
        position, task_class, tensor = first.position, first.task_class, _tensor(differences, first)
    else:
        position, task_class, tensor = _position(differences), None, _tensor(differences, None)
    return FailureCause(
        what=what_changed(cause, differences, identical=identical),
        kind=_kind(cause, differences, shown),
        confirmed=cause.shown,
        effect=cause.effect,
        changes=tuple(build_change(change) for change in cause.changes),
        differences=tuple(each.text for each in differences[:_MOST_DIFFERENCES]),
        kernel=kernel or (first.kernel if first is not None else None),
        position=position,
        task_class=task_class,
        tensor=tensor,
    )


def _out_of_place_cause(cause: Cause, beside: Sequence[TaskFootprint], *, identical: bool) -> FailureCause:
    """The cause for a kernel whose tasks leave their own results right, and write over the results of others."""
    first = beside[0]
    return FailureCause(
        what=what_changed(cause, (), identical=identical),
        kind="out of place",
        confirmed=cause.shown,
        effect=cause.effect,
        changes=tuple(build_change(change) for change in cause.changes),
        differences=tuple(describe_writes(footprint) for footprint in beside[:_MOST_DIFFERENCES]),
        kernel=first.kernel,
        position=first.position,
        task_class="introduced",
        tensor=first.writes[0].tensor,
    )


def _first_moved_write(
    kernel: str | None, differences: Sequence[TaskDifference], shown: Sequence[FirstDivergent]
) -> TaskDifference | None:
    """The first difference in which a task of the kernel writes another part of its tensor than in the good build.

    What such a task leaves cannot be compared, so only readers of the tensor diverge. None where a task of the kernel
    was seen to diverge.
    """
    if any(tensor.kernel == kernel for tensor in shown):
        return None
    return next((each for each in differences if each.kernel == kernel and _is_moved_write(each)), None)


def _is_moved_write(difference: TaskDifference) -> bool:
    task = difference.task
    return (
        difference.kind is DifferenceKind.REGION
        and task is not None
        and any(each.type.may_write for each in task.task.arguments if each.index == difference.argument)
    )


def _tensor(differences: Sequence[TaskDifference], first: FirstDivergent | None) -> str | None:
    """The tensor that a missing or extra task writes; else the tensor that the first wrong task leaves."""
    told = next((each for each in differences if each.tensor is not None), None)
    if told is None or (first is not None and not _takes_precedence(told, first)):
        return None if first is None else first.tensor
    return told.tensor


def _takes_precedence(difference: TaskDifference, first: FirstDivergent) -> bool:
    """Return whether the difference says better what is wrong than the first task that was seen to diverge.

    A task that only one build has, or that has another place there, cannot be compared.
    """
    kind = difference.kind
    return kind is DifferenceKind.PRESENCE or (
        kind is DifferenceKind.ORDER and first.kernel != difference.kernel
    )


def _position(differences: Sequence[TaskDifference]) -> int | None:
    """The ordinal of the first task of the failing build that differs."""
    return next((each.task.ordinal for each in differences if each.task is not None), None)


def _missing_writer(
    differences: Sequence[TaskDifference], unwritten: Sequence[UnwrittenElements]
) -> str | None:
    """The kernel of a task that only the good build submits, and that writes what no task writes here."""
    missing = {
        each.counterpart.ordinal: each.counterpart.name
        for each in differences
        if each.kind is DifferenceKind.PRESENCE and each.counterpart is not None
    }
    writers = (task.ordinal for each in unwritten for task in each.written_by)
    return next((missing[ordinal] for ordinal in writers if ordinal in missing), None)


def what_changed(cause: Cause, differences: Sequence[TaskDifference], *, identical: bool) -> str:
    """The cause in one line."""
    parts = {change.part for change in cause.changes}
    if ChangedPart.DATA in parts:
        files = ", ".join(change.file for change in cause.changes)
        return f"frozen data that the good build has otherwise, on which it fails too: {files}"
    if ChangedPart.RUNTIME in parts:
        return (
            "all sources are identical, only the runtimes differ"
            if identical
            else "the good build fails when it is run by the failing build's runtime"
        )
    if kernels := [change.kernel for change in cause.changes if change.part is ChangedPart.KERNEL]:
        others = dict.fromkeys(
            change.part.value for change in cause.changes if change.part is not ChangedPart.KERNEL
        )
        beside = f", with the {' and the '.join(others)}" if others else ""
        return f"the source of {'kernel' if len(kernels) == 1 else 'kernels'} {', '.join(kernels)}{beside}"
    listed = [change.kernel for change in cause.changes if change.part is ChangedPart.KERNEL_LIST]
    if named := [kernel for kernel in listed if kernel]:
        return f"the kernel list has another source for {', '.join(named)}"
    missing = [each.counterpart for each in differences if each.task is None and each.counterpart is not None]
    # What other tasks therefore read is a consequence of these differences.
    of_themselves = [each for each in differences if not each.kind.is_consequence]
    if len(missing) > 1 and len(missing) == len(of_themselves):
        names = ", ".join(f"{task.ordinal} {task.name}" for task in missing[:_MOST_NAMED])
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        return f"{len(missing)} tasks of the good build are not submitted: {names}{more}"
    if differences:
        return differences[0].text
    changed = cause.changes[0]
    lines = [line for edit in changed.edits for line in edit.lines()]
    return f"the {changed.part.value}: {'  '.join(lines[:_MOST_NAMED])}".removesuffix(": ")


_DIFFERENCE_KINDS: Mapping[DifferenceKind, CauseKind] = {
    DifferenceKind.PRESENCE: "missing or extra task",
    DifferenceKind.KERNEL: "submission",
    DifferenceKind.TENSOR: "submission",
    DifferenceKind.REGION: "submission",
    DifferenceKind.BLOCKS: "submission",
    DifferenceKind.SCALAR: "submission",
    DifferenceKind.ORDER: "order",
    DifferenceKind.DIRECTION: "order",
    DifferenceKind.DEPENDENCY: "order",
    DifferenceKind.PLACEMENT: "shared buffer",
    DifferenceKind.CONTENTS: "shared buffer",
}
"""Each kind of difference gives the cause this kind. The most informative kind comes first."""
_PART_KINDS: Mapping[ChangedPart, CauseKind] = {
    ChangedPart.DATA: "data",
    ChangedPart.RUNTIME: "runtime",
    ChangedPart.KERNEL_LIST: "kernel list",
}


def _kind(
    cause: Cause, differences: Sequence[TaskDifference], tensors: Sequence[FirstDivergent]
) -> CauseKind:
    kernels = {change.kernel for change in cause.changes if change.part is ChangedPart.KERNEL}
    if kernels:
        # A kernel that leaves its own results right makes those of others wrong by where it writes.
        own = [tensor for tensor in tensors if kernels & set(tensor.kernel.split("+"))]
        return "kernel" if own or not tensors else "out of place"
    parts = {change.part for change in cause.changes}
    for part, kind in _PART_KINDS.items():
        if part in parts:
            return kind
    found = {each.kind for each in differences}
    for difference, kind in _DIFFERENCE_KINDS.items():
        if difference in found:
            return kind
    return "orchestration"


def build_change(change: Change) -> BuildChange:
    """A change with the lines that differ; of many lines, only the first ones."""
    lines = [line for edit in change.edits for line in edit.lines()]
    gone, come = (sorted(line[1:] for line in lines if line.startswith(sign)) for sign in "-+")
    is_move = bool(gone) and gone == come
    here = next((edit.first_line for edit in change.edits if edit.new or not is_move), None)
    return BuildChange(
        part=change.part.value,
        file=change.file,
        line=here,
        kernel=change.kernel or None,
        moved_from=next(edit.start + 1 for edit in change.edits if edit.old) if is_move else None,
        diff=tuple(lines[:_MOST_LINES]),
    )


def case_failure(explanation: FailureExplanation) -> CaseFailure:
    """The outputs that make the case fail, and the tolerance."""
    tolerance = explanation.judge.tolerance
    return CaseFailure(
        rtol=tolerance.rtol,
        atol=tolerance.atol,
        told=explanation.judge.told,
        by_good_build=explanation.judge.by_good_build,
        outputs=tuple(
            FailingOutput(
                name=output.name,
                shape=output.shape,
                elements=output.wrong.size,
                wrong=output.elements,
                rows=_runs(output.rows),
                worst=output.worst if math.isfinite(output.worst) else None,
            )
            for output in explanation.failure.outputs.values()
        ),
        unwritten=tuple(
            UnwrittenRows(
                output=each.output,
                rows=_runs(each.rows),
                columns=tuple(
                    ColumnRun(first=run.start, last=run.stop - 1) for run in each.columns[:_MOST_ROWS]
                ),
                written_by=tuple(f"task {task.ordinal} {task.name}" for task in each.written_by),
            )
            for each in explanation.unwritten
        ),
    )


def _runs(rows: Sequence[range]) -> tuple[RowRun, ...]:
    return tuple(RowRun(first=run.start, last=run.stop - 1) for run in rows[:_MOST_ROWS])


def _scalars(divergent: DivergentTask) -> Iterator[TaskDifference]:
    """Scalars of a task that differ from its counterpart's."""
    ours, theirs = divergent.actual.scalars, divergent.expected_values.scalars
    first = min((*ours, *theirs), default=0)
    for index in sorted(ours.keys() & theirs.keys()):
        if ours[index] != theirs[index]:
            text = f"scalar {index - first} is {_number(ours[index])}, was {_number(theirs[index])}"
            task = divergent.task
            yield TaskDifference(
                kind=DifferenceKind.SCALAR,
                task=task,
                counterpart=divergent.counterpart,
                argument=index,
                text=f"task {task.ordinal} {task.name}: {text}",
            )


def _number(value: float | bool | None) -> str:
    """A scalar as it was recorded. A number that can only be the bits of a float32 is shown as that float32."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 << 23 <= value < 1 << 32:
        number: float = struct.unpack("<f", struct.pack("<I", value))[0]
        return f"{number:.9g}"
    return str(value)


_FIRST_ROWS = 10
"""The document lists this many of the first rows that differ. Their number is given beside them."""
_HEAT_HEIGHT, _HEAT_WIDTH = 32, 48
"""A heat map has at most this many blocks in each direction, so that each of them can be seen on a page."""


def first_divergent(
    divergent: DivergentTask, attribution: Attribution, failing: RecordedBuild, tolerance: Tolerance
) -> Iterator[FirstDivergent]:
    """One entry for each tensor that the task of the failing build left wrong, as far as the right one is known."""
    task, actual, expected = divergent.task, divergent.actual, divergent.expected_values
    submits = find_submits(failing.orchestration, task)
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
            tensor=failing.argument_names.name_of(task, index),
            task_class=attribution.task_class.value,
            reason=attribution.reason,
            distances=_distances(attribution.distances),
            pattern=best_pattern(left, right, tolerance, read),
            statistics=tensor_statistics(left, right, tolerance),
        )


def downstream_task(divergent: DivergentTask, attribution: Attribution) -> DownstreamTask:
    """Return what a task made of the error that reached it."""
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
    """The pattern of errors that fits best, where one does; signs of zeros do not count.

    `others` are tensors that may stand in the place of what is expected.
    """
    try:
        findings = recognize_patterns(
            *promote_tensors(actual, expected), replace(tolerance, signed_zeros=False), others
        )
    except IncomparableError:
        return None
    if not findings:
        return None
    best = findings[0]
    return PatternFit(name=best.pattern.value, confidence=best.confidence, evidence=best.evidence)


def tensor_statistics(
    actual: TensorView, expected: TensorView, tolerance: Tolerance
) -> TensorStatistics | None:
    """Return how two tensors differ; None where their elements do not correspond."""
    left, right = promote_tensors(actual, expected)
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


@dataclass(frozen=True, kw_only=True)
class EndingFindings:
    """What was found about a build that crashes or does not compile.

    `ended` says in one line how it ended, and `causes` are the changes that make the good build end so. `crashing` is
    the task that crashes, where one was found.
    """

    request: LocalizationRequest
    ended: str
    causes: tuple[Cause, ...]
    crashing: CrashingTask | None = None
    again: int = 0
    """Further runs of the failing build, followed by one of the good build; 0 where there is no good build."""

    def document(self) -> Divergence:
        """Return what `divergence.json` holds."""
        request, crashing = self.request, self.crashing
        crash = None if crashing is None else crashing.task
        causes = [failure_cause(cause, None, ()) for cause in self.causes]
        if crash is not None and crash.kernel:
            found = {"kernel": crash.kernel, "position": crash.position, "tensor": crash.tensor}
            causes = [
                cause.model_copy(update=found) if cause.kernel in (None, crash.kernel) else cause
                for cause in causes
            ]
        return Divergence(
            failing_build=str(request.failing),
            reference=request.reference.summarize(request.toolchain.platform),
            rtol=request.tolerance.rtol,
            atol=request.tolerance.atol,
            runs=1 + self.again + (0 if crashing is None else crashing.runs),
            reference_runs=1 if self.again else 0,
            ended=self.ended if crashing is None else f"{self.ended}; {crashing.describe()}",
            crash=crash,
            causes=tuple(causes),
        )

    def page(self) -> None:
        """None: no task graph was recorded."""


def origin_of_fault(difference: GeneratedDifference, firsts: Sequence[FirstDivergent]) -> GeneratedSources:
    """Return what the compiler generated differently, and whether that decides what is at fault.

    Equal sources say nothing about the runtime by themselves: frozen data, the machine or a race may cause the failure.
    A kernel that was seen to leave other results when run alone, on the same inputs, does.
    """
    first = difference.first_pass
    changed = {*difference.differing, *difference.only_failing, *difference.only_reference}
    makers = {source for tensor in firsts for source in tensor.kernel_sources}
    orchestrations = {tensor.orchestration_source for tensor in firsts}
    introduced = any(tensor.task_class == "introduced" for tensor in firsts)
    interaction = any(tensor.task_class == "interaction" for tensor in firsts)
    origin: Literal["compiler", "runtime"] | None = None
    if introduced and changed & makers:
        origin, shown = "compiler", "the source of the kernel that is wrong alone was generated differently"
    elif introduced and difference.is_empty:
        origin = "runtime"
        shown = "all generated sources are the same, and yet the kernel alone leaves other results on the same inputs"
    elif interaction and changed & orchestrations:
        origin, shown = (
            "compiler",
            "the orchestration of the task that is right alone was generated differently",
        )
    elif difference.is_empty:
        shown = "all generated sources are the same; whether the runtime is at fault was not shown"
    else:
        shown = "generated sources differ, but not shown to be those that make the difference"
    return GeneratedSources(
        differing=difference.differing,
        only_failing=difference.only_failing,
        only_reference=difference.only_reference,
        first_pass=None
        if first is None
        else DivergentPass(number=first.number, name=first.name, diff=first.diff),
        origin=origin,
        shown=shown,
    )


def add_cause_origin(generated: GeneratedSources | None, causes: Sequence[Cause]) -> GeneratedSources | None:
    """Return what is at fault by the first cause, if a run showed that cause."""
    if generated is None or not causes or not causes[0].shown:
        return generated
    changes = causes[0].changes
    runtime = any(change.part is ChangedPart.RUNTIME for change in changes)
    sources = ", ".join(dict.fromkeys(change.file for change in changes if change.file))
    shown = (
        "the good build's sources fail when the failing build's runtime runs them"
        if runtime
        else f"put alone into the good build, what was generated differently in {sources} makes it fail"
    )
    return generated.model_copy(update={"origin": "runtime" if runtime else "compiler", "shown": shown})


@dataclass(frozen=True, kw_only=True)
class SearchCost:
    """What the search took until its answer; verdicts on tasks below it and trials of orders come on top."""

    runs: int
    reference_runs: int
    bytes_dumped: int


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All that was found about a build that ends.

    `schedule` is the one that the build was dumped under. `tolerance` is the one within which tensors counted as equal.
    """

    request: LocalizationRequest
    failing: RecordedBuild
    expected: ExpectedValues
    tolerance: Tolerance
    schedule: str | None
    attributed: AttributedDivergences
    spent: SearchCost
    downstream: Sequence[tuple[DivergentTask, Attribution]]
    race: Race | None
    tried: tuple[OrderTrial, ...]
    """Runs under each schedule of the stack file, for a build that passes without one."""
    in_turns: OrderTrial | None
    """Runs in the order in which the build fails, in turns with the good build where there is one."""
    beside: tuple[TaskFootprint, ...] = ()
    """Tasks of the kernels at fault that write outside of their tensors.

    They are known where no task was seen to diverge, or a task diverges by an interaction.
    """

    def document(self) -> Divergence:
        """Return what `divergence.json` holds."""
        request, expected, first = self.request, self.expected, self.attributed.first
        tensors = tuple(
            entry
            for divergent, attribution in self.attributed.pairs
            for entry in first_divergent(divergent, attribution, self.failing, self.tolerance)
        )
        return Divergence(
            failing_build=str(request.failing),
            reference=request.reference.summarize(request.toolchain.platform),
            rtol=request.tolerance.rtol,
            atol=request.tolerance.atol,
            schedule=self.schedule,
            tasks=len(self.failing.tasks),
            runs=self.spent.runs,
            reference_runs=self.spent.reference_runs,
            bytes_dumped=self.spent.bytes_dumped,
            first_divergent=tensors,
            not_shown=_named_tasks(first.not_shown),
            candidates=_named_tasks(expected.unknown_above(first.ordinals)),
            not_compared=expected.not_compared,
            rounding=_named_tasks(self.attributed.rounding),
            downstream=tuple(downstream_task(*pair) for pair in self.downstream),
            vanished=_named_tasks(first.vanished),
            missing_edges=tuple(_unordered_tasks(edge, expected) for edge in self.failing.missing_edges),
            race=self.race,
            tried=self.tried,
            in_turns=self.in_turns,
            generated=_generated_difference(request, tensors),
            unaligned=_named_tasks(expected.unaligned),
            unaligned_reference=_named_tasks(expected.unaligned_reference),
            unvisited=_named_tasks(first.unvisited),
        )

    def page(self) -> str:
        """The page of the failing build's task graph."""
        without_counterpart = {task.ordinal for task in self.expected.unaligned}
        first = self.attributed.first
        return page(
            self.failing.tasks,
            firsts=first.ordinals,
            seen=first.seen,
            compared=set(range(len(self.failing.tasks))) - without_counterpart,
        )


@dataclass(frozen=True, kw_only=True)
class StallFindings:
    """What was found about a build that does not end, in further runs of it and one of the reference."""

    request: LocalizationRequest
    stall: Stall
    causes: tuple[Cause, ...] = ()

    def document(self) -> Divergence:
        """Return what `divergence.json` holds."""
        request = self.request
        return Divergence(
            failing_build=str(request.failing),
            reference=request.reference.summarize(request.toolchain.platform),
            rtol=request.tolerance.rtol,
            atol=request.tolerance.atol,
            tasks=self.stall.total,
            runs=1 + RUNS_OF_A_STALL,
            reference_runs=0 if request.reference.build is None else 1,
            stall=self.stall,
            causes=tuple(failure_cause(cause, None, ()) for cause in self.causes),
            generated=add_cause_origin(_generated_difference(request, ()), self.causes),
        )

    def page(self) -> None:
        """None: no task graph was recorded."""


def _generated_difference(
    request: LocalizationRequest, firsts: Sequence[FirstDivergent]
) -> GeneratedSources | None:
    """None where there is no other build with sources that were generated separately."""
    reference = request.reference.build
    if request.by_hand or reference is None or reference.path.resolve() == request.failing.resolve():
        return None
    builds = BuildDirectory.open(request.failing), BuildDirectory.open(reference.path)
    return origin_of_fault(compare_generated(*builds), firsts)


def _named_tasks(tasks: Iterable[KernelTask]) -> tuple[NamedTask, ...]:
    return tuple(NamedTask(task_id=format_task_id(task.task.task_id), kernel=task.name) for task in tasks)


def _unordered_tasks(edge: MissingEdge, expected: ExpectedValues) -> UnorderedTasks:
    return UnorderedTasks(
        before_task_id=format_task_id(edge.before.task.task_id),
        before_kernel=edge.before.name,
        before_argument=edge.before_argument,
        after_task_id=format_task_id(edge.after.task.task_id),
        after_kernel=edge.after.name,
        after_argument=edge.after_argument,
        hazard=edge.hazard.value,
        cause=edge.cause,
        ordered_in_reference=expected.orders(edge.before.ordinal, edge.after.ordinal),
    )


@dataclass(frozen=True, kw_only=True)
class ExplainedFindings:
    """What was found about each of the causes, in their order; without causes, about the failing build as a
    whole.

    `explanation` is None where the harness does not report what a run puts out.
    """

    request: LocalizationRequest
    explanation: FailureExplanation | None
    parts: tuple[Findings, ...]
    failing_runs: int
    """Runs of the failing build until the failure was explained."""

    def document(self) -> Divergence:
        """Return what `divergence.json` holds."""
        explanation, whole = self.explanation, self.parts[0]
        document = whole.document()
        if explanation is None:
            return document
        failure = case_failure(explanation)
        if explanation.passes and not self._has_failing_order(document):
            return _passing_document(document, failure)
        if not explanation.causes:
            update = {"failure": failure, "generated": _withdraw_origin(document)}
            return document.model_copy(update=update)
        return self._document_with_causes(document, explanation, failure)

    def page(self) -> str:
        """The page of the task graph of the build that has the first cause."""
        return self.parts[0].page()

    def _has_failing_order(self, document: Divergence) -> bool:
        # Once the good build was run in other orders, only `schedule` says whether the failing one fails in them.
        compared = any(trial.reference_runs for trial in document.tried)
        return document.schedule is not None or (
            document.race is not None and not compared and any(trial.failed for trial in document.race.trials)
        )

    def _document_with_causes(
        self, document: Divergence, explanation: FailureExplanation, failure: CaseFailure
    ) -> Divergence:
        documents = (document, *(part.document() for part in self.parts[1:]))
        shown = list(zip(explanation.causes, self.parts, documents, strict=False))
        in_tasks = [
            CauseInTasks.from_cause(
                cause, part.failing, part.expected.good, [divergent for divergent, _ in part.attributed.pairs]
            )
            for cause, part, _ in shown
        ]
        causes = [
            failure_cause(
                cause,
                each,
                found.first_divergent,
                unwritten=explanation.unwritten,
                identical=explanation.identical,
                beside=part.beside,
            )
            for (cause, part, found), each in zip(shown, in_tasks, strict=True)
        ]
        tensors: list[FirstDivergent] = []
        for number, ((_, _, found), each) in enumerate(zip(shown, in_tasks, strict=True), start=1):
            tensors += [
                tensor.model_copy(update={"cause": number})
                for tensor in each.classify_tensors(found.first_divergent)
            ]
        others = explanation.causes[len(shown) :]
        return document.model_copy(
            update={
                "failure": failure,
                "generated": add_cause_origin(document.generated, explanation.causes),
                "causes": (*causes, *(failure_cause(cause, None, ()) for cause in others)),
                "cleared": tuple(build_change(change) for change in explanation.cleared),
                "first_divergent": tuple(tensors),
                "not_shown": tuple(task for _, _, found in shown for task in found.not_shown),
                "downstream": tuple(task for _, _, found in shown for task in found.downstream),
                "runs": self._runs(explanation.causes[: len(shown)], [found for _, _, found in shown]),
            }
        )

    def _runs(self, causes: Sequence[Cause], documents: Sequence[Divergence]) -> int:
        """Runs of the failing build, and of the good one with some of its changes."""
        explanation = self.explanation
        assert explanation is not None
        made = {id(cause.subject) for cause in causes}
        others = sum(1 for trial in explanation.trials if trial.build is None or id(trial.build) not in made)
        searched = sum(document.runs for document in documents)
        failing_apart = all(
            cause.subject is None or cause.subject.build != self.request.failing.resolve() for cause in causes
        )
        return searched + others + (self.failing_runs if failing_apart else 0)


def _withdraw_origin(document: Divergence) -> GeneratedSources | None:
    """Different sources decide nothing where the good build fails too, or was not shown to pass."""
    if document.generated is None or document.in_turns is None or not document.in_turns.reference_may_fail:
        return document.generated
    shown = "the good build was not shown not to fail in this order too"
    return document.generated.model_copy(update={"origin": None, "shown": shown})


def _passing_document(document: Divergence, failure: CaseFailure) -> Divergence:
    """The document of a case that passes. Nothing is blamed: what differs is within the tolerance."""
    differing = (
        NamedTask(task_id=tensor.task_id, kernel=tensor.kernel) for tensor in document.first_divergent
    )
    return document.model_copy(
        update={
            "failure": failure,
            "first_divergent": (),
            "not_shown": (),
            "downstream": (),
            "rounding": tuple(dict.fromkeys((*document.rounding, *differing, *document.not_shown))),
        }
    )
