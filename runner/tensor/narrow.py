"""Floats of eight and four bits that a dump may hold and numpy has not, as numbers."""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt


class NarrowFloat(Enum):
    """An element type of the MX formats (OCP Microscaling Formats, 1.0, 2023); the value is the runtime's name for it.

    FP8E4M3FN has no infinities, and two NaN. FP8E8M0 is a scale: a power of two, or NaN. An element of FP4E2M1 is a
    byte that holds two numbers, the first one in its lower half.
    """

    FP8E4M3FN = "FP8E4M3FN"
    FP8E8M0 = "FP8E8M0"
    FP4E2M1 = "FP4E2M1"

    @classmethod
    def parse(cls, spelling: str) -> NarrowFloat | None:
        """The type of a name in any case, also after `DataType::`; None where it is none of these."""
        name = spelling.removeprefix("DataType::").upper()
        return next((each for each in cls if each.value == name), None)

    @property
    def described(self) -> str:
        """What the numbers were made of, for people."""
        pairs = ", two numbers an element" if self is NarrowFloat.FP4E2M1 else ""
        return f"{self.value} as float32{pairs}"

    def shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the numbers, by that of the elements: the last dimension has twice as many where two numbers
        share an element."""
        if self is not NarrowFloat.FP4E2M1:
            return stored
        return (*stored[:-1], 2 * stored[-1]) if stored else (2,)

    def numbers(self, raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """The numbers that elements hold, in their order; float32 has each of them."""
        if self is NarrowFloat.FP4E2M1:
            return _E2M1[np.stack((raw & 0xF, raw >> 4), axis=-1).reshape(-1)]
        return (_E4M3FN if self is NarrowFloat.FP8E4M3FN else _E8M0)[raw]


def _values(*, exponent_bits: int, mantissa_bits: int, bias: int) -> npt.NDArray[np.float32]:
    """What each code means: sign, exponent and mantissa, without infinities and NaN."""
    codes = np.arange(1 << (1 + exponent_bits + mantissa_bits))
    mantissa = codes % (1 << mantissa_bits) / (1 << mantissa_bits)
    exponent = (codes >> mantissa_bits) % (1 << exponent_bits)
    size = np.where(exponent > 0, 1 + mantissa, mantissa) * 2.0 ** (np.maximum(exponent, 1) - bias)
    return np.where(codes >> (exponent_bits + mantissa_bits), -size, size).astype(np.float32)


_E4M3FN = _values(exponent_bits=4, mantissa_bits=3, bias=7)
_E4M3FN[[0x7F, 0xFF]] = np.nan
_E8M0 = np.append(2.0 ** np.arange(-127, 128), np.nan).astype(np.float32)
_E2M1 = _values(exponent_bits=2, mantissa_bits=1, bias=1)
