"""Memory planning: where the bytes of each tile lie in the memories of a core.

A kernel's tiles have fixed addresses. A tile takes the lowest bytes of its memory that no other tile needs while it
lives: from the operation that makes it to the last one that reads it, and to the end if it is stored. The result of an
operation that works lane by lane may replace an operand that nothing reads afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir import Op, Place, Program, Region, Shape, Stage, Statement, Task, rewrite_bodies
from ..ops import ELEMENTWISE
from ..types import Core, Tail
from .tile_loops import LANES

ALIGNMENT = 32  # bytes that the units move at once


def allocate_memory_addr(program: Program) -> Program:
    """Give each tile of each task its place."""

    def plan(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(_planned(statement) if isinstance(statement, Task) else statement for statement in body)

    return replace(program, body=rewrite_bodies(program.body, plan))


def tile_shape(stage: Stage, region: Region) -> Shape:
    """The shape of a region's tile: a reduction takes its operand in as whole tiles of LANES."""
    if stage.tail is None or region not in stage.reads:
        return region.shape
    return (region.rows, -(-region.columns // LANES) * LANES)


def valid_shape(stage: Stage, region: Region) -> Shape:
    """How much of a region's tile holds data that count."""
    return tile_shape(stage, region) if stage.tail is Tail.FULL else region.shape


def memory_of(stage: Stage, region: Region) -> str:
    """The memory of a region's tile: a product's operands and its result have memories of their own."""
    if stage.core is Core.VECTOR:
        return "Vec"
    return "Acc" if region in stage.writes else ("Left", "Right")[stage.reads.index(region)]


@dataclass(frozen=True)
class _Life:
    """The steps of a kernel between which a tile holds what is needed: it loads, then computes, then stores."""

    region: Region
    first: int
    last: int


def _lives(stage: Stage) -> list[_Life]:
    """The tiles of a kernel in the order in which they are made."""
    made = {region: step for step, region in enumerate(stage.reads)}
    used = dict(made)
    for step, op in enumerate(stage.ops, len(stage.reads)):
        for region in op.regions_read:
            used[region] = step
        made.setdefault(op.output, step)
        used[op.output] = step
    end = len(stage.reads) + len(stage.ops)
    return [
        _Life(region=region, first=step, last=end if region in stage.writes else used[region])
        for region, step in made.items()
    ]


def _planned(task: Task) -> Task:
    stage = task.stage
    placed: dict[_Life, Place] = {}
    for life in _lives(stage):
        memory = memory_of(stage, life.region)
        rows, columns = tile_shape(stage, life.region)
        size = -(-rows * columns * life.region.tensor.dtype.size // ALIGNMENT) * ALIGNMENT
        others = {other: place for other, place in placed.items() if place.memory == memory}
        offset = _replaced(stage, life, others)
        if offset is None:
            busy = [place for other, place in others.items() if other.last >= life.first]
            offset = _lowest(size, busy)
        placed[life] = Place(region=life.region, memory=memory, offset=offset, size=size)
    return replace(task, stage=stage, places=tuple(placed.values()))


def _replaced(stage: Stage, life: _Life, others: dict[_Life, Place]) -> int | None:
    """Where the operand lies that the result of an operation may replace; None where there is none."""
    op = _maker(stage, life)
    if op is None or op.kind not in ELEMENTWISE:
        return None
    for other, place in others.items():
        same_type = (other.region.shape, other.region.tensor.dtype) == (
            op.output.shape,
            op.output.tensor.dtype,
        )
        if other.last == life.first and same_type:
            return place.offset
    return None


def _maker(stage: Stage, life: _Life) -> Op | None:
    """The operation that makes a tile; None where it is loaded."""
    position = life.first - len(stage.reads)
    return stage.ops[position] if position >= 0 else None


def _lowest(size: int, busy: list[Place]) -> int:
    """The lowest offset of `size` bytes that no place has."""
    offset = 0
    for place in sorted(busy, key=lambda place: place.offset):
        if offset + size <= place.offset:
            break
        offset = max(offset, place.offset + place.size)
    return offset
