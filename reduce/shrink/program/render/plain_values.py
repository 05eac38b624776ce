"""A cut with plain values in place of an input's: zeros, ones, or its first value everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from .....runner.tensor.view import DType, TensorView
from ....replay.comparison import in_type
from ..candidate import Plain
from ..cut.cut import Array, Cut, CutTensor


def with_plain_values(cut: Cut, plain: Mapping[str, Plain]) -> Cut:
    """The inputs named get these values. Expected values have to be computed anew."""
    if not plain:
        return cut
    return replace(
        cut,
        tensors=tuple(
            replace(tensor, initial=_filled(tensor, tensor.initial, plain[tensor.buffer.name]))
            if tensor.initial is not None and tensor.buffer.name in plain
            else tensor
            for tensor in cut.tensors
        ),
    )


def _filled(tensor: CutTensor, values: Array, plain: Plain) -> Array:
    if plain is Plain.FIRST:
        return np.full_like(values, values[0]) if values.size else values
    number = np.array([1.0 if plain is Plain.ONES else 0.0], np.float32)
    value = in_type(TensorView.of_contiguous("plain", DType.FLOAT32, (1,), number), tensor.buffer.dtype)
    return np.full_like(values, value.contiguous()[0])
