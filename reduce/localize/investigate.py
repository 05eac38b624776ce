"""The steps of a localization, whatever the failing build is compared with.

    LocalizationRequest -> RecordedBuild -> ExpectedValues -> Findings -> divergence.json

The investigation decides and runs nothing: it asks for experiments, which the executor makes. A reference is a good
build, the same build run in another way, recorded values, or golden outputs alone. Once opened, each says what the
failing build's tasks should leave, and no later step asks which kind it is. `failing_run` finds an order of the tasks
in which the build fails. `compare` finds the changes at fault, and then where the build first diverges, where that
comes from, and what lies around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...runner.build_output.directory import TensorFolder
from ...runner.build_output.files import BuildOutputError
from ...runner.case.case import freeze
from ...runner.errors import UserError
from ...runner.localization import DEFAULT_SCHEDULE, Divergence, OrderTrial
from ...runner.localization_job import TaskFootprint
from ...store.vocabulary import Verdict, percent
from ..graph.tasks import KernelTask
from ..reduce_cli import OutputFolder
from ..replay.replay import RecordedBuild, ReplayError, RunnableBuild
from .attribute import Attribution, Attributor, DivergentTask
from .causes import (
    Cause,
    FailureExplanation,
    LocalizationRequest,
    explain,
    explain_ending,
    output_judge,
    upstream_tasks,
)
from .changes import ChangedPart
from .document import EndingFindings, ExplainedFindings, Findings, SearchCost, StallFindings, what_changed
from .endings import confirm_ending, examine_stall, find_crashing_task
from .experiments import Executor, Record, Steps, Tell
from .failure import OutputJudge
from .first_divergence import AttributedDivergences, DivergenceSearch, FirstDivergences
from .footprints import find_undeclared_writers
from .orders import OrderTrials, passes_needed
from .reference import ExpectedValues


@dataclass(frozen=True, kw_only=True)
class FailingRun:
    """The run of a build that is investigated.

    Attributes:
        outputs: what the run put out; None where the harness does not report it.
        unordered: whether tasks do not wait for each other that do in the reference.
        schedule: the schedule of the stack file under which the build fails for that reason; None: it runs without one.
        tried: runs of a build that passes without a schedule: under each schedule, then without one where `unordered`.
    """

    build: RecordedBuild
    judge: OutputJudge
    outputs: TensorFolder | None
    orders: OrderTrials | None
    unordered: bool
    schedule: str | None
    tried: tuple[OrderTrial, ...] = ()
    in_turns: OrderTrial | None = None
    """Runs of a build that fails in this order, in turns with the good build where there is one."""

    @property
    def hides_a_failure(self) -> bool:
        """Return whether the build passes without a schedule, and fails under a schedule under which no reference
        does."""
        return self.schedule is not None and bool(self.tried)

    @property
    def may_be_of_both(self) -> bool:
        """Return whether the good build fails in this order too, or was not shown to pass."""
        return self.in_turns is not None and self.in_turns.reference_may_fail

    @property
    def required_passes(self) -> int:
        """Return how many times a build with some of the changes has to pass before it counts as one without the
        failure.

        Once is enough where the failing build always failed.
        """
        trial = self.in_turns
        return (
            1
            if trial is None or not trial.passed_runs
            else passes_needed(failed=trial.failed, runs=trial.runs)
        )


def failing_run(
    build: RecordedBuild, expected: ExpectedValues, judge: OutputJudge, *, asks_good: bool
) -> Steps[FailingRun]:
    """The run of the build to investigate, which is the recorded one if nothing speaks for another.

    A run under a schedule that lets the build fail is taken where tasks do not wait for each other. It is also taken
    where the recorded run passes, or the failure is flaky. Where no schedule lets it fail and tasks do not wait, a
    further run without a schedule that fails is taken. `asks_good` runs the good build too, if its recorded run is
    right, until it is known not to fail in that order.
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
            if wrong is not None and expected.good is not None and asks_good:
                in_turns = yield from orders.add_runs_in_turns(expected.good, again)
    elif orders is not None:
        good = expected.good if asks_good and _passes(expected.good, judge) else None
        in_turns = yield from _find_failing_order(orders, good, unordered=unordered)
        if in_turns is not None and in_turns.schedule != DEFAULT_SCHEDULE:
            schedule = in_turns.schedule
    provoked = orders.outputs_under(schedule) if orders is not None and schedule is not None else None
    return FailingRun(
        build=build,
        judge=judge,
        outputs=provoked or outputs,
        orders=orders,
        unordered=unordered,
        schedule=schedule,
        tried=tried,
        in_turns=in_turns,
    )


