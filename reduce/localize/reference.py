"""Compares a failing build with a reference: another build, another schedule, recorded values or golden outputs.

A `Reference` says what was asked for. Its `open` returns `ExpectedValues`: which tasks of the failing build can be
compared, and what they should leave. The search and the verdicts see nothing else of a reference.
`GoodBuild` and `SameBuild` are run, and become `ReferenceRuns`. `RecordedValues` and `GoldenOutputs` need no run. They
become `KnownValues`, which match tensors by name to the tasks that wrote them last.
`LocalizationRequest` has the reference and the other inputs of a localization.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...runner.build_output.args_dump import ArgsDump
from ...runner.build_output.directory import GoldenData, TensorFolder
from ...runner.build_output.files import BuildOutputError
from ...runner.build_output.orchestration import Orchestration, Submit
from ...runner.build_output.task_graph import GraphArgument, Region, RegionIndex, may_overlap
from ...runner.compare.statistics import Tolerance
from ...runner.errors import UserError
from ...runner.localization import ReferenceUsed
from ...runner.tensor import TensorView
from ..graph.submits import entry_tensor, find_submits, tensor_name
from ..graph.tasks import (
    Alignment,
    Dag,
    KernelTask,
    align,
    induced_graph,
    shared_graph,
)
from ..replay.replay import RecordedBuild, RunnableBuild, TaskValues, differs
from ..replay.toolchain import Toolchain
from .attribute import Attributor, KnownInputsAttributor, TwoBuildAttributor
from .experiments import DUMP_BUDGET, Expectation, Record, ReferenceDump, Steps, Tell, common_outputs

NameOf = Callable[[Orchestration, Sequence[Submit], int], str | None]
"""Takes an orchestration, the submits that may have made a task, and an argument's index. Returns the tensor's name."""


def output_evidence(
    failing: RecordedBuild, reference: RecordedBuild, tolerance: Tolerance
) -> dict[int, bool]:
    """Return whether tasks diverge, by ordinal, as far as the outputs of one run of each build show.

    A task diverges if it was the last to write a part of an output, and this part differs. A task is clean if all its
    results are such parts, and none differs. The mapping is empty if a harness does not report its outputs.
    """
    if failing.outputs is None or reference.outputs is None:
        return {}
    shared = set(failing.outputs.names) & set(reference.outputs.names)
    diverges: dict[int, bool] = {}
    for (ordinal, _), (name, region) in (last := last_writes(failing, entry_tensor)).items():
        actual = _output(failing.outputs, name, region) if name in shared else None
        expected = _output(reference.outputs, name, region) if name in shared else None
        if actual is None or expected is None:
            continue
        if differs(actual, expected, tolerance):
            diverges[ordinal] = True
        elif all(
            (ordinal, argument.index) in last
            for argument in failing.tasks.tasks[ordinal].task.arguments
            if argument.type.may_write
        ):
            diverges.setdefault(ordinal, False)
    return diverges


def last_writes(build: RecordedBuild, name_of: NameOf) -> dict[tuple[int, int], tuple[str, Region]]:
    """Return name and region of each tensor that no later task writes into, by ordinal and argument index.

    Tensors without a name by `name_of` are left out.
    """
    writes: dict[tuple[int, int], tuple[str, Region]] = {}
    named = defaultdict[int, RegionIndex[tuple[int, int]]](RegionIndex)
    for task in build.tasks.tasks:
        submits = find_submits(build.orchestration, task)
        for argument in task.task.arguments:
            region, buffer = argument.region, argument.tensor_id
            if not argument.type.may_write or region is None or buffer is None:
                continue
            overwritten = named[buffer].find_overlapping(region)
            named[buffer].drop(overwritten)
            for old in overwritten:
                del writes[old.owner]
            name = name_of(build.orchestration, submits, argument.index)
            if name is not None:
                writes[task.ordinal, argument.index] = name, region
                named[buffer].add(region, (task.ordinal, argument.index))
    return writes


def _output(outputs: TensorFolder, name: str, region: Region) -> TensorView | None:
    try:
        return buffer_part(outputs.tensor(name), region)
    except BuildOutputError:
        return None


def buffer_part(whole: TensorView, region: Region) -> TensorView | None:
    """Return a region of the buffer that the tensor fills from its start. None if the region is empty or outside."""
    values = np.ravel(whole.contiguous())
    bounds = region.bounds
    if (
        not math.prod(region.shape)
        or bounds.start < 0
        or bounds.stop > values.size
        or min(region.strides, default=0) < 0
    ):
        return None
    part = as_strided(
        values[region.start_offset :],
        region.shape,
        tuple(stride * values.itemsize for stride in region.strides),
        writeable=False,
    )
    return TensorView.from_contiguous(whole.name, whole.dtype, region.shape, np.ravel(part))


@dataclass(frozen=True, kw_only=True)
class ReferenceRuns:
    """Two builds whose graphs were recorded, and which of their tasks correspond.

    Tasks are compared by the arguments that both declare to write. Without such arguments, their readers are compared.
    """

    failing: RecordedBuild
    reference: RecordedBuild
    alignment: Alignment
    compared: tuple[int, ...]
    dag: Dag
    """The dependencies of both builds. The failing build may miss some that it needs."""
    complete: bool = True
    not_compared: tuple[str, ...] = ()

    @classmethod
    def align(cls, failing: RecordedBuild, reference: RecordedBuild) -> ReferenceRuns:
        """Align the two builds.

        Raises:
            UserError: the builds have no task in common.
        """
        alignment = align(failing.tasks, reference.tasks)
        if not alignment.reference_of:
            raise UserError(
                "expected tasks that both builds have, found none; is the reference of the same case?"
            )
        comparable = {
            task: other
            for task, other in alignment.reference_of.items()
            if common_outputs(failing.tasks.tasks[task], reference.tasks.tasks[other])
        }
        return cls(
            failing=failing,
            reference=reference,
            alignment=alignment,
            compared=tuple(sorted(comparable)),
            dag=shared_graph(failing.tasks, reference.tasks, comparable),
        )

    @property
    def all_bytes(self) -> int:
        """Return the bytes of a dump of everything, in the build that has more."""
        return max(self.failing.tasks.all_bytes, self.reference.tasks.all_bytes)

    @property
    def outputs(self) -> TensorFolder | None:
        """Return the outputs of the run that recorded the reference's graph."""
        return self.reference.outputs

    @property
    def good(self) -> RecordedBuild | None:
        """Return the reference, or None if it is the failing build itself."""
        same = self.failing.build.resolve() == self.reference.build.resolve()
        return None if same else self.reference

    @property
    def runs(self) -> int:
        """Return the number of runs of the reference so far."""
        return self.reference.replayer.runs

    @property
    def unaligned(self) -> tuple[KernelTask, ...]:
        """Return tasks that only the failing build has."""
        return tuple(self.failing.tasks.tasks[ordinal] for ordinal in self.alignment.only_failing)

    @property
    def unaligned_reference(self) -> tuple[KernelTask, ...]:
        """Return tasks that only the reference has."""
        return tuple(self.reference.tasks.tasks[ordinal] for ordinal in self.alignment.only_reference)

    def with_failing_build(self, failing: RecordedBuild) -> ReferenceRuns:
        """Compare the same reference with another failing build. Raises as `align`."""
        return ReferenceRuns.align(failing, self.reference)

    def orders(self, before: int, after: int) -> bool | None:
        """Return whether the second task waits for the first in the reference.

        None if the reference is the same build, or one of the two tasks has no counterpart.
        """
        if self.good is None:
            return None
        pair = self.alignment.reference_of.get(before), self.alignment.reference_of.get(after)
        return None if None in pair else pair not in self._unordered_pairs

    @cached_property
    def _unordered_pairs(self) -> Set[tuple[int | None, int | None]]:
        """Return pairs of the reference's tasks, by ordinal, that touch the same elements in no fixed order."""
        return {(edge.before.ordinal, edge.after.ordinal) for edge in self.reference.missing_edges}

    def known_divergent(self, tolerance: Tolerance) -> Mapping[int, bool]:
        """Return what the outputs of the runs that recorded the graphs show."""
        return output_evidence(self.failing, self.reference, tolerance)

    def counterpart_of(self, ordinal: int) -> KernelTask:
        """Return the reference's task that corresponds to a task."""
        return self.reference.tasks.tasks[self.alignment.reference_of[ordinal]]

    def dump(self, *, results: Set[int], whole: Set[int]) -> ReferenceDump:
        """Run the reference with markers at the counterparts. Raises as `RecordedBuild.dump`."""
        reference_of = self.alignment.reference_of
        dump = self.reference.dump(
            results={reference_of[ordinal] for ordinal in results},
            whole={reference_of[ordinal] for ordinal in whole},
        )
        return self._read(dump)

    def dump_everything(self) -> ReferenceDump:
        """Run the reference, and dump all of it. Raises as `RecordedBuild.dump_everything`."""
        return self._read(self.reference.dump_everything())

    def _read(self, dump: ArgsDump) -> ReferenceDump:
        return ReferenceDump(
            failing=self.failing.tasks, reference=self.reference.tasks, alignment=self.alignment, dump=dump
        )

    def attributor(self, tolerance: Tolerance) -> TwoBuildAttributor:
        """Return what finds where errors come from, by the kernels of both builds."""
        return TwoBuildAttributor(
            failing=self.failing,
            reference=self.reference,
            alignment=self.alignment,
            tolerance=tolerance,
        )

    def unknown_above(self, ordinals: Set[int]) -> tuple[KernelTask, ...]:
        """Return nothing: the values of every predecessor of a first divergent task were compared."""
        return ()


