"""Which tasks of a build read or write memory that they were not declared to: `reduce --footprints`.

No good build is needed: tasks run alone, in poisoned and guarded buffers (`examine`). Two fills show what one hides,
for a byte that is written does not hold one of them. A result that depends on a byte changes with the fill. Many tasks
run at a time, and one that stands out runs again by itself. A localization uses footprints to name who overwrote a
task's memory, and for a kernel at fault whose own results are right.
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
    TaskFootprint,
    UndeclaredRead,
    UndeclaredWrite,
)
from ...runner.tensor import Storage
from ...store.durable_files import write_whole
from ...store.vocabulary import plural
from ..graph.tasks import KernelTask
from ..reduce_cli import OutputFolder
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

_MAX_ALL_EXAMINED = 48
"""If there are at most this many tasks, all are run. Of more, alike ones are represented by the first, middle and last.
"""


def representatives(tasks: Iterable[KernelTask]) -> list[KernelTask]:
    """The tasks to run: all of them if they are few.

    Of many tasks, these are the first, middle and last one of those with the same kernels, shapes and strides.
    """
    every = list(tasks)
    if len(every) <= _MAX_ALL_EXAMINED:
        return every
    alike: dict[object, list[KernelTask]] = {}
    for task in every:
        geometry = tuple(
            (
                argument.type,
                None if argument.region is None else (argument.region.shape, argument.region.strides),
            )
            for argument in task.task.arguments
        )
        alike.setdefault((task.kernels, geometry), []).append(task)
    chosen = {
        task.ordinal: task
        for group in alike.values()
        for task in (group[0], group[len(group) // 2], group[-1])
    }
    return [chosen[ordinal] for ordinal in sorted(chosen)]


Positions = npt.NDArray[np.int64]
"""The positions are those of elements in a flat buffer, ascending."""
_Mask = npt.NDArray[np.bool_]


class Place(Enum):
    """Parts of a buffer that a task was not given as an input."""

    HELD = "held before"
    AROUND = "around the tensor"
    PAST = "past the end of the buffer"
    BEFORE = "before the buffer"


@dataclass(frozen=True)
class LoneRun:
    """One run of a task alone: the contents that its buffers had before and after."""

    given: Sequence[Storage]
    left: Sequence[Storage]


def outside_changes(alone: IsolatedTask, ran: LoneRun) -> dict[int, Positions]:
    """Elements, by buffer, that a task changed and was not declared to write."""
    found: dict[int, Positions] = {}
    for number, (before, after) in enumerate(zip(ran.given, ran.left, strict=True)):
        changed = (_bits(before) != _bits(after)) & ~_mask(alone, number, _written_regions(alone))
        if changed.any():
            found[number] = np.flatnonzero(changed)
    return found


def results_differ(
    alone: IsolatedTask, one: LoneRun, other: LoneRun, *, other_alone: IsolatedTask | None = None
) -> bool:
    """Return whether the task's results differ between two runs; elements that neither run has written do not count.

    In the other run its tensors may lie elsewhere, as in `other_alone`.
    """
    pairs = zip(_written_regions(alone), _written_regions(other_alone or alone), strict=True)
    for (number, region), (_, moved) in pairs:
        here, there = (
            _bits(region_array(one.left[number], region)),
            _bits(region_array(other.left[number], moved)),
        )
        unwritten = (here == _bits(region_array(one.given[number], region))) & (
            there == _bits(region_array(other.given[number], moved))
        )
        if bool(((here != there) & ~unwritten).any()):
            return True
    return False


def fill_differently(low: PreparedTask, high: PreparedTask, buffer: int, place: Place) -> PreparedTask | None:
    """The contents of `low` with those of `high` in one place of one buffer; None where there is no such place."""
    mask = _place_mask(low.alone, buffer, place)
    if not mask.any():
        return None
    contents = list(low.contents)
    contents[buffer] = np.where(mask, high.contents[buffer], low.contents[buffer])
    return PreparedTask(low.alone, tuple(contents))


def _place_mask(alone: IsolatedTask, number: int, place: Place) -> _Mask:
    buffer = alone.placement.buffers[number]
    where = np.arange(buffer.elements)
    inside = (where >= buffer.start) & (where < buffer.stop)
    written, read = (
        _mask(alone, number, regions) for regions in (_written_regions(alone), _read_regions(alone))
    )
    match place:
        case Place.HELD:
            return written & ~read
        case Place.AROUND:
            return inside & ~written & ~read
        case Place.PAST:
            return (where >= buffer.stop) & ~written & ~read
        case Place.BEFORE:
            return (where < buffer.start) & ~written & ~read


def _mask(alone: IsolatedTask, number: int, regions: Iterator[tuple[int, Region]]) -> _Mask:
    mask = np.zeros(alone.placement.buffers[number].elements, np.bool_)
    for buffer, region in regions:
        if buffer == number:
            region_array(mask, region)[...] = True
    return mask


def _written_regions(alone: IsolatedTask) -> Iterator[tuple[int, Region]]:
    return _regions(alone, writing=True)


def _read_regions(alone: IsolatedTask) -> Iterator[tuple[int, Region]]:
    return _regions(alone, writing=False)


def _regions(alone: IsolatedTask, *, writing: bool) -> Iterator[tuple[int, Region]]:
    for argument in alone.task.task.arguments:
        if argument.type.may_write if writing else argument.type.may_read:
            placed = alone.placement.tensors[argument.index]
            yield placed.buffer_index, placed.region


def _bits(values: Storage) -> Storage:
    """The elements as integers: NaN equals itself then, and -0.0 is not 0.0."""
    return np.ascontiguousarray(values).view(f"<u{values.dtype.itemsize}")


_MOST_OWNERS = 3
"""A sentence names at most this many owners of memory and counts the rest, so that it stays readable."""


@dataclass(frozen=True)
class Owner:
    """Says who owns some memory: the other tasks whose tensors lie there, by their ordinals, and the words for it."""

    tasks: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Owners:
    """Says who owns memory in the run of a build."""

    build: RecordedBuild

    def name(self, task: KernelTask, argument: int) -> str:
        """The orchestration's name for a tensor of a task."""
        return self.build.argument_names.name_of(task, argument) or f"argument {argument}"

    def buffer_id(self, task: KernelTask, buffer: ParentBuffer) -> int | None:
        """The id of a task's buffer in the graph, also where the runtime allocated it; None where it has none."""
        if buffer.tensor_id is not None:
            return buffer.tensor_id
        made = self.build.tasks.graph.tensors_created_by(task.task.task_id)
        return made[0] if len(made) == 1 else None

    def users(self, task: KernelTask, buffer: ParentBuffer, positions: Positions) -> Owner:
        """Who uses elements in a buffer of the task. Positions are counted with the buffer's guard."""
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

    def describe_writers(self, task: KernelTask, buffer: ParentBuffer, *, of: int | None) -> str:
        """Who else leaves something in a buffer of the task.

        That is in its argument `of`, or anywhere in the buffer where `of` is None.
        """
        tensor_id = self.buffer_id(task, buffer)
        region = next((a.region for a in task.task.arguments if of is not None and a.index == of), None)
        wanted = range(buffer.stop) if region is None else region.bounds
        named = [
            f"task {other.ordinal} ({other.name})"
            for other in self.build.tasks.tasks
            for argument in other.task.arguments
            if tensor_id is not None and argument.tensor_id == tensor_id and argument.type.may_write
            if other is not task and argument.region is not None
            if argument.region.bounds.start < wanted.stop and wanted.start < argument.region.bounds.stop
        ]
        return (
            f"what {_join_names(dict.fromkeys(named))} left"
            if named
            else "what no task writes: uninitialised"
        )

    def owner(self, task: KernelTask, buffer: ParentBuffer, position: int) -> Owner:
        """Who owns an element outside of a buffer of the task, by the addresses of the run that recorded the graph."""
        tensors = self.build.tasks.graph.tensors
        own = tensors.get(self.buffer_id(task, buffer) or 0)
        if own is None:
            return Owner((), "memory outside of the buffer")
        address = own.buffer_address + (position - buffer.start) * buffer.dtype.itemsize
        hit = next((tensor for tensor in tensors.values() if _holds(tensor, address)), None)
        if hit is None:
            return Owner((), "memory of no tensor")
        users = [
            (other, argument.index)
            for other in self.build.tasks.tasks
            for argument in other.task.arguments
            if argument.tensor_id == hit.tensor_id
        ]
        if not users:
            return Owner((), "the buffer of a tensor that no task uses")
        first, index = users[0]
        text = f"the buffer of {self.name(first, index)} of task {first.ordinal} ({first.name})"
        return Owner(_ordinals(other for other, _ in users if other is not task), text)


