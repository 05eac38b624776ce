"""Which changes between the good build and the failing one make it fail.

`explain` judges the outputs of the failing run, and runs the good build with some of the changes (`Interventions`).
`suspected` orders the changes, and joins those that only make sense together, from the task graphs alone.
`failing_sets` is the search: it runs nothing, yields a set of changes, and is sent whether a build with only these
fails. It finds the smallest sets that fail by themselves, one after the other. A set is a cause if putting it into the
good build, or taking it out of the bad one, flips the failure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from ...runner.build_output.directory import GoldenData, TensorFolder
from ...runner.build_output.files import BuildOutputError
from ...runner.compare.statistics import Tolerance
from ...runner.errors import UserError
from ...store.vocabulary import Verdict, plural
from ..graph.differences import uses_only_known_arguments
from ..graph.tasks import KernelTask, TaskList
from ..replay.replay import RecordedBuild, ReplayError, RunnableBuild, same_outputs
from ..replay.toolchain import Toolchain
from .changes import BuildChanges, Change, ChangedPart, data_changes
from .experiments import DUMP_BUDGET, MakeBuild, Record, RunInOrder, Steps, Tell
from .failure import OutputJudge, UnwrittenElements, WrongOutputs, find_unwritten, last_writers
from .reference import ExpectedValues, Reference


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """One run of the good build with some of the changes; `failure` is what is wrong in its outputs.

    `build` is None where the run did not get to its outputs. `ended` then says how the run ended; None where that is
    not known.
    """

    changes: frozenset[Change]
    build: RecordedBuild | None
    failure: WrongOutputs
    ended: Verdict | None = None

    @property
    def fails(self) -> bool:
        """Return whether outputs were compared, and are wrong."""
        return bool(self.failure)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A smallest set of changes that makes the good build fail.

    `effect` is the share of the failing build's wrong elements that the changes make wrong. `subject` is the build with
    only these changes, which is the failing build itself where there are no others. None where it does not get to its
    outputs. `shown` says that a run showed the cause. Otherwise the changes are all that differs, and no run separates
    them.
    """

    changes: tuple[Change, ...]
    effect: float
    subject: RecordedBuild | None
    shown: bool


@dataclass(frozen=True, kw_only=True)
class FailureExplanation:
    """Says why a build fails, as far as outputs tell.

    `causes` are ranked by their effect, and `cleared` are changes that are no causes. `trials` are the builds
    that were run to find that. `identical` says that all sources are the same in both builds.
    """

    judge: OutputJudge
    failure: WrongOutputs
    causes: tuple[Cause, ...] = ()
    cleared: tuple[Change, ...] = ()
    trials: tuple[Intervention, ...] = ()
    unwritten: tuple[UnwrittenElements, ...] = ()
    identical: bool = False

    @property
    def passes(self) -> bool:
        """Return whether there is nothing to explain."""
        return not self.failure


Element = TypeVar("Element")

SetSearch = Generator[frozenset[Element], bool, tuple[frozenset[Element], ...]]
"""Such a search yields sets of changes, is sent whether they fail, and returns the sets that it found."""


def failing_sets(changes: Sequence[Element]) -> SetSearch[Element]:
    """Find the sets of changes that make the build fail by themselves and hold no smaller such set.

    `changes` begin with the most suspected, and fail together. After each set that is found, the remaining changes are
    tested again. If they fail, they contain a further fault. So each set was put alone into the good build, and taken
    out of the bad one.
    """
    found: list[frozenset[Element]] = []
    remaining: list[Element] = list(changes)
    while remaining:
        if found and not (yield frozenset(remaining)):
            break
        smallest: frozenset[Element] = frozenset((yield from _smallest_set([], [], remaining)))
        found.append(smallest)
        remaining = [change for change in remaining if change not in smallest]
    return tuple(found)


