"""Which first divergent tasks are dumped with all their arguments, and in which runs, within a budget of bytes."""

from __future__ import annotations

from collections import Counter

from .observed_tasks import ObservedTasks


def shown_together(tasks: ObservedTasks, budget: int) -> tuple[tuple[int, ...], ...]:
    """The tasks of each run, by ordinal. The budget holds them with what the tasks directly before them left, unless it
    is a single one.

    There is a further run only for a kernel of which none was shown: tasks of a kernel that is shown add little.
    """
    runs: list[list[int]] = []
    left = 0
    kernels: set[str] = set()
    for ordinal in _one_of_each_kernel_first(tasks):
        task = tasks.task(ordinal)
        needed = task.all_bytes + tasks.bytes_of(tasks.directly_above([ordinal]))
        if not runs or (needed > left and task.name not in kernels):
            runs.append([])
            left = budget
        if needed <= left or not runs[-1]:
            runs[-1].append(ordinal)
            kernels.add(task.name)
            left -= needed
    return tuple(tuple(sorted(run)) for run in runs)


def _one_of_each_kernel_first(tasks: ObservedTasks) -> list[int]:
    """The first divergent tasks: the first of each kernel, then the second of each, and so on."""
    counted: Counter[str] = Counter()
    places: list[tuple[int, int]] = []
    for ordinal in tasks.firsts:
        name = tasks.task(ordinal).name
        places.append((counted[name], ordinal))
        counted[name] += 1
    return [ordinal for _, ordinal in sorted(places)]
