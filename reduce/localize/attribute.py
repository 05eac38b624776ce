"""Where the error in a divergent task's results comes from.

Where the reference is a build, its kernel and the failing one each run alone (`TwoBuildAttributor`), and `classify`
gives the verdict from the measured distances. `perturb_by_one_ulp` bounds what rounding of the inputs alone can do.
Where only values are known, the kernel runs on the inputs that it should have had (`KnownInputsAttributor`). A kernel
that is right alone may keep state from task to task, as a static variable does: `find_kept_state` runs it after other
tasks. Tasks of one `similarity_key` share a verdict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

import numpy as np

from ...runner.build_output.files import BuildOutputError
from ...runner.compare.finding import Pattern
from ...runner.compare.judges import recognize_patterns
from ...runner.compare.statistics import IncomparableError, Tolerance
from ...runner.errors import UserError
from ...runner.localization_job import TaskFootprint
from ...runner.tensor import DType, TensorView
from ...store.vocabulary import plural
from ..graph.tasks import (
    Alignment,
    KernelTask,
    ancestors_by_position,
    is_waited_for,
    unexpected_writers,
    writers_before,
)
from ..replay.replay import (
    SIGN_ONLY_DISTANCE,
    IncompleteDumpError,
    RecordedBuild,
    TaskValues,
    differs,
    distance,
    promote_tensors,
    values_of,
)
from ..replay.task_replay import Fill, IsolatedTask, OverlappingTensorsError, PreparedTask
from .experiments import DumpPair, DumpWhole, RunAlone, Steps, Tell
from .footprints import Examination, examine, harmful_first, representatives, writers_into


class TaskClass(Enum):
    """Says where the error in a task's results comes from."""

    INTRODUCED = "introduced"
    """Its kernel makes the error, on right inputs."""
    INHERITED = "inherited"
    """The error came with the inputs."""
    AMPLIFIED = "amplified"
    """The error came with the inputs, and any kernel for this task makes it much larger."""
    INTERACTION = "interaction"
    """Neither kernel nor inputs: alone the kernel is right. A race, aliasing, or a missing dependency."""
    UNKNOWN = "unknown"
    """The error could not be measured."""


INHERITED_CLASSES = (TaskClass.INHERITED, TaskClass.AMPLIFIED)
"""In these classes the error came with the inputs."""
AMPLIFICATION = 10.0
"""An inherited error is called amplified if the relative error grows by more than this factor."""


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Relative L2 distances to the reference's result of a task with kernel K, and kernel K* in the reference build.

    Attributes:
        out: d(K(x), r_out) for the inputs x of the failing run, as observed in it.
        introduced: d(K(r_in), r_out), by running the task alone.
        propagated: d(K*(x), r_out), by running the task alone.
        inputs: d(x, r_in); `SIGN_ONLY_DISTANCE` where they differ in the sign of zeros alone, and K*(x) is off by it.
        floor: d(K*(r_in +- ulp), r_out), the effect of changing every input by one unit in the last place.
    """

    out: float
    introduced: float
    propagated: float
    inputs: float
    floor: float

    @property
    def factor(self) -> float | None:
        """Return how many times the inputs' relative error the result's error is; None where the inputs are right."""
        return self.out / self.inputs if 0 < self.inputs < math.inf else None


def classify(distances: Distances, *, disturbed: bool) -> TaskClass:
    """The verdict from four measured distances.

    `disturbed` says that inputs are wrong though every task before it left what it should. With right inputs every
    deviation of K(r_in) counts, since the two runs then compute the same. Where the inputs deviate too, a deviation
    within the floor is rounding.
    """
    threshold = distances.floor if distances.inputs > SIGN_ONLY_DISTANCE else 0.0
    if distances.introduced > threshold:
        return TaskClass.INTRODUCED
    explained = distances.propagated + distances.floor
    if disturbed or distances.inputs == 0 or distances.out > 2 * explained:
        return TaskClass.INTERACTION
    if distances.out > AMPLIFICATION * distances.inputs:
        return TaskClass.AMPLIFIED
    return TaskClass.INHERITED


def describe_error(error: float) -> str:
    """An error in words, as the distance by which something is off."""
    return "the sign of zeros alone" if error == SIGN_ONLY_DISTANCE else f"{error:.3g}"


UNDECLARED_READ_NOTE = (
    "where all memory around its tensors holds zeros it is right: it reads what it was not given"
)
"""This text is added to the verdict on a task that misses its result where the memory around its tensors is poisoned.
"""


@dataclass(frozen=True, kw_only=True)
class DivergentTask:
    """A task that left something else than it should, in the run that was `dumped` with all its arguments whole.

    `counterpart` is the same task of the reference; None where no reference is run. Values are read from the dump each
    time they are needed, because those of all divergent tasks may be more than memory holds.
    """

    task: KernelTask
    counterpart: KernelTask | None
    dumped: DumpPair
    exceeds_harness: bool
    """Whether the error is over the case's own tolerance too, or that tolerance is not known."""

    @property
    def actual(self) -> TaskValues:
        """Return all values of the task in the run."""
        return values_of(self.dumped.actual, self.task)

    @property
    def expected_values(self) -> TaskValues:
        """Return the known right values."""
        return self.dumped.expected.values_of(self.task.ordinal)

    @property
    def right_inputs(self) -> Mapping[int, TensorView] | None:
        """Return all tensors that the task should have read; None where one of them is not known."""
        return self.dumped.expected.inputs_of(self.task.ordinal)


