"""The front end: calling a Python function with symbolic tensors records what it does.

    @jit
    def softmax(x: Region, y: Region) -> None:
        peak = row_max(x, name="peak")
        weights = exp(sub(x, peak), name="weights")
        div(weights, row_sum(weights, name="total"), out=y)

Each operation returns a new tensor, called `name`, or writes `out`, a region of an output parameter. A `for`
over `loop(name, count)` is recorded once, with a symbolic index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .index import Index
from .ir import Loop, Op, Operand, Program, Region, Scalar, Statement, Tensor
from .names import check_name
from .ops import MATMUL
from .types import CompileError, DType, Role, RoundMode


@dataclass(frozen=True)
class TensorParameter:
    """Shape and type with which a tensor parameter is specialized."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    role: Role


@dataclass(frozen=True)
class ScalarParameter:
    """A parameter that is a binary32 number, given at run time."""

    name: str


class _Trace:
    """What has been recorded so far: a stack of bodies, the innermost last."""

    def __init__(self) -> None:
        self.bodies: list[list[Statement]] = [[]]
        self.names: set[str] = set()

    def new_name(self, wanted: str) -> str:
        check_name(wanted)
        name, count = wanted, 1
        while name in self.names:
            count += 1
            name = f"{wanted}_{count}"
        self.names.add(name)
        return name

    def record(self, statement: Statement) -> None:
        self.bodies[-1].append(statement)


_active: list[_Trace] = []


def _trace() -> _Trace:
    if not _active:
        raise CompileError("operations can be used only inside a function that is being traced (see jit)")
    return _active[-1]


