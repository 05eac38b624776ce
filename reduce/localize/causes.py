"""Finds the changes between the good build and the failing one that make it fail.

`explain` and `explain_ending` run the good build with some of the changes (`Interventions`). `failing_sets` chooses the
sets of changes to try, and finds the smallest sets that fail alone. `rank_suspects` says by the task graphs which
changes come first, and which only make sense together.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from ...runner.build_output.directory import GoldenData, TensorFolder
from ...runner.build_output.files import BuildOutputError
from ...runner.errors import UserError
from ...store.vocabulary import Verdict, plural
from ..graph.differences import uses_only_known_arguments
from ..graph.tasks import KernelTask, TaskList
from ..replay.replay import RecordedBuild, ReplayError, RunnableBuild
from .changes import BuildChanges, Change, ChangedPart, data_changes
from .experiments import MakeBuild, Record, RunInOrder, Steps, Tell
from .failure import OutputJudge, UnwrittenElements, WrongOutputs, find_unwritten, last_writers
from .reference import ExpectedValues, LocalizationRequest


@dataclass(frozen=True, kw_only=True)
class FailureExplanation:
    """The reasons for wrong outputs.

    `causes` are ranked by their effect. `cleared` are changes that are no part of a cause. `trials` are the runs that
    decided this. `identical` says that all sources are the same in both builds.
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
        """Return whether no output is wrong."""
        return not self.failure


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A smallest set of changes that makes the good build fail.

    Attributes:
        effect: the share of the failing build's wrong elements that these changes make wrong, 0 to 1.
        subject: the good build with these changes, or the failing build if there are no others. None if the build ends
            without outputs.
        shown: whether a run showed the cause. Otherwise no run separates these changes, and there are no others.
    """

    changes: tuple[Change, ...]
    effect: float
    subject: RecordedBuild | None
    shown: bool


def explain(
    request: LocalizationRequest, run: JudgedRun, expected: ExpectedValues
) -> Steps[FailureExplanation | None]:
    """Find the wrong outputs of a run, and the changes that make them wrong if there is a good build.

    Returns None if the harness does not report outputs.

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
    unexplained = FailureExplanation(
        judge=judge, failure=failure, unwritten=find_unwritten(failure, failing, good)
    )
    if good is None or request.reference.build is None:
        return unexplained
    if data := _data_at_fault(request, judge, failure, good):
        cause = Cause(changes=data, effect=1.0, subject=failing, shown=True)
        return replace(unexplained, causes=(cause,))
    if run.good_may_fail:
        return unexplained
    changes = _changes(request, request.reference.build)
    interventions = OutputInterventions(
        changes=changes,
        passes=run.required_passes,
        schedule=run.schedule,
        failing=failing,
        good=good,
        failure=failure,
        judge=judge,
    )
    sets = rank_suspects(changes.changes, failing.tasks, good.tasks, _upstream_of_failure(failure, failing))
    causes = yield from interventions.causes(sets)
    blamed = {change for cause in causes for change in cause.changes}
    return replace(
        unexplained,
        causes=causes,
        cleared=tuple(change for change in changes.changes if change not in blamed),
        trials=tuple(interventions.trials.values()),
        identical=not changes.source_changes,
    )


def explain_ending(
    request: LocalizationRequest, reference: RunnableBuild, verdict: Verdict
) -> Steps[tuple[Cause, ...]]:
    """Find the changes that make the good build end with `verdict`, as the failing build does.

    Raises:
        BuildOutputError: a source cannot be read.
    """
    changes = _changes(request, reference)
    interventions = EndingInterventions(changes=changes, verdict=verdict)
    return (yield from interventions.causes([frozenset({change}) for change in changes.changes]))


def _changes(request: LocalizationRequest, reference: RunnableBuild) -> BuildChanges:
    return BuildChanges.compare(RunnableBuild(path=request.failing, toolchain=request.toolchain), reference)


_SAME_FAILURE = 0.5
"""A build that shows more than this share of a failure fails in the same way."""


def _data_at_fault(
    request: LocalizationRequest, judge: OutputJudge, failure: WrongOutputs, good: RecordedBuild
) -> tuple[Change, ...]:
    """Return the frozen data that differ in the good build, if it fails in the same way on the failing build's data."""
    if request.golden_data is not None or good.outputs is None:
        return ()
    data = data_changes(request.failing / "data", good.build / "data")
    return data if data and failure.share_in(judge.failure(good.outputs)) > _SAME_FAILURE else ()


