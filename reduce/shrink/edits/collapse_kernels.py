"""Take kernels from the reference, to see which of the failing build's are needed for the failure."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace

from ..minimize.graph import DependencyGraph
from ..program.candidate import Candidate
from .subsets import Subsets


@dataclass(frozen=True)
class CollapseKernels:
    """Elements are kernels that differ between the builds, by name; those that are kept stay the failing build's.

    `used` tells which kernels a candidate's tasks use.
    """

    kernels: tuple[str, ...]
    used: Callable[[Candidate], Set[str]]
    name: str = "kernels"

    def search(self, best: Candidate, *, rate: float, again: bool) -> Subsets:
        """Searches below the kernels in use that are not collapsed yet; a kernel whose text another program has
        rewritten holds both builds' lines, and is left alone."""
        gone = {*best.collapsed, *dict(best.rewritten)}
        left = [name for name in self.kernels if name in self.used(best) and name not in gone]
        return Subsets.search(
            DependencyGraph.free(len(left)),
            frozenset(range(len(left))),
            lambda kept: replace(
                best,
                collapsed=(*best.collapsed, *(name for i, name in enumerate(left) if i not in kept)),
            ),
            rate=rate,
            again=again,
        )
