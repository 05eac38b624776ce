"""The static difference of two programs: in what their tasks differ, before anything is compared by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace

from ....runner.build_output.graph.model import GraphArgument
from ..alignment import Alignment, align
from ..task_list import KernelTask, TaskList
from .buffers import LastWriters, NameOf, aligned, same_buffers, tenants
from .contents import other_contents
from .dependencies import missing_dependencies
from .difference import DifferenceKind, TaskDifference
from .regions import difference_in_words, in_words


def program_differences(
    failing: TaskList, reference: TaskList, *, name_of: NameOf, reference_name_of: NameOf
) -> tuple[TaskDifference, ...]:
    """All differences, in the order of submission; the tasks of one build alone stand at their place. What tasks read
    of others, and wait for, comes last: it follows from these."""
    alignment = align(failing, reference)
    comparison = _Comparison(
        failing=failing,
        reference=reference,
        alignment=alignment,
        buffers=same_buffers(failing, reference, alignment, name_of, reference_name_of),
        writers=LastWriters(failing),
        reference_writers=LastWriters(reference),
        name_of=name_of,
        reference_name_of=reference_name_of,
        tenants=tenants(failing, name_of),
    )
    found = [*comparison.differences()]
    return tuple(sorted(found, key=_place))


def _place(difference: TaskDifference) -> tuple[bool, int, int]:
    task = difference.task or difference.counterpart
    return (difference.kind.follows, 0 if task is None else task.ordinal, difference.argument or 0)


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    failing: TaskList
    reference: TaskList
    alignment: Alignment
    buffers: dict[int, int]
    writers: LastWriters
    reference_writers: LastWriters
    name_of: NameOf
    reference_name_of: NameOf
    tenants: Mapping[int, Set[str]]

    def differences(self) -> Iterator[TaskDifference]:
        pairs = dict(self.alignment.reference_of)
        left = [self.reference.tasks[ordinal] for ordinal in self.alignment.only_reference]
        for ordinal in self.alignment.only_failing:
            task = self.failing.tasks[ordinal]
            elsewhere = next((other for other in left if _is_the_same(task, other)), None)
            if elsewhere is None:
                yield self._alone(task, here=True)
                continue
            left.remove(elsewhere)
            pairs[ordinal] = elsewhere.ordinal
            text = f"{task.name} is submitted as task {task.ordinal}, was task {elsewhere.ordinal}"
            written = _written(task, self.name_of)
            yield replace(_difference(DifferenceKind.ORDER, task, elsewhere, text), tensor=written)
        for other in left:
            yield self._alone(other, here=False)
        given_otherwise: set[tuple[int, int | None]] = set()
        for ordinal, counterpart in self.alignment.reference_of.items():
            task, other = self.failing.tasks[ordinal], self.reference.tasks[counterpart]
            for difference in self._of_pair(task, other):
                yield difference
                if difference.kind is DifferenceKind.TENSOR:
                    given_otherwise.add((ordinal, difference.argument))
        for each in other_contents(self.failing, self.reference, pairs):
            if (each.task.ordinal, each.argument) in given_otherwise:
                continue
            text = each.in_words(self._label(each.task, each.argument))
            yield _difference(
                DifferenceKind.CONTENTS, each.task, each.counterpart, text, argument=each.argument
            )
        for text, task, other in missing_dependencies(self.failing, self.reference, self.alignment):
            yield _difference(DifferenceKind.DEPENDENCY, task, other, text)

    def _alone(self, task: KernelTask, *, here: bool) -> TaskDifference:
        name_of = self.name_of if here else self.reference_name_of
        written = [
            f"{name_of(task, each.index) or f'argument {each.index}'}"
            + ("" if each.region is None else f" ({in_words(each.region)})")
            for each in task.task.arguments
            if each.type.may_write
        ]
        what = (
            f"task {task.ordinal} {task.name} is submitted here alone"
            if here
            else f"task {task.ordinal} {task.name} of the good build is not submitted"
        )
        return TaskDifference(
            kind=DifferenceKind.PRESENCE,
            task=task if here else None,
            counterpart=None if here else task,
            argument=None,
            text=f"{what}; it writes {', '.join(written) or 'nothing'}",
            tensor=_written(task, name_of),
        )

    def _of_pair(self, task: KernelTask, other: KernelTask) -> Iterator[TaskDifference]:
        named = f"task {task.ordinal} {task.name}"
        if task.kernels != other.kernels:
            yield _difference(
                DifferenceKind.KERNEL, task, other, f"{named} runs that kernel, was {other.name}"
            )
        if task.task.blocks != other.task.blocks:
            yield _difference(
                DifferenceKind.BLOCKS,
                task,
                other,
                f"{named} runs in {task.task.blocks} blocks, was {other.task.blocks}",
            )
        ours, theirs = task.task.arguments, other.task.arguments
        if len(ours) != len(theirs):
            text = f"{named} has {len(ours)} tensors, was {len(theirs)}"
            yield _difference(DifferenceKind.TENSOR, task, other, text)
        for argument, counterpart in zip(ours, theirs, strict=False):
            found = self._of_argument(task, other, argument, counterpart)
            if found is not None:
                kind, text = found
                tensor = self.name_of(task, argument.index)
                difference = _difference(kind, task, other, f"{named}: {text}", argument.index)
                yield replace(difference, tensor=tensor)

    def _of_argument(
        self, task: KernelTask, other: KernelTask, ours: GraphArgument, theirs: GraphArgument
    ) -> tuple[DifferenceKind, str] | None:
        label = self._label(task, ours.index)
        if ours.type is not theirs.type:
            return DifferenceKind.DIRECTION, f"{label} is {ours.type.value}, was {theirs.type.value}"
        if ours.region is None or theirs.region is None:
            return None
        moved = ours.tensor_id is not None and self.buffers.get(ours.tensor_id) != theirs.tensor_id
        if moved:
            return self._moved(task, other, ours, theirs, label)
        if ours.region != theirs.region:
            return DifferenceKind.REGION, f"{label} is {difference_in_words(ours.region, theirs.region)}"
        return None

    def _label(self, task: KernelTask, argument: int) -> str:
        name = self.name_of(task, argument)
        return f"argument {argument}" + (f" ({name})" if name else "")

    def _moved(
        self, task: KernelTask, other: KernelTask, ours: GraphArgument, theirs: GraphArgument, label: str
    ) -> tuple[DifferenceKind, str]:
        """An argument that lies in another buffer: another tensor, or the same one put elsewhere."""
        placed = DifferenceKind.PLACEMENT, f"{label} lies in a buffer that holds another tensor too"
        was = self.reference_name_of(other, theirs.index)
        same = was == self.name_of(task, ours.index) and was is not None
        if same and ours.tensor_id is not None and len(self.tenants.get(ours.tensor_id, ())) > 1:
            return placed
        buffer = None if ours.tensor_id is None else self.buffers.get(ours.tensor_id)
        swapped = next((each.index for each in other.task.arguments if each.tensor_id == buffer), None)
        if swapped is not None and swapped != ours.index:
            return DifferenceKind.TENSOR, f"{label} is what argument {swapped} is in the good build"
        writer = aligned(self.writers.before(task, ours.index), self.alignment.reference_of)
        fed_alike = ours.type.may_read and writer == self.reference_writers.before(other, theirs.index)
        if same or fed_alike:
            return placed
        return DifferenceKind.TENSOR, f"{label} was {was or 'another tensor'}"


def _written(task: KernelTask, name_of: NameOf) -> str | None:
    """The first tensor that a task writes."""
    return next((name_of(task, each.index) for each in task.task.arguments if each.type.may_write), None)


def _is_the_same(task: KernelTask, other: KernelTask) -> bool:
    """Whether two tasks run the same kernel on the same parts."""
    return task.kernels == other.kernels and [
        (argument.type, argument.region) for argument in task.task.arguments
    ] == [(argument.type, argument.region) for argument in other.task.arguments]


def _difference(
    kind: DifferenceKind, task: KernelTask, other: KernelTask, text: str, argument: int | None = None
) -> TaskDifference:
    return TaskDifference(kind=kind, task=task, counterpart=other, argument=argument, text=text)
