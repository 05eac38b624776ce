"""The verdict on a divergent task where the reference is a build: its kernel and the reference's, each alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....runner.build_output.files.errors import BuildOutputError
from ....runner.compare.statistics.statistics import Tolerance
from ....runner.errors import UserError
from ....runner.localization.footprints import TaskFootprint
from ....runner.tensor.view import TensorView
from ...graph.alignment import Alignment
from ...graph.overwritten import intruders, writers_before
from ...graph.task_list import KernelTask
from ...replay.comparison import SIGN_OF_ZERO, NotWholeError, TaskValues, differs
from ...replay.recorded_build import RecordedBuild
from ...replay.task_replay import Fill, GivenTask, SharedMemoryError, TaskAlone
from ..experiments.experiment import RunAlone, Steps, Tell
from ..footprints.choice import representatives
from ..footprints.examine import Examination, examine
from ..footprints.writers import harmful_first, writers_into
from .attribution import READS_MORE, Attribution, DivergentTask, distance_of_inputs, largest_error
from .kept_state import state_kept
from .likeness import Likeness, likeness
from .task_class import INHERITING, Distances, TaskClass, classify, told
from .ulp import moved_by_one_ulp

_MOST_ALONE = 12
"""Tasks of one kernel that are run alone at most: each takes about five runs."""
_FOOTPRINT_BUDGET = 64 << 20
"""Bytes that a run may dump to see what tasks touch."""


@dataclass(frozen=True, kw_only=True)
class TwinKernels:
    """Tells where errors come from, by running tasks of both builds alone."""

    failing: RecordedBuild
    reference: RecordedBuild
    alignment: Alignment
    tolerance: Tolerance
    _examined: list[Examination] = field(default_factory=list[Examination])

    def attribute_all(self, divergent: Sequence[DivergentTask]) -> Steps[tuple[Attribution, ...]]:
        """One verdict a task. One that was run alone speaks for others of its kernels only where their inputs, their
        geometry and the pattern of their errors are alike; of a kernel, no more than a few are run."""
        spoken: dict[Likeness, Attribution] = {}
        alone: Counter[str] = Counter()
        verdicts: list[Attribution] = []
        for each in divergent:
            kernels = likeness(each, _counterpart(each), self.tolerance)
            known = None if kernels is None else spoken.get(kernels)
            if known is None and alone[each.task.name] == _MOST_ALONE:
                reason = (
                    f"{_MOST_ALONE} other tasks of the kernel were run alone, and none is known to be alike"
                )
                known = Attribution.without_distances(TaskClass.UNKNOWN, reason)
            if known is not None:
                verdicts.append(known)
                continue
            alone[each.task.name] += 1
            verdict = yield from self.attribute(each)
            verdicts.append(verdict)
            if verdict.task_class is not TaskClass.UNKNOWN and kernels is not None:
                reason = f"as task {each.task.ordinal} of the same kernel: {verdict.reason}"
                spoken[kernels] = replace(verdict, distances=None, reason=reason)
        return tuple(verdicts)

    def attribute(self, divergent: DivergentTask, *, inputs_diverge: bool = False) -> Steps[Attribution]:
        """Measure a task in up to four runs of it alone. `inputs_diverge`: tasks before it diverge too."""
        yield from Tell(f"running {divergent.task.name} alone")
        try:
            return (yield from self._measured(divergent, inputs_diverge=inputs_diverge))
        except (UserError, BuildOutputError, NotWholeError) as error:
            return Attribution.without_distances(TaskClass.UNKNOWN, str(error))

    def _measured(self, divergent: DivergentTask, *, inputs_diverge: bool) -> Steps[Attribution]:
        actual, expected = divergent.actual, divergent.expected
        right = expected.before
        failing = TaskAlone.of(self.failing, divergent.task, actual)
        reference = TaskAlone.of(self.reference, _counterpart(divergent), expected)
        fill, missed = yield from self._harmless_fill(reference, expected)
        if missed > 0:
            return Attribution.without_distances(
                TaskClass.UNKNOWN, f"alone, the reference's task misses its own result by {missed:.3g}"
            )

        shared = actual.before.keys() & right.keys()
        off = [i for i in sorted(shared) if differs(actual.before[i], right[i], self.tolerance)]
        try:
            GivenTask.of(failing, right, fill)
        except SharedMemoryError as error:
            # The reference's kernel would do no better there: it is not the kernel's error.
            reason = f"{error}{self._overwriters(divergent.task, off)}"
            return Attribution.without_distances(TaskClass.INTERACTION, reason)

        def error_of(alone: TaskAlone, given: Mapping[int, TensorView]) -> Steps[float]:
            return (yield from self._missed(GivenTask.of(alone, given, fill), expected))

        inputs = distance_of_inputs(actual.before, right)
        propagated = (yield from error_of(reference, {**right, **actual.before})) if inputs else 0.0
        moved = {index: moved_by_one_ulp(view) for index, view in right.items()}
        distances = Distances(
            out=self._error(actual.after, expected.after),
            introduced=(yield from error_of(failing, right)),
            propagated=propagated,
            inputs=0.0 if inputs == SIGN_OF_ZERO and not propagated else inputs,
            floor=(yield from error_of(reference, moved)),
        )
        surprising = [] if inputs_diverge else off
        task_class = classify(distances, disturbed=bool(surprising))
        reason = _reason(task_class, distances, inputs_diverge=inputs_diverge)
        if task_class is TaskClass.INTRODUCED and fill is not Fill.ZERO:
            zeroed = GivenTask.of(failing, right, Fill.ZERO)
            reason += "" if (yield from self._missed(zeroed, expected)) else f"; {READS_MORE}"
        if task_class is TaskClass.INTERACTION and not distances.inputs:
            kept = yield from state_kept(self.failing, failing, divergent, fill)
            if kept is not None:
                return replace(kept, distances=distances)
        if task_class is TaskClass.INTERACTION and failing.placement.inexact:
            task_class = TaskClass.UNKNOWN
            reason = f"{reason}; but it was not run where its tensors lay: {failing.placement.inexact}"
        reason += self._overwriters(divergent.task, surprising)
        beside: tuple[TaskFootprint, ...] = ()
        if task_class is TaskClass.INTERACTION:
            beside = harmful_first((yield from self._footprints()))
            writers = writers_into(beside, divergent.task)
            reason += f": {writers}" if writers else ""
        return Attribution(
            task_class=task_class,
            distances=distances,
            reason=reason,
            writers=beside,
            by_sign_of_zero=distances.inputs == SIGN_OF_ZERO and task_class in INHERITING,
        )

    def _harmless_fill(self, reference: TaskAlone, expected: TaskValues) -> Steps[tuple[Fill, float]]:
        """What may lie around the tensors of the reference's task so that it leaves what it left, and by how much it
        misses that: poison, or zeros where it reads of what it was not given."""
        missed = yield from self._missed(GivenTask.of(reference, expected.before, Fill.LOW), expected)
        if missed == 0:
            return Fill.LOW, missed
        zeroed = GivenTask.of(reference, expected.before, Fill.ZERO)
        return Fill.ZERO, (yield from self._missed(zeroed, expected))

    def _missed(self, given: GivenTask, expected: TaskValues) -> Steps[float]:
        (left,) = yield from RunAlone(tasks=(given,))
        return self._error(left.results, expected.after)

    def _error(self, results: Mapping[int, TensorView], expected: Mapping[int, TensorView]) -> float:
        """The largest relative L2 error of a tensor."""
        return largest_error(results, expected, self.tolerance)

    def _footprints(self) -> Steps[Sequence[TaskFootprint]]:
        """Of the failing build, examined once."""
        if not self._examined:
            yield from Tell("looking for tasks that write outside of their tensors")
            tasks = representatives(self.failing.tasks.tasks)
            self._examined.append((yield from examine(self.failing, tasks, budget=_FOOTPRINT_BUDGET)))
        return self._examined[0].found

    def _overwriters(self, task: KernelTask, arguments: Sequence[int]) -> str:
        """Who may have written over the arguments, in words."""
        for argument in arguments:
            writers = intruders(
                self.failing.tasks, self.reference.tasks, self.alignment, reader=task, argument=argument
            )
            if writers:
                named = ", ".join(f"{writer.name} (task {writer.ordinal})" for writer in writers[:4])
                return f": argument {argument} shares its buffer with what {named} writes"
            if not writers_before(self.failing.tasks, task, argument):
                return f": argument {argument} was so before any task wrote it: the harness's fault, or the runtime's"
        return ""


def _counterpart(divergent: DivergentTask) -> KernelTask:
    if divergent.counterpart is None:
        raise ValueError(
            f"task {divergent.task.ordinal}: expected a counterpart in the reference, found none"
        )
    return divergent.counterpart


def _reason(task_class: TaskClass, distances: Distances, *, inputs_diverge: bool) -> str:
    match task_class:
        case TaskClass.INTRODUCED:
            small = SIGN_OF_ZERO < distances.introduced <= distances.floor
            return (
                f"run alone on the reference's inputs, the result of the kernel is off by {told(distances.introduced)}"
                + (f"; one ulp of its inputs moves it by up to {distances.floor:.3g}" if small else "")
            )
        case TaskClass.INTERACTION:
            read = (
                "on the inputs of the run the reference's kernel does not make the error either"
                if inputs_diverge
                else (
                    "its inputs are not what the tasks before it left"
                    if distances.inputs
                    else "on the same inputs, in the run, it is not"
                )
            )
            return f"alone on the reference's inputs the kernel is right; {read}"
        case TaskClass.AMPLIFIED:
            factor = "" if distances.inputs == SIGN_OF_ZERO else f": {distances.factor:.3g} times as much"
            return (
                f"its inputs are off by {told(distances.inputs)}, its result by {told(distances.out)}{factor}"
            )
        case _:
            return f"the reference's kernel makes {told(distances.propagated)} of its inputs too"
