"""A tensor as it lies in a file: its type, its geometry, and the storage that it is a view of.

`TensorView` reads nothing when it is made. Its elements are read in row-major order, a bounded run at a time, and
decoded to values that can be computed with. `NarrowFloat` decodes floats of eight and four bits, which a dump may hold
and numpy does not have.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch


Storage: TypeAlias = npt.NDArray[Any]


class ViewError(ValueError):
    """The geometry of a tensor does not fit its storage."""


class DType(Enum):
    """An element type. The value is the lower-case name shared by torch and by the dumps."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    UINT64 = "uint64"
    UINT32 = "uint32"
    UINT16 = "uint16"
    UINT8 = "uint8"
    BOOL = "bool"

    @classmethod
    def parse(cls, spelling: str) -> DType:
        """Return the type of a name in any case, also after `torch.` or `DataType::`. Raises `ValueError` if it is
        unknown.
        """
        name = spelling.removeprefix("torch.").removeprefix("DataType::").lower()
        return cls(name)

    @property
    def storage(self) -> np.dtype[Any]:
        """Return the little-endian numpy type of the stored bytes.

        numpy has no bfloat16, so its bits are kept as uint16. bool is kept as uint8, because numpy's own bool is
        undefined for bytes other than 0 and 1. A faulty kernel may well have written such bytes.
        """
        return _STORAGE[self]

    @property
    def itemsize(self) -> int:
        """Return the bytes of one element."""
        return self.storage.itemsize

    @property
    def is_floating(self) -> bool:
        """Return whether it is a type of floating-point numbers."""
        return self in _FLOATING_TYPES

    @property
    def is_integer(self) -> bool:
        """Return whether it is a type of integers; bool is none."""
        return self is not DType.BOOL and not self.is_floating

    @property
    def torch_name(self) -> str:
        """Return the attribute of the `torch` module, for example `bfloat16`."""
        return self.value


_FLOATING_TYPES = frozenset({DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16})
_STORAGE_NAMES = {DType.BFLOAT16: "uint16", DType.BOOL: "uint8"}
_STORAGE = {dtype: np.dtype(_STORAGE_NAMES.get(dtype, dtype.value)).newbyteorder("<") for dtype in DType}


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major strides of `shape`, in elements."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorLayout:
    """The type and the shape of a tensor, which are known before its elements are read. Strides count elements."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the logical elements."""
        return self.numel * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Return whether the elements lie in row-major order without gaps."""
        wanted = contiguous_strides(self.shape)
        return self.numel == 0 or all(
            extent == 1 or stride == want
            for extent, stride, want in zip(self.shape, self.strides, wanted, strict=True)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorView(TensorLayout):
    """A view of `shape` elements of `dtype` in a flat `storage`, from `offset` on, `strides` apart (in elements).

    `storage` is one-dimensional, of type `dtype.storage`, and usually a read-only slice of a memory-mapped file. So
    making a view reads nothing. `name` tells people where the tensor came from. `converted` says what the elements were
    made of, where that is another type than `dtype`, such as float8.

    Raises:
        ViewError: an element would lie outside the storage, or the storage has another type.
    """

    name: str
    storage: Storage = field(repr=False)
    offset: int = 0
    converted: str = ""

    def __post_init__(self) -> None:
        if self.storage.ndim != 1 or self.storage.dtype != self.dtype.storage:
            raise ViewError(
                f"{self.name}: expected a flat storage of {self.dtype.storage}, found "
                f"{self.storage.ndim} dimensions of {self.storage.dtype}"
            )
        if len(self.shape) != len(self.strides) or min(self.shape, default=0) < 0 or self.offset < 0:
            raise ViewError(
                f"{self.name}: expected a geometry, found shape {self.shape}, strides {self.strides}, "
                f"offset {self.offset}"
            )
        if self.numel == 0:
            return
        reach = [stride * (extent - 1) for stride, extent in zip(self.strides, self.shape, strict=True)]
        first = self.offset + sum(min(step, 0) for step in reach)
        last = self.offset + sum(max(step, 0) for step in reach)
        if first < 0 or last >= self.storage.size:
            raise ViewError(
                f"{self.name}: elements {first} to {last} are asked of a storage of {self.storage.size}"
            )

    @classmethod
    def from_contiguous(cls, name: str, dtype: DType, shape: tuple[int, ...], storage: Storage) -> TensorView:
        """Return a row-major view of the whole flat `storage`."""
        return cls(name=name, dtype=dtype, shape=shape, strides=contiguous_strides(shape), storage=storage)

    def contiguous(self) -> Storage:
        """Return the logical elements as an aligned row-major array of `shape`, in their storage type.

        No copy is made where the view is already row-major and aligned. Then the array shares the mapping and is as
        read-only as the storage.
        """
        if self.numel == 0:
            return np.empty(self.shape, self.dtype.storage)
        if self.is_contiguous:
            shaped = self.storage[self.offset : self.offset + self.numel].reshape(self.shape)
        else:
            step = self.dtype.itemsize
            shaped = np.lib.stride_tricks.as_strided(
                self.storage[self.offset :],
                self.shape,
                [stride * step for stride in self.strides],
                writeable=False,
            )
        return np.require(shaped, requirements=["C", "A"])

    def torch(self) -> torch.Tensor:
        """Return the logical elements as a torch tensor, which shares memory where `contiguous` does. Only read it."""
        import torch

        with warnings.catch_warnings():
            # torch has no read-only tensors, and warns each time.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            tensor = torch.from_numpy(self.contiguous())  # pyright: ignore[reportUnknownMemberType]
        if self.dtype is DType.BOOL:
            return tensor.ne(0)
        return tensor.view(getattr(torch, self.dtype.torch_name))


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    """A tensor in a file: `geometry` reads its header, `open` all of it. Each call reads the file."""

    geometry: Callable[[], TensorLayout]
    open: Callable[[], TensorView]


Result = TypeVar("Result")

CHUNK = 1 << 18
"""A run has this many elements. The interpreter's share of the time is small, and a run fits the second-level cache."""


