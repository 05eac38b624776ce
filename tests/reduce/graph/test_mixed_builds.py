"""Builds that are made of two others: whether their tasks are those of one or the other."""

from __future__ import annotations

from dataclasses import replace

from precision_bisect.reduce.graph.differences import uses_only_known_arguments
from tests.reduce.graph.small_graphs import Call, task_list

GOOD = [Call("load", reads=[("x", 8 * i)], writes=[("a", 8 * i)]) for i in range(2)]
BAD = [replace(call, reads=[("x", 4)]) for call in GOOD]


def test_tasks_of_either_build_are_of_both() -> None:
    made = [BAD[0], GOOD[1]]
    assert uses_only_known_arguments(task_list(made), task_list(BAD), task_list(GOOD))


def test_a_task_that_is_given_what_neither_gives_is_not() -> None:
    made = [GOOD[0], replace(GOOD[1], reads=[("x", 12)])]
    assert not uses_only_known_arguments(task_list(made), task_list(BAD), task_list(GOOD))


def test_kernels_that_do_not_run_equally_often_are_not_looked_at() -> None:
    made = [replace(GOOD[1], reads=[("x", 12)])]
    assert uses_only_known_arguments(task_list(made), task_list(BAD[:1]), task_list(GOOD))
