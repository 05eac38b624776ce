"""What lies beyond the first divergent tasks: larger errors, where those are only rounding, and what others make of it.

Any difference counts in the search, for two builds that compute the same leave the same bits. A compiler may order sums
anew, though: then the first difference is rounding, and the fault lies below it. A first divergence is dismissed as
rounding where it is within the harness's own tolerance and no larger than what one unit in the last place of the task's
inputs does (`Distances.floor`), and only if a task below it makes an error of its own beyond that tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...runner.compare.statistics.statistics import Tolerance
from ..graph.task_list import KernelTask
from ..replay.comparison import differs
from .assess import Assessment, Assessor
from .classes import TaskClass
from .localize import DivergentTask, FirstDivergences, Localizer

_MOST_KERNELS = 3
"""Below the first divergent tasks, kernels that are run alone: each takes up to five runs."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The first divergent tasks with their verdicts, and those before them that differ by rounding alone."""

    localization: FirstDivergences
    assessments: tuple[Assessment, ...]
    rounding: tuple[KernelTask, ...] = ()


def past_rounding(first: Found, localizer: Localizer, assessor: Assessor, harness: Tolerance | None) -> Found:
    """The answer itself, or what lies beyond it, where that is rounding.

    Raises `UserError` as the search does.
    """
    if harness is None or not first.assessments or not _is_rounding(first, harness):
        return first
    localizer.on_progress("what diverges first is within rounding: looking for what exceeds the tolerance")
    localization = replace(localizer, tolerance=harness).localize()
    coarse = replace(assessor, tolerance=harness, folder=assessor.folder / "beyond-rounding")
    assessments = tuple(coarse.assess(one, fed_wrong=True) for one in localization.divergences)
    own_errors = (TaskClass.INTRODUCED, TaskClass.INTERACTION)
    if not any(one.task_class in own_errors for one in assessments):
        return first
    return Found(
        localization=localization,
        assessments=assessments,
        rounding=tuple(one.failing for one in first.localization.divergences),
    )


def _is_rounding(first: Found, harness: Tolerance) -> bool:
    return all(
        one.above_floor is False for one in first.assessments if one.distances is not None
    ) and not any(
        differs(actual, one.expected.after[index], harness)
        for one in first.localization.divergences
        for index, actual in one.actual.after.items()
    )


def downstream(
    found: Found, localizer: Localizer, assessor: Assessor
) -> tuple[tuple[DivergentTask, Assessment], ...]:
    """The verdicts on a few of the tasks that were seen to diverge below the first ones: the first of each kernel."""
    firsts = {name for one in found.localization.divergences for name in one.failing.kernels}
    chosen: dict[str, KernelTask] = {}
    left = localizer.budget
    for task in localizer.divergent_below():
        if firsts.isdisjoint(task.kernels) and task.name not in chosen and task.all_bytes <= left:
            chosen[task.name] = task
            left -= task.all_bytes
    wanted: Sequence[KernelTask] = list(chosen.values())[:_MOST_KERNELS]
    if not wanted:
        return ()
    below = replace(assessor, folder=assessor.folder / "downstream")
    pairs: list[tuple[DivergentTask, Assessment]] = []
    for one in localizer.show([task.ordinal for task in wanted]):
        localizer.on_progress(f"running {one.failing.name} alone")
        pairs.append((one, below.assess(one, fed_wrong=True)))
    return tuple(pairs)
