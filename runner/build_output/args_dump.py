"""Reads the argument dump of one run: what every task was given, and what it left.

Two layouts are read: `args_dump/{args_dump.json,args.bin}` and the older
`tensor_dump/{tensor_dump.json,tensor_dump.bin}`. At first the older files were named after the time of the run.

A manifest may list millions of records. `Manifest` therefore reads them in batches, in memory that does not grow with
their number. `ArgsIndex` keeps them as columns, about 60 bytes a record. `find_flaws` decides for all records at once
which payloads may not be compared, and why.

A task id is a 64-bit number. Dumps spell it in hexadecimal, graphs in decimal.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ..tensor import DType, NarrowFloat, Storage, TensorLayout, TensorView, contiguous_strides
from .files import (
    FileTooLargeError,
    Folder,
    IncompleteRecordError,
    JsonError,
    MalformedFileError,
    MissingFileError,
    json_reader,
)

_NUMBER = re.compile(r"0x([0-9a-fA-F]{1,16})|([0-9]{1,20})")


def parse_task_id(spelling: str | int) -> int:
    """Return the id in 0 ... 2**64 - 1 spelled as a number, as decimal digits, or as `0x` and hexadecimal digits.

    >>> parse_task_id("0x0000000200000001") == parse_task_id("8589934593") == 8589934593
    True

    Raises:
        ValueError: it is none of these.
    """
    return parse_uint64(spelling)


def parse_uint64(spelling: str | int) -> int:
    """Return any of the runtime's 64-bit numbers, spelled as a task id is; `ValueError` if it is none."""
    match = _NUMBER.fullmatch(str(spelling))
    number = (int(match[1], 16) if match[1] else int(match[2])) if match else -1
    if not 0 <= number < 2**64:
        raise ValueError(f"expected a number of 64 bits, found {spelling!r:.40}")
    return number


def format_task_id(task_id: int) -> str:
    """Return the id as dumps spell it: `0x` and sixteen hexadecimal digits."""
    return f"0x{task_id:016x}"


MOST_DIMENSIONS = 16
"""A tensor in a dump has at most this many dimensions. The runtime's own tensors have fewer, and a broken file claims
any number."""

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Extents = Annotated[list[Int64], msgspec.Meta(max_length=MOST_DIMENSIONS)]
KernelIds = Annotated[list[Int64], msgspec.Meta(max_length=64)]


class ArgumentRole(Enum):
    """What the kernel's signature says it does with the argument. The task graph says how the task used it."""

    INPUT = "input"
    OUTPUT = "output"
    INOUT = "inout"


class DumpStage(Enum):
    """Says when the value was recorded."""

    BEFORE_DISPATCH = "before_dispatch"
    AFTER_COMPLETION = "after_completion"


class ArgumentKind(Enum):
    """Whether an argument is a tensor or a scalar."""

    TENSOR = "tensor"
    SCALAR = "scalar"


class Flaw(Enum):
    """Says why a record has no payload that may be compared."""

    TRUNCATED = "truncated: the tensor was larger than the dump's arena"
    OVERWRITTEN = "overwritten: the collector was slower than the device"
    NO_PAYLOAD = "no payload: only its metadata was dumped"
    OUTSIDE_FILE = "its payload lies outside the payload file"
    SIZE_MISMATCH = "its payload is not the size its shape and type give"
    BAD_GEOMETRY = "its shape, strides and element count are no tensor"
    UNKNOWN_DTYPE = "its element type is unknown"


class JsonRecord(msgspec.Struct, gc=False):
    """One element of `args` (older: `tensors`), with the fields of all eras.

    `strides` and `start_offset` are written from May 2026 on. Before, `raw_shape` and `offsets` placed the tensor in
    its buffer. `kind` came with scalars. `func_id` was one number before it was a list.
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
    kind: ArgumentKind = ArgumentKind.TENSOR
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
    """The type and placement of a tensor. Records that have them alike share one object.

    `numel` is None where the extents are negative, their product reaches 2**60, or strides are missing. One of `dtype`
    and `narrow` is None, and both are for an unknown type.
    """

    dtype: DType | None
    narrow: NarrowFloat | None
    dtype_spelling: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start_offset: int
    numel: int | None

    @classmethod
    def from_record(cls, record: JsonRecord) -> Geometry:
        """Return the record's type and placement, with older fields converted to strides and a start."""
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
        """Return the bytes of one element; 0 for an unknown type."""
        if self.narrow is not None:
            return 1
        return 0 if self.dtype is None else self.dtype.itemsize