def _ordinals(tasks: Iterable[KernelTask]) -> tuple[int, ...]:
    return tuple(sorted({task.ordinal for task in tasks}))


def _holds(tensor: GraphTensor, address: int) -> bool:
    if tensor.dtype is None or tensor.buffer_numel is None:
        return False
    return 0 <= address - tensor.buffer_address < tensor.buffer_numel * tensor.dtype.itemsize


def _join_names(texts: Iterable[str]) -> str:
    named: Sequence[str] = list(dict.fromkeys(texts))
    more = f" and {len(named) - _MOST_OWNERS} more" if len(named) > _MOST_OWNERS else ""
    return "; ".join(named[:_MOST_OWNERS]) + more


def undeclared_writes(
    owners: Owners, alone: IsolatedTask, buffer_number: int, positions: Positions
) -> Iterator[UndeclaredWrite]:
    """One entry for each edge that a task wrote beyond.

    `positions` are the elements of one buffer that the task changed and was not declared to write.
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
    """The argument of a buffer that lies nearest to some elements; written arguments come before read ones."""

    def distance_key(argument: int) -> tuple[bool, int]:
        bounds = alone.placement.tensors[argument].region.bounds
        reads = not next(each.type.may_write for each in alone.task.task.arguments if each.index == argument)
        distances = np.maximum(bounds.start - positions, positions - bounds.stop + 1)
        return reads, int(np.maximum(distances, 0).min())

    return min(
        (index for index, placed in alone.placement.tensors.items() if placed.buffer_index == buffer_number),
        key=distance_key,
    )


_MOST_TENSORS = 24
"""The tasks that are run at a time have at most this many tensors. A failed batch is halved, so a larger one costs
more."""
_MOST_BYTES = 64 << 20
"""The tasks that are run at a time take at most this many bytes."""

_ATTEMPTS = 3
"""A dump is tried this many times. A build that writes where it should not may crash in one run only."""


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """A task that is examined, with its tensors where they lay, and behind guards; `values` are the recorded ones."""

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
            guarded=IsolatedTask.from_build(build, task, values, behind_a_guard=True),
            values=values,
        )

    def given(self, fill: Fill, *, guarded: bool = False) -> PreparedTask:
        return PreparedTask.prepare(self.guarded if guarded else self.exact, self.values.before, fill)

    @property
    def bytes(self) -> int:
        return self.guarded.placement.bytes


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What an examination found; tasks that are in neither list touch nothing else."""

    found: list[TaskFootprint] = field(default_factory=list[TaskFootprint])
    not_examined: list[NotExamined] = field(default_factory=list[NotExamined])

    def fail(self, task: KernelTask, error: Exception) -> None:
        """Note that nothing can be said about a task."""
        self.not_examined.append(NotExamined(position=task.ordinal, kernel=task.name, why=str(error)))


