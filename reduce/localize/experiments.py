"""The experiments that an investigation asks for, and the executor that makes them.

The steps of an investigation are generators, which run nothing. They yield an experiment, and are sent its result:

    dumped = yield from Dump(failing=build, expected=reference, results={3})

`Executor` is the only place of a localization that runs builds. `ReferenceDump` is what one run of a reference build
has dumped.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Set
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ...runner.build_output.args_dump import ArgsDump
from ...runner.build_output.directory import GoldenData, TensorFolder
from ...runner.build_output.files import BuildOutputError
from ...runner.case.preflight import entry_arguments
from ...runner.errors import UserError
from ...runner.tensor import TensorView
from ..graph.tasks import Alignment, KernelTask, TaskList
from ..replay.replay import (
    CompiledObjects,
    FinishedRun,
    IncompleteDumpError,
    RecordedBuild,
    Replayer,
    ReplayError,
    RunnableBuild,
    TaskValues,
    WorkingCopy,
    keep_processors_busy,
    results_of,
    values_of,
)
from ..replay.task_replay import IsolatedTask, LoneResult, PreparedTask, TaskReplayer

T = TypeVar("T")

DUMP_BUDGET = 256 << 20
"""One run dumps this many bytes at most, unless one task has more. Larger dumps would fill the disk and the memory."""


class Experiment(Generic[T]):
    """Something to be done whose result is a T. It may fail with a `UserError` or a `BuildOutputError`."""

    def __iter__(self) -> Generator[Experiment[Any], Any, T]:
        """`yield from` an experiment asks for it, and returns its result."""
        return (yield self)


Steps = Generator[Experiment[Any], Any, T]
"""The steps ask for experiments, and return a T in the end."""


class Expectation(Protocol):
    """What some tasks should leave, by their ordinal in the failing build."""

    def results_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return what the task should leave, by argument index, as far as it is known.

        Raises `IncompleteDumpError` where it was dumped, but not whole.
        """
        ...

    def values_of(self, ordinal: int) -> TaskValues:
        """Return what the task should leave, and what it should read as far as that is compared. Raises as
        `results_of`."""
        ...

    def inputs_of(self, ordinal: int) -> Mapping[int, TensorView] | None:
        """All tensors that the task should read; None where one of them is not known. Raises as `results_of`."""
        ...


@dataclass(frozen=True, kw_only=True)
class DumpPair:
    """What the tasks of the failing build held in one run, and what they should have held."""

    actual: ArgsDump
    expected: Expectation


class DumpSource(Protocol):
    """A source of what tasks should leave. Where it is a build, it is run for that."""

    def dump(self, *, results: Set[int], whole: Set[int]) -> Expectation:
        """Return what some tasks should leave, and what the `whole` ones should read."""
        ...

    def dump_everything(self) -> Expectation:
        """Return what all tasks should read and leave."""
        ...


@dataclass(frozen=True, kw_only=True)
class Record(Experiment[RecordedBuild]):
    """Copy a build, and run it once for its task graph. It may fail with a `ReplayError`."""

    build: RunnableBuild
    name: str
    """The name of the folder for it."""


@dataclass(frozen=True, kw_only=True)
class MakeBuild(Experiment[RunnableBuild]):
    """Make a build directory; nothing is run."""

    make: Callable[[Path], RunnableBuild]
    """Takes a folder that does not exist yet."""
    name: str
    """The name of the folder for it."""


@dataclass(frozen=True, kw_only=True)
class RunOnce(Experiment[FinishedRun]):
    """Copy a build and run it, however that ends."""

    build: RunnableBuild
    name: str
    """The name of the folder for it."""