def _placement(record: JsonRecord, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Return the tensor's strides and its start in its buffer, in elements."""
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
        shape, strides, start_offset: the tensor as the kernel saw it, in elements. The payload itself is always
            row-major.
        bin_offset, bin_size: the payload's place in the payload file, in bytes.
        value: a scalar's value. The runtime prints float32 to six digits. Where it knows no type, a float appears as
            the integer that has its bits.
        flaw: why the payload may not be compared, or None. A scalar has none.
        arg_index_ambiguous: the same scalar was passed twice, and the runtime cannot tell which this is.
    """

    index: int
    task_id: int
    kernels: tuple[int, ...]
    arg_index: int
    role: ArgumentRole
    stage: DumpStage
    kind: ArgumentKind
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
        """Return the record's name, such as `0x0000000100000002 arg 1 inout after_completion`."""
        return f"{format_task_id(self.task_id)} arg {self.arg_index} {self.role.value} {self.stage.value}"


def scalar_value(record: JsonRecord) -> int | float | bool | None:
    """Return the value of a scalar record, None if the manifest gives none.

    Raises:
        ValueError: no known runtime spells a value like this.
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


FLAWS = (None, *Flaw)
"""Each flaw stands at its code in a column. Code 0 means that the record has no flaw."""

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Payloads:
    """What the records say about their payloads, as columns. `geometry_numbers` index `geometries`."""

    geometries: Sequence[Geometry]
    geometry_numbers: npt.NDArray[np.int32]
    numels: npt.NDArray[np.int64]
    bin_offsets: npt.NDArray[np.int64]
    bin_sizes: npt.NDArray[np.int64]
    truncated: Booleans
    overwritten: Booleans
    scalar: Booleans


def find_flaws(payloads: Payloads, file_bytes: int) -> npt.NDArray[np.uint8]:
    """Return the code in `FLAWS` of each record's first flaw, for a payload file of `file_bytes`. Scalars have none."""
    itemsizes = _column(payloads, [one.itemsize for one in payloads.geometries])
    numels = _column(payloads, [-1 if one.numel is None else one.numel for one in payloads.geometries])
    sizes = payloads.bin_sizes
    # Subtracting cannot overflow where the offset is in the file, and elsewhere the result is not needed.
    outside_file = (
        (sizes < 0)
        | (payloads.bin_offsets < 0)
        | (payloads.bin_offsets > file_bytes)
        | (sizes > file_bytes - payloads.bin_offsets)
    )
    flaws = {
        Flaw.OVERWRITTEN: payloads.overwritten,
        Flaw.TRUNCATED: payloads.truncated,
        Flaw.UNKNOWN_DTYPE: itemsizes == 0,
        Flaw.BAD_GEOMETRY: (numels < 0) | (numels != payloads.numels),
        Flaw.NO_PAYLOAD: (sizes == 0) & (numels > 0),
        Flaw.OUTSIDE_FILE: outside_file & (sizes != 0),
        Flaw.SIZE_MISMATCH: sizes != numels * itemsizes,
    }
    codes = [FLAWS.index(flaw) for flaw in flaws]
    found = np.select(list(flaws.values()), codes, default=0).astype(np.uint8)
    found[payloads.scalar] = 0
    return found


def _column(payloads: Payloads, table: list[int]) -> npt.NDArray[np.int64]:
    """Return a column with one entry a record, from a table with one entry a geometry."""
    return np.array(table, np.int64)[payloads.geometry_numbers]


MOST_BYTES = 2 * 2**30
"""A larger manifest, in bytes, is not read. It holds about six million records."""

_MOST_HEADER_BYTES = 2**20
"""The part of a manifest before its records, and the part after them, take at most this many bytes."""
_CHUNK_BYTES = 2**20
"""Records are decoded from this many bytes at a time, so that a large manifest does not fill the memory."""

_ARRAY = re.compile(rb'"(args|tensors)"\s*:\s*\[')
_SEPARATOR = re.compile(rb"\s*+,")
_BLANK_TO_END = re.compile(rb"\s*+\Z")

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class BinFormat(msgspec.Struct, frozen=True):
    """How the manifest describes the format of the payload file."""

    type: str
    byte_order: str


class JsonHeader(msgspec.Struct, frozen=True):
    """The fields beside the records. Counts were named after `tensors`, and from June 2026 on after `args`."""

    bin_format: BinFormat
    bin_file: str | None
    before_dispatch: Count
    after_completion: Count
    dropped_records: Count
    dropped_overwrite: Count
    dump_args_level: Count | None = None
    total_args: Count | None = None
    input_args: Count | None = None
    output_args: Count | None = None
    inout_args: Count | None = None
    truncated_args: Count | None = None
    total_tensors: Count | None = None
    input_tensors: Count | None = None
    output_tensors: Count | None = None
    inout_tensors: Count | None = None
    truncated_tensors: Count | None = None


_read_header = json_reader(JsonHeader)
_read_records = json_reader(list[JsonRecord])


@dataclass(frozen=True)
class Manifest:
    """A manifest whose header is checked and whose records are yet to be read.

    The records stand in `text` from `first` up to `last`.
    """

    path: Path
    header: JsonHeader
    text: memoryview
    first: int
    last: int

    @classmethod
    def parse(cls, path: Path, text: memoryview) -> Manifest:
        """Read all of `text` except the records.

        Raises:
            MalformedFileError: it is not the JSON of a dump, or its payloads have another layout.
        """
        array = _ARRAY.search(text, 0, _MOST_HEADER_BYTES)
        if array is None:
            raise MalformedFileError(
                path=path, expected='JSON with an array "args" or "tensors"', found="none"
            )
        last = _end_of_records(path, text)
        rest = bytes(text[: array.end()]) + bytes(text[last:])
        try:
            header = _read_header(rest)
        except JsonError as error:
            raise MalformedFileError(
                path=path, expected="the JSON of a dump", found=f"one that does not fit: {error}"
            ) from error
        layout = (header.bin_format.type, header.bin_format.byte_order)
        if layout != ("logical_contiguous", "little_endian"):
            raise MalformedFileError(
                path=path, expected="logical_contiguous, little_endian payloads", found=" ".join(layout)[:80]
            )
        return cls(path, header, text, array.end(), last)

    def batches(self) -> Iterator[list[JsonRecord]]:
        """Yield the records in file order, some thousand at a time; `MalformedFileError` at the first that is none."""
        if _BLANK_TO_END.match(self.text, self.first, self.last):
            return
        count = 0
        place = self.first
        while True:
            chunk = self.text[place : min(self.last, place + _CHUNK_BYTES)].tobytes()
            # Records hold arrays but no objects, so each ends at its first closing brace.
            cut = chunk.rfind(b"}") + 1
            try:
                records = _read_records(b"[" + chunk[:cut] + b"]")
            except JsonError as error:
                raise self.record_error(count, f"one that does not fit: {error}") from error
            if not records:
                raise self.record_error(count, "none: cut short?")
            yield records
            count += len(records)
            place += cut
            separator = _SEPARATOR.match(self.text, place, self.last)
            if separator is None:
                break
            place = separator.end()
        if not _BLANK_TO_END.match(self.text, place, self.last):
            raise self.record_error(count, "other text")

    def record_error(self, index: int, found: str) -> MalformedFileError:
        """Return the error to raise for record `index`."""
        return MalformedFileError(
            path=self.path, expected=f"an argument record at [{index}] or soon after", found=found
        )


def _end_of_records(path: Path, text: memoryview) -> int:
    """Return the position of the bracket that closes the records."""
    tail_at = max(0, len(text) - _MOST_HEADER_BYTES)
    tail = bytes(text[tail_at:])
    end = tail.rfind(b"]")
    if end < 0:
        raise MalformedFileError(path=path, expected="the records' closing bracket", found="none: cut short?")
    return tail_at + end


MOST_DISTINCT = 200_000
"""One dump may hold at most this many distinct geometries, and as many distinct kernel sets. A damaged file would fill
the memory."""

_ROLES = tuple(ArgumentRole)
_STAGES = tuple(DumpStage)
_ROLE_CODES = {role: code for code, role in enumerate(_ROLES)}
_STAGE_CODES = {stage: code for code, stage in enumerate(_STAGES)}
_TRUNCATED, _OVERWRITTEN, _AMBIGUOUS, _SCALAR = 1, 2, 4, 8
"""A column holds these marks of a record as bits of one number."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _InternTable(Generic[Key, Value]):
    """Numbers values in the order of their first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[Key, int] = {}
        self.values: list[Value] = []

    def add(self, key: Key, value: Value) -> int:
        """Give a new `value` the next number, and return it."""
        if len(self.values) >= MOST_DISTINCT:
            raise ValueError(f"more than {MOST_DISTINCT} distinct geometries or kernel sets")
        number = self.numbers[key] = len(self.values)
        self.values.append(value)
        return number


@dataclass(frozen=True, kw_only=True)
class ArgsIndex:
    """The records of a dump as columns of equal length, in manifest order, and tables of what many records share.

    `by_task` lists the records by ascending task id, and `sorted_task_ids` these ids.
    """

    task_ids: npt.NDArray[np.uint64]
    arg_indices: npt.NDArray[np.int32]
    roles: npt.NDArray[np.uint8]
    stages: npt.NDArray[np.uint8]
    flaws: npt.NDArray[np.uint8]
    ambiguous: npt.NDArray[np.bool_]
    bin_offsets: npt.NDArray[np.int64]
    bin_sizes: npt.NDArray[np.int64]
    geometry_numbers: npt.NDArray[np.int32]
    kernel_numbers: npt.NDArray[np.int32]
    by_task: npt.NDArray[np.int64]
    sorted_task_ids: npt.NDArray[np.uint64]
    geometries: list[Geometry]
    kernels: list[tuple[int, ...]]
    scalars: dict[int, int | float | bool | None]

    @classmethod
    def build(cls, manifest: Manifest, *, payload_bytes: int) -> ArgsIndex:
        """Read every record of `manifest`, whose payload file has `payload_bytes`.

        Raises:
            MalformedFileError: at the first record that is none.
        """
        builder = _Builder()
        count = 0
        for records in manifest.batches():
            try:
                builder.add(records)
            except ValueError as error:
                raise manifest.record_error(count, f"one that does not fit: {error}") from error
            count += len(records)
        return builder.finish(payload_bytes)

    def __len__(self) -> int:
        return len(self.task_ids)

    def find(
        self,
        *,
        task_id: int | None = None,
        arg_index: int | None = None,
        role: ArgumentRole | None = None,
        stage: DumpStage | None = None,
    ) -> list[int]:
        """Return the numbers of the records that agree with everything given, in manifest order."""
        if task_id is None:
            rows = np.arange(len(self))
        else:
            first = np.searchsorted(self.sorted_task_ids, np.uint64(task_id), "left")
            last = np.searchsorted(self.sorted_task_ids, np.uint64(task_id), "right")
            rows = self.by_task[first:last]
        if arg_index is not None:
            rows = rows[self.arg_indices[rows] == arg_index]
        if role is not None:
            rows = rows[self.roles[rows] == _ROLES.index(role)]
        if stage is not None:
            rows = rows[self.stages[rows] == _STAGES.index(stage)]
        return rows.tolist()

    def record(self, index: int) -> ArgRecord:
        """Return record `index`, 0 ... len - 1."""
        geometry = self.geometries[int(self.geometry_numbers[index])]
        return ArgRecord(
            index=index,
            task_id=int(self.task_ids[index]),
            kernels=self.kernels[int(self.kernel_numbers[index])],
            arg_index=int(self.arg_indices[index]),
            role=_ROLES[int(self.roles[index])],
            stage=_STAGES[int(self.stages[index])],
            kind=ArgumentKind.SCALAR if index in self.scalars else ArgumentKind.TENSOR,
            dtype=geometry.dtype,
            narrow=geometry.narrow,
            shape=geometry.shape,
            strides=geometry.strides,
            start_offset=geometry.start_offset,
            bin_offset=int(self.bin_offsets[index]),
            bin_size=int(self.bin_sizes[index]),
            value=self.scalars.get(index),
            flaw=FLAWS[int(self.flaws[index])],
            arg_index_ambiguous=bool(self.ambiguous[index]),
        )


class _Builder:
    """Appends records to columns, and makes an `ArgsIndex` of them at the end."""

    def __init__(self) -> None:
        self.task_ids = array("Q")
        self.arg_indices = array("i")
        self.roles = array("B")
        self.stages = array("B")
        self.marks = array("B")
        self.numels = array("q")
        self.bin_offsets = array("q")
        self.bin_sizes = array("q")
        self.geometry_numbers = array("i")
        self.kernel_numbers = array("i")
        self.geometries: _InternTable[Hashable, Geometry] = _InternTable()
        self.kernels: _InternTable[Hashable, tuple[int, ...]] = _InternTable()
        self.scalars: dict[int, int | float | bool | None] = {}
        # The records of a task stand together, so few ids are parsed more than once.
        self.task_id = lru_cache(64)(parse_task_id)

    def add(self, records: list[JsonRecord]) -> None:
        """Append records; `ValueError` where a field has the right JSON type but makes no sense."""
        first = len(self.task_ids)
        self.geometry_numbers.extend([self.geometry(record) for record in records])
        self.kernel_numbers.extend([self.kernel_set(record) for record in records])
        self.marks.extend([_flag_bits(record) for record in records])
        self.arg_indices.extend([record.arg_index for record in records])
        self.roles.extend([_ROLE_CODES[record.role] for record in records])
        self.stages.extend([_STAGE_CODES[record.stage] for record in records])
        self.numels.extend([record.numel for record in records])
        self.bin_offsets.extend([record.bin_offset for record in records])
        self.bin_sizes.extend([record.bin_size for record in records])
        self.task_ids.extend([self.task_id(record.task_id) for record in records])
        for index, record in enumerate(records, first):
            if record.kind is ArgumentKind.SCALAR:
                self.scalars[index] = scalar_value(record)

    def geometry(self, record: JsonRecord) -> int:
        """Return the number of the record's geometry."""
        placed = record.strides
        placement = (str(record.raw_shape), str(record.offsets)) if placed is None else tuple(placed)
        key = (record.dtype, tuple(record.shape), placement, record.start_offset)
        number = self.geometries.numbers.get(key)
        return self.geometries.add(key, Geometry.from_record(record)) if number is None else number

    def kernel_set(self, record: JsonRecord) -> int:
        """Return the number of the record's set of kernels."""
        ids = (record.func_id,) if isinstance(record.func_id, int) else tuple(record.func_id)
        number = self.kernels.numbers.get(ids)
        return self.kernels.add(ids, ids) if number is None else number

    def finish(self, payload_bytes: int) -> ArgsIndex:
        """Return the columns, with the flaws that records have in a payload file of `payload_bytes`."""
        task_ids = np.frombuffer(self.task_ids, np.uint64)
        by_task = np.argsort(task_ids, kind="stable")
        marks = np.frombuffer(self.marks, np.uint8)
        payloads = Payloads(
            geometries=self.geometries.values,
            geometry_numbers=np.frombuffer(self.geometry_numbers, np.int32),
            numels=np.frombuffer(self.numels, np.int64),
            bin_offsets=np.frombuffer(self.bin_offsets, np.int64),
            bin_sizes=np.frombuffer(self.bin_sizes, np.int64),
            truncated=(marks & _TRUNCATED) != 0,
            overwritten=(marks & _OVERWRITTEN) != 0,
            scalar=(marks & _SCALAR) != 0,
        )
        return ArgsIndex(
            task_ids=task_ids,
            arg_indices=np.frombuffer(self.arg_indices, np.int32),
            roles=np.frombuffer(self.roles, np.uint8),
            stages=np.frombuffer(self.stages, np.uint8),
            flaws=find_flaws(payloads, payload_bytes),
            ambiguous=(marks & _AMBIGUOUS) != 0,
            bin_offsets=payloads.bin_offsets,
            bin_sizes=payloads.bin_sizes,
            geometry_numbers=payloads.geometry_numbers,
            kernel_numbers=np.frombuffer(self.kernel_numbers, np.int32),
            by_task=by_task,
            sorted_task_ids=task_ids[by_task],
            geometries=self.geometries.values,
            kernels=self.kernels.values,
            scalars=self.scalars,
        )


def _flag_bits(record: JsonRecord) -> int:
    """Return the record's flags, and whether it is a scalar, in one byte."""
    return (
        _TRUNCATED * record.truncated
        | _OVERWRITTEN * record.overwritten
        | _AMBIGUOUS * record.arg_index_ambiguous
        | _SCALAR * (record.kind is ArgumentKind.SCALAR)
    )


_MANIFEST = "the manifest of an argument dump"
_PAYLOADS = "the payloads of an argument dump"


@dataclass(frozen=True, kw_only=True)
class DumpHeader:
    """What the runtime says about the dump as a whole.

    Attributes:
        level: 1 dumps tagged arguments, 2 all, 3 metadata of all and payloads of tagged ones; None where unwritten.
        dropped_records: records lost for want of room. Their arguments are not listed at all.
        dropped_overwrite: payloads overwritten before they were collected.
    """

    level: int | None
    truncated: int
    dropped_records: int
    dropped_overwrite: int


@dataclass(frozen=True, kw_only=True)
class ArgsDump:
    """An indexed argument dump. Payloads stay on disk until they are looked at.

    Attributes:
        bin_file: the payload file below `folder`, of `payload_bytes`; None where the dump has none.
        inconsistencies: one sentence for each count of the header that differs from the records; empty if sound.
    """

    folder: Folder
    header: DumpHeader
    index: ArgsIndex
    bin_file: str | None
    payload_bytes: int
    inconsistencies: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> ArgsDump:
        """Index the dump in the folder `path`.

        Raises:
            BuildOutputError: the manifest is missing or malformed, or its payload file is missing or elsewhere.
        """
        folder = Folder.open(path, expected="the folder of an argument dump")
        name = manifest_name(folder)
        size = folder.size(name, expected=_MANIFEST)
        if size > MOST_BYTES:
            raise FileTooLargeError(
                path=path / name, expected=f"{_MANIFEST} of at most {MOST_BYTES} bytes", found=f"{size} bytes"
            )
        text = folder.read_part(name, start=0, size=size, expected=_MANIFEST)
        manifest = Manifest.parse(folder.root / name, text.data)
        bin_file = manifest.header.bin_file
        payload_bytes = _payload_bytes(folder, bin_file)
        index = ArgsIndex.build(manifest, payload_bytes=payload_bytes)
        if bin_file is not None and not folder.has_file(bin_file) and index.bin_sizes.any():
            raise MissingFileError(
                path=folder.root / bin_file, expected="the payloads its manifest lists", found="nothing"
            )
        return cls(
            folder=folder,
            header=_header(manifest.header),
            index=index,
            bin_file=bin_file,
            payload_bytes=payload_bytes,
            inconsistencies=tuple(_inconsistencies(manifest.header, index)),
        )

    def __len__(self) -> int:
        return len(self.index)

    def record(self, index: int) -> ArgRecord:
        """Return record `index` in manifest order."""
        return self.index.record(index)

    def find(
        self,
        *,
        task_id: int | None = None,
        arg_index: int | None = None,
        role: ArgumentRole | None = None,
        stage: DumpStage | None = None,
    ) -> list[ArgRecord]:
        """Return the records that agree with everything given, in manifest order."""
        found = self.index.find(task_id=task_id, arg_index=arg_index, role=role, stage=stage)
        return [self.record(index) for index in found]

    def task_ids(self) -> list[int]:
        """Return the ids of the dumped tasks, ascending."""
        return np.unique(self.index.task_ids).tolist()

    def tensor(self, record: ArgRecord) -> TensorView:
        """Return the payload of `record`, with its elements as they lie in memory: row-major, whatever the record's
        strides.

        Raises:
            IncompleteRecordError: the record is a scalar, has a flaw, or has elements that numpy has no type for.
                `numbers` reads the last.
            MalformedFileError: the payload file was cut short meanwhile.
        """
        raw = self._payload(record)
        if record.dtype is None:
            assert record.narrow is not None
            raise IncompleteRecordError(
                path=self.folder.root,
                expected=f"elements that a task can be given again for {record.name}",
                found=f"{record.narrow.value}, which diff-tensors alone compares",
            )
        storage = raw.view(record.dtype.storage)
        return TensorView.from_contiguous(record.name, record.dtype, record.shape, storage)

    def geometry(self, record: ArgRecord) -> TensorLayout:
        """Return type and shape of what `numbers` returns, without reading its payload."""
        shape = record.shape if record.narrow is None else record.narrow.shape(record.shape)
        return TensorLayout(
            dtype=record.dtype or DType.FLOAT32, shape=shape, strides=contiguous_strides(shape)
        )

    def numbers(self, record: ArgRecord) -> TensorView:
        """Return the numbers in the payload of `record`: as `tensor` does, but with floats of eight and four bits as
        float32.

        Raises:
            IncompleteRecordError: the record is a scalar or has a flaw.
            MalformedFileError: the payload file was cut short meanwhile.
        """
        if record.narrow is None:
            return self.tensor(record)
        values, shape = record.narrow.numbers(self._payload(record)), record.narrow.shape(record.shape)
        view = TensorView.from_contiguous(record.name, DType.FLOAT32, shape, values)
        return replace(view, converted=record.narrow.description)

    def _payload(self, record: ArgRecord) -> Storage:
        """Return the bytes of a record's payload."""
        if record.kind is ArgumentKind.SCALAR or record.flaw is not None:
            found = "a scalar" if record.flaw is None else record.flaw.value
            raise IncompleteRecordError(
                path=self.folder.root, expected=f"a whole tensor for {record.name}", found=found
            )
        # The payload is read, not mapped: a mapped file that is cut short while it is looked at kills the process.
        return (
            self.folder.read_part(
                self.bin_file, start=record.bin_offset, size=record.bin_size, expected=_PAYLOADS
            )
            if self.bin_file is not None and record.bin_size
            else np.empty(0, np.uint8)
        )


def manifest_name(folder: Folder) -> str:
    """Return the name of the one manifest in a dump's folder; `MissingFileError` if there is none."""
    dated = f"{folder.root.name}.json"
    for name in ("args_dump.json", "tensor_dump.json", dated):
        if folder.has_file(name):
            return name
    raise MissingFileError(
        path=folder.root,
        expected=f"args_dump.json, tensor_dump.json or {dated}",
        found="none of them",
        remedy="run the case with --dump-args 2 (older: --dump-tensor)",
    )


def _payload_bytes(folder: Folder, bin_file: str | None) -> int:
    """Return the size of the payload file; 0 where the dump has none."""
    if bin_file is None:
        return 0
    folder.locate(bin_file)
    return folder.size(bin_file, expected=_PAYLOADS) if folder.has_file(bin_file) else 0


def _header(header: JsonHeader) -> DumpHeader:
    return DumpHeader(
        level=header.dump_args_level,
        truncated=header.truncated_args or header.truncated_tensors or 0,
        dropped_records=header.dropped_records,
        dropped_overwrite=header.dropped_overwrite,
    )


def _inconsistencies(header: JsonHeader, index: ArgsIndex) -> list[str]:
    stages = [int((index.stages == code).sum()) for code in range(len(DumpStage))]
    roles = [int((index.roles == code).sum()) for code in range(len(ArgumentRole))]
    counted = {
        "total": (header.total_args, header.total_tensors, len(index)),
        "before_dispatch": (header.before_dispatch, None, stages[0]),
        "after_completion": (header.after_completion, None, stages[1]),
        "input": (header.input_args, header.input_tensors, roles[0]),
        "output": (header.output_args, header.output_tensors, roles[1]),
        "inout": (header.inout_args, header.inout_tensors, roles[2]),
    }
    said = {name: new if new is not None else old for name, (new, old, _) in counted.items()}
    return [
        f"the header counts {said[name]} {name} records, the file has {found}"
        for name, (_, _, found) in counted.items()
        if said[name] is not None and said[name] != found
    ]
