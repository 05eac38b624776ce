"""What an orchestration calls the tensors of the tasks of a run, also where its text alone leaves several names."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from ...runner.build_output.orchestration.orchestration import Orchestration
from ..graph.task_list import KernelTask, TaskList
from ..graph.tensor_names import tensor_names
from .single_task import submits_of


@dataclass(frozen=True)
class ArgumentNames:
    """Names of tensors by task and argument. Of several submits that may have made a task, the ones count whose tensor
    is what others call the buffer that the task was given."""

    orchestration: Orchestration
    tasks: TaskList

    def name_of(self, task: KernelTask, argument: int) -> str | None:
        """The tensor that an argument is, or is a view of; None where several names are left, or none."""
        names = set(self._told_by_text(task, argument))
        if len(names) > 1:
            buffers = [each.tensor_id for each in task.task.arguments if each.index == argument]
            known = (self._of_buffers.get(buffer, set[str]()) for buffer in buffers if buffer is not None)
            names = names.intersection(*known)
        return next(iter(names)) if len(names) == 1 else None

    @cached_property
    def _of_buffers(self) -> Mapping[int, Set[str]]:
        """What tasks that are told by the text call each buffer."""
        known: dict[int, set[str]] = {}
        for task in self.tasks.tasks:
            for argument in task.task.arguments:
                names = self._told_by_text(task, argument.index)
                if argument.tensor_id is not None and len(names) == 1:
                    known.setdefault(argument.tensor_id, set()).update(names)
        return known

    def _told_by_text(self, task: KernelTask, argument: int) -> Set[str]:
        return tensor_names(self.orchestration, submits_of(self.orchestration, task), argument)
