"""Finds where the error in a divergent task's results comes from, by running the task alone.

`TwoBuildAttributor` runs the tasks of the failing build and of a reference build, and `classify` decides by the
measured distances. `KnownInputsAttributor` has no reference build: it runs the failing build's task on inputs that are
known to be right. The result is an `Attribution`: a `TaskClass` and the reason in words.
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
from .experiments import DivergentTask, DumpWhole, RunAlone, Steps, Tell
from .footprints import Examination, describe_stray_writers, examine, representatives, sort_writers


class TaskClass(Enum):
    """The source of the error in a task's results."""

    INTRODUCED = "introduced"
    """Its kernel makes the error, on right inputs."""
    INHERITED = "inherited"
    """The error came with the inputs."""
    AMPLIFIED = "amplified"
    """The error came with the inputs, and any kernel for this task makes it much larger."""
    INTERACTION = "interaction"
    """Alone the kernel is right. The cause is a race, aliasing, or a missing dependency."""
    UNKNOWN = "unknown"
    """The error could not be measured."""


INHERITED_CLASSES = (TaskClass.INHERITED, TaskClass.AMPLIFIED)
"""In these classes the error came with the inputs."""


AMPLIFICATION = 10.0
"""An inherited error counts as amplified if the relative error grows by more than this factor."""


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Relative L2 distances for a task with kernel K in the failing build and kernel K* in the reference.

    In the failing run the task has inputs x. In the reference it has inputs r_in and results r_out.

    Attributes:
        out: d(K(x), r_out), as observed in the failing run.
        introduced: d(K(r_in), r_out), from a run of the task alone.
        propagated: d(K*(x), r_out), from a run of the task alone.
        inputs: d(x, r_in). `SIGN_ONLY_DISTANCE` if they differ only in signs of zeros, and K*(x) differs from r_out.
        floor: d(K*(r_in +- ulp), r_out), the effect of moving every input by one unit in the last place.
    """

    out: float
    introduced: float
    propagated: float
    inputs: float
    floor: float

    @property
    def factor(self) -> float | None:
        """Return the ratio of the result's error to that of the inputs. None if the inputs are right."""
        return self.out / self.inputs if 0 < self.inputs < math.inf else None


def classify(distances: Distances, *, unexpected_inputs: bool) -> TaskClass:
    """Return the class of a task by its distances.

    `unexpected_inputs` says that inputs are wrong although the tasks before it left the right values.

    If the inputs are right, both runs compute the same, and any deviation of K(r_in) counts. If the inputs are wrong, a
    deviation within the floor is rounding.
    """
    threshold = distances.floor if distances.inputs > SIGN_ONLY_DISTANCE else 0.0
    if distances.introduced > threshold:
        return TaskClass.INTRODUCED
    explained = distances.propagated + distances.floor
    if unexpected_inputs or distances.inputs == 0 or distances.out > 2 * explained:
        return TaskClass.INTERACTION
    if distances.out > AMPLIFICATION * distances.inputs:
        return TaskClass.AMPLIFIED
    return TaskClass.INHERITED


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """The class of a task, and the reason in words. `distances` is None if they were not measured.

    `writers` are tasks that write outside of their tensors, and so may have made the error. `by_sign_of_zero` says that
    the only reason is an input of -0.0 in place of 0.0.
    """

    task_class: TaskClass
    distances: Distances | None
    reason: str
    writers: tuple[TaskFootprint, ...] = ()
    by_sign_of_zero: bool = False

    @classmethod
    def unmeasured(cls, task_class: TaskClass, reason: str) -> Attribution:
        """Return an attribution without distances."""
        return cls(task_class=task_class, distances=None, reason=reason)

    @property
    def exceeds_floor(self) -> bool | None:
        """Return whether the error is larger than `Distances.floor`. None if it was not measured."""
        return None if self.distances is None else self.distances.out > self.distances.floor


class Attributor(Protocol):
    """Finds the class of divergent tasks."""

    def attribute(self, divergent: DivergentTask, *, inputs_diverge: bool = False) -> Steps[Attribution]:
        """Attribute one task. Its class is `UNKNOWN` if it cannot be measured.

        `inputs_diverge` says that tasks before it diverge too, so that wrong inputs are expected.
        """
        ...

    def attribute_all(self, divergent: Sequence[DivergentTask]) -> Steps[tuple[Attribution, ...]]:
        """Attribute several tasks. Returns one attribution for each task, in their order."""
        ...


