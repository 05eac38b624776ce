"""Finds the first divergent tasks of a failing build, within a budget of bytes a run.

A task *diverges* if its results differ from the reference. A divergent task none of whose predecessors diverges is a
*first* one: that is observed, never inferred. Where to look next is inferred, by supposing that a divergence reaches
everything downstream. A maximum or a mask may swallow a divergence; where an observation contradicts the supposition,
it is dropped there. `Observations` keeps what was seen, `next_tasks` chooses what the next run dumps, and
`DivergenceSearch` asks for the runs.
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
from .attribute import Attribution, DivergentTask, TaskClass
from .experiments import Dump, DumpEverything, DumpPair, Steps, Tell
from .reference import ExpectedValues


class Observations:
    """Observations on a graph. `clean` and `divergent` are masks of the observed tasks."""

    def __init__(self, dag: Dag) -> None:
        self.dag = dag
        self.clean: Mask = np.zeros(len(dag), np.bool_)
        self.divergent: Mask = np.zeros(len(dag), np.bool_)

    def observe(self, diverges: Mapping[int, bool]) -> None:
        """Note for each task whether it diverges.

        A task that diverged in any run is divergent, because a race spares some runs.
        """
        for task, wrong in diverges.items():
            self.divergent[task] |= wrong
            self.clean[task] = not self.divergent[task]

    @property
    def observed_tasks(self) -> Mask:
        """Return tasks that were observed."""
        return self.clean | self.divergent

    def firsts(self) -> Mask:
        """Divergent tasks all of whose predecessors were observed, and are clean."""
        firsts = np.zeros(len(self.dag), np.bool_)
        for task in np.flatnonzero(self.divergent):
            firsts[task] = bool(self.clean[list(self.dag.predecessors[task])].all())
        return firsts

    def explained_tasks(self) -> Mask:
        """First tasks, and everything that they reach."""
        return self.dag.with_descendants(self.firsts())

    def presumed_clean(self) -> Mask:
        """Tasks that reach an observed clean one."""
        return self.dag.with_ancestors(self.clean)

    def suspects(self) -> Mask:
        """Tasks of which one is supposed to be first.

        They can explain as many of the open divergences as possible. A single fault above all of them is tried first.
        Divergences that it cannot reach wait until it is found.
        """
        free = ~self.explained_tasks() & ~self.clean
        presumed = self.presumed_clean()
        free_bits, not_presumed = bits_of(free), bits_of(~presumed)
        common: Bits = 0
        for task in np.flatnonzero(self.divergent & free):
            above = self.dag.ancestors[task] & free_bits
            # The task is divergent, and yet above a clean task: here the supposition fails.
            causes = above if presumed[task] else above & not_presumed
            common = common & causes or common or causes
        return mask_of(common, len(self.dag))

    def unexplained_tasks(self) -> Mask:
        """Tasks that may hold a further first divergence: nothing explains them, and no clean task clears them."""
        return ~self.observed_tasks & ~self.explained_tasks() & ~self.presumed_clean()


Integers = npt.NDArray[np.int64]


class BudgetTooSmallError(ValueError):
    """No task that would help fits the budget; `needed` bytes would be enough for one."""

    def __init__(self, needed: int) -> None:
        self.needed = needed
        super().__init__(f"the results of one task take {needed} bytes")


def next_tasks(observations: Observations, budget: int) -> tuple[int, ...]:
    """Tasks to look at next, ascending; empty when first divergences explain all that was seen to diverge.

    The outcomes of the tasks, taken together, separate as many pairs of suspects as possible. If all that settles the
    question fits the budget, it is dumped at once. The rest of the budget goes to branches about which nothing is
    known. `Observations.unexplained_tasks` says what remains of them in the end.

    Raises:
        BudgetTooSmallError: nothing that would help fits the budget.
    """
    suspects = observations.suspects()
    if observations.divergent.any() and not suspects.any():
        return ()
    wanted = _tasks_to_settle(observations, suspects)
    chosen = (
        wanted
        if observations.dag.bytes_of(wanted) <= budget
        else _tasks_to_separate(observations, suspects, budget)
    )
    region = observations.unexplained_tasks() & ~suspects
    _add_lowest(observations, region, budget, chosen)
    if not chosen.any() and (wanted | region).any():
        raise BudgetTooSmallError(
            min(observations.dag.sizes[task] for task in np.flatnonzero(wanted | region))
        )
    return tuple(int(task) for task in np.flatnonzero(chosen))


def _tasks_to_settle(observations: Observations, suspects: Mask) -> Mask:
    """All tasks that have to be seen to know the first tasks among the suspects for certain."""
    return observations.dag.with_predecessors(suspects) & ~observations.observed_tasks


def _tasks_to_separate(observations: Observations, suspects: Mask, budget: int) -> Mask:
    """Greedy choice of tasks that separate the most pairs of suspects; of equally good ones, the smallest."""
    probes = np.flatnonzero(_tasks_to_settle(observations, suspects))
    sizes = np.asarray(observations.dag.sizes, np.int64)[probes]
    classes = _Classes(observations.dag, probes, suspects)
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
        # No suspects are left to separate, but the tasks that confirm the answer do not fit at once.
        order = np.argsort(sizes, kind="stable")
        taken[order[np.cumsum(sizes[order]) <= budget]] = True
    chosen = np.zeros(len(observations.dag), np.bool_)
    chosen[probes[taken]] = True
    return chosen


_WORD = 16
"""Sets of tasks are read in words of this many bits. A table of 2^16 entries counts the ones of each."""
_ONES = np.array([number.bit_count() for number in range(1 << _WORD)], np.uint8)
"""Each word has this number of ones. Only numpy 2 and later count them."""


class _Classes:
    """Suspects by the outcomes that a fault in them gives the chosen tasks: one class, then ever smaller ones.

    A fault in v makes task t diverge if v is above t. So t splits a class of n into the x suspects above it and n - x
    others. It separates x * (n - x) pairs. Only the sums of these pairs are kept, so that the memory is one bit for
    each probe and task. A split counts anew in the words that hold the class.

    """

    def __init__(self, dag: Dag, probes: Integers, suspects: Mask) -> None:
        self._dag = dag
        self._words = -(-len(dag) // _WORD)
        above = b"".join(self._bytes(dag.ancestors[int(probe)]) for probe in probes)
        # A row for each word: the words of a class are read for all probes at once.
        self._above = np.frombuffer(above, "<u2").reshape(len(probes), self._words).T.copy()
        self._class_of = np.where(suspects, 0, -1)
        self._sizes = [int(np.count_nonzero(suspects))]
        above_probe = self._count_above(suspects)
        self.separated_pairs: Integers = above_probe * (self._sizes[0] - above_probe)
        """Counts for each probe the pairs of suspects of one class that its outcome would separate."""

    def split(self, task: int) -> None:
        """Cut every class into what is above a task and what is not."""
        inside = mask_of(self._dag.ancestors[task], len(self._dag))
        inside &= self._class_of >= 0
        counts = np.bincount(self._class_of[inside], minlength=len(self._sizes))
        for label in np.flatnonzero((counts > 0) & (counts < self._sizes)):
            whole = self._class_of == label
            part = whole & inside
            size, rest = int(counts[label]), self._sizes[label] - int(counts[label])
            above_part, above_rest = self._count_above(part), self._count_above(whole & ~inside)
            # Pairs across the cut are separated already, whatever a probe would tell of them.
            self.separated_pairs -= above_part * (rest - above_rest) + (size - above_part) * above_rest
            self._class_of[part] = len(self._sizes)
            self._sizes[label] = rest
            self._sizes.append(size)

    def _count_above(self, suspects: Mask) -> Integers:
        """For each probe, how many of the given suspects are above it."""
        bits = np.frombuffer(self._bytes(bits_of(suspects)), "<u2")
        used = np.flatnonzero(bits)
        above = self._above[used]
        above &= bits[used, np.newaxis]
        return _ONES[above].sum(axis=0, dtype=np.int64)

    def _bytes(self, tasks: Bits) -> bytes:
        return tasks.to_bytes(self._words * _WORD // 8, "little")


def _add_lowest(observations: Observations, region: Mask, budget: int, chosen: Mask) -> None:
    """Add tasks of the region that no task in it reads from, as far as the budget goes.

    A clean one of them clears all tasks above it.
    """
    budget -= observations.dag.bytes_of(chosen)
    reached = np.zeros(len(observations.dag), np.bool_)
    for task in np.flatnonzero(region):
        reached[list(observations.dag.predecessors[task])] = True
    for task in np.flatnonzero(region & ~reached & ~chosen):
        if observations.dag.sizes[task] <= budget:
            chosen[task] = True
            budget -= observations.dag.sizes[task]


@dataclass(frozen=True, kw_only=True)
class FirstDivergences:
    """What a search has found.

    Attributes:
        divergent: the first divergent tasks, in submission order, as far as they were dumped with all their arguments.
        vanished: tasks that diverged during the search, but not in the run that was to show it.
        seen: relative L2 error of the tasks that were looked at, by ordinal; 0 where nothing differs, infinite where
            there is no error to give.
        unvisited: tasks that may hold a further first divergence and were not looked at.
        not_shown: further first divergent tasks that the budget does not hold; others of their kernels were dumped.
    """

    divergent: tuple[DivergentTask, ...]
    vanished: tuple[KernelTask, ...]
    seen: Mapping[int, float]
    unvisited: tuple[KernelTask, ...]
    not_shown: tuple[KernelTask, ...] = ()

    @property
    def ordinals(self) -> frozenset[int]:
        """Return the ordinals of the first divergent tasks."""
        return frozenset(task.ordinal for task in (*(each.task for each in self.divergent), *self.not_shown))

    def only(self, ordinals: Set[int]) -> FirstDivergences:
        """The same findings, with only those first divergent tasks that are among `ordinals`."""
        return replace(
            self,
            divergent=tuple(each for each in self.divergent if each.task.ordinal in ordinals),
            vanished=tuple(task for task in self.vanished if task.ordinal in ordinals),
            not_shown=tuple(task for task in self.not_shown if task.ordinal in ordinals),
        )


@dataclass(frozen=True, kw_only=True)
class AttributedDivergences:
    """The first divergent tasks with their verdicts, and the tasks before them that differ by rounding alone."""

    first: FirstDivergences
    attributions: tuple[Attribution, ...]
    rounding: tuple[KernelTask, ...] = ()

    @property
    def pairs(self) -> tuple[tuple[DivergentTask, Attribution], ...]:
        """Each task with its verdict."""
        return tuple(zip(self.first.divergent, self.attributions, strict=True))

    @property
    def sign_of_zero_tasks(self) -> tuple[DivergentTask, ...]:
        """Return the tasks that are off because of the sign of zeros that they read."""
        return tuple(divergent for divergent, each in self.pairs if each.by_sign_of_zero)

    @property
    def is_rounding(self) -> bool:
        """Return whether all errors are within the case's own tolerance and within the floor (`Distances.floor`).

        The floor is the effect of one unit in the last place of the task's inputs.
        """
        return all(
            each.exceeds_floor is False for each in self.attributions if each.distances is not None
        ) and not any(each.exceeds_harness for each in self.first.divergent)

    @property
    def makes_an_error(self) -> bool:
        """Return whether one of the tasks makes an error of its own."""
        own = (TaskClass.INTRODUCED, TaskClass.INTERACTION)
        return any(each.task_class in own for each in self.attributions)

    @property
    def points_to_a_race(self) -> bool:
        """Return whether a task diverged only in some runs, or goes wrong in the run though it is right alone."""
        interaction = any(each.task_class is TaskClass.INTERACTION for each in self.attributions)
        return bool(self.first.vanished) or interaction


class ObservedTasks:
    """Notes what is seen of tasks. Node `i` of the graph is the task with the ordinal `compared[i]`."""

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
        """The relative L2 error of what dumped tasks left, by ordinal; 0 where nothing differs."""

    def note_errors(self, errors: Mapping[int, float | None]) -> None:
        """Note the relative L2 errors of what tasks left in a run; None where nothing differs."""
        self.errors |= {ordinal: error or 0.0 for ordinal, error in errors.items()}
        self.note({ordinal: error is not None for ordinal, error in errors.items()})

    def note(self, diverges: Mapping[int, bool]) -> None:
        """Note whether tasks diverge; those that are not compared are skipped."""
        self._observations.observe(
            {self._nodes[ordinal]: wrong for ordinal, wrong in diverges.items() if ordinal in self._nodes}
        )

    def next(self, budget: int) -> tuple[int, ...]:
        """The tasks to dump next, as `next_tasks` chooses them; none where all is settled.

        Raises:
            BudgetTooSmallError: nothing that would help fits the budget, in bytes.
        """
        return tuple(self.compared[node] for node in next_tasks(self._observations, budget))

    def task(self, ordinal: int) -> KernelTask:
        """The task with an ordinal."""
        return self._tasks.tasks[ordinal]

    def bytes_of(self, ordinals: Sequence[int]) -> int:
        """Bytes of the results of some tasks, in the build in which they are larger."""
        return sum(self._dag.sizes[self._nodes[ordinal]] for ordinal in ordinals)

    def directly_above(self, ordinals: Sequence[int]) -> tuple[int, ...]:
        """The tasks whose results the given tasks read, ascending."""
        nodes = {above for ordinal in ordinals for above in self._dag.predecessors[self._nodes[ordinal]]}
        return tuple(self.compared[node] for node in sorted(nodes))

    @property
    def divergent(self) -> frozenset[int]:
        """Return tasks that were seen to diverge."""
        return frozenset(self._ordinals(self._observations.divergent))

    @property
    def firsts(self) -> tuple[int, ...]:
        """Return divergent tasks whose predecessors are all clean."""
        return self._ordinals(self._observations.firsts())

    @property
    def downstream_divergent(self) -> tuple[KernelTask, ...]:
        """Return tasks that were seen to diverge and are not first ones, in submission order."""
        mask = self._observations.divergent & ~self._observations.firsts()
        return tuple(self._tasks.tasks[ordinal] for ordinal in self._ordinals(mask))

    @property
    def unvisited_tasks(self) -> tuple[KernelTask, ...]:
        """Return tasks that may hold a further first divergence and were not looked at."""
        return tuple(
            self._tasks.tasks[ordinal] for ordinal in self._ordinals(self._observations.unexplained_tasks())
        )

    def _ordinals(self, nodes: Mask) -> tuple[int, ...]:
        return tuple(self.compared[node] for node in np.flatnonzero(nodes))


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """What one run has dumped, and what its tasks should have left."""

    tasks: TaskList
    """The tasks of the failing build."""
    values: ExpectedValues
    dumped: DumpPair
    tolerance: Tolerance
    harness: Tolerance | None
    """The case's own tolerance; None where it is not known."""

    def error_of(self, ordinal: int) -> float | None:
        """The largest relative L2 error of what a task left; None where nothing differs.

        Raises:
            IncompleteDumpError: not all of it was dumped whole.
        """
        actual = results_of(self.dumped.actual, self.tasks.tasks[ordinal])
        expected = self.dumped.expected.results_of(ordinal)
        if not any(differs(actual[index], view, self.tolerance) for index, view in expected.items()):
            return None
        signed = self.tolerance.signed_zeros
        return max(distance(actual[index], view, signed_zeros=signed) for index, view in expected.items())

    def divergent(self, ordinal: int) -> DivergentTask | None:
        """A task with all its values, where what it left differs; None where nothing does.

        Raises:
            IncompleteDumpError: not all of its arguments were dumped whole.
        """
        task = self.tasks.tasks[ordinal]
        actual, expected = values_of(self.dumped.actual, task), self.dumped.expected.values_of(ordinal)

        def is_off_by(tolerance: Tolerance) -> bool:
            return any(
                differs(actual.after[index], view, tolerance) for index, view in expected.after.items()
            )

        if not is_off_by(self.tolerance):
            return None
        return DivergentTask(
            task=task,
            counterpart=self.values.counterpart_of(ordinal),
            dumped=self.dumped,
            exceeds_harness=self.harness is None or is_off_by(self.harness),
        )

    def inputs_differ(self, divergent: DivergentTask) -> bool:
        """Return whether what a task read differs from what it should have read, as far as that is known."""
        actual, expected = divergent.actual.before, divergent.expected_values.before
        return any(
            differs(actual[index], expected[index], self.tolerance)
            for index in actual.keys() & expected.keys()
        )


