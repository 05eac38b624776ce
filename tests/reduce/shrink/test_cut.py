"""Which values a reduced program starts with, where the case's own argument is accumulated into."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest

from precision_bisect.reduce.replay.replay import TaskValues
from precision_bisect.reduce.shrink.cut import cut
from precision_bisect.reduce.shrink.program import (
    Buffer,
    Cut,
    Deviations,
    Program,
    ProgramArgument,
    ProgramTask,
    UnfitCutError,
)
from precision_bisect.reduce.shrink.program_text import set_blocks
from precision_bisect.runner.build_output.task_graph import ArgumentType, Region
from precision_bisect.runner.tensor import DType, TensorView

HALF = Region(dtype=DType.FLOAT32, shape=(1,), strides=(1,), start_offset=0)
SUM = Buffer(number=0, name="sum", dtype=DType.FLOAT32, shape=(2,), is_entry=True)
REGION = Region(dtype=DType.FLOAT32, shape=(2,), strides=(1,), start_offset=0)


def view(value: float) -> TensorView:
    return TensorView.from_contiguous("sum", DType.FLOAT32, (2,), np.full(2, value, np.float32))


class Counted:
    """Task n finds n in the sum, and leaves n + 1."""

    def task_values(self, ordinal: int) -> TaskValues:
        return TaskValues(before={0: view(ordinal)}, after={0: view(ordinal + 1)}, scalars={})

    def inputs(self, ordinal: int) -> Mapping[int, TensorView]:
        return self.task_values(ordinal).before

    def source_run(self, ordinal: int) -> str:
        return "reference"


class Written:
    """One task writes ones."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def task_values(self, ordinal: int) -> TaskValues:
        ones = np.ones(self.shape, np.float32)
        return TaskValues(
            before={},
            after={0: TensorView.from_contiguous("made", DType.FLOAT32, self.shape, ones)},
            scalars={},
        )

    def inputs(self, ordinal: int) -> Mapping[int, TensorView]:
        return self.task_values(ordinal).before

    def source_run(self, ordinal: int) -> str:
        return "reference"


def accumulated(kept: set[int], deviations: Deviations | None = None) -> Cut:
    """Three tasks that each add one to the case's own `sum`, which starts with zeros."""
    argument = ProgramArgument(index=0, type=ArgumentType.INOUT, buffer=0, region=REGION)
    tasks = tuple(
        ProgramTask(
            ordinal=ordinal,
            kernels=("add",),
            submit=cast(Any, None),
            arguments=(argument,),
            scalars=(),
            blocks=None,
        )
        for ordinal in range(3)
    )
    program = Program(orchestration=cast(Any, None), config=cast(Any, None), tasks=tasks, buffers=(SUM,))
    return cut(program, kept, Counted(), {"sum": view(0)}, deviations=deviations)


@pytest.mark.parametrize(
    ("kept", "initial", "expected", "recorded"),
    [
        ({0, 1, 2}, 0, 3, []),
        ({0}, 0, 1, []),
        # What the case gives is not what the task was given.
        ({2}, 2, 3, [(1, 2)]),
        ({1, 2}, 1, 3, [(0, 2)]),
    ],
)
def test_a_task_that_accumulates_starts_from_what_it_was_given(
    kept: set[int], initial: float, expected: float, recorded: list[tuple[int, int]]
) -> None:
    made = accumulated(kept)
    (tensor,) = made.tensors
    assert tensor.initial is not None
    assert tensor.expected is not None
    assert tensor.initial.tolist() == [initial] * 2
    assert tensor.expected.tolist() == [expected] * 2
    assert [(one.producer_ordinal, one.elements) for one in made.boundaries] == recorded


def test_one_buffer_cannot_hold_two_values_for_tasks_that_change_it() -> None:
    with pytest.raises(UnfitCutError):
        accumulated({0, 2})


def test_what_a_task_that_should_not_be_there_adds_to_an_argument_of_the_case_is_wrong() -> None:
    (tensor,) = accumulated({0, 1}, Deviations(extra={1})).tensors
    assert tensor.expected is not None
    assert tensor.expected.tolist() == [1.0, 1.0]
    assert tensor.writers == {1}


def test_a_result_that_is_left_elsewhere_is_judged_where_it_belongs() -> None:
    first = ProgramArgument(index=0, type=ArgumentType.OUTPUT_EXISTING, buffer=0, region=HALF)
    second = dataclasses.replace(first, region=dataclasses.replace(HALF, start_offset=1))
    task = ProgramTask(
        ordinal=0, kernels=("fill",), submit=cast(Any, None), arguments=(first,), scalars=(), blocks=None
    )
    program = Program(orchestration=cast(Any, None), config=cast(Any, None), tasks=(task,), buffers=(SUM,))
    sevens = TensorView.from_contiguous("sum", DType.FLOAT32, (1,), np.full(1, 7, np.float32))
    deviations = Deviations(moved={0: (second,)}, found={0: {0: sevens}})
    made = cut(program, {0}, Written((1,)), {}, deviations=deviations)
    (tensor,) = made.tensors
    assert tensor.initial is not None
    assert tensor.expected is not None
    assert made.tasks[0].arguments == (first,)
    assert (tensor.initial.tolist(), tensor.expected.tolist()) == ([0.0, 7.0], [0.0, 1.0])
    assert tensor.writers == {0}


@pytest.mark.parametrize(("region", "initial"), [(REGION, None), (HALF, [0.0, 0.0])])
def test_what_an_output_is_not_written_with_is_no_ones_memory(
    region: Region, initial: list[float] | None
) -> None:
    argument = ProgramArgument(index=0, type=ArgumentType.OUTPUT, buffer=0, region=region)
    task = ProgramTask(
        ordinal=0, kernels=("fill",), submit=cast(Any, None), arguments=(argument,), scalars=(), blocks=None
    )
    made = dataclasses.replace(SUM, is_entry=False)
    program = Program(orchestration=cast(Any, None), config=cast(Any, None), tasks=(task,), buffers=(made,))
    (tensor,) = cut(program, {0}, Written(region.shape), {}).tensors
    assert tensor.expected is not None
    assert tensor.expected.tolist() == [1.0, 1.0 if region is REGION else 0.0]
    assert (None if tensor.initial is None else tensor.initial.tolist()) == initial


def test_what_fewer_blocks_do_not_write_is_no_ones_memory_either() -> None:
    argument = ProgramArgument(index=0, type=ArgumentType.OUTPUT, buffer=0, region=REGION)
    task = ProgramTask(
        ordinal=0, kernels=("fill",), submit=cast(Any, None), arguments=(argument,), scalars=(), blocks=2
    )
    made = dataclasses.replace(SUM, is_entry=False)
    program = Program(orchestration=cast(Any, None), config=cast(Any, None), tasks=(task,), buffers=(made,))
    before = cut(program, {0}, Written(REGION.shape), {})
    after = set_blocks(before, {0: 1})
    assert (before.tensors[0].initial, before.tasks[0].blocks) == (None, 2)
    assert after.tensors[0].initial is not None
    assert (after.tensors[0].initial.tolist(), after.tasks[0].blocks) == ([0.0, 0.0], 1)