def _find_failing_order(
    orders: OrderTrials, good: RecordedBuild | None, *, unordered: bool
) -> Steps[OrderTrial | None]:
    """Run in an order in which the build fails, for a build that fails without a schedule.

    The order is that of a schedule where its tasks do not wait for each other. So it is where runs without a schedule
    do not separate the build from the good one.
    """
    provoked = (yield from orders.provoke(good)) if unordered else None
    if provoked is not None or good is None:
        return provoked
    trial = yield from orders.compare_without_schedule(good)
    if unordered or (trial.failed == trial.runs and trial.reference_fails is False):
        return trial
    return (yield from orders.provoke(good)) or trial


def _passes(good: RecordedBuild | None, judge: OutputJudge) -> bool:
    """Return whether the recorded run of a good build is right. On data that are not its own, it may never be."""
    return good is not None and good.outputs is not None and not judge.failure(good.outputs)


def _fails_alone(trial: OrderTrial, good: RecordedBuild | None) -> bool:
    """Return whether the build fails in an order in which the good build, if there is one, was shown to be right."""
    return trial.failed > 0 and (good is None or trial.reference_fails is False)


_MOST_CAUSES = 4
"""The tasks of at most this many causes are localized, each in two runs or more. The others are named by what changed.
"""
_MAX_KERNELS_BELOW = 3
"""Below the first divergent tasks, tasks of at most this many kernels are run alone. Each takes up to five runs."""


def investigate(
    request: LocalizationRequest,
) -> Steps[ExplainedFindings | StallFindings | EndingFindings]:
    """Record the failing build and open its reference; compare them, or examine why it does not get to its outputs.

    Raises:
        UserError: a build cannot be run, or nothing can be compared.
        BuildOutputError: a part of a build, a recorded tensor, or what a run recorded cannot be read.
    """
    build = RunnableBuild(path=request.failing, toolchain=request.toolchain)
    yield from Tell("recording the task graph of the failing build")
    try:
        failing = yield from Record(build=build, name="failing")
    except ReplayError as error:
        return (yield from _examine_ending(request, build, error))
    expected = yield from request.reference.open(failing)
    return (yield from compare(request, failing, expected))


def _examine_ending(
    request: LocalizationRequest, build: RunnableBuild, error: ReplayError
) -> Steps[StallFindings | EndingFindings]:
    """Find what makes a build stall, crash or fail to compile.

    Where there is a good build, that is the changes that make it end so too. It is also the tasks at which the build
    stalls or crashes. Raises the error where nothing is found, and a `NotConfirmedError` where the ending may have
    another cause.
    """
    control = request.reference.build
    good = None if control is None or control.path.resolve() == request.failing.resolve() else control
    causes: tuple[Cause, ...] = ()
    again = 0
    if error.verdict is Verdict.STALL:
        stall = yield from examine_stall(build, control)
        if good is not None and stall.believed:
            causes = yield from explain_ending(request, good, error.verdict)
        return StallFindings(request=request, stall=stall, causes=causes)
    if good is not None:
        again = yield from confirm_ending(build, good, error.verdict)
        causes = yield from explain_ending(request, good, error.verdict)
    crashing = (yield from find_crashing_task(build)) if error.verdict is Verdict.CRASH else None
    if not causes and crashing is None:
        raise error
    return EndingFindings(request=request, ended=error.found, causes=causes, crashing=crashing, again=again)


def compare(
    request: LocalizationRequest, failing: RecordedBuild, expected: ExpectedValues
) -> Steps[ExplainedFindings]:
    """Judge the outputs, find the changes that make them wrong, and localize what each of these does.

    Where no change is known to be at fault, localize whatever differs.

    Raises:
        UserError: a run fails, or does not dump a task whole.
        BuildOutputError: what a run recorded cannot be read.
    """
    judge = output_judge(request, failing, expected)
    run = yield from failing_run(failing, expected, judge, asks_good=True)
    explanation = yield from explain(request, run, expected)
    failing_runs = failing.replayer.runs
    if explanation is not None and explanation.causes:
        parts = yield from _localize_causes(request, expected, run, explanation)
    else:
        parts = ((yield from _localize(request, failing, expected, run)),)
    return ExplainedFindings(request=request, explanation=explanation, parts=parts, failing_runs=failing_runs)