class JitFunction:
    """A traced function; `trace` specializes it for given shapes and types."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self.name = function.__name__

    def trace(self, parameters: Sequence[TensorParameter | ScalarParameter]) -> Program:
        """Record one call. Raises CompileError where shapes or types do not fit."""
        trace = _Trace()
        operands: dict[str, Operand] = {}
        for parameter in parameters:
            trace.new_name(parameter.name)
            if isinstance(parameter, ScalarParameter):
                operands[parameter.name] = Scalar(name=parameter.name)
                continue
            if len(parameter.shape) != 2:
                raise CompileError(
                    f"{self.name}: {parameter.name} has shape {parameter.shape}, not [rows, columns]"
                )
            rows, columns = parameter.shape
            tensor = Tensor(
                name=parameter.name, shape=(rows, columns), dtype=parameter.dtype, role=parameter.role
            )
            operands[parameter.name] = Region.whole(tensor)
        _active.append(trace)
        try:
            self._function(**operands)
        finally:
            _active.pop()
        values = tuple(operands.values())
        return Program(
            name=self.name,
            tensors=tuple(value.tensor for value in values if isinstance(value, Region)),
            scalars=tuple(value for value in values if isinstance(value, Scalar)),
            body=tuple(trace.bodies[0]),
        )


def jit(function: Callable[..., None]) -> JitFunction:
    """Mark a function as a program; its parameters are named as in the specializing call."""
    return JitFunction(function)


def loop(name: str, count: int) -> Iterator[Index]:
    """The symbolic index of `count` iterations, for one trip through the body of a `for`."""
    trace = _trace()
    variable = trace.new_name(name)
    trace.bodies.append([])
    yield Index.variable(variable)
    body = trace.bodies.pop()
    trace.record(Loop(variable=variable, start=0, stop=count, step=1, body=tuple(body)))


def _emit(
    kind: str,
    inputs: tuple[Operand, ...],
    *,
    shape: tuple[int, int],
    dtype: DType,
    name: str | None,
    out: Region | None,
    round_mode: RoundMode | None = None,
) -> Region:
    trace = _trace()
    for operand in inputs:
        if isinstance(operand, Region) and operand.tensor.role is Role.OUTPUT:
            raise CompileError(f"{kind}: reads {operand.tensor.name}, which is an output")
    if out is None:
        local = Tensor(name=trace.new_name(name or kind), shape=shape, dtype=dtype, role=Role.LOCAL)
        out = Region.whole(local)
    elif out.tensor.role is not Role.OUTPUT or out.shape != shape or out.tensor.dtype is not dtype:
        found = f"{out.tensor.role.value} {out.tensor.name}: {out.tensor.dtype.label}{list(out.shape)}"
        raise CompileError(
            f"{kind}: expected an output {dtype.label}{list(shape)} to write to, found {found}"
        )
    trace.record(Op(kind=kind, inputs=inputs, output=out, round_mode=round_mode))
    return out


def _elementwise(
    kind: str, values: tuple[Region | Scalar | float, ...], name: str | None, out: Region | None
) -> Region:
    inputs = tuple(
        Scalar(value=float(value)) if isinstance(value, int | float) else value for value in values
    )
    regions = [operand for operand in inputs if isinstance(operand, Region)]
    shape = (max(region.rows for region in regions), max(region.columns for region in regions))
    for region in regions:
        if region.rows not in (1, shape[0]) or region.columns not in (1, shape[1]):
            raise CompileError(
                f"{kind}: {region.tensor.name} {list(region.shape)} does not broadcast to {list(shape)}"
            )
    dtypes = {region.tensor.dtype for region in regions}
    if len(dtypes) > 1:
        raise CompileError(
            f"{kind}: operands are {sorted(dtype.label for dtype in dtypes)}; cast one of them"
        )
    return _emit(kind, inputs, shape=shape, dtype=dtypes.pop(), name=name, out=out)


def add(
    a: Region, b: Region | Scalar | float, *, name: str | None = None, out: Region | None = None
) -> Region:
    """a + b, with [rows, 1] and [1, columns] broadcast."""
    return _elementwise("add", (a, b), name, out)


def sub(
    a: Region, b: Region | Scalar | float, *, name: str | None = None, out: Region | None = None
) -> Region:
    """a - b, broadcast as `add`."""
    return _elementwise("sub", (a, b), name, out)


def mul(
    a: Region, b: Region | Scalar | float, *, name: str | None = None, out: Region | None = None
) -> Region:
    """a * b, broadcast as `add`."""
    return _elementwise("mul", (a, b), name, out)


def div(
    a: Region | float, b: Region | Scalar | float, *, name: str | None = None, out: Region | None = None
) -> Region:
    """a / b, broadcast as `add`."""
    return _elementwise("div", (a, b), name, out)


def exp(a: Region, *, name: str | None = None, out: Region | None = None) -> Region:
    """e to the power a."""
    return _elementwise("exp", (a,), name, out)


def log(a: Region, *, name: str | None = None, out: Region | None = None) -> Region:
    """The natural logarithm."""
    return _elementwise("log", (a,), name, out)


def abs(a: Region, *, name: str | None = None, out: Region | None = None) -> Region:
    """The magnitude."""
    return _elementwise("abs", (a,), name, out)


def sqrt(a: Region, *, name: str | None = None, out: Region | None = None) -> Region:
    """The square root."""
    return _elementwise("sqrt", (a,), name, out)


def cast(
    a: Region,
    dtype: DType,
    *,
    round_mode: RoundMode | None = None,
    name: str | None = None,
    out: Region | None = None,
) -> Region:
    """The same values in another type; `round_mode` None leaves the mode to the compiler (ties to even)."""
    return _emit("cast", (a,), shape=a.shape, dtype=dtype, name=name, out=out, round_mode=round_mode)


def row_sum(a: Region, *, name: str | None = None, out: Region | None = None) -> Region:
    """The sum of each row, [rows, 1]."""
    return _emit("row_sum", (a,), shape=(a.rows, 1), dtype=a.tensor.dtype, name=name, out=out)


def row_max(a: Region, *, name: str | None = None, out: Region | None = None) -> Region:
    """The largest of each row, [rows, 1]."""
    return _emit("row_max", (a,), shape=(a.rows, 1), dtype=a.tensor.dtype, name=name, out=out)


def matmul(a: Region, b: Region, *, name: str | None = None, out: Region | None = None) -> Region:
    """The matrix product: binary32 for float operands, int32 for int8 operands."""
    if a.columns != b.rows or a.tensor.dtype is not b.tensor.dtype:
        shapes = f"{a.tensor.dtype.label}{list(a.shape)} and {b.tensor.dtype.label}{list(b.shape)}"
        raise CompileError(f"matmul: {shapes} do not multiply")
    dtype = DType.INT32 if a.tensor.dtype is DType.INT8 else DType.FP32
    return _emit(MATMUL, (a, b), shape=(a.rows, b.columns), dtype=dtype, name=name, out=out)
