"""The program model of a reduction: the tasks that a build really submitted, and the buffers they share."""

from __future__ import annotations

import hashlib
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

    `blocks`: how many it ran in, where both the source and the recorded graph tell; else None.
    """

    ordinal: int
    kernels: tuple[str, ...]
    submit: Submit
    arguments: tuple[ProgramArgument, ...]
    scalars: tuple[str, ...]
    blocks: int | None

    @property
    def name(self) -> str:
        """Its kernels' names."""
        return "+".join(self.kernels)


@dataclass(frozen=True, kw_only=True)
class Program:
    """Tasks in submission order, without the loops and branches that made them."""

    orchestration: Orchestration
    config: KernelConfig
    tasks: tuple[ProgramTask, ...]
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, order=True)
class Reduction:
    """A reduced program: ordinals of the failing build's tasks that stay, kernels taken from the reference, sizes that
    became smaller ones, inputs that hold plain values, statements that both builds' kernels do without (the kernel,
    the text, and which of that text), kernels whose text is another one, merged as in `merged.py`, and tasks that run
    in fewer blocks.
    """

    tasks: tuple[int, ...]
    collapsed: tuple[str, ...] = ()
    extents: tuple[tuple[int, int], ...] = ()
    plain: tuple[tuple[str, str], ...] = ()
    statements: tuple[tuple[str, str, int], ...] = ()
    rewritten: tuple[tuple[str, str], ...] = ()
    blocks: tuple[tuple[int, int], ...] = ()

    @property
    def is_new_to_the_reference(self) -> bool:
        """Whether what the reference makes of the inputs has to be computed anew."""
        return bool(self.extents or self.plain or self.statements or self.rewritten or self.blocks)

    @property
    def key(self) -> str:
        """Names the candidate in the journal of tests."""
        parts = [",".join(map(str, self.tasks)), ",".join(self.collapsed)]
        if self.is_new_to_the_reference:
            parts += [",".join(f"{one}={other}" for one, other in (*self.extents, *self.plain))]
            parts += [
                hashlib.sha256(repr(texts).encode()).hexdigest()[:16]
                for texts in (self.statements, self.rewritten)
                if texts
            ]
            parts += [f"{task} in {count}" for task, count in self.blocks]
        return ";".join(parts)

    @property
    def digest(self) -> str:
        """Names a folder of the candidate."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:16]
