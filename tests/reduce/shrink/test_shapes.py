"""A cut with smaller shapes: what of its tensors stays, and where the tasks' parts lie then."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from precision_bisect.reduce.shrink.program import (
    Buffer,
    Cut,
    CutTensor,
    ProgramArgument,
    ProgramTask,
    UnfitCutError,
    narrow,
    shrink,
)
from precision_bisect.runner.build_output.task_graph import ArgumentType, Region
from precision_bisect.runner.tensor import DType

ROWS = Region(dtype=DType.FLOAT32, shape=(2, 4), strides=(4, 1), start_offset=4)
"""The last two rows of three."""


def cut(*regions: Region) -> Cut:
    """One task with these parts of a buffer of 3 x 4 elements, counted from 0, of which twice as much is expected."""
    buffer = Buffer(number=0, name="x", dtype=DType.FLOAT32, shape=(3, 4), is_entry=True)
    values = np.arange(12, dtype=np.float32)
    tensor = CutTensor(
        buffer=buffer,
        initial=values,
        expected=2 * values,
        writers=frozenset({0}),
        last_writer=np.zeros(12, np.int64),
    )
    arguments = tuple(
        ProgramArgument(index=index, type=ArgumentType.INOUT, buffer=0, region=region)
        for index, region in enumerate(regions)
    )
    task = ProgramTask(
        ordinal=0, kernels=("k",), submit=cast(Any, None), arguments=arguments, scalars=(), blocks=None
    )
    return Cut(program=cast(Any, None), tasks=(task,), tensors=(tensor,), boundaries=())


def test_a_smaller_tensor_holds_the_first_elements_of_each_axis_of_the_part_in_use() -> None:
    smaller = shrink(cut(ROWS), {4: 2, 7: 1})
    (tensor,), (task,) = smaller.tensors, smaller.tasks
    assert tensor.buffer.shape == (2, 2)
    assert tensor.initial is not None
    assert tensor.expected is not None
    assert tensor.initial.tolist() == [4, 5, 8, 9]
    assert tensor.expected.tolist() == [8, 10, 16, 18]
    region = task.arguments[0].region
    assert (region.shape, region.strides, region.start_offset) == ((2, 2), (2, 1), 0)
    assert smaller.bytes == 16


def test_two_parts_of_a_buffer_cannot_become_smaller_together() -> None:
    other = Region(dtype=DType.FLOAT32, shape=(1, 4), strides=(4, 1), start_offset=0)
    with pytest.raises(UnfitCutError, match="2 parts"):
        shrink(cut(ROWS, other), {4: 2})
    whole = cut(ROWS, other)
    assert shrink(whole, {7: 1}) == whole
    assert shrink(whole, {}) is whole


def test_a_narrowed_part_stays_where_it_is_in_a_buffer_that_keeps_its_size() -> None:
    whole = cut(ROWS)
    narrowed = narrow(whole, {4: 1})
    region = narrowed.tasks[0].arguments[0].region
    assert (region.shape, region.strides, region.start_offset) == ((2, 1), (4, 1), 4)
    assert narrowed.tensors is whole.tensors
