"""The experiments of a localization, and the executor that makes them.

The steps of an investigation are generators that run nothing. They yield an experiment, and are sent its result:

    dumped = yield from Dump(failing=build, expected=reference, results={3})

`Executor` runs builds, and nothing else in a localization does. `ReferenceDump` is the dump of one run of a reference
build.
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
"""A run dumps at most this many bytes, unless a single task has more. Larger dumps would fill disk and memory."""


class Experiment(Generic[T]):
    """An experiment whose result is a T. It may fail with a `UserError` or a `BuildOutputError`."""

    def __iter__(self) -> Generator[Experiment[Any], Any, T]:
        """Ask for the experiment, and return its result. This is for `yield from`."""
        return (yield self)


Steps = Generator[Experiment[Any], Any, T]
"""Steps ask for experiments, and return a T."""


class Expectation(Protocol):
    """The expected values of some tasks, by ordinals of the failing build.

    All methods raise `IncompleteDumpError` if the dump of a value is incomplete.
    """

    def results_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return the expected results of a task by argument, as far as they are known."""
        ...

    def values_of(self, ordinal: int) -> TaskValues:
        """Return the expected results of a task, and those expected inputs that are compared."""
        ...

    def inputs_of(self, ordinal: int) -> Mapping[int, TensorView] | None:
        """Return all expected inputs of a task, or None if one of them is not known."""
        ...


@dataclass(frozen=True, kw_only=True)
class DumpPair:
    """The dump of one run of the failing build, and the expected values of its tasks."""

    actual: ArgsDump
    expected: Expectation


@dataclass(frozen=True, kw_only=True)
class DivergentTask:
    """A task of the failing build that did not leave its expected results.

    `counterpart` is the same task of the reference, or None if the reference is no build. `dumped` has all arguments of
    the task. Each access reads it anew, because memory may not hold the values of all divergent tasks.
    """

    task: KernelTask
    counterpart: KernelTask | None
    dumped: DumpPair
    exceeds_case_tolerance: bool
    """Whether the error exceeds the case's own tolerance. Also true if that tolerance is not known."""

    @property
    def actual(self) -> TaskValues:
        """Return all values of the task in the failing run."""
        return values_of(self.dumped.actual, self.task)

    @property
    def expected_values(self) -> TaskValues:
        """Return the expected values, as far as they are known."""
        return self.dumped.expected.values_of(self.task.ordinal)

    @property
    def expected_inputs(self) -> Mapping[int, TensorView] | None:
        """Return all tensors that the task should have read, or None if one of them is not known."""
        return self.dumped.expected.inputs_of(self.task.ordinal)


class DumpSource(Protocol):
    """A source of expected values. A reference build has to run for them."""

    def dump(self, *, results: Set[int], whole: Set[int]) -> Expectation:
        """Return the expected results of some tasks, and all expected values of the `whole` ones."""
        ...

    def dump_everything(self) -> Expectation:
        """Return all expected values of all tasks."""
        ...


@dataclass(frozen=True, kw_only=True)
class Record(Experiment[RecordedBuild]):
    """Copy a build, and run it once for its task graph. It may fail with a `ReplayError`. `name` names the folder."""

    build: RunnableBuild
    name: str


@dataclass(frozen=True, kw_only=True)
class MakeBuild(Experiment[RunnableBuild]):
    """Make a build directory in a new folder `name`, without a run."""

    make: Callable[[Path], RunnableBuild]
    name: str


@dataclass(frozen=True, kw_only=True)
class RunOnce(Experiment[FinishedRun]):
    """Copy a build into the folder `name`, and run it. The run may end in any way."""

    build: RunnableBuild
    name: str


@dataclass(frozen=True, kw_only=True)
class Dump(Experiment[DumpPair]):
    """Run the failing build, and the reference if it is a build.

    The dump has the results of the tasks `results`, and all arguments of the tasks `whole`, by ordinals of the failing
    build. `schedule` is that of the failing build, or None for the schedule of its toolchain.
    """

    failing: RecordedBuild
    expected: DumpSource
    results: Set[int] = frozenset()
    whole: Set[int] = frozenset()
    schedule: str | None = None


