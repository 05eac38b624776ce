"""The values of a program while it runs, the operands of its operations, and the faults of a tile's bytes.

An `Array` is a tensor or a tile. An `Invocation` is one execution of an operation; `Result` is what the dump states of
its result. Elements outside an array's valid shape mean nothing. A scalar has 64 bits at most, whatever a dump asks.

`Pipes` lead between the cube and the vector side of a mixed kernel. A kernel of both sides is a cube function and a
vector function, which run at once and hand tiles over by pipes: first pushed, first popped. A vector function may run
on two lanes. Then a pipe carries a half of each tile to each lane, or puts the lanes' halves together: upper and lower
rows (split 1), left and right columns (split 2).

A `Finding` is a tile whose bytes are not what an operation needs, as `memory` finds it. An `IrNote` is no fault of
a pass, and may explain a wrong run all the same, as `ladder` finds it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import cast

import torch

from .arithmetic import ArithmeticMode, Numbers, fill, poison, round_to
from .ir import Constant, DumpLine, ElementType, Function, MemorySpace, NamedConstant


class OperationError(Exception):
    """An operation cannot be computed: unknown, or its operands do not fit."""


class WrongDumpError(OperationError):
    """A statement names shapes that contradict one another, or an element outside of its tensor.

    The dump is wrong, whatever its elements are.
    """


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


Value = Array | Pending | int | float | bool | str | None | NamedConstant | tuple["Value", ...]


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
            return round_to(
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
        if isinstance(value, NamedConstant):
            return value.last
        return value if isinstance(value, str) else default

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
            if isinstance(value, NamedConstant) and value.last in ElementType.__members__:
                return ElementType[value.last]
        return default

    def result_array(
        self, numbers: Numbers, like: Array, *, mode: str = "rint", valid: Sequence[int] | None = None
    ) -> Array:
        """A result: rounded to its stated type, in its stated shape."""
        dtype = self.result_dtype(like.dtype)
        rounded = round_to(numbers, dtype, self.arithmetic, mode)
        return Array(rounded, dtype, tuple(valid) if valid is not None else numbers.shape)


_ARE_INTEGERS = frozenset({int})


def require_integers(value: Value, what: str) -> tuple[int, ...]:
    """Return a list of sizes or offsets. Raises an `OperationError` where the value is none."""
    values = value if isinstance(value, tuple) else (value,)
    if _ARE_INTEGERS.issuperset(map(type, values)):
        return cast("tuple[int, ...]", values)
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
    if array.is_wholly_valid:
        return array.numbers
    window = tuple(slice(0, length) for length in array.valid)
    return array.numbers.rearrange(lambda each: each[window])


def valid_mask(array: Array) -> torch.Tensor:
    """Return which elements mean something."""
    mask = torch.zeros(array.shape, dtype=torch.bool)
    mask[tuple(slice(0, length) for length in array.valid)] = True
    return mask


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
            round_to(
                Numbers(torch.tensor(float(value), dtype=torch.float64)), dtype, ArithmeticMode.STATED
            ).centre
        )
    return int(
        round_to(
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


PIPE_OPERATIONS = frozenset({"tpush_to_aiv", "tpush_to_aic", "tpop_from_aic", "tpop_from_aiv"})

_SPLITS = {"NONE": 0, "UP_DOWN": 1, "LEFT_RIGHT": 2}
"""The split modes have these numbers. A dump states either the number or the name."""


@dataclass
class Pipes:
    """The tiles that are on their way, by direction, pipe and lane."""

    queues: dict[tuple[str, Value, int], deque[Array]] = field(
        default_factory=dict[tuple[str, Value, int], "deque[Array]"]
    )
    halves: dict[tuple[int, int], Array] = field(default_factory=dict[tuple[int, int], Array])
    moves: int = 0
    """Pushes and pops so far. If it does not grow while each side is asked to go on, they wait for each other."""

    def push(self, call: Invocation, tile: Array, lane: int) -> None:
        """The cube side pushes to both lanes, and a lane takes its own."""
        split, pipe = split_mode(call), call.attributes.get("id", 0)
        self.moves += 1
        if call.name.endswith("tpush_to_aiv"):
            for each in (0, 1):
                self._queue("aiv", pipe, each).append(_copy(half(tile, split, each)))
        else:
            self._queue("aic", pipe, lane).append(_copy(tile))

    def pop(self, call: Invocation, lane: int) -> Array | None:
        """The tile that is next; None where it has not been pushed."""
        split, pipe = split_mode(call), call.attributes.get("id", 0)
        if call.name.endswith("tpop_from_aic"):
            queue = self._queue("aiv", pipe, lane)
            if not queue:
                return None
            self.moves += 1
            return queue.popleft()
        first, second = self._queue("aic", pipe, 0), self._queue("aic", pipe, 1)
        if not first or (split and not second):
            return None
        self.moves += 1
        tile = first.popleft()
        # Without a split the second lane pushes only to keep step with the first.
        other = second.popleft() if second else None
        return join_halves(tile, other, split) if split and other is not None else tile

    def give_half(self, number: int, lane: int, tile: Array) -> None:
        """A lane has come to the `number`-th place where both lanes' halves are put together."""
        self.halves[number, lane] = tile
        self.moves += 1

    def whole(self, number: int, call: Invocation) -> Array | None:
        """Both halves together; None before both are there."""
        upper, lower = self.halves.get((number, 0)), self.halves.get((number, 1))
        return None if upper is None or lower is None else join_halves(upper, lower, split_mode(call))

    def _queue(self, direction: str, pipe: Value, lane: int) -> deque[Array]:
        return self.queues.setdefault((direction, pipe, lane), deque())


