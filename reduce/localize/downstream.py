"""What a few tasks below the first divergent ones make of the error that reaches them."""

from __future__ import annotations

from ..graph.task_list import KernelTask
from .attribution.attribution import Attribution, Attributor, DivergentTask
from .search.first_divergences import FirstDivergences
from .search.localizer import Localizer

_MOST_KERNELS = 3
"""That are run alone: each takes up to five runs."""


def attribute_downstream(
    first: FirstDivergences, localizer: Localizer, attributor: Attributor
) -> tuple[tuple[DivergentTask, Attribution], ...]:
    """The verdicts on a few of the tasks that were seen to diverge below the first ones: the first of each kernel.

    Raises `UserError` as a run does.
    """
    firsts = {name for each in first.divergent for name in each.task.kernels}
    chosen: dict[str, KernelTask] = {}
    left = localizer.budget
    for task in localizer.divergent_below():
        if firsts.isdisjoint(task.kernels) and task.name not in chosen and task.all_bytes <= left:
            chosen[task.name] = task
            left -= task.all_bytes
    wanted = [task.ordinal for task in list(chosen.values())[:_MOST_KERNELS]]
    if not wanted:
        return ()
    return tuple((each, attributor.attribute(each, inputs_diverge=True)) for each in localizer.show(wanted))
