"""The programs of two builds in one numbering: the tasks that only one of them submits, and results that one leaves
elsewhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...graph.alignment import Alignment
from ...rewrite.geometry import elements_of
from .model import Buffer, Program, ProgramArgument, ProgramTask


@dataclass(frozen=True, kw_only=True)
class BothPrograms:
    """Tasks and buffers that correspond have one number and one name in both, those of the failing build.

    `failing` has the tasks too that are `missing` there: what the reference alone submits, in the places where they
    would be, numbered from behind the last one. `in_reference` are the reference's own ordinals by these numbers, and
    `number_of` these numbers by those ordinals. `counterparts` are its tasks by these numbers, with
    the element types of the failing build.
    """

    failing: Program
    reference: Program
    missing: frozenset[int]
    in_reference: Mapping[int, int]
    number_of: Mapping[int, int]
    counterparts: Mapping[int, ProgramTask]

    @cached_property
    def extra(self) -> frozenset[int]:
        """The tasks that the failing build alone submits."""
        return frozenset(task.ordinal for task in self.failing.tasks) - self.in_reference.keys()

    def stays(self, task: ProgramTask, index: int) -> bool:
        """Whether an argument of the failing build's task is the same part of the same buffer in the reference."""
        places = [
            (argument.buffer, argument.region)
            for arguments in (task.arguments, self.counterparts[task.ordinal].arguments)
            for argument in arguments
            if argument.index == index
        ]
        return len(places) == 2 and places[0] == places[1]

    @cached_property
    def reshaped(self) -> frozenset[int]:
        """The tasks that run the same kernels as in the reference on tensors of another shape."""
        return frozenset(
            task.ordinal
            for task in self._paired
            for other in [self.counterparts[task.ordinal]]
            if task.kernels == other.kernels
            and [argument.region.shape for argument in task.arguments]
            != [argument.region.shape for argument in other.arguments]
        )

    @cached_property
    def moved(self) -> Mapping[int, tuple[ProgramArgument, ...]]:
        """By task, where its results belong, of those that it leaves elsewhere than in the reference.

        Which buffer holds what is for each build to say, as long as its tasks agree: a result has moved where it
        belongs into an argument of the case, or where a task goes on reading what is not left there.
        """
        moved: dict[int, tuple[ProgramArgument, ...]] = {}
        for place, task in enumerate(self._paired):
            belonging = tuple(
                argument
                for argument in self.counterparts[task.ordinal].arguments
                if argument.type.may_write
                and not self.stays(task, argument.index)
                and self._is_missed(argument, self._paired[place + 1 :])
            )
            if belonging:
                moved[task.ordinal] = belonging
        return moved

    @cached_property
    def _paired(self) -> list[ProgramTask]:
        """The failing build's tasks that have a counterpart."""
        return [task for task in self.failing.tasks if task.ordinal not in self.missing | self.extra]

    def _is_missed(self, result: ProgramArgument, following: Sequence[ProgramTask]) -> bool:
        buffers = self.failing.buffers[result.buffer], self.reference.buffers[result.buffer]
        # The parts of a buffer of another size are other ones.
        if math.prod(buffers[0].shape) != math.prod(buffers[1].shape):
            return False
        if buffers[0].is_entry:
            return True
        there = elements_of(result.region)
        for task in following:
            if any(
                bool(np.isin(elements_of(argument.region), there).any())
                for argument in _of_buffer(task, result.buffer)
                if argument.type.may_read and self.stays(task, argument.index)
            ):
                return True
            for argument in _of_buffer(self.counterparts[task.ordinal], result.buffer):
                if argument.type.may_write:
                    there = np.setdiff1d(there, elements_of(argument.region))
        return False


def _of_buffer(task: ProgramTask, buffer: int) -> list[ProgramArgument]:
    return [argument for argument in task.arguments if argument.buffer == buffer]


def in_one_numbering(failing: Program, reference: Program, alignment: Alignment) -> BothPrograms:
    """Both programs, of tasks aligned so."""
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
    tasks = [_renumbered(task, number_of[task.ordinal], buffer_of) for task in reference.tasks]
    counterparts = {task.ordinal: _in_types(task, named) for task in tasks}
    return BothPrograms(
        failing=replace(
            failing, tasks=tuple(_with_missing(failing, counterparts, missing)), buffers=tuple(named)
        ),
        reference=replace(reference, tasks=tuple(tasks), buffers=tuple(theirs)),
        missing=missing,
        in_reference=in_reference,
        number_of=number_of,
        counterparts=counterparts,
    )


def _same_buffers(failing: Program, reference: Program, alignment: Alignment) -> dict[int, int]:
    """The failing build's buffers by the reference's: arguments of the case by their names, others by the aligned tasks
    that use them in the same places, those that most do first."""
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


def _renumbered(task: ProgramTask, number: int, buffer_of: Mapping[int, int]) -> ProgramTask:
    arguments = tuple(replace(one, buffer=buffer_of[one.buffer]) for one in task.arguments)
    return replace(task, ordinal=number, arguments=arguments)


def _with_missing(
    failing: Program, reference: Mapping[int, ProgramTask], missing: frozenset[int]
) -> Iterator[ProgramTask]:
    """The failing build's tasks, and before each of them those missing that come before its counterpart: behind what
    it may have submitted in their place, so that what they should have left is what counts."""
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


def _in_types(task: ProgramTask, buffers: list[Buffer]) -> ProgramTask:
    """The task with the element types that its buffers have in the failing build."""
    return replace(
        task,
        arguments=tuple(
            replace(one, region=replace(one.region, dtype=buffers[one.buffer].dtype))
            for one in task.arguments
        ),
    )
