"""Finds tasks that read or write memory that they do not declare: `reduce --footprints`.

`footprints` examines a whole build, and needs no good build. `examine` runs some tasks alone in poisoned and guarded
buffers, with two fills of the memory around their tensors. A write changes the fill, and a result that depends on
undeclared memory changes with the fill. A localization finds tasks that write outside of their tensors by
`find_undeclared_writers`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...runner.build_output.args_dump import ArgsDump, format_task_id
from ...runner.build_output.files import BuildOutputError
from ...runner.build_output.task_graph import GraphTensor, Region
from ...runner.case.case import freeze
from ...runner.compare.diff_report import SummaryLines
from ...runner.errors import UserError
from ...runner.localization_job import (
    FOOTPRINTS,
    Footprints,
    NotExamined,
    OutputFolder,
    TaskFootprint,
    UndeclaredRead,
    UndeclaredWrite,
)
from ...runner.tensor import Storage
from ...store.durable_files import write_whole
from ...store.vocabulary import plural
from ..graph.tasks import KernelTask
from ..replay.replay import (
    IncompleteDumpError,
    RecordedBuild,
    ReplayError,
    RunnableBuild,
    TaskValues,
    values_of,
)
from ..replay.task_replay import (
    Fill,
    IsolatedTask,
    LoneResult,
    ParentBuffer,
    PreparedTask,
    region_array,
)
from .experiments import DUMP_BUDGET, DumpWhole, Executor, Record, RunAlone, Steps, Tell


@dataclass(frozen=True, kw_only=True)
class FootprintRequest:
    """The inputs of an examination. `golden_data` is None for the build's own. `timeout` limits a run, in seconds."""

    build: RunnableBuild
    golden_data: Path | None
    timeout: float
    output: Path


def footprints(request: FootprintRequest, *, on_progress: Callable[[str], None]) -> Footprints:
    """Examine the tasks of a build, and write `footprints.json` to the output folder.

    Raises:
        UserError: the build cannot be run.
        BuildOutputError: a part of the build, or its records, cannot be read.
    """
    output = OutputFolder(request.output)
    with output.make_work_folder(apart_from=(request.build.path,)) as work:
        data = request.golden_data or request.build.path / "data"
        executor = Executor(
            data=freeze(data, work / "golden").directory,
            folder=work,
            timeout=request.timeout,
            on_progress=on_progress,
        )
        document = executor.execute(_examine_build(request))
        write_whole(output.path / FOOTPRINTS, document.model_dump_json(indent=2) + "\n")
    return document


def _examine_build(request: FootprintRequest) -> Steps[Footprints]:
    yield from Tell("recording the task graph of the build")
    build = yield from Record(build=request.build, name="build")
    chosen = representatives(build.tasks.tasks)
    examination = yield from examine(build, chosen, budget=DUMP_BUDGET)
    return Footprints(
        build=str(request.build.path),
        tasks=len(build.tasks),
        examined=len(chosen) - len(examination.not_examined),
        found=tuple(examination.found),
        not_examined=tuple(examination.not_examined),
    )


def find_undeclared_writers(
    build: RecordedBuild, kernels: Set[str], *, budget: int
) -> Steps[tuple[TaskFootprint, ...]]:
    """Return the tasks of some kernels that write outside of their tensors, in the order of `sort_writers`.

    A run of the build dumps at most `budget` bytes.
    """
    tasks = representatives(task for task in build.tasks.tasks if not kernels.isdisjoint(task.kernels))
    examination = yield from examine(build, tasks, budget=budget)
    return sort_writers(examination.found)


def sort_writers(footprints: Sequence[TaskFootprint]) -> tuple[TaskFootprint, ...]:
    """Return the tasks that write outside of their tensors, those that write into another task's memory first."""
    writers = [footprint for footprint in footprints if footprint.writes]
    return tuple(sorted(writers, key=lambda each: not any(write.into_tasks for write in each.writes)))


_MAX_ALL_EXAMINED = 48
"""If there are more tasks than this, only some of those with the same kernels and geometry are examined."""


