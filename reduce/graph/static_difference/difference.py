"""One thing in which the tasks of two builds differ."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..task_list import KernelTask


class DifferenceKind(Enum):
    """In what two programs differ."""

    PRESENCE = "presence"
    """A task that one of the builds alone submits."""
    ORDER = "order"
    """The same task, submitted at another place."""
    KERNEL = "kernel"
    """Another kernel."""
    DIRECTION = "direction"
    """An argument declared as another use."""
    REGION = "region"
    """Another part of the same tensor, or the same one transposed or with another type."""
    TENSOR = "tensor"
    """Another tensor, or arguments in another order."""
    PLACEMENT = "placement"
    """The same tensor in another buffer, which it shares with others or not."""
    CONTENTS = "contents"
    """The same tensor, with the result of another task in it."""
    BLOCKS = "blocks"
    """Another number of blocks."""
    SCALAR = "scalar"
    """Another value of a scalar."""
    DEPENDENCY = "dependency"
    """A task that does not wait for another, as it does in the reference."""

    @property
    def is_order(self) -> bool:
        """Whether it is about when tasks run and where values lie, not about what a task is given."""
        return self in _OF_ORDER

    @property
    def follows(self) -> bool:
        """Whether it comes of another difference, where there is one: what a task holds, or waits for, follows from
        what tasks are given."""
        return self in (DifferenceKind.CONTENTS, DifferenceKind.DEPENDENCY)


_OF_ORDER = frozenset(
    {
        DifferenceKind.ORDER,
        DifferenceKind.DIRECTION,
        DifferenceKind.PLACEMENT,
        DifferenceKind.CONTENTS,
        DifferenceKind.DEPENDENCY,
    }
)


@dataclass(frozen=True, kw_only=True)
class TaskDifference:
    """What is different, in words. `task` is of the failing build, `counterpart` of the reference; None where that
    build has no such task. `argument` is the index of the argument that differs, `tensor` its name
    in the orchestration."""

    kind: DifferenceKind
    task: KernelTask | None
    counterpart: KernelTask | None
    argument: int | None
    text: str
    tensor: str | None = None

    @property
    def kernel(self) -> str:
        """The kernels of the task."""
        known = self.task or self.counterpart
        return "" if known is None else known.name
