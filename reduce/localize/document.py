"""Makes the document `divergence.json` from what a localization has found.

Each kind of findings has a `document` and a `page`. `ExplainedFindings` is for a build that leaves outputs,
`StallFindings` for a build that stalls, and `EndingFindings` for a build that crashes or does not compile. `Findings`
holds the divergent tensors of one build, and `failure_cause` writes one cause.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...runner.build_output.args_dump import format_task_id
from ...runner.build_output.directory import BuildDirectory, GeneratedDifference, compare_generated
from ...runner.compare.judges import recognize_patterns
from ...runner.compare.statistics import IncomparableError, Tolerance, breakdown, heat_map, measure
from ...runner.localization import (
    BuildChange,
    CaseFailure,
    CauseKind,
    ColumnRun,
    Divergence,
    DivergentPass,
    DownstreamTask,
    ErrorMap,
    FailingOutput,
    FailureCause,
    FirstDivergent,
    GeneratedSources,
    NamedTask,
    OrderTrial,
    PatternFit,
    Race,
    RowRun,
    Stall,
    TaskDistances,
    TensorStatistics,
    UnorderedTasks,
    UnwrittenRows,
)
from ...runner.localization_job import TaskFootprint
from ...runner.tensor import TensorView
from ...store.vocabulary import plural
from ..graph.differences import DifferenceKind, TaskDifference, program_differences
from ..graph.submits import find_submits, submit_lines
from ..graph.tasks import KernelTask, MissingEdge
from ..replay.replay import RecordedBuild, differs, promote_tensors
from .attribute import Attribution, Distances
from .causes import Cause, FailureExplanation
from .changes import Change, ChangedPart
from .endings import STALL_RERUNS, CrashingTask
from .experiments import DivergentTask
from .failure import UnwrittenElements
from .first_divergence import AttributedDivergences
from .footprints import describe_writes
from .localization_text import page
from .reference import ExpectedValues, LocalizationRequest


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The divergent tensors of one build that leaves outputs, and what was found about them.

    `schedule` is the schedule under which the build was dumped. Tensors within `tolerance` count as equal. `downstream`
    are tasks that an error has reached.
    """

    request: LocalizationRequest
    failing: RecordedBuild
    expected: ExpectedValues
    tolerance: Tolerance
    schedule: str | None
    attributed: AttributedDivergences
    cost: SearchCost
    downstream: Sequence[tuple[DivergentTask, Attribution]]
    race: Race | None
    tried: tuple[OrderTrial, ...]
    """Runs under each schedule of the stack file, for a build that passes without a schedule."""
    in_turns: OrderTrial | None
    """Runs in the order in which the build fails, in turns with the good build if there is one."""
    stray_writers: tuple[TaskFootprint, ...] = ()
    """Tasks of the kernels at fault that write outside of their tensors.

    They are sought only if no task diverges, or if a task diverges by an interaction.
    """

    def document(self) -> Divergence:
        """Return the document of this build."""
        request, expected, first = self.request, self.expected, self.attributed.first
        tensors = tuple(
            entry
            for divergent, attribution in self.attributed.pairs
            for entry in first_divergent(divergent, attribution, self.failing, self.tolerance)
        )
        return Divergence(
            failing_build=str(request.failing),
            reference=request.reference.summarize(request.toolchain.platform),
            rtol=request.tolerance.rtol,
            atol=request.tolerance.atol,
            schedule=self.schedule,
            tasks=len(self.failing.tasks),
            runs=self.cost.runs,
            reference_runs=self.cost.reference_runs,
            bytes_dumped=self.cost.bytes_dumped,
            first_divergent=tensors,
            not_shown=_named_tasks(first.not_shown),
            candidates=_named_tasks(expected.unknown_above(first.ordinals)),
            not_compared=expected.not_compared,
            rounding=_named_tasks(self.attributed.rounding),
            downstream=tuple(downstream_task(*pair) for pair in self.downstream),
            vanished=_named_tasks(first.vanished),
            missing_edges=tuple(_unordered_tasks(edge, expected) for edge in self.failing.missing_edges),
            race=self.race,
            tried=self.tried,
            in_turns=self.in_turns,
            generated=_generated_difference(request, tensors),
            unaligned=_named_tasks(expected.unaligned),
            unaligned_reference=_named_tasks(expected.unaligned_reference),
            unvisited=_named_tasks(first.unvisited),
        )

    def page(self) -> str:
        """Return the page of this build's task graph."""
        unaligned = {task.ordinal for task in self.expected.unaligned}
        first = self.attributed.first
        return page(
            self.failing.tasks,
            firsts=first.ordinals,
            seen=first.errors,
            compared=set(range(len(self.failing.tasks))) - unaligned,
        )


