"""Finds the first divergent tasks of a failing build, by what its reference tells, within a budget of bytes a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from ....runner.compare.statistics.statistics import Tolerance
from ....runner.errors import UserError
from ....store.words import plural
from ...graph.task_list import KernelTask
from ...replay.comparison import NotWholeError
from ...replay.recorded_build import RecordedBuild
from ...rewrite.single_task import submits_of
from ..attribution.attribution import DivergentTask
from ..experiments.experiment import Dump, Dumped, DumpEverything, Steps, Tell
from ..references.reference import ExpectedValues
from .choice import BudgetTooSmallError
from .first_divergences import FirstDivergences
from .observed_tasks import ObservedTasks
from .run_comparison import RunComparison
from .shown import shown_together


@dataclass(kw_only=True)
class DivergenceSearch:
    """Asks for dumps, and compares what tasks left with what they should have.

    `budget` is bytes of results that a run of either build may dump; `attempts` how often it is tried while nothing
    diverges, or what did does not in the run that is to show it: a race spares some runs. `schedule` is the one of the
    stack file that the failing build runs under; None: as its toolchain has it.
    """

    failing: RecordedBuild
    expected: ExpectedValues
    tolerance: Tolerance
    budget: int
    attempts: int
    harness: Tolerance | None = None
    """The case's own, beyond which an error is no rounding; None where it is not known."""
    schedule: str | None = None
    everything: Dumped | None = None
    """The last run with all arguments of all tasks; None: there was none."""
    _tasks: ObservedTasks = field(init=False)
    _tried: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._tasks = ObservedTasks(self.failing.tasks, self.expected.compared, self.expected.dag)

    def first_divergences(self) -> Steps[FirstDivergences]:
        """Search to the end.

        Raises:
            UserError: the budget holds no task, or a run fails.
        """
        in_one_run = self.expected.complete and self.expected.all_bytes <= self.budget
        if not in_one_run:
            self._start_from_outputs()
        while True:
            try:
                divergences = yield from self._from_full_dump() if in_one_run else self._from_tagged_dumps()
            except NotWholeError as error:
                yield from Tell(f"not all was dumped ({error}): tagging tasks instead")
                in_one_run, self.everything = False, None
                self._tasks.forget()
                self._start_from_outputs()
                continue
            if divergences.divergent or not (yield from self._may_try_again("nothing diverged")):
                return divergences
            self._tasks.forget()

    @property
    def below(self) -> tuple[KernelTask, ...]:
        """Tasks of the failing build that were seen to diverge, and are no first ones, in submission order."""
        return self._tasks.below

    def show(self, ordinals: Sequence[int]) -> Steps[tuple[DivergentTask, ...]]:
        """A run with all arguments of some tasks, one more where not all of them were dumped; those that diverge in it.

        Raises `UserError` where they were not dumped whole.
        """
        try:
            dumped = self.everything
            run = (yield from self._run(whole=set(ordinals))) if dumped is None else self._compared(dumped)
            return tuple(task for task in map(run.divergent, ordinals) if task is not None)
        except NotWholeError as error:
            raise UserError(f"expected all arguments of a task dumped whole, found: {error}") from error

    def _start_from_outputs(self) -> None:
        """Start from the tasks whose results stand in the outputs, where one of them is known to diverge."""
        known = self.expected.known_divergent(self.tolerance)
        if any(known.values()):
            self._tasks.note(known)

    def _may_try_again(self, why: str) -> Steps[bool]:
        self._tried += 1
        if self._tried < self.attempts:
            yield from Tell(f"{why} in attempt {self._tried} of {self.attempts}")
        return self._tried < self.attempts

    def _from_full_dump(self) -> Steps[FirstDivergences]:
        """The answer from one run of each build: the last one, at the first try, where there was one. Raises
        `NotWholeError` where a dump was not whole."""
        dumped = self.everything
        if dumped is None or self._tried:
            if dumped is None:
                yield from Tell("dumping all tasks of both builds")
            dumped = yield from DumpEverything(
                failing=self.failing,
                expected=self.expected,
                known=None if dumped is None else dumped.expected,
                schedule=self.schedule,
            )
            self.everything = dumped
        run = self._compared(dumped)
        self._note(self._tasks.compared, run)
        return self._found({ordinal: run.divergent(ordinal) for ordinal in self._tasks.firsts})

    def _from_tagged_dumps(self) -> Steps[FirstDivergences]:
        """Search until the tasks before the first ones are clean in the very run that shows those diverging.

        Raises `UserError` where even a single task is not dumped whole.
        """
        yield from self._look_at_marked()
        while True:
            yield from self._settle()
            known = self._tasks.divergent
            divergences = yield from self._show_firsts()
            if self._tasks.divergent != known:
                yield from Tell("a task before the first ones diverged in the last run: a race?")
            elif (
                divergences.divergent
                or not divergences.vanished
                or not (yield from self._may_try_again("what diverged did not again"))
            ):
                return divergences

    def _look_at_marked(self) -> Steps[None]:
        """Start with the tasks that the source itself has marked for a dump: whoever did that suspects them."""
        if not self.expected.complete:
            return
        marked = tuple(filter(self._is_marked, self._tasks.compared))
        if marked:
            yield from Tell(f"dumping the results of {plural(len(marked), 'task')} marked in the source")
            try:
                yield from self._look(marked)
            except NotWholeError as error:
                yield from Tell(f"not all was dumped ({error})")

    def _is_marked(self, ordinal: int) -> bool:
        submits = submits_of(self.failing.orchestration, self.failing.tasks.tasks[ordinal])
        return any(submit.dumps for submit in submits)

    def _settle(self) -> Steps[None]:
        """Dump results of tasks, a few a run, until it is known which of them diverge first; fewer a run where not all
        was dumped."""
        most = self.budget
        while ordinals := self._next(most):
            yield from Tell(
                f"dumping the results of {len(ordinals)} of {plural(len(self._tasks.compared), 'task')}"
            )
            try:
                yield from self._look(ordinals)
            except NotWholeError as error:
                if len(ordinals) == 1:
                    raise UserError(f"expected a task's results dumped whole, found: {error}") from error
                most = min(most, self._tasks.bytes_of(ordinals)) // 2
                yield from Tell(f"not all was dumped ({error}): trying with {most} bytes")

    def _next(self, most: int) -> tuple[int, ...]:
        """The tasks to dump next, of `most` bytes. Raises `UserError` where none of them fits."""
        try:
            return self._tasks.next(most)
        except BudgetTooSmallError as error:
            if most < self.budget:
                raise UserError(
                    "expected the results of tasks dumped whole, found records dropped or cut short even in a run that "
                    f"was to dump {2 * most} bytes; enlarge the runtime's dump buffers"
                ) from error
            raise UserError(
                f"--dump-budget: expected at least {error.needed} bytes, the results of one task, found {self.budget}"
            ) from error

    def _look(self, ordinals: Sequence[int]) -> Steps[None]:
        self._note(ordinals, (yield from self._run(results=set(ordinals))))

    def _show_firsts(self) -> Steps[FirstDivergences]:
        """Further runs, with all arguments of first tasks and what they read: one where the budget holds all of them,
        else as many as it takes to show one of each kernel."""
        shown: dict[int, DivergentTask | None] = {}
        for together in shown_together(self._tasks, self.budget):
            try:
                shown |= yield from self._show_together(together)
            except NotWholeError as error:
                raise UserError(f"expected all arguments of a task dumped whole, found: {error}") from error
        return self._found(shown)

    def _show_together(self, firsts: Sequence[int]) -> Steps[dict[int, DivergentTask | None]]:
        """One run, a second one where what the tasks read differs; None of those that do not diverge in it."""
        yield from Tell(f"dumping all arguments of {plural(len(firsts), 'first divergent task')}")
        run = yield from self._run(whole=set(firsts))
        shown = {ordinal: run.divergent(ordinal) for ordinal in firsts}
        above = self._tasks.directly_above(firsts)
        if above and any(run.inputs_differ(task) for task in shown.values() if task is not None):
            # Either something else wrote what they read, or the tasks before them diverge in some runs only.
            yield from Tell(
                f"dumping the results of {plural(len(above), 'task')} before them in the same run"
            )
            run = yield from self._run(results=set(above) - set(firsts), whole=set(firsts))
            self._note(above, run)
            shown = {ordinal: run.divergent(ordinal) for ordinal in firsts}
        return shown

    def _run(self, *, results: Set[int] = frozenset(), whole: Set[int] = frozenset()) -> Steps[RunComparison]:
        """One run with the results of some tasks, by ordinal, and all arguments of others."""
        dumped = yield from Dump(
            failing=self.failing,
            expected=self.expected,
            results=results,
            whole=whole,
            schedule=self.schedule,
        )
        return self._compared(dumped)

    def _compared(self, dumped: Dumped) -> RunComparison:
        return RunComparison(
            tasks=self.failing.tasks,
            values=self.expected,
            dumped=dumped,
            tolerance=self.tolerance,
            harness=self.harness,
        )

    def _note(self, ordinals: Sequence[int], run: RunComparison) -> None:
        """Note which tasks diverge; nothing is noted where something is not whole."""
        self._tasks.note_errors({ordinal: run.error_of(ordinal) for ordinal in ordinals})

    def _found(self, shown: Mapping[int, DivergentTask | None]) -> FirstDivergences:
        """`shown` are first tasks that were dumped whole, by ordinal; None: it did not diverge then."""
        tasks = self.failing.tasks.tasks
        return FirstDivergences(
            divergent=tuple(task for _, task in sorted(shown.items()) if task is not None),
            vanished=tuple(tasks[ordinal] for ordinal, task in sorted(shown.items()) if task is None),
            not_shown=tuple(tasks[ordinal] for ordinal in self._tasks.firsts if ordinal not in shown),
            seen=self._tasks.errors,
            unvisited=self._tasks.unvisited,
        )
