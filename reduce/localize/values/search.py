"""Finds the first tasks that leave other values than those known, and which other tasks may be behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ....runner.build_output.args.dump import ArgsDump
from ....runner.build_output.files.errors import BuildOutputError
from ....runner.compare.statistics.statistics import Tolerance
from ....runner.errors import UserError
from ....runner.tensor.view import TensorView
from ...graph.dag import Dag
from ...graph.shared_graph import passing_over
from ...graph.task_list import KernelTask
from ...replay.comparison import NotWholeError, TaskValues, differs, distance, results_of, values_of
from ...replay.task_replay import TaskReplayer
from ..assess import Assessment
from ..classes import TaskClass
from ..search.evidence import Evidence
from ..search.settle import OnProgress, settle
from .known_values import KnownValues


@dataclass(frozen=True, kw_only=True)
class OffValue:
    """A task that leaves other values than those known, none before it doing so: what it held in one run."""

    task: KernelTask
    actual: TaskValues
    expected: Mapping[int, TensorView]


@dataclass(frozen=True, kw_only=True)
class OffValues:
    """What was found. `candidates`: tasks before those found of which not all is known; the error may be theirs.

    `seen` are relative L2 errors by ordinal of the tasks that were looked at, 0 where nothing differs.
    """

    found: tuple[OffValue, ...]
    vanished: tuple[KernelTask, ...]
    candidates: tuple[KernelTask, ...]
    seen: Mapping[int, float]


@dataclass(kw_only=True)
class ValuesSearch:
    """`budget` is bytes a run, `attempts` how often it is tried while nothing differs."""

    known: KnownValues
    tolerance: Tolerance
    budget: int
    attempts: int
    on_progress: OnProgress
    _nodes: tuple[int, ...] = field(init=False)
    _evidence: Evidence = field(init=False)
    _seen: dict[int, float] = field(init=False, default_factory=dict[int, float])

    def __post_init__(self) -> None:
        self._nodes = tuple(sorted(self.known.expected))
        tasks = self.known.side.tasks
        above = passing_over(tasks, self.known.expected.keys())
        places = {ordinal: node for node, ordinal in enumerate(self._nodes)}
        self._evidence = Evidence(
            Dag(
                predecessors=tuple(
                    tuple(sorted(places[one] for one in above[ordinal])) for ordinal in self._nodes
                ),
                sizes=tuple(tasks.tasks[ordinal].result_bytes for ordinal in self._nodes),
            )
        )

    def search(self) -> OffValues:
        """Search to the end.

        Raises:
            UserError: the budget holds no task, or a run fails.
        """
        tried = 0
        while True:
            settle(self._evidence, self.budget, self._look, self.on_progress)
            result = self._show()
            tried += 1
            if result.found or tried == self.attempts:
                return result
            self.on_progress(f"nothing was off in attempt {tried} of {self.attempts}")
            if not result.vanished:
                self._evidence = Evidence(self._evidence.dag)

    def _look(self, nodes: tuple[int, ...]) -> None:
        dump = self.known.side.dump(results={self._nodes[node] for node in nodes}, whole=set())
        self._evidence.observe({node: self._is_off(self._nodes[node], dump) for node in nodes})

    def _is_off(self, ordinal: int, dump: ArgsDump) -> bool:
        actual, expected = results_of(dump, self._task(ordinal)), self.known.expected[ordinal]
        off = [index for index, view in expected.items() if differs(actual[index], view, self.tolerance)]
        self._seen[ordinal] = max((distance(actual[index], expected[index]) for index in off), default=0.0)
        return bool(off)

    def _show(self) -> OffValues:
        """One more run, with all arguments of the first tasks that were seen to be off."""
        firsts = [self._nodes[node] for node in np.flatnonzero(self._evidence.firsts())]
        found: list[OffValue] = []
        vanished: list[KernelTask] = []
        if firsts:
            self.on_progress(f"dumping all arguments of {len(firsts)} tasks that are off")
            dump = self.known.side.dump(results=set(), whole=set(firsts))
            for ordinal in firsts:
                task = self._task(ordinal)
                try:
                    off, actual = self._is_off(ordinal, dump), values_of(dump, task)
                except NotWholeError as error:
                    raise UserError(
                        f"expected all arguments of a task dumped whole, found: {error}"
                    ) from error
                if off:
                    found.append(OffValue(task=task, actual=actual, expected=self.known.expected[ordinal]))
                else:
                    vanished.append(task)
        return OffValues(
            found=tuple(found),
            vanished=tuple(vanished),
            candidates=self._candidates([one.task.ordinal for one in found]),
            seen=self._seen,
        )

    def _candidates(self, firsts: list[int]) -> tuple[KernelTask, ...]:
        """Tasks above, up to those all of whose results are as they should be."""
        predecessors = self.known.side.tasks.predecessors
        reached: set[int] = set()
        left = [above for ordinal in firsts for above in predecessors[ordinal]]
        while left:
            ordinal = left.pop()
            if ordinal in reached or self.known.tells_all_of(ordinal):
                continue
            reached.add(ordinal)
            left += predecessors[ordinal]
        return tuple(self._task(ordinal) for ordinal in sorted(reached))

    def _task(self, ordinal: int) -> KernelTask:
        return self.known.side.tasks.tasks[ordinal]


def assess_value(off: OffValue, known: KnownValues, tolerance: Tolerance, folder: Path) -> Assessment:
    """The verdict on a task, by running it alone on the inputs that it should have had; unknown without those."""

    def verdict(found: TaskClass, reason: str) -> Assessment:
        return Assessment(task_class=found, distances=None, reason=reason)

    right = known.inputs_of(off.task)
    if right is None:
        return verdict(
            TaskClass.UNKNOWN,
            "not all values that it should read are known: the error may have come with them",
        )
    try:
        alone = TaskReplayer(known.side, off.task, scalars=off.actual.scalars, folder=folder)
        if missed := _missed(alone.run(right, off.actual), off.expected, tolerance):
            return verdict(
                TaskClass.INTRODUCED,
                f"alone on the known inputs the kernel misses the known result by {missed:.3g}",
            )
        if _missed(alone.run(off.actual.before, off.actual), off.expected, tolerance):
            return verdict(
                TaskClass.INHERITED,
                "alone on the known inputs the kernel is right, on those of the run it is not: these bring the error",
            )
    except (UserError, BuildOutputError, NotWholeError) as error:
        return verdict(TaskClass.UNKNOWN, str(error))
    return verdict(
        TaskClass.INTERACTION, "alone the kernel is right, on the known inputs and on those of the run"
    )


def _missed(
    actual: Mapping[int, TensorView], expected: Mapping[int, TensorView], tolerance: Tolerance
) -> float:
    """The largest relative L2 error of a tensor that is off; 0 where none is."""
    return max(
        (
            distance(actual[index], view)
            for index, view in expected.items()
            if differs(actual[index], view, tolerance)
        ),
        default=0.0,
    )
