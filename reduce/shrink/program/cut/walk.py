"""Which contents the buffers of a reduced program start with, and which they must end with.

The original program is walked in order. Where a task that stays reads what a dropped task wrote, the recorded value is
put in its place; where it reads what a task that stays wrote, nothing is. What tasks that stay leave and none of them
reads is what the reduced program is judged by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from .....runner.tensor.view import TensorView
from ....replay.comparison import TaskValues
from ....rewrite.geometry import elements_of
from ..model import Buffer, Program, ProgramArgument, ProgramTask, private_name, results_of
from .cut import Array, Boundary, Cut, CutTensor, Deviations, TrustedValues, UnfitCutError


@dataclass
class _Contents:
    """What is known of one buffer's elements at a point of the walk."""

    buffer: Buffer
    now: Array
    initial: Array
    truth: Array
    writer: npt.NDArray[np.int64]
    """Last task of the original program that wrote it, -1 for none."""
    kept_writer: npt.NDArray[np.int64]
    spoiler: npt.NDArray[np.int64]
    """Last task that stays and wrote it though nothing of it belongs there, -1 for none."""
    known: npt.NDArray[np.bool_]
    """Whether `truth` was given or written."""
    supplied: npt.NDArray[np.bool_]
    seen: npt.NDArray[np.bool_]
    """What tasks that stay have been given: it cannot be other things from here on."""
    unread: npt.NDArray[np.bool_]
    used: bool = False

    @classmethod
    def of(cls, buffer: Buffer, given: TensorView | None) -> _Contents:
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


