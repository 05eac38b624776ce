"""Small vocabularies of the language and the IR."""

from __future__ import annotations

from enum import Enum


class DType(Enum):
    """An element type: its name in printed IR, its runtime spelling, its size in bytes."""

    FP32 = ("fp32", "FLOAT32", 4)
    FP16 = ("fp16", "FLOAT16", 2)
    BF16 = ("bf16", "BFLOAT16", 2)
    INT32 = ("int32", "INT32", 4)
    INT8 = ("int8", "INT8", 1)

    def __init__(self, label: str, runtime_name: str, size: int) -> None:
        self.label = label
        self.runtime_name = runtime_name
        self.size = size

    @property
    def is_half(self) -> bool:
        """Whether it is a 16-bit float, which the vector unit loads and stores but does not compute in."""
        return self in (DType.FP16, DType.BF16)


class RoundMode(Enum):
    """How a cast that loses bits picks the nearest value when two are equally near."""

    RINT = "rint"  # the even one, the IEEE 754 default
    ROUND = "round"  # the one away from zero


class Role(Enum):
    """What a tensor is to the program."""

    INPUT = "in"
    OUTPUT = "out"
    LOCAL = "local"


class Core(Enum):
    """The unit that runs a kernel: vector (aiv) or cube (aic)."""

    VECTOR = "aiv"
    CUBE = "aic"


class ArgDirection(Enum):
    """How a task uses one of its tensor arguments. The runtime orders tasks by it."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


class Tail(Enum):
    """How a reduction treats the lanes of its last column tile."""

    FULL = "full"  # every lane holds data
    MASKED = "masked"  # lanes past the tensor's edge take no part


class CompileError(Exception):
    """The program cannot be compiled; the message says which operation and why."""
