"""Tiling: cut stages into pieces that fit a core's local memory, and loop over the pieces.

Vector stages are cut by rows; neighbours with the same rows share one loop, and a tensor that only they use
shrinks to one tile. Matrix products are cut by rows, columns and depth, where all but the first step along the
depth add to what the step before left (split K).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..index import Index
from ..ir import Loop, Op, Program, Region, Shape, Stage, Statement, Tensor, rewrite_bodies, stages
from ..names import FreshNames
from ..ops import REDUCTIONS
from ..types import Core, Role, Tail

ROW_TILE = 32
LANES = 64  # columns that a reduction takes in at once

MATMUL_ROWS = 64
MATMUL_COLUMNS = 64
MATMUL_DEPTH = 128


def tile_extent(extent: int, limit: int) -> int:
    """The largest divisor of `extent` that is at most `limit`.

    >>> tile_extent(96, 64)
    48
    """
    return next(size for size in range(min(extent, limit), 0, -1) if extent % size == 0)


def tail_of(columns: int) -> Tail:
    """How a reduction over `columns` must treat its last tile of LANES."""
    return Tail.FULL if columns % LANES == 0 else Tail.MASKED


def tile_loops(program: Program) -> Program:
    """Cut every stage, and say how reductions treat their tails."""
    tiler = _Tiler(program)
    return replace(program, body=rewrite_bodies(program.body, tiler.run))


def _touched(members: Iterable[Stage]) -> set[str]:
    return {region.tensor.name for stage in members for region in (*stage.reads, *stage.writes)}


class _Tiler:
    def __init__(self, program: Program) -> None:
        names = FreshNames(program)
        self._all_stages = tuple(stages(program.body))
        self._row, self._m, self._n, self._k = names("r0"), names("m0"), names("n0"), names("k0")

    def run(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        result: list[Statement] = []
        group: list[Stage] = []
        for statement in body:
            if group and not (isinstance(statement, Stage) and _shares_loop(statement, group)):
                result.extend(self._cut_rows(group))
                group = []
            if not isinstance(statement, Stage):
                result.append(statement)
            elif statement.core is Core.CUBE:
                result.extend(self._cut_matmul(statement))
            else:
                group.append(_with_tail(statement))
        if group:
            result.extend(self._cut_rows(group))
        return tuple(result)

    def _cut_rows(self, group: list[Stage]) -> tuple[Statement, ...]:
        rows = group[0].writes[0].rows
        tile = tile_extent(rows, ROW_TILE)
        if tile == rows:
            return tuple(group)
        elsewhere = _touched(stage for stage in self._all_stages if stage.name not in {s.name for s in group})

        def one_tile(region: Region) -> Region:
            tensor = region.tensor
            if region.rows == 1:
                return region  # the same row for every tile
            if tensor.role is Role.LOCAL and tensor.name not in elsewhere:
                return Region.whole(replace(tensor, shape=(tile, region.columns)))
            return region.view((tile, region.columns), (Index.variable(self._row), 0))

        body = tuple(stage.map_regions(one_tile) for stage in group)
        return (Loop(variable=self._row, start=0, stop=rows, step=tile, body=body),)

    def _cut_matmul(self, stage: Stage) -> tuple[Statement, ...]:
        (op,) = stage.ops
        left, right = op.regions_read
        rows = tile_extent(left.rows, MATMUL_ROWS)
        columns = tile_extent(right.columns, MATMUL_COLUMNS)
        depth = tile_extent(left.columns, MATMUL_DEPTH)

        m0 = Index.variable(self._m) if rows < left.rows else Index()
        n0 = Index.variable(self._n) if columns < right.columns else Index()
        target = op.output.view((rows, columns), (m0, n0))

        def step(k0: Index | int, accumulate: bool) -> Stage:
            tile = Op(
                kind=op.kind,
                inputs=(left.view((rows, depth), (m0, k0)), right.view((depth, columns), (k0, n0))),
                output=target,
                accumulate=accumulate,
            )
            name = f"{stage.name}_acc" if accumulate else stage.name
            return replace(stage, name=name, ops=(tile,), reads=tile.regions_read, writes=(target,))

        body: tuple[Statement, ...] = (step(0, accumulate=False),)
        if depth < left.columns:
            later = step(Index.variable(self._k), accumulate=True)
            body += (Loop(variable=self._k, start=depth, stop=left.columns, step=depth, body=(later,)),)
        if columns < right.columns:
            body = (Loop(variable=self._n, start=0, stop=right.columns, step=columns, body=body),)
        if rows < left.rows:
            body = (Loop(variable=self._m, start=0, stop=left.rows, step=rows, body=body),)
        return body


def _shares_loop(stage: Stage, group: list[Stage]) -> bool:
    """Whether tile i of `stage` needs only tile i of what the group writes."""
    if stage.core is Core.CUBE or stage.writes[0].rows != group[0].writes[0].rows:
        return False
    written: dict[Tensor, Region] = {region.tensor: region for member in group for region in member.writes}
    return all(written.get(region.tensor, region) == region for region in stage.reads)


def _with_tail(stage: Stage) -> Stage:
    if stage.ops[0].kind not in REDUCTIONS:
        return stage
    shape: Shape = stage.reads[0].shape
    return replace(stage, tail=tail_of(shape[1]))
