"""What the failing run held where a task that it does not submit would have left its results."""

from __future__ import annotations

import math

import numpy as np

from .....runner.build_output.golden_data import TensorFolder
from .....runner.tensor.view import TensorView
from ....rewrite.geometry import elements_of
from ..both import BothPrograms
from ..extract.recording import Recording
from ..model import Buffer
from .cut import Array


def found_in_place(both: BothPrograms, failing: Recording) -> dict[int, dict[int, TensorView]]:
    """By missing task and argument: as the next task that read it found it, or as it was put out at the end; zeros
    where neither tells."""
    program = both.failing
    if not both.missing:
        return {}
    next_read = [_put_out(buffer, failing.outputs) for buffer in program.buffers]
    found: dict[int, dict[int, TensorView]] = {}
    for task in reversed(program.tasks):
        if task.ordinal in both.missing:
            found[task.ordinal] = {
                argument.index: TensorView.of_contiguous(
                    program.buffers[argument.buffer].name,
                    program.buffers[argument.buffer].dtype,
                    argument.region.shape,
                    next_read[argument.buffer][elements_of(argument.region)],
                )
                for argument in task.arguments
                if argument.type.may_write
            }
            continue
        before = failing.values(task.ordinal).before
        for argument in task.arguments:
            if argument.type.may_write:
                next_read[argument.buffer][elements_of(argument.region)] = 0
        for argument in task.arguments:
            if argument.index in before:
                read = before[argument.index].contiguous().ravel()
                next_read[argument.buffer][elements_of(argument.region)] = read
    return found


def _put_out(buffer: Buffer, outputs: TensorFolder | None) -> Array:
    """What a run left in an argument of the case, flat; zeros in any other buffer."""
    if buffer.is_entry and outputs is not None and buffer.name in outputs.names:
        view = outputs.tensor(buffer.name)
        if view.dtype is buffer.dtype and view.numel == math.prod(buffer.shape):
            return view.contiguous().ravel().copy()
    return np.zeros(math.prod(buffer.shape), buffer.dtype.storage)
