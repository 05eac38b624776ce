"""One run of the failing build beside what it should have left: which of its tasks diverge."""

from __future__ import annotations

from dataclasses import dataclass

from ....runner.compare.statistics.statistics import Tolerance
from ...graph.task_list import TaskList
from ...replay.comparison import differs, distance, results_of, values_of
from ..attribution.attribution import DivergentTask
from ..experiments.experiment import Dumped
from ..references.reference import ExpectedValues


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """What one run has dumped, and what its tasks should have left."""

    tasks: TaskList
    """Of the failing build."""
    values: ExpectedValues
    dumped: Dumped
    tolerance: Tolerance
    harness: Tolerance | None
    """The case's own; None where it is not known."""

    def error_of(self, ordinal: int) -> float | None:
        """The largest relative L2 error of what a task left; None where nothing differs.

        Raises:
            NotWholeError: not all of it was dumped whole.
        """
        actual = results_of(self.dumped.actual, self.tasks.tasks[ordinal])
        expected = self.dumped.expected.results_of(ordinal)
        if not any(differs(actual[index], view, self.tolerance) for index, view in expected.items()):
            return None
        signed = self.tolerance.signed_zeros
        return max(distance(actual[index], view, signed_zeros=signed) for index, view in expected.items())

    def divergent(self, ordinal: int) -> DivergentTask | None:
        """A task with all its values, where what it left differs; None where nothing does.

        Raises:
            NotWholeError: not all of its arguments were dumped whole.
        """
        task = self.tasks.tasks[ordinal]
        actual, expected = values_of(self.dumped.actual, task), self.dumped.expected.values_of(ordinal)

        def is_off_by(tolerance: Tolerance) -> bool:
            return any(
                differs(actual.after[index], view, tolerance) for index, view in expected.after.items()
            )

        if not is_off_by(self.tolerance):
            return None
        return DivergentTask(
            task=task,
            counterpart=self.values.counterpart_of(ordinal),
            dumped=self.dumped,
            exceeds_harness=self.harness is None or is_off_by(self.harness),
        )

    def inputs_differ(self, divergent: DivergentTask) -> bool:
        """Whether what a task read is not what it should have read, as far as that is known."""
        actual, expected = divergent.actual.before, divergent.expected.before
        return any(
            differs(actual[index], expected[index], self.tolerance)
            for index in actual.keys() & expected.keys()
        )
