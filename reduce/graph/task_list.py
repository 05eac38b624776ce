"""The tasks of one run that ran kernels, in the order of their submission, and whose results each reads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from ...runner.build_output.graph.model import EdgeSource, GraphArgument, GraphTask, Region
from ...runner.build_output.graph.task_graph import TaskGraph
from ...runner.build_output.kernel_config import KernelConfig
from .regions import TooLargeError, covers, overlap


@dataclass(frozen=True, kw_only=True)
class KernelTask:
    """A task that ran a kernel; `ordinal` counts such tasks from 0 in submission order.

    `result_bytes` are those of what it writes, as dumped: an in-out tensor before and after. `all_bytes` are those of
    all its arguments.
    """

    ordinal: int
    task: GraphTask
    kernels: tuple[str, ...]
    result_bytes: int
    all_bytes: int

    @property
    def name(self) -> str:
        """Its kernels' names."""
        return "+".join(self.kernels)


@dataclass(frozen=True)
class TaskList:
    """All kernel tasks of a graph."""

    graph: TaskGraph
    tasks: tuple[KernelTask, ...]

    @classmethod
    def of(cls, graph: TaskGraph, config: KernelConfig) -> TaskList:
        """The kernel tasks of `graph`, named by `config`."""
        submitted = sorted(graph.tasks.values(), key=lambda task: task.position)
        running = [task for task in submitted if task.runs_a_kernel]
        return cls(
            graph, tuple(_kernel_task(graph, config, ordinal, task) for ordinal, task in enumerate(running))
        )

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def by_id(self) -> dict[int, KernelTask]:
        """Tasks by the runtime's id."""
        return {task.task.task_id: task for task in self.tasks}

    @property
    def all_bytes(self) -> int:
        """Bytes of a dump of everything."""
        return sum(task.all_bytes for task in self.tasks)

    @cached_property
    def predecessors(self) -> tuple[frozenset[int], ...]:
        """Ordinals of the earlier tasks whose results each task reads, by the regions that both name.

        Edges of the graph count where regions do not tell: all of them in a graph without arguments, else those to the
        task that the runtime allocated a buffer for.
        """
        read: list[set[int]] = [set() for _ in self.tasks]
        for edge in self.graph.edges:
            above, task = self.by_id.get(edge.predecessor), self.by_id.get(edge.successor)
            tells = not self.graph.annotated or edge.source is EdgeSource.CREATOR
            if tells and above is not None and task is not None:
                read[task.ordinal].add(above.ordinal)
        writers: dict[int, list[tuple[int, Region]]] = {}
        for task in self.tasks:
            for tensor, region in regions(task, writing=False):
                read[task.ordinal].update(
                    writer for writer, written in writers.get(tensor, ()) if may_overlap(region, written)
                )
            for tensor, region in regions(task, writing=True):
                left = [(w, old) for w, old in writers.get(tensor, ()) if not covers(region, old)]
                writers[tensor] = [*left, (task.ordinal, region)]
        return tuple(frozenset(read[task.ordinal] - {task.ordinal}) for task in self.tasks)


def regions(task: KernelTask, *, writing: bool) -> list[tuple[int, Region]]:
    """Buffers by id, and the parts of them that a task was declared to read, or to write."""
    return [
        (argument.tensor_id, argument.region)
        for argument in task.task.arguments
        if argument.tensor_id is not None
        and argument.region is not None
        and (argument.type.may_write if writing else argument.type.may_read)
    ]


def may_overlap(first: Region, second: Region) -> bool:
    """Whether two regions of a buffer share an element, or are too large to say."""
    try:
        return overlap(first, second)
    except TooLargeError:
        return True


def _kernel_task(graph: TaskGraph, config: KernelConfig, ordinal: int, task: GraphTask) -> KernelTask:
    ids = [kernel for kernel in task.kernels or () if kernel >= 0]
    names = tuple(
        config.kernels[number].name if number in config.kernels else f"kernel {number}" for number in ids
    )
    # Buffers that the runtime allocated for the task stand in the edges, not in its arguments.
    made = sum(_tensor_bytes(graph, tensor) for tensor in graph.tensors_created_by(task.task_id))
    inputs = sum(_bytes(argument) for argument in task.arguments if not argument.type.may_write)
    results = sum(
        _bytes(argument) * (2 if argument.type.may_read else 1)
        for argument in task.arguments
        if argument.type.may_write
    )
    return KernelTask(
        ordinal=ordinal,
        task=task,
        kernels=names,
        result_bytes=results + made,
        all_bytes=inputs + results + made,
    )


def _bytes(argument: GraphArgument) -> int:
    region = argument.region
    if region is None or region.dtype is None:
        return 0
    return math.prod(region.shape) * region.dtype.itemsize


def _tensor_bytes(graph: TaskGraph, tensor_id: int) -> int:
    tensor = graph.tensors.get(tensor_id)
    if tensor is None or tensor.dtype is None or tensor.buffer_numel is None:
        return 0
    return tensor.buffer_numel * tensor.dtype.itemsize
