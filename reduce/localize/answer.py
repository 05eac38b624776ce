"""From a finished search to `divergence.json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...runner.build_output.build_directory import BuildDirectory
from ...runner.build_output.generated_sources import compare_generated
from ...runner.localization.divergence import Divergence, Generated, ReferenceUsed
from ...runner.localization.orders import Race, UnorderedTasks
from ...runner.localization.stall import Stall
from ...runner.localization.tensors import FirstDivergent
from ..replay.side import Side
from .assess import Assessment
from .beyond import Found
from .localize import DivergentTask
from .report import describe
from .request import LocalizeRequest


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What the search took until its answer; verdicts on tasks below it and schedules come on top."""

    runs: int
    reference_runs: int
    bytes_dumped: int


def written_answer(
    request: LocalizeRequest,
    answer: Found,
    spent: Spent,
    below: Sequence[tuple[DivergentTask, Assessment]],
    failing: Side,
    reference: Side,
    missing: tuple[UnorderedTasks, ...],
    race: Race | None,
) -> Divergence:
    """What was found of a build that ends."""
    found, assessments = answer.localization, answer.assessments
    ours, theirs = failing.tasks.tasks, reference.tasks.tasks
    firsts = tuple(
        entry
        for one, assessment in zip(found.divergences, assessments, strict=True)
        for entry in describe.first_divergent(
            one.failing,
            one.actual,
            one.expected.after,
            assessment,
            reference=one.reference,
            others=list(one.expected.before.values()),
            failing=failing,
            tolerance=request.tolerance,
        )
    )
    return Divergence(
        failing_build=str(request.failing),
        reference=_reference(request),
        rtol=request.tolerance.rtol,
        atol=request.tolerance.atol,
        schedule=failing.schedule,
        tasks=len(ours),
        runs=spent.runs,
        reference_runs=spent.reference_runs,
        bytes_dumped=spent.bytes_dumped,
        first_divergent=firsts,
        candidates=(),
        not_compared=(),
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


def written_stall(request: LocalizeRequest, stall: Stall, *, runs: int) -> Divergence:
    """What was found of a build that does not end, in `runs` of it and one of the reference."""
    return Divergence(
        failing_build=str(request.failing),
        reference=_reference(request),
        rtol=request.tolerance.rtol,
        atol=request.tolerance.atol,
        schedule=None,
        tasks=stall.total,
        runs=runs,
        reference_runs=1,
        bytes_dumped=0,
        first_divergent=(),
        candidates=(),
        not_compared=(),
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


def _generated(request: LocalizeRequest, firsts: tuple[FirstDivergent, ...]) -> Generated | None:
    if request.is_its_own_reference:
        return None
    return describe.generated(
        compare_generated(BuildDirectory.open(request.failing), BuildDirectory.open(request.reference)),
        firsts,
    )


def _reference(request: LocalizeRequest) -> ReferenceUsed:
    kind: Literal["good build", "other target", "other schedule"] = "good build"
    if request.is_its_own_reference:
        kind = "other target" if request.schedule is None else "other schedule"
    return ReferenceUsed(
        kind=kind,
        path=str(request.reference),
        platform=request.reference_toolchain.platform,
        schedule=request.schedule,
    )
