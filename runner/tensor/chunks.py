"""Elements of a view in row-major order, a bounded run at a time, as values that can be computed with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import numpy as np

from .view import DType, Storage, TensorView

Result = TypeVar("Result")

CHUNK = 1 << 18
"""Elements of a run: the interpreter's share is small, and the run fits the second-level cache."""


def spans(total: int) -> Iterator[tuple[int, int]]:
    """Start and stop of each run that together cover `total` elements."""
    for start in range(0, total, CHUNK):
        yield start, min(start + CHUNK, total)


def in_two_lanes(total: int, work: Callable[[Sequence[tuple[int, int]]], Result]) -> list[Result]:
    """`work` on every other run of `total` elements, in one thread, and on the rest in another.

    The division is the same on every machine, and with it the order in which sums are taken.
    """
    runs = list(spans(total))
    if len(runs) < 2:
        return [work(runs)]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, (runs[::2], runs[1::2])))


def raw_run(view: TensorView, start: int, stop: int) -> Storage:
    """Elements `start` to `stop` (row-major order) as stored: flat, aligned, copied only where need be."""
    if view.is_contiguous:
        run = view.storage[view.offset + start : view.offset + stop]
        return np.require(run, requirements=["C", "A"])
    step = view.dtype.itemsize
    shaped = np.lib.stride_tricks.as_strided(
        view.storage[view.offset :], view.shape, [stride * step for stride in view.strides], writeable=False
    )
    return shaped.flat[start:stop]


def decode(dtype: DType, raw: Storage) -> Storage:
    """Stored elements as exact values: float32 or float64; int64 or uint64; bool as the int64 0 or 1."""
    if dtype is DType.BFLOAT16:
        return (raw.astype(np.uint32) << 16).view(np.float32)
    if dtype is DType.FLOAT16:
        return raw.astype(np.float32)
    if dtype is DType.BOOL:
        return (raw != 0).astype(np.int64)
    if dtype.is_floating or dtype is DType.UINT64:
        return raw
    return raw.astype(np.int64, copy=False)


def encode(dtype: DType, values: Storage) -> Storage:
    """Decoded values as they are stored, the inverse of `decode`; what the type cannot hold is cut off or wraps."""
    with np.errstate(all="ignore"):
        if dtype is DType.BFLOAT16:
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return values.astype(dtype.storage)


def bits(dtype: DType, raw: Storage) -> Storage:
    """The stored patterns as unsigned integers of the element's width."""
    return raw.view(f"<u{dtype.itemsize}")


def run_values(view: TensorView, start: int, stop: int) -> Storage:
    """Decoded elements `start` to `stop`."""
    return decode(view.dtype, raw_run(view, start, stop))


def cast(view: TensorView, dtype: DType) -> TensorView:
    """A row-major copy of `view` in float64 or float32, rounded to nearest where that type is the narrower one, or of
    integers in a type of integers that holds them.

    Raises:
        ValueError: the type is another one.
    """
    wider = view.dtype.is_integer and dtype.is_integer and np.can_cast(view.dtype.storage, dtype.storage)
    if dtype not in (DType.FLOAT64, DType.FLOAT32) and not wider:
        raise ValueError(f"expected float64, float32 or wider integers, found {dtype.value}")
    values = np.empty(view.numel, dtype.storage)
    for start, stop in spans(view.numel):
        values[start:stop] = run_values(view, start, stop)
    return replace(TensorView.of_contiguous(view.name, dtype, view.shape, values), converted=view.converted)


def narrow(view: TensorView, *, axis: int, start: int, stop: int) -> TensorView:
    """The part of `view` whose index along `axis` runs from `start` to `stop`; shares the storage."""
    shape = list(view.shape)
    shape[axis] = stop - start
    return TensorView(
        name=view.name,
        dtype=view.dtype,
        shape=tuple(shape),
        strides=view.strides,
        storage=view.storage,
        offset=view.offset + start * view.strides[axis],
    )


def axis_last(view: TensorView, axis: int) -> TensorView:
    """`view` with `axis` moved behind all others, so that its runs along `axis` follow one another."""
    order = [k for k in range(len(view.shape)) if k != axis % len(view.shape)] + [axis % len(view.shape)]
    return TensorView(
        name=view.name,
        dtype=view.dtype,
        shape=tuple(view.shape[k] for k in order),
        strides=tuple(view.strides[k] for k in order),
        storage=view.storage,
        offset=view.offset,
    )
