"""Which tasks write to a buffer between the task that should fill it and one that reads it."""

from __future__ import annotations

from ...runner.build_output.graph.model import GraphArgument
from .alignment import Alignment
from .task_list import KernelTask, TaskList, may_overlap, regions


def intruders(
    failing: TaskList, reference: TaskList, alignment: Alignment, *, reader: KernelTask, argument: int
) -> tuple[KernelTask, ...]:
    """Earlier tasks that write what `reader` has as argument `argument`, and do not in the reference; where some come
    after the task that should have written it, these alone.

    A buffer that the compiler gave to two tensors at once shows itself by that.
    """
    counterpart = reference.tasks[alignment.reference_of[reader.ordinal]]
    writers = writers_before(failing, reader, argument)
    right_writers = writers_before(reference, counterpart, argument)
    strange = [ordinal for ordinal in writers if alignment.reference_of.get(ordinal) not in right_writers]
    last_right = max((ordinal for ordinal in writers if ordinal not in strange), default=-1)
    after = [ordinal for ordinal in strange if ordinal > last_right]
    return tuple(failing.tasks[ordinal] for ordinal in after or strange)


def writers_before(tasks: TaskList, reader: KernelTask, argument: int) -> list[int]:
    """Ordinals of the earlier tasks that write into an argument of `reader`."""
    read = _argument(reader, argument)
    if read is None or read.tensor_id is None or read.region is None:
        return []
    return [
        task.ordinal
        for task in tasks.tasks[: reader.ordinal]
        if any(
            tensor == read.tensor_id and may_overlap(region, read.region)
            for tensor, region in regions(task, writing=True)
        )
    ]


def _argument(task: KernelTask, index: int) -> GraphArgument | None:
    return next((argument for argument in task.task.arguments if argument.index == index), None)
