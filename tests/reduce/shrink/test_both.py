"""Two programs in one numbering: which tasks one lacks, which results it leaves elsewhere, and what was found there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from precision_bisect.reduce.graph.tasks import Alignment
from precision_bisect.reduce.replay.replay import TaskValues
from precision_bisect.reduce.shrink.cut import actual_contents, expected_contents
from precision_bisect.reduce.shrink.program import (
    Buffer,
    Program,
    ProgramArgument,
    ProgramPair,
    ProgramTask,
    align_programs,
)
from precision_bisect.runner.build_output.task_graph import ArgumentType, Region
from precision_bisect.runner.tensor import DType, TensorView

_REGION = Region(dtype=DType.FLOAT32, shape=(2,), strides=(1,), start_offset=0)
_CHAIN = [("load", "x", "a"), ("scale", "a", "b"), ("store", "b", "y")]


def program(*tasks: tuple[str, str, str]) -> Program:
    """Tasks by their kernel, what they read and what they write, two elements each; x, y and z are the case's."""
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
            Buffer(number=number, name=name, dtype=DType.FLOAT32, shape=(2,), is_entry=name in "xyz")
            for number, name in enumerate(names)
        ),
    )


def both_of(failing: Program, reference: Program, aligned: dict[int, int]) -> ProgramPair:
    """The two, with counterparts of the failing build's tasks by ordinals."""
    alone, theirs = (
        tuple(ordinal for ordinal in range(len(side.tasks)) if ordinal not in matched)
        for side, matched in ((failing, aligned.keys()), (reference, aligned.values()))
    )
    alignment = Alignment(reference_of=aligned, only_failing=alone, only_reference=theirs)
    return align_programs(failing, reference, alignment)


def spelled(program: Program) -> list[tuple[int, str, list[str]]]:
    return [
        (task.ordinal, task.name, [program.buffers[argument.buffer].name for argument in task.arguments])
        for task in program.tasks
    ]


def lacking(first: str) -> ProgramPair:
    """The chain, of which the failing build lacks the task in the middle; there its last task reads `first`."""
    return both_of(program(_CHAIN[0], ("store", first, "y")), program(*_CHAIN), {0: 0, 1: 2})


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


def moved(both: ProgramPair) -> dict[int, list[str]]:
    """Names of the buffers where results of tasks belong that were left elsewhere."""
    return {
        task: [both.failing.buffers[result.buffer].name for result in results]
        for task, results in both.moved_results.items()
    }


def test_a_result_belongs_where_the_good_build_leaves_it() -> None:
    assert moved(both_of(program(*_CHAIN), program(*_CHAIN), {0: 0, 1: 1, 2: 2})) == {}
    elsewhere = program(*_CHAIN[:2], ("store", "b", "z"))
    assert moved(both_of(elsewhere, program(*_CHAIN), {0: 0, 1: 1, 2: 2})) == {2: ["y"]}
    # The last task goes on reading b, into which nothing is written any more.
    unread = program(_CHAIN[0], ("scale", "a", "a"), _CHAIN[2])
    assert moved(both_of(unread, program(*_CHAIN), {0: 0, 1: 1, 2: 2})) == {1: ["b"]}


def test_a_task_on_tensors_of_another_shape_is_told_from_one_that_is_another_kernels() -> None:
    whole, wide = program(("scale", "x", "y")), program(("scale", "x", "y"))
    (task,) = wide.tasks
    read = replace(task.arguments[0], region=replace(_REGION, shape=(1,)))
    wide = replace(wide, tasks=(replace(task, arguments=(read, task.arguments[1])),))
    assert both_of(wide, whole, {0: 0}).reshaped_tasks == {0}
    assert both_of(whole, whole, {0: 0}).reshaped_tasks == set()
    assert both_of(program(("other", "x", "y")), wide, {0: 0}).reshaped_tasks == set()


def test_tasks_that_agree_on_another_buffer_have_moved_nothing() -> None:
    reusing = program(_CHAIN[0], ("scale", "a", "a"), ("store", "a", "y"))
    assert moved(both_of(reusing, program(*_CHAIN), {0: 0, 1: 1, 2: 2})) == {}
    assert moved(both_of(program(*_CHAIN), reusing, {0: 0, 1: 1, 2: 2})) == {}


def view(value: float) -> TensorView:
    return TensorView.from_contiguous("t", DType.FLOAT32, (2,), np.full(2, value, np.float32))


def test_what_belongs_where_an_extra_task_writes_is_told_for_arguments_of_the_case() -> None:
    def right(ordinal: int) -> TaskValues:
        return TaskValues(before={}, after={1: view(20 + ordinal)}, scalars={})

    def belonging(written: str) -> dict[int, dict[int, float]]:
        """By the extra task and its argument, where it comes behind the chain and writes so."""
        both = both_of(program(*_CHAIN, ("again", "a", written)), program(*_CHAIN), {0: 0, 1: 1, 2: 2})
        right_there = expected_contents(both, right, {"x": view(7)})
        return {
            task: {index: float(one.contiguous()[0]) for index, one in views.items()}
            for task, views in right_there.items()
        }

    assert belonging("y") == {3: {1: 22.0}}
    assert belonging("x") == {3: {1: 7.0}}
    assert belonging("b") == belonging("z") == {3: {}}


def test_what_was_found_is_what_the_next_task_read_or_was_put_out() -> None:
    def values(ordinal: int) -> TaskValues:
        return TaskValues(before={0: view(10 + ordinal)}, after={}, scalars={})

    def first_found(both: ProgramPair, **outputs: float) -> dict[int, float]:
        put_out = SimpleNamespace(names=outputs, tensor=lambda name: view(outputs[name]))  # pyright: ignore[reportUnknownLambdaType]
        recording: Any = SimpleNamespace(values=values, outputs=put_out)
        found = actual_contents(both, recording)
        return {task: float(views[1].contiguous()[0]) for task, views in found.items()}

    assert first_found(lacking("b")) == {2: 11.0}
    assert first_found(lacking("a")) == {2: 0.0}
    both = both_of(program(*_CHAIN[:2]), program(*_CHAIN), {0: 0, 1: 1})
    assert first_found(both, y=7.0) == {2: 7.0}
    elsewhere = program(*_CHAIN[:2], ("store", "b", "z"))
    both = both_of(elsewhere, program(*_CHAIN), {0: 0, 1: 1, 2: 2})
    assert first_found(both, y=8.0, z=9.0) == {2: 8.0}
