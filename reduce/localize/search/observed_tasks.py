"""The tasks of a failing build that can be compared, by their ordinals, and what has been seen of them so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...graph.dag import Dag, Mask
from ...graph.task_list import KernelTask, TaskList
from .choice import next_tasks
from .observations import Observations


class ObservedTasks:
    """Notes what is seen of tasks. Node `i` of the graph is the task with the ordinal `compared[i]`."""

    def __init__(self, tasks: TaskList, compared: Sequence[int], dag: Dag) -> None:
        self._tasks = tasks
        self.compared = tuple(compared)
        self._nodes = {ordinal: node for node, ordinal in enumerate(compared)}
        self._dag = dag
        self.forget()

    def forget(self) -> None:
        """Start anew: nothing has been seen."""
        self._observations = Observations(self._dag)
        self.errors: dict[int, float] = {}
        """Relative L2 error, by ordinal, of what tasks left that were dumped; 0 where nothing differs."""

    def note_errors(self, errors: Mapping[int, float | None]) -> None:
        """Note what tasks left in a run: their relative L2 errors, None where nothing differs."""
        self.errors |= {ordinal: error or 0.0 for ordinal, error in errors.items()}
        self.note({ordinal: error is not None for ordinal, error in errors.items()})

    def note(self, diverges: Mapping[int, bool]) -> None:
        """Note whether tasks diverge; those that are not compared are passed over."""
        self._observations.observe(
            {self._nodes[ordinal]: wrong for ordinal, wrong in diverges.items() if ordinal in self._nodes}
        )

    def next(self, budget: int) -> tuple[int, ...]:
        """Which tasks to dump next, as `next_tasks`; none where all is settled.

        Raises:
            BudgetTooSmallError: nothing that would help fits the budget, in bytes.
        """
        return tuple(self.compared[node] for node in next_tasks(self._observations, budget))

    def task(self, ordinal: int) -> KernelTask:
        """The task itself."""
        return self._tasks.tasks[ordinal]

    def bytes_of(self, ordinals: Sequence[int]) -> int:
        """Bytes of the results of some tasks, in whichever build they are more."""
        return sum(self._dag.sizes[self._nodes[ordinal]] for ordinal in ordinals)

    def directly_above(self, ordinals: Sequence[int]) -> tuple[int, ...]:
        """The tasks whose results some tasks read, ascending."""
        nodes = {above for ordinal in ordinals for above in self._dag.predecessors[self._nodes[ordinal]]}
        return tuple(self.compared[node] for node in sorted(nodes))

    @property
    def divergent(self) -> frozenset[int]:
        """Tasks that were seen to diverge."""
        return frozenset(self._ordinals(self._observations.divergent))

    @property
    def firsts(self) -> tuple[int, ...]:
        """Divergent tasks, all those before which are clean."""
        return self._ordinals(self._observations.firsts())

    @property
    def below(self) -> tuple[KernelTask, ...]:
        """Tasks that were seen to diverge, and are no first ones, in submission order."""
        mask = self._observations.divergent & ~self._observations.firsts()
        return tuple(self._tasks.tasks[ordinal] for ordinal in self._ordinals(mask))

    @property
    def unvisited(self) -> tuple[KernelTask, ...]:
        """Tasks that may hold a further first divergence and were not looked at."""
        return tuple(self._tasks.tasks[ordinal] for ordinal in self._ordinals(self._observations.unvisited()))

    def _ordinals(self, nodes: Mask) -> tuple[int, ...]:
        return tuple(self.compared[node] for node in np.flatnonzero(nodes))
