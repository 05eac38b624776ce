"""Numbers, in one of three arithmetics.

- `STATED`: the types of the IR. An operation computes in float32 (float64 for FP64) and rounds its result once.
- `EXACT`: float64 for each float, without any rounding in between; integers wrap as they do on the chip.
- `BOUNDED`: as `EXACT`, and each number carries a bound of what roundings that the IR states can have made of it. A
  result outside its bound is wrong, not rounded. The bound is of first order: it leaves out what roundings do to
  the bound itself. So a doubtful case is compared with some room (`exceeds`).

`Numbers` holds a tensor's elements, and their bounds in the third arithmetic. Each method is one mathematical
function and says how it carries bounds on (Higham, Accuracy and Stability of Numerical Algorithms, chapters 2 to 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy
import torch

from .ir import ElementType, Kind

Tensor = torch.Tensor

MAX_ELEMENTS = 1 << 28
"""A dump may not ask for more elements than this: they take 2 GB as float64, and a hostile dump names any size."""


class ArithmeticMode(Enum):
    """The arithmetic in which a program runs."""

    STATED = "stated"
    EXACT = "exact"
    BOUNDED = "bounded"


_STORED_TYPES = {
    ElementType.FP64: torch.float64,
    ElementType.FP32: torch.float32,
    ElementType.FP16: torch.float16,
    ElementType.BFLOAT16: torch.bfloat16,
    ElementType.FP8E4M3FN: torch.float8_e4m3fn,
    ElementType.FP8E5M2: torch.float8_e5m2,
}
"""Torch stores the elements of each float type in this way."""

_SIGNED_TYPES = {ElementType.INT8: torch.int8, ElementType.INT16: torch.int16, ElementType.INT32: torch.int32}
"""These signed types are narrower than int64: a conversion to one of them wraps as the chip does."""

LENT_TYPES = {
    ElementType.FP32: torch.float32,
    ElementType.FP16: torch.float16,
    ElementType.BFLOAT16: torch.bfloat16,
    ElementType.BOOL: torch.bool,
    ElementType.UINT8: torch.uint8,
    **_SIGNED_TYPES,
}
"""A run uses a tensor of these types as it is. Torch moves its elements as those of the working types."""

_MIN_EXPONENT = {
    ElementType.FP64: -1022,
    ElementType.FP32: -126,
    ElementType.FP16: -14,
    ElementType.BFLOAT16: -126,
    ElementType.FP8E4M3FN: -6,
    ElementType.FP8E5M2: -14,
}
"""The smallest normal number of each float type has this exponent: below it the rounding error is absolute."""

_FUNCTION_ULPS = 4
"""A function errs by this many units in the last place. The chip's own exp, log and root err by a few of them."""


