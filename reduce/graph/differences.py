"""The static difference of two programs: in what their tasks differ, before any values are compared.

`program_differences` compares the aligned tasks of two builds and reports each difference in words. Buffer ids differ
from run to run: `same_buffers` finds which buffer of one build is which of the other. `LastWriters` finds which task
filled what an argument holds. `uses_only_known_arguments` says whether a build made of parts of both gives its kernels
only what one of the two gives them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from enum import Enum

from ...runner.build_output.task_graph import ArgumentType, GraphArgument, Region, RegionIndex
from .tasks import Alignment, KernelTask, TaskList, align, ancestors_by_position, is_waited_for, regions

NameOf = Callable[[KernelTask, int], str | None]
"""Such a function takes a task and an argument's index. It returns the name of the tensor in the orchestration."""


def same_buffers(
    failing: TaskList, reference: TaskList, alignment: Alignment, name_of: NameOf, reference_name_of: NameOf
) -> dict[int, int]:
    """Map each buffer of the failing build to the reference's buffer that aligned tasks use most often in its place.

    Buffers without such a counterpart are matched by name. No buffer of the reference is matched twice.
    """
    votes: Counter[tuple[int, int]] = Counter()
    for task, other in alignment.reference_of.items():
        for ours, theirs in zip(
            failing.tasks[task].task.arguments, reference.tasks[other].task.arguments, strict=False
        ):
            if ours.tensor_id is not None and theirs.tensor_id is not None:
                votes[ours.tensor_id, theirs.tensor_id] += 1
    names, reference_names = _names(failing, name_of), _names(reference, reference_name_of)
    # Among pairs with equally many votes, one whose tensors have the same name comes first, then the earlier one.
    ranked = sorted(votes, key=lambda pair: (-votes[pair], names[pair[0]] != reference_names[pair[1]]))
    same: dict[int, int] = {}
    matched: set[int] = set()
    for ours, theirs in ranked:
        if ours not in same and theirs not in matched:
            same[ours] = theirs
            matched.add(theirs)
    left = {name: buffer for buffer, name in reference_names.items() if buffer not in matched}
    for buffer, name in names.items():
        if name is not None and name in left and buffer not in same:
            same[buffer] = left.pop(name)
    return same


def tensors_by_buffer(tasks: TaskList, name_of: NameOf) -> dict[int, set[str]]:
    """The names of the tensors that lie in each buffer."""
    names: dict[int, set[str]] = {}
    for task in tasks.tasks:
        for argument in task.task.arguments:
            name = name_of(task, argument.index)
            if argument.tensor_id is not None and name is not None:
                names.setdefault(argument.tensor_id, set()).add(name)
    return names


def _names(tasks: TaskList, name_of: NameOf) -> dict[int, str | None]:
    names: dict[int, str | None] = {}
    for task in tasks.tasks:
        for argument in task.task.arguments:
            if argument.tensor_id is not None and names.get(argument.tensor_id) is None:
                names[argument.tensor_id] = name_of(task, argument.index)
    return names


class LastWriters:
    """Finds for each argument of each task the last earlier task that wrote what the argument holds."""

    def __init__(self, tasks: TaskList) -> None:
        self._of: dict[tuple[int, int], int | None] = {}
        writers = defaultdict[int, RegionIndex[int]](RegionIndex)
        for task in tasks.tasks:
            for argument in task.task.arguments:
                if argument.tensor_id is None or argument.region is None:
                    continue
                written = writers[argument.tensor_id].find_overlapping(argument.region)
                self._of[task.ordinal, argument.index] = written[-1].owner if written else None
            for tensor, region in regions(task, writing=True):
                writers[tensor].overwrite(region, task.ordinal)

    def writer_before(self, task: KernelTask, argument: int) -> int | None:
        """The writer's ordinal; None where the argument holds what the case was given, or nothing."""
        return self._of.get((task.ordinal, argument))


def counterpart_of(writer: int | None, reference_of: Mapping[int, int]) -> int | None:
    """The counterpart of a task; None where there is no task, or it has no counterpart."""
    return None if writer is None else reference_of.get(writer)


@dataclass(frozen=True, kw_only=True)
class ChangedContents:
    """An argument of `task` that holds the result of another task than it does in the reference.

    `writer` is the task of the failing build that filled it; `right_writer` is the task of the reference that did. None
    stands for what the case was given, or for nothing.
    """

    task: KernelTask
    counterpart: KernelTask
    argument: int
    writer: KernelTask | None
    right_writer: KernelTask | None

    def describe(self, label: str) -> str:
        """One sentence, in which the argument is called `label`."""
        return (
            f"task {self.task.ordinal} {self.task.name}: {label} holds {_describe_writer(self.writer)}, "
            f"was {_describe_writer(self.right_writer)}"
        )


