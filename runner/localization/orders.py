"""What the order of tasks has to do with a failure, as `divergence.json` tells it: missing edges, and trials."""

from collections.abc import Mapping
from typing import Literal

from .part import DocumentPart

AS_IT_IS = "as it is"
"""In place of a schedule of the stack file: nothing is asked of the runtime."""


class UnorderedTasks(DocumentPart):
    """Two tasks that touch the same elements, one writing, with no path between them in the failing build."""

    before_task_id: str = ""
    before_kernel: str
    before_argument: int | None = None
    after_task_id: str = ""
    after_kernel: str
    after_argument: int | None = None
    hazard: Literal["read after write", "write after read", "write after write"]
    cause: str
    ordered_in_reference: bool | None = None
    """Whether the reference orders the two; null where one of them has no counterpart, or there is no other build."""


class OrderTrial(DocumentPart):
    """Runs of the failing build under one schedule of the stack file, on the same data."""

    schedule: str
    variables: Mapping[str, str]
    runs: int
    failed: int
    """Of them, with other outputs than the reference."""
    stopped: int
    """Of them, without outputs that can be read: crashed, stalled, or out of time."""
    reference_runs: int = 0
    """Of a good build under it, in turns with the failing one, until its outputs were wrong too, or it would have shown
    with 99 % if they were wrong as often."""
    reference_fails: bool | None = None
    """Whether a good build has wrong outputs under it too; null where none was run, it did not get to them, or all its
    runs were right and too few to tell."""

    @property
    def may_be_of_both(self) -> bool:
        """Whether a good build fails under it too, or was run and not shown not to: nothing that differs is blamed."""
        return self.reference_runs > 0 and self.reference_fails is not False

    @property
    def least_rate_shown(self) -> float:
        """The least share of runs that fail which would have shown in as many as these, with 99 %: r of
        (1 - r)^runs = 0.01."""
        return 1 - 0.01 ** (1 / self.runs)

    @property
    def passed(self) -> int:
        """Runs that put out what the reference does."""
        return self.runs - self.failed - self.stopped


class OrderConfirmation(DocumentPart):
    """Fresh runs of an order that had failed and of one that had passed, in turns, until one does otherwise."""

    failing: OrderTrial
    passing: OrderTrial

    @property
    def holds(self) -> bool:
        """Whether the one failed in all of them, and the other passed in all."""
        return self.failing.failed == self.failing.runs and self.passing.passed == self.passing.runs


class Race(DocumentPart):
    """Looked for where an edge is missing, or a task goes wrong that is right alone."""

    confirmed: bool
    """One order fails and another passes on the same data, in all of several fresh runs each."""
    trials: tuple[OrderTrial, ...] = ()
    confirmation: OrderConfirmation | None = None
    """Null where no order failed in all its trials, or none passed in all."""
