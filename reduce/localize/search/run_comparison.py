"""One run of the failing build beside what it should have left: which of its tasks diverge."""

from __future__ import annotations

from dataclasses import dataclass

from ....runner.build_output.args.dump import ArgsDump
from ....runner.compare.statistics.statistics import Tolerance
from ...graph.task_list import TaskList
from ...replay.comparison import differs, distance, results_of, values_of
from ..attribution.attribution import DivergentTask
from ..references.reference import Expectation, ExpectedValues


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """What one run has dumped, and what its tasks should have left."""

    tasks: TaskList
    """Of the failing build."""
    values: ExpectedValues
    dump: ArgsDump
    expectation: Expectation
    tolerance: Tolerance

    def error_of(self, ordinal: int) -> float | None:
        """The largest relative L2 error of what a task left; None where nothing differs.

        Raises:
            NotWholeError: not all of it was dumped whole.
        """
        actual = results_of(self.dump, self.tasks.tasks[ordinal])
        expected = self.expectation.results_of(ordinal)
        if not any(differs(actual[index], view, self.tolerance) for index, view in expected.items()):
            return None
        return max(distance(actual[index], view) for index, view in expected.items())

    def divergent(self, ordinal: int) -> DivergentTask | None:
        """A task with all its values, where what it left differs; None where nothing does.

        Raises:
            NotWholeError: not all of its arguments were dumped whole.
        """
        task = self.tasks.tasks[ordinal]
        actual, expected = values_of(self.dump, task), self.expectation.values_of(ordinal)
        if not any(
            differs(actual.after[index], view, self.tolerance) for index, view in expected.after.items()
        ):
            return None
        return DivergentTask(
            task=task,
            counterpart=self.values.counterpart_of(ordinal),
            actual=actual,
            expected=expected,
        )

    def inputs_differ(self, divergent: DivergentTask) -> bool:
        """Whether what a task read is not what it should have read, as far as that is known."""
        actual, expected = divergent.actual.before, divergent.expected.before
        return any(
            differs(actual[index], expected[index], self.tolerance)
            for index in actual.keys() & expected.keys()
        )
