"""Parts of tensors in words: which rows and columns, and whether they are transposed."""

from __future__ import annotations

from ....runner.build_output.graph.model import Region


def in_words(region: Region) -> str:
    """Rows and columns of a matrix, counted in its buffer, where it is a box of one; else shape, strides and offset.

    >>> in_words(Region(dtype=None, shape=(2, 4), strides=(8, 1), start_offset=16))
    'rows 2:4, columns 0:4'
    >>> in_words(Region(dtype=None, shape=(4, 2), strides=(1, 8), start_offset=16))
    'rows 2:4, columns 0:4, transposed'
    """
    if len(region.shape) == 2 and 0 not in region.shape:
        if region.strides[1] == 1 and region.strides[0] > 0:
            return _box(region.start_offset, region.shape, region.strides[0])
        if region.strides[0] == 1 and region.strides[1] > 0:
            return f"{_box(region.start_offset, region.shape[::-1], region.strides[1])}, transposed"
    if len(region.shape) == 1 and region.strides == (1,):
        return f"elements {region.start_offset}:{region.start_offset + region.shape[0]}"
    return f"shape {list(region.shape)}, strides {list(region.strides)}, offset {region.start_offset}"


def _box(offset: int, shape: tuple[int, ...], pitch: int) -> str:
    row, column = divmod(offset, pitch)
    return f"rows {row}:{row + shape[0]}, columns {column}:{column + shape[1]}"


def difference_in_words(here: Region, there: Region) -> str:
    """How a region of the failing build differs from the one of the reference."""
    if here.dtype is not there.dtype and here.dtype is not None and there.dtype is not None:
        types = f"{here.dtype.value}, was {there.dtype.value}"
        if (here.shape, here.strides, here.start_offset) == (there.shape, there.strides, there.start_offset):
            return types
    ours, theirs = in_words(here), in_words(there)
    if ours == theirs:
        return f"shape {list(here.shape)}, strides {list(here.strides)}, was {list(there.shape)}, {list(there.strides)}"
    return f"{theirs} in the good build and {ours} here"
