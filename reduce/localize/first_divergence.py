"""Finds the first divergent tasks of a failing build, within a budget of dumped bytes for each run.

A task diverges if its results differ from the reference. It is a first divergent task if all its predecessors were
observed, and none diverges. `DivergenceSearch` asks for runs, and `Observations` keeps what they showed. `next_tasks`
chooses the tasks of the next run, on the assumption that a divergence reaches everything downstream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ...runner.compare.statistics import Tolerance
from ...runner.errors import UserError
from ...store.vocabulary import plural
from ..graph.submits import find_submits
from ..graph.tasks import Bits, Dag, KernelTask, Mask, TaskList, bits_of, mask_of
from ..replay.replay import IncompleteDumpError, RecordedBuild, differs, distance, results_of, values_of
from .attribute import Attribution, TaskClass
from .experiments import DivergentTask, Dump, DumpEverything, DumpPair, Steps, Tell
from .reference import ExpectedValues


@dataclass(kw_only=True)
class DivergenceSearch:
    """Asks for dumps until the first divergent tasks are known.

    Attributes:
        tolerance: within which tensors count as equal.
        budget: the bytes of results that a run of either build may dump. A single task may have more.
        attempts: how often to search if nothing diverges, or if a divergence does not show again. A race does not show
            in every run.
        case_tolerance: the case's own tolerance, or None if it is not known.
        schedule: the schedule of the failing build. None is the schedule of its toolchain.
        full_dump: the last run that dumped all arguments of all tasks.
    """

    failing: RecordedBuild
    expected: ExpectedValues
    tolerance: Tolerance
    budget: int
    attempts: int
    case_tolerance: Tolerance | None = None
    schedule: str | None = None
    full_dump: DumpPair | None = None
    _tasks: TaskObservations = field(init=False)
    _attempts_made: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._tasks = TaskObservations(self.failing.tasks, self.expected.compared, self.expected.dag)

    def first_divergences(self) -> Steps[FirstDivergences]:
        """Return the first divergent tasks.

        Raises:
            UserError: a run fails, or its dump of a single task is incomplete.
        """
        dumps_all = self.expected.complete and self.expected.all_bytes <= self.budget
        if not dumps_all:
            self._start_from_outputs()
        while True:
            try:
                divergences = (
                    yield from self._search_full_dump() if dumps_all else self._search_tagged_dumps()
                )
            except IncompleteDumpError as error:
                yield from Tell(f"not all was dumped ({error}): tagging tasks instead")
                dumps_all, self.full_dump = False, None
                self._tasks.forget()
                self._start_from_outputs()
                continue
            if divergences.divergent or not (yield from self._starts_another_attempt("nothing diverged")):
                return divergences
            self._tasks.forget()

    @property
    def downstream_divergent(self) -> tuple[KernelTask, ...]:
        """Return all other tasks that were seen to diverge, in submission order."""
        return self._tasks.downstream_divergent

    def show(self, ordinals: Sequence[int]) -> Steps[tuple[DivergentTask, ...]]:
        """Return the tasks among `ordinals` that diverge in a run that dumps all their arguments.

        Makes no run if there is a full dump. Raises `UserError` if a dump is incomplete.
        """
        try:
            dumped = self.full_dump
            run = (
                (yield from self._run(whole=set(ordinals)))
                if dumped is None
                else self._run_comparison(dumped)
            )
            return tuple(task for task in map(run.divergent, ordinals) if task is not None)
        except IncompleteDumpError as error:
            raise UserError(f"expected all arguments of a task dumped whole, found: {error}") from error

    def _start_from_outputs(self) -> None:
        """Note which writers of outputs diverge, if one of them is known to diverge."""
        known = self.expected.known_divergent(self.tolerance)
        if any(known.values()):
            self._tasks.note(known)

    def _starts_another_attempt(self, why: str) -> Steps[bool]:
        self._attempts_made += 1
        if self._attempts_made < self.attempts:
            yield from Tell(f"{why} in attempt {self._attempts_made} of {self.attempts}")
        return self._attempts_made < self.attempts

    def _search_full_dump(self) -> Steps[FirstDivergences]:
        """Compare all tasks in one run of each build. The first attempt uses the last full dump, if there is one.

        Raises `IncompleteDumpError`.
        """
        dumped = self.full_dump
        if dumped is None or self._attempts_made:
            if dumped is None:
                yield from Tell("dumping all tasks of both builds")
            dumped = yield from DumpEverything(
                failing=self.failing,
                expected=self.expected,
                known=None if dumped is None else dumped.expected,
                schedule=self.schedule,
            )
            self.full_dump = dumped
        run = self._run_comparison(dumped)
        self._note(self._tasks.compared, run)
        return self._divergences({ordinal: run.divergent(ordinal) for ordinal in self._tasks.firsts})

    def _search_tagged_dumps(self) -> Steps[FirstDivergences]:
        """Search by runs that dump a part of the tasks.

        The search ends when the first divergent tasks diverge in the same run in which their predecessors are clean.
        Raises `UserError` if the dump of a single task is incomplete.
        """
        yield from self._observe_marked_tasks()
        while True:
            yield from self._find_firsts()
            known = self._tasks.divergent
            divergences = yield from self._show_firsts()
            if self._tasks.divergent != known:
                yield from Tell("a task before the first ones diverged in the last run: a race?")
                continue
            if divergences.divergent or not divergences.vanished:
                return divergences
            if not (yield from self._starts_another_attempt("what diverged did not again")):
                return divergences

    def _observe_marked_tasks(self) -> Steps[None]:
        """Start with the tasks that the source marks for a dump, because someone suspects them."""
        if not self.expected.complete:
            return
        marked = tuple(filter(self._is_marked, self._tasks.compared))
        if marked:
            yield from Tell(f"dumping the results of {plural(len(marked), 'task')} marked in the source")
            try:
                yield from self._observe(marked)
            except IncompleteDumpError as error:
                yield from Tell(f"not all was dumped ({error})")

    def _is_marked(self, ordinal: int) -> bool:
        submits = find_submits(self.failing.orchestration, self.failing.tasks.tasks[ordinal])
        return any(submit.dumps for submit in submits)

    def _find_firsts(self) -> Steps[None]:
        """Dump results of tasks, a few in each run, until the first divergent tasks are known.

        If a dump is incomplete, the next runs dump less.
        """
        limit = self.budget
        while ordinals := self._choose_tasks(limit):
            yield from Tell(
                f"dumping the results of {len(ordinals)} of {plural(len(self._tasks.compared), 'task')}"
            )
            try:
                yield from self._observe(ordinals)
            except IncompleteDumpError as error:
                if len(ordinals) == 1:
                    raise UserError(f"expected a task's results dumped whole, found: {error}") from error
                limit = min(limit, self._tasks.bytes_of(ordinals)) // 2
                yield from Tell(f"not all was dumped ({error}): trying with {limit} bytes")

    def _choose_tasks(self, limit: int) -> tuple[int, ...]:
        """Return the tasks to dump next, of at most `limit` bytes, or one task that is larger than the whole budget.

        Raises `UserError` if the runtime does not even dump a single task completely.
        """
        try:
            return self._tasks.choose(limit)
        except BudgetTooSmallError as error:
            if limit < self.budget:
                raise UserError(
                    "expected the results of tasks dumped whole, found records dropped or cut short even in a run that "
                    f"was to dump {2 * limit} bytes; enlarge the runtime's dump buffers"
                ) from error
            return self._tasks.choose(error.needed)

    def _observe(self, ordinals: Sequence[int]) -> Steps[None]:
        self._note(ordinals, (yield from self._run(results=set(ordinals))))

    def _show_firsts(self) -> Steps[FirstDivergences]:
        """Make the runs of `plan_full_dumps`, which dump all arguments of first divergent tasks."""
        shown: dict[int, DivergentTask | None] = {}
        for ordinals in plan_full_dumps(self._tasks, self.budget):
            try:
                shown |= yield from self._show_in_one_run(ordinals)
            except IncompleteDumpError as error:
                raise UserError(f"expected all arguments of a task dumped whole, found: {error}") from error
        return self._divergences(shown)

    def _show_in_one_run(self, firsts: Sequence[int]) -> Steps[dict[int, DivergentTask | None]]:
        """Return first tasks with all their values from one run, or None for a task that does not diverge in it.

        If a task's inputs differ, a second run also dumps the results of its predecessors.
        """
        yield from Tell(f"dumping all arguments of {plural(len(firsts), 'first divergent task')}")
        run = yield from self._run(whole=set(firsts))
        shown = {ordinal: run.divergent(ordinal) for ordinal in firsts}
        above = self._tasks.directly_above(firsts)
        if above and any(run.inputs_differ(task) for task in shown.values() if task is not None):
            # Either something else wrote these inputs, or the predecessors diverge in some runs only.
            yield from Tell(
                f"dumping the results of {plural(len(above), 'task')} before them in the same run"
            )
            run = yield from self._run(results=set(above) - set(firsts), whole=set(firsts))
            self._note(above, run)
            shown = {ordinal: run.divergent(ordinal) for ordinal in firsts}
        return shown

    def _run(self, *, results: Set[int] = frozenset(), whole: Set[int] = frozenset()) -> Steps[RunComparison]:
        """Make a run that dumps the results of some tasks, and all arguments of others."""
        dumped = yield from Dump(
            failing=self.failing,
            expected=self.expected,
            results=results,
            whole=whole,
            schedule=self.schedule,
        )
        return self._run_comparison(dumped)

    def _run_comparison(self, dumped: DumpPair) -> RunComparison:
        return RunComparison(
            tasks=self.failing.tasks,
            values=self.expected,
            dumped=dumped,
            tolerance=self.tolerance,
            case_tolerance=self.case_tolerance,
        )

    def _note(self, ordinals: Sequence[int], run: RunComparison) -> None:
        """Note which tasks diverge in a run. Raises `IncompleteDumpError`, and then notes nothing."""
        self._tasks.note_errors({ordinal: run.error_of(ordinal) for ordinal in ordinals})

    def _divergences(self, shown: Mapping[int, DivergentTask | None]) -> FirstDivergences:
        """Return the findings. `shown` are the first tasks that were dumped with all arguments, by ordinal.

        A task that did not diverge in that run is None.
        """
        tasks = self.failing.tasks.tasks
        return FirstDivergences(
            divergent=tuple(task for _, task in sorted(shown.items()) if task is not None),
            vanished=tuple(tasks[ordinal] for ordinal, task in sorted(shown.items()) if task is None),
            not_shown=tuple(tasks[ordinal] for ordinal in self._tasks.firsts if ordinal not in shown),
            errors=self._tasks.errors,
            unvisited=self._tasks.unvisited_tasks,
        )


@dataclass(frozen=True, kw_only=True)
class FirstDivergences:
    """The result of a search.

    Attributes:
        divergent: the first divergent tasks that were dumped with all their arguments, in submission order.
        vanished: tasks that diverged during the search, but not in the run that dumped all their arguments.
        errors: the relative L2 errors of all observed tasks, by ordinal. An error is infinite if it cannot be measured.
        unvisited: tasks that were not observed and may be first divergent ones too.
        not_shown: other first divergent tasks. A task of the same kernel is in `divergent` or `vanished`.
    """

    divergent: tuple[DivergentTask, ...]
    vanished: tuple[KernelTask, ...]
    errors: Mapping[int, float]
    unvisited: tuple[KernelTask, ...]
    not_shown: tuple[KernelTask, ...] = ()

    @property
    def ordinals(self) -> frozenset[int]:
        """Return the ordinals of the first divergent tasks."""
        return frozenset(task.ordinal for task in (*(each.task for each in self.divergent), *self.not_shown))

    def restrict_to(self, ordinals: Set[int]) -> FirstDivergences:
        """Return the same findings with only the first divergent tasks in `ordinals`."""
        return replace(
            self,
            divergent=tuple(each for each in self.divergent if each.task.ordinal in ordinals),
            vanished=tuple(task for task in self.vanished if task.ordinal in ordinals),
            not_shown=tuple(task for task in self.not_shown if task.ordinal in ordinals),
        )


@dataclass(frozen=True, kw_only=True)
class AttributedDivergences:
    """The first divergent tasks with their attributions. `rounding` are tasks before them that differ by rounding."""

    first: FirstDivergences
    attributions: tuple[Attribution, ...]
    rounding: tuple[KernelTask, ...] = ()

    @property
    def pairs(self) -> tuple[tuple[DivergentTask, Attribution], ...]:
        """Return each first divergent task with its attribution."""
        return tuple(zip(self.first.divergent, self.attributions, strict=True))

    @property
    def sign_of_zero_tasks(self) -> tuple[DivergentTask, ...]:
        """Return the tasks whose only wrong inputs are signs of zeros."""
        return tuple(divergent for divergent, each in self.pairs if each.by_sign_of_zero)

    @property
    def is_rounding(self) -> bool:
        """Return whether all errors are within the case's own tolerance and within their `Distances.floor`."""
        exceeds_floor = any(each.exceeds_floor for each in self.attributions)
        return not exceeds_floor and not any(each.exceeds_case_tolerance for each in self.first.divergent)

    @property
    def makes_an_error(self) -> bool:
        """Return whether the error of one of the tasks did not come with its inputs."""
        own = (TaskClass.INTRODUCED, TaskClass.INTERACTION)
        return any(each.task_class in own for each in self.attributions)

    @property
    def points_to_a_race(self) -> bool:
        """Return whether a task diverged only in some runs, or is right when it runs alone."""
        interaction = any(each.task_class is TaskClass.INTERACTION for each in self.attributions)
        return bool(self.first.vanished) or interaction


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """Compares the dump of one run with the expected values. `tasks` are those of the failing build."""

    tasks: TaskList
    values: ExpectedValues
    dumped: DumpPair
    tolerance: Tolerance
    case_tolerance: Tolerance | None

    def error_of(self, ordinal: int) -> float | None:
        """Return the largest relative L2 error of a task's results, or None if they do not differ.

        Raises `IncompleteDumpError`.
        """
        actual = results_of(self.dumped.actual, self.tasks.tasks[ordinal])
        expected = self.dumped.expected.results_of(ordinal)
        if not any(differs(actual[index], view, self.tolerance) for index, view in expected.items()):
            return None
        signed = self.tolerance.signed_zeros
        return max(distance(actual[index], view, signed_zeros=signed) for index, view in expected.items())

    def divergent(self, ordinal: int) -> DivergentTask | None:
        """Return a task with all its values, or None if its results do not differ.

        Raises `IncompleteDumpError`.
        """
        task = self.tasks.tasks[ordinal]
        actual, expected = values_of(self.dumped.actual, task), self.dumped.expected.values_of(ordinal)

        def exceeds(tolerance: Tolerance) -> bool:
            return any(
                differs(actual.after[index], view, tolerance) for index, view in expected.after.items()
            )

        if not exceeds(self.tolerance):
            return None
        return DivergentTask(
            task=task,
            counterpart=self.values.counterpart_of(ordinal),
            dumped=self.dumped,
            exceeds_case_tolerance=self.case_tolerance is None or exceeds(self.case_tolerance),
        )

    def inputs_differ(self, divergent: DivergentTask) -> bool:
        """Return whether one of the task's inputs differs from its expected value, as far as that is known."""
        actual, expected = divergent.actual.before, divergent.expected_values.before
        return any(
            differs(actual[index], expected[index], self.tolerance)
            for index in actual.keys() & expected.keys()
        )