def distance_of_inputs(actual: Mapping[int, TensorView], right: Mapping[int, TensorView]) -> float:
    """The largest relative L2 error of a tensor that a task read and both mappings have; signs of zeros count."""
    read = [(actual[index], right[index]) for index in actual.keys() & right.keys()]
    return max((distance(*pair, signed_zeros=True) for pair in read), default=0.0)


def largest_error(
    results: Mapping[int, TensorView],
    expected: Mapping[int, TensorView],
    tolerance: Tolerance,
    *,
    beyond: bool = False,
) -> float:
    """The largest relative L2 error of a tensor; with `beyond`, only of tensors that are beyond the tolerance."""
    errors = (
        distance(results[index], view, signed_zeros=tolerance.signed_zeros)
        for index, view in expected.items()
        if not beyond or differs(results[index], view, tolerance)
    )
    return max(errors, default=0.0)


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """The class of a task, and the reason in words. `distances` is None where they could not be measured.

    `writers` are tasks that write outside of their tensors, where such a task may have made the error.
    `by_sign_of_zero` says that the task is off because it reads -0.0 in place of 0.0, and for no other reason.
    """

    task_class: TaskClass
    distances: Distances | None
    reason: str
    writers: tuple[TaskFootprint, ...] = ()
    by_sign_of_zero: bool = False

    @classmethod
    def unmeasured(cls, task_class: TaskClass, reason: str) -> Attribution:
        """The attribution of a task whose distances were not measured, or could not be."""
        return cls(task_class=task_class, distances=None, reason=reason)

    @property
    def exceeds_floor(self) -> bool | None:
        """Return whether the error is larger than the floor; None where it was not measured.

        The floor is the effect of one unit in the last place of every input.
        """
        return None if self.distances is None else self.distances.out > self.distances.floor


class Attributor(Protocol):
    """Finds where errors come from, by asking for runs of tasks alone."""

    def attribute(self, divergent: DivergentTask, *, inputs_diverge: bool = False) -> Steps[Attribution]:
        """The verdict on one task, `UNKNOWN` where it could not be measured.

        `inputs_diverge` says that tasks before it are known to diverge too, so that wrong inputs are expected.
        """
        ...

    def attribute_all(self, divergent: Sequence[DivergentTask]) -> Steps[tuple[Attribution, ...]]:
        """One verdict for each task, in their order; one run may decide for several tasks."""
        ...


_MOST_TASKS = 16
"""At most this many other tasks of the kernel are run, the nearest first, because each more costs time."""
_MOST_BYTES = 64 << 20
"""The tensors of these tasks take at most this many bytes."""
_MAX_BUFFER_BYTES = 1 << 29
"""The buffers of these tasks take at most this many bytes. Each task has its own; those of a single task may be larger.
"""


