"""Which tasks are known to diverge before anything is dumped: those that left what the outputs of a run hold."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..runner.build_output.errors import BuildOutputError
from ..runner.build_output.golden_data import TensorFolder
from ..runner.build_output.graph_model import Region
from ..runner.tensors.statistics import Tolerance
from ..runner.tensors.view import TensorView
from .comparison import differs
from .side import Side
from .single_task import submits_of
from .task_list import may_overlap
from .tensor_names import entry_tensor


def output_evidence(failing: Side, reference: Side, tolerance: Tolerance) -> dict[int, bool]:
    """Whether tasks diverge, by their ordinal in the failing build, as far as the outputs of one run each tell.

    A task diverges if part of an output that it wrote last differs. It is clean if all that it writes are such parts,
    and none differs. Empty where a harness does not tell its outputs.
    """
    if failing.outputs is None or reference.outputs is None:
        return {}
    shared = set(failing.outputs.names) & set(reference.outputs.names)
    found: dict[int, bool] = {}
    for (ordinal, _), (name, region) in (last := _last_writes(failing)).items():
        ours = _part(failing.outputs, name, region) if name in shared else None
        theirs = _part(reference.outputs, name, region) if name in shared else None
        if ours is None or theirs is None:
            continue
        if differs(ours, theirs, tolerance):
            found[ordinal] = True
        elif all(
            (ordinal, argument.index) in last
            for argument in failing.tasks.tasks[ordinal].task.arguments
            if argument.type.may_write
        ):
            found.setdefault(ordinal, False)
    return found


def _last_writes(side: Side) -> dict[tuple[int, int], tuple[str, Region]]:
    """Output and region by task and argument, where no later task writes into the region again."""
    found: dict[tuple[int, int], tuple[str, Region]] = {}
    buffers: dict[tuple[int, int], int] = {}
    for task in side.tasks.tasks:
        submits = submits_of(side.orchestration, task)
        for argument in task.task.arguments:
            region, buffer = argument.region, argument.tensor_id
            if not argument.type.may_write or region is None or buffer is None:
                continue
            for key in [
                key for key, (_, old) in found.items() if buffers[key] == buffer and may_overlap(region, old)
            ]:
                del found[key]
            name = entry_tensor(side.orchestration, submits, argument.index)
            if name is not None:
                found[task.ordinal, argument.index] = name, region
                buffers[task.ordinal, argument.index] = buffer
    return found


def _part(outputs: TensorFolder, name: str, region: Region) -> TensorView | None:
    """A region of an output; None where the output cannot be read, or is smaller."""
    try:
        whole = outputs.tensor(name)
    except BuildOutputError:
        return None
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
    return TensorView.of_contiguous(name, whole.dtype, region.shape, np.ravel(part))
