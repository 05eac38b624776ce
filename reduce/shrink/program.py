"""The program model of a reduction: the tasks that a build really submitted, and the buffers that they share.

A `Candidate` is a reduced program, described by what was taken from the whole one. `CandidateOrder` says which of two
candidates is smaller. A `Cut` is a reduced program with the tensors that it starts from and must end with.

`shrink` makes the shapes of a cut smaller. Every extent of one size becomes the same other one, so that equal
dimensions stay equal.

`ProgramPair` gives the programs of two builds one numbering. It also finds tasks that only one of them submits, and
results that one leaves in another place.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ...runner.build_output.directory import KernelConfig
from ...runner.build_output.orchestration import Orchestration, Submit
from ...runner.build_output.task_graph import ArgumentType, Region
from ...runner.errors import UserError
from ...runner.tensor import DType, TensorView, contiguous_strides
from ..graph.tasks import Alignment
from ..replay.replay import TaskValues
from ..replay.task_replay import flat_indices


class PlainValue(Enum):
    """The plain values that all elements of an input can have, the plainest first."""

    ZEROS = "zeros"
    ONES = "ones"
    FIRST = "its first value"


@dataclass(frozen=True)
class Candidate:
    """A reduced program.

    tasks: ordinals of the failing build's tasks that stay.
    collapsed: kernels taken from the reference.
    extents: pairs of a size along an axis and the smaller size that it became.
    plain: pairs of an input and the plain value that it holds (`PlainValue`).
    statements: statements dropped from both builds' kernels. Each has the kernel, the text, and which occurrence of the
    text.
    blocks: pairs of a task and the smaller number of blocks that it runs in.
    """

    tasks: tuple[int, ...]
    collapsed: tuple[str, ...] = ()
    extents: tuple[tuple[int, int], ...] = ()
    plain: tuple[tuple[str, str], ...] = ()
    statements: tuple[tuple[str, str, int], ...] = ()
    blocks: tuple[tuple[int, int], ...] = ()

    @property
    def needs_new_expected_values(self) -> bool:
        """Return whether the reference's outputs for these inputs have to be computed anew."""
        return bool(self.extents or self.plain or self.statements or self.blocks)

    @property
    def key(self) -> str:
        """Return the name of the candidate in the journal of tests."""
        parts = [",".join(map(str, self.tasks)), ",".join(self.collapsed)]
        if self.needs_new_expected_values:
            parts += [",".join(f"{before}={after}" for before, after in (*self.extents, *self.plain))]
            if self.statements:
                parts.append(hashlib.sha256(repr(self.statements).encode()).hexdigest()[:16])
            parts += [f"{task} in {count}" for task, count in self.blocks]
        return ";".join(parts)

    @property
    def digest(self) -> str:
        """Return a name for folders that hold something of the candidate."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:16]


class NotReducibleError(UserError):
    """A build uses something that a straight-line program cannot express."""


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """A tensor of `shape` (elements) that tasks read and write through views.

    `is_entry` says that the case itself passes it in. The orchestration allocated all others.
    """

    number: int
    name: str
    dtype: DType
    shape: tuple[int, ...]
    is_entry: bool


@dataclass(frozen=True, kw_only=True)
class ProgramArgument:
    """A tensor argument: which part of which buffer, and how it was declared."""

    index: int
    type: ArgumentType
    buffer: int
    region: Region


@dataclass(frozen=True, kw_only=True)
class ProgramTask:
    """One submitted task.

    `scalars` are C++ expressions of the values that it was given. `kernels` are names. `blocks` is the number of blocks
    that it ran in, or None unless both the source and the recorded graph give it. `unordered` says that the task was in
    a manual scope, waited for no other task, and was not waited for.
    """

    ordinal: int
    kernels: tuple[str, ...]
    submit: Submit
    arguments: tuple[ProgramArgument, ...]
    scalars: tuple[str, ...]
    blocks: int | None
    unordered: bool = False

    @property
    def name(self) -> str:
        """Return the names of its kernels, joined by `+`."""
        return "+".join(self.kernels)


@dataclass(frozen=True, kw_only=True)
class Program:
    """Tasks in submission order, without the loops and branches that made them."""

    orchestration: Orchestration
    config: KernelConfig
    tasks: tuple[ProgramTask, ...]
    buffers: tuple[Buffer, ...]


def results_of(task: ProgramTask, moved: Mapping[int, Sequence[ProgramArgument]]) -> list[ProgramArgument]:
    """The places where a task's results belong. This is where it writes them, except for those in `moved`, by task."""
    own = {argument.index: argument for argument in task.arguments if argument.type.may_write}
    return [*{**own, **{argument.index: argument for argument in moved.get(task.ordinal, ())}}.values()]


