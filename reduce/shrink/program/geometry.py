"""Tells the shape of a buffer from the strides of its regions, and how to take a region out of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ....runner.build_output.graph.model import Region
from ....runner.tensor.view import contiguous_strides
from .model import NotReducibleError


@dataclass(frozen=True)
class View:
    """`view(shape, offsets)` of a buffer, followed by `transpose(i, j)` if there is a swap."""

    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    swap: tuple[int, int] | None


def buffer_shape(elements: int, regions: Iterable[Region]) -> tuple[int, ...]:
    """The row-major shape of which all regions are boxes.

    Raises:
        NotReducibleError: there is none.
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
        raise NotReducibleError(f"expected regions of one row-major buffer, found strides {sorted(strides)}")
    shape = (elements // steps[0], *(outer // inner for outer, inner in pairwise(steps)))
    return (1,) * (rank - len(shape)) + shape


def view_of(region: Region, shape: tuple[int, ...]) -> View:
    """How to take `region` out of a buffer of `shape`.

    Raises:
        NotReducibleError: it is no box of it, with at most two axes swapped.
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
    raise NotReducibleError(
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


def elements_of(region: Region) -> npt.NDArray[Any]:
    """Flat positions in the buffer of a region's elements, in the region's own row-major order."""
    places = np.array([region.start_offset], np.int64)
    for extent, stride in zip(region.shape, region.strides, strict=True):
        places = (places[:, None] + stride * np.arange(extent)).ravel()
    return places