def _copy(tile: Array) -> Array:
    return Array(tile.numbers.copy(), tile.dtype, tile.valid)


def lane_count(function: Function) -> int:
    """Return on how many lanes a function runs at once."""
    names = {name.rpartition(".")[2] for name in function.called_names}
    asks_lane = "get_subblock_idx" in names
    if function.role != "AIV":
        is_lowered = function.attributes.get("split_aiv")
        shares = names & {"aiv_shard", "aic_gather"} or (
            isinstance(is_lowered, Constant) and is_lowered.value
        )
        return 2 if shares and asks_lane else 1
    split = function.attributes.get("split")
    if isinstance(split, NamedConstant) and split.last != "NONE":
        return 2
    both = function.attributes.get("dual_aiv_dispatch")
    return 2 if asks_lane and isinstance(both, Constant) and both.value else 1


def split_mode(call: Invocation) -> int:
    """Return the mode in which lanes share a tile: 0 for none, 1 for rows, 2 for columns."""
    value = call.attributes.get("split", call.attributes.get("mode", 0))
    if isinstance(value, NamedConstant):
        return _SPLITS.get(value.last, 0)
    return int(value) if isinstance(value, (bool, int)) else 0


def half(tile: Array, split: int, lane: int) -> Array:
    """A lane's part of a tile."""
    if split not in (1, 2):
        return tile
    axis = len(tile.shape) - (2 if split == 1 else 1)
    length = tile.shape[axis] // 2
    valid = list(tile.valid)
    valid[axis] = max(0, min(length, valid[axis] - lane * length))
    numbers = tile.numbers.rearrange(lambda each: each.narrow(axis, lane * length, length))
    return Array(numbers, tile.dtype, tuple(valid))


def join_halves(first: Array, second: Array, split: int) -> Array:
    """Return two lanes' parts as one tile."""
    if split not in (1, 2):
        return first
    axis = len(first.shape) - (2 if split == 1 else 1)
    centre = torch.cat([first.numbers.centre, second.numbers.centre], axis)
    radius = None
    if first.numbers.radius is not None and second.numbers.radius is not None:
        radius = torch.cat([first.numbers.radius, second.numbers.radius], axis)
    valid = list(first.valid)
    if second.valid[axis]:
        valid[axis] = first.shape[axis] + second.valid[axis]
    return Array(Numbers(centre, radius), first.dtype, tuple(valid))


