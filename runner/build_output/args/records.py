"""The records of an argument dump: as its manifest spells them, and as this package shows them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import msgspec

from ...tensor.narrow import NarrowFloat
from ...tensor.view import DType, contiguous_strides
from ..task_id import format_task_id

MOST_DIMENSIONS = 16

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Extents = Annotated[list[Int64], msgspec.Meta(max_length=MOST_DIMENSIONS)]
KernelIds = Annotated[list[Int64], msgspec.Meta(max_length=64)]


class ArgumentRole(Enum):
    """What the kernel's signature says it does with the argument; how the task used it is in the task graph."""

    INPUT = "input"
    OUTPUT = "output"
    INOUT = "inout"


class DumpStage(Enum):
    """When the value was taken."""

    BEFORE_DISPATCH = "before_dispatch"
    AFTER_COMPLETION = "after_completion"


class Kind(Enum):
    """Whether an argument is a tensor or a scalar."""

    TENSOR = "tensor"
    SCALAR = "scalar"


class Flaw(Enum):
    """Why a record has no payload that may be compared."""

    TRUNCATED = "truncated: the tensor was larger than the dump's arena"
    OVERWRITTEN = "overwritten: the collector was slower than the device"
    NO_PAYLOAD = "no payload: only its metadata was dumped"
    OUTSIDE_FILE = "its payload lies outside the payload file"
    SIZE_MISMATCH = "its payload is not the size its shape and type give"
    BAD_GEOMETRY = "its shape, strides and element count are no tensor"
    UNKNOWN_DTYPE = "its element type is unknown"


class SpelledRecord(msgspec.Struct, gc=False):
    """One element of `args` (older: `tensors`), the spellings of all eras together.

    `strides` and `start_offset` are written from May 2026 on; before, `raw_shape` and `offsets` placed the
    tensor in its buffer. `kind` came with scalars; `func_id` was one number before it was a list.
    """

    task_id: str | int
    arg_index: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
    role: ArgumentRole
    stage: DumpStage
    dtype: Annotated[str, msgspec.Meta(max_length=64)]
    shape: Extents
    bin_offset: Int64
    bin_size: Int64
    numel: Int64
    func_id: Int64 | KernelIds = -1
    kind: Kind = Kind.TENSOR
    value: int | float | bool | str | None = None
    strides: Extents | None = None
    start_offset: Int64 = 0
    raw_shape: Extents | None = None
    offsets: Extents | None = None
    truncated: bool = False
    overwritten: bool = False
    arg_index_ambiguous: bool = False


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Type and placement shared by all records that have them alike.

    `numel` is None where the extents are negative, their product passes 2**60, or strides are missing. One of `dtype`
    and `narrow` is None, both of an unknown type.
    """

    dtype: DType | None
    narrow: NarrowFloat | None
    dtype_spelling: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start_offset: int
    numel: int | None

    @classmethod
    def of(cls, record: SpelledRecord) -> Geometry:
        """What the record says, in today's terms."""
        try:
            dtype = DType.parse(record.dtype)
        except ValueError:
            dtype = None
        shape = tuple(record.shape)
        strides, start_offset = _placement(record, shape)
        numel = math.prod(shape)
        sound = min(shape, default=0) >= 0 and numel < 2**60 and len(strides) == len(shape)
        return cls(
            dtype=dtype,
            narrow=NarrowFloat.parse(record.dtype),
            dtype_spelling=record.dtype,
            shape=shape,
            strides=strides,
            start_offset=start_offset,
            numel=numel if sound else None,
        )

    @property
    def itemsize(self) -> int:
        """Bytes of one element; 0 of an unknown type."""
        if self.narrow is not None:
            return 1
        return 0 if self.dtype is None else self.dtype.itemsize


def _placement(record: SpelledRecord, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Strides of the tensor and start in its buffer, in elements."""
    if record.strides is not None:
        return tuple(record.strides), record.start_offset
    if record.raw_shape is None:
        return contiguous_strides(shape), record.start_offset
    strides = contiguous_strides(tuple(record.raw_shape))
    offsets = record.offsets or [0] * len(strides)
    return strides, sum(o * s for o, s in zip(offsets, strides, strict=False))


@dataclass(frozen=True, kw_only=True)
class ArgRecord:
    """One dumped argument of one task.

    Attributes:
        index: its place in the manifest.
        kernels: function ids of the task's kernels; `(-1,)` where the runtime did not know them.
        shape, strides, start_offset: the tensor as the kernel saw it, in elements. The payload itself is
            row-major always.
        bin_offset, bin_size: the payload's place in the payload file, in bytes.
        value: a scalar's value. The runtime prints float32 to six digits; where it knows no type, a float
            appears as the integer that has its bits.
        flaw: why the payload may not be compared, or None. A scalar has none.
        arg_index_ambiguous: the same scalar was passed twice and the runtime cannot tell which this is.
    """

    index: int
    task_id: int
    kernels: tuple[int, ...]
    arg_index: int
    role: ArgumentRole
    stage: DumpStage
    kind: Kind
    dtype: DType | None
    narrow: NarrowFloat | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start_offset: int
    bin_offset: int
    bin_size: int
    value: int | float | bool | None
    flaw: Flaw | None
    arg_index_ambiguous: bool

    @property
    def name(self) -> str:
        """`0x0000000100000002 arg 1 inout after_completion`."""
        return f"{format_task_id(self.task_id)} arg {self.arg_index} {self.role.value} {self.stage.value}"


def scalar_value(record: SpelledRecord) -> int | float | bool | None:
    """The value of a scalar record, None if the manifest gives none.

    Raises:
        ValueError: it is spelled as no known runtime spells one.
    """
    if isinstance(record.value, str):
        spelled = {"$Inf": math.inf, "-$Inf": -math.inf}
        if record.value not in spelled:
            raise ValueError(f"expected a number, $Inf or -$Inf as `value`, found {record.value[:40]!r}")
        return spelled[record.value]
    if record.value is None and record.dtype.lower() == DType.FLOAT32.value:
        return math.nan
    if isinstance(record.value, int) and record.value.bit_length() > 64:
        raise ValueError("expected `value` to fit 64 bits")
    return record.value
