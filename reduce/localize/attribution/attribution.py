"""Where the error in a divergent task's results comes from, and what is asked to find out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ....runner.compare.statistics.statistics import Tolerance
from ....runner.localization.footprints import TaskFootprint
from ....runner.tensor.view import TensorView
from ...graph.task_list import KernelTask
from ...replay.comparison import TaskValues, differs, distance, values_of
from ..experiments.experiment import Dumped, Steps
from .task_class import Distances, TaskClass

READS_MORE = "where all memory around its tensors holds zeros it is right: it reads what it was not given"
"""Of a task that misses its result where that memory is poisoned."""


@dataclass(frozen=True, kw_only=True)
class DivergentTask:
    """A task that left something else than it should, in the run that was `dumped`, all its arguments whole.

    `counterpart` is the same task of the reference; None where no reference is run. Values are read from the dump each
    time they are asked for: those of all divergent tasks may be more than memory holds.
    """

    task: KernelTask
    counterpart: KernelTask | None
    dumped: Dumped
    exceeds_harness: bool
    """Whether it is over the case's own tolerance too, or that is not known."""

    @property
    def actual(self) -> TaskValues:
        """All its values in the run."""
        return values_of(self.dumped.actual, self.task)

    @property
    def expected(self) -> TaskValues:
        """What is known of the right ones."""
        return self.dumped.expected.values_of(self.task.ordinal)

    @property
    def right_inputs(self) -> Mapping[int, TensorView] | None:
        """All tensors that it should have read; None where one of them is not known."""
        return self.dumped.expected.inputs_of(self.task.ordinal)


def distance_of_inputs(actual: Mapping[int, TensorView], right: Mapping[int, TensorView]) -> float:
    """The largest relative L2 error of a tensor that a task read, of those that are in both; signs of zeros count."""
    read = [(actual[index], right[index]) for index in actual.keys() & right.keys()]
    return max((distance(*pair, signed_zeros=True) for pair in read), default=0.0)


def largest_error(
    results: Mapping[int, TensorView],
    expected: Mapping[int, TensorView],
    tolerance: Tolerance,
    *,
    beyond: bool = False,
) -> float:
    """The largest relative L2 error of a tensor; with `beyond`, of those that are beyond the tolerance."""
    errors = (
        distance(results[index], view, signed_zeros=tolerance.signed_zeros)
        for index, view in expected.items()
        if not beyond or differs(results[index], view, tolerance)
    )
    return max(errors, default=0.0)


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """The class of a task, the distances behind it (None where they could not be measured), and why in words.

    `writers` are tasks that write outside of their tensors, where such a one may have made the error. With
    `by_sign_of_zero` the task is off because -0.0 stands for 0.0 in what it reads, and nothing else does.
    """

    task_class: TaskClass
    distances: Distances | None
    reason: str
    writers: tuple[TaskFootprint, ...] = ()
    by_sign_of_zero: bool = False

    @classmethod
    def without_distances(cls, task_class: TaskClass, reason: str) -> Attribution:
        """Of a task of which distances were not, or could not be, measured."""
        return cls(task_class=task_class, distances=None, reason=reason)

    @property
    def above_floor(self) -> bool | None:
        """Whether the error is larger than what one unit in the last place of every input does."""
        return None if self.distances is None else self.distances.out > self.distances.floor


class Attributor(Protocol):
    """Tells where errors come from, by tasks that it asks to be run alone."""

    def attribute(self, divergent: DivergentTask, *, inputs_diverge: bool = False) -> Steps[Attribution]:
        """The verdict on one task, `UNKNOWN` where it could not be measured.

        `inputs_diverge`: tasks before it are known to diverge too, so that wrong inputs are no surprise.
        """
        ...

    def attribute_all(self, divergent: Sequence[DivergentTask]) -> Steps[tuple[Attribution, ...]]:
        """One verdict a task, in their order; one run may speak for several tasks."""
        ...
