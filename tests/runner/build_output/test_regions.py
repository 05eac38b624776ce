"""Overlap of strided regions against brute force."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from precision_bisect.runner.build_output.task_graph import Region, covers, overlap
from precision_bisect.runner.tensor import DType
from tests.support.quick import examples


def elements(region: Region) -> set[int]:
    indices = itertools.product(*(range(extent) for extent in region.shape))
    return {
        region.start_offset + sum(i * stride for i, stride in zip(index, region.strides, strict=True))
        for index in indices
    }


@st.composite
def regions(draw: st.DrawFn) -> Region:
    strides = draw(
        st.sampled_from(((24, 6, 1), (6, 1), (1, 6), (7, 2), (8, 1), (5, 0), (0, 1), (1, 1), (1,), (3,), ()))
    )
    shape = tuple(draw(st.integers(0, 4)) for _ in strides)
    return Region(dtype=DType.FLOAT32, shape=shape, strides=strides, start_offset=draw(st.integers(0, 30)))


@given(first=regions(), second=regions())
@settings(max_examples=examples(1500), deadline=None)
def test_overlap_is_exact(first: Region, second: Region) -> None:
    assert overlap(first, second) == bool(elements(first) & elements(second))


@given(first=regions(), second=regions())
@settings(max_examples=examples(500), deadline=None)
def test_what_covers_has_every_element(first: Region, second: Region) -> None:
    if covers(first, second):
        assert elements(first) >= elements(second)
