"""A build that is not run: the program of `small_build`, computed with numpy in place of kernels.

It stands in for a `RecordedBuild`. Tasks 0 to 4 make a of x0, b of a, x1 of b, c of x0, and x2 of c.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch

from precision_bisect.reduce.graph.submits import ArgumentNames
from precision_bisect.reduce.graph.tasks import MissingEdge, TaskList, missing_edges
from precision_bisect.reduce.localize.experiments import Executor
from precision_bisect.reduce.replay.replay import RecordedBuild
from precision_bisect.reduce.replay.task_replay import IsolatedTask, LoneResult, region_array
from precision_bisect.runner.build_output.args_dump import ArgumentKind, DumpStage
from precision_bisect.runner.build_output.directory import BuildDirectory, TensorFolder
from precision_bisect.runner.build_output.task_graph import (
    ArgumentType,
    GraphArgument,
    GraphTask,
    GraphTensor,
    Region,
    TaskGraph,
)
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.tensor import DType, Storage, TensorView
from tests.reduce.small_builds import SHIFT, small_build

Array = np.ndarray[Any, Any]
ELEMENTS = 8
X0 = np.arange(ELEMENTS, dtype=np.float32)
TASKS = ((0, "x0", "a"), (1, "a", "b"), (0, "b", "x1"), (0, "x0", "c"), (0, "c", "x2"))
"""Kernel, tensor that is read, tensor that is written."""
TASK_BYTES = 4 * ELEMENTS
"""Of the results of one task."""
_BUFFERS = ("x0", "a", "b", "x1", "c", "x2")
_WHOLE = Region(dtype=DType.FLOAT32, shape=(ELEMENTS,), strides=(1,), start_offset=0)


def add(amount: float) -> Callable[[Array], Array]:
    """A kernel that adds an amount."""
    return lambda values: values + np.float32(amount)


def double(values: Array) -> Array:
    """What the kernel `scale` does."""
    return 2 * values


RIGHT: Mapping[int, Callable[[Array], Array]] = {0: double, 1: add(1), 2: double, 3: double, 4: double}


def view(name: str, values: Array) -> TensorView:
    """A tensor of shape (8,)."""
    return TensorView.from_contiguous(name, DType.FLOAT32, (ELEMENTS,), values.astype(np.float32))


def graph(tasks: tuple[tuple[int, str, str], ...] = TASKS) -> TaskGraph:
    """The tasks' graph, with all edges between those that read what others write."""

    def argument(index: int, buffer: str) -> GraphArgument:
        kind = ArgumentType.OUTPUT_EXISTING if index else ArgumentType.INPUT
        return GraphArgument(index=index, type=kind, tensor_id=_BUFFERS.index(buffer), region=_WHOLE)

    made = {
        number: GraphTask(
            task_id=number,
            position=number,
            kernels=(-1, kernel, -1),
            in_manual_scope=False,
            blocks=1,
            arguments=(argument(0, read), argument(1, written)),
        )
        for number, (kernel, read, written) in enumerate(tasks)
    }
    tensors = {
        number: GraphTensor(
            tensor_id=number, buffer_address=number, dtype=DType.FLOAT32, buffer_numel=ELEMENTS
        )
        for number in range(len(_BUFFERS))
    }
    return TaskGraph(tasks=made, tensors=tensors, edges=(), annotated=True, unlisted=frozenset())


@dataclass
class SimulatedDump:
    """What tasks held in one run; `find` and `tensor` are those of an `ArgsDump`."""

    before: Mapping[int, Array]
    after: Mapping[int, Array]

    def find(self, *, task_id: int, stage: DumpStage) -> list[Any]:
        """The record of the tensor that a task read (argument 0), or left (argument 1)."""
        is_after = stage is DumpStage.AFTER_COMPLETION
        if task_id not in (self.after if is_after else self.before):
            return []
        index = int(is_after)
        return [
            SimpleNamespace(
                task_id=task_id, stage=stage, arg_index=index, kind=ArgumentKind.TENSOR, value=None
            )
        ]

    def tensor(self, record: Any) -> TensorView:
        """The tensor of a record."""
        values = self.after if record.stage is DumpStage.AFTER_COMPLETION else self.before
        return view(f"task {record.task_id}", values[record.task_id])


@dataclass
class Spent:
    """Stands in for a `Replayer`."""

    runs: int = 1
    dumped_bytes: int = 0
    toolchain: Any = None
    timeout: float = 300
    objects: Any = None