@dataclass(frozen=True)
class Numbers:
    """Elements (`centre`), and a bound of the error of each (`radius`; None in the other two arithmetics).

    Floats are float32 or float64; integers and truth values are int64.
    """

    centre: Tensor
    radius: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the length of each axis."""
        return self.centre.shape

    @property
    def is_float(self) -> bool:
        """Return whether they are floats; else integers or truth values."""
        return self.centre.is_floating_point()

    def rearrange(self, move: Callable[[Tensor], Tensor]) -> Numbers:
        """The same numbers in other places: a slice, a reshape, a transposition."""
        return Numbers(move(self.centre), None if self.radius is None else move(self.radius))

    def assign(self, value: Numbers) -> None:
        """Overwrites these numbers in place; the shape of `value` must fit."""
        self.centre.copy_(value.centre)
        if self.radius is not None:
            self.radius.copy_(value.radius) if value.radius is not None else self.radius.zero_()

    def put(self, places: tuple[Tensor, ...], value: Numbers) -> None:
        """Overwrites the elements at `places`, which hold an index for each axis. The bounds stay."""
        self.centre[places] = value.centre.to(self.centre.dtype)

    def copy(self) -> Numbers:
        """The same numbers in memory of their own."""
        return self.rearrange(lambda each: each.clone(memory_format=torch.contiguous_format))

    @property
    def held(self) -> tuple[Tensor, ...]:
        """Return the tensors that these numbers keep alive."""
        return (self.centre,) if self.radius is None else (self.centre, self.radius)

    # Elementwise functions

    def __add__(self, other: Numbers) -> Numbers:
        return Numbers(self.centre + other.centre, _sum_of_radii(self, other))

    def __sub__(self, other: Numbers) -> Numbers:
        return Numbers(self.centre - other.centre, _sum_of_radii(self, other))

    def __mul__(self, other: Numbers) -> Numbers:
        if self.radius is None and other.radius is None:
            return Numbers(self.centre * other.centre)
        mine, theirs = _radius(self), _radius(other)
        spread = self.centre.abs() * theirs + other.centre.abs() * mine + mine * theirs
        return Numbers(self.centre * other.centre, spread)

    def __truediv__(self, other: Numbers) -> Numbers:
        quotient = self.centre / other.centre
        if self.radius is None and other.radius is None:
            return Numbers(quotient)
        mine, theirs = _radius(self), _radius(other)
        room = other.centre.abs() - theirs
        spread = (mine + quotient.abs() * theirs) / room.clamp(min=0)
        return Numbers(quotient, spread)

    def __neg__(self) -> Numbers:
        return Numbers(-self.centre, self.radius)

    def abs(self) -> Numbers:
        """Without their signs."""
        return Numbers(self.centre.abs(), self.radius)

    def monotonic(self, function: Callable[[Tensor], Tensor], lowest: float = -torch.inf) -> Numbers:
        """A monotonic function, which is defined from `lowest` on."""
        value = function(self.centre)
        if self.radius is None:
            return Numbers(value)
        below = function((self.centre - self.radius).clamp(min=lowest))
        above = function(self.centre + self.radius)
        spread = torch.maximum((above - value).abs(), (value - below).abs())
        return Numbers(value, spread + value.abs() * _FUNCTION_ULPS * ElementType.FP32.unit_roundoff)

    def lipschitz(self, function: Callable[[Tensor], Tensor]) -> Numbers:
        """A function whose slope is nowhere above 1."""
        value = function(self.centre)
        if self.radius is None:
            return Numbers(value)
        return Numbers(value, self.radius + _FUNCTION_ULPS * ElementType.FP32.unit_roundoff)

    def maximum(self, other: Numbers) -> Numbers:
        """The larger of each two; NaN where one is."""
        return Numbers(torch.maximum(*_common(self.centre, other.centre)), _largest_radius(self, other))

    def minimum(self, other: Numbers) -> Numbers:
        """The smaller of each two; NaN where one is."""
        return Numbers(torch.minimum(*_common(self.centre, other.centre)), _largest_radius(self, other))

    def remainder(self, other: Numbers, function: Callable[[Tensor, Tensor], Tensor]) -> Numbers:
        """A remainder; it may be any where a bound reaches the next multiple."""
        value = function(*_common(self.centre, other.centre))
        if self.radius is None and other.radius is None:
            return Numbers(value)
        doubt = _sum_of_radii(self, other)
        assert doubt is not None
        near = (value.abs() <= doubt) | ((other.centre.abs() - value.abs()) <= doubt)
        return Numbers(value, torch.where(near, other.centre.abs().expand_as(value), doubt))

    def compare(self, other: Numbers, function: Callable[[Tensor, Tensor], Tensor]) -> Numbers:
        """1 where it holds and 0 where it does not; the bound is 1 where roundings decide."""
        holds = function(*_common(self.centre, other.centre)).to(torch.int64)
        doubt = _sum_of_radii(self, other)
        if doubt is None:
            return Numbers(holds)
        near = (self.centre - other.centre).abs() <= doubt
        return Numbers(holds, (near & (doubt > 0)).to(torch.float64))

    def choose(self, yes: Numbers, no: Numbers) -> Numbers:
        """`yes` where these numbers are not 0, else `no`."""
        value = torch.where(self.centre != 0, *_common(yes.centre, no.centre))
        if self.radius is None and yes.radius is None and no.radius is None:
            return Numbers(value)
        spread = torch.where(self.centre != 0, _radius(yes), _radius(no))
        either = (yes.centre - no.centre).abs() + _radius(yes) + _radius(no)
        return Numbers(value, torch.where(_radius(self) > 0, either, spread))

    def integers(self, function: Callable[..., Tensor], *others: Numbers) -> Numbers:
        """A function of integers, computed in 64 bits."""
        value: Tensor = function(self.centre, *(other.centre for other in others))
        return Numbers(value, None if self.radius is None else torch.zeros(value.shape, dtype=torch.float64))

    # Reductions

    def sum(self, axis: int) -> Numbers:
        """Along an axis, which keeps the length 1. The bound holds for every order of the terms."""
        value = self.centre.sum(axis, keepdim=True)
        if self.radius is None:
            return Numbers(value.to(self.centre.dtype))
        terms = self.centre.shape[axis]
        unit = ElementType.FP32.unit_roundoff if self.is_float else 0.0
        grown = self.centre.abs().sum(axis, keepdim=True) * unit * terms
        return Numbers(value, self.radius.sum(axis, keepdim=True) + grown)

    def product(self, axis: int) -> Numbers:
        """Along an axis, which keeps the length 1."""
        value = self.centre.prod(axis, keepdim=True)
        if self.radius is None:
            return Numbers(value.to(self.centre.dtype))
        terms = self.centre.shape[axis]
        relative = (self.radius / self.centre.abs()).sum(axis, keepdim=True)
        unit = ElementType.FP32.unit_roundoff if self.is_float else 0.0
        return Numbers(value, value.abs() * (torch.expm1(relative) + terms * unit))

    def largest(self, axis: int) -> Numbers:
        """Along an axis, which keeps the length 1."""
        value = self.centre.amax(axis, keepdim=True)
        return Numbers(value, None if self.radius is None else self.radius.amax(axis, keepdim=True))

    def smallest(self, axis: int) -> Numbers:
        """Along an axis, which keeps the length 1."""
        return -((-self).largest(axis))

    def position_of_largest(self, axis: int) -> Numbers:
        """The first index of the largest element; its bound is the length where roundings decide."""
        value = self.centre.argmax(axis, keepdim=True)
        if self.radius is None:
            return Numbers(value)
        top = self.centre.gather(axis, value) - self.radius.gather(axis, value)
        rivals = ((self.centre + self.radius) >= top).sum(axis, keepdim=True)
        length = float(self.centre.shape[axis])
        return Numbers(value, torch.where(rivals > 1, length, 0.0).to(torch.float64))

    def matmul(self, other: Numbers) -> Numbers:
        """A product of matrices, accumulated in float32 (in int32 for integers)."""
        value = torch.matmul(self.centre, other.centre)
        if self.radius is None or other.radius is None:
            return Numbers(value)
        # Integers have bounds, too: all are multiplied as floats.
        mine, theirs, near, far = (
            each.to(torch.float64)
            for each in (self.centre.abs(), other.centre.abs(), self.radius, other.radius)
        )
        unit = ElementType.FP32.unit_roundoff if self.is_float else 0.0
        spread = torch.matmul(mine, far) + torch.matmul(near, theirs + far)
        return Numbers(value, spread + torch.matmul(mine, theirs) * (self.centre.shape[-1] * unit))

    def exceeds(self, value: Tensor, room: float = 2.0) -> Tensor:
        """Where `value` lies further from the centre than `room` times the bound; NaN exceeds what is no NaN."""
        centre = self.centre.to(torch.float64)
        value = value.to(torch.float64)
        allowed = _radius(self).to(torch.float64) * room
        same = (value == centre) | (value.isnan() & centre.isnan())
        return ~same & ~((value - centre).abs() <= allowed)


@dataclass(eq=False)
class _Loan:
    """A caller's tensor, and its copy from the first write on. The copy's memory is used again by the next run."""

    tensor: Tensor
    copy: Tensor | None = None
    is_written: bool = False

    def find(self, view: Tensor) -> Tensor:
        """Return what a view of the tensor shows now."""
        if self.copy is None or not self.is_written:
            return view
        offset = view.storage_offset() - self.tensor.storage_offset()
        return self.copy.as_strided(view.shape, view.stride(), offset)

    def find_writable(self, view: Tensor) -> Tensor:
        """Return the same place in the copy."""
        if self.copy is None:
            self.copy = self.tensor.clone()
        elif not self.is_written:
            self.copy.copy_(self.tensor)
        self.is_written = True
        return self.find(view)


class BorrowedNumbers(Numbers):
    """A caller's tensor in its own type. The first write copies it.

    Only `assign` and `put` write. `centre` may be the caller's own tensor, which no one may write.
    """

    _loan: _Loan
    _view: Tensor

    def __init__(self, loan: _Loan, view: Tensor) -> None:
        # The base is frozen.
        vars(self).update(_loan=loan, _view=view, radius=None)

    @property
    def centre(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the elements as they are now, in the working type."""
        content = self._loan.find(self._view)
        return content.to(_working_dtype(content))

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the length of each axis."""
        return self._view.shape

    @property
    def is_float(self) -> bool:
        """Return whether they are floats; else integers or truth values."""
        return self._view.is_floating_point()

    @property
    def held(self) -> tuple[Tensor, ...]:
        """Return none: the caller keeps the tensor alive."""
        return ()

    def rearrange(self, move: Callable[[Tensor], Tensor]) -> Numbers:
        """Return a view of the tensor, or a new tensor of the working type where `move` makes one."""
        view = move(self._view)
        if view.untyped_storage().data_ptr() == self._view.untyped_storage().data_ptr():
            return BorrowedNumbers(self._loan, view)
        moved = move(self._loan.find(self._view)) if self._loan.is_written else view
        return Numbers(moved.to(_working_dtype(moved)))

    def forget_writes(self) -> None:
        """Show the caller's tensor again, here and in all views."""
        self._loan.is_written = False

    def copy(self) -> Numbers:
        """The same numbers in memory of their own."""
        content = self._loan.find(self._view)
        wide = _working_dtype(content)
        return Numbers(content.to(wide, copy=True, memory_format=torch.contiguous_format))

    def assign(self, value: Numbers) -> None:
        """Overwrites these numbers in the copy; the shape of `value` must fit."""
        self._loan.find_writable(self._view).copy_(value.centre)

    def put(self, places: tuple[Tensor, ...], value: Numbers) -> None:
        """Overwrites the elements at `places` in the copy."""
        content = self._loan.find_writable(self._view)
        content[places] = value.centre.to(content.dtype)