@dataclass(frozen=True, kw_only=True)
class SearchCost:
    """The cost of the search for the first divergent tasks, without later runs of other tasks or in other orders."""

    runs: int
    reference_runs: int
    bytes_dumped: int

    @classmethod
    def join(cls, costs: Iterable[tuple[RecordedBuild, SearchCost]]) -> SearchCost:
        """Return the cost of several searches against one reference, each given with the build that it searched.

        A build counts its runs from one search to the next, and so does the reference.
        """
        last = {id(build): cost for build, cost in costs}.values()
        return cls(
            runs=sum(cost.runs for cost in last),
            reference_runs=max(cost.reference_runs for cost in last),
            bytes_dumped=sum(cost.bytes_dumped for cost in last),
        )


@dataclass(frozen=True, kw_only=True)
class ExplainedFindings:
    """Explains a build that leaves outputs.

    `parts` are the findings about the build with each cause, or about the failing build as a whole if there are no
    causes. Causes after the last part were not examined. `explanation` is None if the harness reports no outputs.
    """

    request: LocalizationRequest
    explanation: FailureExplanation | None
    parts: tuple[Findings, ...]
    failing_runs: int
    """The number of runs of the failing build until the failure was explained."""

    def document(self) -> Divergence:
        """Return the document of the failing build."""
        explanation = self.explanation
        document = self.parts[0].document()
        if explanation is None:
            return document
        failure = case_failure(explanation)
        if explanation.passes and not _has_failing_order(document):
            return _passing_document(document, failure)
        if not explanation.causes:
            update = {"failure": failure, "generated": _withdraw_origin(document)}
            return document.model_copy(update=update)
        return self._document_with_causes(document, explanation, failure)

    def page(self) -> str:
        """Return the page of the task graph of the build that has the first cause."""
        return self.parts[0].page()

    def _document_with_causes(
        self, first: Divergence, explanation: FailureExplanation, failure: CaseFailure
    ) -> Divergence:
        documents = [first, *(part.document() for part in self.parts[1:])]
        examined = explanation.causes[: len(self.parts)]
        causes: list[FailureCause] = []
        tensors: list[FirstDivergent] = []
        for number, (cause, part, document) in enumerate(
            zip(examined, self.parts, documents, strict=False), start=1
        ):
            comparison = CauseDifferences.from_cause(
                cause, part.failing, part.expected.good, [divergent for divergent, _ in part.attributed.pairs]
            )
            causes.append(
                failure_cause(
                    cause,
                    comparison,
                    document.first_divergent,
                    unwritten=explanation.unwritten,
                    identical=explanation.identical,
                    stray_writers=part.stray_writers,
                )
            )
            tensors += [
                tensor.model_copy(update={"cause": number})
                for tensor in comparison.classify_tensors(document.first_divergent)
            ]
        causes += [failure_cause(cause, None, ()) for cause in explanation.causes[len(examined) :]]
        documents = documents[: len(examined)]
        cost = SearchCost.join((part.failing, part.cost) for part in self.parts)
        return first.model_copy(
            update={
                "failure": failure,
                "generated": add_cause_origin(first.generated, explanation.causes),
                "causes": tuple(causes),
                "cleared": tuple(build_change(change) for change in explanation.cleared),
                "first_divergent": tuple(tensors),
                "not_shown": tuple(task for document in documents for task in document.not_shown),
                "downstream": tuple(task for document in documents for task in document.downstream),
                "runs": cost.runs + self._count_other_runs(explanation, examined),
                "reference_runs": cost.reference_runs,
                "bytes_dumped": cost.bytes_dumped,
            }
        )

    def _count_other_runs(self, explanation: FailureExplanation, examined: Sequence[Cause]) -> int:
        """Return the number of runs of the failing build, and of builds with changes that are no examined cause.

        The cost of a cause counts the trial and the runs of its own build.
        """
        subjects = {id(cause.subject) for cause in examined}
        other_trials = sum(
            trial.build is None or id(trial.build) not in subjects for trial in explanation.trials
        )
        failing = self.request.failing.resolve()
        examined_failing = any(
            cause.subject is not None and cause.subject.build == failing for cause in examined
        )
        return other_trials + (0 if examined_failing else self.failing_runs)


def _has_failing_order(document: Divergence) -> bool:
    """Return whether the failing build fails in an order in which it does not run by default."""
    if document.schedule is not None:
        return True
    # If the good build ran in other orders too, it may fail in them. Then only `schedule` blames the failing build.
    good_build_ran = any(trial.reference_runs for trial in document.tried)
    race = document.race
    return race is not None and not good_build_ran and any(trial.failed for trial in race.trials)


