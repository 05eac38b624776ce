"""Undeclared writes in words: how many bytes, past which edge of what, into whose memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....runner.localization.footprints import UndeclaredWrite
from ...replay.task_replay import TaskAlone
from .owners import Owners
from .traces import Positions


def undeclared_writes(
    owners: Owners, alone: TaskAlone, buffer_number: int, positions: Positions
) -> Iterator[UndeclaredWrite]:
    """One entry an edge, of elements of one buffer of a task that it changed and was not declared to write."""
    buffer = alone.placement.buffers[buffer_number]
    size = buffer.dtype.itemsize
    argument = nearest_argument(alone, buffer_number, positions)
    bounds = alone.placement.tensors[argument].region.bounds
    inside = positions[(positions >= buffer.start) & (positions < buffer.stop)]
    edges = (
        ("past the end of the buffer", positions[positions >= buffer.stop], buffer.stop),
        ("before the start of the buffer", positions[positions < buffer.start], buffer.start),
        ("past the end of the tensor", inside[inside >= bounds.stop], bounds.stop),
        ("before the start of the tensor", inside[inside < bounds.start], bounds.start),
        (
            "between the rows of the tensor",
            inside[(inside >= bounds.start) & (inside < bounds.stop)],
            bounds.start,
        ),
    )
    for where, touched, edge in edges:
        if touched.size:
            first, last = int(touched[0]), int(touched[-1])
            out = where.endswith("of the buffer")
            nearer = first if first >= buffer.stop else last
            yield UndeclaredWrite(
                argument=argument,
                tensor=owners.name(alone.task, argument),
                bytes=touched.size * size,
                where=where,  # pyright: ignore[reportArgumentType]
                reach=max(last + 1 - edge, edge - first) * size,
                into=owners.beyond(alone.task, buffer, nearer)
                if out
                else owners.inside(alone.task, buffer, touched),
            )


def nearest_argument(alone: TaskAlone, buffer_number: int, positions: Positions) -> int:
    """The argument in a buffer that lies nearest to some elements; one that is written before one that is read."""

    def apart(argument: int) -> tuple[bool, int]:
        bounds = alone.placement.tensors[argument].region.bounds
        reads = not next(each.type.may_write for each in alone.task.task.arguments if each.index == argument)
        distances = np.maximum(bounds.start - positions, positions - bounds.stop + 1)
        return reads, int(np.maximum(distances, 0).min())

    return min(
        (index for index, placed in alone.placement.tensors.items() if placed.buffer == buffer_number),
        key=apart,
    )