@dataclass
class SimulatedBuild:
    """Fails as its kernels do; `kernels` may be another mapping in each run, to fail in some alone."""

    build: Path
    kernels: Callable[[int], Mapping[int, Callable[[Array], Array]]]
    task_graph: TaskGraph = field(default_factory=graph)
    tolerance: Tolerance | None = None
    outputs: TensorFolder | None = None
    replayer: Spent = field(default_factory=Spent)
    dumps: list[tuple[Set[int], Set[int]]] = field(default_factory=list[tuple[Set[int], Set[int]]])
    """Tasks whose results, and whose arguments all, each run has dumped."""

    def __post_init__(self) -> None:
        parts = BuildDirectory.open(self.build)
        self.data = self.build / "data"
        self.config = parts.kernel_config()
        self.orchestration = parts.orchestration()
        self.tasks = TaskList.from_graph(self.task_graph, self.config)

    @classmethod
    def of(
        cls, folder: Path, wrong: Mapping[int, Callable[[Array], Array]] | None = None, **fields: Any
    ) -> SimulatedBuild:
        """A build whose tasks do what is right, but for the `wrong` ones."""
        return cls(small_build(folder, SHIFT), lambda _run: {**RIGHT, **(wrong or {})}, **fields)

    @property
    def recorded(self) -> RecordedBuild:
        """The same, as the code under test has it."""
        return cast("RecordedBuild", self)

    def values(self) -> tuple[dict[int, Array], dict[int, Array]]:
        """What each task reads and leaves in the next run."""
        held: dict[str, Array] = {"x0": X0}
        before: dict[int, Array] = {}
        after: dict[int, Array] = {}
        kernels = self.kernels(self.replayer.runs)
        for number, task in self.task_graph.tasks.items():
            read, written = (_BUFFERS[argument.tensor_id or 0] for argument in task.arguments)
            before[number] = held[read]
            after[number] = held[written] = kernels[number](held[read])
        return before, after

    def with_outputs(self, folder: Path) -> SimulatedBuild:
        """The same build, whose first run told what it put out."""
        _, after = self.values()
        for name, number in (("x1", 2), ("x2", 4)):
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(torch.from_numpy(after[number]), folder / f"{name}.pt")
        return replace(self, outputs=TensorFolder.open(folder))

    @property
    def missing_edges(self) -> tuple[MissingEdge, ...]:
        """Tasks that do not wait for each other."""
        return missing_edges(self.tasks)

    @cached_property
    def argument_names(self) -> ArgumentNames:
        """What the orchestration calls the tensors of the tasks."""
        return ArgumentNames(self.orchestration, self.tasks)

    def dump(self, *, results: Set[int], whole: Set[int], schedule: str | None = None) -> SimulatedDump:
        """One run with markers at some tasks."""
        self.dumps.append((set(results), set(whole)))
        before, after = self.values()
        self.replayer.runs += 1
        self.replayer.dumped_bytes += TASK_BYTES * (len(results) + 2 * len(whole))
        return SimulatedDump(
            before={number: before[number] for number in whole},
            after={number: after[number] for number in {*results, *whole}},
        )

    def dump_everything(self, *, schedule: str | None = None) -> SimulatedDump:
        """One run with all arguments of all tasks."""
        everything = set(self.task_graph.tasks)
        return self.dump(results=set(), whole=everything)


class SimulatedTask:
    """Stands in for a `TaskReplayer`: tasks of a simulated build, run apart from the others."""

    runs = 0
    """Of all tasks; a test sets it back."""

    def __init__(self, tasks: Sequence[IsolatedTask], *, folder: Path) -> None:
        self._tasks = tasks

    def run(self, contents: Sequence[Sequence[Storage]]) -> tuple[LoneResult, ...]:
        """What the tasks leave of what they are given."""
        type(self).runs += 1
        return tuple(self._result(*pair) for pair in zip(self._tasks, contents, strict=True))

    def _result(self, alone: IsolatedTask, contents: Sequence[Storage]) -> LoneResult:
        simulated = cast("SimulatedBuild", alone.build)
        kernel = simulated.kernels(simulated.replayer.runs)[alone.task.ordinal]
        read, written = (alone.placement.tensors[index] for index in (0, 1))
        buffers = tuple(buffer.copy() for buffer in contents)
        result = kernel(region_array(contents[read.buffer_index], read.region).copy())
        region_array(buffers[written.buffer_index], written.region)[...] = result
        return LoneResult(results={1: view("alone", result)}, buffers=buffers)


def executor_in(folder: Path, on_progress: Callable[[str], None] = lambda _text: None) -> Executor:
    """Makes the experiments that simulated builds know how to make."""
    return Executor(data=folder / "data", folder=folder, timeout=9, on_progress=on_progress)
