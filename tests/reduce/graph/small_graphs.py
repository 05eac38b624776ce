"""Task graphs of a few calls: kernels that read and write parts of named buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from precision_bisect.reduce.graph.tasks import KernelTask, TaskList
from precision_bisect.runner.build_output.task_graph import (
    ArgumentType,
    Edge,
    EdgeSource,
    GraphArgument,
    GraphTask,
    Region,
    TaskGraph,
)
from precision_bisect.runner.tensor import DType


@dataclass(frozen=True, kw_only=True)
class _Calls:
    reads: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    writes: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    size: int = 8
    waits_for: tuple[int, ...] = ()
    updates: bool = False


@dataclass(frozen=True)
class Call(_Calls):
    """A task of a kernel: buffers with the offsets of `size` elements, and the calls that it waits for."""

    kernel: str


def name_of(calls: Sequence[Call]) -> Any:
    """The buffer of an argument, by task and index."""

    def name(task: KernelTask, index: int) -> str:
        call = calls[task.ordinal]
        return [*call.reads, *call.writes][index][0]

    return name


def task_list(calls: Sequence[Call], *, first_id: int = 0) -> TaskList:
    """The tasks of the calls, one after the other; buffers are numbered from `first_id`, as they come."""
    buffers: dict[str, int] = {}
    tasks: list[KernelTask] = []
    for ordinal, call in enumerate(calls):
        arguments = tuple(
            GraphArgument(
                index=index,
                type=_type(call, index),
                tensor_id=first_id + buffers.setdefault(name, len(buffers)),
                region=Region(dtype=DType.FLOAT32, shape=(call.size,), strides=(1,), start_offset=offset),
            )
            for index, (name, offset) in enumerate([*call.reads, *call.writes])
        )
        task = GraphTask(
            task_id=ordinal,
            position=ordinal,
            kernels=(-1, 0, -1),
            in_manual_scope=False,
            blocks=1,
            arguments=arguments,
        )
        tasks.append(
            KernelTask(ordinal=ordinal, task=task, kernels=(call.kernel,), result_bytes=4, all_bytes=8)
        )
    edges = tuple(
        Edge(
            predecessor=before,
            successor=ordinal,
            argument=None,
            source=EdgeSource.TENSORMAP,
            tensor_id=None,
        )
        for ordinal, call in enumerate(calls)
        for before in call.waits_for
    )
    graph = TaskGraph(
        tasks={each.task.task_id: each.task for each in tasks},
        tensors={},
        edges=edges,
        annotated=True,
        unlisted=frozenset(),
    )
    return TaskList(cast("Any", graph), tuple(tasks))


def _type(call: Call, index: int) -> ArgumentType:
    if index < len(call.reads):
        return ArgumentType.INPUT
    return ArgumentType.INOUT if call.updates else ArgumentType.OUTPUT_EXISTING