def output_judge(
    request: LocalizationRequest, failing: RecordedBuild, expected: ExpectedValues
) -> OutputJudge:
    """Return the judge of a run's outputs.

    A good build with other frozen data does not widen the judge's tolerance, because its errors come from these data.

    Raises:
        BuildOutputError: an expected output cannot be read.
    """
    good = expected.good
    has_other_data = (
        good is not None
        and request.golden_data is None
        and bool(data_changes(request.failing / "data", good.build / "data"))
    )
    tolerance = request.tolerance if request.tolerance.rtol or request.tolerance.atol else None
    return OutputJudge.create(
        GoldenData.open(failing.data).outputs,
        request.case_tolerance or tolerance,
        expected.outputs if expected.runs and not has_other_data else None,
        default=failing.tolerance,
    )


def _upstream_of_failure(failure: WrongOutputs, failing: RecordedBuild) -> set[int]:
    """Return the tasks whose results reach a wrong element. Empty if a writer of a wrong element is not known."""
    writers = last_writers(failing, {name: each.wrong for name, each in failure.outputs.items()})
    if writers.keys() != failure.outputs.keys() or any(each.unwritten.any() for each in writers.values()):
        return set()
    return upstream_tasks(failing.tasks, {ordinal for each in writers.values() for ordinal in each.ordinals})


def _describe_failure(failure: WrongOutputs) -> str:
    outputs = ", ".join(
        f"{output.name} ({output.wrong_count} of {plural(output.wrong.size, 'element')})"
        for output in failure.outputs.values()
    )
    return f"the case fails in {outputs}"


class JudgedRun(Protocol):
    """A run of the failing build with its outputs."""

    @property
    def build(self) -> RecordedBuild:
        """Return the failing build."""
        ...

    @property
    def judge(self) -> OutputJudge:
        """Return the judge of the outputs."""
        ...

    @property
    def outputs(self) -> TensorFolder | None:
        """Return the outputs of the run, or None if the harness does not report them."""
        ...

    @property
    def schedule(self) -> str | None:
        """Return the schedule of the run, or None for the schedule of the toolchain."""
        ...

    @property
    def good_may_fail(self) -> bool:
        """Return whether the good build fails in this order too, or was not shown to pass."""
        ...

    @property
    def required_passes(self) -> int:
        """Return how many passes show that a build does not have the failure."""
        ...


JointChanges = frozenset[Change]
"""Changes that only make sense together."""


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """One run of the good build with some of the changes. `failure` are its wrong outputs.

    `build` is None if the run ended without outputs. `ended` is then its verdict, or None if that is not known.
    """

    changes: frozenset[Change]
    build: RecordedBuild | None
    failure: WrongOutputs
    ended: Verdict | None = None

    @property
    def fails(self) -> bool:
        """Return whether some outputs are wrong."""
        return bool(self.failure)


