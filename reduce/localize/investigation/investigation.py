"""What is looked into of a failing build: where it first diverges, where that comes from, and what lies around it.

All of it is decided here, and nothing is run: what has to be run is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....runner.build_output.files.errors import BuildOutputError
from ....runner.errors import UserError
from ....runner.localization.footprints import TaskFootprint
from ....store.vocabulary import Verdict
from ....store.words import percent
from ...graph.task_list import KernelTask
from ...replay.recorded_build import RecordedBuild
from ...replay.replay import ReplayError
from ...replay.runnable_build import RunnableBuild
from ..attribution.attribution import Attribution, Attributor, DivergentTask
from ..causes.changes import ChangedPart
from ..causes.explain import explain, explain_ending, judge_of
from ..causes.explanation import Cause, FailureExplanation
from ..causes.suspicion import reached_from
from ..endings.confirmed import confirm_ending
from ..endings.crash import crashing_task
from ..endings.stall import examine_stall
from ..experiments.experiment import Record, Steps, Tell
from ..footprints.writers import writing_beside
from ..references.reference import ExpectedValues
from ..references.request import LocalizationRequest
from ..report.cause_document import what_changed
from ..report.ending import EndingFindings
from ..report.explained import ExplainedFindings
from ..report.findings import Findings, Spent, StallFindings
from ..search.first_divergences import AttributedDivergences, FirstDivergences
from ..search.search import DivergenceSearch
from .failing_run import FailingRun, failing_run

_MOST_CAUSES = 4
"""Causes whose tasks are localized, each in two runs or more; the others are named by what changed alone."""
_MOST_BELOW = 3
"""Kernels of tasks below the first divergent ones that are run alone: each takes up to five runs."""


def investigate(
    request: LocalizationRequest,
) -> Steps[ExplainedFindings | StallFindings | EndingFindings]:
    """Record the failing build and open its reference; compare them, or examine why it does not get to its outputs.

    Raises:
        UserError: a build cannot be run, nothing can be compared, or the budget holds no task.
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
    """Which changes make the good build stall, crash or fail to compile too, as far as there is one, and the tasks at
    which it stalls or crashes. Raises the error where none of that is found, and a `NotConfirmedError` where the ending
    may be nobody's."""
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
    crashing = (yield from crashing_task(build)) if error.verdict is Verdict.CRASH else None
    if not causes and crashing is None:
        raise error
    return EndingFindings(
        request=request, ended=_in_words(error), causes=causes, crashing=crashing, again=again
    )


def _in_words(error: ReplayError) -> str:
    """How a run ended, without the places of files that do not stay."""
    return str(error).rpartition(", found ")[2].partition("; see ")[0]


def compare(
    request: LocalizationRequest, failing: RecordedBuild, expected: ExpectedValues
) -> Steps[ExplainedFindings]:
    """Judge the outputs, find the changes that make them wrong, and localize what each of these does; what differs at
    all, where no change is known to be at fault.

    Raises:
        UserError: the budget holds no task, or a run fails.
        BuildOutputError: what a run recorded cannot be read.
    """
    judge = judge_of(request, failing, expected)
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
    """What each of the causes does by itself."""
    failing, parts = run.build, list[Findings]()
    # The tensors may take long: what is known is told before.
    for number, cause in enumerate(explanation.causes[:_MOST_CAUSES], start=1):
        told = what_changed(cause, (), identical=explanation.identical)
        yield from Tell(f"cause {number}, {percent(cause.effect)} of what is wrong: {told}")
    # What no task writes is wrong though no task is: it need not be looked for again and again.
    attempts = 1 if explanation.unwritten else None
    for cause in explanation.causes[:_MOST_CAUSES]:
        subject, values, alone = cause.subject or failing, expected, run
        if subject is not failing:
            values = expected.against(subject)
            alone = yield from failing_run(subject, values, run.judge, asks_good=False)
        if any(change.part is ChangedPart.DATA for change in cause.changes):
            parts.append(_without_tensors(request, subject, values, alone))
            continue
        try:
            part = yield from _localize(request, subject, values, alone, attempts=attempts, caused=True)
        except (UserError, BuildOutputError) as error:
            # The cause is known, though its tasks cannot be compared: a direction may be wrong, so that they do not
            # write the same arguments.
            yield from Tell(f"tensors cannot be compared: {error}")
            part = _without_tensors(request, subject, values, alone)
        parts.append(replace(part, beside=(yield from _writing_beside(request, subject, cause, part))))
    return tuple(parts)


