"""Random tensors of every type, and views of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from precision_bisect.runner.tensor import DType, TensorView
from tests.support.quick import quick_first

FLOATS = (DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
SIGNED = (DType.INT64, DType.INT32, DType.INT16, DType.INT8)
UNSIGNED = (DType.UINT64, DType.UINT32, DType.UINT16, DType.UINT8)
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *INTEGERS)
_ASKED_FIRST = (DType.FLOAT32, DType.BFLOAT16, DType.INT32)


def each(types: Iterable[DType]) -> list[Any]:
    """The types as parameters of a test: a wide, a narrow and a whole one first, which `make test` asks alone."""
    ordered = sorted(types, key=lambda dtype: dtype not in _ASKED_FIRST)
    return quick_first(ordered, sum(dtype in _ASKED_FIRST for dtype in ordered))


def view_of(tensor: torch.Tensor, name: str = "t") -> TensorView:
    """A view that shares a contiguous tensor's memory."""
    dtype = DType.parse(str(tensor.dtype))
    flat = tensor.contiguous().reshape(-1)
    stored: Any = flat.view(getattr(torch, dtype.storage.name)).numpy()
    return TensorView.from_contiguous(name, dtype, tuple(tensor.shape), stored)


def random_bits(dtype: DType, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Every bit pattern is as likely as any other: NaN, Inf, subnormal numbers and all magnitudes occur."""
    count = int(np.prod(shape, dtype=int))
    raw = np.random.default_rng(seed).bytes(count * dtype.itemsize)
    if dtype is DType.BOOL:
        return torch.tensor([byte & 1 == 1 for byte in raw]).reshape(shape)
    patterns = torch.frombuffer(bytearray(raw), dtype=getattr(torch, dtype.storage.name))
    return patterns.view(getattr(torch, dtype.torch_name)).reshape(shape)


def neighbours(tensor: torch.Tensor, reach: int, seed: int) -> torch.Tensor:
    """`tensor` with every bit pattern moved by at most `reach`, so that most pairs are nearly close."""
    dtype = DType.parse(str(tensor.dtype))
    if dtype is DType.BOOL:
        return tensor ^ (torch.rand(tensor.shape) < 0.1)
    patterns: Any = tensor.contiguous().view(getattr(torch, f"int{8 * dtype.itemsize}")).numpy()
    moves = np.random.default_rng(seed).integers(-reach, reach + 1, patterns.shape).astype(patterns.dtype)
    with np.errstate(over="ignore"):
        moved = patterns + moves
    return torch.from_numpy(moved).view(tensor.dtype)
