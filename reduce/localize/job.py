"""Localization as a job: two build directories in, a result in a folder out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ...runner.case.golden import FrozenGolden, freeze
from ...runner.localization.divergence import Divergence
from ...runner.localization.orders import UnorderedTasks
from ...store.vocabulary import Verdict
from ..graph.alignment import Alignment, align
from ..graph.races import missing_edges
from ..output_folder import fresh_work, save
from ..replay.replay import ReplayError
from ..replay.side import Side
from ..replay.toolchain import Toolchain
from .answer import Spent, written_answer, written_stall
from .assess import Assessment, Assessor
from .beyond import Found, downstream, past_rounding
from .classes import TaskClass
from .localize import DivergentTask, Localizer
from .report import describe
from .report.page import page
from .request import LocalizeRequest
from .schedules import Schedules
from .stalls.stall import RUNS_OF_A_STALL, examine_stall


def localize(request: LocalizeRequest, *, on_progress: Callable[[str], None]) -> Divergence:
    """Find the first divergent tensors and write `divergence.json` and `task_graph.html` to the output folder,
    which keeps logs and dumps below `work/`. Nothing else is written to.

    Raises:
        UserError: an input cannot be used, or a build cannot be run.
        BuildOutputError: a part of a build, or what a run recorded, cannot be read.
    """
    work = fresh_work(request.output, (request.failing, request.reference))
    golden = freeze(request.golden_data or request.failing / "data", work / "golden")
    on_progress("recording the task graph of the failing build")
    try:
        failing = _side(request.failing, request.failing_toolchain, golden, work / "failing", request.timeout)
    except ReplayError as error:
        if error.verdict is not Verdict.STALL:
            raise
        return save(_stalled(request, golden, work, on_progress), None, request.output)
    on_progress("recording the task graph of the reference")
    reference = _side(
        request.reference, request.reference_toolchain, golden, work / "reference", request.timeout
    )
    alignment = align(failing.tasks, reference.tasks)
    missing = _missing_edges(failing, reference, alignment, request)
    schedules = _schedules(failing, reference, request, on_progress)
    suspected = any(edge.ordered_in_reference is not False for edge in missing)
    failing = replace(failing, schedule=schedules.provoke() if schedules is not None and suspected else None)
    localizer = Localizer(
        failing=failing,
        reference=reference,
        tolerance=request.tolerance,
        budget=request.budget,
        attempts=request.attempts,
        on_progress=on_progress,
    )
    found = localizer.localize()
    assessor = Assessor(
        failing=failing,
        reference=reference,
        alignment=alignment,
        tolerance=request.tolerance,
        folder=work / "alone",
    )
    first = Found(localization=found, assessments=_assess_all(found.divergences, assessor, on_progress))
    answer = past_rounding(first, localizer, assessor, request.harness or failing.tolerance)
    spent = Spent(
        runs=failing.replayer.runs,
        reference_runs=reference.replayer.runs,
        bytes_dumped=failing.replayer.dumped_bytes,
    )
    below = downstream(answer, localizer, assessor)
    race = None
    if schedules is not None and (suspected or _points_to_a_race(answer)):
        trials = schedules.try_all()
        race = describe.race(trials, schedules.confirm(trials))
    result = written_answer(request, answer, spent, below, failing, reference, missing, race)
    drawn = page(
        failing.tasks,
        firsts={one.failing.ordinal for one in answer.localization.divergences},
        seen=answer.localization.seen,
        compared=alignment.reference_of.keys(),
    )
    return save(result, drawn, request.output)


def _schedules(
    failing: Side, reference: Side, request: LocalizeRequest, on_progress: Callable[[str], None]
) -> Schedules | None:
    """None where a harness does not tell what a run put out."""
    if failing.outputs is None or reference.outputs is None:
        return None
    return Schedules(
        failing=failing, expected=reference.outputs, tolerance=request.tolerance, on_progress=on_progress
    )


def _missing_edges(
    failing: Side, reference: Side, alignment: Alignment, request: LocalizeRequest
) -> tuple[UnorderedTasks, ...]:
    unordered = {(edge.before.ordinal, edge.after.ordinal) for edge in missing_edges(reference.tasks)}
    in_reference = None if request.is_its_own_reference else unordered
    return tuple(
        describe.missing_edge(edge, alignment=alignment, in_reference=in_reference)
        for edge in missing_edges(failing.tasks)
    )


def _stalled(
    request: LocalizeRequest, golden: FrozenGolden, work: Path, on_progress: Callable[[str], None]
) -> Divergence:
    stall = examine_stall(
        request.failing,
        request.reference,
        data=golden.directory,
        toolchains=(request.failing_toolchain, request.reference_toolchain),
        folder=work / "stall",
        timeout=request.timeout,
        on_progress=on_progress,
    )
    return written_stall(request, stall, runs=1 + RUNS_OF_A_STALL)


def _side(build: Path, toolchain: Toolchain, golden: FrozenGolden, folder: Path, timeout: float) -> Side:
    return Side.open(
        build.resolve(), data=golden.directory, toolchain=toolchain, folder=folder, timeout=timeout
    )


def _assess_all(
    divergences: Sequence[DivergentTask], assessor: Assessor, on_progress: Callable[[str], None]
) -> tuple[Assessment, ...]:
    """One verdict a task. Of several tasks with the same kernels, the first is run alone, and speaks for the others."""
    by_kernels: dict[tuple[str, str], Assessment] = {}
    found: list[Assessment] = []
    for divergence in divergences:
        kernels = divergence.failing.name, divergence.reference.name
        if kernels in by_kernels:
            found.append(by_kernels[kernels])
            continue
        on_progress(f"running {divergence.failing.name} alone")
        one = assessor.assess(divergence)
        found.append(one)
        if one.task_class is not TaskClass.UNKNOWN:
            by_kernels[kernels] = replace(
                one,
                distances=None,
                reason=f"as task {divergence.failing.ordinal} of the same kernel: {one.reason}",
            )
    return tuple(found)


def _points_to_a_race(answer: Found) -> bool:
    return bool(answer.localization.vanished) or any(
        one.task_class is TaskClass.INTERACTION for one in answer.assessments
    )
