"""The steps of a localization, for all kinds of references.

    LocalizationRequest -> RecordedBuild -> ExpectedValues -> Findings -> divergence.json

`localize` does it all. `investigate` decides what to do, and yields experiments that the executor makes. `failing_run`
finds an order of the tasks in which the build fails. `explain_outputs` finds the changes at fault, and the first
divergent tasks of a build with each of these changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...runner.build_output.directory import TensorFolder
from ...runner.build_output.files import BuildOutputError
from ...runner.case.case import freeze
from ...runner.errors import UserError
from ...runner.localization import DEFAULT_SCHEDULE, Divergence, OrderTrial
from ...runner.localization_job import OutputFolder, TaskFootprint
from ...store.vocabulary import Verdict, percent
from ..graph.tasks import KernelTask
from ..replay.replay import RecordedBuild, ReplayError, RunnableBuild
from .attribute import Attribution, Attributor
from .causes import (
    Cause,
    FailureExplanation,
    explain,
    explain_ending,
    output_judge,
    upstream_tasks,
)
from .changes import ChangedPart
from .document import EndingFindings, ExplainedFindings, Findings, SearchCost, StallFindings, describe_cause
from .endings import confirm_ending, examine_stall, find_crashing_task
from .experiments import DivergentTask, Executor, Record, Steps, Tell
from .failure import OutputJudge
from .first_divergence import AttributedDivergences, DivergenceSearch, FirstDivergences
from .footprints import find_undeclared_writers
from .orders import OrderTrials, passes_needed
from .reference import ExpectedValues, LocalizationRequest


def localize(request: LocalizationRequest, *, on_progress: Callable[[str], None]) -> Divergence:
    """Localize a failure, and write `divergence.json` and `task_graph.html` to the output folder.

    The folder has logs and dumps below `work/`, which stay after an error.

    Raises:
        UserError: an input cannot be used, or a build cannot be run.
        BuildOutputError: a part of a build, a recorded tensor, or the records of a run cannot be read.
    """
    output = OutputFolder(request.output)
    with output.make_work_folder(apart_from=(request.failing, *request.reference.folders)) as work:
        executor = Executor(
            data=freeze(request.data, work / "golden").directory,
            folder=work,
            timeout=request.timeout,
            on_progress=on_progress,
        )
        findings = executor.execute(investigate(request))
        document = findings.document()
        output.write(document, findings.page())
    return document


def investigate(
    request: LocalizationRequest,
) -> Steps[ExplainedFindings | StallFindings | EndingFindings]:
    """Record the failing build, and compare it with its reference. If it ends without outputs, find out why.

    Raises:
        UserError: a build cannot be run, or nothing can be compared.
        BuildOutputError: a part of a build, a recorded tensor, or the records of a run cannot be read.
    """
    build = RunnableBuild(path=request.failing, toolchain=request.toolchain)
    yield from Tell("recording the task graph of the failing build")
    try:
        failing = yield from Record(build=build, name="failing")
    except ReplayError as error:
        return (yield from _examine_ending(request, build, error))
    expected = yield from request.reference.open(failing)
    return (yield from explain_outputs(request, failing, expected))


def _examine_ending(
    request: LocalizationRequest, build: RunnableBuild, error: ReplayError
) -> Steps[StallFindings | EndingFindings]:
    """Find what makes a build stall, crash or fail to compile.

    These are the tasks at which it stalls or crashes, and the changes that make a good build end in the same way.

    Raises:
        ReplayError: the given error, if nothing is found.
        NotConfirmedError: the ending may have another cause.
    """
    control = request.reference.build
    good = None if control is None or control.path.resolve() == request.failing.resolve() else control
    causes: tuple[Cause, ...] = ()
    repeats = 0
    if error.verdict is Verdict.STALL:
        stall = yield from examine_stall(build, control)
        if good is not None and stall.believed:
            causes = yield from explain_ending(request, good, error.verdict)
        return StallFindings(request=request, stall=stall, causes=causes)
    if good is not None:
        repeats = yield from confirm_ending(build, good, error.verdict)
        causes = yield from explain_ending(request, good, error.verdict)
    crashing = (yield from find_crashing_task(build)) if error.verdict is Verdict.CRASH else None
    if not causes and crashing is None:
        raise error
    return EndingFindings(
        request=request, ended=error.found, causes=causes, crashing=crashing, repeats=repeats
    )


def explain_outputs(
    request: LocalizationRequest, failing: RecordedBuild, expected: ExpectedValues
) -> Steps[ExplainedFindings]:
    """Find the changes that make the outputs wrong, and localize the failure of a build with each of these changes.

    If no change is known to be at fault, the failing build itself is localized.

    Raises:
        UserError: a run fails, or its dump of a task is incomplete.
        BuildOutputError: the records of a run cannot be read.
    """
    judge = output_judge(request, failing, expected)
    run = yield from failing_run(failing, expected, judge, run_good=True)
    explanation = yield from explain(request, run, expected)
    failing_runs = failing.replayer.runs
    if explanation is not None and explanation.causes:
        parts = yield from _localize_causes(request, expected, run, explanation)
    else:
        parts = ((yield from _find_divergences(request, failing, expected, run)),)
    return ExplainedFindings(request=request, explanation=explanation, parts=parts, failing_runs=failing_runs)


@dataclass(frozen=True, kw_only=True)
class FailingRun:
    """The run of a build that is investigated.

    Attributes:
        outputs: the outputs of the run, or None if the harness does not report them.
        unordered: whether some tasks do not wait for each other, and are not known to be unordered in the reference.
        schedule: the schedule of the run, or None for the schedule of the toolchain.
        tried: runs of a build whose recorded run passes, under each schedule and then without one.
        in_turns: runs in the order of this run, in turns with the good build if there is one.
    """

    build: RecordedBuild
    judge: OutputJudge
    outputs: TensorFolder | None
    orders: OrderTrials | None
    unordered: bool
    schedule: str | None
    tried: tuple[OrderTrial, ...] = ()
    in_turns: OrderTrial | None = None

    @property
    def hides_a_failure(self) -> bool:
        """Return whether the build passes without a schedule, and fails under one in which the good build passes."""
        return self.schedule is not None and bool(self.tried)

    @property
    def good_may_fail(self) -> bool:
        """Return whether the good build fails in this order too, or was not shown to pass."""
        return self.in_turns is not None and self.in_turns.reference_may_fail

    @property
    def required_passes(self) -> int:
        """Return how many passes show that a build with some of the changes does not have the failure."""
        trial = self.in_turns
        if trial is None or not trial.passed_runs:
            return 1
        return passes_needed(failed=trial.failed, runs=trial.runs)


def failing_run(
    build: RecordedBuild, expected: ExpectedValues, judge: OutputJudge, *, run_good: bool
) -> Steps[FailingRun]:
    """Choose the run of the build to investigate. By default this is the recorded run.

    1. If the recorded run passes, a run under a schedule in which the build fails and the good build passes.
    2. If the recorded run passes and tasks are unordered, a repeated run without a schedule that fails.
    3. If the recorded run fails, and tasks are unordered or the failure is flaky, a run under such a schedule.

    `run_good` also runs the good build in the chosen order, to show that it passes. Its recorded run must be right.
    """
    unordered = any(
        expected.orders(edge.before.ordinal, edge.after.ordinal) is not False for edge in build.missing_edges
    )
    orders = OrderTrials.from_build(build, judge.expected, judge.tolerance)
    schedule: str | None = None
    outputs = build.outputs
    tried: tuple[OrderTrial, ...] = ()
    in_turns: OrderTrial | None = None
    if orders is not None and build.outputs is not None and not judge.failure(build.outputs):
        tried = yield from orders.try_schedules(expected.good)
        schedule = next((trial.schedule for trial in tried if _fails_alone(trial, expected.good)), None)
        if schedule is None and unordered:
            again, wrong = yield from orders.repeat()
            tried = (*tried, again)
            outputs = wrong or outputs
            if wrong is not None and expected.good is not None and run_good:
                in_turns = yield from orders.add_runs_in_turns(expected.good, again)
    elif orders is not None:
        good = expected.good if run_good and _passes(expected.good, judge) else None
        in_turns = yield from _find_failing_order(orders, good, unordered=unordered)
        if in_turns is not None and in_turns.schedule != DEFAULT_SCHEDULE:
            schedule = in_turns.schedule
    if orders is not None and schedule is not None:
        outputs = orders.outputs_under(schedule) or outputs
    return FailingRun(
        build=build,
        judge=judge,
        outputs=outputs,
        orders=orders,
        unordered=unordered,
        schedule=schedule,
        tried=tried,
        in_turns=in_turns,
    )


def _find_failing_order(
    orders: OrderTrials, good: RecordedBuild | None, *, unordered: bool
) -> Steps[OrderTrial | None]:
    """Find an order in which a build fails and the good build passes. The recorded run without a schedule failed.

    If tasks are unordered, the schedules are tried first. Otherwise they are tried only if runs without a schedule do
    not separate the two builds.
    """
    under_schedule = (yield from orders.find_failing_schedule(good)) if unordered else None
    if under_schedule is not None or good is None:
        return under_schedule
    trial = yield from orders.compare_without_schedule(good)
    if unordered or (trial.failed == trial.runs and trial.reference_fails is False):
        return trial
    return (yield from orders.find_failing_schedule(good)) or trial


def _passes(good: RecordedBuild | None, judge: OutputJudge) -> bool:
    """Return whether the recorded run of a good build is right. With another build's data it may always be wrong."""
    return good is not None and good.outputs is not None and not judge.failure(good.outputs)


