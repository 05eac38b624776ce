"""Who in a build writes where it should not, for a task whose memory is not what the tasks before it left, or for a
kernel that is at fault though its tasks leave what they should."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from ....runner.localization.footprints import TaskFootprint, UndeclaredWrite
from ....store.words import plural
from ...graph.task_list import KernelTask
from ...replay.recorded_build import RecordedBuild
from ..experiments.experiment import Steps
from .choice import representatives
from .examine import examine

_MOST_NAMED = 3
_A_TASK = re.compile(r"\btask \d")


def writers_into(found: Sequence[TaskFootprint], victim: KernelTask) -> str:
    """In words, the tasks that write outside of their tensors; of a kernel one, and those first whose writes reach the
    victim's memory. Empty where none does."""
    at_victim = f"task {victim.ordinal} ({victim.name})"
    named: dict[str, tuple[bool, str]] = {}
    for footprint in found:
        for write in footprint.writes:
            hits = at_victim in write.into
            known = named.get(footprint.kernel)
            if known is None or (hits and not known[0]):
                named[footprint.kernel] = hits, _words(footprint, write)
    ranked = sorted(named.values(), key=lambda each: not each[0])
    return "; ".join(text for _, text in ranked[:_MOST_NAMED])


def writing_beside(
    build: RecordedBuild, kernels: Set[str], *, budget: int
) -> Steps[tuple[TaskFootprint, ...]]:
    """The tasks of some kernels that write outside of their tensors when they run alone, as `harmful_first` has them;
    `budget` is the bytes that a run of the build may dump."""
    tasks = representatives(task for task in build.tasks.tasks if not kernels.isdisjoint(task.kernels))
    examination = yield from examine(build, tasks, budget=budget)
    return harmful_first(examination.found)


def harmful_first(found: Sequence[TaskFootprint]) -> tuple[TaskFootprint, ...]:
    """The tasks that write outside of their tensors, those first that write into memory of another task."""
    writing = [footprint for footprint in found if footprint.writes]
    return tuple(sorted(writing, key=lambda each: not any(_A_TASK.search(w.into) for w in each.writes)))


def in_words(footprint: TaskFootprint) -> str:
    """What a task writes outside of its tensors."""
    return "; ".join(_words(footprint, write) for write in footprint.writes[:_MOST_NAMED])


def _words(footprint: TaskFootprint, write: UndeclaredWrite) -> str:
    return (
        f"task {footprint.position} ({footprint.kernel}), argument {write.argument} ({write.tensor}), writes "
        f"{plural(write.bytes, 'byte')} {write.where}, into {write.into}"
    )
