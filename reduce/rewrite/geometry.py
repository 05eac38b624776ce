"""Tells the shape of a buffer from the strides of its regions, and how to take a region out of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ...runner.build_output.graph.model import Region
from ...runner.errors import UserError
from ...runner.tensor.view import Storage, contiguous_strides


class LayoutError(UserError):
    """A region cannot be taken out of its buffer with the words of an orchestration."""


@dataclass(frozen=True)
class View:
    """`view(shape, offsets)` of a buffer, followed by `transpose(i, j)` if there is a swap."""

    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    swap: tuple[int, int] | None


def buffer_shape(elements: int, regions: Iterable[Region]) -> tuple[int, ...]:
    """The row-major shape of which all regions are boxes.

    Raises:
        LayoutError: there is none.
    """
    used = list(regions)
    rank = max(len(region.shape) for region in used)
    strides = {
        stride
        for region in used
        for stride, extent in zip(region.strides, region.shape, strict=True)
        if extent > 1
    }
    steps = sorted(strides | {1}, reverse=True)
    if any(outer % inner for outer, inner in pairwise(steps)) or elements % steps[0] or len(steps) > rank:
        raise LayoutError(f"expected regions of one row-major buffer, found strides {sorted(strides)}")
    shape = (elements // steps[0], *(outer // inner for outer, inner in pairwise(steps)))
    return (1,) * (rank - len(shape)) + shape


def view_of(region: Region, shape: tuple[int, ...]) -> View:
    """How to take `region` out of a buffer of `shape`.

    Raises:
        LayoutError: it is no box of it, with at most two axes swapped.
    """
    steps = contiguous_strides(shape)
    offsets = np.unravel_index(region.start_offset, shape) if math.prod(shape) else (0,) * len(shape)
    rank = len(shape)
    for order in _orders(rank):
        extents = (
            [region.shape[order.index(axis)] for axis in range(rank)] if rank == len(region.shape) else []
        )
        fits = bool(extents) and all(
            extent == 1 or region.strides[order.index(axis)] == steps[axis]
            for axis, extent in enumerate(extents)
        )
        if fits and all(int(o) + e <= s for o, e, s in zip(offsets, extents, shape, strict=True)):
            moved = [axis for axis in range(rank) if order[axis] != axis]
            swap = (moved[0], moved[1]) if moved else None
            return View(tuple(extents), tuple(int(offset) for offset in offsets), swap)
    raise LayoutError(
        f"expected a box of a buffer {shape}, found shape {region.shape}, strides {region.strides}, "
        f"offset {region.start_offset}"
    )


def _orders(rank: int) -> Iterable[list[int]]:
    yield list(range(rank))
    for first in range(rank):
        for second in range(first + 1, rank):
            order = list(range(rank))
            order[first], order[second] = second, first
            yield order


def view_text(region: Region, shape: tuple[int, ...], *, tensor: str, variable: str) -> tuple[list[str], str]:
    """Statements that take `region` out of the tensor `tensor` of `shape`, and what to call it then: `variable`, or the
    tensor itself where it is all of it. Raises as `view_of`."""
    view = view_of(region, shape)
    if view.shape == shape and view.swap is None:
        return [], tensor
    rank = len(view.shape)
    swap = "" if view.swap is None else f".transpose({view.swap[0]}, {view.swap[1]})"
    return [
        f"uint32_t {variable}_shapes[{rank}] = {{{', '.join(map(str, view.shape))}}};",
        f"uint32_t {variable}_offsets[{rank}] = {{{', '.join(map(str, view.offsets))}}};",
        f"const auto {variable} = {tensor}.view({variable}_shapes, {variable}_offsets){swap};",
    ], variable


def elements_of(region: Region) -> npt.NDArray[Any]:
    """Flat positions in the buffer of a region's elements, in the region's own row-major order."""
    places = np.array([region.start_offset], np.int64)
    for extent, stride in zip(region.shape, region.strides, strict=True):
        places = (places[:, None] + stride * np.arange(extent)).ravel()
    return places


def region_of(buffer: Storage, region: Region) -> Storage:
    """A region of a flat buffer as an array of the region's shape, which shares its memory.

    Raises:
        LayoutError: it reaches out of the buffer.
    """
    bounds = region.bounds
    if bounds and (bounds.start < 0 or bounds.stop > buffer.size or min(region.strides, default=0) < 0):
        raise LayoutError(f"expected a region within {buffer.size} elements, found elements {bounds}")
    step = buffer.dtype.itemsize
    return np.lib.stride_tricks.as_strided(
        buffer[region.start_offset :], region.shape, [stride * step for stride in region.strides]
    )
