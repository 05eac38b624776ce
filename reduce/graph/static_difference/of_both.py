"""Whether some changes can be made apart from the others: else what is made of both builds is a program of neither."""

from __future__ import annotations

from collections import Counter

from ....runner.build_output.graph.model import ArgumentType, Region
from ..task_list import TaskList

_Given = tuple[tuple[str, ...], int, ArgumentType, Region | None]


def is_of_both(made: TaskList, failing: TaskList, reference: TaskList) -> bool:
    """Whether each task of a build made of both is given only what one of them gives to its kernel.

    A view that begins elsewhere and the loop that it is counted in may be two changes; with one of them alone, tasks
    read and write where no task of either build does. That such a build fails says nothing of the change. Kernels that
    the two builds do not run equally often are not looked at.
    """
    ours, theirs = _runs(failing), _runs(reference)
    known = _given(failing) | _given(reference)
    return all(ours[each[0]] != theirs[each[0]] or each in known for each in _given(made))


def _runs(tasks: TaskList) -> Counter[tuple[str, ...]]:
    return Counter(task.kernels for task in tasks.tasks)


def _given(tasks: TaskList) -> set[_Given]:
    """What the tasks of each kernel are given as each argument."""
    return {
        (task.kernels, argument.index, argument.type, argument.region)
        for task in tasks.tasks
        for argument in task.task.arguments
    }
