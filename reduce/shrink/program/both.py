"""The programs of two builds in one numbering, with the tasks that only one of them submits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...graph.alignment import Alignment
from .model import Buffer, Program, ProgramTask


@dataclass(frozen=True, kw_only=True)
class BothPrograms:
    """Tasks and buffers that correspond have one number and one name in both, those of the failing build.

    `failing` has the tasks too that are `missing` there: what the reference alone submits, in the places where they
    would be, numbered from behind the last one. `in_reference` are the reference's own ordinals by these numbers, and
    `number_of` these numbers by those ordinals.
    """

    failing: Program
    reference: Program
    missing: frozenset[int]
    in_reference: Mapping[int, int]
    number_of: Mapping[int, int]


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
    return BothPrograms(
        failing=replace(
            failing, tasks=tuple(_with_missing(failing, tasks, missing, named)), buffers=tuple(named)
        ),
        reference=replace(reference, tasks=tuple(tasks), buffers=tuple(theirs)),
        missing=missing,
        in_reference=in_reference,
        number_of=number_of,
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
    failing: Program, reference: list[ProgramTask], missing: frozenset[int], buffers: list[Buffer]
) -> Iterator[ProgramTask]:
    """The failing build's tasks, and before each of them those missing that come before its counterpart: behind what
    it may have submitted in their place, so that what they should have left is what counts."""
    waiting: list[ProgramTask] = []
    before: dict[int, list[ProgramTask]] = {}
    for task in reference:
        if task.ordinal in missing:
            waiting.append(_in_types(task, buffers))
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
