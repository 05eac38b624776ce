"""Finds which elements of a run's outputs are wrong, and which tasks write them.

`OutputJudge` compares the outputs of a run with the expected ones. `last_writers` finds the tasks that write wrong
elements, and `find_unwritten` the wrong elements that no task writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
"""If the case's tolerance is not known, errors up to this many times the good build's error are allowed."""


@dataclass(frozen=True, kw_only=True)
class OutputJudge:
    """Finds which outputs of a run miss the `expected` ones by more than `tolerance`.

    `told` says that the tolerance is the case's own. Otherwise it is the harness's default, widened until the good
    build passes. `by_good_build` says that the expected outputs are the good build's, because these miss the golden
    ones.
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
        """Return a judge by the golden outputs, or by the good build's outputs if these miss the golden ones.

        `tolerance` is the case's own. `default` is the harness's. Both are None if they are not known.

        Raises:
            BuildOutputError: a golden output cannot be read.
        """
        told = tolerance is not None
        judge = cls(expected=golden, tolerance=tolerance or default or HARNESS_TOLERANCE, told=told)
        wrong = None if good is None else judge.failure(good)
        if good is None or not wrong:
            return judge
        worst = max(output.worst for output in wrong.outputs.values())
        if told or not math.isfinite(worst):
            return cls(expected=good, tolerance=judge.tolerance, told=told, by_good_build=True)
        wider = Tolerance(
            rtol=judge.tolerance.rtol * worst * _TOLERANCE_FACTOR,
            atol=judge.tolerance.atol * worst * _TOLERANCE_FACTOR,
        )
        return cls(expected=golden, tolerance=wider, told=False)

    def failure(self, outputs: TensorFolder) -> WrongOutputs:
        """Return the wrong outputs of a run.

        Raises:
            BuildOutputError: an expected output cannot be read.
        """
        judged = (self._judge_output(outputs, name) for name in self.expected.names)
        return WrongOutputs({output.name: output for output in judged if output is not None})

    def _judge_output(self, outputs: TensorFolder, name: str) -> WrongOutput | None:
        """Return what is wrong in one output, or None. A missing output is completely wrong."""
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
    """Return which elements violate |a - e| <= atol + rtol |e|, and the largest |a - e| / (atol + rtol |e|) of these.

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


@dataclass(frozen=True)
class WrongOutputs:
    """The outputs that miss the tolerance, by name. Empty if the case passes."""

    outputs: Mapping[str, WrongOutput]

    def __bool__(self) -> bool:
        return bool(self.outputs)

    @property
    def elements(self) -> int:
        """Return how many elements are wrong in all outputs."""
        return sum(output.elements for output in self.outputs.values())

    def share_in(self, other: WrongOutputs) -> float:
        """Return the share of the wrong elements, 0 to 1, that are wrong in another failure too."""
        shared = sum(
            int(np.count_nonzero(output.wrong & other.outputs[name].wrong))
            for name, output in self.outputs.items()
            if name in other.outputs and other.outputs[name].wrong.size == output.wrong.size
        )
        return shared / self.elements if self.elements else 0.0


@dataclass(frozen=True, kw_only=True)
class WrongOutput:
    """An output that misses the tolerance.

    `wrong` marks the wrong elements, flat. `worst` is the largest error as a multiple of the tolerance at its element.
    It is infinite for NaN and infinity, and for a tensor that is missing or has another shape.
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
        """Return the number of elements of a row, which lies along the last dimension."""
        return max(self.shape[-1] if self.shape else 1, 1)

    @property
    def rows(self) -> tuple[range, ...]:
        """Return the runs of rows with a wrong element. Rows count through all dimensions but the last."""
        return stretches(np.any(self.wrong.reshape(-1, self.row_length), axis=1))