def plan_full_dumps(tasks: TaskObservations, budget: int) -> tuple[tuple[int, ...], ...]:
    """Divide first divergent tasks into runs that dump all their arguments. Returns the ordinals of each run.

    A run's tasks and the results of their predecessors fit `budget` bytes. A task that is larger has its own run. Each
    run but the first begins with a task of a new kernel, because more tasks of one kernel add little.
    """
    runs: list[list[int]] = []
    bytes_left = 0
    kernels: set[str] = set()
    for ordinal in _rank_by_kernel(tasks):
        task = tasks.task(ordinal)
        needed = task.all_bytes + tasks.bytes_of(tasks.directly_above([ordinal]))
        if not runs or (needed > bytes_left and task.name not in kernels):
            runs.append([])
            bytes_left = budget
        if needed <= bytes_left or not runs[-1]:
            runs[-1].append(ordinal)
            kernels.add(task.name)
            bytes_left -= needed
    return tuple(tuple(sorted(run)) for run in runs)


def _rank_by_kernel(tasks: TaskObservations) -> list[int]:
    """Return the first divergent tasks: the first of each kernel, then the second of each, and so on."""
    count_by_kernel: Counter[str] = Counter()
    ranked: list[tuple[int, int]] = []
    for ordinal in tasks.firsts:
        kernel = tasks.task(ordinal).name
        ranked.append((count_by_kernel[kernel], ordinal))
        count_by_kernel[kernel] += 1
    return [ordinal for _, ordinal in sorted(ranked)]


