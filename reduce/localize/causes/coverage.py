"""Which task writes each element of an output last: what nobody writes is wrong without any task being so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from ....runner.build_output.graph.model import Region
from ...graph.task_list import KernelTask
from ...graph.tensor_names import entry_tensor
from ...replay.recorded_build import RecordedBuild
from ...rewrite.single_task import submits_of
from .failure import Mask, WrongOutputs, stretches

Owners = npt.NDArray[np.int32]
NOBODY = -1


@dataclass(frozen=True, kw_only=True)
class Unwritten:
    """Rows of an output with wrong elements that no task of the failing build writes, and the tasks that write these in
    the good one. `columns` are those that no task writes in one of the rows; none where that is all of them."""

    output: str
    rows: tuple[range, ...]
    columns: tuple[range, ...]
    written_by: tuple[KernelTask, ...]


def output_owners(build: RecordedBuild, sizes: Mapping[str, int]) -> dict[str, Owners]:
    """Of each output of so many elements whose buffer is known, the ordinal of each element's last writer; `NOBODY`
    where there is none."""
    names = _buffer_names(build)
    owners = {name: np.full(size, NOBODY, np.int32) for name, size in sizes.items() if name in names.values()}
    for task in build.tasks.tasks:
        for argument in task.task.arguments:
            name = names.get(argument.tensor_id) if argument.tensor_id is not None else None
            if name in owners and argument.type.may_write and argument.region is not None:
                _assign(owners[name], argument.region, task.ordinal)
    return owners


def unwritten(
    failure: WrongOutputs, failing: RecordedBuild, good: RecordedBuild | None
) -> tuple[Unwritten, ...]:
    """The wrong regions that no task of the failing build writes, though they are an output's."""
    sizes = {name: output.wrong.size for name, output in failure.outputs.items()}
    ours = output_owners(failing, sizes)
    theirs = {} if good is None else output_owners(good, sizes)
    # What the good build alone has a task for is no buffer of the failing build's tasks.
    ours |= {name: np.full(sizes[name], NOBODY, np.int32) for name in theirs.keys() - ours.keys()}
    found: list[Unwritten] = []
    for name, owner in ours.items():
        output = failure.outputs[name]
        missing = output.wrong & (owner == NOBODY)
        if missing.any():
            makers = np.unique(theirs[name][missing]) if name in theirs else np.array([], np.int32)
            found.append(
                Unwritten(
                    output=name,
                    rows=replace(output, wrong=missing).rows,
                    columns=_columns(owner == NOBODY, missing, output.row_length),
                    written_by=() if good is None else _tasks(good, [int(m) for m in makers if m != NOBODY]),
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


def _assign(owner: Owners, region: Region, ordinal: int) -> None:
    """Note who writes a region; nothing where it does not lie in the output."""
    bounds = region.bounds
    if not math.prod(region.shape) or bounds.start < 0 or bounds.stop > owner.size:
        return
    if min(region.strides, default=0) < 0:
        return
    part: npt.NDArray[Any] = as_strided(
        owner[region.start_offset :],
        region.shape,
        tuple(stride * owner.itemsize for stride in region.strides),
    )
    part[...] = ordinal
