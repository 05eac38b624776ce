"""Take kernels from the reference, to see which of the failing build's are needed for the failure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..minimize.answer import Subset
from ..minimize.graph import DependencyGraph
from ..minimize.phases import minimize
from ..minimize.state import MinimizerState
from ..program.candidate import Candidate


@dataclass(frozen=True)
class CollapseKernels:
    """Elements are the positions in `kernels`, the names of those that differ; kept ones stay the failing build's."""

    kernels: tuple[str, ...]
    name: str = "kernels"

    def start(self, reduction: Candidate, rate: float) -> MinimizerState[Subset]:
        """Searches below the kernels that are not collapsed yet."""
        left = frozenset(i for i, name in enumerate(self.kernels) if name not in reduction.collapsed)
        return minimize(DependencyGraph.free(len(self.kernels)), best=left, rate=rate)

    def apply(self, reduction: Candidate, kept: Subset) -> Candidate:
        """All but the kernels `kept` from the reference."""
        return replace(
            reduction, collapsed=tuple(name for i, name in enumerate(self.kernels) if i not in kept)
        )