class TaskObservations:
    """Observations by the ordinals of tasks. Node `i` of the graph is the task with the ordinal `compared[i]`."""

    def __init__(self, tasks: TaskList, compared: Sequence[int], dag: Dag) -> None:
        self._tasks = tasks
        self.compared = tuple(compared)
        self._nodes = {ordinal: node for node, ordinal in enumerate(compared)}
        self._dag = dag
        self.forget()

    def forget(self) -> None:
        """Forget all observations."""
        self._observations = Observations(self._dag)
        self.errors: dict[int, float] = {}
        """The relative L2 errors of the dumped tasks' results, by ordinal. They are 0 for equal results."""

    def note_errors(self, errors: Mapping[int, float | None]) -> None:
        """Note the relative L2 errors of tasks' results in a run. None stands for equal results."""
        self.errors |= {ordinal: error or 0.0 for ordinal, error in errors.items()}
        self.note({ordinal: error is not None for ordinal, error in errors.items()})

    def note(self, diverges: Mapping[int, bool]) -> None:
        """Note whether tasks diverge. Skips tasks that are not compared."""
        self._observations.observe(
            {self._nodes[ordinal]: wrong for ordinal, wrong in diverges.items() if ordinal in self._nodes}
        )

    def choose(self, budget: int) -> tuple[int, ...]:
        """Return the choice of `next_tasks` for a budget in bytes. Raises `BudgetTooSmallError`."""
        return tuple(self.compared[node] for node in next_tasks(self._observations, budget))

    def task(self, ordinal: int) -> KernelTask:
        """Return the task with an ordinal."""
        return self._tasks.tasks[ordinal]

    def bytes_of(self, ordinals: Sequence[int]) -> int:
        """Return the bytes of some tasks' results, in the build in which they are larger."""
        return sum(self._dag.sizes[self._nodes[ordinal]] for ordinal in ordinals)

    def directly_above(self, ordinals: Sequence[int]) -> tuple[int, ...]:
        """Return the tasks whose results the given tasks read, in submission order."""
        nodes = {above for ordinal in ordinals for above in self._dag.predecessors[self._nodes[ordinal]]}
        return tuple(self.compared[node] for node in sorted(nodes))

    @property
    def divergent(self) -> frozenset[int]:
        """Return tasks that were seen to diverge."""
        return frozenset(self._ordinals(self._observations.divergent))

    @property
    def firsts(self) -> tuple[int, ...]:
        """Return the first divergent tasks."""
        return self._ordinals(self._observations.firsts())

    @property
    def downstream_divergent(self) -> tuple[KernelTask, ...]:
        """Return all other tasks that were seen to diverge, in submission order."""
        mask = self._observations.divergent & ~self._observations.firsts()
        return tuple(self._tasks.tasks[ordinal] for ordinal in self._ordinals(mask))

    @property
    def unvisited_tasks(self) -> tuple[KernelTask, ...]:
        """Return tasks that were not observed and may be first divergent ones too."""
        return tuple(
            self._tasks.tasks[ordinal] for ordinal in self._ordinals(self._observations.unexplained_tasks())
        )

    def _ordinals(self, nodes: Mask) -> tuple[int, ...]:
        return tuple(self.compared[node] for node in np.flatnonzero(nodes))


