"""Kernels: one C++ file for each stage, against pto_kernel_api.h."""

from __future__ import annotations

from ..ir import Op, Operand, Region, Scalar, Stage, Task
from ..ops import ELEMENTWISE, MATMUL, REDUCTIONS
from ..passes.tile_loops import LANES
from ..types import DType, Tail
from .casts import ROUND_AWAY, lower_cast


def kernel_source(task: Task) -> str:
    """The kernel's whole source."""
    stage = task.stage
    names = argument_names(task)
    kind = stage.ops[0].kind
    if kind == MATMUL:
        body = _matmul(stage, names)
    elif kind in REDUCTIONS:
        body = _reduction(stage, names)
    else:
        body = _elementwise(stage, names)
    lines = [f"// {_summary(op)}" for op in stage.ops]
    lines += ['#include "pto_kernel_api.h"', ""]
    if any("round_away(" in line for line in body):
        lines += [ROUND_AWAY]
    lines += ['extern "C" void kernel_entry(const KernelArgs& args) {']
    lines += ["    " + line for line in [*_bind_arguments(task, names), *body]]
    return "\n".join([*lines, "}"]) + "\n"


def argument_names(task: Task) -> dict[Region, str]:
    """A C++ name for each tensor argument; a tensor that is passed twice gets a number."""
    names: dict[Region, str] = {}
    for argument in task.arguments:
        base = argument.region.tensor.name
        count = sum(region.tensor.name == base for region in names)
        names[argument.region] = f"{base}_{count + 1}" if count else base
    return names


def _summary(op: Op) -> str:
    operands = [str(x) if isinstance(x, Scalar) else x.tensor.name for x in op.inputs]
    return f"{op.output.tensor.name} {'+=' if op.accumulate else '='} {op.kind}({', '.join(operands)})"


def _bind_arguments(task: Task, names: dict[Region, str]) -> list[str]:
    lines: list[str] = []
    for position, argument in enumerate(task.arguments):
        region = argument.region
        comment = f"{region.tensor.dtype.runtime_name} [{region.rows}, {region.columns}]"
        lines.append(f"const KernelTensor& {names[region]} = args.tensors[{position}];  // {comment}")
    for position, operand in enumerate(task.stage.scalars):
        lines.append(f"const float scalar_{position} = scalar<float>(args, {position});  // {operand}")
    return lines


def _elementwise(stage: Stage, names: dict[Region, str]) -> list[str]:
    target = names[stage.writes[-1]]
    rows, columns = stage.ops[0].output.shape
    values: dict[Operand, str] = {operand: f"scalar_{i}" for i, operand in enumerate(stage.scalars)}
    inner: list[str] = []
    for region in stage.reads:
        row = "0" if region.rows == 1 and rows > 1 else "row"
        column = "0" if region.columns == 1 and columns > 1 else "column"
        name = names[region]
        values[region] = f"{name}_value"
        inner.append(f"const float {name}_value = load_f32({name}, element_offset({name}, {row}, {column}));")
    for op in stage.ops:
        name = f"{op.output.tensor.name}_value"
        values[op.output] = name
        inner.append(f"const float {name} = {_expression(op, values)};")
    inner += [
        f"store_f32({names[region]}, element_offset({names[region]}, row, column), {values[region]});"
        for region in stage.writes
    ]
    return [
        f"for (uint32_t row = 0; row < {target}.shape[0]; ++row) {{",
        f"    for (uint32_t column = 0; column < {target}.shape[1]; ++column) {{",
        *("        " + line for line in inner),
        "    }",
        "}",
    ]


def _expression(op: Op, values: dict[Operand, str]) -> str:
    operands = [values[operand] for operand in op.inputs]
    if op.kind == "cast":
        source = op.regions_read[0].tensor.dtype
        return lower_cast(operands[0], source, op.output.tensor.dtype, op.round_mode)
    return ELEMENTWISE[op.kind].format(*operands)


def _reduction(stage: Stage, names: dict[Region, str]) -> list[str]:
    (op,) = stage.ops
    source, target = names[op.regions_read[0]], names[op.output]
    start, step = REDUCTIONS[op.kind]
    taken = "valid" if stage.tail is Tail.MASKED else str(LANES)
    return [
        f"float lanes[{LANES}] = {{}};  // one row of a column tile; lanes past `valid` keep what was there before",
        f"const uint32_t columns = {source}.shape[1];",
        f"for (uint32_t row = 0; row < {source}.shape[0]; ++row) {{",
        f"    float accumulator = {start};",
        f"    for (uint32_t first = 0; first < columns; first += {LANES}) {{",
        f"        const uint32_t valid = columns - first < {LANES} ? columns - first : {LANES};",
        f"        load_tile({source}, row, first, 1, valid, lanes, {LANES});",
        f"        for (uint32_t lane = 0; lane < {taken}; ++lane) {{",
        f"            accumulator = {step};",
        "        }",
        "    }",
        f"    store_f32({target}, element_offset({target}, row, 0), accumulator);",
        "}",
    ]


def _matmul(stage: Stage, names: dict[Region, str]) -> list[str]:
    (op,) = stage.ops
    left_region, right_region = op.regions_read[:2]
    left, right, target = names[left_region], names[right_region], names[op.output]
    rows, columns = op.output.shape
    depth = left_region.columns
    if op.output.tensor.dtype is DType.INT32:
        number, old = "int32_t", f"elements<int32_t>({target})[offset]"
        store = f"elements<int32_t>({target})[offset] = {{value}};"
    else:
        number, old = "float", f"load_f32({target}, offset)"
        store = f"store_f32({target}, offset, {{value}});"
    total = f"products[row * {columns} + column]"
    return [
        f"float left_tile[{rows} * {depth}];",
        f"float right_tile[{depth} * {columns}];",
        f"load_tile({left}, 0, 0, {left}.shape[0], {left}.shape[1], left_tile, {depth});",
        f"load_tile({right}, 0, 0, {right}.shape[0], {right}.shape[1], right_tile, {columns});",
        f"{number} products[{rows} * {columns}] = {{}};",
        f"for (uint32_t row = 0; row < {target}.shape[0]; ++row) {{",
        f"    for (uint32_t inner = 0; inner < {left}.shape[1]; ++inner) {{",
        f"        const {number} factor = static_cast<{number}>(left_tile[row * {depth} + inner]);",
        f"        for (uint32_t column = 0; column < {target}.shape[1]; ++column) {{",
        f"            {total} += factor * static_cast<{number}>(right_tile[inner * {columns} + column]);",
        "        }",
        "    }",
        "}",
        f"for (uint32_t row = 0; row < {target}.shape[0]; ++row) {{",
        f"    for (uint32_t column = 0; column < {target}.shape[1]; ++column) {{",
        f"        const uint64_t offset = element_offset({target}, row, column);",
        "        " + store.format(value=f"{old} + {total}" if op.accumulate else total),
        "    }",
        "}",
    ]
