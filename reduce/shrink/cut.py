"""Takes tasks out of a program, and computes the initial and expected contents of the buffers of the rest.

`cut` walks the whole program in order. If a kept task reads the result of a dropped one, the buffer starts with the
recorded value. The expected values are the results of kept tasks that no kept task reads. `actual_contents` and
`expected_contents` add the values for results in a wrong place, and for tasks that only one build submits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ...runner.build_output.directory import TensorFolder
from ...runner.tensor import TensorView
from ..replay.replay import TaskValues
from ..replay.task_replay import flat_indices
from .extract import Recording
from .program import (
    Array,
    Boundary,
    Buffer,
    Cut,
    CutTensor,
    Deviations,
    Program,
    ProgramArgument,
    ProgramPair,
    ProgramTask,
    TrustedValues,
    UnfitCutError,
    private_name,
    results_of,
)


def cut(
    program: Program,
    kept: Set[int],
    values: TrustedValues,
    given: Mapping[str, TensorView],
    golden: Mapping[str, TensorView] | None = None,
    deviations: Deviations | None = None,
) -> Cut:
    """Return the program of the tasks in `kept`.

    Args:
        values: the values that count as right.
        given: the case's own inputs, by name.
        golden: without a reference, the case's outputs by name. They replace the expected values of elements whose last
            writer is kept. The writers of other elements do not count.
        deviations: how the program deviates from a reference.

    Raises:
        UnfitCutError: the tasks cannot be taken alone.
        IncompleteDumpError: the dump of a value is incomplete.
    """
    contents = [
        _Contents.from_buffer(buffer, given.get(buffer.name) if buffer.is_entry else None)
        for buffer in program.buffers
    ]
    walk = _Walk(program, kept, values, contents, Deviations() if deviations is None else deviations)
    walk.run()
    names = {task.ordinal: task.name for task in program.tasks}
    return Cut(
        program=program,
        tasks=tuple(walk.tasks),
        tensors=tuple(_tensor(content, golden) for content in walk.contents if content.used),
        boundaries=tuple(
            Boundary(
                tensor=name,
                producer=names.get(writer, "no task"),
                producer_ordinal=writer,
                recorded_in=values.source_run(max(writer, 0)),
                elements=count,
            )
            for (name, writer), count in walk.boundaries.items()
        ),
    )


def actual_contents(pair: ProgramPair, failing: Recording) -> dict[int, dict[int, TensorView]]:
    """Return what the failing run held in place of each missing task's results, and of each moved result.

    The keys are the task and the index of the argument. The values are those that the next task read there, or else the
    outputs of the run. They are zeros if neither is known.
    """
    program = pair.failing
    wanted = pair.missing | pair.moved_results.keys()
    if not wanted:
        return {}
    next_read = [_final_contents(buffer, failing.outputs) for buffer in program.buffers]
    found: dict[int, dict[int, TensorView]] = {}
    for task in reversed(program.tasks):
        if task.ordinal in wanted:
            found[task.ordinal] = {
                argument.index: _part(program, argument, next_read[argument.buffer])
                for argument in results_of(task, pair.moved_results)
            }
        if task.ordinal in pair.missing:
            continue
        # What an earlier task left where this one writes was not read any more, and is not known.
        before = failing.values(task.ordinal).before
        for argument in task.arguments:
            if argument.type.may_write:
                next_read[argument.buffer][flat_indices(argument.region)] = 0
        for argument in task.arguments:
            if argument.index in before:
                read = before[argument.index].contiguous().ravel()
                next_read[argument.buffer][flat_indices(argument.region)] = read
    return found


def expected_contents(
    pair: ProgramPair, right: Callable[[int], TaskValues], given: Mapping[str, TensorView]
) -> dict[int, dict[int, TensorView]]:
    """Return the right contents of the places in arguments of the case that extra tasks write, by task and argument.

    Places whose contents are not completely known are left out. `right` returns the right values of a task. `given`
    holds the case's own inputs, by name.
    """
    program = pair.failing
    if not pair.extra_tasks:
        return {}
    truth = [np.zeros(math.prod(buffer.shape), buffer.dtype.storage) for buffer in program.buffers]
    known = [np.full(contents.size, False) for contents in truth]
    for buffer in program.buffers:
        if buffer.is_entry and buffer.name in given:
            truth[buffer.number][:] = given[buffer.name].contiguous().ravel()
            known[buffer.number][:] = True
    expected: dict[int, dict[int, TensorView]] = {}
    for task in program.tasks:
        if task.ordinal in pair.extra_tasks:
            expected[task.ordinal] = {
                argument.index: _part(program, argument, truth[argument.buffer])
                for argument in task.arguments
                if argument.type.may_write
                and program.buffers[argument.buffer].is_entry
                and bool(known[argument.buffer][flat_indices(argument.region)].all())
            }
            continue
        after = right(task.ordinal).after
        for argument in results_of(task, pair.moved_results):
            if argument.index in after and program.buffers[argument.buffer].is_entry:
                places = flat_indices(argument.region)
                truth[argument.buffer][places] = after[argument.index].contiguous().ravel()
                known[argument.buffer][places] = True
    return expected


@dataclass
class _Contents:
    """What is known of one buffer's elements at a point of the walk."""

    buffer: Buffer
    now: Array
    """The current contents in the reduced program."""
    initial: Array
    """The contents at the start of the reduced program."""
    truth: Array
    """The right current contents in the original program."""
    writer: npt.NDArray[np.int64]
    """The last task of the original program that wrote each element, or -1."""
    kept_writer: npt.NDArray[np.int64]
    """The last kept task whose result belongs in each element, or -1."""
    spoiler: npt.NDArray[np.int64]
    """The last kept task that wrote each element although its result does not belong there, or -1."""
    known: npt.NDArray[np.bool_]
    """Whether `truth` is known: the case gave the element, or a task wrote it."""
    supplied: npt.NDArray[np.bool_]
    """Whether `initial` is known: the case gave the element, or it was recorded."""
    seen: npt.NDArray[np.bool_]
    """Whether a kept task has read the element, so that `initial` cannot change any more."""
    unread: npt.NDArray[np.bool_]
    """Whether a kept task wrote the element, and no kept task has read it since."""
    used: bool = False
    """Whether a kept task has the buffer as an argument."""

    @classmethod
    def from_buffer(cls, buffer: Buffer, given: TensorView | None) -> _Contents:
        size = math.prod(buffer.shape)
        start = np.zeros(size, buffer.dtype.storage) if given is None else given.contiguous().ravel().copy()
        nobody = np.full(size, -1, np.int64)
        return cls(
            buffer=buffer,
            now=start,
            initial=start.copy(),
            truth=start.copy(),
            writer=nobody,
            kept_writer=nobody.copy(),
            spoiler=nobody.copy(),
            known=np.full(size, given is not None),
            supplied=np.full(size, given is not None),
            seen=np.zeros(size, np.bool_),
            unread=np.zeros(size, np.bool_),
        )