def _fails_alone(trial: OrderTrial, good: RecordedBuild | None) -> bool:
    """Return whether the failing build fails in an order in which the good build, if any, was shown to pass."""
    return trial.failed > 0 and (good is None or trial.reference_fails is False)


_MAX_CAUSES = 4
"""At most this many causes are localized, because each takes two runs or more."""


def _localize_causes(
    request: LocalizationRequest,
    expected: ExpectedValues,
    run: FailingRun,
    explanation: FailureExplanation,
) -> Steps[tuple[Findings, ...]]:
    """Localize the failure of the build with each cause alone."""
    causes = explanation.causes[:_MAX_CAUSES]
    # The causes are printed first, because a comparison of tensors may take long.
    for number, cause in enumerate(causes, start=1):
        change = describe_cause(cause, (), identical=explanation.identical)
        yield from Tell(f"cause {number}, {percent(cause.effect)} of what is wrong: {change}")
    # Elements that no task writes are wrong although no task diverges, so that one attempt is enough.
    attempts = 1 if explanation.unwritten else None
    parts: list[Findings] = []
    for cause in causes:
        subject, values, subject_run = cause.subject or run.build, expected, run
        if subject is not run.build:
            values = expected.with_failing_build(subject)
            subject_run = yield from failing_run(subject, values, run.judge, run_good=False)
        if any(change.part is ChangedPart.DATA for change in cause.changes):
            parts.append(_findings_without_tensors(request, subject, values, subject_run))
            continue
        try:
            part = yield from _find_divergences(
                request, subject, values, subject_run, attempts=attempts, cause_known=True
            )
        except (UserError, BuildOutputError) as error:
            # The tasks may not be comparable, for example if a wrong direction lets them write other arguments.
            yield from Tell(f"tensors cannot be compared: {error}")
            part = _findings_without_tensors(request, subject, values, subject_run)
        stray_writers = yield from _stray_writers(request, subject, cause, part)
        parts.append(replace(part, stray_writers=stray_writers))
    return tuple(parts)


