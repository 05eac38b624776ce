"""Cast legalization: leave only what the units can do.

The vector unit computes in binary32 and converts between some pairs of types only; the cube unit accumulates in a
wide type. Arithmetic on 16-bit floats is widened, conversions that do not exist become chains, every cast that
loses bits gets its rounding mode, and a matrix product is given its accumulator.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Op, Program, Region, Statement, Tensor, rewrite_bodies
from ..names import FreshNames
from ..ops import MATMUL
from ..types import CompileError, DType, Role, RoundMode

ACCUMULATOR = {
    DType.FP32: DType.FP32,
    DType.FP16: DType.FP32,
    DType.BF16: DType.FP32,
    DType.INT8: DType.INT32,
}

DEFAULT_ROUND_MODE = RoundMode.RINT

_ROUNDING_CASTS = {(DType.FP32, DType.FP16), (DType.FP32, DType.BF16), (DType.FP32, DType.INT32)}
_EXACT_CASTS = {
    (DType.FP16, DType.FP32),
    (DType.BF16, DType.FP32),
    (DType.INT8, DType.FP32),
    (DType.INT32, DType.FP32),
    (DType.INT32, DType.INT8),  # saturates
}


def cast_route(source: DType, target: DType) -> tuple[DType, ...]:
    """The types to pass through, `target` last.

    >>> [dtype.label for dtype in cast_route(DType.BF16, DType.INT8)]
    ['fp32', 'int32', 'int8']
    """
    if source is target:
        return ()
    if (source, target) in _ROUNDING_CASTS | _EXACT_CASTS:
        return (target,)
    if source is DType.FP32:
        return (DType.INT32, target)
    return (DType.FP32, *cast_route(DType.FP32, target))


def legalize_casts(program: Program) -> Program:
    """Rewrite casts, 16-bit arithmetic and matrix products."""
    names = FreshNames(program)
    return replace(program, body=rewrite_bodies(program.body, lambda body: _BodyLegalizer(names).run(body)))


class _BodyLegalizer:
    """Rewrites one body; a value that is widened twice is widened once."""

    def __init__(self, names: FreshNames) -> None:
        self._names = names
        self._done: list[Statement] = []
        self._widened: dict[Region, Region] = {}

    def run(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        for statement in body:
            if not isinstance(statement, Op):
                self._done.append(statement)
            elif statement.kind == "cast":
                self._cast(statement.regions_read[0], statement.output, statement.round_mode)
            elif statement.kind == MATMUL:
                self._matmul(statement)
            else:
                self._arithmetic(statement)
        return tuple(self._done)

    def _local(self, wanted: str, like: Region, dtype: DType) -> Region:
        shape = (like.rows, like.columns)
        return Region.whole(Tensor(name=self._names(wanted), shape=shape, dtype=dtype, role=Role.LOCAL))

    def _cast(self, value: Region, target: Region, round_mode: RoundMode | None) -> None:
        route = cast_route(value.tensor.dtype, target.tensor.dtype) or (target.tensor.dtype,)
        for position, dtype in enumerate(route):
            last = position == len(route) - 1
            wanted = f"{target.tensor.name}_{dtype.label}"
            step = target if last else self._local(wanted, target, dtype)
            rounds = (value.tensor.dtype, dtype) in _ROUNDING_CASTS
            mode = (round_mode or DEFAULT_ROUND_MODE) if rounds else None
            self._done.append(Op(kind="cast", inputs=(value,), output=step, round_mode=mode))
            value = step

    def _widen(self, value: Region) -> Region:
        if value not in self._widened:
            wide = self._local(f"{value.tensor.name}_fp32", value, DType.FP32)
            self._cast(value, wide, None)
            self._widened[value] = wide
        return self._widened[value]

    def _arithmetic(self, op: Op) -> None:
        dtype = op.output.tensor.dtype
        if dtype is DType.FP32:
            self._done.append(op)
            return
        if not dtype.is_half:
            raise CompileError(
                f"{op.kind} to {op.output.tensor.name}: not offered on {dtype.label}; cast first"
            )
        inputs = tuple(self._widen(x) if isinstance(x, Region) else x for x in op.inputs)
        wide = self._local(f"{op.output.tensor.name}_fp32", op.output, DType.FP32)
        self._done.append(replace(op, inputs=inputs, output=wide))
        self._cast(wide, op.output, None)

    def _matmul(self, op: Op) -> None:
        left = op.regions_read[0]
        accumulator = ACCUMULATOR[left.tensor.dtype]
        if op.output.tensor.dtype is accumulator:
            self._done.append(op)
            return
        total = self._local(f"{op.output.tensor.name}_acc", op.output, accumulator)
        self._done.append(replace(op, output=total))
        self._cast(total, op.output, None)