def _withdraw_origin(document: Divergence) -> GeneratedSources | None:
    """Return the generated sources, without an origin if the good build may fail too in this order."""
    if document.generated is None or document.in_turns is None or not document.in_turns.reference_may_fail:
        return document.generated
    shown = "the good build may fail in this order too"
    return document.generated.model_copy(update={"origin": None, "shown": shown})


def _passing_document(document: Divergence, failure: CaseFailure) -> Divergence:
    """Return the document of a case that passes. All differences are within the tolerance, so nothing is blamed."""
    differing = (
        NamedTask(task_id=tensor.task_id, kernel=tensor.kernel) for tensor in document.first_divergent
    )
    return document.model_copy(
        update={
            "failure": failure,
            "first_divergent": (),
            "not_shown": (),
            "downstream": (),
            "rounding": tuple(dict.fromkeys((*document.rounding, *differing, *document.not_shown))),
        }
    )


@dataclass(frozen=True, kw_only=True)
class StallFindings:
    """Explains a build that stalls, by more runs of it and a run of the reference."""

    request: LocalizationRequest
    stall: Stall
    causes: tuple[Cause, ...] = ()

    def document(self) -> Divergence:
        """Return the document of the stalling build."""
        request = self.request
        return Divergence(
            failing_build=str(request.failing),
            reference=request.reference.summarize(request.toolchain.platform),
            rtol=request.tolerance.rtol,
            atol=request.tolerance.atol,
            tasks=self.stall.total,
            runs=1 + STALL_RERUNS,
            reference_runs=0 if request.reference.build is None else 1,
            stall=self.stall,
            causes=tuple(failure_cause(cause, None, ()) for cause in self.causes),
            generated=add_cause_origin(_generated_difference(request, ()), self.causes),
        )

    def page(self) -> None:
        """Return None, because no task graph was recorded."""


@dataclass(frozen=True, kw_only=True)
class EndingFindings:
    """Explains a build that crashes or does not compile.

    `ended` says in one line how the build ended. `causes` are the changes that make the good build end in the same way.
    `crashing` is the task that crashes, if one was found.
    """

    request: LocalizationRequest
    ended: str
    causes: tuple[Cause, ...]
    crashing: CrashingTask | None = None
    repeats: int = 0
    """The number of runs that repeated the ending, before a run of the good build. 0 without a good build."""

    def document(self) -> Divergence:
        """Return the document of the build."""
        request, crashing = self.request, self.crashing
        crash = None if crashing is None else crashing.task
        causes = [failure_cause(cause, None, ()) for cause in self.causes]
        if crash is not None and crash.kernel:
            at_fault = {"kernel": crash.kernel, "position": crash.position, "tensor": crash.tensor}
            causes = [
                cause.model_copy(update=at_fault) if cause.kernel in (None, crash.kernel) else cause
                for cause in causes
            ]
        return Divergence(
            failing_build=str(request.failing),
            reference=request.reference.summarize(request.toolchain.platform),
            rtol=request.tolerance.rtol,
            atol=request.tolerance.atol,
            runs=1 + self.repeats + (0 if crashing is None else crashing.runs),
            reference_runs=1 if self.repeats else 0,
            ended=self.ended if crashing is None else f"{self.ended}; {crashing.describe()}",
            crash=crash,
            causes=tuple(causes),
        )

    def page(self) -> None:
        """Return None, because no task graph was recorded."""


def _generated_difference(
    request: LocalizationRequest, firsts: Sequence[FirstDivergent]
) -> GeneratedSources | None:
    """Return how the generated sources differ. None without another build whose sources were generated separately."""
    reference = request.reference.build
    if request.by_hand or reference is None or reference.path.resolve() == request.failing.resolve():
        return None
    builds = BuildDirectory.open(request.failing), BuildDirectory.open(reference.path)
    return _generated_sources(compare_generated(*builds), firsts)


