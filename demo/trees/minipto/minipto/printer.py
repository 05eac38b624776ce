"""Programs as text, for passes_dump/: Python in the dialect of pypto, which its tools read.

Until scope placement a program is one function on tensors, a stage a `with pl.at(...)` block in it. From then on each
task's kernel is a function of its own: it loads tiles, computes, and stores. Once memory is planned, a tile's type says
where its bytes lie. What a pass can change is in the text.
"""

from __future__ import annotations

from .codegen.kernels import argument_names
from .ir import (
    Loop,
    Op,
    Operand,
    Place,
    Program,
    Region,
    Scalar,
    Shape,
    Stage,
    Statement,
    Task,
    Tensor,
    leaves,
)
from .names import FreshNames
from .ops import MATMUL
from .passes.allocate_memory_addr import memory_of, tile_shape, valid_shape
from .types import ArgDirection, Core, DType, Role, RoundMode

_INDENT = "    "
_DTYPES = {
    DType.FP32: "FP32",
    DType.FP16: "FP16",
    DType.BF16: "BFLOAT16",
    DType.INT32: "INT32",
    DType.INT8: "INT8",
}
_DIRECTIONS = {ArgDirection.IN: "{}", ArgDirection.OUT: "pl.Out[{}]", ArgDirection.INOUT: "pl.InOut[{}]"}
_FUNCTION_TYPES = {Core.VECTOR: "AIV", Core.CUBE: "AIC"}


def print_program(program: Program) -> str:
    """The program as text, one statement a line."""
    tasks = [leaf for leaf in leaves(program.body) if isinstance(leaf, Task)]
    functions = [*(_Kernel(task).lines() for task in tasks), _Entry(program).lines()]
    head = [f"# pypto.program: {program.name}", "import pypto.language as pl", "", "@pl.program"]
    body = [_INDENT + line for lines in functions for line in lines]
    return "\n".join([*head, f"class {program.name}:", *body]) + "\n"


def _function(kind: str, name: str, parameters: list[str], body: list[str]) -> list[str]:
    head = f"def {name}(self, {', '.join(parameters)}):"
    return [f"@pl.function(type=pl.FunctionType.{kind})", head, *(_INDENT + line for line in body)]


def _array(kind: str, shape: Shape, dtype: DType, *rest: str) -> str:
    return f"pl.{kind}[{', '.join([str(list(shape)), f'pl.{_DTYPES[dtype]}', *rest])}]"


def _tensor(region: Region) -> str:
    return _array("Tensor", region.shape, region.tensor.dtype)


def _number(scalar: Scalar) -> str:
    return scalar.name or repr(scalar.value)


def _origin(region: Region) -> str:
    return f"[{region.origin[0]}, {region.origin[1]}]"


def _call(op: Op, operands: list[str]) -> str:
    arguments = ", ".join(operands)
    match op.kind:
        case "cast":
            mode = op.round_mode or RoundMode.RINT
            return f"cast({arguments}, target_type=pl.{_DTYPES[op.output.tensor.dtype]}, mode='{mode.value}')"
        case "matmul" if op.accumulate:
            return f"matmul_acc({arguments})"
        case _:
            scalar = len(op.inputs) == 2 and isinstance(op.inputs[1], Scalar)
            return f"{op.kind}{'s' if scalar else ''}({arguments})"