def find_kept_state(
    build: RecordedBuild, alone: IsolatedTask, divergent: DivergentTask, fill: Fill
) -> Steps[Attribution | None]:
    """The verdict on a task that is right alone, but not after other tasks of its kernel.

    The other tasks are those submitted earlier. For the first task of the kernel they are those that do not wait for
    it. None where the task is right then too, or there are no other tasks.

    Raises:
        UserError: a task cannot be taken alone, or does not run.
        IncompleteDumpError: not all of its values were recorded.
    """
    others = _tasks_of_same_kernel(build, divergent.task)
    if not others:
        return None
    yield from Tell(f"running {divergent.task.name} after {plural(len(others), 'other task')} of it")
    dump = yield from DumpWhole(build=build, tasks={task.ordinal for task in others})
    before: dict[int, PreparedTask] = {}
    left = _MAX_BUFFER_BYTES
    for task in others:
        values = values_of(dump, task)
        other = IsolatedTask.from_build(build, task, values)
        left -= other.placement.bytes
        if before and left < 0:
            break
        before[task.ordinal] = PreparedTask.prepare(other, values.before, fill)
    right = divergent.right_inputs
    itself = PreparedTask.prepare(alone, divergent.expected_values.before if right is None else right, fill)
    (once,) = yield from RunAlone(tasks=(itself,))
    in_turn = (before[ordinal] for ordinal in sorted(before))
    *_, after = yield from RunAlone(tasks=(*in_turn, itself))
    changed = max((distance(after.results[index], view) for index, view in once.results.items()), default=0.0)
    if changed == 0:
        return None
    return Attribution(
        task_class=TaskClass.INTRODUCED,
        distances=None,
        reason=f"its kernel keeps state from task to task: alone the task is right, after "
        f"{plural(len(before), 'other task')} of the kernel its result is off by {changed:.3g}",
    )


def _tasks_of_same_kernel(build: RecordedBuild, task: KernelTask) -> list[KernelTask]:
    """Tasks of the same kernel that may have run before a task, the nearest first."""
    earlier = reversed(build.tasks.tasks[: task.ordinal])
    waited = ancestors_by_position(build.tasks.graph)
    later = (
        other for other in build.tasks.tasks[task.ordinal + 1 :] if not is_waited_for(waited, task, other)
    )
    return _take_nearest(task, earlier) or _take_nearest(task, later)


def _take_nearest(task: KernelTask, others: Iterable[KernelTask]) -> list[KernelTask]:
    chosen: list[KernelTask] = []
    left = _MOST_BYTES
    for other in others:
        if other.kernels != task.kernels:
            continue
        left -= other.all_bytes
        if left < 0 or len(chosen) == _MOST_TASKS:
            break
        chosen.append(other)
    return chosen