@dataclass(frozen=True, kw_only=True)
class _BuildReference:
    """A reference that is a build directory, with the toolchain that runs it."""

    path: Path
    toolchain: Toolchain

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the build directory."""
        return (self.path,)

    @property
    def build(self) -> RunnableBuild:
        """Return the build directory and its toolchain."""
        return RunnableBuild(path=self.path, toolchain=self.toolchain)

    def open(self, failing: RecordedBuild) -> Steps[ReferenceRuns]:
        """Record the build's task graph, on the failing build's data. Raises as `RecordedBuild.open`."""
        yield from Tell("recording the task graph of the reference")
        reference = yield from Record(build=self.build, name="reference")
        return ReferenceRuns.align(failing, reference)


@dataclass(frozen=True, kw_only=True)
class GoodBuild(_BuildReference):
    """A good build of the same case, such as the parent commit's.

    It has its own toolchain, because the runtime may be at fault.
    """

    def summarize(self, platform: str) -> ReferenceUsed:
        """Return how the result names the reference.

        It runs on the platform of its own toolchain, whatever the `platform` of the failing build is.
        """
        return ReferenceUsed(kind="good build", path=str(self.path), platform=self.toolchain.platform)


@dataclass(frozen=True, kw_only=True)
class SameBuild(_BuildReference):
    """The failing build itself, under another schedule. `schedule` is its name in the stack file."""

    schedule: str

    def summarize(self, platform: str) -> ReferenceUsed:
        """Return how the result names the reference.

        It runs on the platform of its own toolchain, whatever the `platform` of the failing build is.
        """
        return ReferenceUsed(
            kind="other schedule",
            path=str(self.path),
            platform=self.toolchain.platform,
            schedule=self.schedule,
        )


_Writes = Mapping[tuple[int, int], tuple[str, Region]]


@dataclass(frozen=True, kw_only=True)
class MatchedValues:
    """The known results of tasks, by ordinal and argument index.

    `not_compared` names the recorded tensors that match no task, with the reason.
    """

    expected: Mapping[int, Mapping[int, TensorView]]
    not_compared: tuple[str, ...]


def match_values(failing: RecordedBuild, recorded: TensorFolder | None) -> MatchedValues:
    """Match golden outputs, and `recorded` tensors by their names in the orchestration, with their last writers.

    Raises:
        BuildOutputError: a file is no tensor.
        UserError: no recorded tensor matches a task.
    """
    golden = GoldenData.open(failing.data).outputs
    expected: dict[int, dict[int, TensorView]] = {}
    for (ordinal, index), part in _matching_parts(golden, last_writes(failing, entry_tensor)):
        expected.setdefault(ordinal, {})[index] = part
    if recorded is None:
        return MatchedValues(expected=expected, not_compared=())
    writes = last_writes(failing, tensor_name)
    reasons = {
        name: _mismatch_reason(failing, name, recorded.tensor(name), writes) for name in recorded.names
    }
    not_compared = tuple(f"{name}: {text}" for name, text in reasons.items() if text)
    usable = {key: place for key, place in writes.items() if reasons.get(place[0]) == ""}
    for (ordinal, index), part in _matching_parts(recorded, usable):
        expected.setdefault(ordinal, {})[index] = part
    if all(reasons.values()):
        raise UserError(
            f"--reference-data {recorded.folder.root}: expected <tensor>.pt by the names of the orchestration, "
            f"found {'; '.join(not_compared)[:400] or 'none'}"
        )
    return MatchedValues(expected=expected, not_compared=not_compared)


def _matching_parts(values: TensorFolder, writes: _Writes) -> Iterator[tuple[tuple[int, int], TensorView]]:
    for key, (name, region) in writes.items():
        part = buffer_part(values.tensor(name), region) if name in values.names else None
        if part is not None:
            yield key, part


def _mismatch_reason(failing: RecordedBuild, name: str, value: TensorView, writes: _Writes) -> str:
    """Return why a recorded tensor cannot be compared with the build's tensor of that name. Empty if it can be."""
    regions = {key: region for key, (other, region) in writes.items() if other == name}
    arguments = [
        argument
        for ordinal, index in regions
        for argument in failing.tasks.tasks[ordinal].task.arguments
        if argument.index == index
    ]
    buffers = {argument.tensor_id for argument in arguments if argument.tensor_id is not None}
    if not buffers:
        return "no task is known to write a tensor of that name last"
    if len(buffers) > 1:
        return f"{len(buffers)} buffers have that name"
    sizes = failing.tasks.graph.tensors.get(buffers.pop())
    if sizes is not None and sizes.buffer_numel not in (None, value.numel):
        return f"{value.numel} elements, where the build's tensor has {sizes.buffer_numel}"
    types = {region.dtype for region in regions.values()} - {None, value.dtype}
    unlike = [dtype for dtype in types if dtype and not (dtype.is_floating and value.dtype.is_floating)]
    return f"{value.dtype.value}, where the build's tensor is {unlike[0].value}" if unlike else ""