class _Entry:
    """The function that a caller runs: on tensors, it computes them or submits tasks that do."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._names = FreshNames(program)
        self._lines: list[str] = []

    def lines(self) -> list[str]:
        program = self._program
        directions = {Role.INPUT: ArgDirection.IN, Role.OUTPUT: ArgDirection.OUT}
        parameters = [
            f"{tensor.name}: {_DIRECTIONS[directions[tensor.role]].format(_tensor(Region.whole(tensor)))}"
            for tensor in program.tensors
        ]
        parameters += [f"{scalar.name}: pl.Scalar[pl.FP32]" for scalar in program.scalars]
        self._create(_in_parts(program.body), 0)
        self._body(program.body, 0)
        return _function("Orchestration", program.name, parameters, self._lines)

    def _emit(self, depth: int, line: str) -> None:
        self._lines.append(_INDENT * depth + line)

    def _create(self, tensors: tuple[Tensor, ...], depth: int) -> None:
        """A tensor that lives in the buffer of another is another name of it."""
        for tensor in tensors:
            shape, dtype = list(tensor.shape), _DTYPES[tensor.dtype]
            value = f"pl.tensor.create({shape}, dtype=pl.{dtype})"
            if tensor.storage != tensor.name:
                value = tensor.storage
            self._emit(depth, f"{tensor.name}: {_tensor(Region.whole(tensor))} = {value}")

    def _body(self, body: tuple[Statement, ...], depth: int) -> None:
        for statement in body:
            match statement:
                case Op():
                    self._op(statement, None, depth)
                case Stage():
                    self._emit(depth, f'with pl.at(level=pl.Level.CORE_GROUP, name_hint="{statement.name}"):')
                    for op in statement.ops:
                        self._op(op, statement, depth + 1)
                case Loop(variable=name, start=start, stop=stop, step=step):
                    self._emit(depth, f"for {name} in pl.range({start}, {stop}, {step}):")
                    self._body(statement.body, depth + 1)
                case Task():
                    self._task(statement, depth)
                case _:  # a scope is the body of a loop, or the whole
                    self._create(statement.allocations, depth)
                    self._body(statement.body, depth)

    def _op(self, op: Op, stage: Stage | None, depth: int) -> None:
        operands = [self._operand(operand, depth) for operand in op.inputs]
        if stage is not None and stage.tail is not None:
            source = op.regions_read[0]
            whole, valid = tile_shape(stage, source), valid_shape(stage, source)
            operands = [self._padded(operands[0], source, whole, valid, depth)]
        if op.accumulate:
            operands.insert(0, self._operand(op.output, depth))
        value = f"pl.tensor.{_call(op, operands)}"
        target = op.output.tensor
        if target.role is Role.LOCAL and op.output.is_whole:
            self._emit(depth, f"{target.name}: {_tensor(op.output)} = {value}")
            return
        part = self._named(f"{target.name}__ssa_v1", _tensor(op.output), value, depth)
        if op.output.transposed:
            stored = _array("Tensor", op.output.stored_shape, target.dtype)
            part = self._named(f"{target.name}__ssa_v1", stored, f"pl.tensor.transpose({part}, 0, 1)", depth)
        self._emit(depth, f"pl.tensor.assemble({target.name}, {part}, {_origin(op.output)})")

    def _padded(self, name: str, region: Region, whole: Shape, valid: Shape, depth: int) -> str:
        if whole == region.shape:
            return name
        view = () if valid == whole else (f"pl.TensorView(valid_shape={list(valid)})",)
        value = f"pl.tensor.slice({name}, {list(whole)}, [0, 0], valid_shape={list(valid)})"
        return self._named(
            f"{region.tensor.name}_lanes", _array("Tensor", whole, region.tensor.dtype, *view), value, depth
        )

    def _operand(self, operand: Operand, depth: int) -> str:
        """The name of a value; that of a part of a tensor is defined first."""
        if isinstance(operand, Scalar):
            return _number(operand)
        name = operand.tensor.name
        if not operand.is_whole:
            type_ = _array("Tensor", operand.stored_shape, operand.tensor.dtype)
            value = f"pl.tensor.slice({name}, {list(operand.stored_shape)}, {_origin(operand)})"
            name = self._named(f"{operand.tensor.name}_view", type_, value, depth)
        if operand.transposed:
            name = self._named(
                f"{operand.tensor.name}_view", _tensor(operand), f"pl.tensor.transpose({name}, 0, 1)", depth
            )
        return name

    def _named(self, wanted: str, type_: str, value: str, depth: int) -> str:
        name = self._names(wanted)
        self._emit(depth, f"{name}: {type_} = {value}")
        return name

    def _task(self, task: Task, depth: int) -> None:
        arguments = [self._operand(argument.region, depth) for argument in task.arguments]
        arguments += [scalar.name for scalar in task.stage.scalars if scalar.name]
        self._emit(depth, f"self.{task.stage.name}({', '.join(arguments)})")


def _in_parts(body: tuple[Statement, ...]) -> tuple[Tensor, ...]:
    """The local tensors that operations write part by part, before scope placement says where they begin."""
    written: dict[Tensor, None] = {}
    for leaf in leaves(body):
        for op in {Op: lambda leaf: (leaf,), Stage: lambda leaf: leaf.ops, Task: lambda _: ()}[type(leaf)](
            leaf
        ):
            if op.output.tensor.role is Role.LOCAL and not op.output.is_whole:
                written[op.output.tensor] = None
    return tuple(written)


class _Kernel:
    """A function on tiles: what the task's kernel loads, computes and stores."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._stage = task.stage
        self._names = argument_names(task)
        self._tiles: dict[Operand, str] = {}
        self._lines: list[str] = []

    def lines(self) -> list[str]:
        stage = self._stage
        parameters = [
            f"{self._names[argument.region]}: {_DIRECTIONS[argument.direction].format(_tensor(argument.region))}"
            for argument in self._task.arguments
        ]
        parameters += [f"{scalar.name}: pl.Scalar[pl.FP32]" for scalar in stage.scalars if scalar.name]
        self._tiles |= {scalar: _number(scalar) for scalar in stage.scalars}
        for place in self._task.places:
            memory = f"pl.Mem.{place.memory}"
            self._lines.append(f"{self._base(place)}: pl.Ptr = pl.tile.alloc({memory}, {place.size})")
        for region in stage.reads:
            self._load(region)
        for op in stage.ops:
            operands = [self._tiles[operand] for operand in op.inputs]
            if op.accumulate:
                operands.insert(0, self._tiles[op.output])
            call = f"{_expansion(op)}{_call(op, operands)}"
            self._define(op.output, f"{op.output.tensor.name}__tile", call)
        for region in stage.writes:
            self._lines.append(f"pl.tile.store({self._tiles[region]}, [0, 0], {self._names[region]})")
        return _function(_FUNCTION_TYPES[stage.core], stage.name, parameters, self._lines)

    def _load(self, region: Region) -> None:
        shape, valid = tile_shape(self._stage, region), valid_shape(self._stage, region)
        name, memory = self._names[region], memory_of(self._stage, region)
        call = f"load({name}, [0, 0], {list(shape)}, {list(valid)}, target_memory=pl.Mem.{memory})"
        self._define(region, f"{name}__tile", call)

    def _define(self, region: Region, name: str, call: str) -> None:
        shape, valid = tile_shape(self._stage, region), valid_shape(self._stage, region)
        places = [
            f"pl.MemRef({self._base(place)}, pl.const({place.offset}, pl.INT64), {place.size})"
            for place in self._task.places
            if place.region == region
        ]
        view = () if valid == shape else (f"pl.TileView(valid_shape={list(valid)})",)
        memory = f"pl.Mem.{memory_of(self._stage, region)}"
        type_ = _array("Tile", shape, region.tensor.dtype, *places, memory, *view)
        self._lines.append(f"{name}: {type_} = pl.tile.{call}")
        self._tiles[region] = name

    def _base(self, place: Place) -> str:
        return f"mem_{place.memory.lower()}_{self._task.places.index(place)}"


def _expansion(op: Op) -> str:
    """The prefix of an operation whose second operand is a column or a row, repeated for all others."""
    if len(op.inputs) < 2 or op.kind == MATMUL:
        return ""
    first, second = op.inputs
    if isinstance(first, Scalar) or isinstance(second, Scalar) or first.shape != op.output.shape:
        return ""
    return "" if second.shape == first.shape else "row_expand_" if second.columns == 1 else "col_expand_"
