"""The graph that two builds are searched in: their aligned tasks, and the dependencies of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from .dag import Dag
from .task_list import TaskList


def shared_graph(failing: TaskList, reference: TaskList, reference_of: Mapping[int, int]) -> Dag:
    """The tasks that correspond by ordinals, failing to reference, with the dependencies of both: the failing build
    may lack some that it needs.

    A task without counterpart is passed over: what reads it depends on what it reads.
    """
    ordinals = sorted(reference_of)
    failing_of = {counterpart: task for task, counterpart in reference_of.items()}
    above_failing = passing_over(failing, reference_of.keys())
    above_reference = passing_over(reference, failing_of.keys())
    nodes = {ordinal: node for node, ordinal in enumerate(ordinals)}
    return Dag(
        predecessors=tuple(
            tuple(
                sorted(
                    nodes[above]
                    for above in above_failing[ordinal]
                    | {failing_of[task] for task in above_reference[reference_of[ordinal]]}
                )
            )
            for ordinal in ordinals
        ),
        sizes=tuple(
            max(
                failing.tasks[ordinal].result_bytes,
                reference.tasks[reference_of[ordinal]].result_bytes,
            )
            for ordinal in ordinals
        ),
    )


def graph_of(tasks: TaskList, kept: Sequence[int]) -> Dag:
    """Some tasks of one build, by their ordinals in ascending order; the others are passed over."""
    above = passing_over(tasks, set(kept))
    nodes = {ordinal: node for node, ordinal in enumerate(kept)}
    return Dag(
        predecessors=tuple(tuple(sorted(nodes[task] for task in above[ordinal])) for ordinal in kept),
        sizes=tuple(tasks.tasks[ordinal].result_bytes for ordinal in kept),
    )


def passing_over(tasks: TaskList, kept: Set[int]) -> list[set[int]]:
    """Predecessors of each task among the `kept` ones, directly or through others."""
    kept_above: list[set[int]] = []
    for above in tasks.predecessors:
        direct = {task for task in above if task in kept}
        kept_above.append(direct.union(*(kept_above[task] for task in above if task not in kept)))
    return kept_above