_MAX_TASKS_ALONE = 12
"""At most this many tasks of one kernel run alone, because each takes about five runs."""
_FOOTPRINT_BUDGET = 64 << 20
"""A run dumps at most this many bytes in a search for tasks that write outside of their tensors."""


@dataclass(frozen=True, kw_only=True)
class TwoBuildAttributor:
    """Runs tasks of the failing build and their counterparts in the reference build alone."""

    failing: RecordedBuild
    reference: RecordedBuild
    alignment: Alignment
    tolerance: Tolerance
    _examined: list[Examination] = field(default_factory=list[Examination])

    def attribute_all(self, divergent: Sequence[DivergentTask]) -> Steps[tuple[Attribution, ...]]:
        """Attribute several tasks, at most `_MAX_TASKS_ALONE` of a kernel by runs of their own.

        A task that was run alone decides for the tasks with the same `similarity_key`.
        """
        known: dict[SimilarityKey, Attribution] = {}
        tasks_run: Counter[str] = Counter()
        attributions: list[Attribution] = []
        for each in divergent:
            kernel = each.task.name
            key = similarity_key(each, _counterpart(each), self.tolerance)
            if key is not None and key in known:
                attributions.append(known[key])
            elif tasks_run[kernel] == _MAX_TASKS_ALONE:
                reason = f"{_MAX_TASKS_ALONE} other tasks of the kernel were run alone, and none is known to be alike"
                attributions.append(Attribution.unmeasured(TaskClass.UNKNOWN, reason))
            else:
                tasks_run[kernel] += 1
                found = yield from self.attribute(each)
                attributions.append(found)
                if found.task_class is not TaskClass.UNKNOWN and key is not None:
                    reason = f"as task {each.task.ordinal} of the same kernel: {found.reason}"
                    known[key] = replace(found, distances=None, reason=reason)
        return tuple(attributions)

    def attribute(self, divergent: DivergentTask, *, inputs_diverge: bool = False) -> Steps[Attribution]:
        """Attribute a task by up to four runs of it alone, or more if it is right alone."""
        yield from Tell(f"running {divergent.task.name} alone")
        try:
            return (yield from self._measure(divergent, inputs_diverge=inputs_diverge))
        except (UserError, BuildOutputError, IncompleteDumpError) as error:
            return Attribution.unmeasured(TaskClass.UNKNOWN, str(error))

    def _measure(self, divergent: DivergentTask, *, inputs_diverge: bool) -> Steps[Attribution]:
        actual, expected = divergent.actual, divergent.expected_values
        failing = IsolatedTask.from_build(self.failing, divergent.task, actual)
        reference = IsolatedTask.from_build(self.reference, _counterpart(divergent), expected)
        fill, error = yield from self._harmless_fill(reference, expected)
        if error > 0:
            return Attribution.unmeasured(
                TaskClass.UNKNOWN,
                f"alone, the reference's task is off its own result by {describe_error(error)}",
            )
        wrong_inputs = _differing_tensors(actual.before, expected.before, self.tolerance)
        try:
            PreparedTask.prepare(failing, expected.before, fill)
        except OverlappingTensorsError as overlap:
            # The reference's kernel would do no better there, so it is not the kernel's error.
            reason = f"{overlap}{self._describe_overwriters(divergent.task, wrong_inputs)}"
            return Attribution.unmeasured(TaskClass.INTERACTION, reason)
        distances = yield from self._distances(failing, reference, fill, actual, expected)
        unexpected = [] if inputs_diverge else wrong_inputs
        task_class = classify(distances, unexpected_inputs=bool(unexpected))
        reason = _reason(task_class, distances, inputs_diverge=inputs_diverge)
        if task_class is TaskClass.INTERACTION:
            return (
                yield from self._explain_interaction(divergent, failing, fill, distances, reason, unexpected)
            )
        if task_class is TaskClass.INTRODUCED and fill is not Fill.ZERO:
            zeroed = PreparedTask.prepare(failing, expected.before, Fill.ZERO)
            reason += "" if (yield from self._run_error(zeroed, expected)) else f"; {UNDECLARED_READ_NOTE}"
        return Attribution(
            task_class=task_class,
            distances=distances,
            reason=reason + self._describe_overwriters(divergent.task, unexpected),
            by_sign_of_zero=distances.inputs == SIGN_ONLY_DISTANCE and task_class in INHERITED_CLASSES,
        )

    def _distances(
        self,
        failing: IsolatedTask,
        reference: IsolatedTask,
        fill: Fill,
        actual: TaskValues,
        expected: TaskValues,
    ) -> Steps[Distances]:
        def error_of(task: IsolatedTask, inputs: Mapping[int, TensorView]) -> Steps[float]:
            return (yield from self._run_error(PreparedTask.prepare(task, inputs, fill), expected))

        right = expected.before
        inputs = distance_of_inputs(actual.before, right)
        propagated = (yield from error_of(reference, {**right, **actual.before})) if inputs else 0.0
        perturbed = {index: perturb_by_one_ulp(view) for index, view in right.items()}
        return Distances(
            out=self._error(actual.after, expected.after),
            introduced=(yield from error_of(failing, right)),
            propagated=propagated,
            inputs=0.0 if inputs == SIGN_ONLY_DISTANCE and not propagated else inputs,
            floor=(yield from error_of(reference, perturbed)),
        )

    def _explain_interaction(
        self,
        divergent: DivergentTask,
        alone: IsolatedTask,
        fill: Fill,
        distances: Distances,
        reason: str,
        unexpected_inputs: Sequence[int],
    ) -> Steps[Attribution]:
        """Look for what spoils the results of a task that is right alone.

        That may be state that its kernel keeps, or another task that writes outside of its tensors.
        """
        if not distances.inputs:
            kept = yield from find_kept_state(self.failing, alone, divergent, fill)
            if kept is not None:
                return replace(kept, distances=distances)
        overwriters = self._describe_overwriters(divergent.task, unexpected_inputs)
        inexact = alone.placement.inexact_reason
        if inexact:
            return Attribution(
                task_class=TaskClass.UNKNOWN,
                distances=distances,
                reason=f"{reason}; but it was not run where its tensors lay: {inexact}{overwriters}",
            )
        footprints = sort_writers((yield from self._footprints()))
        writers = describe_stray_writers(footprints, divergent.task)
        return Attribution(
            task_class=TaskClass.INTERACTION,
            distances=distances,
            reason=reason + overwriters + (f": {writers}" if writers else ""),
            writers=footprints,
        )

    def _harmless_fill(self, reference: IsolatedTask, expected: TaskValues) -> Steps[tuple[Fill, float]]:
        """Return the fill of the surrounding memory with which the reference's task is right alone.

        It is poison, or zeros if the task reads outside of its tensors. Also returns the error that remains with it.
        """
        poisoned = PreparedTask.prepare(reference, expected.before, Fill.LOW)
        error = yield from self._run_error(poisoned, expected)
        if error == 0:
            return Fill.LOW, error
        zeroed = PreparedTask.prepare(reference, expected.before, Fill.ZERO)
        return Fill.ZERO, (yield from self._run_error(zeroed, expected))

    def _run_error(self, task: PreparedTask, expected: TaskValues) -> Steps[float]:
        (result,) = yield from RunAlone(tasks=(task,))
        return self._error(result.results, expected.after)

    def _error(self, results: Mapping[int, TensorView], expected: Mapping[int, TensorView]) -> float:
        return largest_error(results, expected, self.tolerance)

    def _footprints(self) -> Steps[Sequence[TaskFootprint]]:
        """Return the footprints of the failing build. It is examined once."""
        if not self._examined:
            yield from Tell("looking for tasks that write outside of their tensors")
            tasks = representatives(self.failing.tasks.tasks)
            self._examined.append((yield from examine(self.failing, tasks, budget=_FOOTPRINT_BUDGET)))
        return self._examined[0].found

    def _describe_overwriters(self, task: KernelTask, arguments: Sequence[int]) -> str:
        """Return a phrase for the tasks that may have written over one of these arguments, or an empty text."""
        for argument in arguments:
            writers = unexpected_writers(
                self.failing.tasks, self.reference.tasks, self.alignment, reader=task, argument=argument
            )
            if writers:
                named = ", ".join(f"{writer.name} (task {writer.ordinal})" for writer in writers[:4])
                return f": argument {argument} shares its buffer with what {named} writes"
            if not writers_before(self.failing.tasks, task, argument):
                return (
                    f": argument {argument} was wrong before any task wrote it: a fault of harness or runtime"
                )
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
            is_within_floor = SIGN_ONLY_DISTANCE < distances.introduced <= distances.floor
            note = (
                f"; with every input changed by one ulp, the reference's kernel is off by "
                f"{describe_error(distances.floor)}"
                if is_within_floor
                else ""
            )
            return (
                f"run alone on the reference's inputs, the result of the kernel is off by "
                f"{describe_error(distances.introduced)}{note}"
            )
        case TaskClass.INTERACTION:
            if inputs_diverge:
                in_run = "on the inputs of the run, the reference's kernel is right too"
            elif distances.inputs:
                in_run = "its inputs are not what the tasks before it left"
            else:
                in_run = "on the same inputs, in the run, it is not"
            return f"alone on the reference's inputs the kernel is right; {in_run}"
        case TaskClass.AMPLIFIED:
            factor = (
                "" if distances.inputs == SIGN_ONLY_DISTANCE else f": {distances.factor:.3g} times as much"
            )
            return (
                f"its inputs are off by {describe_error(distances.inputs)}, its result by "
                f"{describe_error(distances.out)}{factor}"
            )
        case _:
            error = describe_error(distances.propagated)
            return f"on the same wrong inputs the reference's kernel is off by {error} too"


