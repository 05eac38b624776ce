"""The orchestration source: allocate, view, submit, in the order of the program."""

from __future__ import annotations

import struct

from ..index import Index
from ..ir import Loop, Program, Region, Scalar, Scope, Statement, Task, Tensor
from ..names import FreshNames
from ..types import ArgDirection, Core, Role

_ADD = {ArgDirection.IN: "add_input", ArgDirection.OUT: "add_output", ArgDirection.INOUT: "add_inout"}
_SUBMIT = {Core.VECTOR: "rt_submit_aiv_task", Core.CUBE: "rt_submit_aic_task"}
_INDENT = "    "


def orchestration_source(program: Program, function_ids: dict[str, int]) -> str:
    """The whole source; `function_ids` maps a kernel's name to its func_id."""
    return _Writer(program, function_ids).source()


def float_literal(value: float) -> str:
    """A C++ binary32 literal of the nearest value.

    >>> float_literal(1.0), float_literal(0.005)
    ('1.0f', '0.005f')
    """
    (nearest,) = struct.unpack("<f", struct.pack("<f", value))
    text = f"{nearest:.9g}"
    shortest = f"{value:g}"
    if struct.pack("<f", float(shortest)) == struct.pack("<f", nearest):
        text = shortest
    return (text if any(mark in text for mark in ".e") else f"{text}.0") + "f"


def _offset(index: Index) -> str:
    return f"static_cast<uint32_t>({index})" if index.terms else str(index)


class _Writer:
    def __init__(self, program: Program, function_ids: dict[str, int]) -> None:
        self._program = program
        self._function_ids = function_ids
        self._names = FreshNames(program)
        self._lines: list[str] = []
        self._views: dict[Region, str] = {}
        self._allocations = 0
        self._tasks = 0

    def source(self) -> str:
        tensors, scalars = self._program.tensors, self._program.scalars
        self._lines = [
            f"// Orchestration of {self._program.name}.",
            '#include "pto_orchestration_api.h"',
            "",
            "PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args) {",
            "    (void)orch_args;",
            f"    return PTO2OrchestrationConfig{{.expected_arg_count = {len(tensors) + len(scalars)}}};",
            "}",
            "",
            "void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {",
        ]
        for position, tensor in enumerate(tensors):
            self._lines.append(
                f"    const ChipTensor& ext_{tensor.name} = orch_args.tensor({position}).ref();"
                f"  // {tensor.role.value} {tensor.dtype.runtime_name} [{tensor.shape[0]}, {tensor.shape[1]}]"
            )
        for position, scalar in enumerate(scalars):
            self._lines.append(f"    const uint64_t {scalar.name} = orch_args.scalar({position});")
        for statement in self._program.body:
            self._statement(statement, depth=1)
        return "\n".join([*self._lines, "}"]) + "\n"

    def _emit(self, depth: int, *lines: str) -> None:
        self._lines.extend(_INDENT * depth + line for line in lines)

    def _statement(self, statement: Statement, depth: int) -> None:
        match statement:
            case Scope():
                self._scope(statement, depth)
            case Loop(variable=variable):
                start, stop, step = statement.start, statement.stop, statement.step
                header = f"int64_t {variable} = {start}; {variable} < {stop}; {variable} += {step}"
                self._emit(depth, f"for ({header}) {{")
                for inner in statement.body:
                    self._statement(inner, depth + 1)
                self._emit(depth, "}")
            case Task():
                self._task(statement, depth)
            case _:
                raise TypeError(f"{type(statement).__name__} is left after scope placement")

    def _scope(self, scope: Scope, depth: int) -> None:
        visible = dict(self._views)  # views declared in this block end with it
        self._emit(depth, "PTO2_SCOPE() {")
        self._allocate(scope.allocations, depth + 1)
        for statement in scope.body:
            self._statement(statement, depth + 1)
        self._emit(depth, "}")
        self._views = visible

    def _allocate(self, tensors: tuple[Tensor, ...], depth: int) -> None:
        owners = [tensor for tensor in tensors if tensor.storage == tensor.name]
        if not owners:
            return
        for tensor in owners:
            ci = f"{tensor.name}_ci"
            self._emit(
                depth,
                f"uint32_t {ci}_shapes[2] = {{{tensor.shape[0]}, {tensor.shape[1]}}};",
                f"TensorCreateInfo {ci}({ci}_shapes, 2, DataType::{tensor.dtype.runtime_name});",
            )
        batch = f"alloc_{self._allocations}"
        self._allocations += 1
        infos = ", ".join(f"{tensor.name}_ci" for tensor in owners)
        self._emit(depth, f"TaskOutputTensors {batch} = alloc_tensors({infos});")
        slots = {tensor.name: slot for slot, tensor in enumerate(owners)}
        for tensor in tensors:
            shared = "" if tensor.storage == tensor.name else f"  // {tensor.storage} is dead by then"
            slot = slots[tensor.storage]
            self._emit(depth, f"const ChipTensor& {tensor.name} = {batch}.get_ref({slot});{shared}")

    def _view(self, region: Region, depth: int) -> str:
        """The C++ name of a region, declared first if no enclosing block has it."""
        base = region.tensor.name if region.tensor.role is Role.LOCAL else f"ext_{region.tensor.name}"
        if region.is_whole and not region.transposed:
            return base
        if region not in self._views:
            name = self._names(f"{region.tensor.name}_view")
            chain = base
            if not region.is_whole:
                starts = ", ".join(_offset(start) for start in region.origin)
                rows, columns = region.stored_shape
                self._emit(
                    depth,
                    f"uint32_t {name}_shapes[2] = {{{rows}, {columns}}};",
                    f"uint32_t {name}_offsets[2] = {{{starts}}};",
                )
                chain += f".view({name}_shapes, {name}_offsets)"
            if region.transposed:
                chain += ".transpose(0, 1)"
            self._emit(depth, f"const ChipTensor {name} = {chain};")
            self._views[region] = name
        return self._views[region]

    def _task(self, task: Task, depth: int) -> None:
        targets = [
            (_ADD[argument.direction], self._view(argument.region, depth)) for argument in task.arguments
        ]
        params = f"params_t{self._tasks}"
        self._tasks += 1
        self._emit(depth, f"CoreTaskArgs {params};")
        self._emit(depth, *(f"{params}.{add}({name});" for add, name in targets))
        self._emit(depth, *(f"{params}.add_scalar({self._scalar(scalar)});" for scalar in task.stage.scalars))
        submit = _SUBMIT[task.stage.core]
        self._emit(depth, f"{submit}({self._function_ids[task.stage.name]}, {params});  // {task.stage.name}")

    @staticmethod
    def _scalar(scalar: Scalar) -> str:
        return scalar.name or f"to_u64({float_literal(scalar.value)})"