def _smallest_set(
    background: Sequence[Element], added: Sequence[Element], candidates: Sequence[Element]
) -> Generator[frozenset[Element], bool, list[Element]]:
    """Return the fewest candidates that fail together with `background`. `added` is its newest part.

    The algorithm is QuickXplain: U. Junker, "Preferred explanations and relaxations for over-constrained problems",
    AAAI 2004.
    """
    if added and (yield frozenset(background)):
        return []
    if len(candidates) == 1:
        return list(candidates)
    middle = (len(candidates) + 1) // 2
    first, second = candidates[:middle], candidates[middle:]
    from_second = yield from _smallest_set([*background, *first], first, second)
    from_first = yield from _smallest_set([*background, *from_second], from_second, first)
    return [*from_first, *from_second]


JointChanges = frozenset[Change]
"""These changes are made together or not at all."""


@dataclass(kw_only=True)
class Interventions:
    """Asks for runs of the good build with some of the changes.

    The runs are under a `schedule` of the stack file; None leaves the schedule that the toolchain has.
    """

    changes: BuildChanges
    schedule: str | None = None
    passes: int = 1
    """How many times a build has to pass before it counts as one without the failure, which may be flaky."""
    trials: dict[frozenset[Change], Intervention] = field(
        default_factory=dict[frozenset[Change], Intervention]
    )

    def causes(self, suspected: Sequence[JointChanges]) -> Steps[tuple[Cause, ...]]:
        """The smallest sets of changes that make the failure, ranked by their effect.

        `suspected` are all changes, the most suspected first.
        """
        search = failing_sets(suspected)
        try:
            tested = next(search)
            while True:
                tested = search.send((yield from self._fails(_union(tested))))
        except StopIteration as finished:
            sets: tuple[frozenset[JointChanges], ...] = finished.value
        causes = [self._cause(_union(found), tested_separately=len(found) > 1) for found in sets]
        return tuple(sorted(causes, key=lambda cause: -cause.effect))

    def _cause(self, changes: frozenset[Change], *, tested_separately: bool) -> Cause:
        """Return the cause. `tested_separately` says that these changes were also tested without the others."""
        intervention = self.trials.get(changes)
        ordered = tuple(change for change in self.changes.changes if change in changes)
        if intervention is None:
            # All changes together. That no fewer fail is shown only if every run of fewer changes ended conclusively.
            shown = len(ordered) == 1 or (
                tested_separately and all(map(self._is_conclusive, self.trials.values()))
            )
            return Cause(changes=ordered, effect=1.0, subject=self._failing_build, shown=shown)
        effect = self._effect(intervention)
        return Cause(changes=ordered, effect=effect, subject=intervention.build, shown=True)

    def _fails(self, chosen: frozenset[Change]) -> Steps[bool]:
        """Return whether the good build with these changes shows some of the failure."""
        if self._adds_nothing(chosen):
            return False
        if chosen not in self.trials:
            yield from Tell(f"running the good build with {_describe_changes(chosen)}")
            self.trials[chosen] = yield from self._run(chosen, f"with-{len(self.trials) + 1:02}")
        return self._effect(self.trials[chosen]) > 0

    def _run(self, chosen: frozenset[Change], name: str) -> Steps[Intervention]:
        try:
            build = yield from MakeBuild(
                make=lambda folder: self.changes.make(chosen, folder, self.schedule), name=f"{name}/made"
            )
            recorded = yield from Record(build=build, name=f"{name}/recorded")
            wrong = self._failure_in(recorded)
            for _ in range(1, self.passes):
                if wrong:
                    break
                (outputs,) = yield from RunInOrder(build=recorded, schedule=None, runs=1)
                recorded = replace(recorded, outputs=outputs)
                wrong = self._failure_in(recorded)
        except (UserError, BuildOutputError) as error:
            ended = error.verdict if isinstance(error, ReplayError) else None
            return Intervention(changes=chosen, build=None, failure=WrongOutputs({}), ended=ended)
        return Intervention(changes=chosen, build=recorded, failure=wrong)

    @property
    @abstractmethod
    def _failing_build(self) -> RecordedBuild | None:
        """Return the failing build."""

    @abstractmethod
    def _effect(self, intervention: Intervention) -> float:
        """The share of the failure that an intervention shows, 0 to 1."""

    @abstractmethod
    def _failure_in(self, build: RecordedBuild) -> WrongOutputs:
        """Return what is wrong in the outputs of a run; nothing where they are not known, or say nothing about the
        changes."""

    @abstractmethod
    def _is_conclusive(self, intervention: Intervention) -> bool:
        """Return whether a run without the failure shows that the changes do not make it."""

    @abstractmethod
    def _adds_nothing(self, chosen: frozenset[Change]) -> bool:
        """Return whether it is known without a run that these changes have no effect when added to the others."""


