"""A tensor in a file: its type, its geometry, and its storage.

`TensorView` reads nothing when it is made. `run_values` reads a run: consecutive elements in row-major order, decoded
to values for computations. `spans` divides a tensor into runs of bounded length. `NarrowFloat` decodes floats of eight
and four bits, which numpy does not have.
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
    """An element type. The value is its lower-case name in torch and in dumps."""

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
        """Return the type of a name in any case, also after `torch.` or `DataType::`. Raises `ValueError`."""
        name = spelling.removeprefix("torch.").removeprefix("DataType::").lower()
        return cls(name)

    @property
    def storage(self) -> np.dtype[Any]:
        """Return the little-endian numpy type of the stored bytes.

        It is uint16 for bfloat16, which numpy does not have. It is uint8 for bool, because a faulty kernel may have
        written bytes other than 0 and 1, for which numpy's bool is undefined.
        """
        return _STORAGE[self]

    @property
    def itemsize(self) -> int:
        """Return the bytes of one element."""
        return self.storage.itemsize

    @property
    def is_floating(self) -> bool:
        """Return whether this is a type of floating-point numbers."""
        return self in _FLOATING_TYPES

    @property
    def is_integer(self) -> bool:
        """Return whether this is a type of integers; bool is none."""
        return self is not DType.BOOL and not self.is_floating

    @property
    def torch_name(self) -> str:
        """Return the name of the type in the `torch` module."""
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
    """The type and the geometry of a tensor. Strides count elements."""

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
    """A tensor in a flat storage.

    Raises:
        ViewError: an element would be outside of the storage, or the storage has another type.
    """

    name: str
    """The origin of the tensor, for people."""
    storage: Storage = field(repr=False)
    """A one-dimensional array of type `dtype.storage`, usually a read-only slice of a memory-mapped file."""
    offset: int = 0
    """The index of the first element in the storage."""
    converted: str = ""
    """The type from which the elements were converted, such as float8, in words; empty if they were not."""

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

        The array is a copy unless the storage already has this form. Otherwise it is as read-only as the storage.
        """
        if self.numel == 0:
            return np.empty(self.shape, self.dtype.storage)
        if self.is_contiguous:
            shaped = self.storage[self.offset : self.offset + self.numel].reshape(self.shape)
        else:
            shaped = self.strided()
        return np.require(shaped, requirements=["C", "A"])

    def strided(self) -> Storage:
        """Return the logical elements as a read-only array of `shape` with the strides of the view."""
        strides = [stride * self.dtype.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(
            self.storage[self.offset :], self.shape, strides, writeable=False
        )

    def torch(self) -> torch.Tensor:
        """Return the logical elements as a torch tensor, which must not be written: it may share the storage."""
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
    """A tensor in a file that has not been read yet."""

    geometry: Callable[[], TensorLayout]
    """Reads the header of the tensor."""
    open: Callable[[], TensorView]
    """Reads the tensor."""


Result = TypeVar("Result")

CHUNK = 1 << 18
"""A run has this many elements. It fits the second-level cache, and the interpreter's overhead is small."""


def spans(total: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the stop of each run of `total` elements."""
    for start in range(0, total, CHUNK):
        yield start, min(start + CHUNK, total)


def map_in_two_threads(total: int, work: Callable[[Sequence[tuple[int, int]]], Result]) -> list[Result]:
    """Call `work` with the even runs of `total` elements in one thread, and with the odd ones in another.

    The division does not depend on the machine, and neither does the order of a sum.
    """
    runs = list(spans(total))
    if len(runs) < 2:
        return [work(runs)]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, (runs[::2], runs[1::2])))


def raw_run(view: TensorView, start: int, stop: int) -> Storage:
    """Return the stored elements `start` to `stop`, in row-major order, as a flat aligned array. It may be a copy."""
    if view.is_contiguous:
        run = view.storage[view.offset + start : view.offset + stop]
        return np.require(run, requirements=["C", "A"])
    return view.strided().flat[start:stop]


def decode(dtype: DType, raw: Storage) -> Storage:
    """Return stored elements as exact values, in float32, float64, int64 or uint64. A bool is the int64 0 or 1."""
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
    """Return values as stored elements, the inverse of `decode`. Excess bits are cut off, and integers wrap."""
    with np.errstate(all="ignore"):
        if dtype is DType.BFLOAT16:
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return values.astype(dtype.storage)


def bits(dtype: DType, raw: Storage) -> Storage:
    """Return the bits of stored elements, as unsigned integers of the same width."""
    return raw.view(f"<u{dtype.itemsize}")


def run_values(view: TensorView, start: int, stop: int) -> Storage:
    """Return the decoded elements `start` to `stop`, in row-major order."""
    return decode(view.dtype, raw_run(view, start, stop))


def cast(view: TensorView, dtype: DType) -> TensorView:
    """Return a row-major copy of `view` in float64, float32, or a wider type of integers.

    Values are rounded to nearest where the new type is narrower.

    Raises:
        ValueError: the type is another one.
    """
    is_widening = (
        view.dtype.is_integer and dtype.is_integer and np.can_cast(view.dtype.storage, dtype.storage)
    )
    if dtype not in (DType.FLOAT64, DType.FLOAT32) and not is_widening:
        raise ValueError(f"expected float64, float32 or wider integers, found {dtype.value}")
    values = np.empty(view.numel, dtype.storage)
    for start, stop in spans(view.numel):
        values[start:stop] = run_values(view, start, stop)
    return replace(TensorView.from_contiguous(view.name, dtype, view.shape, values), converted=view.converted)


def narrow(view: TensorView, *, start: int, stop: int) -> TensorView:
    """Return the part of `view` with first indices `start` to `stop`, which shares the storage."""
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
    """Return `view` with `axis` as its last dimension, so that neighbours along `axis` are consecutive elements."""
    rank = len(view.shape)
    order = [*(k for k in range(rank) if k != axis % rank), axis % rank]
    return TensorView(
        name=view.name,
        dtype=view.dtype,
        shape=tuple(view.shape[k] for k in order),
        strides=tuple(view.strides[k] for k in order),
        storage=view.storage,
        offset=view.offset,
    )


class NarrowFloat(Enum):
    """An element type of the MX formats (OCP Microscaling Formats, 1.0, 2023). The value is the runtime's name of it.

    FP8E4M3FN has no infinities and two NaN. FP8E8M0 is a scale: a power of two, or NaN. An element of FP4E2M1 is a byte
    with two numbers, the first one in its lower half.
    """

    FP8E4M3FN = "FP8E4M3FN"
    FP8E8M0 = "FP8E8M0"
    FP4E2M1 = "FP4E2M1"

    @classmethod
    def parse(cls, spelling: str) -> NarrowFloat | None:
        """Return the type of a name in any case, also after `DataType::`; None for any other name."""
        name = spelling.removeprefix("DataType::").upper()
        return next((each for each in cls if each.value == name), None)

    @property
    def description(self) -> str:
        """Return the type in words, by its name in torch, for `TensorView.converted`."""
        pairs = ", two numbers an element" if self is NarrowFloat.FP4E2M1 else ""
        return f"{_TORCH_NAMES[self]} as float32{pairs}"

    def shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the numbers in elements of shape `stored`. FP4E2M1 doubles the last dimension."""
        if self is not NarrowFloat.FP4E2M1:
            return stored
        return (*stored[:-1], 2 * stored[-1]) if stored else (2,)

    def numbers(self, raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Return the numbers in elements, in their order. float32 represents each of them exactly."""
        if self is NarrowFloat.FP4E2M1:
            return _E2M1[np.stack((raw & 0xF, raw >> 4), axis=-1).reshape(-1)]
        return (_E4M3FN if self is NarrowFloat.FP8E4M3FN else _E8M0)[raw]


_TORCH_NAMES = {
    NarrowFloat.FP8E4M3FN: "float8_e4m3fn",
    NarrowFloat.FP8E8M0: "float8_e8m0fnu",
    NarrowFloat.FP4E2M1: "float4_e2m1fn_x2",
}


def _values(*, exponent_bits: int, mantissa_bits: int, bias: int) -> npt.NDArray[np.float32]:
    """Return the number of each code of a sign, an exponent and a mantissa, without infinities and NaN."""
    codes = np.arange(1 << (1 + exponent_bits + mantissa_bits))
    mantissa = codes % (1 << mantissa_bits) / (1 << mantissa_bits)
    exponent = (codes >> mantissa_bits) % (1 << exponent_bits)
    size = np.where(exponent > 0, 1 + mantissa, mantissa) * 2.0 ** (np.maximum(exponent, 1) - bias)
    return np.where(codes >> (exponent_bits + mantissa_bits), -size, size).astype(np.float32)


_E4M3FN = _values(exponent_bits=4, mantissa_bits=3, bias=7)
_E4M3FN[[0x7F, 0xFF]] = np.nan
_E8M0 = np.append(2.0 ** np.arange(-127, 128), np.nan).astype(np.float32)
_E2M1 = _values(exponent_bits=2, mantissa_bits=1, bias=1)
