"""Which tasks correspond, though some were moved, narrowed, left out or given another kernel."""

from __future__ import annotations

from collections.abc import Sequence

from precision_bisect.reduce.graph.tasks import align
from tests.reduce.graph.small_graphs import Call, task_list


def pairs(failing: Sequence[Call], reference: Sequence[Call]) -> dict[int, int]:
    return dict(align(task_list(failing), task_list(reference)).reference_of)


ROWS = [Call("load", reads=[("x", 8 * row)], writes=[("y", 8 * row)]) for row in range(4)]


def test_a_missing_first_iteration_is_the_missing_one() -> None:
    assert pairs(ROWS[1:], ROWS) == {0: 1, 1: 2, 2: 3}


def test_of_tasks_that_look_alike_the_one_in_between_is_the_missing_one() -> None:
    same, other = ROWS[0], Call("store", reads=[("x", 0)], writes=[("y", 0)])
    assert pairs([same] * 4, [same, other, same, same, same]) == {0: 0, 1: 2, 2: 3, 3: 4}


def test_what_else_is_told_of_tasks_tells_those_apart_that_look_alike() -> None:
    failing, reference = task_list([ROWS[0]] * 2), task_list([ROWS[0]] * 3)
    found = align(failing, reference, extra_keys=("bc", "abc"))
    assert (dict(found.reference_of), found.only_reference) == ({0: 1, 1: 2}, (0,))


def test_a_moved_view_stays_with_its_task() -> None:
    moved = Call("load", reads=[("x", 9)], writes=[("y", 8)])
    assert pairs([ROWS[0], moved, *ROWS[2:]], ROWS) == {0: 0, 1: 1, 2: 2, 3: 3}


def test_a_narrower_view_stays_with_its_task() -> None:
    narrow = Call("load", reads=[("x", 8)], writes=[("y", 8)], size=4)
    assert pairs([ROWS[0], narrow, *ROWS[2:]], ROWS) == {0: 0, 1: 1, 2: 2, 3: 3}


def test_another_kernel_of_the_same_shape_stays_with_its_task() -> None:
    other = Call("store", reads=[("x", 8)], writes=[("y", 8)])
    assert pairs([ROWS[0], other, *ROWS[2:]], ROWS) == {0: 0, 1: 1, 2: 2, 3: 3}


def test_kernels_that_a_compiler_renamed_and_tiled_anew_stay_together() -> None:
    names = ["product", "product_acc", "y"]
    before = [Call(name, reads=[("x", 0)], writes=[("z", 8 * row)]) for row, name in enumerate(names)]
    after = [
        Call(f"{name}_v2", reads=[("x", 0)], writes=[("z", 8 * row + half)], size=4)
        for row, name in enumerate(names)
        for half in (0, 4)
    ]
    found = pairs(after, before)
    assert [(names[other], task // 2) for task, other in found.items()] == [
        (name, row) for row, name in enumerate(names)
    ]


def test_tasks_without_arguments_have_no_shape_in_common() -> None:
    assert pairs([Call("a"), Call("b"), Call("c")], [Call("a"), Call("d"), Call("c")]) == {0: 0, 2: 2}


def test_tasks_without_anything_in_common_are_no_pair() -> None:
    found = align(
        task_list([Call("a", reads=[("x", 0)], writes=[("y", 0)], size=3)]),
        task_list([Call("b", reads=[("x", 0)], writes=[("y", 0)])]),
    )
    assert (found.reference_of, found.only_failing, found.only_reference) == ({}, (0,), (0,))