def _generated_sources(difference: GeneratedDifference, firsts: Sequence[FirstDivergent]) -> GeneratedSources:
    """Return what the compiler generated differently, and whether the compiler or the runtime is at fault.

    Equal sources blame the runtime only if a kernel, run alone on the same inputs, leaves other results. Otherwise
    frozen data, the machine or a race may cause the failure.
    """
    first_pass = difference.first_pass
    changed = {*difference.differing, *difference.only_failing, *difference.only_reference}
    kernel_sources = {source for tensor in firsts for source in tensor.kernel_sources}
    orchestrations = {tensor.orchestration_source for tensor in firsts}
    introduced = any(tensor.task_class == "introduced" for tensor in firsts)
    interaction = any(tensor.task_class == "interaction" for tensor in firsts)
    origin: Literal["compiler", "runtime"] | None = None
    if introduced and changed & kernel_sources:
        origin, shown = "compiler", "the source of the kernel that is wrong alone was generated differently"
    elif introduced and difference.is_empty:
        origin = "runtime"
        shown = "all generated sources are the same, and yet the kernel alone leaves other results on the same inputs"
    elif interaction and changed & orchestrations:
        origin, shown = (
            "compiler",
            "the orchestration of the task that is right alone was generated differently",
        )
    elif difference.is_empty:
        shown = "all generated sources are the same; whether the runtime is at fault was not shown"
    else:
        shown = "generated sources differ, but it was not shown that they cause the failure"
    return GeneratedSources(
        differing=difference.differing,
        only_failing=difference.only_failing,
        only_reference=difference.only_reference,
        first_pass=None
        if first_pass is None
        else DivergentPass(number=first_pass.number, name=first_pass.name, diff=first_pass.diff),
        origin=origin,
        shown=shown,
    )


def add_cause_origin(generated: GeneratedSources | None, causes: Sequence[Cause]) -> GeneratedSources | None:
    """Return the generated sources with the origin of the first cause, if a run confirmed that cause."""
    if generated is None or not causes or not causes[0].shown:
        return generated
    changes = causes[0].changes
    runtime = any(change.part is ChangedPart.RUNTIME for change in changes)
    sources = ", ".join(dict.fromkeys(change.file for change in changes if change.file))
    shown = (
        "the good build's sources fail when the failing build's runtime runs them"
        if runtime
        else f"put alone into the good build, what was generated differently in {sources} makes it fail"
    )
    return generated.model_copy(update={"origin": "runtime" if runtime else "compiler", "shown": shown})


def _named_tasks(tasks: Iterable[KernelTask]) -> tuple[NamedTask, ...]:
    return tuple(NamedTask(task_id=format_task_id(task.task.task_id), kernel=task.name) for task in tasks)


def _unordered_tasks(edge: MissingEdge, expected: ExpectedValues) -> UnorderedTasks:
    return UnorderedTasks(
        before_task_id=format_task_id(edge.before.task.task_id),
        before_kernel=edge.before.name,
        before_argument=edge.before_argument,
        after_task_id=format_task_id(edge.after.task.task_id),
        after_kernel=edge.after.name,
        after_argument=edge.after_argument,
        hazard=edge.hazard.value,
        cause=edge.cause,
        ordered_in_reference=expected.orders(edge.before.ordinal, edge.after.ordinal),
    )


@dataclass(frozen=True, kw_only=True)
class CauseDifferences:
    """How the tasks of a build with one cause alone differ from the good build's tasks."""

    cause: Cause
    differences: tuple[TaskDifference, ...]

    @classmethod
    def from_cause(
        cls,
        cause: Cause,
        build: RecordedBuild,
        good: RecordedBuild | None,
        divergent: Sequence[DivergentTask],
    ) -> CauseDifferences:
        """Compare the task graphs of the two builds, and the scalars of the divergent tasks.

        `build` has the cause alone.
        """
        scalars = [difference for each in divergent for difference in _scalar_differences(each)]
        graphs = (
            ()
            if good is None
            else program_differences(
                build.tasks,
                good.tasks,
                name_of=build.argument_names.name_of,
                reference_name_of=good.argument_names.name_of,
            )
        )
        return cls(cause=cause, differences=(*scalars, *_put_contents_first(graphs)))

    @property
    def kernel(self) -> str | None:
        """Return the first changed kernel, or else the kernel of the first task that differs."""
        return _changed_kernel(self.cause) or next((each.kernel for each in self.differences), None)

    def classify_tensors(self, tensors: Sequence[FirstDivergent]) -> tuple[FirstDivergent, ...]:
        """Return the tensors that show the cause, those of its kernel first.

        If a task is submitted differently, its class becomes `introduced`.
        """
        classified = [self._classify_tensor(tensor) for tensor in tensors]
        return tuple(sorted(classified, key=lambda tensor: tensor.kernel != self.kernel))

    def _classify_tensor(self, tensor: FirstDivergent) -> FirstDivergent:
        submission = next(
            (
                each
                for each in self.differences
                if each.task is not None and each.task.ordinal == tensor.position and not each.kind.is_order
            ),
            None,
        )
        if submission is None or any(change.part is ChangedPart.KERNEL for change in self.cause.changes):
            return tensor
        reason = f"it is submitted differently: {submission.text}"
        return tensor.model_copy(update={"task_class": "introduced", "reason": reason})


def _changed_kernel(cause: Cause) -> str | None:
    return next((change.kernel for change in cause.changes if change.kernel), None)