def plan_full_dumps(tasks: ObservedTasks, budget: int) -> tuple[tuple[int, ...], ...]:
    """The tasks of each run that shows first divergent tasks, by ordinal.

    The budget holds the tasks of a run, and the results of the tasks directly before them. A single task that is larger
    gets a run of its own. A further run is made only for a kernel of which no task was shown: more tasks of a shown
    kernel add little.
    """
    runs: list[list[int]] = []
    left = 0
    kernels: set[str] = set()
    for ordinal in _one_of_each_kernel_first(tasks):
        task = tasks.task(ordinal)
        needed = task.all_bytes + tasks.bytes_of(tasks.directly_above([ordinal]))
        if not runs or (needed > left and task.name not in kernels):
            runs.append([])
            left = budget
        if needed <= left or not runs[-1]:
            runs[-1].append(ordinal)
            kernels.add(task.name)
            left -= needed
    return tuple(tuple(sorted(run)) for run in runs)


def _one_of_each_kernel_first(tasks: ObservedTasks) -> list[int]:
    """The first divergent tasks: the first of each kernel, then the second of each, and so on."""
    counted: Counter[str] = Counter()
    places: list[tuple[int, int]] = []
    for ordinal in tasks.firsts:
        name = tasks.task(ordinal).name
        places.append((counted[name], ordinal))
        counted[name] += 1
    return [ordinal for _, ordinal in sorted(places)]


