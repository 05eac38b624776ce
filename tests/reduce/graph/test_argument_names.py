"""Tensors of tasks that several submits may have made, by what others call their buffers."""

from __future__ import annotations

from precision_bisect.reduce.graph.submits import ArgumentNames
from precision_bisect.runner.build_output.orchestration import Orchestration
from tests.demo.minirt_support import orchestration
from tests.reduce.graph.small_graphs import Call, task_list


def submit(number: int, read: str, written: str, way: str = "output") -> str:
    return (
        f"CoreTaskArgs p{number}; p{number}.add_input({read}); p{number}.add_{way}({written});\n"
        f"rt_submit_aiv_task(0, p{number});\n"
    )


LOOP = (
    "for (int i = 0; i < 1; ++i) {\n"
    f"{submit(0, 'x0', 'x1')}{submit(1, 'x2', 'x3')}{submit(2, 'x1', 'x4', 'inout')}"
    "}"
)
CALLS = (
    Call("k", reads=[("x0", 0)], writes=[("x1", 0)]),
    Call("k", reads=[("x2", 0)], writes=[("x3", 0)]),
    Call("k", reads=[("x1", 0)], writes=[("x4", 0)], updates=True),
)


def test_a_buffer_that_another_task_names_has_that_name() -> None:
    tasks = task_list(CALLS)
    names = ArgumentNames(Orchestration.parse(orchestration(LOOP, 5).encode()), tasks)
    first, second, third = tasks.tasks
    assert names.name_of(first, 1) == "x1"
    assert names.name_of(third, 0) == "x1"
    assert names.name_of(third, 1) == "x4"
    assert names.name_of(second, 1) is None, "x1 or x3: nobody else has its buffer"


def test_a_buffer_that_others_call_by_another_name_has_none() -> None:
    tasks = task_list([CALLS[0], CALLS[1], Call("k", reads=[("x9", 0)], writes=[("x1", 0)], updates=True)])
    names = ArgumentNames(Orchestration.parse(orchestration(LOOP, 5).encode()), tasks)
    assert names.name_of(tasks.tasks[0], 1) is None


def test_a_task_of_a_wrong_kernel_is_told_by_any_of_its_buffers() -> None:
    """The first submit was to be of another kernel: nobody but the second one reads what it writes."""
    loop = (
        "for (int i = 0; i < 1; ++i) {\n"
        f"{submit(0, 'x0', 'x1')}{submit(1, 'x1', 'x2')}{submit(2, 'x2', 'x3', 'inout')}"
        "}"
    )
    tasks = task_list(
        (
            Call("k", reads=[("x0", 0)], writes=[("x1", 0)]),
            Call("k", reads=[("x1", 0)], writes=[("x2", 0)]),
            Call("k", reads=[("x2", 0)], writes=[("x3", 0)], updates=True),
        )
    )
    names = ArgumentNames(Orchestration.parse(orchestration(loop, 4).encode()), tasks)
    first, second, _ = tasks.tasks
    assert [names.name_of(second, argument) for argument in (0, 1)] == ["x1", "x2"]
    assert [names.name_of(first, argument) for argument in (0, 1)] == ["x0", "x1"]
