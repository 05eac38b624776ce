"""Dependencies that the reference has, and the failing build does not."""

from __future__ import annotations

from collections.abc import Iterator

from ..alignment import Alignment
from ..dag import Dag, Mask
from ..task_list import KernelTask, TaskList


def missing_dependencies(
    failing: TaskList, reference: TaskList, alignment: Alignment
) -> Iterator[tuple[str, KernelTask, KernelTask]]:
    """In words, the task of the failing build that does not wait, and its counterpart."""
    waits, waited = _waits(failing), _waits(reference)
    failing_of = {other: task for task, other in alignment.reference_of.items()}
    for edge in reference.graph.edges:
        before, after = (reference.by_id.get(each) for each in (edge.predecessor, edge.successor))
        if before is None or after is None or not waited[after.ordinal, before.ordinal]:
            continue
        here, there = failing_of.get(before.ordinal), failing_of.get(after.ordinal)
        if here is None or there is None or waits[there, here]:
            continue
        task, other = failing.tasks[there], failing.tasks[here]
        yield f"task {there} {task.name} does not wait for task {here} {other.name}", task, after


def _waits(tasks: TaskList) -> Mask:
    """`waits[b, a]`: the task with ordinal b waits for the one with ordinal a, directly or not."""
    positions = {task.task_id: task.position for task in tasks.graph.tasks.values()}
    above: list[set[int]] = [set() for _ in positions]
    for edge in tasks.graph.edges:
        before, after = positions.get(edge.predecessor), positions.get(edge.successor)
        if before is not None and after is not None and before < after:
            above[after].add(before)
    ordered = Dag(
        predecessors=tuple(tuple(sorted(each)) for each in above), sizes=(0,) * len(above)
    ).ancestors
    places = [task.task.position for task in tasks.tasks]
    return ordered[places][:, places]