@dataclass(frozen=True, kw_only=True)
class KnownInputsAttributor:
    """Runs tasks of the failing build alone, on inputs that are known to be right."""

    failing: RecordedBuild
    tolerance: Tolerance

    def attribute_all(self, divergent: Sequence[DivergentTask]) -> Steps[tuple[Attribution, ...]]:
        """Attribute each task by its own runs, because the known inputs differ from task to task."""
        attributions: list[Attribution] = []
        for each in divergent:
            attributions += [(yield from self.attribute(each))]
        return tuple(attributions)

    def attribute(self, divergent: DivergentTask, *, inputs_diverge: bool = False) -> Steps[Attribution]:
        """Attribute a task by runs of it alone, or as unknown if not all its expected inputs are known."""
        inputs = divergent.expected_inputs
        if inputs is None:
            return Attribution.unmeasured(
                TaskClass.UNKNOWN,
                "not all values that it should read are known: the error may have come with them",
            )
        yield from Tell(f"running {divergent.task.name} alone")
        try:
            return (yield from self._measure(divergent, inputs))
        except (UserError, BuildOutputError, IncompleteDumpError) as error:
            return Attribution.unmeasured(TaskClass.UNKNOWN, str(error))

    def _measure(self, divergent: DivergentTask, inputs: Mapping[int, TensorView]) -> Steps[Attribution]:
        actual, expected = divergent.actual, divergent.expected_values.after
        alone = IsolatedTask.from_build(self.failing, divergent.task, actual)

        def run_error(given: Mapping[int, TensorView], fill: Fill) -> Steps[float]:
            (result,) = yield from RunAlone(tasks=(PreparedTask.prepare(alone, given, fill),))
            return largest_error(result.results, expected, self.tolerance, beyond_tolerance=True)

        error = yield from run_error(inputs, Fill.LOW)
        if error:
            note = "" if (yield from run_error(inputs, Fill.ZERO)) else f"; {UNDECLARED_READ_NOTE}"
            return Attribution.unmeasured(
                TaskClass.INTRODUCED,
                f"alone on the known inputs the kernel misses the known result by {describe_error(error)}{note}",
            )
        if (yield from run_error(actual.before, Fill.LOW)):
            return Attribution(
                task_class=TaskClass.INHERITED,
                distances=None,
                reason="alone on the known inputs the kernel is right, on those of the run it is not: these bring "
                "the error",
                by_sign_of_zero=distance_of_inputs(actual.before, inputs) == SIGN_ONLY_DISTANCE,
            )
        kept = yield from find_kept_state(self.failing, alone, divergent, Fill.LOW)
        if kept is not None:
            return kept
        inexact = alone.placement.inexact_reason
        if inexact:
            return Attribution.unmeasured(
                TaskClass.UNKNOWN,
                f"alone the kernel is right, but it was not run where its tensors lay: {inexact}",
            )
        return Attribution.unmeasured(
            TaskClass.INTERACTION, "alone the kernel is right, on the known inputs and on those of the run"
        )


