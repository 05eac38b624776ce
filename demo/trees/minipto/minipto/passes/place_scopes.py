"""Scope placement: where each buffer is allocated, and what each task tells the runtime about its tensors.

A buffer belongs to the innermost loop body that holds all its uses. The runtime orders tasks by the directions
chosen here: a reader (IN, INOUT) waits for the earlier writers of what it reads; OUT waits for nobody.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Argument, Loop, Program, Region, Scope, Stage, Statement, Task, Tensor, stages
from ..types import ArgDirection, Role


def place_scopes(program: Program) -> Program:
    """Turn every body into a scope and every stage into a task."""
    return replace(program, body=(_scope(program.body, frozenset()),))


def direction_of(region: Region, stage: Stage) -> ArgDirection:
    """What the task tells the runtime: a kernel that adds to old contents must wait for them."""
    if region not in stage.writes:
        return ArgDirection.IN
    return ArgDirection.INOUT if region in stage.reads else ArgDirection.OUT


def _task(stage: Stage) -> Task:
    regions = [region for region in stage.reads if region not in stage.writes]
    regions.extend(stage.writes)
    return Task(
        stage=stage,
        arguments=tuple(Argument(region=region, direction=direction_of(region, stage)) for region in regions),
    )


def _locals_of(statement: Statement) -> dict[Tensor, None]:
    """The local tensors that a statement uses, in order of first use."""
    return dict.fromkeys(
        region.tensor
        for stage in stages((statement,))
        for region in (*stage.reads, *stage.writes)
        if region.tensor.role is Role.LOCAL
    )


def _scope(body: tuple[Statement, ...], allocated: frozenset[Tensor]) -> Scope:
    used = [_locals_of(statement) for statement in body]
    here: list[Tensor] = []
    for tensor in dict.fromkeys(tensor for tensors in used for tensor in tensors):
        users = [statement for statement, tensors in zip(body, used, strict=True) if tensor in tensors]
        if tensor not in allocated and (len(users) > 1 or isinstance(users[0], Stage)):
            here.append(tensor)
    known = allocated | set(here)
    inner: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            inner.append(replace(statement, body=(_scope(statement.body, known),)))
        elif isinstance(statement, Stage):
            inner.append(_task(statement))
    return Scope(allocations=tuple(here), body=tuple(inner))
