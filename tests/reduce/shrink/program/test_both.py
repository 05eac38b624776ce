"""Two programs of which one lacks tasks, in one numbering, and what was found where these would have written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from precision_bisect.reduce.graph.alignment import Alignment
from precision_bisect.reduce.replay.comparison import TaskValues
from precision_bisect.reduce.shrink.program.both import BothPrograms, in_one_numbering
from precision_bisect.reduce.shrink.program.cut.found import found_in_place
from precision_bisect.reduce.shrink.program.model import Buffer, Program, ProgramArgument, ProgramTask
from precision_bisect.runner.build_output.graph.model import ArgumentType, Region
from precision_bisect.runner.tensor.view import DType, TensorView

_REGION = Region(dtype=DType.FLOAT32, shape=(2,), strides=(1,), start_offset=0)
_CHAIN = [("load", "x", "a"), ("scale", "a", "b"), ("store", "b", "y")]


def program(*tasks: tuple[str, str, str]) -> Program:
    """Tasks by their kernel, what they read and what they write; x and y are the case's."""
    names = list(dict.fromkeys(name for _, *used in tasks for name in used))
    return Program(
        orchestration=cast(Any, None),
        config=cast(Any, None),
        tasks=tuple(
            ProgramTask(
                ordinal=ordinal,
                kernels=(kernel,),
                submit=cast(Any, None),
                arguments=tuple(
                    ProgramArgument(index=index, type=type, buffer=names.index(name), region=_REGION)
                    for index, (type, name) in enumerate(
                        [(ArgumentType.INPUT, read), (ArgumentType.OUTPUT_EXISTING, written)]
                    )
                ),
                scalars=(),
                blocks=None,
            )
            for ordinal, (kernel, read, written) in enumerate(tasks)
        ),
        buffers=tuple(
            Buffer(number=number, name=name, dtype=DType.FLOAT32, shape=(2,), is_entry=name in "xy")
            for number, name in enumerate(names)
        ),
    )


def spelled(program: Program) -> list[tuple[int, str, list[str]]]:
    return [
        (task.ordinal, task.name, [program.buffers[argument.buffer].name for argument in task.arguments])
        for task in program.tasks
    ]


def lacking(first: str) -> BothPrograms:
    """The chain, of which the failing build lacks the task in the middle; there its last task reads `first`."""
    aligned = Alignment(reference_of={0: 0, 1: 2}, only_failing=(), only_reference=(1,))
    failing = program(_CHAIN[0], ("store", first, "y"))
    return in_one_numbering(failing, program(*_CHAIN), aligned)


def test_a_missing_task_stands_where_it_would_be_and_goes_by_a_number_of_its_own() -> None:
    both = lacking("b")
    whole = [(0, "load", ["x", "a"]), (2, "scale", ["a", "b"]), (1, "store", ["b", "y"])]
    assert spelled(both.failing) == spelled(both.reference) == whole
    assert (both.missing, both.in_reference) == ({2}, {0: 0, 1: 2, 2: 1})
    assert [buffer.number for buffer in both.reference.buffers] == list(range(4))


def test_a_buffer_that_one_build_alone_has_is_in_the_names_of_both() -> None:
    both = lacking("a")
    assert spelled(both.failing)[1:] == [(2, "scale", ["a", "b"]), (1, "store", ["a", "y"])]
    assert spelled(both.reference)[1:] == [(2, "scale", ["a", "b"]), (1, "store", ["b", "y"])]


def test_what_was_found_is_what_the_next_task_read_or_was_put_out() -> None:
    def view(value: float) -> TensorView:
        return TensorView.of_contiguous("t", DType.FLOAT32, (2,), np.full(2, value, np.float32))

    def values(ordinal: int) -> TaskValues:
        return TaskValues(before={0: view(10 + ordinal)}, after={}, scalars={})

    def first_found(both: BothPrograms, **outputs: float) -> dict[int, float]:
        put_out = SimpleNamespace(names=outputs, tensor=lambda name: view(outputs[name]))  # pyright: ignore[reportUnknownLambdaType]
        recording: Any = SimpleNamespace(values=values, outputs=put_out)
        found = found_in_place(both, recording)
        return {task: float(views[1].contiguous()[0]) for task, views in found.items()}

    assert first_found(lacking("b")) == {2: 11.0}
    assert first_found(lacking("a")) == {2: 0.0}
    without_last = Alignment(reference_of={0: 0, 1: 1}, only_failing=(), only_reference=(2,))
    both = in_one_numbering(program(*_CHAIN[:2]), program(*_CHAIN), without_last)
    assert first_found(both, y=7.0) == {2: 7.0}
