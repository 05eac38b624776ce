"""Programs as text, for passes_dump/. The text has everything that a pass can change."""

from __future__ import annotations

from .ir import Loop, Op, Operand, Program, Region, Scalar, Scope, Stage, Statement, Task, Tensor

_INDENT = "    "


def _shape(tensor: Tensor) -> str:
    return f"{tensor.dtype.label}[{tensor.shape[0]}, {tensor.shape[1]}]"


def _region(region: Region) -> str:
    text = region.tensor.name
    if not region.is_whole:
        starts = zip(region.origin, region.stored_shape, strict=True)
        text += "[" + ", ".join(f"{start} : +{extent}" for start, extent in starts) + "]"
    return text + ".T" if region.transposed else text


def _operand(operand: Operand) -> str:
    return str(operand) if isinstance(operand, Scalar) else _region(operand)


def _op(op: Op) -> str:
    target = op.output.tensor
    line = f"{_region(op.output)}: {_shape(target)} {'+=' if op.accumulate else '='} {op.kind}"
    line += " " + ", ".join(_operand(operand) for operand in op.inputs)
    return f"{line} ({op.round_mode.value})" if op.round_mode else line


def _stage(stage: Stage) -> list[str]:
    tail = f", tail {stage.tail.value}" if stage.tail else ""
    heading = f"stage {stage.name} on {stage.core.value}{tail}"
    return [heading, *(_INDENT + _op(op) for op in stage.ops)]


def _allocation(tensor: Tensor) -> str:
    shared = f" in the buffer of {tensor.buffer}" if tensor.storage != tensor.name else ""
    return f"alloc {tensor.name}: {_shape(tensor)}{shared}"


def _statement(statement: Statement) -> list[str]:
    match statement:
        case Op():
            return [_op(statement)]
        case Stage():
            return _stage(statement)
        case Loop():
            heading = (
                f"for {statement.variable} in {statement.start} .. {statement.stop} step {statement.step}"
            )
            return [heading, *_body(statement.body)]
        case Scope():
            inner = [_allocation(tensor) for tensor in statement.allocations]
            return ["scope", *(_INDENT + line for line in inner), *_body(statement.body)]
        case Task():
            directions = ", ".join(
                f"{argument.direction.value} {_region(argument.region)}" for argument in statement.arguments
            )
            return [f"task({directions})", *(_INDENT + line for line in _stage(statement.stage))]


def _body(body: tuple[Statement, ...]) -> list[str]:
    return [_INDENT + line for statement in body for line in _statement(statement)]


def print_program(program: Program) -> str:
    """The program as text, one statement a line."""
    tensors = [f"{tensor.name}: {tensor.role.value} {_shape(tensor)}" for tensor in program.tensors]
    scalars = [f"{scalar.name}: fp32" for scalar in program.scalars]
    heading = f"program {program.name}({', '.join([*tensors, *scalars])})"
    return "\n".join([heading, *_body(program.body)]) + "\n"