@dataclass(frozen=True)
class _Result:
    """The elements of a buffer that a task writes, and their values."""

    content: _Contents
    places: npt.NDArray[np.int64]
    values: Array


@dataclass
class _Walk:
    """A walk over the original program, which builds the reduced one from the tasks in `kept`."""

    program: Program
    kept: Set[int]
    values: TrustedValues
    contents: list[_Contents]
    deviations: Deviations
    boundaries: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    tasks: list[ProgramTask] = field(default_factory=list[ProgramTask])

    def run(self) -> None:
        """Walk over all tasks. Only the kept ones are added; the results of all count as right contents."""
        for task in self.program.tasks:
            values = self.values.task_values(task.ordinal)
            results = list(self._results(task, values))
            if task.ordinal in self.kept:
                self._keep(task, values, results)
            for result in results:
                result.content.truth[result.places] = result.values
                result.content.writer[result.places] = task.ordinal
                result.content.known[result.places] = True

    def _results(self, task: ProgramTask, values: TaskValues) -> Iterator[_Result]:
        """Yield the results of a task, without elements that belong elsewhere."""
        for argument in results_of(task, self.deviations.moved):
            if argument.index in values.after:
                places = flat_indices(argument.region)
                after = values.after[argument.index].contiguous().ravel()
                belongs = self._correct_elements(task, argument, places)
                yield _Result(self.contents[argument.buffer], places[belongs], after[belongs])

    def _correct_elements(
        self, task: ProgramTask, argument: ProgramArgument, places: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return which of these elements are right after the task. An extra task spoils arguments of the case."""
        content = self.contents[argument.buffer]
        is_extra = task.ordinal in self.deviations.extra and content.buffer.is_entry
        return ~content.known[places] if is_extra else np.ones(len(places), np.bool_)

    def _keep(
        self,
        task: ProgramTask,
        values: TaskValues,
        results: Sequence[_Result],
    ) -> None:
        """Add a task to the reduced program. Its inputs get their contents, and its results are noted."""
        arguments = tuple(
            self._feed(task, argument, self._read(task, argument, values)) for argument in task.arguments
        )
        self.tasks.append(replace(task, arguments=arguments))
        for argument in self.deviations.moved.get(task.ordinal, ()):
            places = flat_indices(argument.region)
            truth = self.contents[argument.buffer].truth[places]
            self._feed(task, argument, truth.copy() if argument.type.may_read else None)
        found = self.deviations.found.get(task.ordinal, {})
        for argument in results_of(task, self.deviations.moved):
            if argument.index in found and not argument.type.may_read:
                self._start(argument, found[argument.index])
        for argument in arguments:
            if argument.type.may_write:
                content, places = self.contents[argument.buffer], flat_indices(argument.region)
                content.spoiler[places] = task.ordinal
                content.unread[places] |= content.buffer.is_entry & content.known[places]
        for result in results:
            content, places = result.content, result.places
            content.now[places] = result.values
            content.kept_writer[places] = task.ordinal
            content.spoiler[places] = -1
            content.unread[places] = True

    def _read(self, task: ProgramTask, argument: ProgramArgument, values: TaskValues) -> Array | None:
        """Return the contents that the task must read, or None if it does not read the argument.

        These are the trusted values, or else the right contents of the buffer. Elements without either have the values
        from the run of the task's own build.
        """
        if argument.index in values.before:
            return values.before[argument.index].contiguous().ravel()
        if not argument.type.may_read:
            return None
        content, places = self.contents[argument.buffer], flat_indices(argument.region)
        read = self.values.inputs(task.ordinal)[argument.index].contiguous().ravel()
        return np.where(content.known[places], content.truth[places], read)

    def _feed(self, task: ProgramTask, argument: ProgramArgument, read: Array | None) -> ProgramArgument:
        """Give an argument's buffer the contents `read`, and return the argument.

        `read` is None if the task does not read the argument. If the buffer must hold other contents at this point, the
        argument gets a buffer of its own.
        """
        content = self.contents[argument.buffer]
        content.used = True
        places = flat_indices(argument.region)
        reads = read is not None
        wanted = content.truth[places] if read is None else read
        writers = content.writer[places]
        # An element that neither a task nor the case wrote had the contents of the memory, which were recorded too.
        is_unwritten = ~content.supplied[places] & reads
        needs_value = np.where(writers < 0, is_unwritten, ~np.isin(writers, list(self.kept)))
        is_fixed = (content.kept_writer[places] >= 0) | content.seen[places]
        differs = content.now[places] != wanted
        if bool((needs_value & differs & is_fixed).any()) and reads:
            if argument.type.may_write:
                raise UnfitCutError(f"{task.name} (task {task.ordinal}), argument {argument.index}")
            return self._private_argument(task, argument, wanted)
        changes = needs_value & ~is_fixed
        content.now[places[changes]] = content.initial[places[changes]] = wanted[changes]
        content.supplied[places[changes]] = True
        self._count_boundaries(content, writers[changes])
        content.seen[places] |= reads
        if reads and argument.type.may_read:
            content.unread[places] = False
        return argument

    def _start(self, argument: ProgramArgument, found: TensorView) -> None:
        """Let an output start with the values that the failing run held in its place."""
        content = self.contents[argument.buffer]
        places = flat_indices(argument.region)
        is_untouched = (content.kept_writer[places] < 0) & ~content.seen[places]
        content.initial[places[is_untouched]] = found.contiguous().ravel()[is_untouched]
        content.supplied[places] = True

    def _private_argument(
        self, task: ProgramTask, argument: ProgramArgument, wanted: Array
    ) -> ProgramArgument:
        """Return an argument with a new buffer that starts with the contents `wanted`."""
        shared = self.contents[argument.buffer]
        buffer = Buffer(
            number=len(self.contents),
            name=private_name(shared.buffer.name, task, argument),
            dtype=shared.buffer.dtype,
            shape=shared.buffer.shape,
            is_entry=False,
        )
        places = flat_indices(argument.region)
        content = _Contents.from_buffer(buffer, None)
        content.now[places] = content.initial[places] = wanted
        content.supplied[places] = content.used = True
        self.contents.append(content)
        self._count_boundaries(content, shared.writer[places])
        return ProgramArgument(
            index=argument.index, type=argument.type, buffer=buffer.number, region=argument.region
        )

    def _count_boundaries(self, content: _Contents, writers: npt.NDArray[np.int64]) -> None:
        for writer, count in zip(*np.unique(writers, return_counts=True), strict=True):
            key = content.buffer.name, int(writer)
            self.boundaries[key] = self.boundaries.get(key, 0) + int(count)


def _tensor(content: _Contents, golden: Mapping[str, TensorView] | None) -> CutTensor:
    """Return a buffer of the reduced program, with its initial and expected contents."""
    judged, expected = content.unread, content.now
    if golden is not None:
        output = golden.get(content.buffer.name) if content.buffer.is_entry else None
        judged = content.unread & (content.kept_writer == content.writer) & (output is not None)
        if output is not None:
            expected = np.where(judged, output.contiguous().ravel(), expected)
    # A tensor that is neither an input nor an output gets zeros from the harness. An output that is only partly
    # written needs an input too, because its other elements would have the contents of the device's memory.
    has_input = (
        bool(content.supplied.any())
        or not bool(content.unread.any())
        or not bool((content.kept_writer >= 0).all())
    )
    last_writer = np.where(content.spoiler >= 0, content.spoiler, content.kept_writer)
    return CutTensor(
        buffer=content.buffer,
        initial=content.initial if has_input else None,
        expected=expected if bool(content.unread.any()) else None,
        writers=frozenset(int(task) for task in np.unique(last_writer[judged])),
        last_writer=last_writer,
    )


def _part(program: Program, argument: ProgramArgument, contents: Array) -> TensorView:
    """Return a copy of the elements of a buffer that an argument covers."""
    buffer = program.buffers[argument.buffer]
    values = contents[flat_indices(argument.region)]
    return TensorView.from_contiguous(buffer.name, buffer.dtype, argument.region.shape, values)


def _final_contents(buffer: Buffer, outputs: TensorFolder | None) -> Array:
    """Return the final contents of an argument of the case, flat. Zeros if it is no output, or for other buffers."""
    if buffer.is_entry and outputs is not None and buffer.name in outputs.names:
        view = outputs.tensor(buffer.name)
        if view.dtype is buffer.dtype and view.numel == math.prod(buffer.shape):
            return view.contiguous().ravel().copy()
    return np.zeros(math.prod(buffer.shape), buffer.dtype.storage)
