"""The values of a program's variables while it runs, and the operands of its operations.

An `Array` is a tensor or a tile. An `Invocation` is one execution of an operation; `Result` is what the dump states of
its result. Elements outside an array's valid shape mean nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from .arithmetic import ArithmeticMode, Numbers, fill, poison, settle
from .ir import ElementType, Symbol


class OperationError(Exception):
    """An operation cannot be computed: unknown, or its operands do not fit."""


class ShapeError(OperationError):
    """The shapes that a statement names contradict one another: the dump is wrong, whatever its elements are."""


@dataclass(eq=False)
class Array:
    """A tensor or tile while a program runs: elements, their type, and how many of them mean something in each axis."""

    numbers: Numbers
    dtype: ElementType
    valid: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the length of each axis."""
        return self.numbers.shape

    @property
    def is_wholly_valid(self) -> bool:
        """Return whether each element means something."""
        return self.valid == self.shape


@dataclass(eq=False)
class Pending:
    """A call of a function that has paused: what it results in is known when it ends."""

    steps: Generator[None, None, Value]
    result: Value = None
    is_done: bool = False


Value = Array | Pending | int | float | bool | str | None | Symbol | tuple["Value", ...]


@dataclass(frozen=True)
class Result:
    """A result as the dump states it: its shape, its type and its valid shape."""

    shape: tuple[int, ...]
    dtype: ElementType
    valid: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """One execution of an operation: its operands, its attributes, and what is stated of its result."""

    name: str
    operands: tuple[Value, ...]
    attributes: Mapping[str, Value]
    result: Result | None
    arithmetic: ArithmeticMode

    def array(self, index: int) -> Array:
        """An operand that is a tensor or tile."""
        operand = self.operands[index] if index < len(self.operands) else None
        if not isinstance(operand, Array):
            raise OperationError(
                f"expected a tensor or tile as operand {index} of {self.name}, found {describe(operand)}"
            )
        return operand

    def numbers(self, index: int, like: Array | None = None) -> Numbers:
        """An operand's elements; a scalar becomes one element of the type of `like`."""
        operand = self.operands[index] if index < len(self.operands) else None
        if isinstance(operand, Array):
            return operand.numbers
        if isinstance(operand, (bool, int, float)):
            dtype = like.dtype if like is not None else ElementType.FP32
            if isinstance(operand, float) and not dtype.is_float:
                dtype = ElementType.FP32
            return settle(
                fill((), float(operand) if dtype.is_float else int(operand), dtype, self.arithmetic),
                dtype,
                self.arithmetic,
            )
        raise OperationError(f"expected a value as operand {index} of {self.name}, found {describe(operand)}")

    def integers(self, index: int) -> tuple[int, ...]:
        """An operand that is a list of sizes or offsets."""
        operand = self.operands[index] if index < len(self.operands) else None
        return require_integers(operand, f"operand {index} of {self.name}")

    def integer(self, index: int) -> int:
        """An operand that is one integer."""
        operand = self.operands[index] if index < len(self.operands) else None
        if isinstance(operand, (bool, int)):
            return int(operand)
        raise OperationError(
            f"expected an integer as operand {index} of {self.name}, found {describe(operand)}"
        )

    def flag(self, name: str) -> bool:
        """A keyword that is true or false; false where it is missing."""
        return bool(self.attributes.get(name, False))

    def word(self, name: str, default: str = "") -> str:
        """A keyword that is a word, or the last name of a symbol."""
        value = self.attributes.get(name)
        return value.last if isinstance(value, Symbol) else value if isinstance(value, str) else default

    def number(self, name: str, default: int = 0) -> int:
        """A keyword that is an integer."""
        value = self.attributes.get(name)
        return int(value) if isinstance(value, (bool, int)) else default

    def result_dtype(self, default: ElementType) -> ElementType:
        """The element type of the result: of the dump, else of a keyword."""
        if self.result is not None:
            return self.result.dtype
        for name in ("target_type", "dtype", "out_dtype", "output_dtype"):
            value = self.attributes.get(name)
            if isinstance(value, Symbol) and value.last in ElementType.__members__:
                return ElementType[value.last]
        return default

    def result_array(
        self, numbers: Numbers, like: Array, *, mode: str = "rint", valid: Sequence[int] | None = None
    ) -> Array:
        """A result: rounded to its stated type, in its stated shape."""
        dtype = self.result_dtype(like.dtype)
        settled = settle(numbers, dtype, self.arithmetic, mode)
        return Array(settled, dtype, tuple(valid) if valid is not None else numbers.shape)


def require_integers(value: Value, what: str) -> tuple[int, ...]:
    """Return a list of sizes or offsets. Raises an `OperationError` where the value is none."""
    values = value if isinstance(value, tuple) else (value,)
    found: list[int] = []
    for each in values:
        if not isinstance(each, (bool, int)):
            raise OperationError(f"expected integers as {what}, found {describe(each)}")
        found.append(int(each))
    return tuple(found)


def describe(value: Value) -> str:
    """A value in a few words, for a message."""
    if isinstance(value, Array):
        return f"a {value.dtype.label} array of shape {list(value.shape)}"
    return "nothing" if value is None else f"{value!r}"[:60]


def valid_part(array: Array) -> Numbers:
    """The elements that mean something."""
    window = tuple(slice(0, length) for length in array.valid)
    return array.numbers.rearrange(lambda each: each[window])


def pad_with_poison(
    numbers: Numbers, shape: Sequence[int], dtype: ElementType, arithmetic: ArithmeticMode
) -> Numbers:
    """Return numbers in the first corner of an array whose other elements no one has written."""
    if numbers.shape == tuple(shape):
        return numbers
    whole = poison(shape, dtype, arithmetic)
    if not numbers.is_float:
        whole = Numbers(whole.centre.to(numbers.centre.dtype), whole.radius)
    whole.rearrange(lambda each: each[tuple(slice(0, length) for length in numbers.shape)]).assign(numbers)
    return whole


def slice_window(
    source: Numbers, offsets: Sequence[int], shape: Sequence[int]
) -> tuple[Numbers, tuple[int, ...]]:
    """Return the part of an array at `offsets`, cut where the array ends, and its shape."""
    if len(offsets) != len(source.shape) or len(shape) != len(source.shape):
        raise OperationError(
            f"expected {len(source.shape)} offsets and lengths, found {len(offsets)} and {len(shape)}"
        )
    bounds: list[slice] = []
    for offset, length, limit in zip(offsets, shape, source.shape, strict=True):
        if offset < 0:
            raise OperationError(f"expected an offset of at least 0, found {offset}")
        bounds.append(slice(min(offset, limit), min(offset + length, limit)))
    found = source.rearrange(lambda each: each[tuple(bounds)])
    return found, found.shape