@dataclass(frozen=True, kw_only=True)
class KnownInputsAttributor:
    """Finds where errors come from by running tasks of the failing build alone, on inputs known to be right."""

    failing: RecordedBuild
    tolerance: Tolerance

    def attribute_all(self, divergent: Sequence[DivergentTask]) -> Steps[tuple[Attribution, ...]]:
        """One verdict for each task, from its own runs: the known inputs differ from task to task."""
        attributions: list[Attribution] = []
        for each in divergent:
            attributions += [(yield from self.attribute(each))]
        return tuple(attributions)

    def attribute(self, divergent: DivergentTask, *, inputs_diverge: bool = False) -> Steps[Attribution]:
        """Measure a task in runs of it alone, two where it is right; unknown where its right inputs are."""
        right = divergent.right_inputs
        if right is None:
            return Attribution.unmeasured(
                TaskClass.UNKNOWN,
                "not all values that it should read are known: the error may have come with them",
            )
        yield from Tell(f"running {divergent.task.name} alone")
        actual, expected = divergent.actual, divergent.expected_values.after
        try:
            alone = IsolatedTask.from_build(self.failing, divergent.task, actual)
            (left,) = yield from RunAlone(tasks=(PreparedTask.prepare(alone, right, Fill.LOW),))
            if missed := self._error(left.results, expected):
                (left,) = yield from RunAlone(tasks=(PreparedTask.prepare(alone, right, Fill.ZERO),))
                reads = "" if self._error(left.results, expected) else f"; {UNDECLARED_READ_NOTE}"
                return Attribution.unmeasured(
                    TaskClass.INTRODUCED,
                    f"alone on the known inputs the kernel misses the known result by {describe_error(missed)}{reads}",
                )
            (left,) = yield from RunAlone(tasks=(PreparedTask.prepare(alone, actual.before, Fill.LOW),))
            if self._error(left.results, expected):
                return Attribution(
                    task_class=TaskClass.INHERITED,
                    distances=None,
                    reason="alone on the known inputs the kernel is right, on those of the run it is not: these bring "
                    "the error",
                    by_sign_of_zero=distance_of_inputs(actual.before, right) == SIGN_ONLY_DISTANCE,
                )
            if (kept := (yield from find_kept_state(self.failing, alone, divergent, Fill.LOW))) is not None:
                return kept
        except (UserError, BuildOutputError, IncompleteDumpError) as error:
            return Attribution.unmeasured(TaskClass.UNKNOWN, str(error))
        if alone.placement.inexact_reason:
            return Attribution.unmeasured(
                TaskClass.UNKNOWN,
                f"alone the kernel is right, but not where its tensors lay: {alone.placement.inexact_reason}",
            )
        return Attribution.unmeasured(
            TaskClass.INTERACTION, "alone the kernel is right, on the known inputs and on those of the run"
        )

    def _error(self, results: Mapping[int, TensorView], expected: Mapping[int, TensorView]) -> float:
        """The largest relative L2 error of a tensor that is off; 0 where none is."""
        return largest_error(results, expected, self.tolerance, beyond=True)


@dataclass(frozen=True)
class SimilarityKey:
    """A key that is equal for tasks that are alike.

    It holds the kernels of both builds and the shapes and strides of the tensors. It also holds the arguments that are
    wrong before the task, and the patterns of those that are wrong after it.
    """

    kernels: tuple[str, str]
    geometry: tuple[tuple[tuple[int, ...], tuple[int, ...]] | None, ...]
    wrong_inputs: tuple[int, ...]
    errors: tuple[tuple[int, tuple[Pattern, ...]], ...]


def similarity_key(
    divergent: DivergentTask, counterpart: KernelTask, tolerance: Tolerance
) -> SimilarityKey | None:
    """The key of a task; None where an error shows no pattern: then nothing says that another error is of its kind."""
    actual, expected = divergent.actual, divergent.expected_values
    wrong = [
        index
        for index, view in actual.after.items()
        if index in expected.after and differs(view, expected.after[index], tolerance)
    ]
    errors = tuple((index, _patterns(actual.after[index], expected.after[index])) for index in sorted(wrong))
    if not all(patterns for _, patterns in errors):
        return None
    return SimilarityKey(
        kernels=(divergent.task.name, counterpart.name),
        geometry=tuple(
            None if argument.region is None else (argument.region.shape, argument.region.strides)
            for argument in divergent.task.task.arguments
        ),
        wrong_inputs=tuple(
            index
            for index, view in sorted(actual.before.items())
            if index in expected.before and differs(view, expected.before[index], tolerance)
        ),
        errors=errors,
    )


def _patterns(actual: TensorView, expected: TensorView) -> tuple[Pattern, ...]:
    try:
        found = recognize_patterns(*promote_tensors(actual, expected), Tolerance())
    except IncomparableError:
        return ()
    return tuple(sorted({match.pattern for match in found}, key=lambda pattern: pattern.value))


_SEED = 2026
"""The perturbation has this seed. A fixed one makes the same input give the same answer again."""
_LARGEST = {
    DType.FLOAT64: 0x7FEFFFFFFFFFFFFF,
    DType.FLOAT32: 0x7F7FFFFF,
    DType.FLOAT16: 0x7BFF,
    DType.BFLOAT16: 0x7F7F,
}
"""For each floating type, these are the bits of its largest finite number."""


