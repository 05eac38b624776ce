"""Makes the experiments that an investigation asks for: the one place of a localization that runs builds."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ...runner.build_output.files.errors import BuildOutputError
from ...runner.build_output.golden_data import GoldenData, TensorFolder
from ...runner.case.entry_arguments import entry_arguments
from ...runner.errors import UserError
from ..replay.comparison import NotWholeError
from ..replay.compiled_objects import CompiledObjects
from ..replay.load import busy
from ..replay.recorded_build import RecordedBuild
from ..replay.replay import Ran, Replayer, ReplayError
from ..replay.runnable_build import RunnableBuild
from ..replay.task_replay import LoneResult, TaskAlone, TaskReplayer
from ..replay.working_copy import WorkingCopy
from .experiments.experiment import (
    Dump,
    Dumped,
    DumpEverything,
    DumpWhole,
    Experiment,
    MakeBuild,
    Record,
    RunAlone,
    RunInOrder,
    RunOnce,
    Tell,
)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Executor:
    """Runs builds on the frozen `data`, and tasks alone, in copies below `folder`, for up to `timeout` seconds each."""

    data: Path
    folder: Path
    timeout: float
    on_progress: Callable[[str], None]
    _alone: dict[tuple[TaskAlone, ...], TaskReplayer] = field(
        default_factory=dict[tuple[TaskAlone, ...], TaskReplayer]
    )
    """Copies of builds, each with some tasks, which all runs of these share."""

    def execute(self, steps: Generator[Experiment[Any], Any, T]) -> T:
        """What the steps return, once all that they ask for is done.

        Raises what the steps raise: an experiment that fails is raised where it was asked for.
        """
        try:
            experiment = next(steps)
            while True:
                try:
                    result = self._result_of(experiment)
                except (UserError, BuildOutputError, NotWholeError) as error:
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

    def _run_once(self, asked: RunOnce) -> Ran:
        folder = self.folder / asked.name
        copy = WorkingCopy.of(asked.build.path, folder / "build")
        arguments = entry_arguments(copy.build(), GoldenData.open(self.data))
        replayer = Replayer(
            copy=copy,
            toolchain=asked.build.toolchain,
            folder=folder / "runs",
            timeout=self.timeout,
            objects=self._objects,
        )
        return replayer.classify(arguments, data=self.data)

    def _dump(self, asked: Dump) -> Dumped:
        actual = asked.failing.dump(results=asked.results, whole=asked.whole, schedule=asked.schedule)
        return Dumped(actual=actual, expected=asked.expected.dump(results=asked.results, whole=asked.whole))

    def _dump_everything(self, asked: DumpEverything) -> Dumped:
        expected = asked.expected.dump_everything() if asked.known is None else asked.known
        return Dumped(actual=asked.failing.dump_everything(schedule=asked.schedule), expected=expected)

    def _run_in_order(self, asked: RunInOrder) -> tuple[TensorFolder | None, ...]:
        asked.build.restore()
        with busy() if asked.under_load else nullcontext():
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
