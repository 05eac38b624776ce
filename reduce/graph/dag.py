"""The tasks of one run as a directed acyclic graph, each with the bytes that dumping its results takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Dag:
    """Tasks 0 ... n - 1 in dependency order.

    Attributes:
        predecessors: of each task, those whose results it reads; all have smaller numbers.
        sizes: bytes of each task's results.

    Raises:
        ValueError: the two differ in length, or a predecessor does not come before its task.
    """

    predecessors: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.predecessors) != len(self.sizes):
            raise ValueError(
                f"{len(self.predecessors)} tasks with predecessors, {len(self.sizes)} with sizes"
            )
        for task, above in enumerate(self.predecessors):
            if any(not 0 <= predecessor < task for predecessor in above):
                raise ValueError(f"expected predecessors of task {task} among those before it, found {above}")

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def ancestors(self) -> Mask:
        """`ancestors[t, v]`: results of v reach t, or v is t. n x n booleans."""
        reach = np.eye(len(self), dtype=np.bool_)
        for task, above in enumerate(self.predecessors):
            for predecessor in above:
                reach[task] |= reach[predecessor]
        return reach

    def bytes_of(self, tasks: Mask) -> int:
        """Bytes of the results of all tasks in a mask."""
        return int(np.asarray(self.sizes, np.int64)[tasks].sum())

    def with_predecessors(self, tasks: Mask) -> Mask:
        """A mask of tasks and of what they read."""
        widened = tasks.copy()
        for task in np.flatnonzero(tasks):
            widened[list(self.predecessors[task])] = True
        return widened