class Observations:
    """Observations of tasks as nodes of a graph. `clean` and `divergent` are masks of the observed tasks."""

    def __init__(self, dag: Dag) -> None:
        self.dag = dag
        self.clean: Mask = np.zeros(len(dag), np.bool_)
        self.divergent: Mask = np.zeros(len(dag), np.bool_)

    def observe(self, diverges: Mapping[int, bool]) -> None:
        """Note for each task whether it diverges. A task stays divergent, because a race does not show in every run."""
        for task, wrong in diverges.items():
            self.divergent[task] |= wrong
            self.clean[task] = not self.divergent[task]

    @property
    def observed_tasks(self) -> Mask:
        """Return tasks that were observed."""
        return self.clean | self.divergent

    def firsts(self) -> Mask:
        """Return the divergent tasks all of whose predecessors were observed to be clean."""
        firsts = np.zeros(len(self.dag), np.bool_)
        for task in np.flatnonzero(self.divergent):
            firsts[task] = bool(self.clean[list(self.dag.predecessors[task])].all())
        return firsts

    def explained_tasks(self) -> Mask:
        """Return the first divergent tasks and all their descendants."""
        return self.dag.with_descendants(self.firsts())

    def presumed_clean(self) -> Mask:
        """Return the clean tasks and all their ancestors. A divergence of an ancestor would have reached them."""
        return self.dag.with_ancestors(self.clean)

    def suspects(self) -> Mask:
        """Return tasks one of which is probably the next first divergent task.

        A suspect is a common ancestor of as many unexplained divergences as possible. The other divergences wait until
        this first task is found.
        """
        unexplained = ~self.explained_tasks() & ~self.clean
        presumed_clean = self.presumed_clean()
        candidates, not_presumed = bits_of(unexplained), bits_of(~presumed_clean)
        common: Bits = 0
        for task in np.flatnonzero(self.divergent & unexplained):
            causes = self.dag.ancestors[task] & candidates
            # If a divergent task has a clean descendant, the divergence did not reach everything downstream.
            if not presumed_clean[task]:
                causes &= not_presumed
            common = common & causes or common or causes
        return mask_of(common, len(self.dag))

    def unexplained_tasks(self) -> Mask:
        """Return the tasks that were not observed, have no first divergent ancestor, and no clean descendant."""
        return ~self.observed_tasks & ~self.explained_tasks() & ~self.presumed_clean()


