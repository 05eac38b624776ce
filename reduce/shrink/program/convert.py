"""One build's values in the element types of the other, where a compiler has changed a type."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....runner.tensor.view import DType, TensorView
from ...replay.comparison import TaskValues


def converted(values: TaskValues, dtypes: Mapping[int, DType]) -> TaskValues:
    """The values of a task with the types `dtypes` of its arguments, by their index; rounded to nearest even."""
    return TaskValues(
        before={index: as_type(view, dtypes.get(index)) for index, view in values.before.items()},
        after={index: as_type(view, dtypes.get(index)) for index, view in values.after.items()},
        scalars=values.scalars,
    )


def as_type(view: TensorView, dtype: DType | None) -> TensorView:
    """The values rounded to nearest even in another type; None: as they are."""
    if dtype is None or dtype is view.dtype:
        return view
    import torch

    tensor = view.torch().to(getattr(torch, dtype.torch_name)).contiguous()
    stored = tensor.view(torch.uint8) if dtype is not DType.BOOL else tensor.to(torch.uint8)
    raw = stored.numpy().reshape(-1).view(dtype.storage)  # pyright: ignore[reportUnknownMemberType]
    return TensorView.of_contiguous(view.name, dtype, view.shape, np.ascontiguousarray(raw))
