"""The verdict on a divergent task where values alone are known: its kernel, alone on the inputs it should have had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....runner.build_output.files.errors import BuildOutputError
from ....runner.compare.statistics.statistics import Tolerance
from ....runner.errors import UserError
from ....runner.tensor.view import TensorView
from ...replay.comparison import SIGN_OF_ZERO, NotWholeError
from ...replay.recorded_build import RecordedBuild
from ...replay.task_replay import Fill, GivenTask, TaskAlone
from ..experiments.experiment import RunAlone, Steps, Tell
from .attribution import READS_MORE, Attribution, DivergentTask, distance_of_inputs, largest_error
from .kept_state import state_kept
from .task_class import TaskClass, told


@dataclass(frozen=True, kw_only=True)
class KnownInputs:
    """Tells where errors come from, by running tasks of the failing build alone."""

    failing: RecordedBuild
    tolerance: Tolerance

    def attribute_all(self, divergent: Sequence[DivergentTask]) -> Steps[tuple[Attribution, ...]]:
        """One verdict a task, each run alone: what is known of the inputs differs from task to task."""
        attributions: list[Attribution] = []
        for each in divergent:
            attributions += [(yield from self.attribute(each))]
        return tuple(attributions)

    def attribute(self, divergent: DivergentTask, *, inputs_diverge: bool = False) -> Steps[Attribution]:
        """Measure a task in runs of it alone, two where it is right; unknown where its right inputs are."""
        right = divergent.right_inputs
        if right is None:
            return Attribution.without_distances(
                TaskClass.UNKNOWN,
                "not all values that it should read are known: the error may have come with them",
            )
        yield from Tell(f"running {divergent.task.name} alone")
        actual, expected = divergent.actual, divergent.expected.after
        try:
            alone = TaskAlone.of(self.failing, divergent.task, actual)
            (left,) = yield from RunAlone(tasks=(GivenTask.of(alone, right, Fill.LOW),))
            if missed := self._error(left.results, expected):
                (left,) = yield from RunAlone(tasks=(GivenTask.of(alone, right, Fill.ZERO),))
                reads = "" if self._error(left.results, expected) else f"; {READS_MORE}"
                return Attribution.without_distances(
                    TaskClass.INTRODUCED,
                    f"alone on the known inputs the kernel misses the known result by {told(missed)}{reads}",
                )
            (left,) = yield from RunAlone(tasks=(GivenTask.of(alone, actual.before, Fill.LOW),))
            if self._error(left.results, expected):
                return Attribution(
                    task_class=TaskClass.INHERITED,
                    distances=None,
                    reason="alone on the known inputs the kernel is right, on those of the run it is not: these bring "
                    "the error",
                    by_sign_of_zero=distance_of_inputs(actual.before, right) == SIGN_OF_ZERO,
                )
            if (kept := (yield from state_kept(self.failing, alone, divergent, Fill.LOW))) is not None:
                return kept
        except (UserError, BuildOutputError, NotWholeError) as error:
            return Attribution.without_distances(TaskClass.UNKNOWN, str(error))
        if alone.placement.inexact:
            return Attribution.without_distances(
                TaskClass.UNKNOWN,
                f"alone the kernel is right, but not where its tensors lay: {alone.placement.inexact}",
            )
        return Attribution.without_distances(
            TaskClass.INTERACTION, "alone the kernel is right, on the known inputs and on those of the run"
        )

    def _error(self, results: Mapping[int, TensorView], expected: Mapping[int, TensorView]) -> float:
        """The largest relative L2 error of a tensor that is off; 0 where none is."""
        return largest_error(results, expected, self.tolerance, beyond=True)
