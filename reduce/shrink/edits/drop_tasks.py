"""Drop tasks. Where what they left can be replaced by recorded values any set of them may go, else with dependents."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..minimize.answer import Subset
from ..minimize.graph import DependencyGraph
from ..program.candidate import Candidate
from .subsets import Subsets


@dataclass(frozen=True)
class DropTasks:
    """Elements are ordinals of all tasks; a candidate says which are still there. `targets` wrote what fails."""

    graph: DependencyGraph
    targets: Subset | None = None
    name: str = "tasks"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Subsets:
        """Searches below the tasks that are left."""
        return Subsets.search(
            self.graph,
            frozenset(best.tasks),
            lambda kept: replace(best, tasks=tuple(sorted(kept))),
            rate=rate,
            again=again,
            targets=self.targets,
        )