def _stray_writers(
    request: LocalizationRequest, subject: RecordedBuild, cause: Cause, part: Findings
) -> Steps[tuple[TaskFootprint, ...]]:
    """Return the tasks of the changed kernels that write outside of their tensors.

    If tasks diverge, these are among the writers of their attributions. If no task diverges, they are searched for.
    """
    changed = {change.kernel for change in cause.changes if change.part is ChangedPart.KERNEL}
    if not changed:
        return ()
    if part.attributed.first.divergent:
        writers = {
            writer.position: writer
            for attribution in part.attributed.attributions
            for writer in attribution.writers
            if not changed.isdisjoint(writer.kernel.split("+"))
        }
        return tuple(writers.values())
    yield from Tell("no task was seen to diverge: looking for those that write outside of their tensors")
    return (yield from find_undeclared_writers(subject, changed, budget=request.budget))


def _find_divergences(
    request: LocalizationRequest,
    failing: RecordedBuild,
    expected: ExpectedValues,
    run: FailingRun,
    *,
    attempts: int | None = None,
    cause_known: bool = False,
) -> Steps[Findings]:
    """Search for the first divergent tasks of a build, attribute their errors, and look for a race.

    `attempts` is the requested number by default. `cause_known` says that a known change makes the build fail.
    """
    case_tolerance = request.case_tolerance or failing.tolerance
    search = DivergenceSearch(
        failing=failing,
        expected=expected,
        tolerance=request.tolerance,
        case_tolerance=case_tolerance,
        budget=request.budget,
        attempts=attempts or request.attempts,
        schedule=run.schedule,
    )
    attributor = expected.attributor(request.tolerance)
    first = yield from search.first_divergences()
    attributions = yield from attributor.attribute_all(first.divergent)
    attributed = AttributedDivergences(first=first, attributions=attributions)
    if expected.complete and case_tolerance is not None and attributions and attributed.is_rounding:
        wider_search = replace(search, tolerance=case_tolerance)
        wider_attributor = expected.attributor(case_tolerance)
        past_rounding = yield from _search_past_rounding(attributed, wider_search, wider_attributor)
        if past_rounding is not None:
            # The tasks that carry the rounding on to the fault lie before it, and diverge only in the first search.
            attributed, search, attributor = past_rounding, wider_search, wider_attributor
    if attributed.sign_of_zero_tasks:
        search = replace(search, tolerance=replace(search.tolerance, signed_zeros=True))
        attributor = expected.attributor(search.tolerance)
        attributed = yield from _search_signs_of_zeros(attributed, search, attributor)
    cost = _search_cost(failing, expected)
    ordinals = _choose_downstream(attributed.first, search) if expected.complete else ()
    shown = (yield from search.show(ordinals)) if ordinals else ()
    downstream = yield from _attribute_each(attributor, shown)
    # A known change makes the build fail in the order in which the good build passes, so that no race is needed.
    may_be_race = (
        run.unordered
        or run.hides_a_failure
        or run.good_may_fail
        or (not cause_known and attributed.points_to_a_race)
        or bool(first.vanished)
    )
    return replace(
        _findings_without_tensors(request, failing, expected, run),
        tolerance=search.tolerance,
        attributed=attributed,
        cost=cost,
        downstream=downstream,
        race=(yield from run.orders.look_for_race()) if run.orders is not None and may_be_race else None,
    )


