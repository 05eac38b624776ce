"""Whether a kernel keeps state from one of its tasks to the next, as a static variable does: right alone, it goes wrong
after other tasks of the same kernel that ran before it."""

from __future__ import annotations

from collections.abc import Iterable

from ....store.words import plural
from ...graph.races import ordered
from ...graph.task_list import KernelTask
from ...replay.comparison import distance, values_of
from ...replay.recorded_build import RecordedBuild
from ...replay.task_replay import Fill, GivenTask, TaskAlone
from ..experiments.experiment import DumpWhole, RunAlone, Steps, Tell
from .attribution import Attribution, DivergentTask
from .task_class import TaskClass

_MOST_TASKS = 16
_MOST_BYTES = 64 << 20
"""Of the other tasks of the kernel, those nearest to the one in question that are this few, and take this little."""
_MOST_IN_BUFFERS = 1 << 29
"""Bytes of the buffers that they lie in, each task's its own; those of a single one may be more."""


def state_kept(
    build: RecordedBuild, alone: TaskAlone, divergent: DivergentTask, fill: Fill
) -> Steps[Attribution | None]:
    """The verdict on a task that is right alone, where it is not after tasks of its kernel that were submitted earlier;
    of the first one, after those that do not wait for it. None where it is right then too, or there are none.

    Raises:
        UserError: a task cannot be taken alone, or does not run.
        NotWholeError: not all of its values were recorded.
    """
    others = _of_its_kernel(build, divergent.task)
    if not others:
        return None
    yield from Tell(f"running {divergent.task.name} after {plural(len(others), 'other task')} of it")
    dump = yield from DumpWhole(build=build, tasks={task.ordinal for task in others})
    before: dict[int, GivenTask] = {}
    left = _MOST_IN_BUFFERS
    for task in others:
        values = values_of(dump, task)
        other = TaskAlone.of(build, task, values)
        left -= other.placement.bytes
        if before and left < 0:
            break
        before[task.ordinal] = GivenTask.of(other, values.before, fill)
    right = divergent.right_inputs
    itself = GivenTask.of(alone, divergent.expected.before if right is None else right, fill)
    (once,) = yield from RunAlone(tasks=(itself,))
    in_turn = (before[ordinal] for ordinal in sorted(before))
    *_, after = yield from RunAlone(tasks=(*in_turn, itself))
    changed = max((distance(after.results[index], view) for index, view in once.results.items()), default=0.0)
    if changed == 0:
        return None
    return Attribution(
        task_class=TaskClass.INTRODUCED,
        distances=None,
        reason=f"its kernel keeps state from task to task: alone the task is right, after "
        f"{plural(len(before), 'other task')} of the kernel its result is off by {changed:.3g}",
    )


def _of_its_kernel(build: RecordedBuild, task: KernelTask) -> list[KernelTask]:
    """Tasks of the same kernel that may have run before a task, the nearest first."""
    earlier = reversed(build.tasks.tasks[: task.ordinal])
    waits = ordered(build.tasks.graph)[:, task.task.position]
    later = (other for other in build.tasks.tasks[task.ordinal + 1 :] if not waits[other.task.position])
    return _few(task, earlier) or _few(task, later)


def _few(task: KernelTask, others: Iterable[KernelTask]) -> list[KernelTask]:
    chosen: list[KernelTask] = []
    left = _MOST_BYTES
    for other in others:
        if other.kernels != task.kernels:
            continue
        left -= other.all_bytes
        if left < 0 or len(chosen) == _MOST_TASKS:
            break
        chosen.append(other)
    return chosen
