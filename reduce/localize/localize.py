"""Finds the first divergent tasks of a failing build against a reference build, within a budget of bytes a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...runner.build_output.args.dump import ArgsDump
from ...runner.compare.statistics.statistics import Tolerance
from ...runner.errors import UserError
from ...runner.tensor.view import TensorView
from ..graph.alignment import Alignment, align
from ..graph.shared_graph import shared_graph
from ..graph.task_list import KernelTask
from ..replay.comparison import NotWholeError, TaskValues, differs, distance, results_of, values_of
from ..replay.side import Side
from ..rewrite.single_task import submits_of
from .search.evidence import Evidence
from .search.final_outputs import output_evidence
from .search.settle import OnProgress, settle


@dataclass(frozen=True, kw_only=True)
class DivergentTask:
    """A first divergent task: its counterpart in the reference, and all values of both in one run each."""

    failing: KernelTask
    reference: KernelTask
    actual: TaskValues
    expected: TaskValues


@dataclass(frozen=True, kw_only=True)
class FirstDivergences:
    """What was found.

    Attributes:
        divergences: the first divergent tasks, in submission order.
        vanished: tasks that diverged while they were searched for, and not in the run that was to show it.
        alignment: which tasks correspond.
        seen: relative L2 error (infinite where there is none to give) of the tasks that were looked at, by ordinal; 0
            where nothing differs.
        unvisited: ordinals of tasks that may hold a further first divergence and were not looked at.
    """

    divergences: tuple[DivergentTask, ...]
    vanished: tuple[KernelTask, ...]
    alignment: Alignment
    seen: Mapping[int, float]
    unvisited: tuple[int, ...]


@dataclass(kw_only=True)
class Localizer:
    """Compares two builds run by run.

    `budget` is bytes of results that a run of either build may dump; `attempts` how often it is tried while nothing
    diverges, or what did does not in the run that is to show it: a race spares some runs.
    """

    failing: Side
    reference: Side
    tolerance: Tolerance
    budget: int
    attempts: int
    on_progress: OnProgress
    _alignment: Alignment = field(init=False)
    _tasks: tuple[int, ...] = field(init=False)
    _evidence: Evidence = field(init=False)
    _seen: dict[int, float] = field(init=False, default_factory=dict[int, float])
    _tried: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._alignment = align(self.failing.tasks, self.reference.tasks)
        self._tasks = tuple(sorted(self._alignment.reference_of))
        if not self._tasks:
            raise UserError(
                "expected tasks that both builds have, found none; is the reference of the same case?"
            )
        self._evidence = Evidence(shared_graph(self.failing.tasks, self.reference.tasks, self._alignment))

    def localize(self) -> FirstDivergences:
        """Search to the end.

        Raises:
            UserError: the budget holds no task, or a run fails.
        """
        everything = max(self.failing.tasks.all_bytes, self.reference.tasks.all_bytes)
        found = self._from_full_dump() if everything <= self.budget else None
        if found is None:
            self._observe_outputs()
        return found or self._until_divergent(self._from_tagged_dumps)

    def _observe_outputs(self) -> None:
        """Start from what the runs that recorded the graphs put out, where that differs."""
        known = output_evidence(self.failing, self.reference, self.tolerance)
        if any(known.values()):
            nodes = {ordinal: node for node, ordinal in enumerate(self._tasks)}
            self._evidence.observe({nodes[one]: wrong for one, wrong in known.items() if one in nodes})

    def _until_divergent(self, search: Callable[[], FirstDivergences]) -> FirstDivergences:
        """Search again while nothing diverges, as often as is allowed."""
        while not (found := search()).divergences and self._may_try_again("nothing diverged"):
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
        theirs = self.reference.dump_everything()
        try:
            return self._until_divergent(lambda: self._of_one_run(self.failing.dump_everything(), theirs))
        except NotWholeError as error:
            self.on_progress(f"not all was dumped ({error}): tagging tasks instead")
            self._forget()
            return None

    def _from_tagged_dumps(self) -> FirstDivergences:
        """Search until the tasks before the first ones are clean in the very run that shows those diverging."""
        self._look_at_marked()
        while True:
            settle(self._evidence, self.budget, self._look, self.on_progress)
            known = self._evidence.divergent.copy()
            found = self._show()
            if (self._evidence.divergent != known).any():
                self.on_progress("a task before the first ones diverged in the last run: a race?")
            elif (
                found.divergences
                or not found.vanished
                or not self._may_try_again("what diverged did not again")
            ):
                return found

    def _look_at_marked(self) -> None:
        """Start with the tasks that the source itself has marked for a dump: whoever did that suspects them."""
        marked = tuple(node for node in range(len(self._tasks)) if self._is_marked(node))
        if marked:
            self.on_progress(f"dumping the results of {len(marked)} tasks that are marked in the source")
            try:
                self._look(marked)
            except NotWholeError as error:
                self.on_progress(f"not all was dumped ({error})")

    def _is_marked(self, node: int) -> bool:
        failing, _ = self._pair(node)
        return any(submit.dumps for submit in submits_of(self.failing.orchestration, failing))

    def _of_one_run(self, ours: ArgsDump, theirs: ArgsDump) -> FirstDivergences:
        self._observe(range(len(self._tasks)), ours, theirs)
        return self._result(self._firsts(), ours, theirs)

    def _forget(self) -> None:
        self._evidence = Evidence(self._evidence.dag)
        self._seen = {}

    def _look(self, nodes: tuple[int, ...]) -> None:
        ordinals = {self._tasks[node] for node in nodes}
        ours = self.failing.dump(results=ordinals, whole=set())
        theirs = self.reference.dump(
            results={self._alignment.reference_of[one] for one in ordinals}, whole=set()
        )
        self._observe(nodes, ours, theirs)

    def _show(self) -> FirstDivergences:
        """One more run of each build, with all arguments of the first tasks and what they read."""
        firsts = self._firsts()
        if not firsts:
            return self._result((), None, None)
        self.on_progress(f"dumping all arguments of {len(firsts)} first divergent tasks")
        try:
            found = self._result(firsts, *self._dump_around(firsts, before=()))
            above = sorted({one for node in firsts for one in self._evidence.dag.predecessors[node]})
            if above and any(map(self._is_disturbed, found.divergences)):
                # Either something else wrote what they read, or the tasks before them diverge in some runs only.
                self.on_progress(f"dumping what {len(above)} tasks before them leave in the same run")
                ours, theirs = self._dump_around(firsts, before=above)
                self._observe(above, ours, theirs)
                found = self._result(firsts, ours, theirs)
        except NotWholeError as error:
            raise UserError(f"expected all arguments of a task dumped whole, found: {error}") from error
        return found

    def _dump_around(self, firsts: Sequence[int], *, before: Sequence[int]) -> tuple[ArgsDump, ArgsDump]:
        """All arguments of some tasks and the results of others, in one run of each build."""
        whole, results = ({self._tasks[node] for node in nodes} for nodes in (firsts, before))
        counterparts = self._alignment.reference_of
        return self.failing.dump(results=results - whole, whole=whole), self.reference.dump(
            results={counterparts[one] for one in results - whole}, whole={counterparts[one] for one in whole}
        )

    def divergent_below(self) -> tuple[KernelTask, ...]:
        """Tasks of the failing build that were seen to diverge, and are no first ones, in submission order."""
        below = self._evidence.divergent & ~self._evidence.firsts()
        return tuple(self._pair(int(node))[0] for node in np.flatnonzero(below))

    def show(self, ordinals: Sequence[int]) -> tuple[DivergentTask, ...]:
        """One more run of each build, with all arguments of some tasks; those of them that diverge in it.

        Raises `UserError` where they were not dumped whole.
        """
        nodes = [self._tasks.index(ordinal) for ordinal in ordinals]
        try:
            return self._result(nodes, *self._dump_around(nodes, before=())).divergences
        except NotWholeError as error:
            raise UserError(f"expected all arguments of a task dumped whole, found: {error}") from error

    def _is_disturbed(self, found: DivergentTask) -> bool:
        """Whether its inputs differ, though all that is known of the tasks before it is that they do not."""
        actual, expected = found.actual.before, found.expected.before
        return any(
            differs(actual[index], expected[index], self.tolerance)
            for index in actual.keys() & expected.keys()
        )

    def _observe(self, nodes: Sequence[int], ours: ArgsDump, theirs: ArgsDump) -> None:
        """Note which tasks diverge; nothing is noted where something is not whole."""
        self._evidence.observe({node: self._diverges(node, ours, theirs) for node in nodes})

    def _diverges(self, node: int, ours: ArgsDump, theirs: ArgsDump) -> bool:
        failing, reference = self._pair(node)
        actual, expected = results_of(ours, failing), results_of(theirs, reference)
        wrong = _any_differs(actual, expected, self.tolerance)
        self._seen[failing.ordinal] = (
            max(distance(actual[index], expected[index]) for index in actual) if wrong else 0.0
        )
        return wrong

    def _pair(self, node: int) -> tuple[KernelTask, KernelTask]:
        ordinal = self._tasks[node]
        counterpart = self._alignment.reference_of[ordinal]
        return self.failing.tasks.tasks[ordinal], self.reference.tasks.tasks[counterpart]

    def _firsts(self) -> tuple[int, ...]:
        return tuple(int(node) for node in np.flatnonzero(self._evidence.firsts()))

    def _result(
        self, firsts: Sequence[int], ours: ArgsDump | None, theirs: ArgsDump | None
    ) -> FirstDivergences:
        divergences: list[DivergentTask] = []
        vanished: list[KernelTask] = []
        for node in firsts:
            assert ours is not None
            assert theirs is not None
            failing, reference = self._pair(node)
            actual, expected = values_of(ours, failing), values_of(theirs, reference)
            if _any_differs(actual.after, expected.after, self.tolerance):
                divergences.append(
                    DivergentTask(failing=failing, reference=reference, actual=actual, expected=expected)
                )
            else:
                vanished.append(failing)
        return FirstDivergences(
            divergences=tuple(divergences),
            vanished=tuple(vanished),
            alignment=self._alignment,
            seen=self._seen,
            unvisited=tuple(self._tasks[node] for node in np.flatnonzero(self._evidence.unvisited())),
        )


def _any_differs(
    actual: Mapping[int, TensorView], expected: Mapping[int, TensorView], tolerance: Tolerance
) -> bool:
    if actual.keys() != expected.keys():
        raise NotWholeError(f"arguments {sorted(actual)} against {sorted(expected)}")
    return any(differs(actual[index], expected[index], tolerance) for index in actual)