@dataclass
class _Walk:
    program: Program
    kept: Set[int]
    values: TrustedValues
    contents: list[_Contents]
    deviations: Deviations
    boundaries: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    tasks: list[ProgramTask] = field(default_factory=list[ProgramTask])

    def run(self) -> None:
        for task in self.program.tasks:
            values = self.values.of(task.ordinal)
            results = [
                (self.contents[argument.buffer], places[belongs], after[belongs])
                for argument in results_of(task, self.deviations.moved)
                if argument.index in values.after
                for places in [elements_of(argument.region)]
                for after in [values.after[argument.index].contiguous().ravel()]
                for belongs in [self._belongs(task, argument, places)]
            ]
            if task.ordinal in self.kept:
                self._keep(task, values, results)
            for content, places, after in results:
                content.truth[places] = after
                content.writer[places] = task.ordinal
                content.known[places] = True

    def _belongs(
        self, task: ProgramTask, argument: ProgramArgument, places: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Which of these elements are right once the task has written them. What a task that should not be there writes
        over the case's own arguments is not."""
        content = self.contents[argument.buffer]
        is_extra = task.ordinal in self.deviations.extra and content.buffer.is_entry
        return ~content.known[places] if is_extra else np.ones(len(places), np.bool_)

    def _keep(
        self,
        task: ProgramTask,
        values: TaskValues,
        results: Sequence[tuple[_Contents, npt.NDArray[np.int64], Array]],
    ) -> None:
        arguments = tuple(
            self._fed(task, argument, self._read(task, argument, values)) for argument in task.arguments
        )
        self.tasks.append(replace(task, arguments=arguments))
        for argument in self.deviations.moved.get(task.ordinal, ()):
            places = elements_of(argument.region)
            truth = self.contents[argument.buffer].truth[places]
            self._fed(task, argument, truth.copy() if argument.type.may_read else None)
        found = self.deviations.found.get(task.ordinal, {})
        for argument in results_of(task, self.deviations.moved):
            if argument.index in found and not argument.type.may_read:
                self._start(argument, found[argument.index])
        for argument in arguments:
            if argument.type.may_write:
                content, places = self.contents[argument.buffer], elements_of(argument.region)
                content.spoiler[places] = task.ordinal
                content.unread[places] |= content.buffer.is_entry & content.known[places]
        for content, places, after in results:
            content.now[places] = after
            content.kept_writer[places] = task.ordinal
            content.spoiler[places] = -1
            content.unread[places] = True

    def _read(self, task: ProgramTask, argument: ProgramArgument, values: TaskValues) -> Array | None:
        """What the task is to be given: as is told, else what is right in that place; where nothing is known of it, as
        in its own build's run. None for what it does not read."""
        if argument.index in values.before:
            return values.before[argument.index].contiguous().ravel()
        if not argument.type.may_read:
            return None
        content, places = self.contents[argument.buffer], elements_of(argument.region)
        read = self.values.read(task.ordinal)[argument.index].contiguous().ravel()
        return np.where(content.known[places], content.truth[places], read)

    def _fed(self, task: ProgramTask, argument: ProgramArgument, read: Array | None) -> ProgramArgument:
        """The argument with its buffer's contents as they were; another buffer where this one holds other things."""
        content = self.contents[argument.buffer]
        content.used = True
        places = elements_of(argument.region)
        reads = read is not None
        wanted = content.truth[places] if read is None else read
        writers = content.writer[places]
        # What no task wrote and the case does not give was in the memory: it is a recorded value too.
        unknown = ~content.supplied[places] & reads
        stale = np.where(writers < 0, unknown, ~np.isin(writers, list(self.kept)))
        settled = (content.kept_writer[places] >= 0) | content.seen[places]
        other = content.now[places] != wanted
        if bool((stale & other & settled).any()) and reads:
            if argument.type.may_write:
                raise UnfitCutError(f"{task.name} (task {task.ordinal}), argument {argument.index}")
            return self._private(task, argument, wanted)
        fresh = stale & ~settled
        content.now[places[fresh]] = content.initial[places[fresh]] = wanted[fresh]
        content.supplied[places[fresh]] = True
        self._note(content, writers[fresh])
        content.seen[places] |= reads
        if reads and argument.type.may_read:
            content.unread[places] = False
        return argument

    def _start(self, argument: ProgramArgument, found: TensorView) -> None:
        """Has an output begin with what was found in its place."""
        content = self.contents[argument.buffer]
        places = elements_of(argument.region)
        untouched = (content.kept_writer[places] < 0) & ~content.seen[places]
        content.initial[places[untouched]] = found.contiguous().ravel()[untouched]
        content.supplied[places] = True

    def _private(self, task: ProgramTask, argument: ProgramArgument, wanted: Array) -> ProgramArgument:
        shared = self.contents[argument.buffer]
        buffer = Buffer(
            number=len(self.contents),
            name=private_name(shared.buffer.name, task, argument),
            dtype=shared.buffer.dtype,
            shape=shared.buffer.shape,
            is_entry=False,
        )
        places = elements_of(argument.region)
        content = _Contents.of(buffer, None)
        content.now[places] = content.initial[places] = wanted
        content.supplied[places] = content.used = True
        self.contents.append(content)
        self._note(content, shared.writer[places])
        return ProgramArgument(
            index=argument.index, type=argument.type, buffer=buffer.number, region=argument.region
        )

    def _note(self, content: _Contents, writers: npt.NDArray[np.int64]) -> None:
        for writer, count in zip(*np.unique(writers, return_counts=True), strict=True):
            key = content.buffer.name, int(writer)
            self.boundaries[key] = self.boundaries.get(key, 0) + int(count)


def cut(
    program: Program,
    kept: Set[int],
    values: TrustedValues,
    given: Mapping[str, TensorView],
    golden: Mapping[str, TensorView] | None = None,
    deviations: Deviations | None = None,
) -> Cut:
    """The program of the tasks in `kept`; `given` are the case's own inputs by name.

    Without a reference, `golden` are the case's outputs by name: they alone are trusted, and only where the last task
    that wrote is kept. All other results must be what `values` say, and whoever left them is no writer.

    Raises:
        UnfitCutError: the tasks cannot be taken alone.
        NotWholeError: a value was not recorded whole.
    """
    walk = _Walk(
        program,
        kept,
        values,
        [
            _Contents.of(buffer, given.get(buffer.name) if buffer.is_entry else None)
            for buffer in program.buffers
        ],
        Deviations() if deviations is None else deviations,
    )
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
                recorded_in=values.run_of(max(writer, 0)),
                elements=count,
            )
            for (name, writer), count in walk.boundaries.items()
        ),
    )


def _tensor(content: _Contents, golden: Mapping[str, TensorView] | None) -> CutTensor:
    judged, expected = content.unread, content.now
    if golden is not None:
        name = content.buffer.name
        known = golden.get(name) if content.buffer.is_entry else None
        judged = content.unread & (content.kept_writer == content.writer) & (known is not None)
        if known is not None:
            expected = np.where(judged, known.contiguous().ravel(), expected)
    # The harness passes a tensor that is neither an input nor an output as an input of zeros; and where not all of an
    # output is written, the rest would be what the device's memory held.
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