UNDECLARED_READ_NOTE = (
    "where all memory around its tensors holds zeros it is right: it reads what it was not given"
)
"""The note for a task that is right with zeros in the memory around its tensors, and wrong with poison there."""


def describe_error(error: float) -> str:
    """Return a distance in words."""
    return "the sign of zeros alone" if error == SIGN_ONLY_DISTANCE else f"{error:.3g} (relative L2)"


def distance_of_inputs(actual: Mapping[int, TensorView], right: Mapping[int, TensorView]) -> float:
    """Return the largest relative L2 error of an input that both mappings have. Signs of zeros count."""
    pairs = [(actual[index], right[index]) for index in actual.keys() & right.keys()]
    return max((distance(*pair, signed_zeros=True) for pair in pairs), default=0.0)


def largest_error(
    results: Mapping[int, TensorView],
    expected: Mapping[int, TensorView],
    tolerance: Tolerance,
    *,
    beyond_tolerance: bool = False,
) -> float:
    """Return the largest relative L2 error of a tensor, or only of tensors that exceed the tolerance."""
    errors = (
        distance(results[index], view, signed_zeros=tolerance.signed_zeros)
        for index, view in expected.items()
        if not beyond_tolerance or differs(results[index], view, tolerance)
    )
    return max(errors, default=0.0)


