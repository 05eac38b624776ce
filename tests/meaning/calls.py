"""Single operations of the table, called on tensors."""

from __future__ import annotations

from typing import Any

import torch

from precision_bisect.meaning.arithmetic import ArithmeticMode, tensor_numbers
from precision_bisect.meaning.ir import ElementType
from precision_bisect.meaning.operations import find_operation
from precision_bisect.meaning.values import Array, Invocation, Result, Value

TORCH = {
    ElementType.FP32: torch.float32,
    ElementType.FP16: torch.float16,
    ElementType.BFLOAT16: torch.bfloat16,
    ElementType.INT32: torch.int32,
    ElementType.INT8: torch.int8,
}


def array(
    tensor: torch.Tensor,
    valid: tuple[int, ...] | None = None,
    arithmetic: ArithmeticMode = ArithmeticMode.STATED,
) -> Array:
    dtype = next(each for each, stored in TORCH.items() if stored == tensor.dtype)
    return Array(tensor_numbers(tensor, dtype, arithmetic), dtype, valid or tuple(tensor.shape))


def run(
    name: str,
    *operands: torch.Tensor | Value,
    result: tuple[ElementType, tuple[int, ...]] | None = None,
    arithmetic: ArithmeticMode = ArithmeticMode.STATED,
    **attributes: Any,
) -> Value:
    given = tuple(
        array(each, arithmetic=arithmetic) if isinstance(each, torch.Tensor) else each for each in operands
    )
    call = Invocation(
        name=name,
        operands=given,
        attributes=attributes,
        result=None if result is None else Result(result[1], result[0], result[1]),
        arithmetic=arithmetic,
    )
    return find_operation(name, given).compute(call)


def values(name: str, *operands: torch.Tensor | Value, **rest: Any) -> torch.Tensor:
    found = run(name, *operands, **rest)
    assert isinstance(found, Array)
    return found.numbers.centre
