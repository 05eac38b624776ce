"""Finds which elements of a run's outputs are wrong, and which tasks write them.

`OutputJudge` compares the outputs of a run with the expected ones. `last_writers` finds the tasks that last write given
elements. `find_unwritten` finds the wrong elements that no task writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
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
from ..graph.submits import entry_tensor, find_submits, tensor_names
from ..graph.tasks import KernelTask
from ..replay.replay import RecordedBuild

Mask = npt.NDArray[np.bool_]


_TOLERANCE_FACTOR = 2.0
"""If the case's tolerance is not known, errors up to this many times the good build's error are allowed."""


@dataclass(frozen=True, kw_only=True)
class OutputJudge:
    """Finds which outputs of a run miss the `expected` ones by more than `tolerance`.

    `is_case_tolerance` says whether the case states the tolerance. Otherwise it is the harness's default, widened until
    the good build passes. `expects_good_outputs` says whether `expected` holds the good build's outputs, used when they
    differ too much from the golden ones.
    """

    expected: TensorFolder
    tolerance: Tolerance
    is_case_tolerance: bool
    expects_good_outputs: bool = False

    @classmethod
    def create(
        cls,
        golden: TensorFolder,
        tolerance: Tolerance | None,
        good: TensorFolder | None,
        *,
        default: Tolerance | None = None,
    ) -> OutputJudge:
        """Return a judge that compares with the golden outputs.

        If the good build fails it, widen the default tolerance, or compare with the good build's outputs. These must
        all be readable. Otherwise, an output that the good build lacks would never be judged.

        `tolerance` is the case's own. `default` is the harness's. Both are None if they are not known.

        Raises:
            BuildOutputError: a golden output cannot be read.
        """
        is_case_tolerance = tolerance is not None
        judge = cls(
            expected=golden,
            tolerance=tolerance or default or HARNESS_TOLERANCE,
            is_case_tolerance=is_case_tolerance,
        )
        wrong = None if good is None else judge.failure(good)
        if good is None or not wrong:
            return judge
        worst = max(output.worst for output in wrong.outputs.values())
        if is_case_tolerance or not math.isfinite(worst):
            has_all = all(_read_tensor(good, name) is not None for name in golden.names)
            return replace(judge, expected=good, expects_good_outputs=True) if has_all else judge
        wider = Tolerance(
            rtol=judge.tolerance.rtol * worst * _TOLERANCE_FACTOR,
            atol=judge.tolerance.atol * worst * _TOLERANCE_FACTOR,
        )
        return replace(judge, tolerance=wider)

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
        actual = _read_tensor(outputs, name)
        if actual is None or actual.shape != expected.shape:
            everything = np.ones(expected.numel, np.bool_)
            return WrongOutput(name=name, shape=expected.shape, wrong=everything, worst=math.inf)
        wrong, worst = _elements_over(actual, expected, self.tolerance)
        return WrongOutput(name=name, shape=expected.shape, wrong=wrong, worst=worst) if wrong.any() else None


def _read_tensor(folder: TensorFolder, name: str) -> TensorView | None:
    """Return a tensor of a folder. None if it is missing or cannot be read."""
    try:
        return folder.tensor(name)
    except BuildOutputError:
        return None


def _elements_over(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> tuple[Mask, float]:
    """Return which elements violate |a - e| <= atol + rtol |e|, and the largest |a - e| / (atol + rtol |e|) of these.

    Two NaN are close, and so are two equal infinities. To the harness two NaN differ. It then fails the good build too,
    so an expected NaN says nothing about a change.
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
    def wrong_count(self) -> int:
        """Return how many elements are wrong in all outputs."""
        return sum(output.wrong_count for output in self.outputs.values())

    def share_in(self, other: WrongOutputs) -> float:
        """Return the share of the wrong elements, 0 to 1, that are wrong in another failure too."""
        shared = sum(
            int(np.count_nonzero(output.wrong & other.outputs[name].wrong))
            for name, output in self.outputs.items()
            if name in other.outputs and other.outputs[name].wrong.size == output.wrong.size
        )
        return shared / self.wrong_count if self.wrong_count else 0.0


@dataclass(frozen=True, kw_only=True)
class WrongOutput:
    """An output that misses the tolerance.

    `wrong` marks the wrong elements, flat. `worst` is the largest error as a multiple of the tolerance at its element.
    It is infinite for NaN, infinity, a zero tolerance, and a tensor that is missing or has another shape.
    """

    name: str
    shape: tuple[int, ...]
    wrong: Mask
    worst: float

    @property
    def wrong_count(self) -> int:
        """Return how many elements are wrong."""
        return int(np.count_nonzero(self.wrong))

    @property
    def row_length(self) -> int:
        """Return the number of elements of a row, which lies along the last dimension."""
        return max(self.shape[-1] if self.shape else 1, 1)

    @property
    def rows(self) -> tuple[range, ...]:
        """Return the ranges of consecutive rows that have a wrong element.

        Row numbers flatten all dimensions but the last.
        """
        return marked_ranges(np.any(self.wrong.reshape(-1, self.row_length), axis=1))


def marked_ranges(marked: Mask) -> tuple[range, ...]:
    """Return the ranges of consecutive marked positions."""
    positions = np.flatnonzero(marked)
    breaks = np.flatnonzero(np.diff(positions) > 1) + 1
    return tuple(range(int(run[0]), int(run[-1]) + 1) for run in np.split(positions, breaks) if run.size)


