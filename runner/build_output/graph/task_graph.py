"""The task graph of one run: what was submitted, in which order, and who waited for whom."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..files.errors import MalformedFileError
from ..files.folder import Folder
from ..files.json_text import json_reader
from ..task_id import format_task_id, parse_uint64
from .model import Edge, EdgeSource, GraphTask, GraphTensor
from .reading import GraphReader, tensor_of
from .records import SpelledGraph

MOST_BYTES = 256 * 2**20
"""Largest graph read: about 600,000 edges. Reading takes up to ten times the file's size in memory."""


_read_graph = json_reader(SpelledGraph)


@dataclass(frozen=True, kw_only=True)
class TaskGraph:
    """Tasks by id in submission order, and the edges between them.

    Attributes:
        annotated: whether arguments and tensors are known. Early graphs hold pairs of task ids only, and
            their tasks come in an order that respects the edges, not in submission order.
        unlisted: ids that edges name but no task has: allocations at the start of a scope (all their edges
            come from a creator), or tasks whose record was lost.
    """

    tasks: Mapping[int, GraphTask]
    tensors: Mapping[int, GraphTensor]
    edges: tuple[Edge, ...]
    annotated: bool
    unlisted: frozenset[int]

    @classmethod
    def open(cls, path: Path) -> TaskGraph:
        """Reads `deps.json`, of any era.

        Raises:
            BuildOutputError: it is missing, too large, malformed, or its edges form a cycle.
        """
        folder = Folder.open(path.parent, expected="the folder of a task graph")
        data = folder.read(path.name, expected="a task graph", limit=MOST_BYTES)
        try:
            graph = _graph_of(_read_graph(data))
            _ = graph.topological_order
        except ValueError as error:
            raise MalformedFileError(
                path=path, expected="a task graph", found=f"one that does not fit: {error}"
            ) from error
        return graph

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """Task ids, each after those it waits for, and in submission order where that allows.

        Raises:
            ValueError: the edges form a cycle.
        """
        waiting = {task: len(predecessors) for task, predecessors in self._predecessors.items()}
        ready = [(self.tasks[task].position, task) for task in self.tasks if not waiting.get(task)]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            _, task = heapq.heappop(ready)
            order.append(task)
            for successor in self._successors[task]:
                waiting[successor] -= 1
                if waiting[successor] == 0:
                    heapq.heappush(ready, (self.tasks[successor].position, successor))
        if len(order) < len(self.tasks):
            stuck = min(set(self.tasks) - set(order))
            raise ValueError(f"a cycle of tasks waiting for each other at {format_task_id(stuck)}")
        return tuple(order)

    def predecessors(self, task_id: int) -> list[int]:
        """Listed tasks that `task_id` waits for, in topological order."""
        return self._in_order(self._predecessors[task_id])

    def ancestors(self, task_id: int) -> list[int]:
        """All listed tasks that must end before `task_id` starts, in topological order."""
        return self._in_order(_reachable(task_id, self._predecessors))

    def descendants(self, task_id: int) -> list[int]:
        """All tasks that `task_id` can reach, in topological order."""
        return self._in_order(_reachable(task_id, self._successors))

    def tensors_created_by(self, task_id: int) -> list[int]:
        """Ids of the buffers that the runtime allocated for `task_id`, as far as a later task used them."""
        return list(dict.fromkeys(self._created.get(task_id, [])))

    @cached_property
    def _predecessors(self) -> defaultdict[int, set[int]]:
        return _adjacency((edge.successor, edge.predecessor) for edge in self.edges if self._is_listed(edge))

    @cached_property
    def _successors(self) -> defaultdict[int, set[int]]:
        return _adjacency((edge.predecessor, edge.successor) for edge in self.edges if self._is_listed(edge))

    @cached_property
    def _created(self) -> dict[int, list[int]]:
        created: dict[int, list[int]] = {}
        for edge in self.edges:
            if edge.source is EdgeSource.CREATOR and edge.tensor_id is not None:
                created.setdefault(edge.predecessor, []).append(edge.tensor_id)
        return created

    def _is_listed(self, edge: Edge) -> bool:
        return edge.predecessor in self.tasks and edge.successor in self.tasks

    @cached_property
    def _ranks(self) -> dict[int, int]:
        return {task: rank for rank, task in enumerate(self.topological_order)}

    def _in_order(self, tasks: Iterable[int]) -> list[int]:
        return sorted(tasks, key=self._ranks.__getitem__)


def _graph_of(spelled: SpelledGraph) -> TaskGraph:
    raw_shapes = {
        parse_uint64(tensor.tensor_id): tensor.raw_shapes
        for tensor in spelled.tensors
        if tensor.raw_shapes is not None
    }
    reader = GraphReader(raw_shapes)
    edges = tuple(reader.edge(edge) for edge in spelled.edges)
    named = {task for edge in edges for task in (edge.predecessor, edge.successor)}
    if spelled.tasks is None:
        tasks = _bare_tasks(named, edges)
    else:
        tasks = {task.task_id: task for task in map(reader.task, spelled.tasks, range(len(spelled.tasks)))}
        if len(tasks) < len(spelled.tasks):
            raise ValueError("expected every task once, found a task id twice")
    return TaskGraph(
        tasks=tasks,
        tensors={tensor.tensor_id: tensor for tensor in map(tensor_of, spelled.tensors)},
        edges=edges,
        annotated=spelled.tasks is not None,
        unlisted=frozenset(named - tasks.keys()),
    )


def _bare_tasks(named: set[int], edges: tuple[Edge, ...]) -> dict[int, GraphTask]:
    """Tasks known by their ids alone, numbered so that edges lead forward."""

    def numbered(order: Iterable[int]) -> dict[int, GraphTask]:
        return {
            task_id: GraphTask(
                task_id=task_id,
                position=position,
                kernels=None,
                in_manual_scope=False,
                blocks=None,
                arguments=(),
            )
            for position, task_id in enumerate(order)
        }

    by_id = TaskGraph(
        tasks=numbered(sorted(named)), tensors={}, edges=edges, annotated=False, unlisted=frozenset()
    )
    return numbered(by_id.topological_order)


def _adjacency(pairs: Iterable[tuple[int, int]]) -> defaultdict[int, set[int]]:
    adjacent: defaultdict[int, set[int]] = defaultdict(set)
    for start, end in pairs:
        adjacent[start].add(end)
    return adjacent


def _reachable(start: int, adjacent: Mapping[int, set[int]]) -> set[int]:
    """Everything reachable from `start`, itself left out."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        for task in adjacent.get(waiting.pop(), ()):
            if task not in seen:
                seen.add(task)
                waiting.append(task)
    return seen
