"""Which strided regions of one buffer share elements.

`overlap` compares two regions exactly. `RegionIndex` holds many, and finds those near another one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ...runner.build_output.task_graph import Region

MOST_ELEMENTS = 1 << 24
"""Regions with more elements are not listed element by element. Their bounds decide, and the answer is not exact."""


class TooLargeError(ValueError):
    """The regions are too large to be compared element by element."""


def overlap(first: Region, second: Region) -> bool:
    """Return whether two regions of one buffer share an element.

    Raises:
        TooLargeError: neither bounds nor layout tell, and the regions have more than `MOST_ELEMENTS`.
    """
    a, b = first.bounds, second.bounds
    if not a or not b or a.stop <= b.start or b.stop <= a.start:
        return False
    if _has_no_gaps(first) and _has_no_gaps(second):
        return True
    if first.strides == second.strides and (apart := _are_boxes_disjoint(first, second)) is not None:
        return not apart
    return bool(np.intersect1d(_elements(first), _elements(second)).size)


def covers(outer: Region, inner: Region) -> bool:
    """Return whether `outer` surely has every element of `inner`: it is the same, or a run without gaps around it."""
    if outer == inner:
        return True
    bounds = outer.bounds
    return _has_no_gaps(outer) and bounds.start <= inner.bounds.start and inner.bounds.stop <= bounds.stop


def may_overlap(first: Region, second: Region) -> bool:
    """Return whether two regions of a buffer share an element, or are too large to say."""
    try:
        return overlap(first, second)
    except TooLargeError:
        return True


def _has_no_gaps(region: Region) -> bool:
    """Return whether the elements are one run of the buffer, in any order."""
    step = 1
    axes = sorted(zip(region.strides, region.shape, strict=True))
    for stride, extent in axes:
        if extent != 1:
            if stride != step:
                return False
            step *= extent
    return True


def _are_boxes_disjoint(first: Region, second: Region) -> bool | None:
    """Return whether two boxes of one row-major layout share no element; None if they are not boxes of one layout."""
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


Owner = TypeVar("Owner")


@dataclass(frozen=True)
class IndexedRegion(Generic[Owner]):
    """A region with whom it belongs to; regions of an index are numbered as they come."""

    number: int
    region: Region
    owner: Owner


class RegionIndex(Generic[Owner]):
    """Regions of one buffer, found without a look at those that lie elsewhere.

    Regions of like length stand together, sorted by their starts: in each such list, those whose bounds meet a range
    are neighbours. Empty regions share nothing, and are left out.
    """

    def __init__(self) -> None:
        self._count = 0
        self._by_length: dict[int, list[tuple[int, int, IndexedRegion[Owner]]]] = {}
        """Start, number and region, by the bits in the length of the bounds."""

    def add(self, region: Region, owner: Owner) -> None:
        """Add a region; equal ones may be there."""
        bounds = region.bounds
        if bounds:
            alike = self._by_length.setdefault(_length_class(bounds), [])
            insort(alike, (bounds.start, self._count, IndexedRegion(self._count, region, owner)))
            self._count += 1

    def drop(self, dropped: Iterable[IndexedRegion[Owner]]) -> None:
        """Drop regions that are in the index."""
        for each in dropped:
            bounds = each.region.bounds
            alike = self._by_length[_length_class(bounds)]
            del alike[bisect_left(alike, (bounds.start, each.number))]

    def near(self, region: Region) -> list[IndexedRegion[Owner]]:
        """The regions whose bounds meet those of the given one, in the order in which they were added."""
        bounds = region.bounds
        if not bounds:
            return []
        found: list[IndexedRegion[Owner]] = []
        for bits, alike in self._by_length.items():
            first = bisect_left(alike, (bounds.start - (1 << bits),))
            last = bisect_left(alike, (bounds.stop,))
            found += [each for _, _, each in alike[first:last] if each.region.bounds.stop > bounds.start]
        return sorted(found, key=lambda each: each.number)

    def overlapping(self, region: Region) -> list[IndexedRegion[Owner]]:
        """The regions that share an element with the given one, or are too large to say, in the order of `near`."""
        return [each for each in self.near(region) if may_overlap(region, each.region)]

    def overwrite(self, region: Region, owner: Owner) -> None:
        """Add a region, and drop those whose elements it surely has."""
        self.drop(each for each in self.near(region) if covers(region, each.region))
        self.add(region, owner)


def _length_class(bounds: range) -> int:
    """The bits in the number of elements, which `len` does not count beyond 2**63."""
    return (bounds.stop - bounds.start).bit_length()