def representatives(tasks: Iterable[KernelTask]) -> list[KernelTask]:
    """Return the tasks to examine.

    These are all tasks if they are few. Otherwise they are the first, middle and last task of each group with the same
    kernels, shapes and strides.
    """
    all_tasks = list(tasks)
    if len(all_tasks) <= _MAX_ALL_EXAMINED:
        return all_tasks
    groups: dict[object, list[KernelTask]] = {}
    for task in all_tasks:
        geometry = tuple(
            (
                argument.type,
                None if argument.region is None else (argument.region.shape, argument.region.strides),
            )
            for argument in task.task.arguments
        )
        groups.setdefault((task.kernels, geometry), []).append(task)
    chosen = {
        task.ordinal: task
        for group in groups.values()
        for task in (group[0], group[len(group) // 2], group[-1])
    }
    return [chosen[ordinal] for ordinal in sorted(chosen)]


_ATTEMPTS = 3
"""A dump is tried this many times. A build that writes to undeclared memory does not crash in every run."""


@dataclass(frozen=True, kw_only=True)
class Examination:
    """The result of an examination. Examined tasks without an entry touch no undeclared memory."""

    found: list[TaskFootprint] = field(default_factory=list[TaskFootprint])
    not_examined: list[NotExamined] = field(default_factory=list[NotExamined])

    def fail(self, task: KernelTask, error: Exception) -> None:
        """Note why a task could not be examined."""
        self.not_examined.append(NotExamined(position=task.ordinal, kernel=task.name, why=str(error)))


def examine(build: RecordedBuild, tasks: Sequence[KernelTask], *, budget: int) -> Steps[Examination]:
    """Run some tasks of a build alone, on their recorded inputs. A run of the build dumps at most `budget` bytes."""
    examination = Examination()
    for part in _split_by_bytes(tasks, budget):
        yield from Tell(
            f"recording {plural(len(part), 'task')}, to run {'it' if len(part) == 1 else 'each'} alone"
        )
        try:
            dump = yield from _dump_with_retries(build, {task.ordinal for task in part})
        except (UserError, BuildOutputError) as error:
            for task in part:
                examination.fail(task, error)
            continue
        subjects: list[_Subject] = []
        for task in part:
            try:
                subjects.append(_Subject.from_task(build, task, values_of(dump, task)))
            except (UserError, BuildOutputError, IncompleteDumpError) as error:
                examination.fail(task, error)
        for batch in _batches(subjects):
            for subject in (yield from _select_conspicuous(batch, examination)):
                try:
                    footprint = yield from _footprint(Owners(build), subject)
                except (UserError, BuildOutputError, IncompleteDumpError) as error:
                    examination.fail(subject.exact.task, error)
                    continue
                if footprint is not None:
                    examination.found.append(footprint)
    return examination


def _dump_with_retries(build: RecordedBuild, ordinals: Set[int]) -> Steps[ArgsDump]:
    """Dump some tasks, and try again after a crash."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(ReplayError):
            return (yield from DumpWhole(build=build, tasks=ordinals))
    return (yield from DumpWhole(build=build, tasks=ordinals))


def _split_by_bytes(tasks: Sequence[KernelTask], budget: int) -> Iterator[list[KernelTask]]:
    """Split tasks into parts whose tensors fit `budget` bytes. A larger task has a part of its own."""
    part: list[KernelTask] = []
    for task in tasks:
        if part and sum(each.all_bytes for each in part) + task.all_bytes > budget:
            yield part
            part = []
        part.append(task)
    if part:
        yield part


_MAX_BATCH_TENSORS = 24
"""A batch of tasks has at most this many tensors. A batch that fails is halved, so a larger one costs more runs."""
_MAX_BATCH_BYTES = 64 << 20
"""The buffers of a batch of tasks take at most this many bytes."""


def _batches(subjects: Sequence[_Subject]) -> Iterator[list[_Subject]]:
    """Split tasks into batches that run together."""
    batch: list[_Subject] = []
    tensors = size = 0
    for subject in subjects:
        own_tensors = len(subject.exact.placement.buffers)
        tensors, size = tensors + own_tensors, size + subject.bytes
        if batch and (tensors > _MAX_BATCH_TENSORS or size > _MAX_BATCH_BYTES):
            yield batch
            batch, tensors, size = [], own_tensors, subject.bytes
        batch.append(subject)
    if batch:
        yield batch


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """A task to examine. In `exact`, its tensors lie as in the build. In `guarded`, they lie behind guards.

    `values` are the recorded ones.
    """

    exact: IsolatedTask
    guarded: IsolatedTask
    values: TaskValues

    @classmethod
    def from_task(cls, build: RecordedBuild, task: KernelTask, values: TaskValues) -> _Subject:
        exact = IsolatedTask.from_build(build, task, values)
        if exact.placement.inexact_reason:
            raise UserError(exact.placement.inexact_reason)
        return cls(
            exact=exact,
            guarded=IsolatedTask.from_build(build, task, values, front_guard=True),
            values=values,
        )

    def prepare(self, fill: Fill, *, guarded: bool = False) -> PreparedTask:
        return PreparedTask.prepare(self.guarded if guarded else self.exact, self.values.before, fill)

    @property
    def bytes(self) -> int:
        return self.guarded.placement.bytes


def _select_conspicuous(batch: Sequence[_Subject], examination: Examination) -> Steps[list[_Subject]]:
    """Return the tasks that need an examination by themselves.

    Such a task changes undeclared memory, or leaves other results behind guards and with the other fill. If the batch
    does not run, each half of it runs.
    """
    exact_tasks = tuple(subject.prepare(Fill.LOW) for subject in batch)
    guarded_tasks = tuple(subject.prepare(Fill.HIGH, guarded=True) for subject in batch)
    try:
        exact_results = yield from RunAlone(tasks=exact_tasks)
        guarded_results = yield from RunAlone(tasks=guarded_tasks)
    except (UserError, BuildOutputError, IncompleteDumpError):
        if len(batch) == 1:
            return [*batch]
        middle = len(batch) // 2
        first = yield from _select_conspicuous(batch[:middle], examination)
        return [*first, *(yield from _select_conspicuous(batch[middle:], examination))]
    conspicuous: list[_Subject] = []
    for number, subject in enumerate(batch):
        try:
            exact = _lone_run(exact_tasks[number], exact_results[number])
            guarded = _lone_run(guarded_tasks[number], guarded_results[number])
        except UserError as error:
            examination.fail(subject.exact.task, error)
            continue
        if (
            outside_changes(subject.exact, exact)
            or outside_changes(subject.guarded, guarded)
            or results_differ(subject.exact, exact, guarded, other_alone=subject.guarded)
        ):
            conspicuous.append(subject)
    return conspicuous


def _footprint(owners: Owners, subject: _Subject) -> Steps[TaskFootprint | None]:
    """Run a task by itself, and return the undeclared memory that it touches. None if there is none.

    Behind guards, undeclared writes do not disturb the run. But the task may depend on where its tensors lie. If it
    does, the result is that of a run with the tensors as in the build.
    """
    task = subject.exact.task
    yield from Tell(f"running task {task.ordinal} ({task.name}) alone")
    alone = subject.guarded
    low = yield from _run(subject.prepare(Fill.LOW, guarded=True))
    high = yield from _run(subject.prepare(Fill.HIGH, guarded=True))
    depends_on_offset = False
    with suppress(ReplayError):
        exact = yield from _run(subject.prepare(Fill.LOW))
        depends_on_offset = results_differ(subject.exact, exact, low, other_alone=subject.guarded)
        # A kernel may go wrong only at one offset, such as that of the first rows.
        writes_only_there = outside_changes(subject.exact, exact) and not outside_changes(
            subject.guarded, low
        )
        if depends_on_offset or writes_only_there:
            alone, low, high = subject.exact, exact, (yield from _run(subject.prepare(Fill.HIGH)))
    changes = [outside_changes(alone, run) for run in (low, high)]
    writes: list[UndeclaredWrite] = []
    for number in sorted({*changes[0], *changes[1]}):
        positions = np.unique(np.concatenate([each[number] for each in changes if number in each]))
        writes += undeclared_writes(owners, alone, number, positions)
    reads: list[UndeclaredRead] = []
    if results_differ(alone, low, high):
        reads = yield from _undeclared_reads(owners, subject, alone, low)
    wants_offset_zero = depends_on_offset and not reads
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


def _undeclared_reads(
    owners: Owners, subject: _Subject, alone: IsolatedTask, low_run: LoneRun
) -> Steps[list[UndeclaredRead]]:
    """Return the places on whose contents the results depend. `low_run` is a run of `alone` with the low fill."""
    low, high = (PreparedTask.prepare(alone, subject.values.before, fill) for fill in (Fill.LOW, Fill.HIGH))
    reads: list[UndeclaredRead] = []
    for number, place in itertools.product(range(len(alone.placement.buffers)), Place):
        mixed = fill_differently(low, high, number, place)
        if mixed is None or not results_differ(alone, low_run, (yield from _run(mixed))):
            continue
        buffer = alone.placement.buffers[number]
        argument = nearest_argument(alone, number, np.array([buffer.start]))
        match place:
            case Place.PAST:
                whose = owners.owner(alone.task, buffer, buffer.stop).text
            case Place.BEFORE:
                whose = owners.owner(alone.task, buffer, buffer.start - 1).text
            case Place.HELD:
                whose = owners.describe_writers(alone.task, buffer, argument=argument)
            case Place.AROUND:
                whose = owners.describe_writers(alone.task, buffer, argument=None)
        name = owners.name(alone.task, argument)
        reads.append(UndeclaredRead(argument=argument, tensor=name, what=place.value, whose=whose))
    return reads


def _run(task: PreparedTask) -> Steps[LoneRun]:
    (result,) = yield from RunAlone(tasks=(task,))
    return _lone_run(task, result)


def _lone_run(task: PreparedTask, result: LoneResult) -> LoneRun:
    if result.buffers is None:
        raise UserError("expected a harness that hands back what a run left, found one that does not")
    return LoneRun(before=task.contents, after=result.buffers)


class Place(Enum):
    """Parts of a buffer that are no input of the task."""

    HELD = "held before"
    AROUND = "around the tensor"
    PAST = "past the end of the buffer"
    BEFORE = "before the buffer"


@dataclass(frozen=True)
class LoneRun:
    """The contents of a task's buffers before and after a run of the task alone."""

    before: Sequence[Storage]
    after: Sequence[Storage]


Positions = npt.NDArray[np.int64]
"""Indices of elements in a flat buffer, ascending."""
_Mask = npt.NDArray[np.bool_]


def outside_changes(alone: IsolatedTask, run: LoneRun) -> dict[int, Positions]:
    """Return the elements that a task changed and does not declare to write, by the number of their buffer."""
    changes: dict[int, Positions] = {}
    for number, (before, after) in enumerate(zip(run.before, run.after, strict=True)):
        changed = (_bits(before) != _bits(after)) & ~_mask(alone, number, writing=True)
        if changed.any():
            changes[number] = np.flatnonzero(changed)
    return changes


def results_differ(
    alone: IsolatedTask, one: LoneRun, other: LoneRun, *, other_alone: IsolatedTask | None = None
) -> bool:
    """Return whether the task's results differ between two runs, among elements that one of the runs has changed.

    In the other run, the tensors lie as in `other_alone`, if that is given.
    """

    def values(contents: Sequence[Storage], number: int, region: Region) -> Storage:
        return _bits(region_array(contents[number], region))

    pairs = zip(_regions(alone, writing=True), _regions(other_alone or alone, writing=True), strict=True)
    for (number, region), (_, other_region) in pairs:
        result, other_result = values(one.after, number, region), values(other.after, number, other_region)
        is_changed = (result != values(one.before, number, region)) | (
            other_result != values(other.before, number, other_region)
        )
        if bool(((result != other_result) & is_changed).any()):
            return True
    return False


def fill_differently(low: PreparedTask, high: PreparedTask, buffer: int, place: Place) -> PreparedTask | None:
    """Return the contents of `low` with those of `high` in one place of a buffer. None if the place is empty."""
    mask = _place_mask(low.alone, buffer, place)
    if not mask.any():
        return None
    contents = list(low.contents)
    contents[buffer] = np.where(mask, high.contents[buffer], low.contents[buffer])
    return PreparedTask(low.alone, tuple(contents))


def _place_mask(alone: IsolatedTask, number: int, place: Place) -> _Mask:
    buffer = alone.placement.buffers[number]
    positions = np.arange(buffer.elements)
    inside = (positions >= buffer.start) & (positions < buffer.stop)
    written, read = (_mask(alone, number, writing=writing) for writing in (True, False))
    match place:
        case Place.HELD:
            return written & ~read
        case Place.AROUND:
            return inside & ~written & ~read
        case Place.PAST:
            return (positions >= buffer.stop) & ~written & ~read
        case Place.BEFORE:
            return (positions < buffer.start) & ~written & ~read


def _mask(alone: IsolatedTask, number: int, *, writing: bool) -> _Mask:
    """Return a mask of the elements of a buffer that the task declares to write, or to read."""
    mask = np.zeros(alone.placement.buffers[number].elements, np.bool_)
    for buffer, region in _regions(alone, writing=writing):
        if buffer == number:
            region_array(mask, region)[...] = True
    return mask


def _regions(alone: IsolatedTask, *, writing: bool) -> Iterator[tuple[int, Region]]:
    """Yield the buffer and the region of each argument that the task declares to write, or to read."""
    for argument in alone.task.task.arguments:
        if argument.type.may_write if writing else argument.type.may_read:
            placed = alone.placement.tensors[argument.index]
            yield placed.buffer_index, placed.region


def _bits(values: Storage) -> Storage:
    """Return the elements as integers, so that NaN equals itself, and -0.0 differs from 0.0."""
    return np.ascontiguousarray(values).view(f"<u{values.dtype.itemsize}")


def undeclared_writes(
    owners: Owners, alone: IsolatedTask, buffer_number: int, positions: Positions
) -> Iterator[UndeclaredWrite]:
    """Yield an entry for each edge of a tensor or its buffer beyond which a task wrote.

    `positions` are the elements of the buffer that the task changed and does not declare to write.
    """
    buffer = alone.placement.buffers[buffer_number]
    size = buffer.dtype.itemsize
    argument = nearest_argument(alone, buffer_number, positions)
    bounds = alone.placement.tensors[argument].region.bounds
    inside = positions[(positions >= buffer.start) & (positions < buffer.stop)]
    edges = (
        (True, "past the end of the buffer", positions[positions >= buffer.stop], buffer.stop),
        (True, "before the start of the buffer", positions[positions < buffer.start], buffer.start),
        (False, "past the end of the tensor", inside[inside >= bounds.stop], bounds.stop),
        (False, "before the start of the tensor", inside[inside < bounds.start], bounds.start),
        (
            False,
            "between the rows of the tensor",
            inside[(inside >= bounds.start) & (inside < bounds.stop)],
            bounds.start,
        ),
    )
    for is_outside, where, touched, edge in edges:
        if touched.size:
            first, last = int(touched[0]), int(touched[-1])
            nearer = first if first >= buffer.stop else last
            owner = (
                owners.owner(alone.task, buffer, nearer)
                if is_outside
                else owners.users(alone.task, buffer, touched)
            )
            yield UndeclaredWrite(
                argument=argument,
                tensor=owners.name(alone.task, argument),
                bytes=touched.size * size,
                where=where,  # pyright: ignore[reportArgumentType]
                reach=max(last + 1 - edge, edge - first) * size,
                into=owner.text,
                into_tasks=owner.tasks,
            )


def nearest_argument(alone: IsolatedTask, buffer_number: int, positions: Positions) -> int:
    """Return the argument in a buffer that is nearest to some elements. Written arguments come before read ones."""

    def distance_key(argument: int) -> tuple[bool, int]:
        bounds = alone.placement.tensors[argument].region.bounds
        reads = not next(each.type.may_write for each in alone.task.task.arguments if each.index == argument)
        distances = np.maximum(bounds.start - positions, positions - bounds.stop + 1)
        return reads, int(np.maximum(distances, 0).min())

    return min(
        (index for index, placed in alone.placement.tensors.items() if placed.buffer_index == buffer_number),
        key=distance_key,
    )


@dataclass(frozen=True)
class Owner:
    """The other tasks whose tensors lie in some memory, by their ordinals, and a phrase for that memory."""

    tasks: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Owners:
    """Finds the owners of memory in the recorded run of a build."""

    build: RecordedBuild

    def name(self, task: KernelTask, argument: int) -> str:
        """Return the orchestration's name for a tensor of a task."""
        return self.build.argument_names.name_of(task, argument) or f"argument {argument}"

    def buffer_id(self, task: KernelTask, buffer: ParentBuffer) -> int | None:
        """Return the id of a task's buffer in the graph, or None if it is not known."""
        if buffer.tensor_id is not None:
            return buffer.tensor_id
        allocated = self.build.tasks.graph.tensors_created_by(task.task.task_id)
        return allocated[0] if len(allocated) == 1 else None

    def users(self, task: KernelTask, buffer: ParentBuffer, positions: Positions) -> Owner:
        """Return the other users of elements in a task's buffer. `positions` include the guard before the buffer."""
        tensor_id = self.buffer_id(task, buffer)
        touched = np.zeros(buffer.stop - buffer.start, np.bool_)
        touched[positions - buffer.start] = True
        others = [
            (other, argument.index, argument.type.may_write)
            for other in self.build.tasks.tasks
            for argument in other.task.arguments
            if tensor_id is not None and argument.tensor_id == tensor_id and argument.region is not None
            if other is not task and argument.region.bounds.stop <= touched.size
            if bool(region_array(touched, argument.region).any())
        ]
        if not others:
            return Owner((), "memory of the buffer that no other task uses")
        text = _join_names(
            f"{self.name(other, index)}, which task {other.ordinal} ({other.name}) {'writes' if writes else 'reads'}"
            for other, index, writes in others
        )
        return Owner(_ordinals(other for other, _, _ in others), text)

    def describe_writers(self, task: KernelTask, buffer: ParentBuffer, *, argument: int | None) -> str:
        """Return a phrase for the other tasks that write a buffer, or the part of it that an argument covers."""
        tensor_id = self.buffer_id(task, buffer)
        region = next((each.region for each in task.task.arguments if each.index == argument), None)
        bounds = range(buffer.stop) if region is None else region.bounds
        writers = [
            f"task {other.ordinal} ({other.name})"
            for other in self.build.tasks.tasks
            for written in other.task.arguments
            if tensor_id is not None and written.tensor_id == tensor_id and written.type.may_write
            if other is not task and written.region is not None
            if written.region.bounds.start < bounds.stop and bounds.start < written.region.bounds.stop
        ]
        return f"what {_join_names(writers)} left" if writers else "what no task writes: uninitialised"

    def owner(self, task: KernelTask, buffer: ParentBuffer, position: int) -> Owner:
        """Return the owner of an element outside of a task's buffer, by the addresses of the recorded run."""
        tensors = self.build.tasks.graph.tensors
        own = tensors.get(self.buffer_id(task, buffer) or 0)
        if own is None:
            return Owner((), "memory outside of the buffer")
        address = own.buffer_address + (position - buffer.start) * buffer.dtype.itemsize
        tensor = next((tensor for tensor in tensors.values() if _contains(tensor, address)), None)
        if tensor is None:
            return Owner((), "memory of no tensor")
        users = [
            (other, argument.index)
            for other in self.build.tasks.tasks
            for argument in other.task.arguments
            if argument.tensor_id == tensor.tensor_id
        ]
        if not users:
            return Owner((), "the buffer of a tensor that no task uses")
        first, index = users[0]
        text = f"the buffer of {self.name(first, index)} of task {first.ordinal} ({first.name})"
        return Owner(_ordinals(other for other, _ in users if other is not task), text)


def _ordinals(tasks: Iterable[KernelTask]) -> tuple[int, ...]:
    return tuple(sorted({task.ordinal for task in tasks}))


def _contains(tensor: GraphTensor, address: int) -> bool:
    """Return whether a tensor's buffer contains an address."""
    if tensor.dtype is None or tensor.buffer_numel is None:
        return False
    return 0 <= address - tensor.buffer_address < tensor.buffer_numel * tensor.dtype.itemsize


_MAX_OWNERS = 3
"""A phrase names at most this many owners of memory, and counts the others."""


def _join_names(texts: Iterable[str]) -> str:
    """Join the distinct texts, and count those beyond `_MAX_OWNERS`."""
    distinct = list(dict.fromkeys(texts))
    more = f" and {len(distinct) - _MAX_OWNERS} more" if len(distinct) > _MAX_OWNERS else ""
    return "; ".join(distinct[:_MAX_OWNERS]) + more


_MAX_SHOWN = 8
"""The terminal shows at most this many tasks that were not examined, and counts the others."""


def print_footprints(footprints: Footprints, line: SummaryLines) -> None:
    """Print the tasks that touch undeclared memory, those not examined, and the number of examined tasks."""
    for footprint in footprints.found:
        for text in footprint_lines(footprint):
            line(text, "bold red")
        for source in footprint.kernel_sources:
            line(f"  {source}")
    if not footprints.found:
        line("no task touches what it was not declared to", "bold green" if footprints.examined else "yellow")
    for each in line.first(footprints.not_examined, _MAX_SHOWN):
        line(f"not examined: task {each.position} {each.kernel}: {each.why}", "yellow")
    if more := line.omitted_count(footprints.not_examined, _MAX_SHOWN):
        line(f"and {more} more", "yellow")
    line(f"run alone: {footprints.examined} of {plural(footprints.tasks, 'task')}", "dim")


def footprint_lines(footprint: TaskFootprint) -> Iterator[str]:
    """Yield a line for each place of undeclared memory that a task touches."""
    task = f"task {footprint.position} {footprint.kernel}"
    for write in footprint.writes:
        yield (
            f"{task}: argument {write.argument} ({write.tensor}): writes {plural(write.bytes, 'byte')} {write.where}, "
            f"up to {plural(write.reach, 'byte')} from there: into {write.into}"
        )
    for read in footprint.reads:
        place = {
            "held before": "what it held before, though it is declared as an output alone",
            "around the tensor": "what lies around it in its buffer",
            "past the end of the buffer": "what lies past the end of its buffer",
            "before the buffer": "what lies before its buffer",
        }[read.what]
        yield f"{task}: argument {read.argument} ({read.tensor}): its results depend on {place}: {read.whose}"
    if footprint.wants_offset_zero:
        yield f"{task}: it leaves something else where its tensors lie farther from the start of their buffers"


_MAX_NAMED = 3
"""A phrase names at most this many writers or writes."""


def describe_stray_writers(footprints: Sequence[TaskFootprint], victim: KernelTask) -> str:
    """Return a phrase with one task of each kernel that writes outside of its tensors. Empty if there is none.

    Tasks that write into the victim's memory come first.
    """
    phrase_by_kernel: dict[str, tuple[bool, str]] = {}
    for footprint in footprints:
        for write in footprint.writes:
            hits = victim.ordinal in write.into_tasks
            known = phrase_by_kernel.get(footprint.kernel)
            if known is None or (hits and not known[0]):
                phrase_by_kernel[footprint.kernel] = hits, _describe_write(footprint, write)
    ranked = sorted(phrase_by_kernel.values(), key=lambda hit_and_phrase: not hit_and_phrase[0])
    return "; ".join(phrase for _, phrase in ranked[:_MAX_NAMED])


def describe_writes(footprint: TaskFootprint) -> str:
    """Return a phrase for the writes of a task outside of its tensors."""
    return "; ".join(_describe_write(footprint, write) for write in footprint.writes[:_MAX_NAMED])


def _describe_write(footprint: TaskFootprint, write: UndeclaredWrite) -> str:
    return (
        f"task {footprint.position} ({footprint.kernel}), argument {write.argument} ({write.tensor}), writes "
        f"{plural(write.bytes, 'byte')} {write.where}, into {write.into}"
    )