class FindingKind(Enum):
    """A fault of a tile's bytes. The value is how a message names it."""

    OVERWRITTEN = "overwritten"
    NEVER_WRITTEN = "never written"
    OVER_OPERAND = "over its operand"
    TOO_LARGE = "too large"
    IN_RESERVED = "in the bytes of a pipe"
    DISPLACED = "not where its source lies"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One tile whose bytes are not what an operation needs.

    `tile` is what is read, or the operand that is lain upon, or what is too large. `other` was written over it, at
    `written_at`. The bytes count from the beginning of the space, or of the allocation `base`.
    """

    kind: FindingKind
    function: str
    operation: str
    place: DumpLine
    tile: str
    other: str | None
    written_at: DumpLine | None
    space: MemorySpace
    base: str | None
    first_byte: int
    bytes: int
    rows: tuple[int, int] | None = None
    """The first and last row of the tile that are concerned, counted from 0."""

    def describe(self) -> str:
        """One sentence."""
        where = f"{self.space.value} bytes {self.first_byte} to {self.first_byte + self.bytes - 1}"
        if self.base is not None:
            where += f" of {self.base}"
        rows = "" if self.rows is None else f", rows {self.rows[0]} to {self.rows[1]}"
        match self.kind:
            case FindingKind.OVERWRITTEN:
                text = f"{self.operation} reads {self.tile}{rows}, overwritten by {self.other} ({self.written_at})"
            case FindingKind.NEVER_WRITTEN:
                text = f"{self.operation} reads {self.tile}{rows}, which nothing has written"
            case FindingKind.OVER_OPERAND:
                text = f"{self.operation} writes {self.other} over its operand {self.tile}{rows}, before it has read it"
            case FindingKind.TOO_LARGE:
                text = f"{self.tile} reaches past the end of its memory"
            case FindingKind.DISPLACED:
                text = f"{self.operation} names {self.tile}, a view of {self.other}, where that does not lie"
            case FindingKind.IN_RESERVED:
                text = f"{self.tile} lies in bytes that are reserved for a pipe"
        return f"{self.place}: {text} ({where})"


# What may explain a wrong run of a right IR


@dataclass(frozen=True, kw_only=True)
class CastChain:
    """One cast that a pass made two of. Up to the magnitude `exact_up_to` both together give what the one gave."""

    pass_name: str
    place: DumpLine
    variable: str
    types: tuple[ElementType, ElementType, ElementType]
    exact_up_to: float

    def describe(self) -> str:
        """Return the fact in a sentence."""
        source, middle, target = (each.label for each in self.types)
        chain = f"{self.place}: {self.pass_name} casts {self.variable} from {source} to {target} by way of {middle}"
        if self.exact_up_to == math.inf:
            return f"{chain}, which gives the bits of one cast for every value"
        if self.exact_up_to:
            return f"{chain}, which gives the bits of one cast for magnitudes up to {self.exact_up_to:,.0f}"
        return f"{chain}, which rounds a value twice that {middle} cannot hold"


@dataclass(frozen=True, kw_only=True)
class PartialReduction:
    """The first operation that combines the elements of a tile which is valid in part, and was not padded.

    `variable` is what it makes.
    """

    place: DumpLine
    operation: str
    variable: str
    valid: tuple[int, ...]
    shape: tuple[int, ...]

    def describe(self) -> str:
        """Return the fact in a sentence."""
        return (
            f"{self.place}: {self.operation} makes {self.variable} of a tile of which {list(self.valid)} of "
            f"{list(self.shape)} are valid; no one wrote the rest, which takes part without a fillpad"
        )


@dataclass(frozen=True, kw_only=True)
class AtomicSpread:
    """Parts that are added to a tensor in no fixed order; legal orders differ by `spread` tolerances."""

    place: DumpLine
    output: str
    parts: int
    spread: float

    def describe(self) -> str:
        """Return the fact in a sentence."""
        return (
            f"{self.place}: {self.parts} parts are added to {self.output} in no fixed order; by design, legal orders "
            f"differ by up to {self.spread:.2g} tolerances"
        )


IrNote = CastChain | PartialReduction | AtomicSpread
