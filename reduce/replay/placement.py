"""Where the tensors of a task lie: in which buffers, and how a lone task is given the same buffers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...runner.build_output.graph.model import GraphArgument, Region
from ...runner.tensor.view import DType, contiguous_strides
from ..graph.task_list import KernelTask, TaskList
from ..rewrite.geometry import LayoutError, buffer_shape, view_of
from .comparison import TaskValues

_GUARD = 4096
"""Bytes behind each buffer, at least, that no task has a right to."""
_MOST_BYTES = 1 << 29
"""Of the buffers of one task. What is larger is not made anew for a lone task."""


@dataclass(frozen=True, kw_only=True)
class ParentBuffer:
    """A buffer that a task has tensors in, as it is made for a lone task: `shape` elements, row-major, of which those
    from `start` to `stop` are the buffer that the run had, and the others guards. `tensor_id` is None where the
    runtime allocated it for the task."""

    tensor_id: int | None
    dtype: DType
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def elements(self) -> int:
        """With the guards."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """With the guards."""
        return self.elements * self.dtype.itemsize


@dataclass(frozen=True)
class PlacedTensor:
    """A tensor of a task: a region of the buffer with this number."""

    buffer: int
    region: Region


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The buffers of a task, and where in them its tensors lie, by argument index, as the run had them; `inexact`
    says why not, where they lie elsewhere."""

    buffers: tuple[ParentBuffer, ...]
    tensors: Mapping[int, PlacedTensor]
    inexact: str = ""

    @classmethod
    def of(cls, tasks: TaskList, task: KernelTask, values: TaskValues) -> Placement:
        """The recorded geometry of a task. The shape of what the runtime allocated for it is told by its values.

        Raises:
            LayoutError: a buffer's size is not known, it is too large, or a tensor is no box of a row-major buffer.
        """
        used: dict[int | tuple[str, int], list[GraphArgument]] = {}
        regions: dict[int, Region] = {}
        for argument in task.task.arguments:
            known = argument.tensor_id is not None and argument.region is not None
            key = argument.tensor_id if known and argument.tensor_id is not None else ("own", argument.index)
            used.setdefault(key, []).append(argument)
            regions[argument.index] = _region(argument, values)
        buffers: list[ParentBuffer] = []
        tensors: dict[int, PlacedTensor] = {}
        for arguments in used.values():
            inside = {argument.index: regions[argument.index] for argument in arguments}
            buffers.append(_buffer(tasks, arguments[0].tensor_id, inside))
            tensors |= {index: PlacedTensor(len(buffers) - 1, region) for index, region in inside.items()}
        placement = cls(buffers=tuple(buffers), tensors=tensors)
        if placement.bytes > _MOST_BYTES:
            raise LayoutError(
                f"expected buffers of up to {_MOST_BYTES} bytes, found {placement.bytes} bytes of them"
            )
        return placement

    @classmethod
    def apart(cls, task: KernelTask, values: TaskValues, *, why: str) -> Placement:
        """Each tensor in a buffer of its own, without gaps: not as the run had them, for the reason `why`.

        Raises:
            LayoutError: neither the shape nor a value of a tensor is known.
        """
        packed = {
            argument.index: replace(region, strides=contiguous_strides(region.shape), start_offset=0)
            for argument in task.task.arguments
            for region in [_region(argument, values)]
        }
        return cls(
            buffers=tuple(
                _guarded({index: region}, tensor_id=None, elements=math.prod(region.shape))
                for index, region in packed.items()
            ),
            tensors={
                index: PlacedTensor(number, region) for number, (index, region) in enumerate(packed.items())
            },
            inexact=why,
        )

    @property
    def bytes(self) -> int:
        """Of all its buffers, with their guards."""
        return sum(buffer.bytes for buffer in self.buffers)

    def behind_a_guard(self) -> Placement:
        """The same with a guard before each buffer too: offsets are larger by it, and else nothing changes."""
        fronts = [math.prod(buffer.shape[1:]) * _rows_of_guard(buffer) for buffer in self.buffers]
        return replace(
            self,
            buffers=tuple(
                replace(
                    buffer,
                    shape=(buffer.shape[0] + _rows_of_guard(buffer), *buffer.shape[1:]),
                    start=buffer.start + front,
                    stop=buffer.stop + front,
                )
                for buffer, front in zip(self.buffers, fronts, strict=True)
            ),
            tensors={
                index: PlacedTensor(
                    placed.buffer,
                    replace(placed.region, start_offset=placed.region.start_offset + fronts[placed.buffer]),
                )
                for index, placed in self.tensors.items()
            },
        )


def _region(argument: GraphArgument, values: TaskValues) -> Region:
    if argument.region is not None and argument.region.dtype is not None:
        return argument.region
    view = values.after.get(argument.index, values.before.get(argument.index))
    if view is None:
        raise LayoutError(f"argument {argument.index}: expected a recorded value or a region, found neither")
    if argument.region is not None:
        return replace(argument.region, dtype=view.dtype)
    return Region(dtype=view.dtype, shape=view.shape, strides=contiguous_strides(view.shape), start_offset=0)


def _buffer(tasks: TaskList, tensor_id: int | None, regions: Mapping[int, Region]) -> ParentBuffer:
    """The run's buffer, which holds all the regions, by argument index."""
    tensor = None if tensor_id is None else tasks.graph.tensors.get(tensor_id)
    reach = max(region.bounds.stop for region in regions.values())
    listed = None if tensor is None else tensor.buffer_numel
    return _guarded(regions, tensor_id=tensor_id, elements=max(reach, listed or 0))


def _guarded(regions: Mapping[int, Region], *, tensor_id: int | None, elements: int) -> ParentBuffer:
    """A buffer of so many elements with all the regions, by argument index, and a guard behind it."""
    dtypes = {region.dtype for region in regions.values()}
    dtype = dtypes.pop()
    if dtypes or dtype is None:
        raise LayoutError(f"arguments {sorted(regions)}: expected one type in one buffer, found several")
    if elements * dtype.itemsize > _MOST_BYTES:
        raise LayoutError(
            f"arguments {sorted(regions)}: expected a buffer of up to {_MOST_BYTES} bytes, found {elements} elements"
        )
    shape = _shape(max(elements, 1), list(regions.values()))
    plain = ParentBuffer(tensor_id=tensor_id, dtype=dtype, shape=shape, start=0, stop=elements)
    return replace(plain, shape=(shape[0] + _rows_of_guard(plain), *shape[1:]))


def _shape(elements: int, regions: Sequence[Region]) -> tuple[int, ...]:
    """Of a row-major buffer of at least so many elements, of which all regions are boxes: with all their strides if it
    may be, else with those that lead from one element to another."""
    strides = max(stride for region in regions for stride in (*region.strides, 1))
    exact = [
        Region(dtype=None, shape=(2,) * len(r.strides), strides=r.strides, start_offset=0) for r in regions
    ]
    try:
        shape = buffer_shape(math.ceil(elements / strides) * strides, exact)
        _ = [view_of(region, shape) for region in regions]
    except LayoutError:
        moving = [s for r in regions for s, extent in zip(r.strides, r.shape, strict=True) if extent > 1]
        row = max([*moving, 1])
        shape = buffer_shape(math.ceil(elements / row) * row, regions)
        _ = [view_of(region, shape) for region in regions]
    return shape


def _rows_of_guard(buffer: ParentBuffer) -> int:
    """As many indices of the first axis as take the guard's bytes."""
    row = math.prod(buffer.shape[1:]) * buffer.dtype.itemsize
    return math.ceil(_GUARD / max(row, 1))