@dataclass(frozen=True, kw_only=True)
class Dump(Experiment[DumpPair]):
    """Run the failing build, and the reference where that is a build.

    The dump holds what the `results` tasks write, and all arguments of the `whole` ones. Tasks are given by their
    ordinal in the failing build.
    """

    failing: RecordedBuild
    expected: DumpSource
    results: Set[int] = frozenset()
    whole: Set[int] = frozenset()
    schedule: str | None = None
    """The schedule of the stack file for the failing build; None leaves the schedule that its toolchain has."""


@dataclass(frozen=True, kw_only=True)
class DumpEverything(Experiment[DumpPair]):
    """Run the failing build and dump all arguments of all tasks, where the reference knows all of them."""

    failing: RecordedBuild
    expected: DumpSource
    known: Expectation | None = None
    """What an earlier run of the reference has dumped; None: the reference is run too."""
    schedule: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunInOrder(Experiment[tuple[TensorFolder | None, ...]]):
    """Run a build a few times under a schedule of the stack file, None for none, and dump nothing.

    The result is what each run put out; None for one that crashed, stalled, ran out of time, or did not report it.
    """

    build: RecordedBuild
    schedule: str | None
    runs: int
    under_load: bool = False
    """Run while other processes keep the machine busy."""


@dataclass(frozen=True, kw_only=True)
class RunAlone(Experiment[tuple[LoneResult, ...]]):
    """Run some tasks of one build in turn, and no other; the result is what each of them leaves.

    It may fail with an `IncompleteDumpError`.
    """

    tasks: tuple[PreparedTask, ...]


@dataclass(frozen=True, kw_only=True)
class DumpWhole(Experiment[ArgsDump]):
    """Run a build, and dump all arguments of some of its tasks, by their ordinal."""

    build: RecordedBuild
    tasks: Set[int]


@dataclass(frozen=True)
class Tell(Experiment[None]):
    """Tell the user what is done next, or why."""

    text: str


Experimented = TypeVar("Experimented")


@dataclass(frozen=True, kw_only=True)
class Executor:
    """Runs builds on the frozen `data`, and tasks alone, in copies below `folder`, for up to `timeout` seconds each."""

    data: Path
    folder: Path
    timeout: float
    on_progress: Callable[[str], None]
    _alone: dict[tuple[IsolatedTask, ...], TaskReplayer] = field(
        default_factory=dict[tuple[IsolatedTask, ...], TaskReplayer]
    )
    """Copies of builds, by their tasks. All runs of the same tasks share a copy."""

    def execute(self, steps: Generator[Experiment[Any], Any, Experimented]) -> Experimented:
        """Return what the steps return, once all that they ask for is done.

        Raises what the steps raise: the error of an experiment is raised where it was asked for.
        """
        try:
            experiment = next(steps)
            while True:
                try:
                    result = self._result_of(experiment)
                except (UserError, BuildOutputError, IncompleteDumpError) as error:
                    experiment = steps.throw(error)
                else:
                    experiment = steps.send(result)
        except StopIteration as finished:
            return finished.value

    def _result_of(self, experiment: Experiment[Any]) -> object:
        match experiment:
            case Tell():
                return self.on_progress(experiment.text)
            case Record():
                return self._record(experiment)
            case MakeBuild():
                return self._make_build(experiment)
            case RunOnce():
                return self._run_once(experiment)
            case Dump():
                return self._dump(experiment)
            case DumpEverything():
                return self._dump_everything(experiment)
            case RunInOrder():
                return self._run_in_order(experiment)
            case RunAlone():
                return self._run_alone(experiment)
            case DumpWhole():
                return experiment.build.dump(results=frozenset(), whole=experiment.tasks)
            case _:
                raise TypeError(f"expected an experiment that is known here, found {experiment}")

    @property
    def _objects(self) -> CompiledObjects:
        return CompiledObjects(self.folder / "objects")

    def _record(self, asked: Record) -> RecordedBuild:
        return RecordedBuild.open(
            asked.build.path.resolve(),
            data=self.data,
            toolchain=asked.build.toolchain,
            folder=self.folder / asked.name,
            timeout=self.timeout,
            objects=self._objects,
        )

    def _make_build(self, asked: MakeBuild) -> RunnableBuild:
        folder = self.folder / asked.name
        folder.parent.mkdir(parents=True, exist_ok=True)
        return asked.make(folder)

    def _run_once(self, asked: RunOnce) -> FinishedRun:
        folder = self.folder / asked.name
        copy = WorkingCopy.create(asked.build.path, folder / "build")
        arguments = entry_arguments(copy.build(), GoldenData.open(self.data))
        replayer = Replayer(
            copy=copy,
            toolchain=asked.build.toolchain,
            folder=folder / "runs",
            timeout=self.timeout,
            objects=self._objects,
        )
        return replayer.classify(arguments, data=self.data)

    def _dump(self, asked: Dump) -> DumpPair:
        actual = asked.failing.dump(results=asked.results, whole=asked.whole, schedule=asked.schedule)
        return DumpPair(actual=actual, expected=asked.expected.dump(results=asked.results, whole=asked.whole))

    def _dump_everything(self, asked: DumpEverything) -> DumpPair:
        expected = asked.expected.dump_everything() if asked.known is None else asked.known
        return DumpPair(actual=asked.failing.dump_everything(schedule=asked.schedule), expected=expected)

    def _run_in_order(self, asked: RunInOrder) -> tuple[TensorFolder | None, ...]:
        asked.build.restore()
        with keep_processors_busy() if asked.under_load else nullcontext():
            return tuple(_outputs(asked.build, asked.schedule) for _ in range(asked.runs))

    def _run_alone(self, asked: RunAlone) -> tuple[LoneResult, ...]:
        tasks = tuple(each.alone for each in asked.tasks)
        if tasks not in self._alone:
            place = self.folder / "alone" / f"{len(self._alone) + 1:03}-task-{tasks[-1].task.ordinal}"
            self._alone[tasks] = TaskReplayer(tasks, folder=place)
        return self._alone[tasks].run([each.contents for each in asked.tasks])


