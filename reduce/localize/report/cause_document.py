"""A cause as it is written down: what changed, how its tasks differ, and which of them goes wrong."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....runner.localization.causes import (
    BuildChange,
    CaseFailure,
    CauseKind,
    ColumnRun,
    FailingOutput,
    FailureCause,
    RowRun,
    UnwrittenRows,
)
from ....runner.localization.footprints import TaskFootprint
from ....runner.localization.tensors import FirstDivergent
from ...graph.static_difference.difference import DifferenceKind, TaskDifference
from ...graph.static_difference.programs import program_differences
from ...replay.recorded_build import RecordedBuild
from ...rewrite.argument_names import ArgumentNames
from ..attribution.attribution import DivergentTask
from ..causes.changes import Change, ChangedPart
from ..causes.coverage import Unwritten
from ..causes.explanation import Cause, FailureExplanation
from ..footprints.writers import in_words

_MOST_ROWS = 8
_MOST_DIFFERENCES = 40
_MOST_LINES = 12
_MOST_NAMED = 6


@dataclass(frozen=True, kw_only=True)
class CauseInTasks:
    """How the tasks of the build that has a cause alone differ from the good build's."""

    cause: Cause
    differences: tuple[TaskDifference, ...]

    @classmethod
    def of(
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
                name_of=ArgumentNames(build.orchestration, build.tasks).name_of,
                reference_name_of=ArgumentNames(good.orchestration, good.tasks).name_of,
            )
        )
        return cls(cause=cause, differences=(*scalars, *_harm_first(graphs)))

    @property
    def kernel(self) -> str | None:
        """The kernel that is at fault, or whose task is submitted otherwise."""
        named = next((change.kernel for change in self.cause.changes if change.kernel), None)
        return named or next((difference.kernel for difference in self.differences), None)

    def classified(self, tensors: Sequence[FirstDivergent]) -> tuple[FirstDivergent, ...]:
        """The tensors that show the cause, those of its own tasks first. What a task that is submitted otherwise leaves
        wrong is its own error, whatever it reads."""
        told = [self._classified(tensor) for tensor in tensors]
        return tuple(sorted(told, key=lambda tensor: tensor.kernel != self.kernel))

    def _classified(self, tensor: FirstDivergent) -> FirstDivergent:
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
    """Of tensors that lie elsewhere, first the tasks that read what another one left there for that."""
    harm = [each for each in differences if each.kind is DifferenceKind.CONTENTS]
    placed = [each for each in differences if each.kind is DifferenceKind.PLACEMENT]
    return [*harm, *placed] if len(harm) + len(placed) == len(differences) else differences


def told_cause(
    cause: Cause,
    in_tasks: CauseInTasks | None,
    tensors: Sequence[FirstDivergent],
    *,
    unwritten: Sequence[Unwritten] = (),
    identical: bool = False,
    beside: Sequence[TaskFootprint] = (),
) -> FailureCause:
    """What is written down of a cause. `in_tasks` is None where its tasks were not looked at; `unwritten` is what no
    task of the failing build writes, `identical` says that all sources are the same, `beside` are its tasks that write
    outside of their tensors, where none of them was seen to make an error in its own."""
    shown = () if in_tasks is None else in_tasks.classified(tensors)
    differences = () if in_tasks is None else in_tasks.differences
    first = shown[0] if shown else None
    if beside and all(tensor.task_class == "interaction" for tensor in shown):
        return _writing_beside(cause, beside, identical=identical)
    kernel = _missing_writer(differences, unwritten) or (
        in_tasks.kernel
        if in_tasks is not None
        else next((change.kernel for change in cause.changes if change.kernel), None)
    )
    elsewhere = _writing_elsewhere(kernel, differences, shown)
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
        changes=tuple(changed_part(change) for change in cause.changes),
        differences=tuple(each.text for each in differences[:_MOST_DIFFERENCES]),
        kernel=kernel or (first.kernel if first is not None else None),
        position=position,
        task_class=task_class,
        tensor=tensor,
    )


def _writing_beside(cause: Cause, beside: Sequence[TaskFootprint], *, identical: bool) -> FailureCause:
    """A kernel whose tasks leave what they should, and write over what others leave."""
    first = beside[0]
    return FailureCause(
        what=what_changed(cause, (), identical=identical),
        kind="out of place",
        confirmed=cause.shown,
        effect=cause.effect,
        changes=tuple(changed_part(change) for change in cause.changes),
        differences=tuple(in_words(footprint) for footprint in beside[:_MOST_DIFFERENCES]),
        kernel=first.kernel,
        position=first.position,
        task_class="introduced",
        tensor=first.writes[0].tensor,
    )