def _working_dtype(lent: Tensor) -> torch.dtype:
    return torch.float32 if lent.is_floating_point() else torch.int64


def borrow_numbers(tensor: Tensor, dtype: ElementType) -> BorrowedNumbers | None:
    """Return the numbers of a caller's tensor without a copy. None if they need to be converted."""
    if tensor.dtype != LENT_TYPES.get(dtype) or not tensor.is_contiguous():
        return None
    view = tensor.detach()
    return BorrowedNumbers(_Loan(view), view)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an operation on these shapes together. Raises a `ValueError` where they do not fit."""
    return tuple(numpy.broadcast_shapes(*shapes))


def _radius(numbers: Numbers) -> Tensor:
    return torch.zeros((), dtype=torch.float64) if numbers.radius is None else numbers.radius


def _sum_of_radii(one: Numbers, other: Numbers) -> Tensor | None:
    if one.radius is None and other.radius is None:
        return None
    shape = broadcast(one.shape, other.shape)
    return (_radius(one) + _radius(other)).expand(shape)


def _largest_radius(one: Numbers, other: Numbers) -> Tensor | None:
    if one.radius is None and other.radius is None:
        return None
    shape = broadcast(one.shape, other.shape)
    return torch.maximum(_radius(one), _radius(other)).expand(shape)


def _common(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(one.dtype, other.dtype)
    return one.to(dtype), other.to(dtype)


# From the elements of a type to numbers, and back


def working_dtype(dtype: ElementType, arithmetic: ArithmeticMode) -> torch.dtype:
    """Return the type in which torch keeps and computes a tensor of `dtype`."""
    if not dtype.is_float:
        return torch.int64
    if arithmetic is ArithmeticMode.STATED and dtype is not ElementType.FP64:
        return torch.float32
    return torch.float64


def tensor_numbers(tensor: Tensor, dtype: ElementType, arithmetic: ArithmeticMode) -> Numbers:
    """The numbers of a tensor that a caller gives."""
    centre = tensor.to(working_dtype(dtype, arithmetic))
    return Numbers(centre, torch.zeros_like(centre) if arithmetic is ArithmeticMode.BOUNDED else None)


def fill(shape: Sequence[int], value: float, dtype: ElementType, arithmetic: ArithmeticMode) -> Numbers:
    """Numbers that are all the same. Raises a `ValueError` where they are more than `MAX_ELEMENTS`."""
    if math.prod(shape) > MAX_ELEMENTS:
        raise ValueError(f"expected at most {MAX_ELEMENTS} elements, found the shape {list(shape)}")
    centre = torch.full(tuple(shape), value, dtype=working_dtype(dtype, arithmetic))
    return Numbers(
        centre,
        torch.zeros(tuple(shape), dtype=torch.float64) if arithmetic is ArithmeticMode.BOUNDED else None,
    )


def poison(shape: Sequence[int], dtype: ElementType, arithmetic: ArithmeticMode) -> Numbers:
    """Return what no one has written: NaN, or an integer that stands out."""
    return fill(shape, torch.nan if dtype.is_float else poison_integer(dtype), dtype, arithmetic)


def poison_integer(dtype: ElementType) -> int:
    """An integer whose bytes are all 0xA5, as its type reads them."""
    if dtype.kind is Kind.BOOL:
        return 1
    pattern = int.from_bytes(b"\xa5" * max(1, dtype.bits // 8))
    return wrap_integer(pattern, dtype)


def wrap_integer(value: int, dtype: ElementType) -> int:
    """The integer of `dtype` with the same low bits; one of 64 bits stays as int64 has it."""
    bits = min(dtype.bits, 64)
    value &= (1 << bits) - 1
    if (dtype.kind is not Kind.UNSIGNED or bits == 64) and value >> (bits - 1):
        value -= 1 << bits
    return value


def round_to(numbers: Numbers, dtype: ElementType, arithmetic: ArithmeticMode, mode: str = "rint") -> Numbers:
    """The result of an operation as its type holds it: rounded once if the arithmetic rounds, and wrapped."""
    if not dtype.is_float:
        return _convert_to_integers(numbers, dtype, mode)
    centre = numbers.centre.to(working_dtype(dtype, arithmetic))
    if arithmetic is ArithmeticMode.STATED:
        rounded = round_floats(centre, dtype, mode)
        # What stays as it is may be a caller's tensor, which only its own `Numbers` may write.
        return numbers if rounded is numbers.centre else Numbers(rounded)
    if numbers.radius is None:
        return Numbers(centre)
    smallest = 2.0 ** (_MIN_EXPONENT[dtype] - dtype.significant_bits + 1)
    # `none`, `round` and `rint` go to a nearest float; the directed modes may go one unit further.
    steps = 1 if mode in ("rint", "round", "none") else 2
    bound = numbers.radius + centre.abs() * (dtype.unit_roundoff * steps) + smallest
    return Numbers(centre, bound)


def _convert_to_integers(numbers: Numbers, dtype: ElementType, mode: str) -> Numbers:
    centre, radius = numbers.centre, numbers.radius
    if centre.is_floating_point():
        whole = _whole(centre.to(torch.float64), mode)
        signed = dtype.kind is Kind.SIGNED
        low = -(2.0 ** (dtype.bits - 1)) if signed else 0.0
        high = 2.0 ** (dtype.bits - (1 if signed else 0)) - 1
        centre = whole.nan_to_num(0.0).clamp(low, min(high, 2.0**63 - 1024)).to(torch.int64)
        if radius is not None:
            radius = torch.where(radius > 0, radius.ceil() + 1, 0.0)
    elif dtype.bits < 64:
        centre = _wrap(centre, dtype)
    return Numbers(centre, radius)


def _wrap(centre: Tensor, dtype: ElementType) -> Tensor:
    if dtype.kind is Kind.BOOL:
        return (centre != 0).to(torch.int64)
    if dtype in _SIGNED_TYPES:
        return centre.to(_SIGNED_TYPES[dtype]).to(torch.int64)
    low = centre & ((1 << dtype.bits) - 1)
    if dtype.kind is Kind.SIGNED:
        low = torch.where(low >= 1 << (dtype.bits - 1), low - (1 << dtype.bits), low)
    return low


def _whole(value: Tensor, mode: str) -> Tensor:
    """To an integer, in a rounding mode of the instruction set."""
    match mode:
        case "floor":
            return value.floor()
        case "ceil":
            return value.ceil()
        case "trunc":
            return value.trunc()
        case "round":
            return value.sign() * (value.abs() + 0.5).floor()
        case "odd":
            down = value.floor()
            return torch.where((value == down) | (down.remainder(2) == 1), down, down + 1)
        case _:
            return value.round()


def round_floats(value: Tensor, dtype: ElementType, mode: str = "rint") -> Tensor:
    """Each number rounded to one of `dtype`, and kept in the working type."""
    stored = _STORED_TYPES[dtype]
    if value.dtype == stored:
        return value
    if mode in ("rint", "none"):
        return value.to(stored).to(value.dtype)
    wide = value.to(torch.float64)
    _, exponent = torch.frexp(wide)
    finest = _MIN_EXPONENT[dtype] + 1
    unit = torch.ldexp(torch.ones_like(wide), exponent.clamp(min=finest) - dtype.significant_bits)
    rounded = torch.where(wide.isfinite(), _whole(wide / unit, mode) * unit, wide)
    return rounded.to(stored).to(value.dtype)


def round_to_integers(numbers: Numbers, mode: str) -> Numbers:
    """Whole numbers that stay floats."""
    whole = _whole(numbers.centre, mode)
    return Numbers(
        whole, None if numbers.radius is None else torch.where(numbers.radius > 0, numbers.radius + 1, 0.0)
    )


def exact_cast_limit(source: ElementType, middle: ElementType, target: ElementType) -> float:
    """Return up to which magnitude a cast by way of `middle` gives what the cast to `target` gives.

    It is infinite where `middle` has every value of `source`, and where `target` ends before `middle` first rounds.
    """
    if _holds(middle, source):
        return math.inf
    if source.is_float or not middle.is_float:
        return 0.0
    limit = 2.0**middle.significant_bits
    return math.inf if _largest(target) <= limit else limit


def _holds(wide: ElementType, narrow: ElementType) -> bool:
    if narrow.is_float:
        return wide.is_float and (
            wide.significant_bits >= narrow.significant_bits and _MIN_EXPONENT[wide] <= _MIN_EXPONENT[narrow]
        )
    if wide.is_float:
        return _largest(narrow) < 2.0**wide.significant_bits
    signs = wide.kind is narrow.kind or wide.kind is Kind.SIGNED
    return signs and _largest(wide) >= _largest(narrow)


def _largest(dtype: ElementType) -> float:
    if dtype.is_float:
        return torch.finfo(_STORED_TYPES[dtype]).max
    return 2.0 ** (dtype.bits - (dtype.kind is Kind.SIGNED)) - 1


# Bytes


def encode_bytes(numbers: Numbers, dtype: ElementType) -> Tensor:
    """The elements as the chip stores them: one more axis, of the bytes of an element."""
    if dtype.is_float:
        stored = numbers.centre.to(_STORED_TYPES[dtype])
        return stored.contiguous().unsqueeze(-1).view(torch.uint8)
    whole = numbers.centre.contiguous().unsqueeze(-1).view(torch.uint8)
    return whole[..., : max(1, dtype.bits // 8)]


def decode_bytes(content: Tensor, dtype: ElementType) -> Numbers:
    """The numbers of bytes that `encode_bytes` could have made; the last axis is the bytes of an element."""
    if dtype.is_float:
        stored: Any = content.contiguous().view(_STORED_TYPES[dtype]).squeeze(-1)
        return Numbers(stored.to(working_dtype(dtype, ArithmeticMode.STATED)))
    whole = torch.zeros((*content.shape[:-1], 8), dtype=torch.uint8)
    whole[..., : content.shape[-1]] = content
    return Numbers(
        _wrap(whole.view(torch.int64).squeeze(-1), dtype)
        if dtype.bits < 64
        else whole.view(torch.int64).squeeze(-1)
    )