def private_name(buffer: str, task: ProgramTask, argument: ProgramArgument) -> str:
    """The name of a buffer that replaces a shared one for a single argument of a task, with other contents."""
    return f"{buffer}_for_{task.ordinal}_{argument.index}"


Array = npt.NDArray[Any]


class UnfitCutError(Exception):
    """These tasks cannot be taken alone. One changes a buffer in place that would need two contents at once."""


class TrustedValues(Protocol):
    """The values that are taken as right, by the program's own ordinals."""

    def task_values(self, ordinal: int) -> TaskValues:
        """The values of a task's tensors: what it leaves, and what it reads where that is known."""
        ...

    def read(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return what a task read in the run of its own build, by argument."""
        ...

    def run_of(self, ordinal: int) -> str:
        """The run in which the values of a task were recorded: `reference` or `failing`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Deviations:
    """How a failing build deviates from its reference.

    moved: by task, where its results belong that it leaves in another place.
    extra: tasks that the reference does not submit.
    found: what the failing run held in place of results that have moved, or of results of tasks not submitted there. By
    task and argument. A program with any of these tasks starts with these values, in both builds.
    """

    moved: Mapping[int, tuple[ProgramArgument, ...]] = field(
        default_factory=dict[int, tuple[ProgramArgument, ...]]
    )
    extra: Set[int] = frozenset()
    found: Mapping[int, Mapping[int, TensorView]] = field(default_factory=dict[int, Mapping[int, TensorView]])


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """Elements of a tensor that were put in place of a dropped task's result."""

    tensor: str
    producer: str
    producer_ordinal: int
    recorded_in: str
    elements: int


@dataclass(frozen=True, kw_only=True)
class CutTensor:
    """A tensor argument of the reduced program. `initial` and `expected` are flat, and None where it has none.

    `writers` are the tasks that left what is judged. `last_writer` has the last writer of each element, flat, or -1 for
    none.
    """

    buffer: Buffer
    initial: Array | None
    expected: Array | None
    writers: frozenset[int]
    last_writer: Array

    def part(self, values: Array, writer: int) -> TensorView:
        """The elements that a task wrote last."""
        taken = values[self.last_writer == writer]
        return TensorView.from_contiguous(self.buffer.name, self.buffer.dtype, taken.shape, taken)

    def view(self, values: Array) -> TensorView:
        """Flat values as a tensor of the buffer's shape."""
        return TensorView.from_contiguous(self.buffer.name, self.buffer.dtype, self.buffer.shape, values)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A reduced program: tasks with their arguments' buffers, and tensors in the order of the entry's arguments."""

    program: Program
    tasks: tuple[ProgramTask, ...]
    tensors: tuple[CutTensor, ...]
    boundaries: tuple[Boundary, ...]

    def drop_tasks(self, tasks: Set[int]) -> Cut:
        """The same cut without submitting some tasks. What they were to write stays as it is at the start."""
        return replace(self, tasks=tuple(task for task in self.tasks if task.ordinal not in tasks))

    @property
    def bytes(self) -> int:
        """Return the size of all tensors in bytes."""
        return sum(math.prod(tensor.buffer.shape) * tensor.buffer.dtype.itemsize for tensor in self.tensors)


_RECORDED_RANK = len(PlainValue)
"""An input that holds its recorded values has this rank. The ranks of plain values are 0, 1, and so on, plainest
first."""


@dataclass(frozen=True, order=True, kw_only=True)
class CandidateSize:
    """The size of a candidate. The first number in which two candidates differ says which is smaller.

    `failing_kernels` counts kernels not taken from the reference, `blocks` the blocks of all tasks, and `elements`
    those of all tensors that tasks are given. What was taken away counts below zero. That is the number of ranks by
    which inputs are plainer than recorded, and the statements dropped. `key` is the candidate itself as a text, so that
    two candidates of one size are the same candidate.
    """

    tasks: int
    kernels: int
    failing_kernels: int
    blocks: int
    elements: int
    plainness: int
    statements: int
    key: str


@dataclass(frozen=True, kw_only=True)
class TaskSize:
    """The size of one task of the whole program.

    It has the names of the task's kernels, the number of blocks that it runs in, and the shapes (elements) of its
    tensors. `inputs` are the names that its inputs may have in a reduced program.
    """

    kernels: tuple[str, ...]
    blocks: int
    shapes: tuple[tuple[int, ...], ...]
    inputs: frozenset[str]

    @classmethod
    def from_task(cls, program: Program, task: ProgramTask) -> TaskSize:
        """The size of a task that a build submitted."""
        return cls(
            kernels=task.kernels,
            blocks=task.blocks or 1,
            shapes=tuple(argument.region.shape for argument in task.arguments),
            inputs=frozenset(_input_names(program, task)),
        )


@dataclass(frozen=True, kw_only=True)
class CandidateOrder:
    """A total order on the candidates that are made of one program. `tasks` are by ordinal."""

    tasks: tuple[TaskSize, ...]

    @property
    def whole(self) -> Candidate:
        """Return the whole program, from which nothing was taken."""
        return Candidate(tuple(range(len(self.tasks))))

    def kernels(self, candidate: Candidate) -> frozenset[str]:
        """Names of the kernels that its tasks use."""
        return frozenset(name for task in candidate.tasks for name in self.tasks[task].kernels)

    def extents(self, candidate: Candidate) -> tuple[int, ...]:
        """All sizes above 1 that its tasks are given along an axis in the whole program, the largest first."""
        sizes = {size for shape in self._shapes(candidate) for size in shape if size > 1}
        return tuple(sorted(sizes, reverse=True))

    def canonical(self, candidate: Candidate) -> Candidate:
        """The same reduced program in its canonical form. Edits without effect are removed, and everything is sorted.

        Edits have no effect if their task, kernel or tensor is gone, or if they keep a size or a number of blocks.
        """
        tasks = tuple(sorted(set(candidate.tasks)))
        kernels, extents = self.kernels(candidate), set(self.extents(candidate))
        inputs = frozenset[str]().union(*(self.tasks[task].inputs for task in tasks))
        return Candidate(
            tasks=tasks,
            collapsed=tuple(sorted(kernels.intersection(candidate.collapsed))),
            extents=tuple(
                sorted(edit for edit in candidate.extents if edit[0] in extents and edit[1] != edit[0])
            ),
            plain=tuple(sorted(edit for edit in candidate.plain if edit[0] in inputs)),
            statements=tuple(sorted({edit for edit in candidate.statements if edit[0] in kernels})),
            blocks=tuple(
                sorted(
                    (task, count)
                    for task, count in candidate.blocks
                    if task in tasks and count != self.tasks[task].blocks
                )
            ),
        )

    def size(self, candidate: Candidate) -> CandidateSize:
        """The size of a candidate in its canonical form."""
        kernels, blocks, extents = self.kernels(candidate), dict(candidate.blocks), dict(candidate.extents)
        return CandidateSize(
            tasks=len(candidate.tasks),
            kernels=len(kernels),
            failing_kernels=len(kernels.difference(candidate.collapsed)),
            blocks=sum(blocks.get(task, self.tasks[task].blocks) for task in candidate.tasks),
            elements=sum(
                math.prod(extents.get(size, size) for size in shape) for shape in self._shapes(candidate)
            ),
            plainness=sum(_rank(value) - _RECORDED_RANK for _, value in candidate.plain),
            statements=-len(candidate.statements),
            key=repr(candidate),
        )

    def is_smaller(self, candidate: Candidate, other: Candidate) -> bool:
        """Return whether `candidate` comes before `other`. Both must be canonical."""
        return self.size(candidate) < self.size(other)

    def _shapes(self, candidate: Candidate) -> Iterator[tuple[int, ...]]:
        return (shape for task in candidate.tasks for shape in self.tasks[task].shapes)


def _rank(value: str) -> int:
    return [kind.value for kind in PlainValue].index(value)


def _input_names(program: Program, task: ProgramTask) -> Iterator[str]:
    for argument in task.arguments:
        name = program.buffers[argument.buffer].name
        yield name
        yield private_name(name, task, argument)


def narrow(cut: Cut, extents: Mapping[int, int]) -> Cut:
    """The cut with smaller parts of the buffers given to the tasks, while the buffers keep their sizes.

    A kernel that does not respect the shapes it is given then changes the surrounding elements.
    """
    return replace(
        cut,
        tasks=tuple(
            replace(
                task,
                arguments=tuple(
                    replace(argument, region=replace(argument.region, shape=_shape(argument.region, extents)))
                    for argument in task.arguments
                ),
            )
            for task in cut.tasks
        ),
    )


def shrink(cut: Cut, extents: Mapping[int, int]) -> Cut:
    """The cut with the first `extents[n]` of every n elements along an axis. Buffers shrink to what is used.

    Expected values are those of the same elements before, and have to be computed anew.

    Raises:
        UnfitCutError: tasks use several parts of a buffer that would change.
    """
    if not extents:
        return cut
    regions: dict[int, set[Region]] = {}
    for task in cut.tasks:
        for argument in task.arguments:
            regions.setdefault(argument.buffer, set()).add(argument.region)
    smaller = {
        buffer: _only_region(buffer, used)
        for buffer, used in regions.items()
        if any(extent in extents for region in used for extent in region.shape)
    }
    return replace(
        cut,
        tasks=tuple(_task(task, smaller, extents) for task in cut.tasks),
        tensors=tuple(
            _tensor(tensor, smaller[tensor.buffer.number], extents)
            if tensor.buffer.number in smaller
            else tensor
            for tensor in cut.tensors
        ),
    )


def _only_region(buffer: int, used: set[Region]) -> Region:
    if len(used) > 1:
        raise UnfitCutError(f"buffer {buffer}: {len(used)} parts of it are used")
    return next(iter(used))


def _shape(region: Region, extents: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(extents.get(extent, extent) for extent in region.shape)


def _task(task: ProgramTask, smaller: Mapping[int, Region], extents: Mapping[int, int]) -> ProgramTask:
    return replace(
        task, arguments=tuple(_argument(argument, smaller, extents) for argument in task.arguments)
    )


def _argument(
    argument: ProgramArgument, smaller: Mapping[int, Region], extents: Mapping[int, int]
) -> ProgramArgument:
    if argument.buffer not in smaller:
        return argument
    shape = _shape(argument.region, extents)
    region = replace(argument.region, shape=shape, strides=contiguous_strides(shape), start_offset=0)
    return replace(argument, region=region)


def _tensor(tensor: CutTensor, region: Region, extents: Mapping[int, int]) -> CutTensor:
    shape = _shape(region, extents)
    places = flat_indices(region).reshape(region.shape)[tuple(slice(extent) for extent in shape)].ravel()

    def part(values: Array | None) -> Array | None:
        return None if values is None else np.ascontiguousarray(values[places])

    assert len(places) == math.prod(shape)
    return replace(
        tensor,
        buffer=replace(tensor.buffer, shape=shape, is_entry=False),
        initial=part(tensor.initial),
        expected=part(tensor.expected),
        last_writer=tensor.last_writer[places],
    )


@dataclass(frozen=True, kw_only=True)
class ProgramPair:
    """The programs of both builds. Tasks and buffers that correspond have one number and one name in both, those of the
    failing build.

    `failing` also has the tasks that are `missing` there, which only the reference submits. They are in the places
    where they would be, and have the numbers after the last one. `in_reference` maps these numbers to the reference's
    own ordinals, and `number_of` maps those ordinals to these numbers. `counterparts` are the reference's tasks by
    these numbers, with the element types of the failing build.
    """

    failing: Program
    reference: Program
    missing: frozenset[int]
    in_reference: Mapping[int, int]
    number_of: Mapping[int, int]
    counterparts: Mapping[int, ProgramTask]

    @cached_property
    def extra_tasks(self) -> frozenset[int]:
        """Return the tasks that only the failing build submits."""
        return frozenset(task.ordinal for task in self.failing.tasks) - self.in_reference.keys()

    def is_same_place(self, task: ProgramTask, index: int) -> bool:
        """Return whether an argument of the failing build's task is the same part of a buffer in the reference."""
        places = [
            (argument.buffer, argument.region)
            for arguments in (task.arguments, self.counterparts[task.ordinal].arguments)
            for argument in arguments
            if argument.index == index
        ]
        return len(places) == 2 and places[0] == places[1]

    @cached_property
    def reshaped_tasks(self) -> frozenset[int]:
        """Return the tasks that run the same kernels as in the reference on tensors of another shape."""
        return frozenset(
            task.ordinal
            for task in self._common_tasks
            for other in [self.counterparts[task.ordinal]]
            if task.kernels == other.kernels
            and [argument.region.shape for argument in task.arguments]
            != [argument.region.shape for argument in other.arguments]
        )

    @cached_property
    def moved_results(self) -> Mapping[int, tuple[ProgramArgument, ...]]:
        """Return where results belong that a task leaves in another place than in the reference, by task.

        Each build may choose the buffer of a value, as long as its own tasks agree on it. A result has moved in two
        cases. Either it belongs into an argument of the case, or a task still reads the place where it is missing.
        """
        moved: dict[int, tuple[ProgramArgument, ...]] = {}
        for place, task in enumerate(self._common_tasks):
            belonging = tuple(
                argument
                for argument in self.counterparts[task.ordinal].arguments
                if argument.type.may_write
                and not self.is_same_place(task, argument.index)
                and self._is_missed(argument, self._common_tasks[place + 1 :])
            )
            if belonging:
                moved[task.ordinal] = belonging
        return moved

    @cached_property
    def _common_tasks(self) -> list[ProgramTask]:
        """Return the failing build's tasks that have a counterpart."""
        return [task for task in self.failing.tasks if task.ordinal not in self.missing | self.extra_tasks]

    def _is_missed(self, result: ProgramArgument, following: Sequence[ProgramTask]) -> bool:
        buffers = self.failing.buffers[result.buffer], self.reference.buffers[result.buffer]
        # If the buffers differ in size, their parts do not correspond.
        if math.prod(buffers[0].shape) != math.prod(buffers[1].shape):
            return False
        if buffers[0].is_entry:
            return True
        there = flat_indices(result.region)
        for task in following:
            if any(
                bool(np.isin(flat_indices(argument.region), there).any())
                for argument in _arguments_in_buffer(task, result.buffer)
                if argument.type.may_read and self.is_same_place(task, argument.index)
            ):
                return True
            for argument in _arguments_in_buffer(self.counterparts[task.ordinal], result.buffer):
                if argument.type.may_write:
                    there = np.setdiff1d(there, flat_indices(argument.region))
        return False


def _arguments_in_buffer(task: ProgramTask, buffer: int) -> list[ProgramArgument]:
    return [argument for argument in task.arguments if argument.buffer == buffer]


def align_programs(failing: Program, reference: Program, alignment: Alignment) -> ProgramPair:
    """Both programs in one numbering, by the tasks that are aligned."""
    behind = len(failing.tasks)
    in_reference = {**alignment.reference_of, **dict(enumerate(alignment.only_reference, start=behind))}
    missing = frozenset(range(behind, behind + len(alignment.only_reference)))
    number_of = {there: here for here, there in in_reference.items()}
    same = _same_buffers(failing, reference, alignment)
    added = [buffer for buffer in reference.buffers if buffer.number not in same]
    buffer_of = {**same, **{one.number: len(failing.buffers) + place for place, one in enumerate(added)}}
    taken = {buffer.name for buffer in failing.buffers}
    named = [*failing.buffers]
    for buffer in added:
        number = buffer_of[buffer.number]
        name = buffer.name if buffer.name not in taken else f"{buffer.name}_{number}"
        named.append(replace(buffer, number=number, name=name))
    theirs = [*named]
    for buffer in reference.buffers:
        number = buffer_of[buffer.number]
        theirs[number] = replace(buffer, number=number, name=named[number].name)
    tasks = [_renumber(task, number_of[task.ordinal], buffer_of) for task in reference.tasks]
    counterparts = {task.ordinal: _take_failing_dtypes(task, named) for task in tasks}
    return ProgramPair(
        failing=replace(
            failing, tasks=tuple(_insert_missing(failing, counterparts, missing)), buffers=tuple(named)
        ),
        reference=replace(reference, tasks=tuple(tasks), buffers=tuple(theirs)),
        missing=missing,
        in_reference=in_reference,
        number_of=number_of,
        counterparts=counterparts,
    )


def _same_buffers(failing: Program, reference: Program, alignment: Alignment) -> dict[int, int]:
    """The failing build's buffers by the reference's.

    Arguments of the case correspond by name. Other buffers correspond if aligned tasks use them as the same arguments.
    Pairs with the most such uses come first.
    """
    entries = {buffer.name: buffer.number for buffer in failing.buffers if buffer.is_entry}
    same = {
        buffer.number: entries[buffer.name]
        for buffer in reference.buffers
        if buffer.is_entry and buffer.name in entries
    }
    shared = Counter[tuple[int, int]]()
    for here, there in alignment.reference_of.items():
        for ours, theirs in zip(
            failing.tasks[here].arguments, reference.tasks[there].arguments, strict=False
        ):
            shared[theirs.buffer, ours.buffer] += 1
    for (theirs, ours), _ in shared.most_common():
        inner = not (reference.buffers[theirs].is_entry or failing.buffers[ours].is_entry)
        if inner and theirs not in same and ours not in same.values():
            same[theirs] = ours
    return same


def _renumber(task: ProgramTask, number: int, buffer_of: Mapping[int, int]) -> ProgramTask:
    arguments = tuple(replace(one, buffer=buffer_of[one.buffer]) for one in task.arguments)
    return replace(task, ordinal=number, arguments=arguments)


def _insert_missing(
    failing: Program, reference: Mapping[int, ProgramTask], missing: frozenset[int]
) -> Iterator[ProgramTask]:
    """The failing build's tasks, with the missing ones inserted before the counterparts of the tasks that follow them.

    A missing task so comes after any task that the failing build submits in its place. What the missing task should
    have left is what counts then.
    """
    waiting: list[ProgramTask] = []
    before: dict[int, list[ProgramTask]] = {}
    for task in reference.values():
        if task.ordinal in missing:
            waiting.append(task)
        else:
            before[task.ordinal], waiting = waiting, []
    for task in failing.tasks:
        yield from before.get(task.ordinal, ())
        yield task
    yield from waiting


def _take_failing_dtypes(task: ProgramTask, buffers: list[Buffer]) -> ProgramTask:
    """The task with the element types that its buffers have in the failing build."""
    return replace(
        task,
        arguments=tuple(
            replace(one, region=replace(one.region, dtype=buffers[one.buffer].dtype))
            for one in task.arguments
        ),
    )