@dataclass(kw_only=True)
class DivergenceSearch:
    """Asks for dumps, and compares what tasks left with what they should have left.

    Attributes:
        budget: bytes of results that a run of either build may dump. One task alone may have more.
        attempts: how many times the search is tried while nothing diverges. It also counts tries in which what
            diverged does not diverge in the run that is to show it. A race spares some runs.
        schedule: the schedule of the stack file that the failing build runs under. None leaves that of its toolchain.
    """

    failing: RecordedBuild
    expected: ExpectedValues
    tolerance: Tolerance
    budget: int
    attempts: int
    harness: Tolerance | None = None
    """The case's own tolerance, beyond which an error is no rounding; None where it is not known."""
    schedule: str | None = None
    everything: DumpPair | None = None
    """The last run with all arguments of all tasks; None: there was none."""
    _tasks: ObservedTasks = field(init=False)
    _tried: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._tasks = ObservedTasks(self.failing.tasks, self.expected.compared, self.expected.dag)

    def first_divergences(self) -> Steps[FirstDivergences]:
        """Search to the end.

        Raises:
            UserError: a run fails, or does not dump a task whole.
        """
        in_one_run = self.expected.complete and self.expected.all_bytes <= self.budget
        if not in_one_run:
            self._start_from_outputs()
        while True:
            try:
                divergences = (
                    yield from self._search_full_dump() if in_one_run else self._search_tagged_dumps()
                )
            except IncompleteDumpError as error:
                yield from Tell(f"not all was dumped ({error}): tagging tasks instead")
                in_one_run, self.everything = False, None
                self._tasks.forget()
                self._start_from_outputs()
                continue
            if divergences.divergent or not (yield from self._may_try_again("nothing diverged")):
                return divergences
            self._tasks.forget()

    @property
    def downstream_divergent(self) -> tuple[KernelTask, ...]:
        """Return tasks of the failing build that were seen to diverge and are not first ones, in submission order."""
        return self._tasks.downstream_divergent

    def show(self, ordinals: Sequence[int]) -> Steps[tuple[DivergentTask, ...]]:
        """The tasks among `ordinals` that diverge in a run with all arguments of these tasks.

        Such a run is made where no earlier one has dumped all arguments of all tasks.

        Raises `UserError` where the tasks were not dumped whole.
        """
        try:
            dumped = self.everything
            run = (
                (yield from self._run(whole=set(ordinals)))
                if dumped is None
                else self._run_comparison(dumped)
            )
            return tuple(task for task in map(run.divergent, ordinals) if task is not None)
        except IncompleteDumpError as error:
            raise UserError(f"expected all arguments of a task dumped whole, found: {error}") from error

    def _start_from_outputs(self) -> None:
        """Start from the tasks whose results are in the outputs, where one of them is known to diverge."""
        known = self.expected.known_divergent(self.tolerance)
        if any(known.values()):
            self._tasks.note(known)

    def _may_try_again(self, why: str) -> Steps[bool]:
        self._tried += 1
        if self._tried < self.attempts:
            yield from Tell(f"{why} in attempt {self._tried} of {self.attempts}")
        return self._tried < self.attempts

    def _search_full_dump(self) -> Steps[FirstDivergences]:
        """The answer from one run of each build.

        At the first try, this is the last run with everything, where there was one. Raises `IncompleteDumpError` where
        a dump was not whole.
        """
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
        run = self._run_comparison(dumped)
        self._note(self._tasks.compared, run)
        return self._divergences({ordinal: run.divergent(ordinal) for ordinal in self._tasks.firsts})

    def _search_tagged_dumps(self) -> Steps[FirstDivergences]:
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
        """Start with the tasks that the source itself has marked for a dump: someone suspects them."""
        if not self.expected.complete:
            return
        marked = tuple(filter(self._is_marked, self._tasks.compared))
        if marked:
            yield from Tell(f"dumping the results of {plural(len(marked), 'task')} marked in the source")
            try:
                yield from self._look(marked)
            except IncompleteDumpError as error:
                yield from Tell(f"not all was dumped ({error})")

    def _is_marked(self, ordinal: int) -> bool:
        submits = find_submits(self.failing.orchestration, self.failing.tasks.tasks[ordinal])
        return any(submit.dumps for submit in submits)

    def _settle(self) -> Steps[None]:
        """Dump results of tasks, a few in each run, until it is known which of them diverge first.

        Where not all was dumped, the next runs dump less.
        """
        most = self.budget
        while ordinals := self._next(most):
            yield from Tell(
                f"dumping the results of {len(ordinals)} of {plural(len(self._tasks.compared), 'task')}"
            )
            try:
                yield from self._look(ordinals)
            except IncompleteDumpError as error:
                if len(ordinals) == 1:
                    raise UserError(f"expected a task's results dumped whole, found: {error}") from error
                most = min(most, self._tasks.bytes_of(ordinals)) // 2
                yield from Tell(f"not all was dumped ({error}): trying with {most} bytes")

    def _next(self, most: int) -> tuple[int, ...]:
        """The tasks to dump next, of `most` bytes, or one that is larger than the whole budget.

        Raises `UserError` where no task fits what the runtime dumps whole.
        """
        try:
            return self._tasks.next(most)
        except BudgetTooSmallError as error:
            if most < self.budget:
                raise UserError(
                    "expected the results of tasks dumped whole, found records dropped or cut short even in a run that "
                    f"was to dump {2 * most} bytes; enlarge the runtime's dump buffers"
                ) from error
            return self._tasks.next(error.needed)

    def _look(self, ordinals: Sequence[int]) -> Steps[None]:
        self._note(ordinals, (yield from self._run(results=set(ordinals))))

    def _show_firsts(self) -> Steps[FirstDivergences]:
        """Make further runs with all arguments of first tasks and what they read.

        One run is enough if the budget holds all of them. Otherwise there are as many as it takes to show one task of
        each kernel.
        """
        shown: dict[int, DivergentTask | None] = {}
        for together in plan_full_dumps(self._tasks, self.budget):
            try:
                shown |= yield from self._show_together(together)
            except IncompleteDumpError as error:
                raise UserError(f"expected all arguments of a task dumped whole, found: {error}") from error
        return self._divergences(shown)

    def _show_together(self, firsts: Sequence[int]) -> Steps[dict[int, DivergentTask | None]]:
        """One run, and a second one where what the tasks read differs. A task that does not diverge in it has None."""
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
        return self._run_comparison(dumped)

    def _run_comparison(self, dumped: DumpPair) -> RunComparison:
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

    def _divergences(self, shown: Mapping[int, DivergentTask | None]) -> FirstDivergences:
        """`shown` are first tasks that were dumped whole, by ordinal; None: the task did not diverge then."""
        tasks = self.failing.tasks.tasks
        return FirstDivergences(
            divergent=tuple(task for _, task in sorted(shown.items()) if task is not None),
            vanished=tuple(tasks[ordinal] for ordinal, task in sorted(shown.items()) if task is None),
            not_shown=tuple(tasks[ordinal] for ordinal in self._tasks.firsts if ordinal not in shown),
            seen=self._tasks.errors,
            unvisited=self._tasks.unvisited_tasks,
        )
