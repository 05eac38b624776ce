"""`deps.json` as the runtimes of all eras spell it.

The first graphs (version 1, May 2026) hold pairs of task ids only. Then came arguments and tensors, at first
placed by `raw_shapes` and `offset`, since May 20 by `strides` and `start_offset`; kernel ids, blocks and
flags came one by one.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ..args.records import Extents, Int64

Number = str | int
"""64-bit numbers are decimal strings, in version 1 plain numbers."""

Word = Annotated[str, msgspec.Meta(max_length=64)]
Triple = Annotated[list[Int64], msgspec.Meta(max_length=8)]


class SpelledArgument(msgspec.Struct, gc=False):
    """An argument of a task; one allocated by the runtime has no tensor."""

    idx: Int64
    type: Word
    tensor_id: Number | None = None
    dtype: Word | None = None
    shape: Extents | None = None
    start_offset: Number = 0
    strides: Extents | None = None
    offset: Extents | None = None


class SpelledTask(msgspec.Struct, gc=False):
    """A task as the file spells it."""

    task_id: Number
    args: list[SpelledArgument]
    scope: Word = "auto"
    kernel_ids: Triple | None = None
    block_num: Int64 | None = None
    early_dispatch: bool = False


class SpelledTensor(msgspec.Struct, gc=False):
    """A tensor as the file spells it."""

    tensor_id: Number
    dtype: Word
    buffer_addr: Number = 0
    version: Int64 = 0
    buffer_numel: Number | None = None
    raw_shapes: Extents | None = None


class SpelledEdge(msgspec.Struct, gc=False):
    """A dependency as the file spells it."""

    pred: Number
    succ: Number
    arg: Int64 = -1
    source: Word | None = None
    flags: list[Word] = []
    overlap: Word | None = None
    tensor_id: Number | None = None
    consumer_dtype: Word | None = None
    consumer_shape: Extents | None = None
    consumer_start_offset: Number = 0
    consumer_strides: Extents | None = None
    consumer_offset: Extents | None = None
    producer_shape: Extents | None = None
    producer_start_offset: Number = 0
    producer_strides: Extents | None = None
    producer_offset: Extents | None = None


class SpelledGraph(msgspec.Struct):
    """All of `deps.json`."""

    edges: list[SpelledEdge | tuple[Number, Number]]
    tasks: list[SpelledTask] | None = None
    tensors: list[SpelledTensor] = []
