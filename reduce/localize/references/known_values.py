"""What the failing build's tasks should leave, by the names of tensors: recorded values and golden outputs."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from ....runner.build_output.golden_data import GoldenData, TensorFolder
from ....runner.build_output.graph.model import GraphArgument
from ....runner.compare.statistics.statistics import Tolerance
from ....runner.errors import UserError
from ....runner.tensor.view import TensorView
from ...graph.dag import Dag
from ...graph.shared_graph import graph_of
from ...graph.task_list import KernelTask, may_overlap
from ...graph.tensor_names import entry_tensor
from ...replay.comparison import TaskValues
from ...replay.recorded_build import RecordedBuild
from ...rewrite.single_task import submits_of
from ..attribution.known_inputs import KnownInputs
from .final_outputs import part_of
from .matching import match_values


@dataclass(frozen=True, kw_only=True)
class KnownValues:
    """What tasks should leave, by ordinal and argument index, as far as it is known.

    Only what no later task writes over is: a value tells what a tensor holds in the end.
    """

    failing: RecordedBuild
    expected: Mapping[int, Mapping[int, TensorView]]
    recorded: TensorFolder | None
    not_compared: tuple[str, ...]
    """Recorded tensors with which nothing can be compared, and why."""
    compared: tuple[int, ...]
    dag: Dag
    complete: bool = False
    runs: int = 0
    good: None = None
    unaligned: tuple[KernelTask, ...] = ()
    unaligned_reference: tuple[KernelTask, ...] = ()

    @classmethod
    def of(cls, failing: RecordedBuild, recorded: TensorFolder | None) -> KnownValues:
        """The golden outputs of the build's data, and `recorded` tensors by their names in the orchestration.

        Raises:
            BuildOutputError: a file is no tensor.
            UserError: nothing can be compared.
        """
        matched = match_values(failing, recorded)
        expected = matched.expected
        if not expected:
            raise UserError(
                f"{failing.build}: expected outputs whose last writers can be told, found none; use --reference"
            )
        compared = tuple(sorted(expected))
        return cls(
            failing=failing,
            expected=expected,
            recorded=recorded,
            not_compared=matched.not_compared,
            compared=compared,
            dag=graph_of(failing.tasks, compared),
        )

    @property
    def all_bytes(self) -> int:
        """Bytes of a dump of everything."""
        return self.failing.tasks.all_bytes

    @property
    def outputs(self) -> TensorFolder:
        """The golden outputs."""
        return GoldenData.open(self.failing.data).outputs

    def against(self, failing: RecordedBuild) -> KnownValues:
        """The same values, as results of another failing build. Raises as `of`."""
        return KnownValues.of(failing, self.recorded)

    def orders(self, before: int, after: int) -> None:
        """None: there is no other build that could."""

    def known_divergent(self, tolerance: Tolerance) -> Mapping[int, bool]:
        """None: the tasks that wrote the outputs are dumped like the others."""
        return {}

    def counterpart_of(self, ordinal: int) -> None:
        """None: there is no other build."""

    def dump(self, *, results: Set[int], whole: Set[int]) -> KnownValues:
        """These values, which are known without a run."""
        return self

    def dump_everything(self) -> KnownValues:
        """These values, which are known without a run."""
        return self

    def results_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """What a task should leave, as far as it is known."""
        return self.expected[ordinal]

    def values_of(self, ordinal: int) -> TaskValues:
        """What a task should leave; what it should read is not compared."""
        return TaskValues(before={}, after=self.expected[ordinal], scalars={})

    def attributor(self, tolerance: Tolerance) -> KnownInputs:
        """Tells where errors come from, by the failing build's kernels, where their right inputs are known."""
        return KnownInputs(failing=self.failing, tolerance=tolerance)

    def unknown_above(self, ordinals: Set[int]) -> tuple[KernelTask, ...]:
        """Tasks before some, up to those all of whose results are known to be right."""
        predecessors = self.failing.tasks.predecessors
        reached: set[int] = set()
        left = [above for ordinal in ordinals for above in predecessors[ordinal]]
        while left:
            ordinal = left.pop()
            if ordinal in reached or self._tells_all_of(ordinal):
                continue
            reached.add(ordinal)
            left += predecessors[ordinal]
        return tuple(self.failing.tasks.tasks[ordinal] for ordinal in sorted(reached))

    def _tells_all_of(self, ordinal: int) -> bool:
        """Whether all that a task leaves is known."""
        return all(
            argument.index in self.expected.get(ordinal, {})
            for argument in self.failing.tasks.tasks[ordinal].task.arguments
            if argument.type.may_write
        )

    def inputs_of(self, ordinal: int) -> Mapping[int, TensorView] | None:
        """All tensors that a task should read; None where one of them is not known."""
        task = self.failing.tasks.tasks[ordinal]
        inputs: dict[int, TensorView] = {}
        for argument in task.task.arguments:
            if argument.type.may_read:
                value = self._input(task, argument)
                if value is None:
                    return None
                inputs[argument.index] = value
        return inputs

    def _input(self, task: KernelTask, argument: GraphArgument) -> TensorView | None:
        region = argument.region
        writers = [
            (other, written)
            for other in self.failing.tasks.tasks
            for written in other.task.arguments
            if region is not None
            and written.type.may_write
            and written.tensor_id == argument.tensor_id
            and written.region is not None
            and may_overlap(written.region, region)
        ]
        if region is None or len(writers) > 1:
            return None
        if writers:
            # One writer of the very same part, before the task: what it left is what the task reads.
            other, written = writers[0]
            same = other.ordinal < task.ordinal and written.region == region
            return self.expected.get(other.ordinal, {}).get(written.index) if same else None
        inputs = GoldenData.open(self.failing.data).inputs
        orchestration = self.failing.orchestration
        name = entry_tensor(orchestration, submits_of(orchestration, task), argument.index)
        return part_of(inputs.tensor(name), region) if name in inputs.names else None