@dataclass(frozen=True, kw_only=True)
class KnownValues:
    """The known results of tasks, by ordinal and argument index.

    A value says what a tensor holds in the end, so only results that no later task overwrites are known.
    """

    failing: RecordedBuild
    expected: Mapping[int, Mapping[int, TensorView]]
    recorded: TensorFolder | None
    not_compared: tuple[str, ...]
    """The recorded tensors that match no task, and why."""
    compared: tuple[int, ...]
    dag: Dag
    complete: bool = False
    runs: int = 0
    good: None = None
    unaligned: tuple[KernelTask, ...] = ()
    unaligned_reference: tuple[KernelTask, ...] = ()

    @classmethod
    def from_build(cls, failing: RecordedBuild, recorded: TensorFolder | None) -> KnownValues:
        """Match the golden outputs, and the `recorded` tensors if there are any, with the tasks of a build.

        Raises:
            BuildOutputError: a file is no tensor.
            UserError: nothing can be compared.
        """
        matched = match_values(failing, recorded)
        expected = matched.expected
        if not expected:
            raise UserError(
                f"{failing.build}: expected outputs whose last writers can be told, found none; use --reference"
            )
        compared = tuple(sorted(expected))
        return cls(
            failing=failing,
            expected=expected,
            recorded=recorded,
            not_compared=matched.not_compared,
            compared=compared,
            dag=induced_graph(failing.tasks, compared),
        )

    @property
    def all_bytes(self) -> int:
        """Return the bytes of a dump of everything."""
        return self.failing.tasks.all_bytes

    @property
    def outputs(self) -> TensorFolder:
        """Return the golden outputs."""
        return GoldenData.open(self.failing.data).outputs

    def with_failing_build(self, failing: RecordedBuild) -> KnownValues:
        """Return the same values, as results of another failing build. Raises as `from_build`."""
        return KnownValues.from_build(failing, self.recorded)

    def orders(self, before: int, after: int) -> None:
        """Return None, because no other build orders tasks."""

    def known_divergent(self, tolerance: Tolerance) -> Mapping[int, bool]:
        """Return nothing: the tasks that wrote the outputs are dumped like the others."""
        return {}

    def counterpart_of(self, ordinal: int) -> None:
        """Return None, because there is no other build."""

    def dump(self, *, results: Set[int], whole: Set[int]) -> KnownValues:
        """These values, which are known without a run."""
        return self

    def dump_everything(self) -> KnownValues:
        """These values, which are known without a run."""
        return self

    def results_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """Return what a task should leave, as far as it is known."""
        return self.expected[ordinal]

    def values_of(self, ordinal: int) -> TaskValues:
        """Return what a task should leave. Its inputs are not compared."""
        return TaskValues(before={}, after=self.expected[ordinal], scalars={})

    def attributor(self, tolerance: Tolerance) -> KnownInputsAttributor:
        """Return what finds where errors come from, by runs of the failing build's kernels on known inputs."""
        return KnownInputsAttributor(failing=self.failing, tolerance=tolerance)

    def unknown_above(self, ordinals: Set[int]) -> tuple[KernelTask, ...]:
        """Return the tasks before the given ones, back to those all of whose results are known."""
        predecessors = self.failing.tasks.predecessors
        reached: set[int] = set()
        left = [above for ordinal in ordinals for above in predecessors[ordinal]]
        while left:
            ordinal = left.pop()
            if ordinal in reached or self._knows_all_results(ordinal):
                continue
            reached.add(ordinal)
            left += predecessors[ordinal]
        return tuple(self.failing.tasks.tasks[ordinal] for ordinal in sorted(reached))

    def _knows_all_results(self, ordinal: int) -> bool:
        """Return whether everything that a task should leave is known."""
        return all(
            argument.index in self.expected.get(ordinal, {})
            for argument in self.failing.tasks.tasks[ordinal].task.arguments
            if argument.type.may_write
        )

    def inputs_of(self, ordinal: int) -> Mapping[int, TensorView] | None:
        """Return all tensors that a task should read. None if one of them is not known."""
        task = self.failing.tasks.tasks[ordinal]
        inputs: dict[int, TensorView] = {}
        for argument in task.task.arguments:
            if argument.type.may_read:
                value = self._input(task, argument)
                if value is None:
                    return None
                inputs[argument.index] = value
        return inputs

    def _input(self, task: KernelTask, argument: GraphArgument) -> TensorView | None:
        region = argument.region
        writers = [
            (other, written)
            for other in self.failing.tasks.tasks
            for written in other.task.arguments
            if region is not None
            and written.type.may_write
            and written.tensor_id == argument.tensor_id
            and written.region is not None
            and may_overlap(written.region, region)
        ]
        if region is None or len(writers) > 1:
            return None
        if writers:
            # The task reads what its only writer left, if the writer is earlier and writes exactly this part.
            other, written = writers[0]
            is_read = other.ordinal < task.ordinal and written.region == region
            return self.expected.get(other.ordinal, {}).get(written.index) if is_read else None
        inputs = GoldenData.open(self.failing.data).inputs
        orchestration = self.failing.orchestration
        name = entry_tensor(orchestration, find_submits(orchestration, task), argument.index)
        return buffer_part(inputs.tensor(name), region) if name in inputs.names else None


