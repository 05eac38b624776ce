"""Why a case fails: which elements of its outputs are over its tolerance, by how much, and which tasks write them.

`OutputJudge` finds the wrong elements of a run's outputs. `last_writers` says which task writes each element last, and
`unwritten` which wrong elements no task writes: those are wrong without any task being wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from ...runner.build_output.directory import TensorFolder
from ...runner.build_output.files import BuildOutputError
from ...runner.build_output.task_graph import Region
from ...runner.compare.judges import HARNESS_TOLERANCE
from ...runner.compare.statistics import Tolerance
from ...runner.tensor import TensorView, run_values, spans
from ..graph.submits import entry_tensor, find_submits
from ..graph.tasks import KernelTask
from ..replay.replay import RecordedBuild

Mask = npt.NDArray[np.bool_]
_TOLERANCE_FACTOR = 2.0
"""Where the case's tolerance is not known, a right build may have this many times the good build's error."""


@dataclass(frozen=True, kw_only=True)
class WrongOutput:
    """An output over the tolerance.

    `wrong` is flat and has one element for each element of the tensor. `worst` is the largest error, as a multiple of
    what the tolerance allows there. It is infinite for NaN, Inf, or a tensor that is missing or of another shape.
    """

    name: str
    shape: tuple[int, ...]
    wrong: Mask
    worst: float

    @property
    def elements(self) -> int:
        """Return how many elements are wrong."""
        return int(np.count_nonzero(self.wrong))

    @property
    def row_length(self) -> int:
        """Return the elements of a row: those along the last dimension."""
        return max(self.shape[-1] if self.shape else 1, 1)

    @property
    def rows(self) -> tuple[range, ...]:
        """Return the runs of rows that have a wrong element. Rows count through all dimensions but the last."""
        return stretches(np.any(self.wrong.reshape(-1, self.row_length), axis=1))


def stretches(marked: Mask) -> tuple[range, ...]:
    """The runs of places that are marked."""
    places = np.flatnonzero(marked)
    breaks = np.flatnonzero(np.diff(places) > 1) + 1
    return tuple(range(int(run[0]), int(run[-1]) + 1) for run in np.split(places, breaks) if run.size)


@dataclass(frozen=True)
class WrongOutputs:
    """The outputs over the tolerance, by name; none where the case passes."""

    outputs: Mapping[str, WrongOutput]

    def __bool__(self) -> bool:
        return bool(self.outputs)

    @property
    def elements(self) -> int:
        """Return how many elements are wrong in all outputs."""
        return sum(output.elements for output in self.outputs.values())

    def share_in(self, other: WrongOutputs) -> float:
        """The share of the wrong elements, 0 to 1, that are wrong in another failure too."""
        shared = sum(
            int(np.count_nonzero(output.wrong & other.outputs[name].wrong))
            for name, output in self.outputs.items()
            if name in other.outputs and other.outputs[name].wrong.size == output.wrong.size
        )
        return shared / self.elements if self.elements else 0.0


@dataclass(frozen=True, kw_only=True)
class OutputJudge:
    """Finds which outputs of a run are wrong: over `tolerance` from what is `expected`.

    `told` says that the case's own tolerance is known. Otherwise it is the harness's default, widened until the good
    build passes. `by_good_build` says that the good build's outputs are what is expected, because they are not within
    the tolerance of the golden ones.
    """

    expected: TensorFolder
    tolerance: Tolerance
    told: bool
    by_good_build: bool = False

    @classmethod
    def create(
        cls,
        golden: TensorFolder,
        tolerance: Tolerance | None,
        good: TensorFolder | None,
        *,
        default: Tolerance | None = None,
    ) -> OutputJudge:
        """A judge by the golden outputs.

        Where the good build's outputs `good` are not within the case's tolerance of the golden ones, they are expected
        instead. `default` is the harness's own tolerance, where it is known.

        Raises:
            BuildOutputError: a golden output cannot be read.
        """
        told = tolerance is not None
        judge = cls(expected=golden, tolerance=tolerance or default or HARNESS_TOLERANCE, told=told)
        if good is None or not (off := judge.failure(good)):
            return judge
        worst = max(output.worst for output in off.outputs.values())
        if told or not math.isfinite(worst):
            return cls(expected=good, tolerance=judge.tolerance, told=told, by_good_build=True)
        wider = Tolerance(
            rtol=judge.tolerance.rtol * worst * _TOLERANCE_FACTOR,
            atol=judge.tolerance.atol * worst * _TOLERANCE_FACTOR,
        )
        return cls(expected=golden, tolerance=wider, told=False)

    def failure(self, outputs: TensorFolder) -> WrongOutputs:
        """Return what is wrong in the outputs of a run. Raises `BuildOutputError` where an expected output cannot be
        read."""
        judged = (self._judge_output(outputs, name) for name in self.expected.names)
        return WrongOutputs({output.name: output for output in judged if output is not None})

    def _judge_output(self, outputs: TensorFolder, name: str) -> WrongOutput | None:
        expected = self.expected.tensor(name)
        try:
            actual = outputs.tensor(name) if name in outputs.names else None
        except BuildOutputError:
            actual = None
        if actual is None or actual.shape != expected.shape:
            everything = np.ones(max(expected.numel, 1), np.bool_)
            return WrongOutput(name=name, shape=expected.shape, wrong=everything, worst=math.inf)
        wrong, worst = _elements_over(actual, expected, self.tolerance)
        return WrongOutput(name=name, shape=expected.shape, wrong=wrong, worst=worst) if wrong.any() else None


def _elements_over(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> tuple[Mask, float]:
    """Return which elements are over |a - e| <= atol + rtol |e|, and the largest |a - e| / (atol + rtol |e|).

    Two NaN are close, and so are two equal infinities.
    """
    wrong = np.zeros(expected.numel, np.bool_)
    worst = 0.0
    for start, stop in spans(expected.numel):
        a, e = (run_values(view, start, stop).astype(np.float64) for view in (actual, expected))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            error = np.abs(a - e)
            allowed = tolerance.atol + tolerance.rtol * np.abs(e)
            error[(a == e) | (np.isnan(a) & np.isnan(e))] = 0.0
            error[np.isnan(error)] = np.inf
            allowed[~np.isfinite(allowed)] = 0.0
            over = error > allowed
            if over.any():
                worst = max(worst, float(np.max(error[over] / allowed[over])))
        wrong[start:stop] = over
    return wrong, worst


@dataclass(frozen=True, kw_only=True)
class UnwrittenElements:
    """Rows of an output with wrong elements that no task of the failing build writes.

    `columns` are those that no task writes in one of these rows; none where that is all of them. `written_by` are the
    tasks that write the elements in the good build.
    """

    output: str
    rows: tuple[range, ...]
    columns: tuple[range, ...]
    written_by: tuple[KernelTask, ...]


@dataclass(frozen=True)
class OutputWriters:
    """The tasks that write some elements of an output last, by ordinal, and the elements that no task writes."""

    ordinals: tuple[int, ...]
    unwritten: Mask


def last_writers(build: RecordedBuild, elements: Mapping[str, Mask]) -> dict[str, OutputWriters]:
    """For each output whose buffer is known, the tasks that write its marked elements. `elements` holds flat masks."""
    names = _buffer_names(build)
    left = {name: marked.copy() for name, marked in elements.items() if name in names.values()}
    found: dict[str, list[int]] = {name: [] for name in left}
    # Go back from the last task: an element with a known writer is cleared, so no writer is stored for each element.
    for task in reversed(build.tasks.tasks):
        for argument in task.task.arguments:
            name = names.get(argument.tensor_id) if argument.tensor_id is not None else None
            if name in left and argument.type.may_write and argument.region is not None:
                part = _part(left[name], argument.region)
                if part is not None and part.any():
                    part[...] = False
                    found[name].append(task.ordinal)
    return {name: OutputWriters(tuple(sorted({*found[name]})), unwritten) for name, unwritten in left.items()}


def find_unwritten(
    failure: WrongOutputs, failing: RecordedBuild, good: RecordedBuild | None
) -> tuple[UnwrittenElements, ...]:
    """The wrong regions that no task of the failing build writes, though they belong to an output."""
    everything = {name: np.ones_like(output.wrong) for name, output in failure.outputs.items()}
    ours = last_writers(failing, everything)
    if good is not None:
        # An output that only the good build has a task for is no buffer of the failing build's tasks.
        alone = {*_buffer_names(good).values()} & (everything.keys() - ours.keys())
        ours |= {name: OutputWriters((), everything[name]) for name in sorted(alone)}
    found: list[UnwrittenElements] = []
    for name, writers in ours.items():
        output = failure.outputs[name]
        missing = output.wrong & writers.unwritten
        if missing.any():
            theirs = {} if good is None else last_writers(good, {name: missing})
            makers = theirs[name].ordinals if name in theirs else ()
            found.append(
                UnwrittenElements(
                    output=name,
                    rows=replace(output, wrong=missing).rows,
                    columns=_columns(writers.unwritten, missing, output.row_length),
                    written_by=() if good is None else _tasks(good, makers),
                )
            )
    return tuple(found)


def _columns(unwritten: Mask, missing: Mask, row_length: int) -> tuple[range, ...]:
    """The columns that no task writes in the rows with a missing element; none where that is all of them."""
    rows = np.any(missing.reshape(-1, row_length), axis=1)
    columns = np.any(unwritten.reshape(-1, row_length)[rows], axis=0)
    return () if columns.all() else stretches(columns)


def _tasks(build: RecordedBuild, ordinals: Sequence[int]) -> tuple[KernelTask, ...]:
    return tuple(build.tasks.tasks[ordinal] for ordinal in ordinals)


def _buffer_names(build: RecordedBuild) -> dict[int, str]:
    """The names of the buffers that are entry tensors, as far as one task's submit tells."""
    names: dict[int, str] = {}
    for task in build.tasks.tasks:
        unknown = [each for each in task.task.arguments if each.tensor_id not in names]
        submits = find_submits(build.orchestration, task) if unknown else ()
        for argument in unknown:
            name = entry_tensor(build.orchestration, submits, argument.index)
            if name is not None and argument.tensor_id is not None:
                names[argument.tensor_id] = name
    return names


def _part(elements: Mask, region: Region) -> Mask | None:
    """The elements of a region; None where the region does not lie in the output."""
    bounds = region.bounds
    if not math.prod(region.shape) or bounds.start < 0 or bounds.stop > elements.size:
        return None
    if min(region.strides, default=0) < 0:
        return None
    return as_strided(
        elements[region.start_offset :],
        region.shape,
        tuple(stride * elements.itemsize for stride in region.strides),
    )