_MAX_OTHER_TASKS = 16
"""At most this many other tasks of a kernel run before the task in question."""
_MAX_TENSOR_BYTES = 64 << 20
"""The tensors of these other tasks take at most this many bytes together."""
_MAX_BUFFER_BYTES = 1 << 29
"""The buffers of these other tasks take at most this many bytes together. A single task may have larger ones."""


def find_kept_state(
    build: RecordedBuild, alone: IsolatedTask, divergent: DivergentTask, fill: Fill
) -> Steps[Attribution | None]:
    """Run a task after other tasks of its kernel, which may keep state from task to task in a static variable.

    The other tasks were submitted earlier. For the first task of a kernel, they are later tasks that do not wait for
    it. Returns None if there are no other tasks, or if they do not change the task's results.

    Raises:
        UserError: a task cannot be taken alone, or does not run.
        IncompleteDumpError: the dump of its values is incomplete.
    """
    others = _tasks_of_same_kernel(build, divergent.task)
    if not others:
        return None
    yield from Tell(f"running {divergent.task.name} after {plural(len(others), 'other task')} of its kernel")
    dump = yield from DumpWhole(build=build, tasks={task.ordinal for task in others})
    prepared: dict[int, PreparedTask] = {}
    bytes_left = _MAX_BUFFER_BYTES
    for task in others:
        values = values_of(dump, task)
        other = IsolatedTask.from_build(build, task, values)
        bytes_left -= other.placement.bytes
        if prepared and bytes_left < 0:
            break
        prepared[task.ordinal] = PreparedTask.prepare(other, values.before, fill)
    inputs = divergent.expected_inputs
    itself = PreparedTask.prepare(alone, divergent.expected_values.before if inputs is None else inputs, fill)
    (first,) = yield from RunAlone(tasks=(itself,))
    in_order = (prepared[ordinal] for ordinal in sorted(prepared))
    *_, last = yield from RunAlone(tasks=(*in_order, itself))
    change = max((distance(last.results[index], view) for index, view in first.results.items()), default=0.0)
    if change == 0:
        return None
    return Attribution.unmeasured(
        TaskClass.INTRODUCED,
        f"its kernel keeps state from task to task: alone the task is right, after "
        f"{plural(len(prepared), 'other task')} of the kernel its result is off by "
        f"{describe_error(change)}",
    )