def spans(total: int) -> Iterator[tuple[int, int]]:
    """Yield start and stop of each run; together the runs cover `total` elements."""
    for start in range(0, total, CHUNK):
        yield start, min(start + CHUNK, total)


def map_in_two_threads(total: int, work: Callable[[Sequence[tuple[int, int]]], Result]) -> list[Result]:
    """Run `work` on every other run of `total` elements in one thread, and on the rest in another.

    The division is the same on every machine, and so is the order in which sums are taken.
    """
    runs = list(spans(total))
    if len(runs) < 2:
        return [work(runs)]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, (runs[::2], runs[1::2])))


def raw_run(view: TensorView, start: int, stop: int) -> Storage:
    """Return elements `start` to `stop` (row-major order) as stored: flat, aligned, copied only where necessary."""
    if view.is_contiguous:
        run = view.storage[view.offset + start : view.offset + stop]
        return np.require(run, requirements=["C", "A"])
    step = view.dtype.itemsize
    shaped = np.lib.stride_tricks.as_strided(
        view.storage[view.offset :], view.shape, [stride * step for stride in view.strides], writeable=False
    )
    return shaped.flat[start:stop]


def decode(dtype: DType, raw: Storage) -> Storage:
    """Return stored elements as exact values: float32 or float64; int64 or uint64; bool as the int64 0 or 1."""
    if dtype is DType.BFLOAT16:
        return (raw.astype(np.uint32) << 16).view(np.float32)
    if dtype is DType.FLOAT16:
        return raw.astype(np.float32)
    if dtype is DType.BOOL:
        return (raw != 0).astype(np.int64)
    if dtype.is_floating or dtype is DType.UINT64:
        return raw
    return raw.astype(np.int64, copy=False)


def encode(dtype: DType, values: Storage) -> Storage:
    """Return decoded values as they are stored, the inverse of `decode`. Excess bits are cut off; integers wrap."""
    with np.errstate(all="ignore"):
        if dtype is DType.BFLOAT16:
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return values.astype(dtype.storage)


def bits(dtype: DType, raw: Storage) -> Storage:
    """Return the stored patterns as unsigned integers of the element's width."""
    return raw.view(f"<u{dtype.itemsize}")


def run_values(view: TensorView, start: int, stop: int) -> Storage:
    """Return the decoded elements `start` to `stop`."""
    return decode(view.dtype, raw_run(view, start, stop))


