"""Which of many tasks are examined."""

from __future__ import annotations

from collections.abc import Iterable

from ...graph.task_list import KernelTask

_FEW = 48
"""Tasks of which each is run. Of more, those that are alike are told by their first, middle and last one."""


def representatives(tasks: Iterable[KernelTask]) -> list[KernelTask]:
    """All tasks of a few; of many, the first, the middle and the last one of those with the same kernels, shapes and
    strides."""
    every = list(tasks)
    if len(every) <= _FEW:
        return every
    alike: dict[object, list[KernelTask]] = {}
    for task in every:
        geometry = tuple(
            (
                argument.type,
                None if argument.region is None else (argument.region.shape, argument.region.strides),
            )
            for argument in task.task.arguments
        )
        alike.setdefault((task.kernels, geometry), []).append(task)
    chosen = {
        task.ordinal: task
        for group in alike.values()
        for task in (group[0], group[len(group) // 2], group[-1])
    }
    return [chosen[ordinal] for ordinal in sorted(chosen)]
