"""Which buffer of one build is which of another, and who fills what a task reads: ids differ from run to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from ....runner.build_output.graph.model import Region
from ..alignment import Alignment
from ..task_list import KernelTask, TaskList, may_overlap, regions

NameOf = Callable[[KernelTask, int], str | None]
"""From a task and an argument's index to the name of the tensor in the orchestration."""


def same_buffers(
    failing: TaskList, reference: TaskList, alignment: Alignment, name_of: NameOf, reference_name_of: NameOf
) -> dict[int, int]:
    """The reference's buffer for each of the failing build: the one that aligned tasks have most often in its place; of
    those that are left, the one of the same name. None is that of two."""
    votes: Counter[tuple[int, int]] = Counter()
    for task, other in alignment.reference_of.items():
        for ours, theirs in zip(
            failing.tasks[task].task.arguments, reference.tasks[other].task.arguments, strict=False
        ):
            if ours.tensor_id is not None and theirs.tensor_id is not None:
                votes[ours.tensor_id, theirs.tensor_id] += 1
    names, reference_names = _names(failing, name_of), _names(reference, reference_name_of)
    # Of as many votes, the pair of one name; then the earlier one.
    ranked = sorted(votes, key=lambda pair: (-votes[pair], names[pair[0]] != reference_names[pair[1]]))
    same: dict[int, int] = {}
    for ours, theirs in ranked:
        if ours not in same and theirs not in same.values():
            same[ours] = theirs
    left = {name: buffer for buffer, name in reference_names.items() if buffer not in same.values()}
    for buffer, name in names.items():
        if name is not None and name in left:
            same.setdefault(buffer, left[name])
    return same


def tenants(tasks: TaskList, name_of: NameOf) -> dict[int, set[str]]:
    """The names of the tensors that lie in each buffer."""
    names: dict[int, set[str]] = {}
    for task in tasks.tasks:
        for argument in task.task.arguments:
            name = name_of(task, argument.index)
            if argument.tensor_id is not None and name is not None:
                names.setdefault(argument.tensor_id, set()).add(name)
    return names


def _names(tasks: TaskList, name_of: NameOf) -> dict[int, str | None]:
    names: dict[int, str | None] = {}
    for task in tasks.tasks:
        for argument in task.task.arguments:
            if argument.tensor_id is not None and names.get(argument.tensor_id) is None:
                names[argument.tensor_id] = name_of(task, argument.index)
    return names


class LastWriters:
    """The last task before each that wrote what an argument holds."""

    def __init__(self, tasks: TaskList) -> None:
        self._of: dict[tuple[int, int], int | None] = {}
        writers: dict[int, list[tuple[int, Region]]] = {}
        for task in tasks.tasks:
            for argument in task.task.arguments:
                if argument.tensor_id is None or argument.region is None:
                    continue
                written = [
                    ordinal
                    for ordinal, region in writers.get(argument.tensor_id, [])
                    if may_overlap(region, argument.region)
                ]
                self._of[task.ordinal, argument.index] = written[-1] if written else None
            for tensor, region in regions(task, writing=True):
                writers.setdefault(tensor, []).append((task.ordinal, region))

    def before(self, task: KernelTask, argument: int) -> int | None:
        """Its ordinal; None where the argument holds what the case was given, or nothing."""
        return self._of.get((task.ordinal, argument))


def aligned(writer: int | None, reference_of: Mapping[int, int]) -> int | None:
    """The counterpart of a task."""
    return None if writer is None else reference_of.get(writer)
