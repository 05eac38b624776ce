"""Drop operations whose result nothing uses."""

from __future__ import annotations

from dataclasses import replace

from ..ir import Loop, Op, Program, Statement
from ..types import Role


def eliminate_dead_code(program: Program) -> Program:
    """Keep what leads to an output parameter."""
    return replace(program, body=_live(program.body, set()))


def _live(body: tuple[Statement, ...], wanted: set[str]) -> tuple[Statement, ...]:
    """The part of `body` that is wanted; what it reads is added to `wanted`, last statement first."""
    kept: list[Statement] = []
    for statement in reversed(body):
        match statement:
            case Op(output=output) if output.tensor.role is Role.OUTPUT or output.tensor.name in wanted:
                wanted.update(region.tensor.name for region in statement.regions_read)
                kept.append(statement)
            case Loop():
                inner = _live(statement.body, wanted)
                if inner:
                    kept.append(replace(statement, body=inner))
            case _:
                pass
    return tuple(reversed(kept))
