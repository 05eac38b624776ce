"""Which task writes each element of an output last: what nobody writes is wrong without any task being so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ....runner.build_output.graph.model import Region
from ...graph.task_list import KernelTask
from ...graph.tensor_names import entry_tensor
from ...replay.recorded_build import RecordedBuild
from ...rewrite.single_task import submits_of
from .failure import Mask, WrongOutputs, stretches


@dataclass(frozen=True, kw_only=True)
class Unwritten:
    """Rows of an output with wrong elements that no task of the failing build writes, and the tasks that write these in
    the good one. `columns` are those that no task writes in one of the rows; none where that is all of them."""

    output: str
    rows: tuple[range, ...]
    columns: tuple[range, ...]
    written_by: tuple[KernelTask, ...]


@dataclass(frozen=True)
class OutputWriters:
    """The tasks that write some elements of an output last, by ordinal, and those of the elements that no task
    writes."""

    ordinals: tuple[int, ...]
    unwritten: Mask


def last_writers(build: RecordedBuild, elements: Mapping[str, Mask]) -> dict[str, OutputWriters]:
    """Who writes the marked `elements` of each output, flat, whose buffer is known."""
    names = _buffer_names(build)
    left = {name: marked.copy() for name, marked in elements.items() if name in names.values()}
    found: dict[str, list[int]] = {name: [] for name in left}
    # From the last task on: an element that has its writer is not asked for again, and no writer is held for each.
    for task in reversed(build.tasks.tasks):
        for argument in task.task.arguments:
            name = names.get(argument.tensor_id) if argument.tensor_id is not None else None
            if name in left and argument.type.may_write and argument.region is not None:
                part = _part(left[name], argument.region)
                if part is not None and part.any():
                    part[...] = False
                    found[name].append(task.ordinal)
    return {name: OutputWriters(tuple(sorted({*found[name]})), unwritten) for name, unwritten in left.items()}


def unwritten(
    failure: WrongOutputs, failing: RecordedBuild, good: RecordedBuild | None
) -> tuple[Unwritten, ...]:
    """The wrong regions that no task of the failing build writes, though they are an output's."""
    everything = {name: np.ones_like(output.wrong) for name, output in failure.outputs.items()}
    ours = last_writers(failing, everything)
    if good is not None:
        # What the good build alone has a task for is no buffer of the failing build's tasks.
        alone = {*_buffer_names(good).values()} & (everything.keys() - ours.keys())
        ours |= {name: OutputWriters((), everything[name]) for name in sorted(alone)}
    found: list[Unwritten] = []
    for name, writers in ours.items():
        output = failure.outputs[name]
        missing = output.wrong & writers.unwritten
        if missing.any():
            theirs = {} if good is None else last_writers(good, {name: missing})
            makers = theirs[name].ordinals if name in theirs else ()
            found.append(
                Unwritten(
                    output=name,
                    rows=replace(output, wrong=missing).rows,
                    columns=_columns(writers.unwritten, missing, output.row_length),
                    written_by=() if good is None else _tasks(good, makers),
                )
            )
    return tuple(found)


def _columns(unwritten: Mask, missing: Mask, row_length: int) -> tuple[range, ...]:
    """Which columns no task writes in the rows that have a missing element; none where that is all of them."""
    rows = np.any(missing.reshape(-1, row_length), axis=1)
    columns = np.any(unwritten.reshape(-1, row_length)[rows], axis=0)
    return () if columns.all() else stretches(columns)


def _tasks(build: RecordedBuild, ordinals: Sequence[int]) -> tuple[KernelTask, ...]:
    return tuple(build.tasks.tasks[ordinal] for ordinal in ordinals)


def _buffer_names(build: RecordedBuild) -> dict[int, str]:
    """The entry tensors that buffers are, as far as one task's submit tells it."""
    names: dict[int, str] = {}
    for task in build.tasks.tasks:
        unknown = [each for each in task.task.arguments if each.tensor_id not in names]
        submits = submits_of(build.orchestration, task) if unknown else ()
        for argument in unknown:
            name = entry_tensor(build.orchestration, submits, argument.index)
            if name is not None and argument.tensor_id is not None:
                names[argument.tensor_id] = name
    return names


def _part(elements: Mask, region: Region) -> Mask | None:
    """The elements of a region; None where it does not lie in the output."""
    bounds = region.bounds
    if not math.prod(region.shape) or bounds.start < 0 or bounds.stop > elements.size:
        return None
    if min(region.strides, default=0) < 0:
        return None
    return as_strided(
        elements[region.start_offset :],
        region.shape,
        tuple(stride * elements.itemsize for stride in region.strides),
    )
