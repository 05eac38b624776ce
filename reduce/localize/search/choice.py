"""Which tasks to dump in the next run, within a budget of bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...graph.dag import Mask
from .observations import Observations

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


class BudgetTooSmallError(ValueError):
    """No task that would help fits the budget; `needed` bytes do."""

    def __init__(self, needed: int) -> None:
        self.needed = needed
        super().__init__(f"the results of one task take {needed} bytes")


def next_tasks(observations: Observations, budget: int) -> tuple[int, ...]:
    """Tasks to look at next, ascending; empty when first divergences explain all that was seen to diverge.

    The outcomes of the tasks, taken together, tell as many pairs of suspects apart as possible; where all that settles
    the question fits, it is taken at once. What is left of the budget goes to branches that nothing is known of:
    `Observations.unvisited` says what of them remains in the end.

    Raises:
        BudgetTooSmallError: nothing that would help fits the budget.
    """
    suspects = observations.suspects()
    if observations.divergent.any() and not suspects.any():
        return ()
    wanted = _settling(observations, suspects)
    chosen = (
        wanted if observations.dag.bytes_of(wanted) <= budget else _separating(observations, suspects, budget)
    )
    region = observations.unvisited() & ~suspects
    _add_lowest(observations, region, budget, chosen)
    if not chosen.any() and (wanted | region).any():
        raise BudgetTooSmallError(
            min(observations.dag.sizes[task] for task in np.flatnonzero(wanted | region))
        )
    return tuple(int(task) for task in np.flatnonzero(chosen))


def _settling(observations: Observations, suspects: Mask) -> Mask:
    """All that has to be seen to know the first tasks among the suspects for certain."""
    return observations.dag.with_predecessors(suspects) & ~observations.observed


def _separating(observations: Observations, suspects: Mask, budget: int) -> Mask:
    """Greedy choice of tasks that tell the most pairs of suspects apart; of equally good ones, the smallest."""
    probes = np.flatnonzero(_settling(observations, suspects))
    sizes = np.asarray(observations.dag.sizes, np.int64)[probes]
    classes = _Classes(observations.dag.ancestors[np.ix_(probes, np.flatnonzero(suspects))])
    taken = np.zeros(len(probes), np.bool_)
    while True:
        pairs = np.where(taken | (sizes > budget), 0, classes.pairs_told_apart())
        if not pairs.any():
            break
        best = int(np.where(pairs == pairs.max(), sizes, np.iinfo(np.int64).max).argmin())
        taken[best] = True
        budget -= int(sizes[best])
        classes.split(best)
    if not taken.any():
        # Nothing is left to tell apart, yet what confirms it does not fit at once.
        order = np.argsort(sizes, kind="stable")
        taken[order[np.cumsum(sizes[order]) <= budget]] = True
    chosen = np.zeros(len(observations.dag), np.bool_)
    chosen[probes[taken]] = True
    return chosen


class _Classes:
    """Suspects by the outcomes that a fault in them gives the chosen tasks: one class, then ever smaller ones.

    A fault in v makes task t diverge if v is above t. So t splits a class of n into the x above it and n - x others,
    and tells x * (n - x) pairs apart. `above` is of shape (tasks, suspects); counts are kept per task and class, so
    that a split costs no more than the suspects it moves.
    """

    def __init__(self, above: Mask) -> None:
        self._above = above.astype(np.float32)
        self._labels: Integers = np.zeros(above.shape[1], np.int64)
        self._counts: Floats = self._above.sum(axis=1, keepdims=True)
        self._totals: Floats = np.array([above.shape[1]], np.float32)

    def pairs_told_apart(self) -> Floats:
        """For each task, pairs of suspects of one class that its outcome would tell apart."""
        return (self._counts * (self._totals - self._counts)).sum(axis=1)

    def split(self, task: int) -> None:
        """Cut every class into what is above a task and what is not."""
        inside = self._above[task] > 0
        for label in np.unique(self._labels[inside]):
            part = inside & (self._labels == label)
            size = np.count_nonzero(part)
            if size == self._totals[label]:
                continue
            moved: Floats = self._above[:, part].sum(axis=1)
            self._labels[part] = len(self._totals)
            self._counts[:, label] -= moved
            self._totals[label] -= size
            self._counts = np.column_stack([self._counts, moved])
            self._totals = np.append(self._totals, np.float32(size))


def _add_lowest(observations: Observations, region: Mask, budget: int, chosen: Mask) -> None:
    """Add tasks of the region that nothing in it reads, as far as the budget goes: a clean one clears all above it."""
    budget -= observations.dag.bytes_of(chosen)
    reached = np.zeros(len(observations.dag), np.bool_)
    for task in np.flatnonzero(region):
        reached[list(observations.dag.predecessors[task])] = True
    for task in np.flatnonzero(region & ~reached & ~chosen):
        if observations.dag.sizes[task] <= budget:
            chosen[task] = True
            budget -= observations.dag.sizes[task]
