"""Fusion: neighbouring elementwise operations of one shape become one stage, and what only they exchange stays
in registers. Reductions and matrix products are stages of their own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..ir import Op, Program, Region, Stage, Statement, leaves, rewrite_bodies
from ..ops import ELEMENTWISE, MATMUL
from ..types import Core, Role

# More operations than this would need more vector registers than the unit has.
MAX_FUSED_OPS = 4


def fuse_elementwise(program: Program) -> Program:
    """Gather every operation into a stage."""
    uses = Counter(
        region.tensor.name
        for leaf in leaves(program.body)
        if isinstance(leaf, Op)
        for region in leaf.regions_read
    )
    return replace(program, body=rewrite_bodies(program.body, lambda body: _fuse(body, uses)))


def _fuse(body: tuple[Statement, ...], uses: Counter[str]) -> tuple[Statement, ...]:
    result: list[Statement] = []
    group: list[Op] = []

    def flush() -> None:
        if group:
            result.append(_stage(tuple(group), uses))
            group.clear()

    for statement in body:
        if not isinstance(statement, Op):
            flush()
            result.append(statement)
            continue
        if group and not _fits(statement, group):
            flush()
        group.append(statement)
    flush()
    return tuple(result)


def _fits(op: Op, group: list[Op]) -> bool:
    """Whether `op` can run lane by lane after the operations of `group`."""
    if len(group) == MAX_FUSED_OPS:
        return False
    if op.kind not in ELEMENTWISE or group[0].kind not in ELEMENTWISE:
        return False
    if op.output.shape != group[0].output.shape:
        return False
    written = {member.output.tensor.name: member.output for member in group}
    return all(written.get(region.tensor.name, region) == region for region in op.regions_read)


def _stage(ops: tuple[Op, ...], uses: Counter[str]) -> Stage:
    produced = {op.output.tensor.name for op in ops}
    used_inside = Counter(region.tensor.name for op in ops for region in op.regions_read)
    reads = dict.fromkeys(
        region for op in ops for region in op.regions_read if region.tensor.name not in produced
    )
    writes = tuple(op.output for op in ops if _leaves_the_stage(op.output, uses, used_inside))
    core = Core.CUBE if ops[0].kind == MATMUL else Core.VECTOR
    return Stage(name=writes[-1].tensor.name, core=core, ops=ops, reads=tuple(reads), writes=writes)


def _leaves_the_stage(region: Region, uses: Counter[str], used_inside: Counter[str]) -> bool:
    name = region.tensor.name
    return region.tensor.role is Role.OUTPUT or uses[name] > used_inside[name]