def changed_contents(
    failing: TaskList, reference: TaskList, pairs: Mapping[int, int]
) -> Iterator[ChangedContents]:
    """All arguments that hold another task's result, of the tasks that correspond.

    `pairs` maps ordinals of the failing build to those of the reference. Arguments with other rows or columns are left
    out: they hold the results of other tasks for that reason alone.
    """
    writers, right_writers = LastWriters(failing), LastWriters(reference)
    for ordinal, counterpart in pairs.items():
        task, other = failing.tasks[ordinal], reference.tasks[counterpart]
        for ours, theirs in zip(task.task.arguments, other.task.arguments, strict=False):
            if not _is_read_alike(ours, theirs):
                continue
            writer = writers.writer_before(task, ours.index)
            right_writer = right_writers.writer_before(other, theirs.index)
            if counterpart_of(writer, pairs) != right_writer or (writer is None) != (right_writer is None):
                yield ChangedContents(
                    task=task,
                    counterpart=other,
                    argument=ours.index,
                    writer=None if writer is None else failing.tasks[writer],
                    right_writer=None if right_writer is None else reference.tasks[right_writer],
                )


def _is_read_alike(ours: GraphArgument, theirs: GraphArgument) -> bool:
    return (
        ours.type is theirs.type
        and ours.type.may_read
        and None not in (ours.tensor_id, theirs.tensor_id, ours.region, theirs.region)
        and ours.region == theirs.region
    )


def _describe_writer(writer: KernelTask | None) -> str:
    return "what no task wrote" if writer is None else f"what task {writer.ordinal} {writer.name} wrote"


def missing_dependencies(
    failing: TaskList, reference: TaskList, alignment: Alignment
) -> Iterator[tuple[str, KernelTask, KernelTask]]:
    """Dependencies that the reference has and the failing build does not have.

    Yield a sentence, the task of the failing build that does not wait, and that task's counterpart.
    """
    waited, waited_before = ancestors_by_position(failing.graph), ancestors_by_position(reference.graph)
    failing_of = {other: task for task, other in alignment.reference_of.items()}
    for edge in reference.graph.edges:
        before, after = (reference.tasks_by_id.get(each) for each in (edge.predecessor, edge.successor))
        if before is None or after is None or not is_waited_for(waited_before, before, after):
            continue
        here, there = failing_of.get(before.ordinal), failing_of.get(after.ordinal)
        if here is None or there is None:
            continue
        task, other = failing.tasks[there], failing.tasks[here]
        if is_waited_for(waited, other, task):
            continue
        yield f"task {there} {task.name} does not wait for task {here} {other.name}", task, after


class DifferenceKind(Enum):
    """Says in what two programs differ."""

    PRESENCE = "presence"
    """Only one of the builds submits the task."""
    ORDER = "order"
    """The same task is submitted at another place."""
    KERNEL = "kernel"
    """The task runs another kernel."""
    DIRECTION = "direction"
    """An argument is declared for another use."""
    REGION = "region"
    """The argument is another part of the same tensor, or the same part transposed or with another type."""
    TENSOR = "tensor"
    """The argument is another tensor, or the arguments are in another order."""
    PLACEMENT = "placement"
    """The same tensor lies in another buffer, which it may share with other tensors."""
    CONTENTS = "contents"
    """The same tensor holds the result of another task."""
    BLOCKS = "blocks"
    """The task runs in another number of blocks."""
    SCALAR = "scalar"
    """A scalar has another value."""
    DEPENDENCY = "dependency"
    """The task does not wait for another one, as it does in the reference."""

    @property
    def is_order(self) -> bool:
        """Return whether the difference is about when tasks run and where values lie, and not about what a task is
        given."""
        return self in _ORDER_KINDS

    @property
    def is_consequence(self) -> bool:
        """Return whether the difference is a consequence of others, where there are others.

        What a task holds, and what it waits for, follows from what tasks are given.
        """
        return self in (DifferenceKind.CONTENTS, DifferenceKind.DEPENDENCY)


_ORDER_KINDS = frozenset(
    {
        DifferenceKind.ORDER,
        DifferenceKind.DIRECTION,
        DifferenceKind.PLACEMENT,
        DifferenceKind.CONTENTS,
        DifferenceKind.DEPENDENCY,
    }
)


@dataclass(frozen=True, kw_only=True)
class TaskDifference:
    """One thing in which the tasks of two builds differ; `text` says it in words.

    `task` is of the failing build and `counterpart` of the reference; each is None where that build has no such task.
    `argument` is the index of the argument that differs, and `tensor` is its name in the orchestration.
    """

    kind: DifferenceKind
    task: KernelTask | None
    counterpart: KernelTask | None
    argument: int | None
    text: str
    tensor: str | None = None

    @property
    def kernel(self) -> str:
        """Return the names of the task's kernels."""
        known = self.task or self.counterpart
        return "" if known is None else known.name


