"""What an orchestration calls the tensors of the tasks of a run, also where its text alone leaves several names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from ...runner.build_output.orchestration.model import Submit
from ...runner.build_output.orchestration.orchestration import Orchestration
from ..graph.task_list import KernelTask, TaskList
from ..graph.tensor_names import tensor_names
from .single_task import submits_of


@dataclass(frozen=True)
class ArgumentNames:
    """Names of tensors by task and argument. Of several submits that may have made a task, those count whose
    tensors are all what others call the buffers that the task was given."""

    orchestration: Orchestration
    tasks: TaskList

    def name_of(self, task: KernelTask, argument: int) -> str | None:
        """The tensor that an argument is, or is a view of; None where several names are left, or none."""
        names = self._names(task, argument, self._of_buffers)
        return next(iter(names)) if len(names) == 1 else None

    @cached_property
    def _of_buffers(self) -> Mapping[int, Set[str]]:
        """What the tasks call each buffer whose submit is told by the text, or by what is known of their buffers."""
        known: dict[int, set[str]] = {}
        while True:
            more = {
                (argument.tensor_id, name)
                for task in self.tasks.tasks
                for argument in task.task.arguments
                if argument.tensor_id is not None
                and len(names := self._names(task, argument.index, known)) == 1
                for name in names
                if name not in known.get(argument.tensor_id, ())
            }
            if not more:
                return known
            for buffer, name in more:
                known.setdefault(buffer, set()).add(name)

    @cached_property
    def _submits(self) -> Sequence[Sequence[Submit]]:
        """Those that may have made each task, by their text."""
        return [submits_of(self.orchestration, task) for task in self.tasks.tasks]

    def _names(self, task: KernelTask, argument: int, known: Mapping[int, Set[str]]) -> Set[str]:
        """What the submits call an argument that may have made its task, by the names that are known of its buffers."""
        submits = self._submits[task.ordinal]
        if len(submits) > 1:
            submits = tuple(submit for submit in submits if self._fits(submit, task, known))
        return tensor_names(self.orchestration, submits, argument)

    def _fits(self, submit: Submit, task: KernelTask, known: Mapping[int, Set[str]]) -> bool:
        return all(
            tensor_names(self.orchestration, [submit], argument.index) <= known[argument.tensor_id]
            for argument in task.task.arguments
            if argument.tensor_id is not None and argument.tensor_id in known
        )
