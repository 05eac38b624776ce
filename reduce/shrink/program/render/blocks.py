"""A cut whose tasks run in fewer blocks: each does a part of a task's work, and knows how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..cut.cut import Cut, CutTensor


def with_blocks(cut: Cut, blocks: Mapping[int, int]) -> Cut:
    """Numbers of blocks by ordinals of the cut's tasks.

    What no block writes any more must be the same in all runs: outputs of these tasks start as zeros where they had no
    contents. Expected values are those with all blocks: they have to be computed anew.
    """
    written = {
        argument.buffer
        for task in cut.tasks
        if task.ordinal in blocks
        for argument in task.arguments
        if argument.type.may_write
    }
    return replace(
        cut,
        tasks=tuple(replace(task, blocks=blocks.get(task.ordinal, task.blocks)) for task in cut.tasks),
        tensors=tuple(
            _started(tensor) if tensor.buffer.number in written else tensor for tensor in cut.tensors
        ),
    )


def _started(tensor: CutTensor) -> CutTensor:
    if tensor.initial is not None or tensor.expected is None:
        return tensor
    return replace(tensor, initial=np.zeros_like(tensor.expected))
