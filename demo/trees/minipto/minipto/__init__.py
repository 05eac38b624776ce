"""minipto: a small compiler for tensor programs. See README.md."""

from .compiler import compile
from .ir import Program, Region, Scalar
from .language import (
    JitFunction,
    ScalarParameter,
    TensorParameter,
    abs,
    add,
    cast,
    div,
    exp,
    jit,
    log,
    loop,
    matmul,
    mul,
    row_max,
    row_sum,
    sqrt,
    sub,
)
from .types import CompileError, DType, Role, RoundMode

__all__ = [
    "CompileError",
    "DType",
    "JitFunction",
    "Program",
    "Region",
    "Role",
    "RoundMode",
    "Scalar",
    "ScalarParameter",
    "TensorParameter",
    "abs",
    "add",
    "cast",
    "compile",
    "div",
    "exp",
    "jit",
    "log",
    "loop",
    "matmul",
    "mul",
    "row_max",
    "row_sum",
    "sqrt",
    "sub",
]
