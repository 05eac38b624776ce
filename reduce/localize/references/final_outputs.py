"""Which tasks are known to diverge before anything is dumped: those that left what the outputs of a run hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ....runner.build_output.files.errors import BuildOutputError
from ....runner.build_output.golden_data import TensorFolder
from ....runner.build_output.graph.model import Region
from ....runner.build_output.orchestration.model import Submit
from ....runner.build_output.orchestration.orchestration import Orchestration
from ....runner.compare.statistics.statistics import Tolerance
from ....runner.tensor.view import TensorView
from ...graph.task_list import may_overlap
from ...graph.tensor_names import entry_tensor
from ...replay.comparison import differs
from ...replay.recorded_build import RecordedBuild
from ...rewrite.single_task import submits_of

NameOf = Callable[[Orchestration, Sequence[Submit], int], str | None]
"""From an orchestration, the submits that may have made a task and an argument's index to the tensor's name."""


def output_evidence(
    failing: RecordedBuild, reference: RecordedBuild, tolerance: Tolerance
) -> dict[int, bool]:
    """Whether tasks diverge, by their ordinal in the failing build, as far as the outputs of one run each tell.

    A task diverges if part of an output that it wrote last differs. It is clean if all that it writes are such parts,
    and none differs. Empty where a harness does not tell its outputs.
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
    """Tensor and region by task and argument, where `name_of` tells the tensor and no later task writes into the
    region again."""
    writes: dict[tuple[int, int], tuple[str, Region]] = {}
    buffers: dict[tuple[int, int], int] = {}
    for task in build.tasks.tasks:
        submits = submits_of(build.orchestration, task)
        for argument in task.task.arguments:
            region, buffer = argument.region, argument.tensor_id
            if not argument.type.may_write or region is None or buffer is None:
                continue
            for key in [
                key for key, (_, old) in writes.items() if buffers[key] == buffer and may_overlap(region, old)
            ]:
                del writes[key]
            name = name_of(build.orchestration, submits, argument.index)
            if name is not None:
                writes[task.ordinal, argument.index] = name, region
                buffers[task.ordinal, argument.index] = buffer
    return writes


def _output(outputs: TensorFolder, name: str, region: Region) -> TensorView | None:
    try:
        return part_of(outputs.tensor(name), region)
    except BuildOutputError:
        return None


def part_of(whole: TensorView, region: Region) -> TensorView | None:
    """A region of the buffer that the tensor fills from its beginning; None where it is smaller."""
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
    return TensorView.of_contiguous(whole.name, whole.dtype, region.shape, np.ravel(part))