_ArgumentUse = tuple[tuple[str, ...], int, ArgumentType, Region | None]


def uses_only_known_arguments(made: TaskList, failing: TaskList, reference: TaskList) -> bool:
    """Return whether each task of a build made of both is given only what one of the two gives to its kernel.

    The start of a view and the loop that counts it may be two changes. With one of them alone, tasks read and write
    where no task of either build does. A failure of such a build says nothing about the change. Kernels that the two
    builds do not run equally often are not compared.
    """
    ours, theirs = _runs(failing), _runs(reference)
    known = _argument_uses(failing) | _argument_uses(reference)
    return all(ours[each[0]] != theirs[each[0]] or each in known for each in _argument_uses(made))


def _runs(tasks: TaskList) -> Counter[tuple[str, ...]]:
    return Counter(task.kernels for task in tasks.tasks)


def _argument_uses(tasks: TaskList) -> set[_ArgumentUse]:
    """Return what the tasks of each kernel are given as each argument."""
    return {
        (task.kernels, argument.index, argument.type, argument.region)
        for task in tasks.tasks
        for argument in task.task.arguments
    }


def describe_region(region: Region) -> str:
    """Rows and columns in the buffer's matrix, where the region is a box of one; else shape, strides and offset.

    >>> describe_region(Region(dtype=None, shape=(2, 4), strides=(8, 1), start_offset=16))
    'rows 2:4, columns 0:4'
    >>> describe_region(Region(dtype=None, shape=(4, 2), strides=(1, 8), start_offset=16))
    'rows 2:4, columns 0:4, transposed'
    """
    if len(region.shape) == 2 and 0 not in region.shape:
        if region.strides[1] == 1 and region.strides[0] > 0:
            return _box(region.start_offset, region.shape, region.strides[0])
        if region.strides[0] == 1 and region.strides[1] > 0:
            return f"{_box(region.start_offset, region.shape[::-1], region.strides[1])}, transposed"
    if len(region.shape) == 1 and region.strides == (1,):
        return f"elements {region.start_offset}:{region.start_offset + region.shape[0]}"
    return f"shape {list(region.shape)}, strides {list(region.strides)}, offset {region.start_offset}"


def _box(offset: int, shape: tuple[int, ...], pitch: int) -> str:
    row, column = divmod(offset, pitch)
    return f"rows {row}:{row + shape[0]}, columns {column}:{column + shape[1]}"


def describe_region_change(here: Region, there: Region) -> str:
    """Return how a region of the failing build differs from the reference's region."""
    if here.dtype is not there.dtype and here.dtype is not None and there.dtype is not None:
        types = f"{here.dtype.value}, was {there.dtype.value}"
        if (here.shape, here.strides, here.start_offset) == (there.shape, there.strides, there.start_offset):
            return types
    ours, theirs = describe_region(here), describe_region(there)
    if ours == theirs:
        return f"shape {list(here.shape)}, strides {list(here.strides)}, was {list(there.shape)}, {list(there.strides)}"
    return f"{theirs} in the good build and {ours} here"


def program_differences(
    failing: TaskList, reference: TaskList, *, name_of: NameOf, reference_name_of: NameOf
) -> tuple[TaskDifference, ...]:
    """All differences of two programs, in the order of submission.

    A task of one build alone stands at its own place. What tasks read from others, and what they wait for, comes last,
    because it follows from the other differences.
    """
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
        tenants=tensors_by_buffer(failing, name_of),
    )
    found = [*comparison.differences()]
    return tuple(sorted(found, key=_sort_key))


