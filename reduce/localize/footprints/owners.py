"""Whose memory it is that a task touches: of another tensor in the same buffer, or of another buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....runner.build_output.graph.model import GraphTensor
from ...graph.task_list import KernelTask
from ...replay.placement import ParentBuffer
from ...replay.recorded_build import RecordedBuild
from ...rewrite.argument_names import ArgumentNames
from ...rewrite.geometry import region_of
from .traces import Positions

_MOST_NAMED = 3


@dataclass(frozen=True)
class Owners:
    """Tells in words who owns memory in the run of a build."""

    build: RecordedBuild

    def name(self, task: KernelTask, argument: int) -> str:
        """What the orchestration calls a tensor of a task."""
        return self._names.name_of(task, argument) or f"argument {argument}"

    @cached_property
    def _names(self) -> ArgumentNames:
        return ArgumentNames(self.build.orchestration, self.build.tasks)

    def buffer_id(self, task: KernelTask, buffer: ParentBuffer) -> int | None:
        """The id of a task's buffer in the graph, also where the runtime allocated it; None where it has none."""
        if buffer.tensor_id is not None:
            return buffer.tensor_id
        made = self.build.tasks.graph.tensors_created_by(task.task.task_id)
        return made[0] if len(made) == 1 else None

    def inside(self, task: KernelTask, buffer: ParentBuffer, positions: Positions) -> str:
        """Of elements in a buffer of the task, counted with its guard."""
        tensor_id = self.buffer_id(task, buffer)
        touched = np.zeros(buffer.stop - buffer.start, np.bool_)
        touched[positions - buffer.start] = True
        others = [
            (other, argument.index, argument.type.may_write)
            for other in self.build.tasks.tasks
            for argument in other.task.arguments
            if tensor_id is not None and argument.tensor_id == tensor_id and argument.region is not None
            if other is not task and argument.region.bounds.stop <= touched.size
            if bool(region_of(touched, argument.region).any())
        ]
        if not others:
            return "memory of the buffer that no other task uses"
        return _listed(
            f"{self.name(other, index)}, which task {other.ordinal} ({other.name}) {'writes' if writes else 'reads'}"
            for other, index, writes in others
        )

    def writers(self, task: KernelTask, buffer: ParentBuffer, *, of: int | None) -> str:
        """Who else leaves something in a buffer of the task: in its argument `of`, None: anywhere in the buffer."""
        tensor_id = self.buffer_id(task, buffer)
        region = next((a.region for a in task.task.arguments if of is not None and a.index == of), None)
        wanted = range(buffer.stop) if region is None else region.bounds
        named = [
            f"task {other.ordinal} ({other.name})"
            for other in self.build.tasks.tasks
            for argument in other.task.arguments
            if tensor_id is not None and argument.tensor_id == tensor_id and argument.type.may_write
            if other is not task and argument.region is not None
            if argument.region.bounds.start < wanted.stop and wanted.start < argument.region.bounds.stop
        ]
        return f"what {_listed(dict.fromkeys(named))} left" if named else "what no task writes: uninitialised"

    def beyond(self, task: KernelTask, buffer: ParentBuffer, position: int) -> str:
        """Of an element outside of a buffer of the task, by the addresses of the run that recorded the graph."""
        tensors = self.build.tasks.graph.tensors
        own = tensors.get(self.buffer_id(task, buffer) or 0)
        if own is None:
            return "memory outside of the buffer"
        address = own.buffer_address + (position - buffer.start) * buffer.dtype.itemsize
        hit = next((tensor for tensor in tensors.values() if _holds(tensor, address)), None)
        return "memory of no tensor" if hit is None else f"the buffer of {self._named(hit)}"

    def _named(self, tensor: GraphTensor) -> str:
        for task in self.build.tasks.tasks:
            for argument in task.task.arguments:
                if argument.tensor_id == tensor.tensor_id:
                    return f"{self.name(task, argument.index)} of task {task.ordinal} ({task.name})"
        return "a tensor that no task uses"


def _holds(tensor: GraphTensor, address: int) -> bool:
    if tensor.dtype is None or tensor.buffer_numel is None:
        return False
    return 0 <= address - tensor.buffer_address < tensor.buffer_numel * tensor.dtype.itemsize


def _listed(texts: Iterable[str]) -> str:
    named: Sequence[str] = list(dict.fromkeys(texts))
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return "; ".join(named[:_MOST_NAMED]) + more