def _put_contents_first(differences: Sequence[TaskDifference]) -> Sequence[TaskDifference]:
    """Put differences of contents before those of placement, if there are no others.

    A task reads the other contents of its buffer. Another placement alone does no harm.
    """
    contents = [each for each in differences if each.kind is DifferenceKind.CONTENTS]
    placements = [each for each in differences if each.kind is DifferenceKind.PLACEMENT]
    has_others = len(contents) + len(placements) < len(differences)
    return differences if has_others else [*contents, *placements]


_MAX_DIFFERENCES = 40
"""The document holds at most this many differences of a cause. Two builds may differ in thousands of places."""


def failure_cause(
    cause: Cause,
    comparison: CauseDifferences | None,
    tensors: Sequence[FirstDivergent],
    *,
    unwritten: Sequence[UnwrittenElements] = (),
    identical: bool = False,
    stray_writers: Sequence[TaskFootprint] = (),
) -> FailureCause:
    """Return a cause as the document has it.

    Args:
        comparison: None if the tasks of the cause were not examined.
        tensors: the divergent tensors of the build with this cause.
        unwritten: elements of outputs that no task of the failing build writes.
        identical: whether all sources are the same in both builds.
        stray_writers: tasks of the cause that write outside of their tensors.
    """
    tensors = () if comparison is None else comparison.classify_tensors(tensors)
    differences = () if comparison is None else comparison.differences
    first = tensors[0] if tensors else None
    if stray_writers and all(tensor.task_class == "interaction" for tensor in tensors):
        return _out_of_place_cause(cause, stray_writers, identical=identical)
    kernel = _missing_writer(differences, unwritten) or (
        _changed_kernel(cause) if comparison is None else comparison.kernel
    )
    moved_write = _first_moved_write(kernel, differences, tensors)
    if moved_write is not None:
        position, task_class, tensor = _first_position([moved_write]), "introduced", moved_write.tensor
    elif first is not None:
        position, task_class, tensor = first.position, first.task_class, _wrong_tensor(differences, first)
    else:
        position, task_class, tensor = _first_position(differences), None, _wrong_tensor(differences, None)
    return FailureCause(
        what=describe_cause(cause, differences, identical=identical),
        kind=_cause_kind(cause, differences, tensors),
        confirmed=cause.shown,
        effect=cause.effect,
        changes=tuple(build_change(change) for change in cause.changes),
        differences=tuple(each.text for each in differences[:_MAX_DIFFERENCES]),
        kernel=kernel or (first.kernel if first is not None else None),
        position=position,
        task_class=task_class,
        tensor=tensor,
    )


def _out_of_place_cause(
    cause: Cause, stray_writers: Sequence[TaskFootprint], *, identical: bool
) -> FailureCause:
    """Return the cause for a kernel whose own results are right, but that writes over the results of other tasks."""
    first = stray_writers[0]
    return FailureCause(
        what=describe_cause(cause, (), identical=identical),
        kind="out of place",
        confirmed=cause.shown,
        effect=cause.effect,
        changes=tuple(build_change(change) for change in cause.changes),
        differences=tuple(describe_writes(footprint) for footprint in stray_writers[:_MAX_DIFFERENCES]),
        kernel=first.kernel,
        position=first.position,
        task_class="introduced",
        tensor=first.writes[0].tensor,
    )


def _first_moved_write(
    kernel: str | None, differences: Sequence[TaskDifference], tensors: Sequence[FirstDivergent]
) -> TaskDifference | None:
    """Return the first difference by which a task of the kernel writes another part of its tensor.

    The results of such a task cannot be compared, so only tasks that read the tensor diverge. Returns None if a task of
    the kernel was seen to diverge.
    """
    if any(tensor.kernel == kernel for tensor in tensors):
        return None
    return next((each for each in differences if each.kernel == kernel and _is_moved_write(each)), None)


def _is_moved_write(difference: TaskDifference) -> bool:
    task = difference.task
    return (
        difference.kind is DifferenceKind.REGION
        and task is not None
        and any(each.type.may_write for each in task.task.arguments if each.index == difference.argument)
    )


def _wrong_tensor(differences: Sequence[TaskDifference], first: FirstDivergent | None) -> str | None:
    """Return the name of the wrong tensor: that of the first divergence, or that of the first difference with one.

    The difference wins if its task cannot be compared, because the other build does not have the task there.
    """
    difference = next((each for each in differences if each.tensor is not None), None)
    if first is None:
        return None if difference is None else difference.tensor
    if difference is None:
        return first.tensor
    is_incomparable = difference.kind is DifferenceKind.PRESENCE or (
        difference.kind is DifferenceKind.ORDER and first.kernel != difference.kernel
    )
    return difference.tensor if is_incomparable else first.tensor