class Reference(Protocol):
    """A request to compare the failing build with something."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the folders of the reference. Nothing is written there."""
        ...

    @property
    def build(self) -> RunnableBuild | None:
        """Return the build that the reference runs. None if its values are known without a run."""
        ...

    def summarize(self, platform: str) -> ReferenceUsed:
        """Return how the result names the reference. The failing build runs on `platform`."""
        ...

    def open(self, failing: RecordedBuild) -> Steps[ExpectedValues]:
        """Return what the failing build's tasks should leave.

        Raises:
            UserError: the reference cannot be run, or nothing can be compared with it.
            BuildOutputError: a part of the reference cannot be read.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class LocalizationRequest:
    """The inputs of a localization.

    Attributes:
        golden_data: the folder of the frozen inputs and outputs, or None for the failing build's own.
        tolerance: within which tensors count as equal.
        case_tolerance: the case's own tolerance, by which its outputs are judged. None is `tolerance`, or the harness's
            default where `tolerance` is exact.
        budget: the bytes that a run may dump.
        attempts: how often to search for a divergence that does not show in every run.
        timeout: the limit of a run, in seconds.
        by_hand: whether people wrote the sources, and no compiler.
    """

    failing: Path
    toolchain: Toolchain
    reference: Reference
    golden_data: Path | None
    tolerance: Tolerance
    case_tolerance: Tolerance | None = None
    timeout: float
    output: Path
    budget: int = DUMP_BUDGET
    attempts: int = 8
    by_hand: bool = False

    @property
    def data(self) -> Path:
        """Return the folder of the data to run on."""
        return self.golden_data or self.failing / "data"


class ExpectedValues(Protocol):
    """The right results of a failing build's tasks, as far as the reference has them."""

    @property
    def compared(self) -> tuple[int, ...]:
        """Return the ordinals, ascending, of the failing build's tasks that can be compared."""
        ...

    @property
    def dag(self) -> Dag:
        """Return the graph of these tasks. Node `i` is the task `compared[i]`."""
        ...

    @property
    def complete(self) -> bool:
        """Return whether all inputs and results of these tasks are known exactly. Then any difference counts."""
        ...

    @property
    def all_bytes(self) -> int:
        """Return the bytes of a dump of everything, in the build that has more."""
        ...

    @property
    def outputs(self) -> TensorFolder | None:
        """Return the right outputs of a run, or None if they are not known."""
        ...

    @property
    def good(self) -> RecordedBuild | None:
        """Return the good build. None if the reference is the failing build itself, or values only."""
        ...

    @property
    def runs(self) -> int:
        """Return the number of runs of the reference so far."""
        ...

    @property
    def unaligned(self) -> tuple[KernelTask, ...]:
        """Return tasks of the failing build that have no counterpart."""
        ...

    @property
    def unaligned_reference(self) -> tuple[KernelTask, ...]:
        """Return tasks of the reference that have no counterpart."""
        ...

    @property
    def not_compared(self) -> tuple[str, ...]:
        """Return the recorded tensors that match no task, and why."""
        ...

    def with_failing_build(self, failing: RecordedBuild) -> ExpectedValues:
        """Return the expected values of another failing build, by the same reference."""
        ...

    def orders(self, before: int, after: int) -> bool | None:
        """Return whether the second task waits for the first in the reference. None if that is not known."""
        ...

    def known_divergent(self, tolerance: Tolerance) -> Mapping[int, bool]:
        """Return whether tasks diverge, by ordinal, as far as that is known before a dump."""
        ...

    def counterpart_of(self, ordinal: int) -> KernelTask | None:
        """Return the same task in the reference. None if no reference is run."""
        ...

    def dump(self, *, results: Set[int], whole: Set[int]) -> Expectation:
        """Return what some tasks should leave, and what those in `whole` should read. Runs a reference build."""
        ...

    def dump_everything(self) -> Expectation:
        """Return what all tasks should read and leave. Only for `complete` values."""
        ...

    def attributor(self, tolerance: Tolerance) -> Attributor:
        """Return what finds where errors come from."""
        ...

    def unknown_above(self, ordinals: Set[int]) -> tuple[KernelTask, ...]:
        """Return tasks before divergent ones that may have made the error, because not all their results are known."""
        ...


