"""Runs tasks apart from the others of their build, on given inputs, with their tensors where the run had them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np

from ...runner.build_output.files.errors import MalformedFileError
from ...runner.build_output.golden_data import TensorFolder
from ...runner.build_output.kernel_config import Direction
from ...runner.build_output.orchestration.model import Submit
from ...runner.case.entry_arguments import EntryTensor
from ...runner.tensor.view import DType, Storage, TensorView
from ...store.files import replacing
from ..graph.task_list import KernelTask, TaskList
from ..rewrite.geometry import LayoutError, region_of
from ..rewrite.single_task import (
    LoneCall,
    SingleTaskError,
    entry_name,
    in_turn,
    scalars_of,
    submits_of,
)
from .comparison import TaskValues, in_type, results_of
from .placement import ParentBuffer, Placement
from .recorded_build import RecordedBuild
from .replay import Replayer
from .working_copy import WorkingCopy


class Fill(Enum):
    """The byte that a lone task finds wherever it was given nothing: two poisons, of which all types make finite
    numbers, and what fresh memory holds."""

    LOW = 0x3A
    HIGH = 0xC5
    ZERO = 0


class SharedMemoryError(LayoutError):
    """Tensors of a task lie over each other, and cannot all hold what they should."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskAlone:
    """A task of a build, where its tensors lie, and how it is submitted. Equal to itself alone."""

    build: RecordedBuild
    task: KernelTask
    placement: Placement
    call: LoneCall
    """Its tensors are counted from the task's own first buffer."""

    @classmethod
    def of(
        cls, build: RecordedBuild, task: KernelTask, values: TaskValues, *, behind_a_guard: bool = False
    ) -> TaskAlone:
        """Takes a task out of its build's orchestration; nothing is written. `values` are those recorded for it.

        Raises:
            SingleTaskError: the task cannot be told in the orchestration, or taken out of it.
            LayoutError: neither the shape nor a value of a tensor was recorded.
        """
        placement = _placement(build, task, values)
        placement = placement.behind_a_guard() if behind_a_guard else placement
        calls = {
            source: call
            for submit in submits_of(build.orchestration, task)
            for call in [_call(submit, task, placement, values)]
            for source in [
                in_turn(build.orchestration, [call], [buffer.shape for buffer in placement.buffers])
            ]
        }
        if len(calls) != 1:
            raise SingleTaskError(
                f"{build.build}: expected one way to submit {task.name} alone, found {len(calls)}"
            )
        return cls(build=build, task=task, placement=placement, call=next(iter(calls.values())))


@dataclass(frozen=True)
class GivenTask:
    """A task that is to be run on these contents of its buffers, flat, with all that is around its tensors."""

    alone: TaskAlone
    contents: tuple[Storage, ...]

    @classmethod
    def of(cls, alone: TaskAlone, given: Mapping[int, TensorView], fill: Fill) -> GivenTask:
        """Its tensors hold `given`, by argument index, and everything else `fill`.

        Raises:
            LayoutError: a value has another size than the tensor.
            SharedMemoryError: two of them are to hold different values in the same memory.
        """
        placement = alone.placement
        contents = tuple(_filled(buffer, fill) for buffer in placement.buffers)
        written: list[tuple[int, Storage, Storage]] = []
        for index, view in given.items():
            placed = placement.tensors[index]
            region = region_of(contents[placed.buffer], placed.region)
            if region.size != view.numel:
                raise LayoutError(
                    f"argument {index}: expected {region.shape}, found values of shape {view.shape}"
                )
            dtype = placement.buffers[placed.buffer].dtype
            region[...] = in_type(view, dtype).contiguous().reshape(region.shape)
            written.append((index, region, region.copy()))
        for index, region, value in written:
            if region.tobytes() != value.tobytes():
                raise SharedMemoryError(
                    f"argument {index} of {alone.task.name} lies where another one does, and should hold other values"
                )
        return cls(alone, contents)


@dataclass(frozen=True, kw_only=True)
class LoneResult:
    """What one task left: its results, by argument index, and its buffers with all that is around its tensors, flat;
    None where the harness does not tell."""

    results: Mapping[int, TensorView]
    left: tuple[Storage, ...] | None


