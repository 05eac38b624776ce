"""The pipes between the cube and the vector side of a mixed kernel.

A kernel of both sides is a cube function and a vector function. They run at once and hand tiles over by pipes: first
pushed, first popped. A vector function may run on two lanes. Then a pipe carries a half of each tile to each lane, or
puts the lanes' halves together. Halves are upper and lower rows (split 1), or left and right columns (split 2).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import torch

from .arithmetic import Numbers
from .ir import Constant, Function, Symbol
from .values import Array, Invocation, Value

PIPE_OPERATIONS = frozenset({"tpush_to_aiv", "tpush_to_aic", "tpop_from_aic", "tpop_from_aiv"})

_SPLITS = {"NONE": 0, "UP_DOWN": 1, "LEFT_RIGHT": 2}
"""The split modes have these numbers. A dump states either the number or the name."""


@dataclass
class Pipes:
    """The tiles that are on their way, by direction, pipe and lane."""

    queues: dict[tuple[str, Value, int], deque[Array]] = field(
        default_factory=dict[tuple[str, Value, int], "deque[Array]"]
    )
    halves: dict[tuple[int, int], Array] = field(default_factory=dict[tuple[int, int], Array])
    moves: int = 0
    """Pushes and pops so far. If it does not grow while each side is asked to go on, they wait for each other."""

    def push(self, call: Invocation, tile: Array, lane: int) -> None:
        """The cube side pushes to both lanes, and a lane takes its own."""
        split, pipe = split_mode(call), call.attributes.get("id", 0)
        self.moves += 1
        if call.name.endswith("tpush_to_aiv"):
            for each in (0, 1):
                self._queue("aiv", pipe, each).append(_copy(half(tile, split, each)))
        else:
            self._queue("aic", pipe, lane).append(_copy(tile))

    def pop(self, call: Invocation, lane: int) -> Array | None:
        """The tile that is next; None where it has not been pushed."""
        split, pipe = split_mode(call), call.attributes.get("id", 0)
        if call.name.endswith("tpop_from_aic"):
            queue = self._queue("aiv", pipe, lane)
            if not queue:
                return None
            self.moves += 1
            return queue.popleft()
        first, second = self._queue("aic", pipe, 0), self._queue("aic", pipe, 1)
        if not first or (split and not second):
            return None
        self.moves += 1
        tile = first.popleft()
        # Without a split the second lane pushes only to keep step with the first.
        other = second.popleft() if second else None
        return join_halves(tile, other, split) if split and other is not None else tile

    def give_half(self, number: int, lane: int, tile: Array) -> None:
        """A lane has come to the `number`-th place where both lanes' halves are put together."""
        self.halves[number, lane] = tile
        self.moves += 1

    def whole(self, number: int, call: Invocation) -> Array | None:
        """Both halves together; None before both are there."""
        upper, lower = self.halves.get((number, 0)), self.halves.get((number, 1))
        return None if upper is None or lower is None else join_halves(upper, lower, split_mode(call))

    def _queue(self, direction: str, pipe: Value, lane: int) -> deque[Array]:
        return self.queues.setdefault((direction, pipe, lane), deque())


def _copy(tile: Array) -> Array:
    return Array(tile.numbers.copy(), tile.dtype, tile.valid)


def lane_count(function: Function) -> int:
    """Return on how many lanes a function runs at once."""
    names = {name.rpartition(".")[2] for name in function.operations}
    asks_lane = "get_subblock_idx" in names
    if function.role != "AIV":
        is_lowered = function.attributes.get("split_aiv")
        shares = names & {"aiv_shard", "aic_gather"} or (
            isinstance(is_lowered, Constant) and is_lowered.value
        )
        return 2 if shares and asks_lane else 1
    split = function.attributes.get("split")
    if isinstance(split, Symbol) and split.last != "NONE":
        return 2
    both = function.attributes.get("dual_aiv_dispatch")
    return 2 if asks_lane and isinstance(both, Constant) and both.value else 1


def split_mode(call: Invocation) -> int:
    """Return the mode in which lanes share a tile: 0 for none, 1 for rows, 2 for columns."""
    value = call.attributes.get("split", call.attributes.get("mode", 0))
    if isinstance(value, Symbol):
        return _SPLITS.get(value.last, 0)
    return int(value) if isinstance(value, (bool, int)) else 0


def half(tile: Array, split: int, lane: int) -> Array:
    """A lane's part of a tile."""
    if split not in (1, 2):
        return tile
    axis = len(tile.shape) - (2 if split == 1 else 1)
    length = tile.shape[axis] // 2
    valid = list(tile.valid)
    valid[axis] = max(0, min(length, valid[axis] - lane * length))
    numbers = tile.numbers.rearrange(lambda each: each.narrow(axis, lane * length, length))
    return Array(numbers, tile.dtype, tuple(valid))


def join_halves(first: Array, second: Array, split: int) -> Array:
    """Return two lanes' parts as one tile."""
    if split not in (1, 2):
        return first
    axis = len(first.shape) - (2 if split == 1 else 1)
    centre = torch.cat([first.numbers.centre, second.numbers.centre], axis)
    radius = None
    if first.numbers.radius is not None and second.numbers.radius is not None:
        radius = torch.cat([first.numbers.radius, second.numbers.radius], axis)
    valid = list(first.valid)
    if second.valid[axis]:
        valid[axis] = first.shape[axis] + second.valid[axis]
    return Array(Numbers(centre, radius), first.dtype, tuple(valid))