def perturb_by_one_ulp(view: TensorView) -> TensorView:
    """A tensor with every finite floating element moved by one unit in the last place.

    A fixed random choice moves each element up or down. A tensor of integers is returned unchanged.
    """
    if not view.dtype.is_floating:
        return view
    values = view.contiguous()
    bits = np.ravel(values).view(f"<i{view.dtype.itemsize}").copy()
    step = np.random.default_rng(_SEED).choice(np.array([-1, 1], bits.dtype), bits.shape)
    magnitude = bits & np.iinfo(bits.dtype).max
    # Zero has nothing below it. Infinities, NaN and the largest number stay what they are.
    movable = (magnitude > 0) & (magnitude < _LARGEST[view.dtype])
    bits[movable] += step[movable]
    return TensorView.from_contiguous(view.name, view.dtype, view.shape, bits.view(view.dtype.storage))


_MAX_TASKS_ALONE = 12
"""At most this many tasks of one kernel are run alone, because each takes about five runs."""
_FOOTPRINT_BUDGET = 64 << 20
"""A run may dump this many bytes to see what tasks touch."""


@dataclass(frozen=True, kw_only=True)
class TwoBuildAttributor:
    """Finds where errors come from by running tasks of both builds alone."""

    failing: RecordedBuild
    reference: RecordedBuild
    alignment: Alignment
    tolerance: Tolerance
    _examined: list[Examination] = field(default_factory=list[Examination])

    def attribute_all(self, divergent: Sequence[DivergentTask]) -> Steps[tuple[Attribution, ...]]:
        """One verdict for each task.

        The verdict on a task that was run alone holds for others of its kernels only where their inputs, geometry and
        error patterns are alike. At most `_MAX_TASKS_ALONE` tasks of a kernel are run.
        """
        spoken: dict[SimilarityKey, Attribution] = {}
        alone: Counter[str] = Counter()
        verdicts: list[Attribution] = []
        for each in divergent:
            kernels = similarity_key(each, _counterpart(each), self.tolerance)
            known = None if kernels is None else spoken.get(kernels)
            if known is None and alone[each.task.name] == _MAX_TASKS_ALONE:
                reason = f"{_MAX_TASKS_ALONE} other tasks of the kernel were run alone, and none is known to be alike"
                known = Attribution.unmeasured(TaskClass.UNKNOWN, reason)
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
        """Measure a task in up to four runs of it alone. `inputs_diverge` says that tasks before it diverge too."""
        yield from Tell(f"running {divergent.task.name} alone")
        try:
            return (yield from self._measure(divergent, inputs_diverge=inputs_diverge))
        except (UserError, BuildOutputError, IncompleteDumpError) as error:
            return Attribution.unmeasured(TaskClass.UNKNOWN, str(error))

    def _measure(self, divergent: DivergentTask, *, inputs_diverge: bool) -> Steps[Attribution]:
        """Run the task of both builds alone, on the reference's inputs, and say what its divergence comes from."""
        actual, expected = divergent.actual, divergent.expected_values
        right = expected.before
        failing = IsolatedTask.from_build(self.failing, divergent.task, actual)
        reference = IsolatedTask.from_build(self.reference, _counterpart(divergent), expected)
        fill, missed = yield from self._harmless_fill(reference, expected)
        if missed > 0:
            return Attribution.unmeasured(
                TaskClass.UNKNOWN, f"alone, the reference's task misses its own result by {missed:.3g}"
            )

        shared = actual.before.keys() & right.keys()
        off = [i for i in sorted(shared) if differs(actual.before[i], right[i], self.tolerance)]
        try:
            PreparedTask.prepare(failing, right, fill)
        except OverlappingTensorsError as error:
            # The reference's kernel would do no better there, so it is not the kernel's error.
            reason = f"{error}{self._overwriters(divergent.task, off)}"
            return Attribution.unmeasured(TaskClass.INTERACTION, reason)

        def error_of(alone: IsolatedTask, given: Mapping[int, TensorView]) -> Steps[float]:
            return (yield from self._run_error(PreparedTask.prepare(alone, given, fill), expected))

        inputs = distance_of_inputs(actual.before, right)
        propagated = (yield from error_of(reference, {**right, **actual.before})) if inputs else 0.0
        moved = {index: perturb_by_one_ulp(view) for index, view in right.items()}
        distances = Distances(
            out=self._error(actual.after, expected.after),
            introduced=(yield from error_of(failing, right)),
            propagated=propagated,
            inputs=0.0 if inputs == SIGN_ONLY_DISTANCE and not propagated else inputs,
            floor=(yield from error_of(reference, moved)),
        )
        surprising = [] if inputs_diverge else off
        task_class = classify(distances, disturbed=bool(surprising))
        reason = _reason(task_class, distances, inputs_diverge=inputs_diverge)
        if task_class is TaskClass.INTRODUCED and fill is not Fill.ZERO:
            zeroed = PreparedTask.prepare(failing, right, Fill.ZERO)
            reason += "" if (yield from self._run_error(zeroed, expected)) else f"; {UNDECLARED_READ_NOTE}"
        if task_class is TaskClass.INTERACTION and not distances.inputs:
            kept = yield from find_kept_state(self.failing, failing, divergent, fill)
            if kept is not None:
                return replace(kept, distances=distances)
        if task_class is TaskClass.INTERACTION and failing.placement.inexact_reason:
            task_class = TaskClass.UNKNOWN
            reason = f"{reason}; but it was not run where its tensors lay: {failing.placement.inexact_reason}"
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
            by_sign_of_zero=distances.inputs == SIGN_ONLY_DISTANCE and task_class in INHERITED_CLASSES,
        )

    def _harmless_fill(self, reference: IsolatedTask, expected: TaskValues) -> Steps[tuple[Fill, float]]:
        """Return which contents of the memory around its tensors let the reference's task leave what it left before.

        That is poison, or zeros where the task reads what it was not given. Also returns by how much the task misses
        its result.
        """
        missed = yield from self._run_error(
            PreparedTask.prepare(reference, expected.before, Fill.LOW), expected
        )
        if missed == 0:
            return Fill.LOW, missed
        zeroed = PreparedTask.prepare(reference, expected.before, Fill.ZERO)
        return Fill.ZERO, (yield from self._run_error(zeroed, expected))

    def _run_error(self, given: PreparedTask, expected: TaskValues) -> Steps[float]:
        (left,) = yield from RunAlone(tasks=(given,))
        return self._error(left.results, expected.after)

    def _error(self, results: Mapping[int, TensorView], expected: Mapping[int, TensorView]) -> float:
        """The largest relative L2 error of a tensor."""
        return largest_error(results, expected, self.tolerance)

    def _footprints(self) -> Steps[Sequence[TaskFootprint]]:
        """The footprints of the failing build, which is examined once."""
        if not self._examined:
            yield from Tell("looking for tasks that write outside of their tensors")
            tasks = representatives(self.failing.tasks.tasks)
            self._examined.append((yield from examine(self.failing, tasks, budget=_FOOTPRINT_BUDGET)))
        return self._examined[0].found

    def _overwriters(self, task: KernelTask, arguments: Sequence[int]) -> str:
        """Return which tasks may have written over the arguments, in words."""
        for argument in arguments:
            writers = unexpected_writers(
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
            small = SIGN_ONLY_DISTANCE < distances.introduced <= distances.floor
            return (
                f"run alone on the reference's inputs, the result of the kernel is off by "
                f"{describe_error(distances.introduced)}"
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
            factor = (
                "" if distances.inputs == SIGN_ONLY_DISTANCE else f": {distances.factor:.3g} times as much"
            )
            return (
                f"its inputs are off by {describe_error(distances.inputs)}, its result by "
                f"{describe_error(distances.out)}{factor}"
            )
        case _:
            return f"the reference's kernel makes {describe_error(distances.propagated)} of its inputs too"