def _outputs(build: RecordedBuild, schedule: str | None) -> TensorFolder | None:
    try:
        return build.run(schedule=schedule).outputs
    except (ReplayError, BuildOutputError):
        return None


@dataclass(frozen=True, kw_only=True)
class ReferenceDump:
    """A dump of the reference, read by ordinals of the failing build, whose tasks are `failing`."""

    failing: TaskList
    reference: TaskList
    alignment: Alignment
    dump: ArgsDump

    def results_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return what the counterpart left in the arguments that both tasks write.

        An argument may be declared differently in one of the builds. Raises `IncompleteDumpError` where that was not
        dumped whole.
        """
        return self._keep_common_outputs(ordinal, results_of(self.dump, self._counterpart_of(ordinal)))

    def values_of(self, ordinal: int) -> TaskValues:
        """Return what the counterpart read and left. Raises as `results_of`."""
        values = values_of(self.dump, self._counterpart_of(ordinal))
        return replace(values, after=self._keep_common_outputs(ordinal, values.after))

    def inputs_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return what the counterpart read. Raises as `results_of`."""
        return self.values_of(ordinal).before

    def _counterpart_of(self, ordinal: int) -> KernelTask:
        return self.reference.tasks[self.alignment.reference_of[ordinal]]

    def _keep_common_outputs(self, ordinal: int, left: Mapping[int, TensorView]) -> Mapping[int, TensorView]:
        both = common_outputs(self.failing.tasks[ordinal], self._counterpart_of(ordinal))
        return {index: view for index, view in left.items() if index in both}


def common_outputs(task: KernelTask, counterpart: KernelTask) -> Set[int]:
    """The arguments that both tasks are declared to write."""
    return _output_arguments(task) & _output_arguments(counterpart)


def _output_arguments(task: KernelTask) -> Set[int]:
    return {argument.index for argument in task.task.arguments if argument.type.may_write}