def _localize_causes(
    request: LocalizationRequest,
    expected: ExpectedValues,
    run: FailingRun,
    explanation: FailureExplanation,
) -> Steps[tuple[Findings, ...]]:
    """Return what each of the causes does by itself."""
    failing, parts = run.build, list[Findings]()
    # Comparing tensors may take long, so what is known is printed before.
    for number, cause in enumerate(explanation.causes[:_MOST_CAUSES], start=1):
        told = what_changed(cause, (), identical=explanation.identical)
        yield from Tell(f"cause {number}, {percent(cause.effect)} of what is wrong: {told}")
    # What no task writes is wrong though no task is, so the search need not be repeated.
    attempts = 1 if explanation.unwritten else None
    for cause in explanation.causes[:_MOST_CAUSES]:
        subject, values, alone = cause.subject or failing, expected, run
        if subject is not failing:
            values = expected.with_failing_build(subject)
            alone = yield from failing_run(subject, values, run.judge, asks_good=False)
        if any(change.part is ChangedPart.DATA for change in cause.changes):
            parts.append(_findings_without_tensors(request, subject, values, alone))
            continue
        try:
            part = yield from _localize(request, subject, values, alone, attempts=attempts, caused=True)
        except (UserError, BuildOutputError) as error:
            # The cause is known, though its tasks cannot be compared: a direction may be wrong, so that they do not
            # write the same arguments.
            yield from Tell(f"tensors cannot be compared: {error}")
            part = _findings_without_tensors(request, subject, values, alone)
        parts.append(replace(part, beside=(yield from _undeclared_writers(request, subject, cause, part))))
    return tuple(parts)


def _undeclared_writers(
    request: LocalizationRequest, subject: RecordedBuild, cause: Cause, part: Findings
) -> Steps[tuple[TaskFootprint, ...]]:
    """The tasks of the kernels at fault that write outside of their tensors.

    They are wanted where these kernels do not make what diverges in their own tensors, or where nothing was seen to
    diverge.
    """
    changed = {change.kernel for change in cause.changes if change.part is ChangedPart.KERNEL}
    if not changed:
        return ()
    if part.attributed.first.divergent:
        told = (writer for attribution in part.attributed.attributions for writer in attribution.writers)
        own = {writer.position: writer for writer in told if not changed.isdisjoint(writer.kernel.split("+"))}
        return tuple(own.values())
    yield from Tell("no task was seen to diverge: looking for those that write outside of their tensors")
    return (yield from find_undeclared_writers(subject, changed, budget=request.budget))


def _localize(
    request: LocalizationRequest,
    failing: RecordedBuild,
    expected: ExpectedValues,
    run: FailingRun,
    *,
    attempts: int | None = None,
    caused: bool = False,
) -> Steps[Findings]:
    """Search for the first divergent tasks, attribute their errors, and look beyond them, below them and at the order.

    `attempts` is by default what was requested. `caused` says that a change is known to make what is looked for.
    """
    harness = request.case_tolerance or failing.tolerance
    search = DivergenceSearch(
        failing=failing,
        expected=expected,
        tolerance=request.tolerance,
        harness=harness,
        budget=request.budget,
        attempts=attempts or request.attempts,
        schedule=run.schedule,
    )
    attributor = expected.attributor(request.tolerance)
    first = yield from search.first_divergences()
    attributions = yield from attributor.attribute_all(first.divergent)
    attributed = AttributedDivergences(first=first, attributions=attributions)
    if expected.complete and harness is not None and attributions and attributed.is_rounding:
        beyond = replace(search, tolerance=harness)
        attributed = yield from _search_past_rounding(attributed, beyond, expected.attributor(harness))
    if attributed.sign_of_zero_tasks:
        search = replace(search, tolerance=replace(search.tolerance, signed_zeros=True))
        attributor = expected.attributor(search.tolerance)
        attributed = yield from _search_signs_of_zeros(attributed, search, attributor)
    spent = _search_cost(failing, expected)
    below = _choose_downstream(attributed.first, search) if expected.complete else ()
    downstream = (yield from _attribute_each(attributor, (yield from search.show(below)))) if below else ()
    # What a change does by itself, in the order in which the good build passes, needs no other order.
    looks_like_a_race = (
        run.unordered
        or run.hides_a_failure
        or run.may_be_of_both
        or (not caused and attributed.points_to_a_race)
        or bool(first.vanished)
    )
    orders = run.orders
    return Findings(
        request=request,
        failing=failing,
        expected=expected,
        tolerance=search.tolerance,
        schedule=run.schedule,
        attributed=attributed,
        spent=spent,
        downstream=downstream,
        race=(yield from orders.look_for_race()) if orders is not None and looks_like_a_race else None,
        tried=run.tried,
        in_turns=run.in_turns,
    )