def _first_position(differences: Sequence[TaskDifference]) -> int | None:
    """Return the ordinal of the first task of the failing build that differs."""
    return next((each.task.ordinal for each in differences if each.task is not None), None)


def _missing_writer(
    differences: Sequence[TaskDifference], unwritten: Sequence[UnwrittenElements]
) -> str | None:
    """Return the kernel of a task that only the good build submits, and that would write the unwritten elements."""
    missing = {
        each.counterpart.ordinal: each.counterpart.name
        for each in differences
        if each.kind is DifferenceKind.PRESENCE and each.counterpart is not None
    }
    writers = (task.ordinal for each in unwritten for task in each.written_by)
    return next((missing[ordinal] for ordinal in writers if ordinal in missing), None)


_MAX_NAMED = 6
"""A sentence names at most this many tasks or lines, so that it stays readable. It counts the rest."""


def describe_cause(cause: Cause, differences: Sequence[TaskDifference], *, identical: bool) -> str:
    """Return a cause in one line."""
    phrase = _describe_changed_files(cause, identical=identical) or _describe_differences(differences)
    if phrase:
        return phrase
    changed = cause.changes[0]
    lines = [line for edit in changed.edits for line in edit.lines()]
    return f"the {changed.part.value}: {'  '.join(lines[:_MAX_NAMED])}".removesuffix(": ")


def _describe_changed_files(cause: Cause, *, identical: bool) -> str | None:
    """Return a phrase for a change of data, runtime or kernels. None for another change."""
    parts = {change.part for change in cause.changes}
    if ChangedPart.DATA in parts:
        files = ", ".join(change.file for change in cause.changes)
        return (
            f"frozen data that differs from the good build's, and on which the good build fails too: {files}"
        )
    if ChangedPart.RUNTIME in parts:
        return (
            "all sources are identical, only the runtimes differ"
            if identical
            else "the good build fails when it is run by the failing build's runtime"
        )
    kernels = [change.kernel for change in cause.changes if change.part is ChangedPart.KERNEL]
    if kernels:
        others = dict.fromkeys(
            change.part.value for change in cause.changes if change.part is not ChangedPart.KERNEL
        )
        together = f", with the {' and the '.join(others)}" if others else ""
        return f"the source of {'kernel' if len(kernels) == 1 else 'kernels'} {', '.join(kernels)}{together}"
    listed = [
        change.kernel for change in cause.changes if change.part is ChangedPart.KERNEL_LIST and change.kernel
    ]
    return f"the kernel list has another source for {', '.join(listed)}" if listed else None


def _describe_differences(differences: Sequence[TaskDifference]) -> str | None:
    """Return a phrase for several missing tasks, or the first difference. None if there is none."""
    missing = [each.counterpart for each in differences if each.task is None and each.counterpart is not None]
    independent = [each for each in differences if not each.kind.is_consequence]
    if len(missing) > 1 and len(missing) == len(independent):
        names = ", ".join(f"{task.ordinal} {task.name}" for task in missing[:_MAX_NAMED])
        more = f" and {len(missing) - _MAX_NAMED} more" if len(missing) > _MAX_NAMED else ""
        return f"{len(missing)} tasks of the good build are not submitted: {names}{more}"
    return differences[0].text if differences else None


_DIFFERENCE_KINDS: Mapping[DifferenceKind, CauseKind] = {
    DifferenceKind.PRESENCE: "missing or extra task",
    DifferenceKind.KERNEL: "submission",
    DifferenceKind.TENSOR: "submission",
    DifferenceKind.REGION: "submission",
    DifferenceKind.BLOCKS: "submission",
    DifferenceKind.SCALAR: "submission",
    DifferenceKind.ORDER: "order",
    DifferenceKind.DIRECTION: "order",
    DifferenceKind.DEPENDENCY: "order",
    DifferenceKind.PLACEMENT: "shared buffer",
    DifferenceKind.CONTENTS: "shared buffer",
}
"""The kind of a cause by its differences. The first kind of difference that a cause has decides."""


_PART_KINDS: Mapping[ChangedPart, CauseKind] = {
    ChangedPart.DATA: "data",
    ChangedPart.RUNTIME: "runtime",
    ChangedPart.KERNEL_LIST: "kernel list",
}


