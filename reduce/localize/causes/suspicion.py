"""Which changes are tried first, and which only together: what the task graphs tell of them before any run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from ...graph.task_list import KernelTask, TaskList
from .changes import Change, ChangedPart


def reached_from(tasks: TaskList, ordinals: Iterable[int]) -> set[int]:
    """The tasks whose results reach some tasks, and these."""
    reached: set[int] = set()
    left = list(ordinals)
    while left:
        ordinal = left.pop()
        if ordinal not in reached:
            reached.add(ordinal)
            left += tasks.predecessors[ordinal]
    return reached


def suspected(
    changes: Sequence[Change], failing: TaskList, reference: TaskList, reaching: Set[int]
) -> tuple[frozenset[Change], ...]:
    """All changes, those first that can have to do with the failure; what must be made together is one set.

    `reaching` are the tasks of the failing build whose results reach a wrong output; empty where that is not known.
    """
    relevant = {name for ordinal in reaching for name in failing.tasks[ordinal].kernels}
    others = _called_otherwise(failing, reference)
    tied = [
        change
        for change in changes
        if change.part is ChangedPart.ORCHESTRATION or _is_whole_list(change) or change.kernel in others
    ]
    together = any(_is_whole_list(change) or (change.kernel and change.kernel in others) for change in tied)
    sets = [frozenset(tied)] if together and tied else [frozenset({change}) for change in tied]
    sets += [frozenset({change}) for change in changes if change not in tied]

    def rank(each: frozenset[Change]) -> int:
        if any(change.part is ChangedPart.RUNTIME for change in each):
            return 2
        kernels = {change.kernel for change in each}
        return 1 if relevant and "" not in kernels and relevant.isdisjoint(kernels) else 0

    return tuple(sorted(sets, key=rank))


def _is_whole_list(change: Change) -> bool:
    return change.part is ChangedPart.KERNEL_LIST and not change.kernel


def _called_otherwise(failing: TaskList, reference: TaskList) -> set[str]:
    """Kernels that the two builds give other numbers or types of arguments: their sources fit one orchestration."""
    ours, theirs = _calls(failing), _calls(reference)
    return {name for name in ours.keys() & theirs.keys() if ours[name].isdisjoint(theirs[name])}


def _calls(tasks: TaskList) -> dict[str, set[tuple[object, ...]]]:
    calls: dict[str, set[tuple[object, ...]]] = {}
    for task in tasks.tasks:
        for name in task.kernels:
            calls.setdefault(name, set()).add(_call(task))
    return calls


def _call(task: KernelTask) -> tuple[object, ...]:
    return tuple(
        (argument.region.dtype, len(argument.region.shape)) if argument.region is not None else None
        for argument in task.task.arguments
    )
