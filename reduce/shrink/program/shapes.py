"""A cut with smaller shapes: every extent of one size becomes another, so that equal dimensions stay equal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ....runner.build_output.graph.model import Region
from ....runner.tensor.view import contiguous_strides
from ...rewrite.geometry import elements_of
from .cut.cut import Array, Cut, CutTensor, UnfitCutError
from .model import ProgramArgument, ProgramTask


def narrow(cut: Cut, extents: Mapping[int, int]) -> Cut:
    """The cut with the same smaller parts given to the tasks, in buffers as they were: a kernel that does not keep to
    the shapes it is given shows in what is around."""
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
    """The cut with the first `extents[n]` of every n elements along an axis. Buffers become as small as what is used.

    Expected values are those of the same elements before: they have to be computed anew.

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
        buffer: _one(buffer, used)
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


def _one(buffer: int, used: set[Region]) -> Region:
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
    places = elements_of(region).reshape(region.shape)[tuple(slice(extent) for extent in shape)].ravel()

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
