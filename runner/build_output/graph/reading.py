"""Makes the parts of a task graph of what `deps.json` spells."""

from __future__ import annotations

from collections.abc import Mapping

from ...tensor.view import DType, contiguous_strides
from ..task_id import parse_task_id, parse_uint64
from .model import ArgumentType, Edge, EdgeSource, GraphArgument, GraphTask, GraphTensor, Region
from .records import Number, SpelledArgument, SpelledEdge, SpelledTask, SpelledTensor


def tensor_of(tensor: SpelledTensor) -> GraphTensor:
    """One entry of `tensors`; `ValueError` where a number is none, as in all functions here."""
    numel = None if tensor.buffer_numel is None else parse_uint64(tensor.buffer_numel)
    if numel is None and tensor.raw_shapes is not None:
        numel = 1
        for extent in tensor.raw_shapes:
            numel *= extent
    return GraphTensor(
        tensor_id=parse_uint64(tensor.tensor_id),
        buffer_address=parse_uint64(tensor.buffer_addr),
        version=tensor.version,
        dtype=_dtype(tensor.dtype),
        buffer_numel=numel,
    )


class GraphReader:
    """Reads tasks and edges, given the buffers' shapes that the first graphs placed tensors by."""

    def __init__(self, raw_shapes: Mapping[int, list[int]]) -> None:
        self._raw_shapes = raw_shapes

    def task(self, task: SpelledTask, position: int) -> GraphTask:
        """The task that is entry `position` of `tasks`."""
        if task.scope not in ("auto", "manual"):
            raise ValueError(f"expected the scope auto or manual, found {task.scope!r}")
        return GraphTask(
            task_id=parse_task_id(task.task_id),
            position=position,
            kernels=None if task.kernel_ids is None else tuple(task.kernel_ids),
            in_manual_scope=task.scope == "manual",
            blocks=task.block_num,
            arguments=tuple(self._argument(argument) for argument in task.args),
        )

    def edge(self, edge: SpelledEdge | tuple[Number, Number]) -> Edge:
        """One entry of `edges`, annotated or a bare pair."""
        if isinstance(edge, tuple):
            edge = SpelledEdge(pred=edge[0], succ=edge[1])
        tensor_id = _optional(edge.tensor_id)
        dtype = None if edge.consumer_dtype is None else _dtype(edge.consumer_dtype)
        return Edge(
            predecessor=parse_task_id(edge.pred),
            successor=parse_task_id(edge.succ),
            argument=edge.arg if edge.arg >= 0 else None,
            source=None if edge.source is None else EdgeSource(edge.source),
            covered=None if edge.overlap is None else edge.overlap == "covered",
            flags=tuple(edge.flags),
            tensor_id=tensor_id,
            consumer=self._region(
                dtype,
                edge.consumer_shape,
                edge.consumer_strides,
                edge.consumer_start_offset,
                edge.consumer_offset,
                tensor_id,
            ),
            producer=self._region(
                dtype,
                edge.producer_shape,
                edge.producer_strides,
                edge.producer_start_offset,
                edge.producer_offset,
                tensor_id,
            ),
        )

    def _argument(self, argument: SpelledArgument) -> GraphArgument:
        tensor_id = _optional(argument.tensor_id)
        return GraphArgument(
            index=argument.idx,
            type=ArgumentType(argument.type),
            tensor_id=tensor_id,
            region=self._region(
                None if argument.dtype is None else _dtype(argument.dtype),
                argument.shape,
                argument.strides,
                argument.start_offset,
                argument.offset,
                tensor_id,
            ),
        )

    def _region(
        self,
        dtype: DType | None,
        shape: list[int] | None,
        strides: list[int] | None,
        start_offset: Number,
        offset: list[int] | None,
        tensor_id: int | None,
    ) -> Region | None:
        if shape is None:
            return None
        start = parse_uint64(start_offset)
        if strides is None:
            raw_shape = self._raw_shapes.get(tensor_id, shape) if tensor_id is not None else shape
            strides = list(contiguous_strides(tuple(raw_shape)))
            start = sum(o * s for o, s in zip(offset or [0] * len(strides), strides, strict=True))
        if (
            len(strides) != len(shape)
            or min(shape, default=0) < 0
            or min(strides, default=0) < 0
            or start < 0
        ):
            raise ValueError(f"expected a region, found shape {shape}, strides {strides}, start {start}")
        return Region(dtype=dtype, shape=tuple(shape), strides=tuple(strides), start_offset=start)


def _optional(number: Number | None) -> int | None:
    return None if number is None else parse_uint64(number)


def _dtype(spelling: str) -> DType | None:
    try:
        return DType.parse(spelling)
    except ValueError:
        return None
