"""Whether what a task left in one run is what its counterpart left in another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...runner.build_output.args.dump import ArgsDump
from ...runner.build_output.args.records import DumpStage, Kind
from ...runner.build_output.files.errors import RecordNotWholeError
from ...runner.build_output.golden_data import TensorFolder
from ...runner.compare.statistics.statistics import IncomparableError, Tolerance, measure
from ...runner.tensor.chunks import decode, raw_run, spans
from ...runner.tensor.view import DType, Storage, TensorView
from ..graph.task_list import KernelTask


@dataclass(frozen=True)
class TaskValues:
    """Arguments of one task by their index: tensors as they were before and after, and scalars."""

    before: Mapping[int, TensorView]
    after: Mapping[int, TensorView]
    scalars: Mapping[int, int | float | bool | None]

    def in_types(self, dtypes: Mapping[int, DType]) -> TaskValues:
        """The same with the types `dtypes` of some arguments, by their index; rounded to nearest even."""
        before, after = (
            {index: in_type(view, dtypes.get(index, view.dtype)) for index, view in views.items()}
            for views in (self.before, self.after)
        )
        return TaskValues(before, after, self.scalars)


class NotWholeError(Exception):
    """Something that was to be dumped is missing, cut short or overwritten."""


def results_of(dump: ArgsDump, task: KernelTask) -> dict[int, TensorView]:
    """What a task left, by argument index.

    Raises:
        NotWholeError: not all of it was dumped whole.
    """
    return _values(dump, task, DumpStage.AFTER_COMPLETION)


def values_of(dump: ArgsDump, task: KernelTask) -> TaskValues:
    """All tensors of a task; `NotWholeError` where one was not dumped whole."""
    records = dump.find(task_id=task.task.task_id, stage=DumpStage.BEFORE_DISPATCH)
    return TaskValues(
        before=_values(dump, task, DumpStage.BEFORE_DISPATCH),
        after=_values(dump, task, DumpStage.AFTER_COMPLETION),
        scalars={record.arg_index: record.value for record in records if record.kind is Kind.SCALAR},
    )


def _values(dump: ArgsDump, task: KernelTask, stage: DumpStage) -> dict[int, TensorView]:
    after = stage is DumpStage.AFTER_COMPLETION
    wanted = {
        argument.index
        for argument in task.task.arguments
        if (argument.type.may_write if after else argument.type.may_read)
    }
    values: dict[int, TensorView] = {}
    for record in dump.find(task_id=task.task.task_id, stage=stage):
        if record.arg_index in wanted:
            try:
                values[record.arg_index] = dump.tensor(record)
            except RecordNotWholeError as error:
                raise NotWholeError(str(error)) from error
    if values.keys() != wanted:
        raise NotWholeError(
            f"arguments {sorted(wanted - values.keys())} of task {task.ordinal} ({task.name})"
        )
    return values


def same_outputs(first: TensorFolder | None, second: TensorFolder | None) -> bool:
    """Whether two runs have put out the same bits; false where one of them does not tell."""
    return (
        first is not None
        and second is not None
        and first.names == second.names
        and all(_same_bits(first.tensor(name), second.tensor(name)) for name in first.names)
    )


def _same_bits(first: TensorView, second: TensorView) -> bool:
    return (first.dtype, first.shape) == (second.dtype, second.shape) and all(
        raw_run(first, *span).tobytes() == raw_run(second, *span).tobytes() for span in spans(first.numel)
    )


def differs(actual: TensorView, expected: TensorView, tolerance: Tolerance) -> bool:
    """Whether any element is not close, or the tensors cannot correspond at all. Types are compared by value."""
    try:
        return measure(*alike(actual, expected), tolerance).over > 0
    except IncomparableError:
        return True


_ANY_FINITE_ERROR = Tolerance(atol=math.inf)
SIGN_OF_ZERO = math.ulp(0.0)
"""Distance of tensors that differ in the sign of zeros alone: above 0, and below any other."""


def distance(actual: TensorView, expected: TensorView, *, signed_zeros: bool = False) -> float:
    """Relative L2 error ||actual - expected|| / ||expected||; infinite where NaN or Inf are not the same in both.

    With `signed_zeros` tensors that differ in the sign of zeros alone are `SIGN_OF_ZERO` apart, else 0.
    """
    pair = alike(actual, expected)
    try:
        measured = measure(*pair, Tolerance(signed_zeros=signed_zeros))
    except IncomparableError:
        return math.inf
    if measured.unequal == 0:
        return SIGN_OF_ZERO if measured.over else 0.0
    if measured.finite < measured.numel and measure(*pair, _ANY_FINITE_ERROR).over:
        return math.inf
    return math.inf if math.isnan(measured.relative_l2) else measured.relative_l2


def alike(actual: TensorView, expected: TensorView) -> tuple[TensorView, TensorView]:
    """The two as they are, or both as float32 or float64 where their floating types differ."""
    if actual.dtype is expected.dtype or not (actual.dtype.is_floating and expected.dtype.is_floating):
        return actual, expected
    wide = DType.FLOAT64 if DType.FLOAT64 in (actual.dtype, expected.dtype) else DType.FLOAT32
    return _as(actual, wide), _as(expected, wide)


def _as(view: TensorView, dtype: DType) -> TensorView:
    values = decode(view.dtype, np.ravel(view.contiguous())).astype(dtype.storage)
    return TensorView.of_contiguous(view.name, dtype, view.shape, values)


def in_type(view: TensorView, dtype: DType) -> TensorView:
    """The tensor with its elements converted to another type; as it is where it has that type."""
    import torch

    if view.dtype is dtype:
        return view
    converted = view.torch().to(getattr(torch, dtype.torch_name)).contiguous()
    raw: Storage = converted.reshape(-1).view(torch.uint8).numpy()  # pyright: ignore[reportUnknownMemberType]
    return TensorView.of_contiguous(view.name, dtype, view.shape, raw.view(dtype.storage))
