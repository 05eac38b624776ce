"""A tensor as it lies in a file: its type, its geometry, and the storage it is a view of."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Storage: TypeAlias = npt.NDArray[Any]


class ViewError(ValueError):
    """The geometry of a tensor does not fit the storage it claims to be a view of."""


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
        """The type of a name in any case, also after `torch.` or `DataType::`; `ValueError` if unknown."""
        name = spelling.removeprefix("torch.").removeprefix("DataType::").lower()
        return cls(name)

    @property
    def storage(self) -> np.dtype[Any]:
        """Little-endian numpy type of the stored bytes.

        numpy has no bfloat16, so its bits are kept as uint16; bool is kept as uint8 because numpy's own
        bool is undefined for bytes other than 0 and 1, which a faulty kernel may well have written.
        """
        return _STORAGE[self]

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.storage.itemsize

    @property
    def is_floating(self) -> bool:
        """Whether it is a type of floating-point numbers."""
        return self in _FLOATING

    @property
    def is_integer(self) -> bool:
        """Whether it is a type of integers; bool is none."""
        return self is not DType.BOOL and not self.is_floating

    @property
    def torch_name(self) -> str:
        """Attribute of the `torch` module, `bfloat16` for example."""
        return self.value


_FLOATING = frozenset({DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16})
_STORED_AS = {DType.BFLOAT16: "uint16", DType.BOOL: "uint8"}
_STORAGE = {dtype: np.dtype(_STORED_AS.get(dtype, dtype.value)).newbyteorder("<") for dtype in DType}


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides of `shape`, in elements."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorView:
    """`shape` elements of `dtype`, `strides` apart (in elements) from `offset` on, in a flat `storage`.

    `storage` is one-dimensional, of type `dtype.storage`, and usually a read-only slice of a memory-mapped
    file, so that making a view reads nothing. `name` says where the tensor came from, for people, and `converted`
    what its elements were made of where that is another type than `dtype`, such as float8.

    Raises:
        ViewError: an element would lie outside the storage, or the storage has another type.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
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
    def of_contiguous(cls, name: str, dtype: DType, shape: tuple[int, ...], storage: Storage) -> TensorView:
        """A row-major view of the whole flat `storage`."""
        return cls(name=name, dtype=dtype, shape=shape, strides=contiguous_strides(shape), storage=storage)

    @property
    def numel(self) -> int:
        """Number of elements."""
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    @property
    def nbytes(self) -> int:
        """Bytes of the logical elements."""
        return self.numel * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        wanted = contiguous_strides(self.shape)
        return self.numel == 0 or all(
            extent == 1 or stride == want
            for extent, stride, want in zip(self.shape, self.strides, wanted, strict=True)
        )

    def contiguous(self) -> Storage:
        """The logical elements as an aligned row-major array of `shape`, in their storage type.

        No copy is made where the view is row-major and aligned already; then the array shares the mapping and
        is as read-only as the storage.
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
        """The logical elements as a torch tensor, sharing memory where `contiguous` does. Read it only."""
        import torch

        with warnings.catch_warnings():
            # torch has no read-only tensors and says so each time.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            tensor = torch.from_numpy(self.contiguous())  # pyright: ignore[reportUnknownMemberType]
        if self.dtype is DType.BOOL:
            return tensor.ne(0)
        return tensor.view(getattr(torch, self.dtype.torch_name))
