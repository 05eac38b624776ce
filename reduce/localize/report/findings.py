"""What a localization has found, and how it is written down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ....runner.build_output.build_directory import BuildDirectory
from ....runner.build_output.generated_sources import compare_generated
from ....runner.build_output.task_id import format_task_id
from ....runner.compare.statistics.statistics import Tolerance
from ....runner.localization.divergence import Divergence, Generated, NamedTask
from ....runner.localization.footprints import TaskFootprint
from ....runner.localization.orders import OrderTrial, Race, UnorderedTasks
from ....runner.localization.stall import Stall
from ....runner.localization.tensors import FirstDivergent
from ...graph.races import MissingEdge
from ...graph.task_list import KernelTask
from ...replay.recorded_build import RecordedBuild
from ..attribution.attribution import Attribution, DivergentTask
from ..causes.explanation import Cause
from ..endings.stall import RUNS_OF_A_STALL
from ..references.reference import ExpectedValues
from ..references.request import LocalizationRequest
from ..search.first_divergences import AttributedDivergences
from .cause_document import told_cause
from .divergent_tensors import downstream_task, first_divergent
from .origin import origin_of_fault
from .page import page


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What the search took until its answer; verdicts on tasks below it and trials of orders come on top."""

    runs: int
    reference_runs: int
    bytes_dumped: int


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All that was found out of a build that ends. `schedule` is the one that it was dumped under, `tolerance` what was
    no difference when tensors were compared."""

    request: LocalizationRequest
    failing: RecordedBuild
    expected: ExpectedValues
    tolerance: Tolerance
    schedule: str | None
    attributed: AttributedDivergences
    spent: Spent
    downstream: Sequence[tuple[DivergentTask, Attribution]]
    race: Race | None
    tried: tuple[OrderTrial, ...]
    """Runs under each schedule of the stack file, of a build that passes as it is."""
    in_turns: OrderTrial | None
    """Runs in the order in which it fails, in turns with the good build, as far as there is one."""
    beside: tuple[TaskFootprint, ...] = ()
    """Tasks of the kernels at fault that write outside of their tensors, where no task was seen to diverge, or one does
    by an interaction."""

    def document(self) -> Divergence:
        """What `divergence.json` holds."""
        request, expected, first = self.request, self.expected, self.attributed.first
        tensors = tuple(
            entry
            for divergent, attribution in self.attributed.pairs
            for entry in first_divergent(divergent, attribution, self.failing, self.tolerance)
        )
        return Divergence(
            failing_build=str(request.failing),
            reference=request.reference.used(request.toolchain.platform),
            rtol=request.tolerance.rtol,
            atol=request.tolerance.atol,
            schedule=self.schedule,
            tasks=len(self.failing.tasks),
            runs=self.spent.runs,
            reference_runs=self.spent.reference_runs,
            bytes_dumped=self.spent.bytes_dumped,
            first_divergent=tensors,
            not_shown=_named(first.not_shown),
            candidates=_named(expected.unknown_above(first.ordinals)),
            not_compared=expected.not_compared,
            rounding=_named(self.attributed.rounding),
            downstream=tuple(downstream_task(*pair) for pair in self.downstream),
            vanished=_named(first.vanished),
            missing_edges=tuple(_unordered(edge, expected) for edge in self.failing.missing_edges),
            race=self.race,
            tried=self.tried,
            in_turns=self.in_turns,
            generated=_generated(request, tensors),
            unaligned=_named(expected.unaligned),
            unaligned_reference=_named(expected.unaligned_reference),
            unvisited=_named(first.unvisited),
        )

    def page(self) -> str:
        """The page of the failing build's task graph."""
        without_counterpart = {task.ordinal for task in self.expected.unaligned}
        first = self.attributed.first
        return page(
            self.failing.tasks,
            firsts=first.ordinals,
            seen=first.seen,
            compared=set(range(len(self.failing.tasks))) - without_counterpart,
        )


@dataclass(frozen=True, kw_only=True)
class StallFindings:
    """What was found out of a build that does not end, in further runs of it and one of the reference."""

    request: LocalizationRequest
    stall: Stall
    causes: tuple[Cause, ...] = ()

    def document(self) -> Divergence:
        """What `divergence.json` holds."""
        request = self.request
        return Divergence(
            failing_build=str(request.failing),
            reference=request.reference.used(request.toolchain.platform),
            rtol=request.tolerance.rtol,
            atol=request.tolerance.atol,
            tasks=self.stall.total,
            runs=1 + RUNS_OF_A_STALL,
            reference_runs=0 if request.reference.build is None else 1,
            stall=self.stall,
            causes=tuple(told_cause(cause, None, ()) for cause in self.causes),
            generated=_generated(request, ()),
        )

    def page(self) -> None:
        """None: no task graph was recorded."""


def _generated(request: LocalizationRequest, firsts: Sequence[FirstDivergent]) -> Generated | None:
    """None where there is no other build whose sources were generated apart."""
    reference = request.reference.build
    if request.by_hand or reference is None or reference.path.resolve() == request.failing.resolve():
        return None
    builds = BuildDirectory.open(request.failing), BuildDirectory.open(reference.path)
    return origin_of_fault(compare_generated(*builds), firsts)


def _named(tasks: Iterable[KernelTask]) -> tuple[NamedTask, ...]:
    return tuple(NamedTask(task_id=format_task_id(task.task.task_id), kernel=task.name) for task in tasks)


def _unordered(edge: MissingEdge, expected: ExpectedValues) -> UnorderedTasks:
    return UnorderedTasks(
        before_task_id=format_task_id(edge.before.task.task_id),
        before_kernel=edge.before.name,
        before_argument=edge.first_argument,
        after_task_id=format_task_id(edge.after.task.task_id),
        after_kernel=edge.after.name,
        after_argument=edge.second_argument,
        hazard=edge.hazard.value,
        cause=edge.cause,
        ordered_in_reference=expected.orders(edge.before.ordinal, edge.after.ordinal),
    )