def _findings_without_tensors(
    request: LocalizationRequest, failing: RecordedBuild, expected: ExpectedValues, run: FailingRun
) -> Findings:
    """Return what is known about a build before any task is compared."""
    nothing = FirstDivergences(divergent=(), vanished=(), seen={}, unvisited=())
    return Findings(
        request=request,
        failing=failing,
        expected=expected,
        tolerance=request.tolerance,
        schedule=run.schedule,
        attributed=AttributedDivergences(first=nothing, attributions=()),
        spent=_search_cost(failing, expected),
        downstream=(),
        race=None,
        tried=run.tried,
        in_turns=run.in_turns,
    )


def _search_cost(failing: RecordedBuild, expected: ExpectedValues) -> SearchCost:
    """Return what the runs of both builds took until now."""
    return SearchCost(
        runs=failing.replayer.runs,
        reference_runs=expected.runs,
        bytes_dumped=failing.replayer.dumped_bytes,
    )


def _search_past_rounding(
    attributed: AttributedDivergences, beyond: DivergenceSearch, attributor: Attributor
) -> Steps[AttributedDivergences]:
    """Search beyond first divergences that are only rounding; keep these where no task below them makes an error.

    Any difference counts in the search, for two builds that compute the same leave the same bits. But a compiler may
    order sums differently: then the first difference is rounding, and the fault lies below it. `beyond` searches for
    what is over the case's own tolerance, and `attributor` compares with that tolerance too.
    """
    yield from Tell("what diverges first is within rounding: looking for what exceeds the tolerance")
    first = yield from beyond.first_divergences()
    pairs = yield from _attribute_each(attributor, first.divergent)
    over_tolerance = AttributedDivergences(
        first=first,
        attributions=tuple(attribution for _, attribution in pairs),
        rounding=(*(each.task for each in attributed.first.divergent), *attributed.first.not_shown),
    )
    return over_tolerance if over_tolerance.makes_an_error else attributed


def _search_signs_of_zeros(
    attributed: AttributedDivergences, counting: DivergenceSearch, attributor: Attributor
) -> Steps[AttributedDivergences]:
    """The first divergent tasks where -0.0 in place of 0.0 counts as a difference, as it does for `counting`.

    The sign matters there: one of the `attributed` tasks is off by the sign of zeros that it reads, as 1/x is. Tasks
    that differ in the sign of zeros alone, and whose results do not reach such a task, are left out.
    """
    yield from Tell("a task is off by the sign of zeros that it reads: looking for the one that leaves them")
    reaching = upstream_tasks(
        counting.failing.tasks, (each.task.ordinal for each in attributed.sign_of_zero_tasks)
    )
    known = attributed.first.ordinals
    first = (yield from counting.first_divergences()).only(reaching | known)
    attributions = yield from attributor.attribute_all(first.divergent)
    return AttributedDivergences(first=first, attributions=attributions, rounding=attributed.rounding)


def _choose_downstream(first: FirstDivergences, search: DivergenceSearch) -> tuple[int, ...]:
    """A few divergent tasks below the first ones, by ordinal: the first of each kernel."""
    firsts = {name for each in first.divergent for name in each.task.kernels}
    chosen: dict[str, KernelTask] = {}
    left = search.budget
    for task in search.downstream_divergent:
        if firsts.isdisjoint(task.kernels) and task.name not in chosen and task.all_bytes <= left:
            chosen[task.name] = task
            left -= task.all_bytes
    return tuple(task.ordinal for task in chosen.values())[:_MAX_KERNELS_BELOW]


def _attribute_each(
    attributor: Attributor, divergent: Sequence[DivergentTask]
) -> Steps[tuple[tuple[DivergentTask, Attribution], ...]]:
    """Tasks that have divergent tasks before them, each with a verdict of its own."""
    pairs: list[tuple[DivergentTask, Attribution]] = []
    for each in divergent:
        pairs += [(each, (yield from attributor.attribute(each, inputs_diverge=True)))]
    return tuple(pairs)


def localize(request: LocalizationRequest, *, on_progress: Callable[[str], None]) -> Divergence:
    """Find the first divergent tensors and write `divergence.json` and `task_graph.html` to the output folder.

    The folder keeps logs and dumps below `work/` until the end, or after an error. Nothing else is written to.

    Raises:
        UserError: an input cannot be used, or a build cannot be run.
        BuildOutputError: a part of a build, a recorded tensor, or what a run recorded cannot be read.
    """
    output = OutputFolder(request.output)
    with output.open(apart_from=(request.failing, *request.reference.folders)) as work:
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
