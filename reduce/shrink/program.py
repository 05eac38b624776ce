"""The program model of a reduction.

A `Program` is the straight line of tasks that a build submitted in one run, and their buffers. A `Candidate` is a list
of what was taken from the whole program. `CandidateOrder` says which of two candidates is smaller. A `Cut` is a reduced
program with its initial and expected tensors. `ProgramPair` gives the programs of two builds one numbering.
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
    """A value for all elements of an input, the plainest first."""

    ZEROS = "zeros"
    ONES = "ones"
    FIRST = "its first value"


DroppedStatement = tuple[str, str, int]
"""A dropped statement: the name of its kernel, its text, and the number of this occurrence of the text."""


@dataclass(frozen=True)
class Candidate:
    """A reduced program, by its tasks and by the edits that made it.

    Attributes:
        tasks: the ordinals of the failing build's tasks that stay.
        collapsed: the names of the kernels that are taken from the reference.
        extents: pairs of a size along an axis and its new size.
        plain: pairs of the name of an input and its `PlainValue`.
        statements: the statements dropped from the kernels of both builds.
        blocks: pairs of a task and its new number of blocks.
    """

    tasks: tuple[int, ...]
    collapsed: tuple[str, ...] = ()
    extents: tuple[tuple[int, int], ...] = ()
    plain: tuple[tuple[str, str], ...] = ()
    statements: tuple[DroppedStatement, ...] = ()
    blocks: tuple[tuple[int, int], ...] = ()

    @property
    def needs_new_expected_values(self) -> bool:
        """Return whether the reference has to compute the expected values anew."""
        return bool(self.extents or self.plain or self.statements or self.blocks)

    @property
    def key(self) -> str:
        """Return the candidate's name in the journal."""
        parts = [",".join(map(str, self.tasks)), ",".join(self.collapsed)]
        if self.needs_new_expected_values:
            parts += [",".join(f"{before}={after}" for before, after in (*self.extents, *self.plain))]
            if self.statements:
                parts.append(hashlib.sha256(repr(self.statements).encode()).hexdigest()[:16])
            parts += [f"{task} in {count}" for task, count in self.blocks]
        return ";".join(parts)

    @property
    def digest(self) -> str:
        """Return the candidate's name in names of folders."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:16]


class NotReducibleError(UserError):
    """A build uses something that a straight-line program cannot express."""


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """A tensor that tasks read and write through views. `shape` is in elements.

    `is_entry` says that the buffer is an argument of the case. The orchestration allocated all others.
    """

    number: int
    name: str
    dtype: DType
    shape: tuple[int, ...]
    is_entry: bool


@dataclass(frozen=True, kw_only=True)
class ProgramArgument:
    """A tensor argument of a task: a region of a buffer. `buffer` is the buffer's number."""

    index: int
    type: ArgumentType
    buffer: int
    region: Region


@dataclass(frozen=True, kw_only=True)
class ProgramTask:
    """One submitted task.

    Attributes:
        kernels: their names.
        scalars: the task's scalar arguments, as C++ expressions.
        blocks: the number of blocks, or None unless both the source and the recorded graph give it.
        unordered: whether the task was in a manual scope, and no edge orders it to another task.
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
        """Return the names of the kernels, joined by `+`."""
        return "+".join(self.kernels)


@dataclass(frozen=True, kw_only=True)
class Program:
    """Tasks in submission order, without the loops and branches that made them."""

    orchestration: Orchestration
    config: KernelConfig
    tasks: tuple[ProgramTask, ...]
    buffers: tuple[Buffer, ...]


def results_of(task: ProgramTask, moved: Mapping[int, Sequence[ProgramArgument]]) -> list[ProgramArgument]:
    """Return the places where a task's results belong: where it writes them, or where `moved` says, by task."""
    own = {argument.index: argument for argument in task.arguments if argument.type.may_write}
    return [*{**own, **{argument.index: argument for argument in moved.get(task.ordinal, ())}}.values()]


