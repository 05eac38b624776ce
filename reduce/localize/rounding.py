"""Larger errors beyond the first divergent tasks, where those differ by rounding alone.

Any difference counts in the search, for two builds that compute the same leave the same bits. A compiler may order sums
anew, though: then the first difference is rounding, and the fault lies below it. A first divergence is dismissed as
rounding where it is within the harness's own tolerance and no larger than what one unit in the last place of the task's
inputs does (`Distances.floor`), and only if a task below it makes an error of its own beyond that tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...runner.compare.statistics.statistics import Tolerance
from ..graph.task_list import KernelTask
from ..replay.comparison import differs
from .attribution.attribution import Attribution, Attributor, DivergentTask
from .attribution.task_class import TaskClass
from .search.first_divergences import FirstDivergences
from .search.localizer import Localizer


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
    def points_to_a_race(self) -> bool:
        """Whether a task diverged in some runs only, or goes wrong that is right alone."""
        interaction = any(each.task_class is TaskClass.INTERACTION for each in self.attributions)
        return bool(self.first.vanished) or interaction


def past_rounding(
    found: AttributedDivergences, localizer: Localizer, harness: Tolerance, attributor: Attributor
) -> AttributedDivergences:
    """What was found, or what lies beyond it, where that is rounding. `harness` is the case's own tolerance, with which
    `attributor` compares.

    Raises `UserError` as the search does.
    """
    if not found.attributions or not _is_rounding(found, harness):
        return found
    localizer.on_progress("what diverges first is within rounding: looking for what exceeds the tolerance")
    beyond = replace(localizer, tolerance=harness).localize()
    attributions = tuple(attributor.attribute(each, inputs_diverge=True) for each in beyond.divergent)
    own_errors = (TaskClass.INTRODUCED, TaskClass.INTERACTION)
    if not any(each.task_class in own_errors for each in attributions):
        return found
    return AttributedDivergences(
        first=beyond,
        attributions=attributions,
        rounding=tuple(each.task for each in found.first.divergent),
    )


def _is_rounding(found: AttributedDivergences, harness: Tolerance) -> bool:
    return all(
        each.above_floor is False for each in found.attributions if each.distances is not None
    ) and not any(
        differs(actual, each.expected.after[index], harness)
        for each in found.first.divergent
        for index, actual in each.actual.after.items()
    )