def _writing_elsewhere(
    kernel: str | None, differences: Sequence[TaskDifference], shown: Sequence[FirstDivergent]
) -> TaskDifference | None:
    """Of the kernel's tasks the first that writes another part of its tensor than in the good build. What it leaves
    cannot be compared, so that only readers of the tensor diverge; None where a task of the kernel was seen to."""
    if any(tensor.kernel == kernel for tensor in shown):
        return None
    return next((each for each in differences if each.kernel == kernel and _writes_elsewhere(each)), None)


def _writes_elsewhere(difference: TaskDifference) -> bool:
    task = difference.task
    return (
        difference.kind is DifferenceKind.REGION
        and task is not None
        and any(each.type.may_write for each in task.task.arguments if each.index == difference.argument)
    )


def _tensor(differences: Sequence[TaskDifference], first: FirstDivergent | None) -> str | None:
    """What a task that is missing, or one too many, writes; else what the first task that goes wrong leaves."""
    told = next((each for each in differences if each.tensor is not None), None)
    if told is None or (first is not None and not _tells_tensor(told, first)):
        return None if first is None else first.tensor
    return told.tensor


def _tells_tensor(difference: TaskDifference, first: FirstDivergent) -> bool:
    """Whether it says better what is wrong than the first task that was seen to diverge: one that only one build has,
    or has elsewhere, cannot be compared."""
    kind = difference.kind
    return kind is DifferenceKind.PRESENCE or (
        kind is DifferenceKind.ORDER and first.kernel != difference.kernel
    )


def _position(differences: Sequence[TaskDifference]) -> int | None:
    """Of the first task of the failing build that differs."""
    return next((each.task.ordinal for each in differences if each.task is not None), None)


def _missing_writer(differences: Sequence[TaskDifference], unwritten: Sequence[Unwritten]) -> str | None:
    """The kernel of a task that the good build alone submits, and that writes what nobody writes here."""
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
    # What others read for it follows from it.
    of_themselves = [each for each in differences if not each.kind.follows]
    if len(missing) > 1 and len(missing) == len(of_themselves):
        names = ", ".join(f"{task.ordinal} {task.name}" for task in missing[:_MOST_NAMED])
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        return f"{len(missing)} tasks of the good build are not submitted: {names}{more}"
    if differences:
        return differences[0].text
    changed = cause.changes[0]
    lines = [line for text in changed.texts for line in text.lines()]
    return f"the {changed.part.value}: {'  '.join(lines[:_MOST_NAMED])}".removesuffix(": ")


_KINDS: Mapping[DifferenceKind, CauseKind] = {
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
"""What says most first."""
_OF_PARTS: Mapping[ChangedPart, CauseKind] = {
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
    for part, kind in _OF_PARTS.items():
        if part in parts:
            return kind
    found = {each.kind for each in differences}
    for difference, kind in _KINDS.items():
        if difference in found:
            return kind
    return "orchestration"


def changed_part(change: Change) -> BuildChange:
    """A change with the lines that differ, the first ones of many."""
    lines = [line for text in change.texts for line in text.lines()]
    gone, come = (sorted(line[1:] for line in lines if line.startswith(sign)) for sign in "-+")
    is_move = bool(gone) and gone == come
    here = next((text.first_line for text in change.texts if text.now or not is_move), None)
    return BuildChange(
        part=change.part.value,
        file=change.file,
        line=here,
        kernel=change.kernel or None,
        moved_from=next(text.start + 1 for text in change.texts if text.was) if is_move else None,
        diff=tuple(lines[:_MOST_LINES]),
    )


def case_failure(explanation: FailureExplanation) -> CaseFailure:
    """What the case fails for."""
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
    """Scalars of a task that are others than its counterpart's."""
    ours, theirs = divergent.actual.scalars, divergent.expected.scalars
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
    """A scalar as it was recorded; what can only be the bits of a float32, as that."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 << 23 <= value < 1 << 32:
        number: float = struct.unpack("<f", struct.pack("<I", value))[0]
        return f"{number:.9g}"
    return str(value)
