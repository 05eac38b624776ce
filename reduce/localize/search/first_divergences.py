"""What a search for the first divergent tasks has found."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from ...graph.task_list import KernelTask
from ..attribution.attribution import Attribution, DivergentTask
from ..attribution.task_class import TaskClass


@dataclass(frozen=True, kw_only=True)
class FirstDivergences:
    """What a search has found.

    Attributes:
        divergent: the first divergent tasks, in submission order, as far as they were dumped with all their arguments.
        vanished: tasks that diverged while they were searched for, and not in the run that was to show it.
        seen: relative L2 error (infinite where there is none to give) of the tasks that were looked at, by ordinal; 0
            where nothing differs.
        unvisited: tasks that may hold a further first divergence and were not looked at.
        not_shown: further first divergent tasks, of whose kernels others were dumped: the budget holds no more.
    """

    divergent: tuple[DivergentTask, ...]
    vanished: tuple[KernelTask, ...]
    seen: Mapping[int, float]
    unvisited: tuple[KernelTask, ...]
    not_shown: tuple[KernelTask, ...] = ()

    @property
    def ordinals(self) -> frozenset[int]:
        """Of the first divergent tasks."""
        return frozenset(task.ordinal for task in (*(each.task for each in self.divergent), *self.not_shown))

    def only(self, ordinals: Set[int]) -> FirstDivergences:
        """The same without first divergent tasks that are not among some, by ordinal."""
        return replace(
            self,
            divergent=tuple(each for each in self.divergent if each.task.ordinal in ordinals),
            vanished=tuple(task for task in self.vanished if task.ordinal in ordinals),
            not_shown=tuple(task for task in self.not_shown if task.ordinal in ordinals),
        )


@dataclass(frozen=True, kw_only=True)
class AttributedDivergences:
    """The first divergent tasks with their verdicts, and those before them that differ by rounding alone."""

    first: FirstDivergences
    attributions: tuple[Attribution, ...]
    rounding: tuple[KernelTask, ...] = ()

    @property
    def pairs(self) -> tuple[tuple[DivergentTask, Attribution], ...]:
        """Each task beside its verdict."""
        return tuple(zip(self.first.divergent, self.attributions, strict=True))

    @property
    def by_sign_of_zero(self) -> tuple[DivergentTask, ...]:
        """The tasks that are off by the sign of zeros that they read."""
        return tuple(divergent for divergent, each in self.pairs if each.by_sign_of_zero)

    @property
    def is_rounding(self) -> bool:
        """Whether all are within the case's own tolerance, and no larger than what one unit in the last place of the
        task's inputs does (`Distances.floor`)."""
        return all(
            each.above_floor is False for each in self.attributions if each.distances is not None
        ) and not any(each.exceeds_harness for each in self.first.divergent)

    @property
    def makes_an_error(self) -> bool:
        """Whether one of the tasks makes an error of its own."""
        own = (TaskClass.INTRODUCED, TaskClass.INTERACTION)
        return any(each.task_class in own for each in self.attributions)

    @property
    def points_to_a_race(self) -> bool:
        """Whether a task diverged in some runs only, or goes wrong that is right alone."""
        interaction = any(each.task_class is TaskClass.INTERACTION for each in self.attributions)
        return bool(self.first.vanished) or interaction