def _cause_kind(
    cause: Cause, differences: Sequence[TaskDifference], tensors: Sequence[FirstDivergent]
) -> CauseKind:
    kernels = {change.kernel for change in cause.changes if change.part is ChangedPart.KERNEL}
    if kernels:
        # If only the results of other kernels are wrong, the kernel writes where it should not.
        has_wrong_results = any(kernels & set(tensor.kernel.split("+")) for tensor in tensors)
        return "kernel" if has_wrong_results or not tensors else "out of place"
    parts = {change.part for change in cause.changes}
    for part, kind in _PART_KINDS.items():
        if part in parts:
            return kind
    found = {each.kind for each in differences}
    for difference, kind in _DIFFERENCE_KINDS.items():
        if difference in found:
            return kind
    return "orchestration"


_MAX_LINES = 12
"""The document quotes at most this many lines of a difference between sources, and counts the rest in one more."""


def build_change(change: Change) -> BuildChange:
    """Return a change with the first of its lines that differ. Replaced lines come before new ones.

    A replaced line is more often at fault: a new function does nothing until a line calls it.
    """
    edits = change.edits
    lines = [line for edit in edits for line in edit.lines()]
    removed, added = (sorted(line[1:] for line in lines if line.startswith(sign)) for sign in "-+")
    is_move = bool(removed) and removed == added
    if not is_move:
        edits = sorted(edits, key=lambda edit: not (edit.old and edit.new))
        lines = [*change.settings, *(line for edit in edits for line in edit.lines())]
    first_line = next((edit.first_line for edit in edits if edit.new or not is_move), None)
    cut = len(lines) - _MAX_LINES
    return BuildChange(
        part=change.part.value,
        file=change.file,
        line=first_line,
        kernel=change.kernel or None,
        moved_from=next(edit.start + 1 for edit in edits if edit.old) if is_move else None,
        diff=(*lines[:_MAX_LINES], *([f"  ... and {plural(cut, 'more line')}"] if cut > 0 else [])),
    )


_MAX_ROWS = 8
"""The document names at most this many runs of rows or columns. A few show where a failure lies."""


def case_failure(explanation: FailureExplanation) -> CaseFailure:
    """Return the outputs that make the case fail, and the case's tolerance."""
    tolerance = explanation.judge.tolerance
    return CaseFailure(
        rtol=tolerance.rtol,
        atol=tolerance.atol,
        told=explanation.judge.is_case_tolerance,
        by_good_build=explanation.judge.expects_good_outputs,
        outputs=tuple(
            FailingOutput(
                name=output.name,
                shape=output.shape,
                elements=output.wrong.size,
                wrong=output.wrong_count,
                rows=_row_runs(output.rows),
                worst=output.worst if math.isfinite(output.worst) else None,
            )
            for output in explanation.failure.outputs.values()
        ),
        unwritten=tuple(
            UnwrittenRows(
                output=each.output,
                rows=_row_runs(each.rows),
                columns=tuple(
                    ColumnRun(first=run.start, last=run.stop - 1) for run in each.columns[:_MAX_ROWS]
                ),
                written_by=tuple(f"task {task.ordinal} {task.name}" for task in each.written_by),
            )
            for each in explanation.unwritten
        ),
    )


def _row_runs(rows: Sequence[range]) -> tuple[RowRun, ...]:
    return tuple(RowRun(first=run.start, last=run.stop - 1) for run in rows[:_MAX_ROWS])


def _scalar_differences(divergent: DivergentTask) -> Iterator[TaskDifference]:
    """Yield a difference for each scalar of a task that is not that of its counterpart."""
    task = divergent.task
    actual, expected = divergent.actual.scalars, divergent.expected_values.scalars
    first = min((*actual, *expected), default=0)
    for index in sorted(actual.keys() & expected.keys()):
        if actual[index] != expected[index]:
            values = f"is {_format_scalar(actual[index])}, was {_format_scalar(expected[index])}"
            yield TaskDifference(
                kind=DifferenceKind.SCALAR,
                task=task,
                counterpart=divergent.counterpart,
                argument=index,
                text=f"task {task.ordinal} {task.name}: scalar {index - first} {values}",
            )


