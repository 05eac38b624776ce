"""Missing dependencies: tasks that touch the same elements of a buffer with nothing that orders them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...runner.build_output.graph.model import ArgumentType, GraphArgument, Region
from ...runner.build_output.graph.task_graph import TaskGraph
from .dag import Dag, Mask
from .task_list import KernelTask, TaskList, may_overlap


class Hazard(Enum):
    """What goes wrong if the two run in the other order, or at once."""

    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"


@dataclass(frozen=True, kw_only=True)
class MissingEdge:
    """`after` was submitted later than `before`, touches what that writes or reads, and does not wait for it.

    `first_argument` and `second_argument` are the arguments' indices.
    """

    before: KernelTask
    after: KernelTask
    first_argument: int
    second_argument: int
    hazard: Hazard
    cause: str


def missing_edges(tasks: TaskList) -> tuple[MissingEdge, ...]:
    """All missing edges of a graph with arguments, by the later task; of several between two tasks, the first.

    Regions are compared exactly, element by element where need be; only regions of more than 2**24 elements that are
    neither boxes of one layout nor without gaps count as overlapping when their bounds do.
    """
    if not tasks.graph.annotated:
        return ()
    waiting = ordered(tasks.graph)
    positions = {task.task.task_id: task.task.position for task in tasks.tasks}
    edges: dict[tuple[int, int], MissingEdge] = {}
    for uses in _uses_by_buffer(tasks).values():
        for number, (after, second, later) in enumerate(uses):
            for before, first, earlier in uses[:number]:
                key = before.ordinal, after.ordinal
                if before is after or key in edges:
                    continue
                hazard = _hazard(first, second)
                waits = waiting[positions[after.task.task_id], positions[before.task.task_id]]
                if hazard is not None and not waits and may_overlap(earlier, later):
                    edges[key] = MissingEdge(
                        before=before,
                        after=after,
                        first_argument=first.index,
                        second_argument=second.index,
                        hazard=hazard,
                        cause=_cause(hazard, after, second),
                    )
    return tuple(edges[key] for key in sorted(edges, key=lambda key: (key[1], key[0])))


def ordered(graph: TaskGraph) -> Mask:
    """`ordered[b, a]`: the task at position b waits for the one at position a. Edges lead forward."""
    position = {task.task_id: task.position for task in graph.tasks.values()}
    above: list[set[int]] = [set() for _ in position]
    for edge in graph.edges:
        if edge.predecessor in position and edge.successor in position:
            above[position[edge.successor]].add(position[edge.predecessor])
    forward = tuple(
        tuple(sorted(before for before in waited if before < task)) for task, waited in enumerate(above)
    )
    return Dag(predecessors=forward, sizes=(0,) * len(above)).ancestors


def _uses_by_buffer(tasks: TaskList) -> dict[int, list[tuple[KernelTask, GraphArgument, Region]]]:
    uses: dict[int, list[tuple[KernelTask, GraphArgument, Region]]] = {}
    for task in tasks.tasks:
        for argument in task.task.arguments:
            if argument.tensor_id is not None and argument.region is not None:
                uses.setdefault(argument.tensor_id, []).append((task, argument, argument.region))
    return uses


def _hazard(first: GraphArgument, second: GraphArgument) -> Hazard | None:
    if first.type.may_write:
        return Hazard.READ_AFTER_WRITE if second.type.may_read else Hazard.WRITE_AFTER_WRITE
    return Hazard.WRITE_AFTER_READ if second.type.may_write else None


def _cause(hazard: Hazard, after: KernelTask, second: GraphArgument) -> str:
    if hazard is Hazard.READ_AFTER_WRITE:
        if after.task.in_manual_scope:
            return "in a manual scope only set_dependencies orders tasks"
        return "the runtime recorded no edge for what was declared"
    if hazard is Hazard.WRITE_AFTER_WRITE and second.type is ArgumentType.OUTPUT_EXISTING:
        return "add_output where add_inout belongs, if the kernel reads what was there"
    return "a buffer is used again before its last reader or writer is done"
