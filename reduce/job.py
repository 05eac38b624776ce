"""Localization as a job: two build directories in, a result in a folder out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ..runner.build_output.build_directory import BuildDirectory
from ..runner.errors import UsageError
from ..runner.golden import FrozenGolden, freeze
from ..runner.tensors.statistics import Tolerance
from ..store.vocabulary import Verdict
from . import describe
from . import divergence as written
from .assess import Assessment, Assessor
from .beyond import Found, downstream, past_rounding
from .classes import TaskClass
from .generated import compare_generated
from .localize import Divergence, Localization, Localizer
from .page import page
from .races import missing_edges
from .replay import ReplayError
from .schedules import Schedules
from .side import Side
from .stall import RUNS_OF_A_STALL, examine_stall
from .toolchain import Toolchain

RESULT = "divergence.json"
PAGE = "task_graph.html"
_WORK = "work"


@dataclass(frozen=True, kw_only=True)
class LocalizeRequest:
    """What to compare.

    Each build is run by its own toolchain: where the runtime is at fault, the reference needs the runtime of its
    commit. `golden_data` are the frozen inputs and outputs for both, by default those saved in the failing build.
    Where `reference` is the failing build itself, it is run by another toolchain: on another target, or, with
    `schedule` (a name in the stack file), in another order. `budget` is in bytes a run, `timeout` in seconds a run.
    """

    failing: Path
    reference: Path
    failing_toolchain: Toolchain
    reference_toolchain: Toolchain
    schedule: str | None
    golden_data: Path | None
    tolerance: Tolerance
    budget: int
    attempts: int
    timeout: float
    output: Path

    @property
    def is_its_own_reference(self) -> bool:
        """Whether one build is compared with itself, run otherwise."""
        return self.failing.resolve() == self.reference.resolve()


def localize(request: LocalizeRequest, *, on_progress: Callable[[str], None]) -> written.Divergence:
    """Find the first divergent tensors and write `divergence.json` and `task_graph.html` to the output folder,
    which keeps logs and dumps below `work/`. Nothing else is written to.

    Raises:
        UserError: an input cannot be used, or a build cannot be run.
        BuildOutputError: a part of a build, or what a run recorded, cannot be read.
    """
    work = _fresh(request.output / _WORK, request)
    golden = freeze(request.golden_data or request.failing / "data", work / "golden")
    on_progress("recording the task graph of the failing build")
    try:
        failing = _side(request.failing, request.failing_toolchain, golden, work / "failing", request.timeout)
    except ReplayError as error:
        if error.verdict is not Verdict.STALL:
            raise
        return _save(_stalled(request, golden, work, on_progress), request)
    on_progress("recording the task graph of the reference")
    reference = _side(
        request.reference, request.reference_toolchain, golden, work / "reference", request.timeout
    )
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
        alignment=found.alignment,
        tolerance=request.tolerance,
        folder=work / "alone",
    )
    first = Found(localization=found, assessments=_assess_all(found.divergences, assessor, on_progress))
    answer = past_rounding(first, localizer, assessor, failing.tolerance)
    found, assessments = answer.localization, answer.assessments
    spent = Spent(
        runs=failing.replayer.runs,
        reference_runs=reference.replayer.runs,
        bytes_dumped=failing.replayer.dumped_bytes,
    )
    below = downstream(answer, localizer, assessor)
    edges = missing_edges(failing.tasks)
    unordered = {(edge.before.ordinal, edge.after.ordinal) for edge in missing_edges(reference.tasks)}
    missing = tuple(
        describe.missing_edge(edge, alignment=found.alignment, in_reference=unordered) for edge in edges
    )
    race = None
    # Not every harness tells what a run put out.
    told = failing.outputs is not None and reference.outputs is not None
    if told and _points_to_a_race(found, assessments, missing):
        assert reference.outputs is not None
        schedules = Schedules(
            failing=failing,
            expected=reference.outputs,
            tolerance=request.tolerance,
            on_progress=on_progress,
        )
        trials = schedules.try_all()
        race = describe.race(trials, schedules.confirm(trials))
    result = _written(request, answer, spent, below, failing, reference, missing, race)
    (request.output / PAGE).write_text(page(failing.tasks, found), encoding="utf-8")
    return _save(result, request)


def _save(result: written.Divergence, request: LocalizeRequest) -> written.Divergence:
    text = result.model_dump_json(indent=2, by_alias=True)
    (request.output / RESULT).write_text(f"{text}\n", encoding="utf-8")
    return result


def _stalled(
    request: LocalizeRequest, golden: FrozenGolden, work: Path, on_progress: Callable[[str], None]
) -> written.Divergence:
    stall = examine_stall(
        request.failing,
        request.reference,
        data=golden.directory,
        toolchains=(request.failing_toolchain, request.reference_toolchain),
        folder=work / "stall",
        timeout=request.timeout,
        on_progress=on_progress,
    )
    return written.Divergence(
        failing_build=str(request.failing),
        reference=_reference(request),
        rtol=request.tolerance.rtol,
        atol=request.tolerance.atol,
        tasks=stall.total,
        runs=1 + RUNS_OF_A_STALL,
        reference_runs=1,
        bytes_dumped=0,
        first_divergent=(),
        rounding=(),
        downstream=(),
        vanished=(),
        missing_edges=(),
        race=None,
        stall=stall,
        generated=_generated(request, ()),
        unaligned=(),
        unaligned_reference=(),
        unvisited=(),
    )


def _generated(
    request: LocalizeRequest, firsts: tuple[written.FirstDivergent, ...]
) -> written.Generated | None:
    if request.is_its_own_reference:
        return None
    return describe.generated(
        compare_generated(BuildDirectory.open(request.failing), BuildDirectory.open(request.reference)),
        firsts,
    )


def _fresh(work: Path, request: LocalizeRequest) -> Path:
    """An empty folder of our own, not inside a build and not around one."""
    output = request.output.resolve()
    for build in (request.failing.resolve(), request.reference.resolve()):
        if output.is_relative_to(build) or build.is_relative_to(output / _WORK):
            raise UsageError(f"-o {request.output}: expected a folder outside of {build}")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return work


def _side(build: Path, toolchain: Toolchain, golden: FrozenGolden, folder: Path, timeout: float) -> Side:
    return Side.open(
        build.resolve(), data=golden.directory, toolchain=toolchain, folder=folder, timeout=timeout
    )


def _assess_all(
    divergences: Sequence[Divergence], assessor: Assessor, on_progress: Callable[[str], None]
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


def _points_to_a_race(
    found: Localization, assessments: Sequence[Assessment], missing: Sequence[written.MissingEdge]
) -> bool:
    return (
        bool(found.vanished)
        or any(edge.ordered_in_reference is not False for edge in missing)
        or any(one.task_class is TaskClass.INTERACTION for one in assessments)
    )


def _reference(request: LocalizeRequest) -> written.Reference:
    kind: Literal["good build", "other target", "other schedule"] = "good build"
    if request.is_its_own_reference:
        kind = "other target" if request.schedule is None else "other schedule"
    return written.Reference(
        kind=kind,
        path=str(request.reference),
        platform=request.reference_toolchain.platform,
        schedule=request.schedule,
    )


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What the search took until its answer; verdicts on tasks below it and schedules come on top."""

    runs: int
    reference_runs: int
    bytes_dumped: int


