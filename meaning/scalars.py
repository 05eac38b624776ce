"""Scalars: the operators of sizes, offsets and conditions, and lists that a core keeps.

A number has at most 64 bits, whatever a dump asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from .arithmetic import ArithmeticMode, Numbers, settle
from .ir import ElementType
from .values import Invocation, OperationError, Value

_LARGEST = 1 << 64
"""An integer may not reach this value: no type of the IR holds it, and a hostile dump would let it grow for ever."""


_UNARY: Mapping[str, Callable[[float], float]] = {"abs": abs, "neg": lambda x: -x, "not": lambda x: not x}
_BINARY: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "/": lambda x, y: x / y,
    "%": lambda x, y: x % y,
    "**": lambda x, y: x**y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "min": min,
    "max": max,
}
_BITWISE: Mapping[str, Callable[[int, int], int]] = {
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "<<": lambda x, y: x << y,
    ">>": lambda x, y: x >> y,
}


def apply_operator(symbol: str, values: Sequence[Value]) -> Value:
    """An operator of scalars."""
    numbers = [value for value in values if isinstance(value, (bool, int, float))]
    if len(numbers) != len(values):
        raise OperationError(f"expected numbers as operands of {symbol!r}, found something else")
    if symbol in ("and", "or"):
        return all(numbers) if symbol == "and" else any(numbers)
    if symbol in ("<<", "**") and abs(numbers[-1]) > 63:
        raise OperationError(f"expected at most 63 as the right operand of {symbol!r}, found {numbers[-1]}")
    if symbol in _UNARY:
        result = _UNARY[symbol](numbers[0])
    elif symbol in _BINARY:
        result = _BINARY[symbol](numbers[0], numbers[1])
    elif symbol == "~":
        result = ~int(numbers[0])
    else:
        result = _BITWISE[symbol](int(numbers[0]), int(numbers[1]))
    if isinstance(result, int) and abs(result) >= _LARGEST:
        raise OperationError(f"expected a number of at most 64 bits, found {result:.3g}")
    return result


def cast_scalar(value: Value, dtype: ElementType) -> Value:
    """A number in another type."""
    if not isinstance(value, (bool, int, float)):
        raise OperationError(f"expected a number to cast, found {type(value).__name__}")
    if dtype.is_float:
        return float(
            settle(
                Numbers(torch.tensor(float(value), dtype=torch.float64)), dtype, ArithmeticMode.STATED
            ).centre
        )
    return int(
        settle(
            Numbers(torch.tensor(int(value) if abs(value) < 2**63 else 0)), dtype, ArithmeticMode.STATED
        ).centre
    )


def truth(value: Value) -> bool:
    """A condition."""
    if not isinstance(value, (bool, int, float)):
        raise OperationError(f"expected a condition, found {type(value).__name__}")
    return bool(value)


def core_list(short: str, call: Invocation) -> Value:
    """A list on the core: `create`, `get_element`, `update_element`."""
    if short == "create":
        length = call.integers(0)[0]
        if not 0 <= length <= 1 << 20:
            raise OperationError(f"expected a list of at most {1 << 20} elements, found {length}")
        return (0,) * length
    whole, index = call.operands[0], call.integer(1)
    if not isinstance(whole, tuple) or not 0 <= index < len(whole):
        raise OperationError(f"expected an index into a list, found {index}")
    if short == "get_element":
        return whole[index]
    return (*whole[:index], call.operands[2], *whole[index + 1 :])