def examine(build: RecordedBuild, tasks: Sequence[KernelTask], *, budget: int) -> Steps[Examination]:
    """Run some tasks of a build alone, on what they read in a run that dumps up to `budget` bytes at a time."""
    examination = Examination()
    for part in _parts(tasks, budget):
        yield from Tell(
            f"recording {plural(len(part), 'task')}, to run {'it' if len(part) == 1 else 'each'} alone"
        )
        try:
            dump = yield from _dump_with_retries(build, part)
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
                else:
                    examination.found.extend([footprint] if footprint is not None else [])
    return examination


def _dump_with_retries(build: RecordedBuild, part: Sequence[KernelTask]) -> Steps[ArgsDump]:
    """Dump some tasks, and try again after a crash.

    A build that writes where it should not may crash in one run and not in the next.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(ReplayError):
            return (yield from DumpWhole(build=build, tasks={task.ordinal for task in part}))
    return (yield from DumpWhole(build=build, tasks={task.ordinal for task in part}))


def _select_conspicuous(batch: Sequence[_Subject], examination: Examination) -> Steps[list[_Subject]]:
    """The tasks that changed what they should not, or that left other results behind a guard and with the other fill.

    Where tasks do not run together, each half of them is run.
    """
    lows = tuple(subject.given(Fill.LOW) for subject in batch)
    highs = tuple(subject.given(Fill.HIGH, guarded=True) for subject in batch)
    try:
        low = yield from RunAlone(tasks=lows)
        high = yield from RunAlone(tasks=highs)
    except (UserError, BuildOutputError, IncompleteDumpError):
        if len(batch) == 1:
            return [*batch]
        middle = len(batch) // 2
        first = yield from _select_conspicuous(batch[:middle], examination)
        return [*first, *(yield from _select_conspicuous(batch[middle:], examination))]
    found: list[_Subject] = []
    for subject, one, other in zip(
        batch, zip(lows, low, strict=True), zip(highs, high, strict=True), strict=True
    ):
        try:
            exact, guarded = _lone_run(*one), _lone_run(*other)
        except UserError as error:
            examination.fail(subject.exact.task, error)
            continue
        if (
            outside_changes(subject.exact, exact)
            or outside_changes(subject.guarded, guarded)
            or results_differ(subject.exact, exact, guarded, other_alone=subject.guarded)
        ):
            found.append(subject)
    return found


def _footprint(owners: Owners, subject: _Subject) -> Steps[TaskFootprint | None]:
    """Return what a task that stood out among others touches when it is run by itself; None where that is nothing.

    Behind guards no write does harm to the run itself. The task is also run where its tensors lay, for it may depend on
    that. If it does, that run is the one reported.
    """
    task = subject.exact.task
    yield from Tell(f"running task {task.ordinal} ({task.name}) alone")
    low = yield from _run(subject.given(Fill.LOW, guarded=True))
    high = yield from _run(subject.given(Fill.HIGH, guarded=True))
    alone, counts = subject.guarded, False
    with suppress(ReplayError):
        exact = yield from _run(subject.given(Fill.LOW))
        counts = results_differ(subject.exact, exact, low, other_alone=subject.guarded)
        # A kernel may go wrong only at one offset, such as that of the first rows. Behind a guard it does not.
        only_there = outside_changes(subject.exact, exact) and not outside_changes(subject.guarded, low)
        if counts or only_there:
            alone, low, high = subject.exact, exact, (yield from _run(subject.given(Fill.HIGH)))
    changed = [outside_changes(alone, ran) for ran in (low, high)]
    writes: list[UndeclaredWrite] = []
    for number in sorted({*changed[0], *changed[1]}):
        positions = np.unique(np.concatenate([each[number] for each in changed if number in each]))
        writes += undeclared_writes(owners, alone, number, positions)
    reads = (yield from _reads(owners, subject, alone, low)) if results_differ(alone, low, high) else []
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
    owners: Owners, subject: _Subject, alone: IsolatedTask, plain: LoneRun
) -> Steps[list[UndeclaredRead]]:
    """The places whose contents the results depend on. `plain` is the run of `alone` with the low fill."""
    low, high = (PreparedTask.prepare(alone, subject.values.before, fill) for fill in (Fill.LOW, Fill.HIGH))
    found: list[UndeclaredRead] = []
    for number, place in itertools.product(range(len(alone.placement.buffers)), Place):
        mixed = fill_differently(low, high, number, place)
        if mixed is None or not results_differ(alone, plain, (yield from _run(mixed))):
            continue
        buffer = alone.placement.buffers[number]
        argument = nearest_argument(alone, number, np.array([buffer.start]))
        match place:
            case Place.PAST:
                whose = owners.owner(alone.task, buffer, buffer.stop).text
            case Place.BEFORE:
                whose = owners.owner(alone.task, buffer, buffer.start - 1).text
            case Place.HELD:
                whose = owners.describe_writers(alone.task, buffer, of=argument)
            case Place.AROUND:
                whose = owners.describe_writers(alone.task, buffer, of=None)
        name = owners.name(alone.task, argument)
        found.append(UndeclaredRead(argument=argument, tensor=name, what=place.value, whose=whose))
    return found


def _run(given: PreparedTask) -> Steps[LoneRun]:
    (left,) = yield from RunAlone(tasks=(given,))
    return _lone_run(given, left)


def _lone_run(given: PreparedTask, result: LoneResult) -> LoneRun:
    if result.left is None:
        raise UserError("expected a harness that hands back what a run left, found one that does not")
    return LoneRun(given.contents, result.left)


def _parts(tasks: Sequence[KernelTask], budget: int) -> Iterator[list[KernelTask]]:
    """The tasks in parts that one run may dump, with at least one task each."""
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


@dataclass(frozen=True, kw_only=True)
class FootprintRequest:
    """Which build is examined, and how.

    `golden_data` is by default the build's own. `timeout` is in seconds of a run.
    """

    build: RunnableBuild
    golden_data: Path | None
    timeout: float
    output: Path


def footprints(request: FootprintRequest, *, on_progress: Callable[[str], None]) -> Footprints:
    """Find what tasks touch that they were not declared to, and write `footprints.json` to the output folder.

    Raises:
        UserError: the build cannot be run.
        BuildOutputError: a part of it, or what a run recorded, cannot be read.
    """
    output = OutputFolder(request.output)
    with output.open(apart_from=(request.build.path,)) as work:
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


_MOST_SHOWN = 8
"""The terminal shows at most this many tasks that were not examined, and counts the rest."""


def footprint_lines(footprint: TaskFootprint) -> Iterator[str]:
    """Return what one task touches, one line for each place."""
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


def print_footprints(footprints: Footprints, line: SummaryLines) -> None:
    """Print what was found, and how many tasks were run."""
    for footprint in footprints.found:
        for text in footprint_lines(footprint):
            line(text, "bold red")
        for source in footprint.kernel_sources:
            line(f"  {source}")
    if not footprints.found:
        line("no task touches what it was not declared to", "bold green" if footprints.examined else "yellow")
    for each in line.first(footprints.not_examined, _MOST_SHOWN):
        line(f"not examined: task {each.position} {each.kernel}: {each.why}", "yellow")
    if more := line.omitted_count(footprints.not_examined, _MOST_SHOWN):
        line(f"and {more} more", "yellow")
    line(f"run alone: {footprints.examined} of {plural(footprints.tasks, 'task')}", "dim")


_MOST_NAMED = 3
"""A sentence names at most this many writers or writes, the most telling first."""


def writers_into(found: Sequence[TaskFootprint], victim: KernelTask) -> str:
    """In words, the tasks that write outside of their tensors, one for each kernel.

    Tasks whose writes reach the victim's memory come first. Empty where no task writes outside.
    """
    named: dict[str, tuple[bool, str]] = {}
    for footprint in found:
        for write in footprint.writes:
            hits = victim.ordinal in write.into_tasks
            known = named.get(footprint.kernel)
            if known is None or (hits and not known[0]):
                named[footprint.kernel] = hits, _describe_write(footprint, write)
    ranked = sorted(named.values(), key=lambda each: not each[0])
    return "; ".join(text for _, text in ranked[:_MOST_NAMED])


def find_undeclared_writers(
    build: RecordedBuild, kernels: Set[str], *, budget: int
) -> Steps[tuple[TaskFootprint, ...]]:
    """The tasks of some kernels that write outside of their tensors when they run alone.

    They are in the order of `harmful_first`. `budget` is the bytes that a run of the build may dump.
    """
    tasks = representatives(task for task in build.tasks.tasks if not kernels.isdisjoint(task.kernels))
    examination = yield from examine(build, tasks, budget=budget)
    return harmful_first(examination.found)


def harmful_first(found: Sequence[TaskFootprint]) -> tuple[TaskFootprint, ...]:
    """The tasks that write outside of their tensors; those that write into memory of another task come first."""
    writing = [footprint for footprint in found if footprint.writes]
    return tuple(sorted(writing, key=lambda each: not any(write.into_tasks for write in each.writes)))


def describe_writes(footprint: TaskFootprint) -> str:
    """Return what a task writes outside of its tensors."""
    return "; ".join(_describe_write(footprint, write) for write in footprint.writes[:_MOST_NAMED])


def _describe_write(footprint: TaskFootprint, write: UndeclaredWrite) -> str:
    return (
        f"task {footprint.position} ({footprint.kernel}), argument {write.argument} ({write.tensor}), writes "
        f"{plural(write.bytes, 'byte')} {write.where}, into {write.into}"
    )
