"""Directions of kernels' arguments, read off the submits: builds before June 2026 have no signatures."""

from __future__ import annotations

from collections.abc import Mapping

from ..kernel_config import Direction
from .model import Submit, Usage
from .orchestration import Orchestration

_DIRECTIONS = {Usage.INPUT: Direction.IN, Usage.OUTPUT: Direction.OUT, Usage.INOUT: Direction.INOUT}


def kernel_directions(orchestration: Orchestration) -> Mapping[int, tuple[Direction, ...]]:
    """Directions of each kernel's tensors by function id, scalars left out.

    A kernel is left out where the text does not settle them: its id is not resolved, arguments are added
    conditionally or without a direction, or two submits differ.
    """
    found: dict[int, set[tuple[Direction, ...] | None]] = {}
    for submit in orchestration.submits:
        for kernel in submit.kernels:
            if kernel.func_id is not None and kernel.func_id >= 0:
                found.setdefault(kernel.func_id, set()).add(_directions(submit))
    settled: dict[int, tuple[Direction, ...]] = {}
    for func_id, seen in found.items():
        if len(seen) == 1 and (directions := seen.pop()) is not None:
            settled[func_id] = directions
    return settled


def _directions(submit: Submit) -> tuple[Direction, ...] | None:
    tensors = submit.tensor_arguments
    if submit.declaration is None or not all(one.plain and one.usage in _DIRECTIONS for one in tensors):
        return None
    return tuple(_DIRECTIONS[one.usage] for one in tensors)