@dataclass(frozen=True, kw_only=True)
class UnwrittenElements:
    """Rows of an output with wrong elements that no task of the failing build writes.

    `columns` are those that no task writes in at least one of these rows. They are empty if this holds for every
    column. `written_by` are the tasks of the good build that write the elements.
    """

    output: str
    rows: tuple[range, ...]
    columns: tuple[range, ...]
    written_by: tuple[KernelTask, ...]


def find_unwritten(
    failure: WrongOutputs, failing: RecordedBuild, good: RecordedBuild | None
) -> tuple[UnwrittenElements, ...]:
    """Return the wrong elements that no task of the failing build writes.

    Omit each output that a task may write in a way that is not known.
    """
    everything = {name: np.ones_like(output.wrong) for name, output in failure.outputs.items()}
    writers_by_output = last_writers(failing, everything)
    if good is not None:
        # Only tasks of the good build write such an output.
        unused = everything.keys() - _possible_outputs(failing, everything.keys())
        of_good_build = unused & {*_buffer_names(good).values()}
        writers_by_output |= {name: OutputWriters((), everything[name]) for name in sorted(of_good_build)}
    found: list[UnwrittenElements] = []
    for name, writers in writers_by_output.items():
        output = failure.outputs[name]
        wrong_unwritten = output.wrong & writers.unwritten
        if wrong_unwritten.any():
            found.append(
                UnwrittenElements(
                    output=name,
                    rows=replace(output, wrong=wrong_unwritten).rows,
                    columns=_unwritten_columns(writers.unwritten, wrong_unwritten, output.row_length),
                    written_by=() if good is None else _writing_tasks(good, name, wrong_unwritten),
                )
            )
    return tuple(found)


def _unwritten_columns(unwritten: Mask, wrong_unwritten: Mask, row_length: int) -> tuple[range, ...]:
    """Return `UnwrittenElements.columns`.

    `wrong_unwritten` marks the elements that are wrong and that no task writes.
    """
    rows = np.any(wrong_unwritten.reshape(-1, row_length), axis=1)
    columns = np.any(unwritten.reshape(-1, row_length)[rows], axis=0)
    return () if columns.all() else marked_ranges(columns)


def _writing_tasks(build: RecordedBuild, output: str, elements: Mask) -> tuple[KernelTask, ...]:
    writers = last_writers(build, {output: elements})
    ordinals = writers[output].ordinals if output in writers else ()
    return tuple(build.tasks.tasks[ordinal] for ordinal in ordinals)


@dataclass(frozen=True)
class OutputWriters:
    """The writers of requested elements of an output.

    `ordinals` are the tasks that last write any requested element of an output. `unwritten` marks the requested
    elements that no task writes.
    """

    ordinals: tuple[int, ...]
    unwritten: Mask


def last_writers(build: RecordedBuild, elements: Mapping[str, Mask]) -> dict[str, OutputWriters]:
    """Return the last writers of the marked elements.

    Omit each output that no submit identifies, and each output that a task writes beyond its end.

    `elements` holds a flat mask for each output.
    """
    names = _buffer_names(build)
    unwritten = {name: marked.copy() for name, marked in elements.items() if name in names.values()}
    ordinals: dict[str, set[int]] = {name: set() for name in unwritten}
    # Go backwards from the last task. Each task clears the marks of the elements it writes, so the first to clear an
    # element wrote it last.
    for task in reversed(build.tasks.tasks):
        for argument in task.task.arguments:
            name = names.get(argument.tensor_id) if argument.tensor_id is not None else None
            if name in unwritten and argument.type.may_write and argument.region is not None:
                part = _part(unwritten[name], argument.region)
                if part is None:
                    del unwritten[name]
                elif part.any():
                    part[...] = False
                    ordinals[name].add(task.ordinal)
    return {name: OutputWriters(tuple(sorted(ordinals[name])), mask) for name, mask in unwritten.items()}


def _buffer_names(build: RecordedBuild) -> dict[int, str]:
    """Map the `tensor_id` of each buffer to its entry tensor's name. Omit buffers that no submit identifies."""
    names: dict[int, str] = {}
    for task in build.tasks.tasks:
        unknown = [each for each in task.task.arguments if each.tensor_id not in names]
        submits = find_submits(build.orchestration, task) if unknown else ()
        for argument in unknown:
            name = entry_tensor(build.orchestration, submits, argument.index)
            if name is not None and argument.tensor_id is not None:
                names[argument.tensor_id] = name
    return names


def _possible_outputs(build: RecordedBuild, outputs: Set[str]) -> Set[str]:
    """Return the outputs that a task of the build may access, and at least those that it may write."""
    buffers = _buffer_names(build)
    known = build.orchestration.entry_names | build.orchestration.tensors_by_name.keys()
    possible = {*buffers.values()}
    for task in build.tasks.tasks:
        for argument in task.task.arguments:
            if argument.type.may_write and argument.tensor_id not in (None, *buffers):
                submits = find_submits(build.orchestration, task)
                names = tensor_names(build.orchestration, submits, argument.index)
                if not names or not names <= known:
                    return outputs
                possible |= names
    return possible & outputs


def _part(elements: Mask, region: Region) -> Mask | None:
    """Return a view of a region's elements. None if the region exceeds the output, or has a negative stride."""
    if 0 in region.shape:
        return elements[:0]
    bounds = region.bounds
    if bounds.start < 0 or bounds.stop > elements.size or min(region.strides, default=0) < 0:
        return None
    return as_strided(
        elements[region.start_offset :],
        region.shape,
        tuple(stride * elements.itemsize for stride in region.strides),
    )