class BudgetTooSmallError(ValueError):
    """No useful task fits the budget. The smallest one takes `needed` bytes."""

    def __init__(self, needed: int) -> None:
        self.needed = needed
        super().__init__(f"the results of one task take {needed} bytes")


def next_tasks(observations: Observations, budget: int) -> tuple[int, ...]:
    """Return the tasks to observe next, ascending. The result is empty if first tasks explain all divergences.

    If the tasks that decide among all suspects fit the budget, they are chosen. Otherwise the choice separates as many
    pairs of suspects as possible. The rest of the budget goes to branches that were not observed.

    Raises:
        BudgetTooSmallError: no useful task fits the budget.
    """
    suspects = observations.suspects()
    if observations.divergent.any() and not suspects.any():
        return ()
    deciding = _deciding_tasks(observations, suspects)
    chosen = (
        deciding
        if observations.dag.bytes_of(deciding) <= budget
        else _separating_tasks(observations, suspects, budget)
    )
    sinks = _sinks(observations, observations.unexplained_tasks() & ~suspects)
    _add_within_budget(observations, sinks, budget, chosen)
    useful = deciding | sinks
    if not chosen.any() and useful.any():
        raise BudgetTooSmallError(min(observations.dag.sizes[task] for task in np.flatnonzero(useful)))
    return tuple(int(task) for task in np.flatnonzero(chosen))