def _written(
    request: LocalizeRequest,
    answer: Found,
    spent: Spent,
    below: Sequence[tuple[Divergence, Assessment]],
    failing: Side,
    reference: Side,
    missing: tuple[written.MissingEdge, ...],
    race: written.Race | None,
) -> written.Divergence:
    found, assessments = answer.localization, answer.assessments
    ours, theirs = failing.tasks.tasks, reference.tasks.tasks
    firsts = tuple(
        entry
        for one, assessment in zip(found.divergences, assessments, strict=True)
        for entry in describe.first_divergent(one, assessment, failing=failing, tolerance=request.tolerance)
    )
    return written.Divergence(
        failing_build=str(request.failing),
        reference=_reference(request),
        rtol=request.tolerance.rtol,
        atol=request.tolerance.atol,
        tasks=len(ours),
        runs=spent.runs,
        reference_runs=spent.reference_runs,
        bytes_dumped=spent.bytes_dumped,
        first_divergent=firsts,
        rounding=tuple(describe.task(one) for one in answer.rounding),
        downstream=tuple(describe.downstream(*one) for one in below),
        vanished=tuple(describe.task(one) for one in found.vanished),
        missing_edges=missing,
        race=race,
        stall=None,
        generated=_generated(request, firsts),
        unaligned=tuple(describe.task(ours[one]) for one in found.alignment.only_failing),
        unaligned_reference=tuple(describe.task(theirs[one]) for one in found.alignment.only_reference),
        unvisited=tuple(describe.task(ours[one]) for one in found.unvisited),
    )
