"""Exact overlap of strided regions of one buffer."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ...runner.build_output.graph.model import Region

MOST_ELEMENTS = 1 << 24
"""Regions of more elements are not listed element by element; then bounds decide, and the answer is not exact."""


class TooLargeError(ValueError):
    """The regions are too large to be compared element by element."""


def overlap(first: Region, second: Region) -> bool:
    """Whether two regions of one buffer share an element.

    Raises:
        TooLargeError: neither bounds nor layout tell, and the regions have more than `MOST_ELEMENTS`.
    """
    a, b = first.bounds, second.bounds
    if not a or not b or a.stop <= b.start or b.stop <= a.start:
        return False
    if _has_no_gaps(first) and _has_no_gaps(second):
        return True
    if first.strides == second.strides and (apart := _boxes_apart(first, second)) is not None:
        return not apart
    return bool(np.intersect1d(_elements(first), _elements(second)).size)


def covers(outer: Region, inner: Region) -> bool:
    """Whether `outer` surely has every element of `inner`: it is the same, or a run without gaps around it."""
    if outer == inner:
        return True
    bounds = outer.bounds
    return _has_no_gaps(outer) and bounds.start <= inner.bounds.start and inner.bounds.stop <= bounds.stop


def _has_no_gaps(region: Region) -> bool:
    """Whether the elements are a run of the buffer, in whatever order."""
    step = 1
    axes = sorted(zip(region.strides, region.shape, strict=True))
    for stride, extent in axes:
        if extent != 1:
            if stride != step:
                return False
            step *= extent
    return True


def _boxes_apart(first: Region, second: Region) -> bool | None:
    """Whether two boxes of one row-major layout are apart; None where they are not boxes of one."""
    strides = first.strides
    if not strides or strides[-1] != 1 or any(b <= 0 or a % b for a, b in pairwise(strides)):
        return None
    apart = False
    rest_a, rest_b = first.start_offset, second.start_offset
    for axis, stride in enumerate(strides):
        start_a, rest_a = divmod(rest_a, stride)
        start_b, rest_b = divmod(rest_b, stride)
        extent_a, extent_b = first.shape[axis], second.shape[axis]
        if axis and max(start_a + extent_a, start_b + extent_b) * stride > strides[axis - 1]:
            return None  # a row runs into the next
        apart |= start_a + extent_a <= start_b or start_b + extent_b <= start_a
    return apart


def _elements(region: Region) -> npt.NDArray[np.int64]:
    """Offsets of all elements in the buffer."""
    if math.prod(region.shape) > MOST_ELEMENTS:
        raise TooLargeError(f"a region of shape {region.shape}")
    offsets = np.array([region.start_offset], np.int64)
    for extent, stride in zip(region.shape, region.strides, strict=True):
        offsets = (offsets[:, None] + stride * np.arange(extent)).ravel()
    return offsets
