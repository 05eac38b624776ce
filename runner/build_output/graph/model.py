"""The parts of a task graph."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...tensor.view import DType


class ArgumentType(Enum):
    """How a task uses a tensor; OUTPUT is allocated by the runtime, OUTPUT_EXISTING was there before.

    The runtime writes UNKNOWN for a tensor that takes no part in dependencies (`add_no_dep`).
    """

    INPUT = "INPUT"
    OUTPUT = "OUTPUT"
    INOUT = "INOUT"
    OUTPUT_EXISTING = "OUTPUT_EXISTING"
    UNKNOWN = "UNKNOWN"

    @property
    def may_read(self) -> bool:
        """Whether the task was declared to read it, or nothing was declared."""
        return self in (ArgumentType.INPUT, ArgumentType.INOUT, ArgumentType.UNKNOWN)

    @property
    def may_write(self) -> bool:
        """Whether the task was declared to write it, or nothing was declared."""
        return self is not ArgumentType.INPUT


class EdgeSource(Enum):
    """Why one task waits for another: it was told to, the other made the buffer, or their regions overlap."""

    EXPLICIT = "explicit"
    CREATOR = "creator"
    TENSORMAP = "tensormap"


@dataclass(frozen=True, kw_only=True)
class Region:
    """Part of a buffer: `shape` elements, `strides` apart from `start_offset` on, all in elements."""

    dtype: DType | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start_offset: int

    @property
    def bounds(self) -> range:
        """The elements from the first one touched to the last one; regions whose bounds are apart do not overlap."""
        if 0 in self.shape:
            return range(self.start_offset, self.start_offset)
        reach = sum(stride * (extent - 1) for stride, extent in zip(self.strides, self.shape, strict=True))
        return range(self.start_offset, self.start_offset + reach + 1)


@dataclass(frozen=True, kw_only=True)
class GraphArgument:
    """One tensor argument of a task.

    `tensor_id` and `region` are None for a tensor that the runtime allocates for the task: the edges from the
    task name it. `tensor_id` hashes an address and differs from run to run.
    """

    index: int
    type: ArgumentType
    tensor_id: int | None
    region: Region | None


@dataclass(frozen=True, kw_only=True)
class GraphTask:
    """A task that the orchestration submitted.

    Attributes:
        position: 0, 1, ... in submission order.
        kernels: function ids on (cube core, first vector core, second), -1 where the task has none there;
            None where the graph does not say.
        in_manual_scope: whether its dependencies are only the ones it was told.
        blocks: how many instances of the kernel ran; None where the graph does not say.
    """

    task_id: int
    position: int
    kernels: tuple[int, ...] | None
    in_manual_scope: bool
    blocks: int | None
    arguments: tuple[GraphArgument, ...]

    @property
    def runs_a_kernel(self) -> bool:
        """False for an allocation or a pure barrier."""
        return self.kernels is None or any(kernel >= 0 for kernel in self.kernels)


@dataclass(frozen=True, kw_only=True)
class GraphTensor:
    """A buffer version that tasks share; `buffer_numel` is its size in elements, None where not written."""

    tensor_id: int
    buffer_address: int
    version: int
    dtype: DType | None
    buffer_numel: int | None


@dataclass(frozen=True, kw_only=True)
class Edge:
    """`successor` waits for `predecessor`. A pair of tasks may have several.

    Attributes:
        argument: index of the successor's argument, None for an explicit dependency.
        source: None in graphs of pairs only.
        covered: whether the predecessor wrote all that is read; None unless regions were compared.
        flags: `wait`, `retain`; empty before August 2026.
    """

    predecessor: int
    successor: int
    argument: int | None
    source: EdgeSource | None
    covered: bool | None
    flags: tuple[str, ...]
    tensor_id: int | None
    consumer: Region | None
    producer: Region | None
