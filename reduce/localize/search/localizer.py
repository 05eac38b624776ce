"""Finds the first divergent tasks of a failing build, by what its reference tells, within a budget of bytes a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from ....runner.compare.statistics.statistics import Tolerance
from ....runner.errors import UserError
from ...graph.dag import Mask
from ...graph.task_list import KernelTask
from ...replay.comparison import NotWholeError
from ...replay.recorded_build import RecordedBuild
from ...rewrite.single_task import submits_of
from ..attribution.attribution import DivergentTask
from ..references.reference import Expectation, ExpectedValues
from .first_divergences import FirstDivergences
from .observations import Observations
from .run_comparison import RunComparison
from .settle import OnProgress, observe_until_settled


@dataclass(kw_only=True)
class Localizer:
    """Runs the failing build, run by run, and compares what its tasks leave with what they should.

    `budget` is bytes of results that a run of either build may dump; `attempts` how often it is tried while nothing
    diverges, or what did does not in the run that is to show it: a race spares some runs.
    """

    failing: RecordedBuild
    expected: ExpectedValues
    tolerance: Tolerance
    budget: int
    attempts: int
    on_progress: OnProgress
    _tasks: tuple[int, ...] = field(init=False)
    _observations: Observations = field(init=False)
    _seen: dict[int, float] = field(init=False, default_factory=dict[int, float])
    _tried: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._tasks = self.expected.compared
        self._observations = Observations(self.expected.dag)

    def localize(self) -> FirstDivergences:
        """Search to the end.

        Raises:
            UserError: the budget holds no task, or a run fails.
        """
        found = None
        if self.expected.complete and self.expected.all_bytes <= self.budget:
            found = self._from_full_dump()
        if found is None:
            self._start_from_outputs()
        return found or self._until_divergent(self._from_tagged_dumps)

    def divergent_below(self) -> tuple[KernelTask, ...]:
        """Tasks of the failing build that were seen to diverge, and are no first ones, in submission order."""
        return self._at(self._observations.divergent & ~self._observations.firsts())

    def show(self, ordinals: Sequence[int]) -> tuple[DivergentTask, ...]:
        """One more run, with all arguments of some tasks; those of them that diverge in it.

        Raises `UserError` where they were not dumped whole.
        """
        try:
            return self._result(ordinals, self._run(whole=set(ordinals))).divergent
        except NotWholeError as error:
            raise UserError(f"expected all arguments of a task dumped whole, found: {error}") from error

    def _start_from_outputs(self) -> None:
        """Start from the tasks whose results stand in the outputs, where one of them is known to diverge."""
        known = self.expected.known_divergent(self.tolerance)
        if any(known.values()):
            self._observe(known)

    def _until_divergent(self, search: Callable[[], FirstDivergences]) -> FirstDivergences:
        """Search again while nothing diverges, as often as is allowed."""
        while not (found := search()).divergent and self._may_try_again("nothing diverged"):
            self._forget()
        return found

    def _may_try_again(self, why: str) -> bool:
        self._tried += 1
        if self._tried < self.attempts:
            self.on_progress(f"{why} in attempt {self._tried} of {self.attempts}")
        return self._tried < self.attempts

    def _from_full_dump(self) -> FirstDivergences | None:
        """The answer from one run of each build; None where a dump was not whole."""
        self.on_progress("dumping all tasks of both builds")
        expectation = self.expected.dump_everything()
        try:
            return self._until_divergent(lambda: self._of_one_run(expectation))
        except NotWholeError as error:
            self.on_progress(f"not all was dumped ({error}): tagging tasks instead")
            self._forget()
            return None

    def _of_one_run(self, expectation: Expectation) -> FirstDivergences:
        run = RunComparison(
            tasks=self.failing.tasks,
            values=self.expected,
            dump=self.failing.dump_everything(),
            expectation=expectation,
            tolerance=self.tolerance,
        )
        self._compare(self._tasks, run)
        return self._result(self._firsts(), run)

    def _from_tagged_dumps(self) -> FirstDivergences:
        """Search until the tasks before the first ones are clean in the very run that shows those diverging."""
        self._look_at_marked()
        while True:
            observe_until_settled(self._observations, self.budget, self._look, self.on_progress)
            known = self._observations.divergent.copy()
            found = self._show_firsts()
            if (self._observations.divergent != known).any():
                self.on_progress("a task before the first ones diverged in the last run: a race?")
            elif (
                found.divergent
                or not found.vanished
                or not self._may_try_again("what diverged did not again")
            ):
                return found

    def _look_at_marked(self) -> None:
        """Start with the tasks that the source itself has marked for a dump: whoever did that suspects them."""
        if not self.expected.complete:
            return
        marked = tuple(node for node, ordinal in enumerate(self._tasks) if self._is_marked(ordinal))
        if marked:
            self.on_progress(f"dumping the results of {len(marked)} tasks that are marked in the source")
            try:
                self._look(marked)
            except NotWholeError as error:
                self.on_progress(f"not all was dumped ({error})")

    def _is_marked(self, ordinal: int) -> bool:
        submits = submits_of(self.failing.orchestration, self.failing.tasks.tasks[ordinal])
        return any(submit.dumps for submit in submits)

    def _look(self, nodes: tuple[int, ...]) -> None:
        ordinals = [self._tasks[node] for node in nodes]
        self._compare(ordinals, self._run(results=set(ordinals)))

    def _show_firsts(self) -> FirstDivergences:
        """One more run, with all arguments of the first tasks and what they read."""
        firsts = self._firsts()
        if not firsts:
            return self._result((), None)
        self.on_progress(f"dumping all arguments of {len(firsts)} first divergent tasks")
        try:
            run = self._run(whole=set(firsts))
            found = self._result(firsts, run)
            above = self._directly_above(firsts)
            if above and any(map(run.inputs_differ, found.divergent)):
                # Either something else wrote what they read, or the tasks before them diverge in some runs only.
                self.on_progress(f"dumping what {len(above)} tasks before them leave in the same run")
                run = self._run(results=set(above) - set(firsts), whole=set(firsts))
                self._compare(above, run)
                found = self._result(firsts, run)
        except NotWholeError as error:
            raise UserError(f"expected all arguments of a task dumped whole, found: {error}") from error
        return found

    def _directly_above(self, ordinals: Sequence[int]) -> list[int]:
        """The compared tasks whose results some tasks read, ascending."""
        dag = self._observations.dag
        nodes = {above for ordinal in ordinals for above in dag.predecessors[self._tasks.index(ordinal)]}
        return [self._tasks[node] for node in sorted(nodes)]

    def _run(self, *, results: Set[int] = frozenset(), whole: Set[int] = frozenset()) -> RunComparison:
        """One run with the results of some tasks, by ordinal, and all arguments of others."""
        dump = self.failing.dump(results=results, whole=whole)
        expectation = self.expected.dump(results=results, whole=whole)
        return RunComparison(
            tasks=self.failing.tasks,
            values=self.expected,
            dump=dump,
            expectation=expectation,
            tolerance=self.tolerance,
        )

    def _compare(self, ordinals: Sequence[int], run: RunComparison) -> None:
        """Note which tasks diverge; nothing is noted where something is not whole."""
        errors = {ordinal: run.error_of(ordinal) for ordinal in ordinals}
        self._seen |= {ordinal: error or 0.0 for ordinal, error in errors.items()}
        self._observe({ordinal: error is not None for ordinal, error in errors.items()})

    def _observe(self, diverges: Mapping[int, bool]) -> None:
        """Note whether tasks diverge, by their ordinals; those that are not compared are passed over."""
        nodes = {ordinal: node for node, ordinal in enumerate(self._tasks)}
        self._observations.observe(
            {nodes[ordinal]: wrong for ordinal, wrong in diverges.items() if ordinal in nodes}
        )

    def _forget(self) -> None:
        self._observations = Observations(self._observations.dag)
        self._seen = {}

    def _firsts(self) -> tuple[int, ...]:
        """Ordinals of the first divergent tasks."""
        return tuple(task.ordinal for task in self._at(self._observations.firsts()))

    def _at(self, nodes: Mask) -> tuple[KernelTask, ...]:
        """The tasks at the nodes of a mask, in submission order."""
        return tuple(self.failing.tasks.tasks[self._tasks[node]] for node in np.flatnonzero(nodes))

    def _result(self, firsts: Sequence[int], run: RunComparison | None) -> FirstDivergences:
        shown = {ordinal: run.divergent(ordinal) for ordinal in firsts} if run is not None else {}
        return FirstDivergences(
            divergent=tuple(task for task in shown.values() if task is not None),
            vanished=tuple(
                self.failing.tasks.tasks[ordinal] for ordinal, task in shown.items() if task is None
            ),
            seen=self._seen,
            unvisited=self._at(self._observations.unvisited()),
        )