def _findings_without_tensors(
    request: LocalizationRequest, failing: RecordedBuild, expected: ExpectedValues, run: FailingRun
) -> Findings:
    """Return the findings about a build whose tasks were not compared."""
    nothing = FirstDivergences(divergent=(), vanished=(), errors={}, unvisited=())
    return Findings(
        request=request,
        failing=failing,
        expected=expected,
        tolerance=request.tolerance,
        schedule=run.schedule,
        attributed=AttributedDivergences(first=nothing, attributions=()),
        cost=_search_cost(failing, expected),
        downstream=(),
        race=None,
        tried=run.tried,
        in_turns=run.in_turns,
    )


def _search_cost(failing: RecordedBuild, expected: ExpectedValues) -> SearchCost:
    """Return the cost of all runs of both builds so far."""
    return SearchCost(
        runs=failing.replayer.runs,
        reference_runs=expected.runs,
        bytes_dumped=failing.replayer.dumped_bytes,
    )


def _search_past_rounding(
    attributed: AttributedDivergences, search: DivergenceSearch, attributor: Attributor
) -> Steps[AttributedDivergences | None]:
    """Search for the first divergences over the case's tolerance, after those that are only rounding.

    A compiler may sum in another order. Then the first difference is rounding, and the fault is downstream. Returns
    None if no task over the tolerance makes an error. `attributed` are the rounding ones. `search` and `attributor`
    have the case's tolerance.
    """
    yield from Tell("what diverges first is within rounding: looking for what exceeds the tolerance")
    first = yield from search.first_divergences()
    pairs = yield from _attribute_each(attributor, first.divergent)
    over_tolerance = AttributedDivergences(
        first=first,
        attributions=tuple(attribution for _, attribution in pairs),
        rounding=(*(each.task for each in attributed.first.divergent), *attributed.first.not_shown),
    )
    return over_tolerance if over_tolerance.makes_an_error else None


def _search_signs_of_zeros(
    attributed: AttributedDivergences, search: DivergenceSearch, attributor: Attributor
) -> Steps[AttributedDivergences]:
    """Search for the first divergences again, by a search for which signs of zeros count.

    A task such as 1/x depends on these signs. The result has the first divergences of `attributed`, and the tasks with
    other signs of zeros whose results reach such a task.
    """
    yield from Tell("a task is off by the sign of zeros that it reads: looking for the one that leaves them")
    reaching = upstream_tasks(
        search.failing.tasks, (each.task.ordinal for each in attributed.sign_of_zero_tasks)
    )
    first = (yield from search.first_divergences()).restrict_to(reaching | attributed.first.ordinals)
    attributions = yield from attributor.attribute_all(first.divergent)
    return AttributedDivergences(first=first, attributions=attributions, rounding=attributed.rounding)


_MAX_DOWNSTREAM_TASKS = 3
"""At most this many downstream tasks run alone, because each takes up to five runs."""


def _choose_downstream(first: FirstDivergences, search: DivergenceSearch) -> tuple[int, ...]:
    """Return the ordinals of a few other divergent tasks: the first of each kernel that no first task has."""
    first_kernels = {name for each in first.divergent for name in each.task.kernels}
    chosen: dict[str, KernelTask] = {}
    bytes_left = search.budget
    for task in search.downstream_divergent:
        is_new = first_kernels.isdisjoint(task.kernels) and task.name not in chosen
        if is_new and task.all_bytes <= bytes_left:
            chosen[task.name] = task
            bytes_left -= task.all_bytes
    return tuple(task.ordinal for task in chosen.values())[:_MAX_DOWNSTREAM_TASKS]


def _attribute_each(
    attributor: Attributor, divergent: Sequence[DivergentTask]
) -> Steps[tuple[tuple[DivergentTask, Attribution], ...]]:
    """Attribute tasks whose predecessors diverge too, each by its own runs."""
    pairs: list[tuple[DivergentTask, Attribution]] = []
    for each in divergent:
        pairs += [(each, (yield from attributor.attribute(each, inputs_diverge=True)))]
    return tuple(pairs)