_MATCH_NOTICE = "matching the values that are known with the tasks"


@dataclass(frozen=True, kw_only=True)
class RecordedValues:
    """The golden outputs, and `<tensor>.pt` files in `folder`, by the tensors' names in the orchestration."""

    folder: Path
    build: None = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the folder of the recorded tensors."""
        return (self.folder,)

    def summarize(self, platform: str) -> ReferenceUsed:
        """Return how the result names the reference."""
        return ReferenceUsed(kind="recorded values", path=str(self.folder), platform=platform)

    def open(self, failing: RecordedBuild) -> Steps[KnownValues]:
        """Match the tensors with the failing build's tasks, without a run. Raises as `KnownValues.from_build`."""
        yield from Tell(_MATCH_NOTICE)
        return KnownValues.from_build(failing, TensorFolder.open(self.folder))


@dataclass(frozen=True, kw_only=True)
class GoldenOutputs:
    """The golden outputs in `folder`, which belong to the data that the failing build runs on."""

    folder: Path
    build: None = None
    folders: tuple[Path, ...] = ()

    def summarize(self, platform: str) -> ReferenceUsed:
        """Return how the result names the reference."""
        return ReferenceUsed(kind="golden data", path=str(self.folder), platform=platform)

    def open(self, failing: RecordedBuild) -> Steps[KnownValues]:
        """Match the outputs with the failing build's tasks, without a run. Raises as `KnownValues.from_build`."""
        yield from Tell(_MATCH_NOTICE)
        return KnownValues.from_build(failing, None)
