"""A reduced program: some tasks of a program, and the tensors that they start from and must end with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy.typing as npt

from .....runner.tensor.view import TensorView
from ....replay.comparison import TaskValues
from ..model import Buffer, Program, ProgramArgument, ProgramTask

Array = npt.NDArray[Any]


class UnfitCutError(Exception):
    """These tasks cannot be taken alone: one changes a buffer in place whose contents would have to be two at once."""


class TrustedValues(Protocol):
    """The values that are taken as right, by the program's own ordinals."""

    def of(self, ordinal: int) -> TaskValues:
        """The values of the tensors of a task: what it leaves, and what it reads where that is told."""
        ...

    def read(self, ordinal: int) -> Mapping[int, TensorView]:
        """What a task read in the run of its own build, by argument."""
        ...

    def run_of(self, ordinal: int) -> str:
        """The run they were recorded in: `reference` or `failing`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Deviations:
    """Where a failing build does other things than its reference.

    moved: by task, where those of its results belong that it leaves elsewhere.
    extra: tasks that the reference does not submit.
    found: what lay in the failing run where results belong that have moved, or are of tasks not submitted there; by
        task and argument. A program with any of these tasks starts with it, in both builds.
    """

    moved: Mapping[int, tuple[ProgramArgument, ...]] = field(
        default_factory=dict[int, tuple[ProgramArgument, ...]]
    )
    extra: Set[int] = frozenset()
    found: Mapping[int, Mapping[int, TensorView]] = field(default_factory=dict[int, Mapping[int, TensorView]])


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """Elements of a tensor that were put in place of a dropped task's result."""

    tensor: str
    producer: str
    producer_ordinal: int
    recorded_in: str
    elements: int


@dataclass(frozen=True, kw_only=True)
class CutTensor:
    """An argument of the reduced program. `initial` and `expected` are flat; None where it has none.

    `writers` are the tasks that left what is judged, `last_writer` that of each element, flat; -1 for none.
    """

    buffer: Buffer
    initial: Array | None
    expected: Array | None
    writers: frozenset[int]
    last_writer: Array

    def part(self, values: Array, writer: int) -> TensorView:
        """The elements that a task wrote last."""
        taken = values[self.last_writer == writer]
        return TensorView.of_contiguous(self.buffer.name, self.buffer.dtype, taken.shape, taken)

    def view(self, values: Array) -> TensorView:
        """Flat values as a tensor of the buffer's shape."""
        return TensorView.of_contiguous(self.buffer.name, self.buffer.dtype, self.buffer.shape, values)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A reduced program: tasks with their arguments' buffers, tensors in the order of the entry's arguments."""

    program: Program
    tasks: tuple[ProgramTask, ...]
    tensors: tuple[CutTensor, ...]
    boundaries: tuple[Boundary, ...]

    def without(self, tasks: Set[int]) -> Cut:
        """The same without submitting some tasks: what they were to write stays what it is at the start."""
        return replace(self, tasks=tuple(task for task in self.tasks if task.ordinal not in tasks))

    @property
    def bytes(self) -> int:
        """The size of all tensors in bytes."""
        return sum(math.prod(tensor.buffer.shape) * tensor.buffer.dtype.itemsize for tensor in self.tensors)
