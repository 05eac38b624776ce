"""Runs tasks alone, in poisoned and guarded buffers, and says what they touch that they were not declared to.

Two fills tell what one hides: a byte that is written shows itself by not holding one of them, and a result that rests
on one is another with the other. Tasks are run many at a time; one that stands out is run again by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from ....runner.build_output.args.dump import ArgsDump
from ....runner.build_output.files.errors import BuildOutputError
from ....runner.build_output.task_id import format_task_id
from ....runner.errors import UserError
from ....runner.localization.footprints import NotExamined, TaskFootprint, UndeclaredRead, UndeclaredWrite
from ....store.words import plural
from ...graph.task_list import KernelTask
from ...replay.comparison import NotWholeError, TaskValues, values_of
from ...replay.recorded_build import RecordedBuild
from ...replay.replay import ReplayError
from ...replay.task_replay import Fill, GivenTask, LoneResult, TaskAlone
from ..experiments.experiment import DumpWhole, RunAlone, Steps, Tell
from .owners import Owners
from .traces import LoneRun, Place, changed_outside, depends, with_other_fill
from .writes import nearest_argument, undeclared_writes

_MOST_TENSORS = 24
_MOST_BYTES = 64 << 20
"""Of the tasks that are run at a time."""

_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """A task that is examined: where its tensors lay, and the same behind guards; `values` are recorded."""

    exact: TaskAlone
    guarded: TaskAlone
    values: TaskValues

    @classmethod
    def of(cls, build: RecordedBuild, task: KernelTask, values: TaskValues) -> _Subject:
        exact = TaskAlone.of(build, task, values)
        if exact.placement.inexact:
            raise UserError(exact.placement.inexact)
        return cls(exact=exact, guarded=TaskAlone.of(build, task, values, behind_a_guard=True), values=values)

    def given(self, fill: Fill, *, guarded: bool = False) -> GivenTask:
        return GivenTask.of(self.guarded if guarded else self.exact, self.values.before, fill)

    @property
    def bytes(self) -> int:
        return self.guarded.placement.bytes


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What came of it; tasks that are in neither list touch nothing else."""

    found: list[TaskFootprint] = field(default_factory=list[TaskFootprint])
    not_examined: list[NotExamined] = field(default_factory=list[NotExamined])

    def fail(self, task: KernelTask, error: Exception) -> None:
        """Nothing can be said of a task."""
        self.not_examined.append(NotExamined(position=task.ordinal, kernel=task.name, why=str(error)))


def examine(build: RecordedBuild, tasks: Sequence[KernelTask], *, budget: int) -> Steps[Examination]:
    """Run some tasks of a build alone, on what they read in a run that dumps up to `budget` bytes at a time."""
    examination = Examination()
    for part in _parts(tasks, budget):
        yield from Tell(
            f"recording {plural(len(part), 'task')}, to run {'it' if len(part) == 1 else 'each'} alone"
        )
        try:
            dump = yield from _dumped(build, part)
        except (UserError, BuildOutputError) as error:
            for task in part:
                examination.fail(task, error)
            continue
        subjects: list[_Subject] = []
        for task in part:
            try:
                subjects.append(_Subject.of(build, task, values_of(dump, task)))
            except (UserError, BuildOutputError, NotWholeError) as error:
                examination.fail(task, error)
        for batch in _batches(subjects):
            for subject in (yield from _standing_out(batch, examination)):
                try:
                    footprint = yield from _footprint(Owners(build), subject)
                except (UserError, BuildOutputError, NotWholeError) as error:
                    examination.fail(subject.exact.task, error)
                else:
                    examination.found.extend([footprint] if footprint is not None else [])
    return examination