@dataclass(kw_only=True)
class Interventions:
    """Asks for runs of the good build with some of the changes.

    `schedule` is that of the runs, or None for the schedule of the toolchain. `passes` is the number of passes that
    show a build without the failure, which may be flaky.
    """

    changes: BuildChanges
    schedule: str | None = None
    passes: int = 1
    trials: dict[frozenset[Change], Intervention] = field(
        default_factory=dict[frozenset[Change], Intervention]
    )

    def causes(self, suspected: Sequence[JointChanges]) -> Steps[tuple[Cause, ...]]:
        """Find the smallest sets of changes that make the failure, ranked by their effect.

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
        """Return the cause with these changes. `tested_separately` says that subsets of them were run too."""
        intervention = self.trials.get(changes)
        ordered = tuple(change for change in self.changes.changes if change in changes)
        if intervention is None:
            # These are all changes. The runs show that all are needed only if each run was conclusive.
            shown = len(ordered) == 1 or (
                tested_separately and all(map(self._is_conclusive, self.trials.values()))
            )
            return Cause(changes=ordered, effect=1.0, subject=self._failing_build, shown=shown)
        effect = self._effect(intervention)
        return Cause(changes=ordered, effect=effect, subject=intervention.build, shown=True)

    def _fails(self, chosen: frozenset[Change]) -> Steps[bool]:
        """Return whether the good build with these changes shows some of the failure."""
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
        """Return the share of the failure that an intervention shows, 0 to 1."""

    @abstractmethod
    def _failure_in(self, build: RecordedBuild) -> WrongOutputs:
        """Return the wrong outputs of a run. Empty if the outputs say nothing about the changes."""

    @abstractmethod
    def _is_conclusive(self, intervention: Intervention) -> bool:
        """Return whether a run without the failure shows that the changes do not make it."""


@dataclass(kw_only=True)
class OutputInterventions(Interventions):
    """Interventions for a build with wrong outputs.

    `failing` is the failing build. `good` is the build without the changes.
    """

    failing: RecordedBuild
    good: RecordedBuild
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


@dataclass(kw_only=True)
class EndingInterventions(Interventions):
    """Interventions for a build that crashes, stalls or does not compile. `verdict` says how it ends."""

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


def _union(sets: frozenset[JointChanges]) -> frozenset[Change]:
    return frozenset(change for joint in sets for change in joint)


def _describe_changes(chosen: frozenset[Change]) -> str:
    names = sorted(
        change.kernel if change.part is ChangedPart.KERNEL else change.part.value for change in chosen
    )
    return f"{plural(len(chosen), 'change')} ({', '.join(dict.fromkeys(names))})"


def upstream_tasks(tasks: TaskList, ordinals: Iterable[int]) -> set[int]:
    """Return the given tasks, and the tasks whose results reach them."""
    upstream: set[int] = set()
    todo = list(ordinals)
    while todo:
        ordinal = todo.pop()
        if ordinal not in upstream:
            upstream.add(ordinal)
            todo += tasks.predecessors[ordinal]
    return upstream


def rank_suspects(
    changes: Sequence[Change], failing: TaskList, reference: TaskList, reaching: Set[int]
) -> tuple[frozenset[Change], ...]:
    """Return all changes in sets that only make sense together, those first that may be related to the failure.

    `reaching` are the tasks of the failing build whose results reach a wrong output. Empty if these are not known.
    """
    relevant = {name for ordinal in reaching for name in failing.tasks[ordinal].kernels}
    called_differently = _kernels_called_differently(failing, reference)

    def needs_orchestration(change: Change) -> bool:
        return _is_whole_list(change) or (bool(change.kernel) and change.kernel in called_differently)

    candidates = [
        change
        for change in changes
        if change.part is ChangedPart.ORCHESTRATION or needs_orchestration(change)
    ]
    if any(map(needs_orchestration, candidates)):
        sets = [frozenset(candidates)]
    else:
        sets = [frozenset({change}) for change in candidates]
    sets += [frozenset({change}) for change in changes if change not in candidates]

    def rank(joint: frozenset[Change]) -> int:
        if any(change.part is ChangedPart.RUNTIME for change in joint):
            return 2
        kernels = {change.kernel for change in joint}
        is_unrelated = relevant and "" not in kernels and relevant.isdisjoint(kernels)
        return 1 if is_unrelated else 0

    return tuple(sorted(sets, key=rank))


def _is_whole_list(change: Change) -> bool:
    return change.part is ChangedPart.KERNEL_LIST and not change.kernel


def _kernels_called_differently(failing: TaskList, reference: TaskList) -> set[str]:
    """Return the kernels that the two builds call with other numbers or types of arguments.

    The source of such a kernel fits only one of the two orchestrations.
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


Element = TypeVar("Element")


SetSearch = Generator[frozenset[Element], bool, tuple[frozenset[Element], ...]]
"""A search yields sets of changes, is sent whether a build with only these fails, and returns the sets found."""


def failing_sets(changes: Sequence[Element]) -> SetSearch[Element]:
    """Find the smallest sets of changes that make the build fail alone, one after the other.

    `changes` fail together. The most suspected come first. After each set that is found, all remaining changes are
    tested. If they fail, they have another fault. The first one may mask it, so this takes a run even where the first
    set gives the same outputs as all changes do.
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
    """Return a smallest set of candidates that fails together with `background`. `added` is its newest part.

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