def cast(view: TensorView, dtype: DType) -> TensorView:
    """Return a row-major copy of `view` in float64 or float32, or of integers in a type of integers that holds them.

    Values are rounded to nearest where the new type is narrower.

    Raises:
        ValueError: the type is another one.
    """
    wider = view.dtype.is_integer and dtype.is_integer and np.can_cast(view.dtype.storage, dtype.storage)
    if dtype not in (DType.FLOAT64, DType.FLOAT32) and not wider:
        raise ValueError(f"expected float64, float32 or wider integers, found {dtype.value}")
    values = np.empty(view.numel, dtype.storage)
    for start, stop in spans(view.numel):
        values[start:stop] = run_values(view, start, stop)
    return replace(TensorView.from_contiguous(view.name, dtype, view.shape, values), converted=view.converted)


def narrow(view: TensorView, *, start: int, stop: int) -> TensorView:
    """Return the part of `view` whose first index runs from `start` to `stop`; it shares the storage."""
    shape = list(view.shape)
    shape[0] = stop - start
    return TensorView(
        name=view.name,
        dtype=view.dtype,
        shape=tuple(shape),
        strides=view.strides,
        storage=view.storage,
        offset=view.offset + start * view.strides[0],
    )


def axis_last(view: TensorView, axis: int) -> TensorView:
    """Return `view` with `axis` moved behind all others, so that its runs along `axis` follow one another."""
    order = [k for k in range(len(view.shape)) if k != axis % len(view.shape)] + [axis % len(view.shape)]
    return TensorView(
        name=view.name,
        dtype=view.dtype,
        shape=tuple(view.shape[k] for k in order),
        strides=tuple(view.strides[k] for k in order),
        storage=view.storage,
        offset=view.offset,
    )


class NarrowFloat(Enum):
    """An element type of the MX formats (OCP Microscaling Formats, 1.0, 2023). The value is the runtime's name for it.

    FP8E4M3FN has no infinities and two NaN. FP8E8M0 is a scale: a power of two, or NaN. An element of FP4E2M1 is a byte
    that holds two numbers, the first one in its lower half.
    """

    FP8E4M3FN = "FP8E4M3FN"
    FP8E8M0 = "FP8E8M0"
    FP4E2M1 = "FP4E2M1"

    @classmethod
    def parse(cls, spelling: str) -> NarrowFloat | None:
        """Return the type of a name in any case, also after `DataType::`; None where it is none of these."""
        name = spelling.removeprefix("DataType::").upper()
        return next((each for each in cls if each.value == name), None)

    @property
    def description(self) -> str:
        """Return what the numbers were made of, for people."""
        pairs = ", two numbers an element" if self is NarrowFloat.FP4E2M1 else ""
        return f"{self.value} as float32{pairs}"

    def shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the numbers that elements of shape `stored` hold.

        The last dimension has twice as many where two numbers share an element.
        """
        if self is not NarrowFloat.FP4E2M1:
            return stored
        return (*stored[:-1], 2 * stored[-1]) if stored else (2,)

    def numbers(self, raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Return the numbers that elements hold, in their order; float32 represents each of them exactly."""
        if self is NarrowFloat.FP4E2M1:
            return _E2M1[np.stack((raw & 0xF, raw >> 4), axis=-1).reshape(-1)]
        return (_E4M3FN if self is NarrowFloat.FP8E4M3FN else _E8M0)[raw]


def _values(*, exponent_bits: int, mantissa_bits: int, bias: int) -> npt.NDArray[np.float32]:
    """Return what each code means: sign, exponent and mantissa, without infinities and NaN."""
    codes = np.arange(1 << (1 + exponent_bits + mantissa_bits))
    mantissa = codes % (1 << mantissa_bits) / (1 << mantissa_bits)
    exponent = (codes >> mantissa_bits) % (1 << exponent_bits)
    size = np.where(exponent > 0, 1 + mantissa, mantissa) * 2.0 ** (np.maximum(exponent, 1) - bias)
    return np.where(codes >> (exponent_bits + mantissa_bits), -size, size).astype(np.float32)


_E4M3FN = _values(exponent_bits=4, mantissa_bits=3, bias=7)
_E4M3FN[[0x7F, 0xFF]] = np.nan
_E8M0 = np.append(2.0 ** np.arange(-127, 128), np.nan).astype(np.float32)
_E2M1 = _values(exponent_bits=2, mantissa_bits=1, bias=1)
