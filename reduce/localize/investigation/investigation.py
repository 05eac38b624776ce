"""What is looked into of a failing build: where it first diverges, where that comes from, and what lies around it.

All of it is decided here, and nothing is run: what has to be run is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....store.vocabulary import Verdict
from ...graph.task_list import KernelTask
from ...replay.recorded_build import RecordedBuild
from ...replay.replay import ReplayError
from ...replay.runnable_build import RunnableBuild
from ..attribution.attribution import Attribution, Attributor, DivergentTask
from ..experiments.experiment import Record, Steps, Tell
from ..references.reference import ExpectedValues
from ..references.request import LocalizationRequest
from ..report.findings import Findings, Spent, StallFindings
from ..search.first_divergences import AttributedDivergences, FirstDivergences
from ..search.search import DivergenceSearch
from ..stalls.stall import examine_stall
from .orders import OrderTrials

_MOST_BELOW = 3
"""Kernels of tasks below the first divergent ones that are run alone: each takes up to five runs."""


def investigate(request: LocalizationRequest) -> Steps[Findings | StallFindings]:
    """Record the failing build and open its reference; compare them, or examine why it stalls.

    Raises:
        UserError: a build cannot be run, nothing can be compared, or the budget holds no task.
        BuildOutputError: a part of a build, a recorded tensor, or what a run recorded cannot be read.
    """
    build = RunnableBuild(path=request.failing, toolchain=request.toolchain)
    yield from Tell("recording the task graph of the failing build")
    try:
        failing = yield from Record(build=build, name="failing")
    except ReplayError as error:
        control = request.reference.build
        if error.verdict is not Verdict.STALL or control is None:
            raise
        return StallFindings(request=request, stall=(yield from examine_stall(build, control)))
    expected = yield from request.reference.open(failing)
    return (yield from compare(request, failing, expected))


def compare(
    request: LocalizationRequest, failing: RecordedBuild, expected: ExpectedValues
) -> Steps[Findings]:
    """Search for the first divergent tasks, attribute their errors, and look beyond, below and at the order.

    Raises:
        UserError: the budget holds no task, or a run fails.
        BuildOutputError: what a run recorded cannot be read.
    """
    suspected = any(
        expected.orders(edge.before.ordinal, edge.after.ordinal) is not False
        for edge in failing.missing_edges
    )
    orders = OrderTrials.of(failing, expected.outputs, request.tolerance)
    schedule = (yield from orders.provoke()) if orders is not None and suspected else None
    harness = request.harness or failing.tolerance
    search = DivergenceSearch(
        failing=failing,
        expected=expected,
        tolerance=request.tolerance,
        harness=harness,
        budget=request.budget,
        attempts=request.attempts,
        schedule=schedule,
    )
    attributor = expected.attributor(request.tolerance)
    first = yield from search.first_divergences()
    attributions = yield from attributor.attribute_all(first.divergent)
    attributed = AttributedDivergences(first=first, attributions=attributions)
    if expected.complete and harness is not None and attributions and attributed.is_rounding:
        beyond = replace(search, tolerance=harness)
        attributed = yield from _past_rounding(attributed, beyond, expected.attributor(harness))
    spent = Spent(
        runs=failing.replayer.runs,
        reference_runs=expected.runs,
        bytes_dumped=failing.replayer.dumped_bytes,
    )
    below = _chosen_below(attributed.first, search) if expected.complete else ()
    downstream = (yield from _attribute_each(attributor, (yield from search.show(below)))) if below else ()
    looks_like_a_race = suspected or attributed.points_to_a_race
    return Findings(
        request=request,
        failing=failing,
        expected=expected,
        schedule=schedule,
        attributed=attributed,
        spent=spent,
        downstream=downstream,
        race=(yield from orders.look_for_race()) if orders is not None and looks_like_a_race else None,
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
        rounding=tuple(each.task for each in attributed.first.divergent),
    )
    return over_tolerance if over_tolerance.makes_an_error else attributed


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
