"""Localization without a build to compare with: against recorded values and golden outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from ....runner.build_output.golden_data import GoldenData, TensorFolder
from ....runner.case.golden import freeze
from ....runner.localization.divergence import Divergence, ReferenceUsed
from ....runner.localization.tensors import FirstDivergent
from ...graph.races import missing_edges
from ...output_folder import fresh_work, save
from ...replay.side import Side
from ..report import describe
from ..report.page import page
from ..request import ValuesRequest
from ..schedules import Schedules
from .known_values import KnownValues
from .search import OffValues, ValuesSearch, assess_value


def localize_by_values(request: ValuesRequest, *, on_progress: Callable[[str], None]) -> Divergence:
    """As `job.localize`, against what tensors should hold.

    Raises:
        UserError: an input cannot be used, or the build cannot be run to its end.
        BuildOutputError: a part of it, a recorded tensor, or what a run recorded cannot be read.
    """
    others = [request.failing, *([request.reference_data] if request.reference_data else [])]
    work = fresh_work(request.output, others)
    recorded = None if request.reference_data is None else TensorFolder.open(request.reference_data)
    golden = freeze(request.golden_data or request.failing / "data", work / "golden")
    on_progress("recording the task graph of the failing build")
    side = Side.open(
        request.failing.resolve(),
        data=golden.directory,
        toolchain=request.toolchain,
        folder=work / "failing",
        timeout=request.timeout,
    )
    known = KnownValues.of(side, recorded)
    edges = missing_edges(side.tasks)
    schedules = None
    if edges and side.outputs is not None:
        expected = GoldenData.open(side.data).outputs
        schedules = Schedules(
            failing=side, expected=expected, tolerance=request.tolerance, on_progress=on_progress
        )
        side = replace(side, schedule=schedules.provoke())
        known = replace(known, side=side)
    found = ValuesSearch(
        known=known,
        tolerance=request.tolerance,
        budget=request.budget,
        attempts=request.attempts,
        on_progress=on_progress,
    ).search()
    runs, dumped = side.replayer.runs, side.replayer.dumped_bytes
    firsts = _firsts(found, known, request)
    race = None
    if schedules is not None:
        trials = schedules.try_all()
        race = describe.race(trials, schedules.confirm(trials))
    kind: Literal["recorded values", "golden data"] = (
        "golden data" if request.reference_data is None else "recorded values"
    )
    result = Divergence(
        failing_build=str(request.failing),
        reference=ReferenceUsed(
            kind=kind,
            path=str(request.reference_data or request.golden_data or request.failing / "data"),
            platform=request.toolchain.platform,
            schedule=None,
        ),
        rtol=request.tolerance.rtol,
        atol=request.tolerance.atol,
        schedule=side.schedule,
        tasks=len(side.tasks),
        runs=runs,
        reference_runs=0,
        bytes_dumped=dumped,
        first_divergent=firsts,
        candidates=tuple(map(describe.task, found.candidates)),
        not_compared=known.not_compared,
        rounding=(),
        downstream=(),
        vanished=tuple(map(describe.task, found.vanished)),
        missing_edges=tuple(describe.missing_edge(edge, alignment=None, in_reference=None) for edge in edges),
        race=race,
        stall=None,
        generated=None,
        unaligned=(),
        unaligned_reference=(),
        unvisited=(),
    )
    drawn = page(
        side.tasks,
        firsts={one.task.ordinal for one in found.found},
        seen=found.seen,
        compared=range(len(side.tasks)),
    )
    return save(result, drawn, request.output)


def _firsts(found: OffValues, known: KnownValues, request: ValuesRequest) -> tuple[FirstDivergent, ...]:
    entries: list[FirstDivergent] = []
    for one in found.found:
        folder = request.output / "work" / "alone" / str(one.task.ordinal)
        assessment = assess_value(one, known, request.tolerance, folder)
        entries += describe.first_divergent(
            one.task,
            one.actual,
            one.expected,
            assessment,
            reference=None,
            others=list(one.actual.before.values()),
            failing=known.side,
            tolerance=request.tolerance,
        )
    return tuple(entries)
