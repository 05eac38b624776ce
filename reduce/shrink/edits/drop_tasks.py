"""Drop tasks. Where what they left can be replaced by recorded values any set of them may go, else with dependents."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..minimize.answer import Subset
from ..minimize.graph import DependencyGraph
from ..minimize.phases import minimize
from ..minimize.state import MinimizerState
from ..program.candidate import Candidate


@dataclass(frozen=True)
class DropTasks:
    """Elements are ordinals of all tasks; `reduction` says which are still there. `targets` wrote what fails."""

    graph: DependencyGraph
    targets: Subset | None = None
    name: str = "tasks"

    def start(self, reduction: Candidate, rate: float) -> MinimizerState[Subset]:
        """Searches below the reduction's own tasks."""
        return minimize(self.graph, best=frozenset(reduction.tasks), targets=self.targets, rate=rate)

    def apply(self, reduction: Candidate, kept: Subset) -> Candidate:
        """Only the tasks `kept`."""
        return replace(reduction, tasks=tuple(sorted(kept)))