def _writing_beside(
    request: LocalizationRequest, subject: RecordedBuild, cause: Cause, part: Findings
) -> Steps[tuple[TaskFootprint, ...]]:
    """The tasks of the kernels at fault that write outside of their tensors, where what diverges is not made by these
    kernels where they were to write, or nothing was seen to diverge."""
    changed = {change.kernel for change in cause.changes if change.part is ChangedPart.KERNEL}
    if not changed:
        return ()
    if part.attributed.first.divergent:
        told = (writer for attribution in part.attributed.attributions for writer in attribution.writers)
        own = {writer.position: writer for writer in told if not changed.isdisjoint(writer.kernel.split("+"))}
        return tuple(own.values())
    yield from Tell("no task was seen to diverge: looking for those that write outside of their tensors")
    return (yield from writing_beside(subject, changed, budget=request.budget))


def _localize(
    request: LocalizationRequest,
    failing: RecordedBuild,
    expected: ExpectedValues,
    run: FailingRun,
    *,
    attempts: int | None = None,
    caused: bool = False,
) -> Steps[Findings]:
    """Search for the first divergent tasks, attribute their errors, and look beyond, below and at the order. `attempts`
    are as many as were asked for by default; `caused` says that a change is known to make what is looked for."""
    harness = request.harness or failing.tolerance
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
        attributed = yield from _past_rounding(attributed, beyond, expected.attributor(harness))
    if attributed.by_sign_of_zero:
        search = replace(search, tolerance=replace(search.tolerance, signed_zeros=True))
        attributor = expected.attributor(search.tolerance)
        attributed = yield from _before_signs_of_zeros(attributed, search, attributor)
    spent = _spent(failing, expected)
    below = _chosen_below(attributed.first, search) if expected.complete else ()
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


def _without_tensors(
    request: LocalizationRequest, failing: RecordedBuild, expected: ExpectedValues, run: FailingRun
) -> Findings:
    """What is known of a build before any task is compared."""
    nothing = FirstDivergences(divergent=(), vanished=(), seen={}, unvisited=())
    return Findings(
        request=request,
        failing=failing,
        expected=expected,
        tolerance=request.tolerance,
        schedule=run.schedule,
        attributed=AttributedDivergences(first=nothing, attributions=()),
        spent=_spent(failing, expected),
        downstream=(),
        race=None,
        tried=run.tried,
        in_turns=run.in_turns,
    )


def _spent(failing: RecordedBuild, expected: ExpectedValues) -> Spent:
    """What the runs of both builds took until now."""
    return Spent(
        runs=failing.replayer.runs,
        reference_runs=expected.runs,
        bytes_dumped=failing.replayer.dumped_bytes,
    )


def _past_rounding(
    attributed: AttributedDivergences, beyond: DivergenceSearch, attributor: Attributor
) -> Steps[AttributedDivergences]:
    """What lies beyond first divergences that are only rounding; these, where no task below them makes an error.

    Any difference counts in the search, for two builds that compute the same leave the same bits. A compiler may order
    sums anew, though: then the first difference is rounding, and the fault lies below it. `beyond` searches for what is
    over the case's own tolerance, with which `attributor` compares too.
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


def _before_signs_of_zeros(
    attributed: AttributedDivergences, counting: DivergenceSearch, attributor: Attributor
) -> Steps[AttributedDivergences]:
    """The first divergent tasks where -0.0 in place of 0.0 counts as a difference, as `counting` has it.

    It matters there: a task was `attributed` that is off by the sign of zeros that it reads, as 1/x is. Tasks that
    differ in the sign of zeros alone, and whose results do not reach such a one, are left out.
    """
    yield from Tell("a task is off by the sign of zeros that it reads: looking for the one that leaves them")
    reaching = reached_from(
        counting.failing.tasks, (each.task.ordinal for each in attributed.by_sign_of_zero)
    )
    known = attributed.first.ordinals
    first = (yield from counting.first_divergences()).only(reaching | known)
    attributions = yield from attributor.attribute_all(first.divergent)
    return AttributedDivergences(first=first, attributions=attributions, rounding=attributed.rounding)


def _chosen_below(first: FirstDivergences, search: DivergenceSearch) -> tuple[int, ...]:
    """A few of the tasks below the first divergent ones that were seen to diverge: the first of each kernel, by
    ordinal."""
    firsts = {name for each in first.divergent for name in each.task.kernels}
    chosen: dict[str, KernelTask] = {}
    left = search.budget
    for task in search.below:
        if firsts.isdisjoint(task.kernels) and task.name not in chosen and task.all_bytes <= left:
            chosen[task.name] = task
            left -= task.all_bytes
    return tuple(task.ordinal for task in chosen.values())[:_MOST_BELOW]


def _attribute_each(
    attributor: Attributor, divergent: Sequence[DivergentTask]
) -> Steps[tuple[tuple[DivergentTask, Attribution], ...]]:
    """Tasks before which others diverge too, each with a verdict of its own."""
    pairs: list[tuple[DivergentTask, Attribution]] = []
    for each in divergent:
        pairs += [(each, (yield from attributor.attribute(each, inputs_diverge=True)))]
    return tuple(pairs)
