"""The smallest change of a tensor: how far rounding of its inputs alone can move a result."""

from __future__ import annotations

import numpy as np

from ....runner.tensor.view import DType, TensorView

_SEED = 2026
_LARGEST = {
    DType.FLOAT64: 0x7FEFFFFFFFFFFFFF,
    DType.FLOAT32: 0x7F7FFFFF,
    DType.FLOAT16: 0x7BFF,
    DType.BFLOAT16: 0x7F7F,
}
"""Bits of the largest finite number of each floating type."""


def moved_by_one_ulp(view: TensorView) -> TensorView:
    """A tensor of the same shape with every finite floating element moved by one unit in the last place, up or down by
    a fixed random choice; a tensor of integers as it is."""
    if not view.dtype.is_floating:
        return view
    values = view.contiguous()
    bits = np.ravel(values).view(f"<i{view.dtype.itemsize}").copy()
    step = np.random.default_rng(_SEED).choice(np.array([-1, 1], bits.dtype), bits.shape)
    magnitude = bits & np.iinfo(bits.dtype).max
    # Zero has nothing below it; infinities and NaN, and the largest number, stay what they are.
    movable = (magnitude > 0) & (magnitude < _LARGEST[view.dtype])
    bits[movable] += step[movable]
    return TensorView.of_contiguous(view.name, view.dtype, view.shape, bits.view(view.dtype.storage))
