"""Which values a reduced program starts with, where the case's own argument is accumulated into."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from precision_bisect.reduce.comparison import TaskValues
from precision_bisect.reduce.program.cut import Cut, UnfitCutError, cut
from precision_bisect.reduce.program.model import Buffer, Program, ProgramArgument, ProgramTask
from precision_bisect.runner.build_output.graph_model import ArgumentType, Region
from precision_bisect.runner.tensors.view import DType, TensorView

SUM = Buffer(number=0, name="sum", dtype=DType.FLOAT32, shape=(2,), is_entry=True)
REGION = Region(dtype=DType.FLOAT32, shape=(2,), strides=(1,), start_offset=0)


def view(value: float) -> TensorView:
    return TensorView.of_contiguous("sum", DType.FLOAT32, (2,), np.full(2, value, np.float32))


class Counted:
    """Task n finds n in the sum, and leaves n + 1."""

    def of(self, ordinal: int) -> TaskValues:
        return TaskValues(before={0: view(ordinal)}, after={0: view(ordinal + 1)}, scalars={})

    def run_of(self, ordinal: int) -> str:
        return "reference"


def accumulated(kept: set[int]) -> Cut:
    """Three tasks that each add one to the case's own `sum`, which starts with zeros."""
    argument = ProgramArgument(index=0, type=ArgumentType.INOUT, buffer=0, region=REGION)
    tasks = tuple(
        ProgramTask(
            ordinal=ordinal, kernels=("add",), submit=cast(Any, None), arguments=(argument,), scalars=()
        )
        for ordinal in range(3)
    )
    program = Program(orchestration=cast(Any, None), config=cast(Any, None), tasks=tasks, buffers=(SUM,))
    return cut(program, kept, Counted(), {"sum": view(0)})


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