def _dumped(build: RecordedBuild, part: Sequence[KernelTask]) -> Steps[ArgsDump]:
    """A build that writes where it should not may crash in one run and not in the next."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(ReplayError):
            return (yield from DumpWhole(build=build, tasks={task.ordinal for task in part}))
    return (yield from DumpWhole(build=build, tasks={task.ordinal for task in part}))


def _standing_out(batch: Sequence[_Subject], examination: Examination) -> Steps[list[_Subject]]:
    """Those that left something else behind a guard, with the other fill, or changed what they were not to. Where tasks
    do not run together, halves of them are run."""
    lows = tuple(subject.given(Fill.LOW) for subject in batch)
    highs = tuple(subject.given(Fill.HIGH, guarded=True) for subject in batch)
    try:
        low = yield from RunAlone(tasks=lows)
        high = yield from RunAlone(tasks=highs)
    except (UserError, BuildOutputError, NotWholeError):
        if len(batch) == 1:
            return [*batch]
        middle = len(batch) // 2
        first = yield from _standing_out(batch[:middle], examination)
        return [*first, *(yield from _standing_out(batch[middle:], examination))]
    found: list[_Subject] = []
    for subject, one, other in zip(
        batch, zip(lows, low, strict=True), zip(highs, high, strict=True), strict=True
    ):
        try:
            exact, guarded = _ran(*one), _ran(*other)
        except UserError as error:
            examination.fail(subject.exact.task, error)
            continue
        if (
            changed_outside(subject.exact, exact)
            or changed_outside(subject.guarded, guarded)
            or depends(subject.exact, exact, guarded, other_alone=subject.guarded)
        ):
            found.append(subject)
    return found


def _footprint(owners: Owners, subject: _Subject) -> Steps[TaskFootprint | None]:
    """What a task that stood out among others touches when it is run by itself; None where that is nothing.

    Behind guards no write does harm to the run itself. Where its tensors lay the task is run too, for it may count on
    that; then that is what is told of.
    """
    task = subject.exact.task
    yield from Tell(f"running task {task.ordinal} ({task.name}) alone")
    low = yield from _run(subject.given(Fill.LOW, guarded=True))
    high = yield from _run(subject.given(Fill.HIGH, guarded=True))
    alone, counts = subject.guarded, False
    with suppress(ReplayError):
        exact = yield from _run(subject.given(Fill.LOW))
        counts = depends(subject.exact, exact, low, other_alone=subject.guarded)
        # What a kernel does at one offset alone, as that of the first rows, it does not do behind a guard.
        only_there = changed_outside(subject.exact, exact) and not changed_outside(subject.guarded, low)
        if counts or only_there:
            alone, low, high = subject.exact, exact, (yield from _run(subject.given(Fill.HIGH)))
    changed = [changed_outside(alone, ran) for ran in (low, high)]
    writes: list[UndeclaredWrite] = []
    for number in sorted({*changed[0], *changed[1]}):
        positions = np.unique(np.concatenate([each[number] for each in changed if number in each]))
        writes += undeclared_writes(owners, alone, number, positions)
    reads = (yield from _reads(owners, subject, alone, low)) if depends(alone, low, high) else []
    wants_offset_zero = counts and not reads
    if not writes and not reads and not wants_offset_zero:
        return None
    kernels = [owners.build.config.kernel_named(name) for name in task.kernels]
    return TaskFootprint(
        task_id=format_task_id(task.task.task_id),
        position=task.ordinal,
        kernel=task.name,
        kernel_sources=tuple(str(kernel.source) for kernel in kernels if kernel is not None),
        writes=tuple(writes),
        reads=tuple(reads),
        wants_offset_zero=wants_offset_zero,
    )


def _reads(
    owners: Owners, subject: _Subject, alone: TaskAlone, plain: LoneRun
) -> Steps[list[UndeclaredRead]]:
    """The places whose contents the results depend on. `plain` is the run of `alone` with the low fill."""
    low, high = (GivenTask.of(alone, subject.values.before, fill) for fill in (Fill.LOW, Fill.HIGH))
    found: list[UndeclaredRead] = []
    for number, place in itertools.product(range(len(alone.placement.buffers)), Place):
        mixed = with_other_fill(low, high, number, place)
        if mixed is None or not depends(alone, plain, (yield from _run(mixed))):
            continue
        buffer = alone.placement.buffers[number]
        argument = nearest_argument(alone, number, np.array([buffer.start]))
        match place:
            case Place.PAST:
                whose = owners.beyond(alone.task, buffer, buffer.stop)
            case Place.BEFORE:
                whose = owners.beyond(alone.task, buffer, buffer.start - 1)
            case Place.HELD:
                whose = owners.writers(alone.task, buffer, of=argument)
            case Place.AROUND:
                whose = owners.writers(alone.task, buffer, of=None)
        name = owners.name(alone.task, argument)
        found.append(UndeclaredRead(argument=argument, tensor=name, what=place.value, whose=whose))
    return found


def _run(given: GivenTask) -> Steps[LoneRun]:
    (left,) = yield from RunAlone(tasks=(given,))
    return _ran(given, left)


def _ran(given: GivenTask, result: LoneResult) -> LoneRun:
    if result.left is None:
        raise UserError("expected a harness that hands back what a run left, found one that does not")
    return LoneRun(given.contents, result.left)


def _parts(tasks: Sequence[KernelTask], budget: int) -> Iterator[list[KernelTask]]:
    """As many as one run may dump; at least one at a time."""
    part: list[KernelTask] = []
    for task in tasks:
        if part and sum(each.all_bytes for each in part) + task.all_bytes > budget:
            yield part
            part = []
        part.append(task)
    if part:
        yield part


def _batches(subjects: Sequence[_Subject]) -> Iterator[list[_Subject]]:
    batch: list[_Subject] = []
    tensors = size = 0
    for subject in subjects:
        tensors, size = tensors + len(subject.exact.placement.buffers), size + subject.bytes
        if batch and (tensors > _MOST_TENSORS or size > _MOST_BYTES):
            yield batch
            batch, tensors, size = [], len(subject.exact.placement.buffers), subject.bytes
        batch.append(subject)
    if batch:
        yield batch