@dataclass(kw_only=True)
class OutputInterventions(Interventions):
    """Interventions on a failure of the outputs.

    The `failing` build has put out `outputs`, and `good` is the build without the changes.
    """

    failing: RecordedBuild
    good: RecordedBuild
    outputs: TensorFolder
    failure: WrongOutputs
    judge: OutputJudge

    @property
    def _failing_build(self) -> RecordedBuild:
        return self.failing

    def _effect(self, intervention: Intervention) -> float:
        return self.failure.share_in(intervention.failure)

    def _failure_in(self, build: RecordedBuild) -> WrongOutputs:
        if build.outputs is None or not uses_only_known_arguments(
            build.tasks, self.failing.tasks, self.good.tasks
        ):
            return WrongOutputs({})
        return self.judge.failure(build.outputs)

    def _is_conclusive(self, intervention: Intervention) -> bool:
        build = intervention.build
        return build is not None and uses_only_known_arguments(
            build.tasks, self.failing.tasks, self.good.tasks
        )

    def _adds_nothing(self, chosen: frozenset[Change]) -> bool:
        # The other changes alone gave exactly the outputs of the failing build.
        others = self.trials.get(frozenset(self.changes.changes) - chosen)
        return (
            others is not None
            and others.build is not None
            and same_outputs(others.build.outputs, self.outputs)
        )


@dataclass(kw_only=True)
class EndingInterventions(Interventions):
    """Interventions on a build that crashes, stalls, or does not compile: it ends with `verdict`."""

    verdict: Verdict

    @property
    def _failing_build(self) -> None:
        return None

    def _effect(self, intervention: Intervention) -> float:
        return float(intervention.ended is self.verdict)

    def _failure_in(self, build: RecordedBuild) -> WrongOutputs:
        return WrongOutputs({})

    def _is_conclusive(self, intervention: Intervention) -> bool:
        return intervention.build is not None or intervention.ended is not None

    def _adds_nothing(self, chosen: frozenset[Change]) -> bool:
        return False


def _union(sets: frozenset[JointChanges]) -> frozenset[Change]:
    return frozenset(change for tied in sets for change in tied)


def _describe_changes(chosen: frozenset[Change]) -> str:
    names = sorted(
        change.kernel if change.part is ChangedPart.KERNEL else change.part.value for change in chosen
    )
    return f"{plural(len(chosen), 'change')} ({', '.join(dict.fromkeys(names))})"


def upstream_tasks(tasks: TaskList, ordinals: Iterable[int]) -> set[int]:
    """The given tasks, and the tasks whose results reach them."""
    reached: set[int] = set()
    left = list(ordinals)
    while left:
        ordinal = left.pop()
        if ordinal not in reached:
            reached.add(ordinal)
            left += tasks.predecessors[ordinal]
    return reached


def rank_suspects(
    changes: Sequence[Change], failing: TaskList, reference: TaskList, reaching: Set[int]
) -> tuple[frozenset[Change], ...]:
    """Return all changes, those first that may be related to the failure. Changes to be made together form a set.

    `reaching` are the tasks of the failing build whose results reach a wrong output; empty where that is not known.
    """
    relevant = {name for ordinal in reaching for name in failing.tasks[ordinal].kernels}
    others = _kernels_called_differently(failing, reference)
    tied = [
        change
        for change in changes
        if change.part is ChangedPart.ORCHESTRATION or _is_whole_list(change) or change.kernel in others
    ]
    together = any(_is_whole_list(change) or (change.kernel and change.kernel in others) for change in tied)
    sets = [frozenset(tied)] if together and tied else [frozenset({change}) for change in tied]
    sets += [frozenset({change}) for change in changes if change not in tied]

    def rank(each: frozenset[Change]) -> int:
        if any(change.part is ChangedPart.RUNTIME for change in each):
            return 2
        kernels = {change.kernel for change in each}
        return 1 if relevant and "" not in kernels and relevant.isdisjoint(kernels) else 0

    return tuple(sorted(sets, key=rank))


