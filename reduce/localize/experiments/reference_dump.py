"""What one run of a reference build has dumped."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from ....runner.build_output.args.dump import ArgsDump
from ....runner.tensor.view import TensorView
from ...graph.alignment import Alignment
from ...graph.task_list import KernelTask, TaskList
from ...replay.comparison import TaskValues, results_of, values_of


@dataclass(frozen=True, kw_only=True)
class ReferenceDump:
    """The dump, asked for by ordinals of the failing build, whose tasks are `failing`."""

    failing: TaskList
    reference: TaskList
    alignment: Alignment
    dump: ArgsDump

    def results_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """What the counterpart left in the arguments that both tasks write: one may be declared otherwise. Raises
        `NotWholeError` where that was not dumped whole."""
        return self._of_both(ordinal, results_of(self.dump, self._counterpart_of(ordinal)))

    def values_of(self, ordinal: int) -> TaskValues:
        """What the counterpart read and left. Raises as `results_of`."""
        values = values_of(self.dump, self._counterpart_of(ordinal))
        return replace(values, after=self._of_both(ordinal, values.after))

    def inputs_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """What the counterpart read. Raises as `results_of`."""
        return self.values_of(ordinal).before

    def _counterpart_of(self, ordinal: int) -> KernelTask:
        return self.reference.tasks[self.alignment.reference_of[ordinal]]

    def _of_both(self, ordinal: int, left: Mapping[int, TensorView]) -> Mapping[int, TensorView]:
        both = written_by_both(self.failing.tasks[ordinal], self._counterpart_of(ordinal))
        return {index: view for index, view in left.items() if index in both}


def written_by_both(task: KernelTask, counterpart: KernelTask) -> Set[int]:
    """The arguments that both tasks are declared to write."""
    return _written(task) & _written(counterpart)


def _written(task: KernelTask) -> Set[int]:
    return {argument.index for argument in task.task.arguments if argument.type.may_write}