def _sort_key(difference: TaskDifference) -> tuple[bool, int, int]:
    task = difference.task or difference.counterpart
    return (difference.kind.is_consequence, 0 if task is None else task.ordinal, difference.argument or 0)


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
        """Yield how the tasks of the builds differ: presence, order, then the differences of aligned tasks."""
        pairs = dict(self.alignment.reference_of)
        left = [self.reference.tasks[ordinal] for ordinal in self.alignment.only_reference]
        for ordinal in self.alignment.only_failing:
            task = self.failing.tasks[ordinal]
            elsewhere = next((other for other in left if _is_same_task(task, other)), None)
            if elsewhere is None:
                yield self._presence_difference(task, here=True)
                continue
            left.remove(elsewhere)
            pairs[ordinal] = elsewhere.ordinal
            text = f"{task.name} is submitted as task {task.ordinal}, was task {elsewhere.ordinal}"
            written = _first_written_tensor(task, self.name_of)
            yield replace(_difference(DifferenceKind.ORDER, task, elsewhere, text), tensor=written)
        for other in left:
            yield self._presence_difference(other, here=False)
        given_otherwise: set[tuple[int, int | None]] = set()
        for ordinal, counterpart in self.alignment.reference_of.items():
            task, other = self.failing.tasks[ordinal], self.reference.tasks[counterpart]
            for difference in self._compare_pair(task, other):
                yield difference
                if difference.kind is DifferenceKind.TENSOR:
                    given_otherwise.add((ordinal, difference.argument))
        for each in changed_contents(self.failing, self.reference, pairs):
            if (each.task.ordinal, each.argument) in given_otherwise:
                continue
            text = each.describe(self._label(each.task, each.argument))
            yield _difference(
                DifferenceKind.CONTENTS, each.task, each.counterpart, text, argument=each.argument
            )
        for text, task, other in missing_dependencies(self.failing, self.reference, self.alignment):
            yield _difference(DifferenceKind.DEPENDENCY, task, other, text)

    def _presence_difference(self, task: KernelTask, *, here: bool) -> TaskDifference:
        name_of = self.name_of if here else self.reference_name_of
        written = [
            f"{name_of(task, each.index) or f'argument {each.index}'}"
            + ("" if each.region is None else f" ({describe_region(each.region)})")
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
            tensor=_first_written_tensor(task, name_of),
        )

    def _compare_pair(self, task: KernelTask, other: KernelTask) -> Iterator[TaskDifference]:
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
            found = self._compare_argument(task, other, argument, counterpart)
            if found is not None:
                kind, text = found
                tensor = self.name_of(task, argument.index)
                difference = _difference(kind, task, other, f"{named}: {text}", argument.index)
                yield replace(difference, tensor=tensor)

    def _compare_argument(
        self, task: KernelTask, other: KernelTask, ours: GraphArgument, theirs: GraphArgument
    ) -> tuple[DifferenceKind, str] | None:
        label = self._label(task, ours.index)
        if ours.type is not theirs.type:
            return DifferenceKind.DIRECTION, f"{label} is {ours.type.value}, was {theirs.type.value}"
        if ours.region is None or theirs.region is None:
            return None
        moved = ours.tensor_id is not None and self.buffers.get(ours.tensor_id) != theirs.tensor_id
        if moved:
            return self._compare_moved_argument(task, other, ours, theirs, label)
        if ours.region != theirs.region:
            return DifferenceKind.REGION, f"{label} is {describe_region_change(ours.region, theirs.region)}"
        return None

    def _label(self, task: KernelTask, argument: int) -> str:
        name = self.name_of(task, argument)
        return f"argument {argument}" + (f" ({name})" if name else "")

    def _compare_moved_argument(
        self, task: KernelTask, other: KernelTask, ours: GraphArgument, theirs: GraphArgument, label: str
    ) -> tuple[DifferenceKind, str]:
        """Compare an argument that lies in another buffer: it is another tensor, or the same one in another place."""
        placed = DifferenceKind.PLACEMENT, f"{label} lies in a buffer that holds another tensor too"
        was = self.reference_name_of(other, theirs.index)
        same = was == self.name_of(task, ours.index) and was is not None
        if same and ours.tensor_id is not None and len(self.tenants.get(ours.tensor_id, ())) > 1:
            return placed
        buffer = None if ours.tensor_id is None else self.buffers.get(ours.tensor_id)
        # A tensor that the runtime allocates for the task has no id.
        known = [each for each in other.task.arguments if each.tensor_id is not None]
        swapped = next((each.index for each in known if each.tensor_id == buffer), None)
        if swapped is not None and swapped != ours.index:
            return DifferenceKind.TENSOR, f"{label} is what argument {swapped} is in the good build"
        writer = counterpart_of(self.writers.writer_before(task, ours.index), self.alignment.reference_of)
        right_writer = self.reference_writers.writer_before(other, theirs.index)
        fed_alike = ours.type.may_read and writer is not None and writer == right_writer
        if same or fed_alike:
            return placed
        return DifferenceKind.TENSOR, f"{label} was {was or 'another tensor'}"


def _first_written_tensor(task: KernelTask, name_of: NameOf) -> str | None:
    """The first tensor that a task writes."""
    return next((name_of(task, each.index) for each in task.task.arguments if each.type.may_write), None)


def _is_same_task(task: KernelTask, other: KernelTask) -> bool:
    """Return whether two tasks run the same kernel on the same parts."""
    return task.kernels == other.kernels and [
        (argument.type, argument.region) for argument in task.task.arguments
    ] == [(argument.type, argument.region) for argument in other.task.arguments]


def _difference(
    kind: DifferenceKind, task: KernelTask, other: KernelTask, text: str, argument: int | None = None
) -> TaskDifference:
    return TaskDifference(kind=kind, task=task, counterpart=other, argument=argument, text=text)