def stretches(marked: Mask) -> tuple[range, ...]:
    """Return the runs of marked places."""
    places = np.flatnonzero(marked)
    breaks = np.flatnonzero(np.diff(places) > 1) + 1
    return tuple(range(int(run[0]), int(run[-1]) + 1) for run in np.split(places, breaks) if run.size)


@dataclass(frozen=True, kw_only=True)
class UnwrittenElements:
    """Rows of an output with wrong elements that no task of the failing build writes.

    `columns` are the columns that no task writes in one of these rows. They are empty if that is every column.
    `written_by` are the tasks of the good build that write the elements.
    """

    output: str
    rows: tuple[range, ...]
    columns: tuple[range, ...]
    written_by: tuple[KernelTask, ...]


def find_unwritten(
    failure: WrongOutputs, failing: RecordedBuild, good: RecordedBuild | None
) -> tuple[UnwrittenElements, ...]:
    """Return the wrong elements that no task of the failing build writes."""
    everything = {name: np.ones_like(output.wrong) for name, output in failure.outputs.items()}
    writers_by_output = last_writers(failing, everything)
    if good is not None:
        # Such an output may be a buffer of the good build's tasks alone.
        of_good_build = {*_buffer_names(good).values()} & (everything.keys() - writers_by_output.keys())
        writers_by_output |= {name: OutputWriters((), everything[name]) for name in sorted(of_good_build)}
    found: list[UnwrittenElements] = []
    for name, writers in writers_by_output.items():
        output = failure.outputs[name]
        missing = output.wrong & writers.unwritten
        if missing.any():
            found.append(
                UnwrittenElements(
                    output=name,
                    rows=replace(output, wrong=missing).rows,
                    columns=_unwritten_columns(writers.unwritten, missing, output.row_length),
                    written_by=() if good is None else _writing_tasks(good, name, missing),
                )
            )
    return tuple(found)


def _unwritten_columns(unwritten: Mask, missing: Mask, row_length: int) -> tuple[range, ...]:
    """Return `UnwrittenElements.columns`. `missing` marks the wrong ones of the unwritten elements."""
    rows = np.any(missing.reshape(-1, row_length), axis=1)
    columns = np.any(unwritten.reshape(-1, row_length)[rows], axis=0)
    return () if columns.all() else stretches(columns)


def _writing_tasks(build: RecordedBuild, output: str, elements: Mask) -> tuple[KernelTask, ...]:
    writers = last_writers(build, {output: elements})
    ordinals = writers[output].ordinals if output in writers else ()
    return tuple(build.tasks.tasks[ordinal] for ordinal in ordinals)


@dataclass(frozen=True)
class OutputWriters:
    """The ordinals of the tasks that write some elements of an output last, and the elements that no task writes."""

    ordinals: tuple[int, ...]
    unwritten: Mask


def last_writers(build: RecordedBuild, elements: Mapping[str, Mask]) -> dict[str, OutputWriters]:
    """Return the last writers of the marked elements of each output whose buffer is known.

    `elements` holds a flat mask for each output.
    """
    names = _buffer_names(build)
    unwritten = {name: marked.copy() for name, marked in elements.items() if name in names.values()}
    ordinals: dict[str, set[int]] = {name: set() for name in unwritten}
    # Backwards from the last task, each task clears the elements that it writes. Those cleared have a known writer.
    for task in reversed(build.tasks.tasks):
        for argument in task.task.arguments:
            name = names.get(argument.tensor_id) if argument.tensor_id is not None else None
            if name in unwritten and argument.type.may_write and argument.region is not None:
                part = _part(unwritten[name], argument.region)
                if part is not None and part.any():
                    part[...] = False
                    ordinals[name].add(task.ordinal)
    return {name: OutputWriters(tuple(sorted(ordinals[name])), mask) for name, mask in unwritten.items()}


def _buffer_names(build: RecordedBuild) -> dict[int, str]:
    """Return the names of the buffers that are entry tensors, by buffer id, as far as a submit names them."""
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
    """Return a view of a region's elements, or None if the region exceeds the output."""
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
