"""The program model of a reduction: the tasks that a build really submitted, and the buffers they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....runner.build_output.graph.model import ArgumentType, Region
from ....runner.build_output.kernel_config import KernelConfig
from ....runner.build_output.orchestration.model import Submit
from ....runner.build_output.orchestration.orchestration import Orchestration
from ....runner.errors import UserError
from ....runner.tensor.view import DType


class NotReducibleError(UserError):
    """A build uses something that a straight-line program cannot be made of."""


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """A tensor of `shape` (elements) that tasks read and write through views.

    `is_entry` says that the case itself passes it in; all others were allocated by the orchestration.
    """

    number: int
    name: str
    dtype: DType
    shape: tuple[int, ...]
    is_entry: bool


@dataclass(frozen=True, kw_only=True)
class ProgramArgument:
    """A tensor argument: which part of which buffer, and how it was declared."""

    index: int
    type: ArgumentType
    buffer: int
    region: Region


@dataclass(frozen=True, kw_only=True)
class ProgramTask:
    """One submitted task; `scalars` are C++ expressions of the values it was given, `kernels` names.

    `blocks`: how many it ran in, where both the source and the recorded graph tell; else None. `unordered` says
    that it stood in a manual scope, waited for no other task, and was not waited for.
    """

    ordinal: int
    kernels: tuple[str, ...]
    submit: Submit
    arguments: tuple[ProgramArgument, ...]
    scalars: tuple[str, ...]
    blocks: int | None
    unordered: bool = False

    @property
    def name(self) -> str:
        """The names of its kernels, joined."""
        return "+".join(self.kernels)


@dataclass(frozen=True, kw_only=True)
class Program:
    """Tasks in submission order, without the loops and branches that made them."""

    orchestration: Orchestration
    config: KernelConfig
    tasks: tuple[ProgramTask, ...]
    buffers: tuple[Buffer, ...]


def results_of(task: ProgramTask, moved: Mapping[int, Sequence[ProgramArgument]]) -> list[ProgramArgument]:
    """Where a task's results belong: where it writes them, but for those that have `moved`, by task."""
    own = {argument.index: argument for argument in task.arguments if argument.type.may_write}
    return [*{**own, **{argument.index: argument for argument in moved.get(task.ordinal, ())}}.values()]


def private_name(buffer: str, task: ProgramTask, argument: ProgramArgument) -> str:
    """The name of a buffer that holds, for one argument of a task, other contents than the buffer that it shares."""
    return f"{buffer}_for_{task.ordinal}_{argument.index}"
