"""Which statements of an orchestration may have made a task, and what they call its tensors.

`find_submits` finds the statements. A statement names each tensor of its task: `tensor_name` follows views back to that
name. `ArgumentNames` also finds names where the text alone allows several statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from ...runner.build_output.orchestration import ENTRY_PREFIX, Orchestration, Origin, Submit, Usage
from ...runner.build_output.task_graph import ArgumentType
from .tasks import KernelTask, TaskList

USAGES = {
    ArgumentType.INPUT: Usage.INPUT,
    ArgumentType.OUTPUT: Usage.OUTPUT,
    ArgumentType.OUTPUT_EXISTING: Usage.OUTPUT,
    ArgumentType.INOUT: Usage.INOUT,
    ArgumentType.UNKNOWN: Usage.NO_DEPENDENCY,
}


def find_submits(orchestration: Orchestration, task: KernelTask) -> tuple[Submit, ...]:
    """The submits in the text that may have made a task: those of its kernels and with its kinds of tensors.

    If each submit of the text makes one task, only the submit at the task's place is returned.
    """
    kernels = tuple(number for number in task.task.kernels or () if number >= 0)
    call = kernels, tuple(USAGES[argument.type] for argument in task.task.arguments)
    line = orchestration.straight_line_submits
    if task.ordinal < len(line) and line[task.ordinal].call == call:
        return (line[task.ordinal],)
    return orchestration.submits_by_call.get(call, ())


def submit_lines(orchestration: Orchestration, submits: Sequence[Submit]) -> tuple[int, ...]:
    """The line number of each submit, from 1."""
    return tuple(orchestration.source.count(b"\n", 0, submit.statement.start) + 1 for submit in submits)


def tensor_name(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> str | None:
    """The tensor that argument `argument` is, or is a view of; None where the submits do not agree on one."""
    names = tensor_names(orchestration, submits, argument)
    return names.pop() if len(names) == 1 else None


def tensor_names(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> set[str]:
    """The tensors that argument `argument` may be, or may be a view of, one for each of the submits."""
    return {
        _root(orchestration, submit.tensor_arguments[argument].text)
        for submit in submits
        if argument < len(submit.tensor_arguments)
    }


def entry_tensor(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> str | None:
    """The name that `tensor_name` returns, where that tensor is an argument of the orchestration.

    None where it is not one, or not surely one.
    """
    name = tensor_name(orchestration, submits, argument)
    return name if name in orchestration.entry_names else None


def _root(orchestration: Orchestration, text: str) -> str:
    """The tensor behind views and aliases, without the prefix that generated code gives to entry arguments."""
    bound = orchestration.tensors_by_name
    seen: set[str] = set()
    while text in bound and text not in seen and bound[text].origin in (Origin.VIEW, Origin.ALIAS):
        seen.add(text)
        # A view of a view is spelled `tensor.view(...).transpose(...)`.
        text = bound[text].base.partition(".")[0].strip()
    return text.removeprefix(ENTRY_PREFIX) if text in bound and bound[text].origin is Origin.ENTRY else text


@dataclass(frozen=True)
class ArgumentNames:
    """Names of tensors by task and argument.

    Several submits may have made a task. Then only those count whose tensor names agree with other tasks' names of the
    same buffers.
    """

    orchestration: Orchestration
    tasks: TaskList

    def name_of(self, task: KernelTask, argument: int) -> str | None:
        """The name of the tensor that an argument is, or is a view of. None if no name is left, or several are."""
        names = self._names(task, argument, self._buffer_names)
        return next(iter(names)) if len(names) == 1 else None

    @cached_property
    def _buffer_names(self) -> Mapping[int, Set[str]]:
        """Return the names of each buffer. They come from tasks whose submit is known by the text, or by buffer names
        that are known already."""
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
        """Return the submits that may have made each task, by their text."""
        return [find_submits(self.orchestration, task) for task in self.tasks.tasks]

    def _names(self, task: KernelTask, argument: int, known: Mapping[int, Set[str]]) -> Set[str]:
        """The names of an argument in the submits that may have made its task. `known` names of its buffers exclude
        some submits."""
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
