"""One difference of two programs each, planted, and told as what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from precision_bisect.reduce.graph.differences import DifferenceKind, program_differences, same_buffers
from precision_bisect.reduce.graph.tasks import Alignment, TaskList
from tests.reduce.graph.small_graphs import Call, name_of, task_list

CHAIN = (
    Call("load", reads=[("x", 0)], writes=[("a", 0)]),
    Call("scale", reads=[("a", 0), ("b", 0)], writes=[("c", 0)], waits_for=(0,)),
    Call("store", reads=[("c", 0)], writes=[("y", 8)], waits_for=(1,)),
)


def differences(failing: Sequence[Call]) -> list[tuple[DifferenceKind, str]]:
    found = program_differences(
        task_list(failing, first_id=100),
        task_list(CHAIN),
        name_of=name_of(failing),
        reference_name_of=name_of(CHAIN),
    )
    return [(each.kind, each.text) for each in found]


def with_call(place: int, call: Call) -> list[Call]:
    return [*CHAIN[:place], call, *CHAIN[place + 1 :]]


def test_equal_programs_do_not_differ() -> None:
    assert differences(CHAIN) == []


def test_a_missing_task_is_named_with_what_it_writes() -> None:
    assert differences(CHAIN[:2]) == [
        (
            DifferenceKind.PRESENCE,
            "task 2 store of the good build is not submitted; it writes y (elements 8:16)",
        )
    ]


def test_a_moved_view() -> None:
    moved = replace(CHAIN[1], reads=[("a", 0), ("b", 1)])
    assert differences(with_call(1, moved)) == [
        (
            DifferenceKind.REGION,
            "task 1 scale: argument 1 (b) is elements 0:8 in the good build and elements 1:9 here",
        )
    ]


def test_swapped_arguments() -> None:
    swapped = replace(CHAIN[1], reads=[("b", 0), ("a", 0)])
    kinds = differences(with_call(1, swapped))
    assert [kind for kind, _ in kinds] == [DifferenceKind.TENSOR, DifferenceKind.TENSOR]
    assert "argument 0 (b) is what argument 1 is in the good build" in kinds[0][1]


def test_another_kernel() -> None:
    assert differences(with_call(1, replace(CHAIN[1], kernel="shift"))) == [
        (DifferenceKind.KERNEL, "task 1 shift runs that kernel, was scale")
    ]


def test_another_direction() -> None:
    ((kind, text),) = differences(with_call(1, replace(CHAIN[1], updates=True)))
    assert kind is DifferenceKind.DIRECTION
    assert "argument 2 (c) is INOUT, was OUTPUT_EXISTING" in text


def test_a_missing_dependency() -> None:
    assert differences(with_call(1, replace(CHAIN[1], waits_for=()))) == [
        (DifferenceKind.DEPENDENCY, "task 1 scale does not wait for task 0 load")
    ]


def test_what_a_task_waits_for_follows_from_what_it_is_given() -> None:
    moved = replace(CHAIN[1], reads=[("a", 0), ("b", 1)], waits_for=())
    assert [kind for kind, _ in differences(with_call(1, moved))] == [
        DifferenceKind.REGION,
        DifferenceKind.DEPENDENCY,
    ]


def test_a_task_that_is_submitted_too_early_reads_what_no_task_wrote() -> None:
    found = differences([CHAIN[0], CHAIN[2], CHAIN[1]])
    assert found[0] == (DifferenceKind.ORDER, "scale is submitted as task 2, was task 1")
    assert found[-1] == (
        DifferenceKind.CONTENTS,
        "task 1 store: argument 0 (c) holds what no task wrote, was what task 1 scale wrote",
    )


def test_a_buffer_of_two_tensors_is_told_by_who_reads_the_wrong_one() -> None:
    calls = [*CHAIN[:2], Call("other", reads=[("b", 0)], writes=[("d", 0)]), *CHAIN[2:]]
    names = {"a": "a", "b": "b", "c": "c", "d": "c", "x": "x", "y": "y"}
    shared = [
        replace(
            call,
            reads=[(names[name], offset) for name, offset in call.reads],
            writes=[(names[name], offset) for name, offset in call.writes],
        )
        for call in calls
    ]
    found = program_differences(
        task_list(shared, first_id=100),
        task_list(calls),
        name_of=name_of(calls),
        reference_name_of=name_of(calls),
    )
    assert [(each.kind, each.text) for each in found] == [
        (
            DifferenceKind.PLACEMENT,
            "task 2 other: argument 1 (d) lies in a buffer that holds another tensor too",
        ),
        (
            DifferenceKind.CONTENTS,
            "task 3 store: argument 0 (c) holds what task 2 other wrote, was what task 1 scale wrote",
        ),
    ]


def _allocate_results(tasks: TaskList) -> TaskList:
    """The same tasks, but the runtime allocates what they write."""
    allocated = [
        replace(
            each,
            task=replace(
                each.task,
                arguments=tuple(
                    replace(argument, tensor_id=None, region=None) if argument.type.may_write else argument
                    for argument in each.task.arguments
                ),
            ),
        )
        for each in tasks.tasks
    ]
    return TaskList(tasks.graph, tuple(allocated))


def test_a_buffer_without_a_counterpart_is_no_result_that_the_runtime_allocates() -> None:
    good = [Call(kernel, reads=[("x", 0)], writes=[("y", 0)]) for kernel in ("one", "two")]
    bad = [good[0], replace(good[1], reads=[("w", 0)])]
    found = program_differences(
        _allocate_results(task_list(bad, first_id=100)),
        _allocate_results(task_list(good)),
        name_of=name_of(bad),
        reference_name_of=name_of(good),
    )
    assert [each.text for each in found] == ["task 1 two: argument 0 (w) was x"]


def test_of_two_buffers_with_one_name_one_is_the_reference_s() -> None:
    failing, reference = (
        task_list([Call(kernel, writes=[(kernel, 0)]) for kernel in kernels])
        for kernels in (("a", "b"), ("c",))
    )
    apart = Alignment(reference_of={}, only_failing=(0, 1), only_reference=(0,))
    assert same_buffers(failing, reference, apart, lambda *_: "t", lambda *_: "t") == {0: 0}
