"""Drop tasks. Where what they left can be replaced by recorded values any set of them may go, else with dependents."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..minimize.graph import Graph
from ..minimize.outcome import Candidate
from ..minimize.schedule import minimize
from ..minimize.state import State
from ..program.model import Reduction


@dataclass(frozen=True)
class DropTasks:
    """Elements are ordinals of all tasks; `reduction` says which are still there. `targets` wrote what fails."""

    graph: Graph
    targets: Candidate | None = None
    name: str = "tasks"

    def start(self, reduction: Reduction, rate: float) -> State:
        """Searches below the reduction's own tasks."""
        return minimize(self.graph, best=frozenset(reduction.tasks), targets=self.targets, rate=rate)

    def apply(self, reduction: Reduction, kept: Candidate) -> Reduction:
        """Only the tasks `kept`."""
        return replace(reduction, tasks=tuple(sorted(kept)))