def _tasks_of_same_kernel(build: RecordedBuild, task: KernelTask) -> list[KernelTask]:
    """Return tasks of the same kernel that may have run before a task, the nearest first."""
    earlier = reversed(build.tasks.tasks[: task.ordinal])
    ancestors = ancestors_by_position(build.tasks.graph)
    later = (
        other for other in build.tasks.tasks[task.ordinal + 1 :] if not is_waited_for(ancestors, task, other)
    )
    return _first_of_same_kernel(task, earlier) or _first_of_same_kernel(task, later)


def _first_of_same_kernel(task: KernelTask, others: Iterable[KernelTask]) -> list[KernelTask]:
    """Return the first other tasks with the task's kernels, within the limits of number and bytes."""
    chosen: list[KernelTask] = []
    bytes_left = _MAX_TENSOR_BYTES
    for other in others:
        if other.kernels != task.kernels:
            continue
        bytes_left -= other.all_bytes
        if bytes_left < 0 or len(chosen) == _MAX_OTHER_TASKS:
            break
        chosen.append(other)
    return chosen


@dataclass(frozen=True)
class SimilarityKey:
    """Holds what tasks with the same source of their errors have in common.

    `kernels` are those of both builds. `geometry` holds the shapes and strides of the tensors. `wrong_inputs` are the
    arguments that are wrong before the task. `errors` are the arguments that are wrong after it, with their patterns.
    """

    kernels: tuple[str, str]
    geometry: tuple[tuple[tuple[int, ...], tuple[int, ...]] | None, ...]
    wrong_inputs: tuple[int, ...]
    errors: tuple[tuple[int, tuple[Pattern, ...]], ...]


def similarity_key(
    divergent: DivergentTask, counterpart: KernelTask, tolerance: Tolerance
) -> SimilarityKey | None:
    """Return the key of a task, or None if one of its errors shows no pattern."""
    actual, expected = divergent.actual, divergent.expected_values
    errors = tuple(
        (index, _patterns(actual.after[index], expected.after[index]))
        for index in _differing_tensors(actual.after, expected.after, tolerance)
    )
    if not all(patterns for _, patterns in errors):
        return None
    return SimilarityKey(
        kernels=(divergent.task.name, counterpart.name),
        geometry=tuple(
            None if argument.region is None else (argument.region.shape, argument.region.strides)
            for argument in divergent.task.task.arguments
        ),
        wrong_inputs=tuple(_differing_tensors(actual.before, expected.before, tolerance)),
        errors=errors,
    )


def _differing_tensors(
    actual: Mapping[int, TensorView], expected: Mapping[int, TensorView], tolerance: Tolerance
) -> list[int]:
    """Return the arguments whose tensors differ, among those that both mappings have."""
    shared = sorted(actual.keys() & expected.keys())
    return [index for index in shared if differs(actual[index], expected[index], tolerance)]


def _patterns(actual: TensorView, expected: TensorView) -> tuple[Pattern, ...]:
    try:
        found = recognize_patterns(*promote_tensors(actual, expected), Tolerance())
    except IncomparableError:
        return ()
    return tuple(sorted({match.pattern for match in found}, key=lambda pattern: pattern.value))


_SEED = 2026
"""The random choice of a perturbation has this seed, so that the same inputs give the same attribution again."""


_LARGEST = {
    DType.FLOAT64: 0x7FEFFFFFFFFFFFFF,
    DType.FLOAT32: 0x7F7FFFFF,
    DType.FLOAT16: 0x7BFF,
    DType.BFLOAT16: 0x7F7F,
}
"""The bits of the largest finite number of each floating type."""


def perturb_by_one_ulp(view: TensorView) -> TensorView:
    """Return a tensor with every finite element moved by one unit in the last place, up or down at random.

    Zeros, the largest finite numbers and tensors of integers stay as they are.
    """
    if not view.dtype.is_floating:
        return view
    values = view.contiguous()
    bits = np.ravel(values).view(f"<i{view.dtype.itemsize}").copy()
    step = np.random.default_rng(_SEED).choice(np.array([-1, 1], bits.dtype), bits.shape)
    magnitude = bits & np.iinfo(bits.dtype).max
    # These stay: a step from zero may change the sign, and one from the largest finite number may give infinity.
    movable = (magnitude > 0) & (magnitude < _LARGEST[view.dtype])
    bits[movable] += step[movable]
    return TensorView.from_contiguous(view.name, view.dtype, view.shape, bits.view(view.dtype.storage))
