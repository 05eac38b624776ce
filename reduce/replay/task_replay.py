"""Runs one task alone, in the build it belongs to, on given inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...runner.build_output.kernel_config import Direction
from ...runner.case.entry_arguments import EntryTensor
from ...runner.tensor.view import TensorView
from ..graph.task_list import KernelTask, TaskList
from ..rewrite.single_task import SingleTaskError, alone, submits_of
from .comparison import TaskValues, results_of
from .recorded_build import RecordedBuild
from .replay import Replayer
from .working_copy import WorkingCopy


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskAlone:
    """A task of a build, and the orchestration that submits it and nothing else. Equal to itself alone."""

    build: RecordedBuild
    task: KernelTask
    orchestration: bytes

    @classmethod
    def of(
        cls, build: RecordedBuild, task: KernelTask, *, scalars: Mapping[int, int | float | bool | None]
    ) -> TaskAlone:
        """Takes a task out of its build's orchestration; nothing is written. `scalars` are those recorded for it.

        Raises:
            SingleTaskError: the task cannot be told in the orchestration, or taken out of it.
        """
        candidates = submits_of(build.orchestration, task)
        sources = {
            alone(build.orchestration, submit, scalars=scalars, blocks=task.task.blocks)
            for submit in candidates
        }
        if len(sources) != 1:
            raise SingleTaskError(
                f"{build.build}: expected one way to submit {task.name} alone, found {len(sources)}"
            )
        return cls(build=build, task=task, orchestration=sources.pop())

    @property
    def directions(self) -> list[Direction]:
        """Of its tensors, which are the arguments of the orchestration."""
        return [
            Direction.INOUT
            if argument.type.may_write and argument.type.may_read
            else Direction.OUT
            if argument.type.may_write
            else Direction.IN
            for argument in self.task.task.arguments
        ]


class TaskReplayer:
    """One task of one build, ready to be run alone any number of times."""

    def __init__(self, alone: TaskAlone, *, folder: Path) -> None:
        """Edits a further copy of the build in the new folder `folder`."""
        self._task = alone.task
        self._config = alone.build.config
        self._folder = folder
        copy = WorkingCopy.of(alone.build.build, folder / "build")
        copy.write_orchestration(alone.orchestration)
        copy.write_signature(alone.directions)
        self._replayer = Replayer(
            copy=copy,
            toolchain=alone.build.replayer.toolchain,
            folder=folder / "runs",
            timeout=alone.build.replayer.timeout,
        )

    def run(self, given: Mapping[int, TensorView], like: TaskValues) -> dict[int, TensorView]:
        """What the task leaves when its arguments hold `given` before it; others start as zeros shaped `like` its own.

        Raises:
            ReplayError: it did not run to its end.
            NotWholeError: its results were not dumped whole.
        """
        import torch

        data = self._folder / f"data-{self._replayer.runs + 1}"
        arguments: list[EntryTensor] = []
        for argument in self._task.task.arguments:
            view = like.after.get(argument.index, like.before.get(argument.index))
            assert view is not None
            name = f"alone_{argument.index}"
            initial = given.get(argument.index)
            if initial is not None:
                _save(initial.torch().to(getattr(torch, view.dtype.torch_name)), data / "in" / f"{name}.pt")
            if argument.type.may_write:
                _save(view.torch(), data / "out" / f"{name}.pt")
            arguments.append(
                EntryTensor(
                    name=name,
                    dtype=view.dtype.torch_name,
                    shape=view.shape,
                    is_output=argument.type.may_write,
                    has_input=initial is not None,
                )
            )
        replay = self._replayer.run(arguments, data=data, dump_level=2, dep_gen=True)
        assert replay.dump is not None
        assert replay.graph is not None
        (task,) = TaskList.of(replay.graph, self._config).tasks
        return results_of(replay.dump, task)


def _save(tensor: object, path: Path) -> None:
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    assert isinstance(tensor, torch.Tensor)
    torch.save(tensor.contiguous().clone(), path)  # pyright: ignore[reportUnknownMemberType]