def _is_whole_list(change: Change) -> bool:
    return change.part is ChangedPart.KERNEL_LIST and not change.kernel


def _kernels_called_differently(failing: TaskList, reference: TaskList) -> set[str]:
    """Kernels that the two builds call with other numbers or types of arguments.

    Their sources fit only one of the two orchestrations.
    """
    failing_calls, reference_calls = _calls(failing), _calls(reference)
    return {
        name
        for name in failing_calls.keys() & reference_calls.keys()
        if failing_calls[name].isdisjoint(reference_calls[name])
    }


def _calls(tasks: TaskList) -> dict[str, set[tuple[object, ...]]]:
    calls: dict[str, set[tuple[object, ...]]] = {}
    for task in tasks.tasks:
        for name in task.kernels:
            calls.setdefault(name, set()).add(_call(task))
    return calls


def _call(task: KernelTask) -> tuple[object, ...]:
    return tuple(
        (argument.region.dtype, len(argument.region.shape)) if argument.region is not None else None
        for argument in task.task.arguments
    )


@dataclass(frozen=True, kw_only=True)
class LocalizationRequest:
    """Which build fails, and what it is compared with.

    Attributes:
        golden_data: the frozen inputs and outputs; by default those saved in the failing build.
        tolerance: what values are compared with.
        case_tolerance: the case's own tolerance, if two builds are compared. A first difference within it may be
            rounding. None means the harness's default.
        budget: bytes that a run may dump.
        attempts: how many times the search is tried while nothing diverges.
        timeout: seconds that a run may take.
        by_hand: whether people wrote the sources, and no compiler.
    """

    failing: Path
    toolchain: Toolchain
    reference: Reference
    golden_data: Path | None
    tolerance: Tolerance
    case_tolerance: Tolerance | None = None
    timeout: float
    output: Path
    budget: int = DUMP_BUDGET
    attempts: int = 8
    by_hand: bool = False

    @property
    def data(self) -> Path:
        """Return the folder of the data to run on."""
        return self.golden_data or self.failing / "data"


_SAME_FAILURE = 0.5
"""A build that shows more than this share of a failure fails in the same way."""


class JudgedRun(Protocol):
    """A run of the failing build with its outputs."""

    @property
    def build(self) -> RecordedBuild:
        """Return the build that was run."""
        ...

    @property
    def judge(self) -> OutputJudge:
        """Return the judge of which outputs are wrong."""
        ...

    @property
    def outputs(self) -> TensorFolder | None:
        """Return what the run put out; None where the harness does not report outputs."""
        ...

    @property
    def schedule(self) -> str | None:
        """Return the schedule of the stack file that the build ran under."""
        ...

    @property
    def may_be_of_both(self) -> bool:
        """Return whether the good build fails in this order too, or was not shown to pass."""
        ...

    @property
    def required_passes(self) -> int:
        """Return how many times a build has to pass before it counts as one without the failure."""
        ...