def _format_scalar(value: float | bool | None) -> str:
    """Return a recorded scalar as text. An integer that could be the bits of a usual float32 is shown as both."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32:
        number: float = struct.unpack("<f", struct.pack("<I", value))[0]
        if _MIN_USUAL_SCALAR < abs(number) < 1 / _MIN_USUAL_SCALAR:
            return f"{number:.9g} ({value:#x})"
    return str(value)


_MIN_USUAL_SCALAR = 1e-20
"""A scalar of a kernel is seldom smaller. The bits of an integer below 507 million are those of a smaller float32."""


_FIRST_ROWS = 10
"""The document lists at most this many of the rows that differ, and counts all."""


_HEAT_HEIGHT, _HEAT_WIDTH = 32, 48
"""A heat map has at most this many blocks in each direction, so that a page can show it."""


def first_divergent(
    divergent: DivergentTask, attribution: Attribution, failing: RecordedBuild, tolerance: Tolerance
) -> Iterator[FirstDivergent]:
    """Yield an entry for each tensor that the task left wrong, among those whose expected values are known."""
    task, actual, expected = divergent.task, divergent.actual, divergent.expected_values
    submits = find_submits(failing.orchestration, task)
    kernels = [failing.config.kernels.get(number) for number in task.task.kernels or () if number >= 0]
    reference = divergent.counterpart
    # A task may have left one of its inputs in place of a result.
    inputs = list((expected.before or actual.before).values())
    for index, expected_result in sorted(expected.after.items()):
        result = actual.after[index]
        if not differs(result, expected_result, tolerance):
            continue
        yield FirstDivergent(
            task_id=format_task_id(task.task.task_id),
            position=task.ordinal,
            kernel=task.name,
            kernel_sources=tuple(str(kernel.source) for kernel in kernels if kernel is not None),
            reference_kernel=None if reference is None else reference.name,
            reference_task_id=None if reference is None else format_task_id(reference.task.task_id),
            orchestration_source=str(failing.config.orchestration.source),
            orchestration_lines=submit_lines(failing.orchestration, submits),
            argument=index,
            tensor=failing.argument_names.name_of(task, index),
            task_class=attribution.task_class.value,
            reason=attribution.reason,
            distances=_task_distances(attribution.distances),
            pattern=best_pattern(result, expected_result, tolerance, inputs),
            statistics=tensor_statistics(result, expected_result, tolerance),
        )


def downstream_task(divergent: DivergentTask, attribution: Attribution) -> DownstreamTask:
    """Return the entry of a task that an error has reached."""
    return DownstreamTask(
        task_id=format_task_id(divergent.task.task.task_id),
        position=divergent.task.ordinal,
        kernel=divergent.task.name,
        task_class=attribution.task_class.value,
        reason=attribution.reason,
        distances=_task_distances(attribution.distances),
    )


def _task_distances(distances: Distances | None) -> TaskDistances | None:
    if distances is None:
        return None
    return TaskDistances(
        out=_finite(distances.out),
        introduced=_finite(distances.introduced),
        propagated=_finite(distances.propagated),
        inputs=_finite(distances.inputs),
        floor=_finite(distances.floor),
        factor=None if distances.factor is None else _finite(distances.factor),
    )


def best_pattern(
    actual: TensorView, expected: TensorView, tolerance: Tolerance, others: Sequence[TensorView]
) -> PatternFit | None:
    """Return the pattern of errors that fits best, or None. Signs of zeros do not count.

    `others` are tensors whose values may stand in place of the expected ones.
    """
    try:
        findings = recognize_patterns(
            *promote_tensors(actual, expected), replace(tolerance, signed_zeros=False), others
        )
    except IncomparableError:
        return None
    if not findings:
        return None
    best = findings[0]
    return PatternFit(name=best.pattern.value, confidence=best.confidence, evidence=best.evidence)


def tensor_statistics(
    actual: TensorView, expected: TensorView, tolerance: Tolerance
) -> TensorStatistics | None:
    """Return how two tensors differ. None if their elements do not correspond."""
    left, right = promote_tensors(actual, expected)
    try:
        measured, rows = measure(left, right, tolerance), breakdown(left, right, tolerance)
    except IncomparableError:
        return None
    over = rows.slices_over()
    return TensorStatistics(
        dtype=actual.dtype.value,
        reference_dtype=expected.dtype.value,
        shape=actual.shape,
        elements=measured.numel,
        different=measured.over,
        max_error=measured.max_error.value,
        max_error_index=measured.max_error.index,
        max_relative_error=_finite(measured.max_relative_error.value),
        relative_l2=_finite(measured.relative_l2),
        rmse=_finite(measured.rmse),
        max_ulps=measured.max_distance,
        nan=measured.actual_nan.count,
        inf=measured.actual_inf.count,
        rows=rows.length,
        rows_different=len(over),
        first_rows_different=tuple(rows.slice(int(number)).start for number in over[:_FIRST_ROWS]),
        heat=_error_map(left, right, tolerance),
    )


def _error_map(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> ErrorMap:
    blocks = heat_map(actual, expected, tolerance, height=_HEAT_HEIGHT, width=_HEAT_WIDTH)
    return ErrorMap(
        rows=blocks.rows,
        columns=blocks.columns,
        row_step=blocks.row_step,
        column_step=blocks.column_step,
        wrong=tuple(tuple(round(float(share), 4) for share in row) for row in blocks.share_over),
        wild=tuple(tuple(int(count) for count in row) for row in blocks.wild),
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