class TaskReplayer:
    """Some tasks of one build, ready to be run, one after the other, any number of times."""

    def __init__(self, tasks: Sequence[TaskAlone], *, folder: Path) -> None:
        """Edits a further copy of the build in the new folder `folder`.

        Raises:
            SingleTaskError: the tasks cannot be submitted in one orchestration.
        """
        build = tasks[0].build
        self._tasks = tuple(tasks)
        self._config = build.config
        self._folder = folder
        self._buffers: list[ParentBuffer] = []
        calls: list[LoneCall] = []
        for alone in tasks:
            calls.append(_counted_from(len(self._buffers), alone.call))
            self._buffers += alone.placement.buffers
        copy = WorkingCopy.of(build.build, folder / "build")
        copy.write_orchestration(
            in_turn(build.orchestration, calls, [buffer.shape for buffer in self._buffers])
        )
        # All are outputs, so that the harness hands them back whatever a task was declared to do with them.
        copy.write_signature([Direction.INOUT] * len(self._buffers))
        with suppress(MalformedFileError):  # all kernels are compiled where the list cannot be made shorter
            copy.keep_kernels({name for alone in tasks for name in alone.task.kernels})
        self._replayer = Replayer(
            copy=copy,
            toolchain=build.replayer.toolchain,
            folder=folder / "runs",
            timeout=build.replayer.timeout,
            objects=build.replayer.objects,
        )

    def run(self, contents: Sequence[Sequence[Storage]]) -> tuple[LoneResult, ...]:
        """What each task leaves when its buffers hold its part of `contents` before it.

        Raises:
            ReplayError: they did not run to their end.
            NotWholeError: results were not dumped whole.
        """
        data = self._folder / f"data-{self._replayer.runs + 1}"
        images = [image for own in contents for image in own]
        for index, (buffer, image) in enumerate(zip(self._buffers, images, strict=True)):
            for kind in ("in", "out"):
                _save(buffer, image, data / kind / f"{entry_name(index)}.pt")
        arguments = [
            EntryTensor(
                name=entry_name(index),
                dtype=buffer.dtype.torch_name,
                shape=buffer.shape,
                is_output=True,
                has_input=True,
            )
            for index, buffer in enumerate(self._buffers)
        ]
        replay = self._replayer.run(arguments, data=data, dump_level=2, dep_gen=True)
        assert replay.dump is not None
        assert replay.graph is not None
        ran = TaskList.of(replay.graph, self._config).tasks
        left = None if replay.outputs is None else _read(replay.outputs, len(images))
        found: list[LoneResult] = []
        first = 0
        for alone, task in zip(self._tasks, ran, strict=True):
            own = slice(first, first + len(alone.placement.buffers))
            first = own.stop
            found.append(
                LoneResult(
                    results=results_of(replay.dump, task),
                    left=None if left is None else tuple(left[own]),
                )
            )
        return tuple(found)


def _call(submit: Submit, task: KernelTask, placement: Placement, values: TaskValues) -> LoneCall:
    tensors = [placement.tensors[argument.index] for argument in task.task.arguments]
    return LoneCall(
        submit=submit,
        tensors=tuple((placed.buffer, placed.region) for placed in tensors),
        scalars=scalars_of(submit, values.scalars),
        blocks=task.task.blocks,
    )


def _placement(build: RecordedBuild, task: KernelTask, values: TaskValues) -> Placement:
    try:
        return Placement.of(build.tasks, task, values)
    except LayoutError as error:
        return Placement.apart(task, values, why=str(error))


def _counted_from(first: int, call: LoneCall) -> LoneCall:
    return replace(call, tensors=tuple((first + tensor, region) for tensor, region in call.tensors))


def _filled(buffer: ParentBuffer, fill: Fill) -> Storage:
    # Of a truth value only whether it is 0 counts.
    byte = fill.value & 1 if buffer.dtype is DType.BOOL else fill.value
    return np.full(buffer.elements * buffer.dtype.itemsize, byte, np.uint8).view(buffer.dtype.storage)


def _read(outputs: TensorFolder, count: int) -> list[Storage]:
    return [np.ravel(outputs.tensor(entry_name(index)).contiguous()) for index in range(count)]


def _save(buffer: ParentBuffer, image: Storage, path: Path) -> None:
    import torch

    view = TensorView.of_contiguous(path.stem, buffer.dtype, buffer.shape, image)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial, partial.open("wb") as stream:
        torch.save(view.torch(), stream)  # pyright: ignore[reportUnknownMemberType]