@dataclass(frozen=True, kw_only=True)
class DumpEverything(Experiment[DumpPair]):
    """Run the failing build, and dump all arguments of all tasks.

    `known` are the expected values from an earlier run of the reference. If it is None, the reference runs too.
    """

    failing: RecordedBuild
    expected: DumpSource
    known: Expectation | None = None
    schedule: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunInOrder(Experiment[tuple[TensorFolder | None, ...]]):
    """Run a build a few times under a schedule, or None for the schedule of its toolchain.

    With `under_load`, other processes keep the machine busy. The result are the outputs of each run, or None for a run
    without outputs.
    """

    build: RecordedBuild
    schedule: str | None
    runs: int
    under_load: bool = False


@dataclass(frozen=True, kw_only=True)
class RunAlone(Experiment[tuple[LoneResult, ...]]):
    """Run some tasks of a build one after the other, and no other tasks. The result are the results of each.

    It may fail with an `IncompleteDumpError`.
    """

    tasks: tuple[PreparedTask, ...]


@dataclass(frozen=True, kw_only=True)
class DumpWhole(Experiment[ArgsDump]):
    """Run a build, and dump all arguments of some of its tasks, by ordinal."""

    build: RecordedBuild
    tasks: Set[int]


@dataclass(frozen=True)
class Tell(Experiment[None]):
    """Tell the user what happens next, or why."""

    text: str


Experimented = TypeVar("Experimented")


@dataclass(frozen=True, kw_only=True)
class Executor:
    """Makes experiments: runs copies of builds below `folder` on the frozen `data`.

    `timeout` limits each run, in seconds.
    """

    data: Path
    folder: Path
    timeout: float
    on_progress: Callable[[str], None]
    _task_replayers: dict[tuple[IsolatedTask, ...], TaskReplayer] = field(
        default_factory=dict[tuple[IsolatedTask, ...], TaskReplayer]
    )
    """The copies of builds for runs of tasks alone. All runs of the same tasks share a copy."""

    def execute(self, steps: Generator[Experiment[Any], Any, Experimented]) -> Experimented:
        """Make the experiments that steps ask for, and return the result of the steps.

        The steps receive the error of an experiment, and may raise it.
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
        if tasks not in self._task_replayers:
            name = f"{len(self._task_replayers) + 1:03}-task-{tasks[-1].task.ordinal}"
            self._task_replayers[tasks] = TaskReplayer(tasks, folder=self.folder / "alone" / name)
        return self._task_replayers[tasks].run([each.contents for each in asked.tasks])


def _outputs(build: RecordedBuild, schedule: str | None) -> TensorFolder | None:
    """Run a build, and return its outputs, or None if it fails without outputs."""
    try:
        return build.run(schedule=schedule).outputs
    except (ReplayError, BuildOutputError):
        return None


@dataclass(frozen=True, kw_only=True)
class ReferenceDump:
    """The expected values from a dump of the reference build. `failing` are the tasks of the failing build."""

    failing: TaskList
    reference: TaskList
    alignment: Alignment
    dump: ArgsDump

    def results_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return the counterpart's results in the arguments that both tasks declare to write."""
        return self._keep_common_outputs(ordinal, results_of(self.dump, self._counterpart_of(ordinal)))

    def values_of(self, ordinal: int) -> TaskValues:
        """Return the counterpart's inputs, and the same results as `results_of`."""
        values = values_of(self.dump, self._counterpart_of(ordinal))
        return replace(values, after=self._keep_common_outputs(ordinal, values.after))

    def inputs_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return the counterpart's inputs."""
        return self.values_of(ordinal).before

    def _counterpart_of(self, ordinal: int) -> KernelTask:
        return self.reference.tasks[self.alignment.reference_of[ordinal]]

    def _keep_common_outputs(
        self, ordinal: int, results: Mapping[int, TensorView]
    ) -> Mapping[int, TensorView]:
        common = common_outputs(self.failing.tasks[ordinal], self._counterpart_of(ordinal))
        return {index: view for index, view in results.items() if index in common}


def common_outputs(task: KernelTask, counterpart: KernelTask) -> Set[int]:
    """Return the arguments that both tasks declare to write."""
    return _output_arguments(task) & _output_arguments(counterpart)


def _output_arguments(task: KernelTask) -> Set[int]:
    return {argument.index for argument in task.task.arguments if argument.type.may_write}
