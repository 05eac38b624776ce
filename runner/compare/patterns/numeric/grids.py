"""The numbers a type can hold, and ways to get there from others. Values are float64 throughout."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ...kernels.elements import Array


class Mode(Enum):
    """How a value between two numbers of a type is rounded."""

    NEAREST_EVEN = "nearest, ties to even"
    NEAREST_AWAY = "nearest, ties away from zero"
    TRUNCATE = "truncation"


@dataclass(frozen=True, kw_only=True)
class FloatGrid:
    """A binary floating-point type: bits of the significand, exponent of the smallest step, largest number."""

    name: str
    digits: int
    lowest: int
    largest: float


FLOAT_GRIDS = (
    FloatGrid(name="bfloat16", digits=8, lowest=-133, largest=float.fromhex("0x1.fep127")),
    FloatGrid(name="float16", digits=11, lowest=-24, largest=65504.0),
    FloatGrid(name="float32", digits=24, lowest=-149, largest=float(np.finfo(np.float32).max)),
    FloatGrid(name="float64", digits=53, lowest=-1074, largest=float(np.finfo(np.float64).max)),
)
"""The types of tensors by their number of digits, few digits first."""

NARROW_GRIDS = (
    FloatGrid(name="float8_e5m2", digits=3, lowest=-16, largest=57344.0),
    FloatGrid(name="float8_e4m3", digits=4, lowest=-9, largest=448.0),
    FloatGrid(name="float8_e5m2, scaled", digits=3, lowest=-1074, largest=np.inf),
    FloatGrid(name="float8_e4m3, scaled", digits=4, lowest=-1074, largest=np.inf),
    FloatGrid(name="tf32", digits=11, lowest=-136, largest=float.fromhex("0x1.ffcp127")),
)
"""Types that only pass by: OCP's 8-bit floats (OFP8, 2023), also at a scale that is a power of two, and NVIDIA's
TensorFloat-32 (2020). Beyond the largest OFP8 number hardware either saturates, or gives Inf or NaN."""


def unit_at(grid: FloatGrid, size: Array | float) -> Array:
    """The step between neighbouring numbers of `grid` at non-negative `size`."""
    exponent = np.frexp(size)[1] - grid.digits
    return np.ldexp(1.0, np.maximum(np.where(np.equal(size, 0), grid.lowest, exponent), grid.lowest))


def to_grid(grid: FloatGrid, values: Array, mode: Mode) -> Array:
    """`values` rounded to `grid`, beyond its largest number to Inf (truncated: to that number). NaN and Inf stay."""
    size = np.abs(values)
    finite = np.isfinite(size)
    tame = np.where(finite, size, 0.0)
    unit = unit_at(grid, tame)
    steps = tame / unit
    if mode is Mode.NEAREST_EVEN:
        steps = np.rint(steps)
    elif mode is Mode.NEAREST_AWAY:
        steps = np.floor(steps) + (steps - np.floor(steps) >= 0.5)
    else:
        steps = np.floor(steps)
    with np.errstate(over="ignore"):
        rounded = steps * unit
    beyond = grid.largest if mode is Mode.TRUNCATE else np.inf
    rounded = np.where(rounded > grid.largest, beyond, rounded)
    return np.copysign(np.where(finite, rounded, size), values)


def on_grid(grid: FloatGrid, values: Array) -> Array:
    """Whether each value is a number of `grid`."""
    held: Array = to_grid(grid, values, Mode.TRUNCATE) == values
    return held
