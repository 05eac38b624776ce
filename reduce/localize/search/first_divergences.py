"""What a search for the first divergent tasks has found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...graph.task_list import KernelTask
from ..attribution.attribution import DivergentTask


@dataclass(frozen=True, kw_only=True)
class FirstDivergences:
    """What a search has found.

    Attributes:
        divergent: the first divergent tasks, in submission order.
        vanished: tasks that diverged while they were searched for, and not in the run that was to show it.
        seen: relative L2 error (infinite where there is none to give) of the tasks that were looked at, by ordinal; 0
            where nothing differs.
        unvisited: tasks that may hold a further first divergence and were not looked at.
    """

    divergent: tuple[DivergentTask, ...]
    vanished: tuple[KernelTask, ...]
    seen: Mapping[int, float]
    unvisited: tuple[KernelTask, ...]
