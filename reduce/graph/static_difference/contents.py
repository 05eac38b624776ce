"""Which tasks read the result of another task than they do in the reference: a buffer of two tensors, an order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....runner.build_output.graph.model import GraphArgument
from ..task_list import KernelTask, TaskList
from .buffers import LastWriters, aligned


@dataclass(frozen=True, kw_only=True)
class OtherContents:
    """An argument of `task` that holds what `writer` has left there, and in the reference what `right_writer` has; None
    is what the case was given, or nothing. `right_writer` is a task of the reference."""

    task: KernelTask
    counterpart: KernelTask
    argument: int
    writer: KernelTask | None
    right_writer: KernelTask | None

    def in_words(self, label: str) -> str:
        """A sentence, of the argument as `label` calls it."""
        return (
            f"task {self.task.ordinal} {self.task.name}: {label} holds {_left_by(self.writer)}, "
            f"was {_left_by(self.right_writer)}"
        )


def other_contents(
    failing: TaskList, reference: TaskList, pairs: Mapping[int, int]
) -> Iterator[OtherContents]:
    """All such arguments, of the tasks that correspond by `pairs` of ordinals, failing to reference. What lies in other
    rows or columns is left out: it is of other tasks for that."""
    writers, right_writers = LastWriters(failing), LastWriters(reference)
    for ordinal, counterpart in pairs.items():
        task, other = failing.tasks[ordinal], reference.tasks[counterpart]
        for ours, theirs in zip(task.task.arguments, other.task.arguments, strict=False):
            if not _is_read_alike(ours, theirs):
                continue
            writer = writers.before(task, ours.index)
            right_writer = right_writers.before(other, theirs.index)
            if aligned(writer, pairs) != right_writer or (writer is None) != (right_writer is None):
                yield OtherContents(
                    task=task,
                    counterpart=other,
                    argument=ours.index,
                    writer=None if writer is None else failing.tasks[writer],
                    right_writer=None if right_writer is None else reference.tasks[right_writer],
                )


def _is_read_alike(ours: GraphArgument, theirs: GraphArgument) -> bool:
    return (
        ours.type is theirs.type
        and ours.type.may_read
        and None not in (ours.tensor_id, theirs.tensor_id, ours.region, theirs.region)
        and ours.region == theirs.region
    )


def _left_by(writer: KernelTask | None) -> str:
    return "what no task wrote" if writer is None else f"what task {writer.ordinal} {writer.name} wrote"
