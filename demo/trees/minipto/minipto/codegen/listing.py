"""The .pto listing of a kernel: what it loads, computes and stores, tile by tile, and where the tiles lie."""

from __future__ import annotations

from ..ir import Op, Region, Stage, Task
from ..passes.tile_loops import LANES
from .kernels import argument_names


def listing(task: Task) -> str:
    """One `pto.` line an operation, in program order."""
    stage = task.stage
    names = argument_names(task)
    arguments = [f"%{names[a.region]}: {_tile(a.region)} {a.direction.value}" for a in task.arguments]
    lines = [f"pto.func @{stage.name}({', '.join(arguments)}) attributes {{core = {stage.core.value}}} {{"]
    at = {place.region: f" at {place.memory.lower()}+{place.offset}" for place in task.places}
    lines += [f"  %{names[region]}_t = pto.tload %{names[region]}{at[region]}" for region in stage.reads]
    lines += [f"  {_operation(op, stage, names)}{at[op.output]}" for op in stage.ops]
    lines += [f"  pto.tstore %{region.tensor.name}_t, %{names[region]}" for region in stage.writes]
    return "\n".join([*lines, "  pto.return", "}"]) + "\n"


def _tile(region: Region) -> str:
    return f"tile<{region.rows}x{region.columns}x{region.tensor.dtype.label}>"


def _operation(op: Op, stage: Stage, names: dict[Region, str]) -> str:
    operands = [f"%{names.get(x, x.tensor.name)}_t" if isinstance(x, Region) else str(x) for x in op.inputs]
    if op.accumulate:
        operands.append(f"%{op.output.tensor.name}_t")
    line = f"%{op.output.tensor.name}_t = pto.t{op.kind} {', '.join(operands)} : {_tile(op.output)}"
    if op.round_mode:
        line += f" {{round = {op.round_mode.value}}}"
    if stage.tail:
        line += f" {{lanes = {LANES}, tail = {stage.tail.value}}}"
    return line
