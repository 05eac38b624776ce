"""What a lone task changed outside of what it was declared to write, and whether its results depend on what it was not
given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from ....runner.build_output.graph.model import Region
from ....runner.tensor.view import Storage
from ...replay.task_replay import GivenTask, TaskAlone
from ...rewrite.geometry import region_of

Positions = npt.NDArray[np.int64]
"""Of elements in a flat buffer, ascending."""
_Mask = npt.NDArray[np.bool_]


class Place(Enum):
    """Parts of a buffer that a task was not given as an input."""

    HELD = "held before"
    AROUND = "around the tensor"
    PAST = "past the end of the buffer"
    BEFORE = "before the buffer"


@dataclass(frozen=True)
class LoneRun:
    """One run of a task alone: the contents that its buffers were given, and left with."""

    given: Sequence[Storage]
    left: Sequence[Storage]


def changed_outside(alone: TaskAlone, ran: LoneRun) -> dict[int, Positions]:
    """Elements, by buffer, that a task changed and was not declared to write."""
    found: dict[int, Positions] = {}
    for number, (before, after) in enumerate(zip(ran.given, ran.left, strict=True)):
        changed = (_bits(before) != _bits(after)) & ~_mask(alone, number, _written(alone))
        if changed.any():
            found[number] = np.flatnonzero(changed)
    return found


def depends(alone: TaskAlone, one: LoneRun, other: LoneRun, *, other_alone: TaskAlone | None = None) -> bool:
    """Whether the task's results differ between two runs. What neither has written does not count. In the other run its
    tensors may lie elsewhere, as in `other_alone`."""
    pairs = zip(_written(alone), _written(other_alone or alone), strict=True)
    for (number, region), (_, moved) in pairs:
        here, there = _bits(region_of(one.left[number], region)), _bits(region_of(other.left[number], moved))
        unwritten = (here == _bits(region_of(one.given[number], region))) & (
            there == _bits(region_of(other.given[number], moved))
        )
        if bool(((here != there) & ~unwritten).any()):
            return True
    return False


def with_other_fill(low: GivenTask, high: GivenTask, buffer: int, place: Place) -> GivenTask | None:
    """The contents of `low` with those of `high` in one place of one buffer; None where there is no such place."""
    mask = _place(low.alone, buffer, place)
    if not mask.any():
        return None
    contents = list(low.contents)
    contents[buffer] = np.where(mask, high.contents[buffer], low.contents[buffer])
    return GivenTask(low.alone, tuple(contents))


def _place(alone: TaskAlone, number: int, place: Place) -> _Mask:
    buffer = alone.placement.buffers[number]
    where = np.arange(buffer.elements)
    inside = (where >= buffer.start) & (where < buffer.stop)
    written, read = (_mask(alone, number, regions) for regions in (_written(alone), _read(alone)))
    match place:
        case Place.HELD:
            return written & ~read
        case Place.AROUND:
            return inside & ~written & ~read
        case Place.PAST:
            return (where >= buffer.stop) & ~written & ~read
        case Place.BEFORE:
            return (where < buffer.start) & ~written & ~read


def _mask(alone: TaskAlone, number: int, regions: Iterator[tuple[int, Region]]) -> _Mask:
    mask = np.zeros(alone.placement.buffers[number].elements, np.bool_)
    for buffer, region in regions:
        if buffer == number:
            region_of(mask, region)[...] = True
    return mask


def _written(alone: TaskAlone) -> Iterator[tuple[int, Region]]:
    return _regions(alone, writing=True)


def _read(alone: TaskAlone) -> Iterator[tuple[int, Region]]:
    return _regions(alone, writing=False)


def _regions(alone: TaskAlone, *, writing: bool) -> Iterator[tuple[int, Region]]:
    for argument in alone.task.task.arguments:
        if argument.type.may_write if writing else argument.type.may_read:
            placed = alone.placement.tensors[argument.index]
            yield placed.buffer, placed.region


def _bits(values: Storage) -> Storage:
    """The elements as integers: NaN equals itself then, and -0.0 is not 0.0."""
    return np.ascontiguousarray(values).view(f"<u{values.dtype.itemsize}")