def _deciding_tasks(observations: Observations, suspects: Mask) -> Mask:
    """Return the tasks whose observation decides which suspects are first divergent tasks."""
    return observations.dag.with_predecessors(suspects) & ~observations.observed_tasks


def _separating_tasks(observations: Observations, suspects: Mask, budget: int) -> Mask:
    """Choose tasks greedily by the pairs of suspects that they separate. The smallest of equally good tasks wins."""
    probes = np.flatnonzero(_deciding_tasks(observations, suspects))
    sizes = np.asarray(observations.dag.sizes, np.int64)[probes]
    classes = _SuspectClasses(observations.dag, probes, suspects)
    taken = np.zeros(len(probes), np.bool_)
    while True:
        pairs = np.where(taken | (sizes > budget), 0, classes.separated_pairs)
        if not pairs.any():
            break
        best = int(np.where(pairs == pairs.max(), sizes, np.iinfo(np.int64).max).argmin())
        taken[best] = True
        budget -= int(sizes[best])
        classes.split(int(probes[best]))
    if not taken.any():
        # No pair of suspects is left to separate, but the tasks that confirm the last one do not all fit.
        order = np.argsort(sizes, kind="stable")
        taken[order[np.cumsum(sizes[order]) <= budget]] = True
    chosen = np.zeros(len(observations.dag), np.bool_)
    chosen[probes[taken]] = True
    return chosen


