"""What has been observed of the tasks, and what follows for where the first divergence may be.

A task *diverges* if its results differ from the reference. A divergent task none of whose predecessors diverges is
a *first* one: that is observed, never inferred. Where to look next is inferred by supposing that a divergence
reaches everything downstream; where an observation contradicts it (a maximum or a mask may swallow a divergence),
the inference is dropped there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...graph.dag import Dag, Mask


class Observations:
    """Observations on a graph. `clean` and `divergent` are masks of the observed tasks."""

    def __init__(self, dag: Dag) -> None:
        self.dag = dag
        self.clean: Mask = np.zeros(len(dag), np.bool_)
        self.divergent: Mask = np.zeros(len(dag), np.bool_)

    def observe(self, diverges: Mapping[int, bool]) -> None:
        """Note for each task whether it diverges. One that did so in any run is divergent: a race spares some runs."""
        for task, wrong in diverges.items():
            self.divergent[task] |= wrong
            self.clean[task] = not self.divergent[task]

    @property
    def observed(self) -> Mask:
        """Tasks that were looked at."""
        return self.clean | self.divergent

    def firsts(self) -> Mask:
        """Divergent tasks all of whose predecessors were observed, and are clean."""
        firsts = np.zeros(len(self.dag), np.bool_)
        for task in np.flatnonzero(self.divergent):
            firsts[task] = bool(self.clean[list(self.dag.predecessors[task])].all())
        return firsts

    def explained(self) -> Mask:
        """First tasks, and everything that they reach."""
        return np.logical_or.reduce(self.dag.ancestors[:, self.firsts()], axis=1)

    def presumed_clean(self) -> Mask:
        """Tasks that reach an observed clean one."""
        return np.logical_or.reduce(self.dag.ancestors[self.clean], axis=0)

    def suspects(self) -> Mask:
        """Tasks of which one is supposed to be first: what can explain as many of the open divergences as possible.

        A single fault above all of them is tried first; divergences that it cannot reach wait until it is found.
        """
        ancestors = self.dag.ancestors
        free = ~self.explained() & ~self.clean
        presumed = self.presumed_clean()
        common = np.zeros(len(self.dag), np.bool_)
        for task in np.flatnonzero(self.divergent & free):
            above = ancestors[task] & free
            # Divergent, and yet above a clean task: here the supposition fails.
            causes = above if presumed[task] else above & ~presumed
            shared = common & causes
            common = shared if shared.any() else common if common.any() else causes
        return common

    def unvisited(self) -> Mask:
        """Tasks that may hold a further first divergence: nothing explains them or speaks them clean."""
        return ~self.observed & ~self.explained() & ~self.presumed_clean()
