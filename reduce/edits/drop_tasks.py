"""Drop tasks; what they left is replaced by recorded values, so that any set of them may go."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..minimize.graph import Graph
from ..minimize.outcome import Candidate
from ..minimize.schedule import minimize
from ..minimize.state import State
from ..program.model import Reduction


@dataclass(frozen=True)
class DropTasks:
    """Elements are ordinals of all `count` tasks; `reduction` says which are still there."""

    count: int
    name: str = "tasks"

    def start(self, reduction: Reduction, rate: float) -> State:
        """Searches below the reduction's own tasks."""
        return minimize(Graph.free(self.count), best=frozenset(reduction.tasks), rate=rate)

    def apply(self, reduction: Reduction, kept: Candidate) -> Reduction:
        """Only the tasks `kept`."""
        return replace(reduction, tasks=tuple(sorted(kept)))