def _sinks(observations: Observations, region: Mask) -> Mask:
    """Return the tasks of a region whose results no task of the region reads.

    If such a task is clean, all its ancestors are presumed clean.
    """
    is_read = np.zeros(len(observations.dag), np.bool_)
    for task in np.flatnonzero(region):
        is_read[list(observations.dag.predecessors[task])] = True
    return region & ~is_read


def _add_within_budget(observations: Observations, tasks: Mask, budget: int, chosen: Mask) -> None:
    """Add tasks to `chosen`, as far as the budget goes for all that are chosen."""
    budget -= observations.dag.bytes_of(chosen)
    for task in np.flatnonzero(tasks & ~chosen):
        if observations.dag.sizes[task] <= budget:
            chosen[task] = True
            budget -= observations.dag.sizes[task]


Integers = npt.NDArray[np.int64]


_WORD = 16
"""The number of bits of a word in a bit set of tasks."""
_ONES = np.array([number.bit_count() for number in range(1 << _WORD)], np.uint8)
"""The number of ones in each word. Before version 2, numpy has no function for this."""


class _SuspectClasses:
    """Classes of suspects that the chosen tasks do not separate.

    A fault in a suspect makes a task diverge if the suspect is an ancestor of the task. So a task splits a class of n
    suspects into x ancestors and n - x others, and separates x (n - x) pairs. The memory is one bit for each probe and
    task, because only the sums of these pairs are stored.
    """

    def __init__(self, dag: Dag, probes: Integers, suspects: Mask) -> None:
        self._dag = dag
        self._words = -(-len(dag) // _WORD)
        ancestors = b"".join(self._bytes(dag.ancestors[int(probe)]) for probe in probes)
        # One row for each word, so that the words of a class are read for all probes at once.
        self._ancestor_words = np.frombuffer(ancestors, "<u2").reshape(len(probes), self._words).T.copy()
        self._class_of = np.where(suspects, 0, -1)
        self._sizes = [int(np.count_nonzero(suspects))]
        counts = self._count_ancestors(suspects)
        self.separated_pairs: Integers = counts * (self._sizes[0] - counts)
        """For each probe, the number of pairs of suspects of one class that it would separate."""

    def split(self, task: int) -> None:
        """Split every class into the ancestors of a task and the others."""
        is_ancestor = mask_of(self._dag.ancestors[task], len(self._dag)) & (self._class_of >= 0)
        counts = np.bincount(self._class_of[is_ancestor], minlength=len(self._sizes))
        for label in np.flatnonzero((counts > 0) & (counts < self._sizes)):
            members = self._class_of == label
            part, rest = members & is_ancestor, members & ~is_ancestor
            part_size, rest_size = int(counts[label]), self._sizes[label] - int(counts[label])
            in_part, in_rest = self._count_ancestors(part), self._count_ancestors(rest)
            # Pairs of a suspect in one part and one in the other are separated from now on.
            self.separated_pairs -= in_part * (rest_size - in_rest) + (part_size - in_part) * in_rest
            self._class_of[part] = len(self._sizes)
            self._sizes[label] = rest_size
            self._sizes.append(part_size)

    def _count_ancestors(self, suspects: Mask) -> Integers:
        """Return for each probe how many of these suspects are its ancestors."""
        bits = np.frombuffer(self._bytes(bits_of(suspects)), "<u2")
        used = np.flatnonzero(bits)
        words = self._ancestor_words[used]
        words &= bits[used, np.newaxis]
        return _ONES[words].sum(axis=0, dtype=np.int64)

    def _bytes(self, tasks: Bits) -> bytes:
        return tasks.to_bytes(self._words * _WORD // 8, "little")