def explain(
    request: LocalizationRequest, run: JudgedRun, expected: ExpectedValues
) -> Steps[FailureExplanation | None]:
    """Judge the outputs, and find the changes that make the failure where a good build is there to compare with.

    None where the harness does not report what a run puts out.

    Raises:
        BuildOutputError: a source, or an expected output, cannot be read.
    """
    if run.outputs is None:
        return None
    failing, judge = run.build, run.judge
    failure = judge.failure(run.outputs)
    if not failure:
        return FailureExplanation(judge=judge, failure=failure)
    yield from Tell(_describe_failure(failure))
    good = expected.good
    uncovered = find_unwritten(failure, failing, good)
    if good is None or request.reference.build is None:
        return FailureExplanation(judge=judge, failure=failure, unwritten=uncovered)
    if data := _data_at_fault(request, judge, failure, good):
        cause = Cause(changes=data, effect=1.0, subject=failing, shown=True)
        return FailureExplanation(judge=judge, failure=failure, causes=(cause,), unwritten=uncovered)
    if run.may_be_of_both:
        return FailureExplanation(judge=judge, failure=failure, unwritten=uncovered)
    changes = _changes(request, request.reference.build)
    interventions = OutputInterventions(
        changes=changes,
        passes=run.required_passes,
        schedule=run.schedule,
        failing=failing,
        good=good,
        outputs=run.outputs,
        failure=failure,
        judge=judge,
    )
    sets = rank_suspects(changes.changes, failing.tasks, good.tasks, _upstream_of_failure(failure, failing))
    causes = yield from interventions.causes(sets)
    blamed = {change for cause in causes for change in cause.changes}
    return FailureExplanation(
        judge=judge,
        failure=failure,
        causes=causes,
        cleared=tuple(change for change in changes.changes if change not in blamed),
        trials=tuple(interventions.trials.values()),
        unwritten=uncovered,
        identical=not changes.source_changes,
    )


def explain_ending(
    request: LocalizationRequest, reference: RunnableBuild, verdict: Verdict
) -> Steps[tuple[Cause, ...]]:
    """The changes that make the good build end as the failing one does, with `verdict`, before it gets to its outputs.

    Raises `BuildOutputError` where a source cannot be read.
    """
    changes = _changes(request, reference)
    interventions = EndingInterventions(changes=changes, verdict=verdict)
    return (yield from interventions.causes([frozenset({change}) for change in changes.changes]))


def _changes(request: LocalizationRequest, reference: RunnableBuild) -> BuildChanges:
    return BuildChanges.compare(RunnableBuild(path=request.failing, toolchain=request.toolchain), reference)


def _data_at_fault(
    request: LocalizationRequest, judge: OutputJudge, failure: WrongOutputs, good: RecordedBuild
) -> tuple[Change, ...]:
    """Frozen data that differ in the good build, if that build shows the same failure on the failing build's data."""
    if request.golden_data is not None or good.outputs is None:
        return ()
    data = data_changes(request.failing / "data", good.build / "data")
    return data if data and failure.share_in(judge.failure(good.outputs)) > _SAME_FAILURE else ()


def output_judge(
    request: LocalizationRequest, failing: RecordedBuild, expected: ExpectedValues
) -> OutputJudge:
    """The judge of which outputs of a run are wrong. Raises `BuildOutputError` where an expected output cannot be read.

    The tolerance is not fitted to a good build with other frozen data: its errors then come from those data.
    """
    good = expected.good
    other_data = (
        good is not None
        and request.golden_data is None
        and bool(data_changes(request.failing / "data", good.build / "data"))
    )
    compared = request.tolerance if request.tolerance.rtol or request.tolerance.atol else None
    return OutputJudge.create(
        GoldenData.open(failing.data).outputs,
        request.case_tolerance or compared,
        expected.outputs if expected.runs and not other_data else None,
        default=failing.tolerance,
    )


def _upstream_of_failure(failure: WrongOutputs, failing: RecordedBuild) -> set[int]:
    """The tasks whose results reach a wrong element; none where not all writers are known."""
    writers = last_writers(failing, {name: each.wrong for name, each in failure.outputs.items()})
    if writers.keys() != failure.outputs.keys() or any(each.unwritten.any() for each in writers.values()):
        return set()
    return upstream_tasks(failing.tasks, {ordinal for each in writers.values() for ordinal in each.ordinals})


def _describe_failure(failure: WrongOutputs) -> str:
    outputs = ", ".join(
        f"{output.name} ({output.elements} of {plural(output.wrong.size, 'element')})"
        for output in failure.outputs.values()
    )
    return f"the case fails in {outputs}"
