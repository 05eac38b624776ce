"""What a kernel, or an orchestration, does with a tensor."""

from enum import Enum


class ArgDirection(Enum):
    IN = "IN"
    OUT = "OUT"
    INOUT = "INOUT"