def private_name(buffer: str, task: ProgramTask, argument: ProgramArgument) -> str:
    """Return the name of a buffer that holds other contents than a shared one, for a single argument of a task."""
    return f"{buffer}_for_{task.ordinal}_{argument.index}"


Array = npt.NDArray[Any]


class UnfitCutError(Exception):
    """These tasks cannot be taken alone. For example, a buffer would need two contents at once."""


class TrustedValues(Protocol):
    """The values that count as right, by the ordinals of the program's tasks."""

    def task_values(self, ordinal: int) -> TaskValues:
        """Return the results of a task, and its inputs as far as they are known."""
        ...

    def inputs(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return the inputs of a task in the run of its own build, by argument."""
        ...

    def source_run(self, ordinal: int) -> str:
        """Return the run in which the values of a task were recorded: `reference` or `failing`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Deviations:
    """How a failing build deviates from its reference.

    Attributes:
        moved: the places where results belong that a task writes elsewhere, by task.
        extra: the tasks that the reference does not submit.
        found: the values that the failing run held where moved results and results of missing tasks belong, by task and
            argument. A program with such a task starts with these values, in both builds.
    """

    moved: Mapping[int, tuple[ProgramArgument, ...]] = field(
        default_factory=dict[int, tuple[ProgramArgument, ...]]
    )
    extra: Set[int] = frozenset()
    found: Mapping[int, Mapping[int, TensorView]] = field(default_factory=dict[int, Mapping[int, TensorView]])


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """Elements of a tensor with recorded values, which take the place of a dropped task's result."""

    tensor: str
    producer: str
    producer_ordinal: int
    recorded_in: str
    elements: int


@dataclass(frozen=True, kw_only=True)
class CutTensor:
    """A tensor argument of a reduced program.

    `initial` and `expected` are its flat values before and after the run, or None if it has none. `writers` are the
    tasks that wrote the expected values. `last_writer` has the last writer of each element, flat, or -1.
    """

    buffer: Buffer
    initial: Array | None
    expected: Array | None
    writers: frozenset[int]
    last_writer: Array

    def part(self, values: Array, writer: int) -> TensorView:
        """Return the elements that a task wrote last, from flat values."""
        written = values[self.last_writer == writer]
        return TensorView.from_contiguous(self.buffer.name, self.buffer.dtype, written.shape, written)

    def view(self, values: Array) -> TensorView:
        """Return flat values as a tensor of the buffer's shape."""
        return TensorView.from_contiguous(self.buffer.name, self.buffer.dtype, self.buffer.shape, values)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A reduced program: its tasks, and its tensors in the order of the entry's arguments."""

    program: Program
    tasks: tuple[ProgramTask, ...]
    tensors: tuple[CutTensor, ...]
    boundaries: tuple[Boundary, ...]

    def drop_tasks(self, tasks: Set[int]) -> Cut:
        """Return the same cut that does not submit some tasks. Their results keep the initial values."""
        return replace(self, tasks=tuple(task for task in self.tasks if task.ordinal not in tasks))

    @property
    def bytes(self) -> int:
        """Return the size of all tensors in bytes."""
        return sum(math.prod(tensor.buffer.shape) * tensor.buffer.dtype.itemsize for tensor in self.tensors)


_RECORDED_RANK = len(PlainValue)
"""The rank of an input with its recorded values. The rank of a plain value is its index in `PlainValue`."""


@dataclass(frozen=True, order=True, kw_only=True)
class CandidateSize:
    """The size of a candidate. The first attribute in which two sizes differ decides.

    Attributes:
        failing_kernels: the number of kernels that are not taken from the reference.
        blocks: the number of blocks of all tasks.
        elements: the number of elements of all arguments of tasks.
        plainness: minus the number of ranks by which inputs are plainer than the recorded ones.
        statements: minus the number of dropped statements.
        key: the candidate as a text, so that only equal candidates have equal sizes.
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
    """The size of one task of the whole program. `shapes` are those of its tensors, in elements.

    `inputs` are the names that its inputs may have in a reduced program.
    """

    kernels: tuple[str, ...]
    blocks: int
    shapes: tuple[tuple[int, ...], ...]
    inputs: frozenset[str]

    @classmethod
    def from_task(cls, program: Program, task: ProgramTask) -> TaskSize:
        """Return the size of a task of a program."""
        return cls(
            kernels=task.kernels,
            blocks=task.blocks or 1,
            shapes=tuple(argument.region.shape for argument in task.arguments),
            inputs=frozenset(_input_names(program, task)),
        )


@dataclass(frozen=True, kw_only=True)
class CandidateOrder:
    """A total order on the candidates of one program. `tasks` are in the order of their ordinals."""

    tasks: tuple[TaskSize, ...]

    @property
    def whole(self) -> Candidate:
        """Return the whole program as a candidate."""
        return Candidate(tuple(range(len(self.tasks))))

    def kernels(self, candidate: Candidate) -> frozenset[str]:
        """Return the names of the kernels that a candidate's tasks use."""
        return frozenset(name for task in candidate.tasks for name in self.tasks[task].kernels)

    def extents(self, candidate: Candidate) -> tuple[int, ...]:
        """Return the sizes above 1 of its tasks' tensors along any axis in the whole program, the largest first."""
        sizes = {size for shape in self._shapes(candidate) for size in shape if size > 1}
        return tuple(sorted(sizes, reverse=True))

    def canonical(self, candidate: Candidate) -> Candidate:
        """Return the same program with its edits sorted, and without edits that have no effect.

        An edit has no effect if its task, kernel or tensor is gone, or if it keeps a size or a number of blocks.
        """
        tasks = tuple(sorted(set(candidate.tasks)))
        kernels, sizes = self.kernels(candidate), self.extents(candidate)
        inputs = frozenset[str]().union(*(self.tasks[task].inputs for task in tasks))
        extents = ((old, new) for old, new in candidate.extents if old in sizes and new != old)
        blocks = (
            (task, count)
            for task, count in candidate.blocks
            if task in tasks and count != self.tasks[task].blocks
        )
        return Candidate(
            tasks=tasks,
            collapsed=tuple(sorted(kernels.intersection(candidate.collapsed))),
            extents=tuple(sorted(extents)),
            plain=tuple(sorted(edit for edit in candidate.plain if edit[0] in inputs)),
            statements=tuple(sorted({edit for edit in candidate.statements if edit[0] in kernels})),
            blocks=tuple(sorted(blocks)),
        )

    def size(self, candidate: Candidate) -> CandidateSize:
        """Return the size of a candidate in its canonical form."""
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
    """Return the cut with smaller shapes of arguments, in buffers that keep their sizes.

    A kernel that does not respect the smaller shapes changes the surrounding elements.
    """

    def narrowed(argument: ProgramArgument) -> ProgramArgument:
        shape = _smaller_shape(argument.region, extents)
        return replace(argument, region=replace(argument.region, shape=shape))

    tasks = (replace(task, arguments=tuple(map(narrowed, task.arguments))) for task in cut.tasks)
    return replace(cut, tasks=tuple(tasks))


def shrink(cut: Cut, extents: Mapping[int, int]) -> Cut:
    """Return the cut with the first `extents[n]` of n elements along each axis of size n, and smaller buffers.

    All axes of one size get the same new size, so that equal dimensions stay equal. The expected values are only
    selected elements of the old ones, and have to be computed anew.

    Raises:
        UnfitCutError: tasks use several regions of a buffer that would change.
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
        tasks=tuple(_shrink_task(task, smaller.keys(), extents) for task in cut.tasks),
        tensors=tuple(
            _shrink_tensor(tensor, smaller[tensor.buffer.number], extents)
            if tensor.buffer.number in smaller
            else tensor
            for tensor in cut.tensors
        ),
    )


def _only_region(buffer: int, used: set[Region]) -> Region:
    if len(used) > 1:
        raise UnfitCutError(f"buffer {buffer}: {len(used)} parts of it are used")
    return next(iter(used))


def _smaller_shape(region: Region, extents: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(extents.get(extent, extent) for extent in region.shape)


def _shrink_task(task: ProgramTask, smaller: Set[int], extents: Mapping[int, int]) -> ProgramTask:
    """Return the task with arguments that fill the smaller buffers."""

    def shrunk(argument: ProgramArgument) -> ProgramArgument:
        if argument.buffer not in smaller:
            return argument
        shape = _smaller_shape(argument.region, extents)
        region = replace(argument.region, shape=shape, strides=contiguous_strides(shape), start_offset=0)
        return replace(argument, region=region)

    return replace(task, arguments=tuple(map(shrunk, task.arguments)))


def _shrink_tensor(tensor: CutTensor, region: Region, extents: Mapping[int, int]) -> CutTensor:
    """Return the tensor with the first elements of the only region that tasks use."""
    shape = _smaller_shape(region, extents)
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
    """The programs of both builds, with one numbering of tasks and buffers.

    Tasks and buffers that correspond have the failing build's number and name in both programs.

    Attributes:
        failing: the failing build's program. It also has the missing tasks, in the places where they would be.
        missing: the tasks that only the reference submits. Their numbers come after the failing build's ordinals.
        in_reference: the reference's own ordinal of each number.
        number_of: the number of each of the reference's own ordinals.
        counterparts: the reference's tasks by number, with the element types of the failing build.
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

        def is_reshaped(task: ProgramTask, counterpart: ProgramTask) -> bool:
            shapes, expected = (
                [argument.region.shape for argument in each.arguments] for each in (task, counterpart)
            )
            return task.kernels == counterpart.kernels and shapes != expected

        return frozenset(
            task.ordinal for task in self._common_tasks if is_reshaped(task, self.counterparts[task.ordinal])
        )

    @cached_property
    def moved_results(self) -> Mapping[int, tuple[ProgramArgument, ...]]:
        """Return the reference's places of results that a task of the failing build writes elsewhere, by task.

        A build may choose any buffer for a value that its own tasks agree on. So a result only counts as moved in two
        cases. It belongs into an argument of the case, or a later task still reads its place in the reference.
        """
        moved: dict[int, tuple[ProgramArgument, ...]] = {}
        for position, task in enumerate(self._common_tasks):
            places = tuple(
                argument
                for argument in self.counterparts[task.ordinal].arguments
                if argument.type.may_write
                and not self.is_same_place(task, argument.index)
                and self._is_missed(argument, self._common_tasks[position + 1 :])
            )
            if places:
                moved[task.ordinal] = places
        return moved

    @cached_property
    def _common_tasks(self) -> list[ProgramTask]:
        """Return the failing build's tasks that have a counterpart."""
        return [task for task in self.failing.tasks if task.ordinal not in self.missing | self.extra_tasks]

    def _is_missed(self, result: ProgramArgument, following: Sequence[ProgramTask]) -> bool:
        """Return whether the failing build needs a result in its place in the reference."""
        buffer, reference_buffer = (
            program.buffers[result.buffer] for program in (self.failing, self.reference)
        )
        # If the buffers differ in size, their parts do not correspond.
        if math.prod(buffer.shape) != math.prod(reference_buffer.shape):
            return False
        if buffer.is_entry:
            return True
        places = flat_indices(result.region)
        for task in following:
            if any(
                bool(np.isin(flat_indices(argument.region), places).any())
                for argument in _arguments_in_buffer(task, result.buffer)
                if argument.type.may_read and self.is_same_place(task, argument.index)
            ):
                return True
            # The reference's next task may overwrite the result.
            for argument in _arguments_in_buffer(self.counterparts[task.ordinal], result.buffer):
                if argument.type.may_write:
                    places = np.setdiff1d(places, flat_indices(argument.region))
        return False


def _arguments_in_buffer(task: ProgramTask, buffer: int) -> list[ProgramArgument]:
    return [argument for argument in task.arguments if argument.buffer == buffer]


def align_programs(failing: Program, reference: Program, alignment: Alignment) -> ProgramPair:
    """Give both programs one numbering, by an alignment of their tasks."""
    count = len(failing.tasks)
    in_reference = {**alignment.reference_of, **dict(enumerate(alignment.only_reference, start=count))}
    missing = frozenset(range(count, count + len(alignment.only_reference)))
    number_of = {ordinal: number for number, ordinal in in_reference.items()}
    buffers = [*failing.buffers]
    buffer_of = _common_buffers(failing, reference, alignment)
    names = {buffer.name for buffer in failing.buffers}
    for buffer in reference.buffers:
        if buffer.number not in buffer_of:
            number = buffer_of[buffer.number] = len(buffers)
            name = buffer.name if buffer.name not in names else f"{buffer.name}_{number}"
            buffers.append(replace(buffer, number=number, name=name))
    reference_buffers = [*buffers]
    for buffer in reference.buffers:
        number = buffer_of[buffer.number]
        reference_buffers[number] = replace(buffer, number=number, name=buffers[number].name)
    tasks = [_renumber(task, number_of[task.ordinal], buffer_of) for task in reference.tasks]
    counterparts = {task.ordinal: _take_failing_dtypes(task, buffers) for task in tasks}
    return ProgramPair(
        failing=replace(
            failing, tasks=tuple(_insert_missing(failing, counterparts, missing)), buffers=tuple(buffers)
        ),
        reference=replace(reference, tasks=tuple(tasks), buffers=tuple(reference_buffers)),
        missing=missing,
        in_reference=in_reference,
        number_of=number_of,
        counterparts=counterparts,
    )


def _common_buffers(failing: Program, reference: Program, alignment: Alignment) -> dict[int, int]:
    """Return the failing build's buffer that corresponds to each of the reference's, as far as there is one.

    Arguments of the case correspond by name. Other buffers correspond if aligned tasks use them as the same arguments,
    those with the most such uses first.
    """
    entries = {buffer.name: buffer.number for buffer in failing.buffers if buffer.is_entry}
    common = {
        buffer.number: entries[buffer.name]
        for buffer in reference.buffers
        if buffer.is_entry and buffer.name in entries
    }
    uses = Counter[tuple[int, int]]()
    for number, ordinal in alignment.reference_of.items():
        uses.update(
            (expected.buffer, actual.buffer)
            for actual, expected in zip(
                failing.tasks[number].arguments, reference.tasks[ordinal].arguments, strict=False
            )
        )
    for (buffer, failing_buffer), _ in uses.most_common():
        is_entry = reference.buffers[buffer].is_entry or failing.buffers[failing_buffer].is_entry
        if not is_entry and buffer not in common and failing_buffer not in common.values():
            common[buffer] = failing_buffer
    return common


def _renumber(task: ProgramTask, number: int, buffer_of: Mapping[int, int]) -> ProgramTask:
    arguments = tuple(replace(each, buffer=buffer_of[each.buffer]) for each in task.arguments)
    return replace(task, ordinal=number, arguments=arguments)


def _insert_missing(
    failing: Program, reference: Mapping[int, ProgramTask], missing: frozenset[int]
) -> Iterator[ProgramTask]:
    """Yield the failing build's tasks, each after the missing tasks that come before it in the reference.

    So a missing task comes after any task that the failing build submits in its place, and its results count.
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
    """Return the task with the element types that its buffers have in the failing build."""
    arguments = (
        replace(each, region=replace(each.region, dtype=buffers[each.buffer].dtype))
        for each in task.arguments
    )
    return replace(task, arguments=tuple(arguments))
