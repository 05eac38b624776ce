"""What the failing run held where results belong that it does not leave there; and what belongs where tasks write that
should not be there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from .....runner.build_output.golden_data import TensorFolder
from .....runner.tensor.view import TensorView
from ....replay.comparison import TaskValues
from ....rewrite.geometry import elements_of
from ..both import BothPrograms
from ..extract.recording import Recording
from ..model import Buffer, Program, ProgramArgument, results_of
from .cut import Array


def found_in_place(both: BothPrograms, failing: Recording) -> dict[int, dict[int, TensorView]]:
    """By argument of each task that is missing or whose results have moved: as the next task that read it found it, or
    as it was put out at the end; zeros where neither tells."""
    program = both.failing
    if not both.missing | both.moved.keys():
        return {}
    next_read = [_put_out(buffer, failing.outputs) for buffer in program.buffers]
    found: dict[int, dict[int, TensorView]] = {}
    for task in reversed(program.tasks):
        if task.ordinal in both.missing | both.moved.keys():
            found[task.ordinal] = {
                argument.index: _part(program, argument, next_read[argument.buffer])
                for argument in results_of(task, both.moved)
            }
        if task.ordinal in both.missing:
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


def right_in_place(
    both: BothPrograms, right: Callable[[int], TaskValues], given: Mapping[str, TensorView]
) -> dict[int, dict[int, TensorView]]:
    """By extra task and argument: what belongs where it writes over one of the case's own arguments, where all of that
    is known. `right` are the values that tasks should have, `given` the case's inputs."""
    program = both.failing
    if not both.extra:
        return {}
    truth = [np.zeros(math.prod(buffer.shape), buffer.dtype.storage) for buffer in program.buffers]
    known = [np.full(one.size, False) for one in truth]
    for buffer in program.buffers:
        if buffer.is_entry and buffer.name in given:
            truth[buffer.number][:] = given[buffer.name].contiguous().ravel()
            known[buffer.number][:] = True
    belonging: dict[int, dict[int, TensorView]] = {}
    for task in program.tasks:
        if task.ordinal in both.extra:
            belonging[task.ordinal] = {
                argument.index: _part(program, argument, truth[argument.buffer])
                for argument in task.arguments
                if argument.type.may_write
                and program.buffers[argument.buffer].is_entry
                and bool(known[argument.buffer][elements_of(argument.region)].all())
            }
            continue
        after = right(task.ordinal).after
        for argument in results_of(task, both.moved):
            if argument.index in after and program.buffers[argument.buffer].is_entry:
                places = elements_of(argument.region)
                truth[argument.buffer][places] = after[argument.index].contiguous().ravel()
                known[argument.buffer][places] = True
    return belonging


def _part(program: Program, argument: ProgramArgument, contents: Array) -> TensorView:
    buffer = program.buffers[argument.buffer]
    values = contents[elements_of(argument.region)]
    return TensorView.of_contiguous(buffer.name, buffer.dtype, argument.region.shape, values)


def _put_out(buffer: Buffer, outputs: TensorFolder | None) -> Array:
    """What a run left in an argument of the case, flat; zeros in any other buffer."""
    if buffer.is_entry and outputs is not None and buffer.name in outputs.names:
        view = outputs.tensor(buffer.name)
        if view.dtype is buffer.dtype and view.numel == math.prod(buffer.shape):
            return view.contiguous().ravel().copy()
    return np.zeros(math.prod(buffer.shape), buffer.dtype.storage)
