"""Reads the argument dump of one run: the arguments of every task, before it started and after it ended.

`ArgsDump` opens a dump, and returns its records and their tensors. Two layouts are read:
`args_dump/{args_dump.json,args.bin}` and the older `tensor_dump/{tensor_dump.json,tensor_dump.bin}`. The first runtimes
named the files of the older layout after the time of the run.

A manifest may list millions of records. So `Manifest` reads them in batches, and `ArgsIndex` stores them as columns, at
about 60 bytes a record. `find_flaws` decides for all records at once which payloads must not be compared.

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


def parse_uint64(spelling: str | int) -> int:
    """Return a number in 0 ... 2**64 - 1, such as a task id. Its spelling is an integer, decimal digits, or `0x...`.

    >>> parse_uint64("0x0000000200000001") == parse_uint64("8589934593") == 8589934593
    True

    Raises:
        ValueError: it is none of these.
    """
    match = _NUMBER.fullmatch(str(spelling))
    number = (int(match[1], 16) if match[1] else int(match[2])) if match else -1
    if not 0 <= number < 2**64:
        raise ValueError(f"expected a number of 64 bits, found {spelling!r:.40}")
    return number


def format_task_id(task_id: int) -> str:
    """Return the id as dumps spell it: `0x` and sixteen hexadecimal digits."""
    return f"0x{task_id:016x}"


class ArgumentRole(Enum):
    """What a kernel does with an argument, by its signature. How a task uses an argument is in the task graph."""

    INPUT = "input"
    OUTPUT = "output"
    INOUT = "inout"


class DumpStage(Enum):
    """The time at which a value was recorded."""

    BEFORE_DISPATCH = "before_dispatch"
    AFTER_COMPLETION = "after_completion"


class ArgumentKind(Enum):
    """Whether an argument is a tensor or a scalar."""

    TENSOR = "tensor"
    SCALAR = "scalar"


class Flaw(Enum):
    """The reason why a record's payload must not be compared."""

    TRUNCATED = "truncated: the tensor was larger than the dump's arena"
    OVERWRITTEN = "overwritten: the collector was slower than the device"
    NO_PAYLOAD = "no payload: only its metadata was dumped"
    OUTSIDE_FILE = "its payload lies outside the payload file"
    SIZE_MISMATCH = "its payload is not the size its shape and type give"
    BAD_GEOMETRY = "its shape, strides and element count are no tensor"
    UNKNOWN_DTYPE = "its element type is unknown"


@dataclass(frozen=True, kw_only=True)
class ArgRecord:
    """One dumped argument of one task.

    Attributes:
        index: its place in the manifest.
        kernels: function ids of the task's kernels; `(-1,)` if the runtime did not know them.
        shape, strides, start_offset: the tensor as the kernel saw it, in elements. The payload itself is always
            row-major.
        bin_offset, bin_size: the payload's place in the payload file, in bytes.
        value: a scalar's value. The runtime prints float32 to six digits. It prints a float of unknown type as the
            integer with the same bits.
        flaw: why the payload must not be compared, or None. A scalar has none.
        arg_index_ambiguous: whether the same scalar was passed twice, so that `arg_index` may be that of the other.
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


_MANIFEST = "the manifest of an argument dump"
_PAYLOADS = "the payloads of an argument dump"


@dataclass(frozen=True, kw_only=True)
class ArgsDump:
    """An indexed argument dump. Payloads stay on disk until they are asked for.

    Attributes:
        bin_file: the path of the payload file below `folder`; None if the dump has none.
        payload_bytes: the size of this file.
        dropped_records: the number of records that were lost for want of room. They are not listed.
        inconsistencies: one sentence for each count of the header that differs from the records.
    """

    folder: Folder
    index: ArgsIndex
    bin_file: str | None
    payload_bytes: int
    dropped_records: int
    inconsistencies: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> ArgsDump:
        """Index the dump in the folder `path`.

        Raises:
            BuildOutputError: the manifest is missing or malformed, or the payload file is missing or outside.
        """
        folder = Folder.open(path, expected="the folder of an argument dump")
        name = manifest_name(folder)
        size = folder.size(name, expected=_MANIFEST)
        if size > MAX_BYTES:
            raise FileTooLargeError(
                path=path / name, expected=f"{_MANIFEST} of at most {MAX_BYTES} bytes", found=f"{size} bytes"
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
            index=index,
            bin_file=bin_file,
            payload_bytes=payload_bytes,
            dropped_records=manifest.header.dropped_records,
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
        """Return the records that have all the given properties, in manifest order."""
        found = self.index.find(task_id=task_id, arg_index=arg_index, role=role, stage=stage)
        return [self.record(index) for index in found]

    def task_ids(self) -> list[int]:
        """Return the ids of the dumped tasks, ascending."""
        return np.unique(self.index.task_ids).tolist()

    def tensor(self, record: ArgRecord) -> TensorView:
        """Return the payload of `record` in its own type, row-major whatever the record's strides.

        Raises:
            IncompleteRecordError: the record is a scalar, has a flaw, or has floats of eight or four bits.
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

    def comparable_layout(self, record: ArgRecord) -> TensorLayout:
        """Return type and shape of `comparable_tensor`, without reading the payload."""
        shape = record.shape if record.narrow is None else record.narrow.shape(record.shape)
        return TensorLayout(
            dtype=record.dtype or DType.FLOAT32, shape=shape, strides=contiguous_strides(shape)
        )

    def comparable_tensor(self, record: ArgRecord) -> TensorView:
        """Return the payload of `record` as `tensor` does. Floats of eight and four bits become float32.

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
        if self.bin_file is None or record.bin_size == 0:
            return np.empty(0, np.uint8)
        # The payload is read, not mapped: if a mapped file is cut short, an access to it kills the process.
        return self.folder.read_part(
            self.bin_file, start=record.bin_offset, size=record.bin_size, expected=_PAYLOADS
        )


def manifest_name(folder: Folder) -> str:
    """Return the name of the manifest in a dump's folder. Raises `MissingFileError` if there is none."""
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
    """Return the size of the payload file; 0 if the dump has none."""
    if bin_file is None:
        return 0
    folder.locate(bin_file)
    return folder.size(bin_file, expected=_PAYLOADS) if folder.has_file(bin_file) else 0


def _inconsistencies(header: JsonHeader, index: ArgsIndex) -> list[str]:
    stages = np.bincount(index.stages, minlength=len(_STAGES)).tolist()
    roles = np.bincount(index.roles, minlength=len(_ROLES)).tolist()
    counts = (
        ("total", header.total_args, header.total_tensors, len(index)),
        ("before_dispatch", header.before_dispatch, None, stages[0]),
        ("after_completion", header.after_completion, None, stages[1]),
        ("input", header.input_args, header.input_tensors, roles[0]),
        ("output", header.output_args, header.output_tensors, roles[1]),
        ("inout", header.inout_args, header.inout_tensors, roles[2]),
        ("overwritten", header.dropped_overwrite, None, index.overwritten),
    )
    found: list[str] = []
    for name, new, old, counted in counts:
        stated = old if new is None else new
        if stated is not None and stated != counted:
            found.append(f"the header counts {stated} {name} records, the file has {counted}")
    return found


MAX_DISTINCT = 200_000
"""A dump has at most this many distinct geometries, and as many distinct sets of kernels. A damaged file may have any
number."""

_ROLES = tuple(ArgumentRole)
_STAGES = tuple(DumpStage)
_ROLE_CODES = {role: code for code, role in enumerate(_ROLES)}
_STAGE_CODES = {stage: code for code, stage in enumerate(_STAGES)}
_TRUNCATED, _OVERWRITTEN, _AMBIGUOUS, _SCALAR = 1, 2, 4, 8
"""The flag bits of a record."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _InternTable(Generic[Key, Value]):
    """Numbers values in the order of their first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[Key, int] = {}
        self.values: list[Value] = []

    def add(self, key: Key, value: Value) -> int:
        """Return the number of a new `value`, the next one. Raises `ValueError` if there are `MAX_DISTINCT` values."""
        if len(self.values) >= MAX_DISTINCT:
            raise ValueError(f"more than {MAX_DISTINCT} distinct geometries or kernel sets")
        number = self.numbers[key] = len(self.values)
        self.values.append(value)
        return number


@dataclass(frozen=True, kw_only=True)
class ArgsIndex:
    """The records of a dump as columns of equal length, in manifest order.

    Attributes:
        geometry_numbers, kernel_numbers: indices into the tables `geometries` and `kernels`, which records share.
        by_task: the indices of the records, by ascending task id.
        sorted_task_ids: the task ids in this order.
        scalars: the values of scalars by the indices of their records.
        overwritten: the number of records whose payload was overwritten.
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
    overwritten: int

    @classmethod
    def build(cls, manifest: Manifest, *, payload_bytes: int) -> ArgsIndex:
        """Read every record of `manifest`, whose payload file has `payload_bytes`.

        Raises:
            MalformedFileError: something among the records is no record.
        """
        builder = _IndexBuilder()
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
        """Return the indices of the records that have all the given properties, in manifest order."""
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
        """Return record `index` in manifest order."""
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


class _IndexBuilder:
    """Appends records to growing columns, and makes an `ArgsIndex` from them."""

    def __init__(self) -> None:
        self.task_ids = array("Q")
        self.arg_indices = array("i")
        self.roles = array("B")
        self.stages = array("B")
        self.flag_bits = array("B")
        self.numels = array("q")
        self.bin_offsets = array("q")
        self.bin_sizes = array("q")
        self.geometry_numbers = array("i")
        self.kernel_numbers = array("i")
        self.geometries: _InternTable[Hashable, Geometry] = _InternTable()
        self.kernels: _InternTable[Hashable, tuple[int, ...]] = _InternTable()
        self.scalars: dict[int, int | float | bool | None] = {}
        # The records of a task follow each other, so that a small cache saves most parsing.
        self.parse_task_id = lru_cache(64)(parse_uint64)

    def add(self, records: list[JsonRecord]) -> None:
        """Append records. Raises `ValueError` if a field of the right JSON type has an impossible value."""
        first = len(self.task_ids)
        self.geometry_numbers.extend([self.geometry_number(record) for record in records])
        self.kernel_numbers.extend([self.kernels_number(record) for record in records])
        self.flag_bits.extend([_flag_bits(record) for record in records])
        self.arg_indices.extend([record.arg_index for record in records])
        self.roles.extend([_ROLE_CODES[record.role] for record in records])
        self.stages.extend([_STAGE_CODES[record.stage] for record in records])
        self.numels.extend([record.numel for record in records])
        self.bin_offsets.extend([record.bin_offset for record in records])
        self.bin_sizes.extend([record.bin_size for record in records])
        self.task_ids.extend([self.parse_task_id(record.task_id) for record in records])
        for index, record in enumerate(records, first):
            if record.kind is ArgumentKind.SCALAR:
                self.scalars[index] = scalar_value(record)

    def geometry_number(self, record: JsonRecord) -> int:
        """Return the number of the record's geometry, a new one if no record had it before."""
        strides = record.strides
        placement = tuple(strides) if strides is not None else (str(record.raw_shape), str(record.offsets))
        key = (record.dtype, tuple(record.shape), placement, record.start_offset)
        number = self.geometries.numbers.get(key)
        return self.geometries.add(key, Geometry.from_record(record)) if number is None else number

    def kernels_number(self, record: JsonRecord) -> int:
        """Return the number of the record's kernels, a new one if no record had them before."""
        ids = (record.func_id,) if isinstance(record.func_id, int) else tuple(record.func_id)
        number = self.kernels.numbers.get(ids)
        return self.kernels.add(ids, ids) if number is None else number

    def finish(self, payload_bytes: int) -> ArgsIndex:
        """Return the index, with the flaws of records in a payload file of `payload_bytes`."""
        task_ids = np.frombuffer(self.task_ids, np.uint64)
        by_task = np.argsort(task_ids, kind="stable")
        flag_bits = np.frombuffer(self.flag_bits, np.uint8)
        payloads = Payloads(
            geometries=self.geometries.values,
            geometry_numbers=np.frombuffer(self.geometry_numbers, np.int32),
            numels=np.frombuffer(self.numels, np.int64),
            bin_offsets=np.frombuffer(self.bin_offsets, np.int64),
            bin_sizes=np.frombuffer(self.bin_sizes, np.int64),
            truncated=(flag_bits & _TRUNCATED) != 0,
            overwritten=(flag_bits & _OVERWRITTEN) != 0,
            scalar=(flag_bits & _SCALAR) != 0,
        )
        return ArgsIndex(
            task_ids=task_ids,
            arg_indices=np.frombuffer(self.arg_indices, np.int32),
            roles=np.frombuffer(self.roles, np.uint8),
            stages=np.frombuffer(self.stages, np.uint8),
            flaws=find_flaws(payloads, payload_bytes),
            ambiguous=(flag_bits & _AMBIGUOUS) != 0,
            overwritten=int(np.count_nonzero(payloads.overwritten)),
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
    """Return the record's flags, and whether it is a scalar, as bits of one number."""
    return (
        _TRUNCATED * record.truncated
        | _OVERWRITTEN * record.overwritten
        | _AMBIGUOUS * record.arg_index_ambiguous
        | _SCALAR * (record.kind is ArgumentKind.SCALAR)
    )


FLAWS = (None, *Flaw)
"""A column stores a flaw as its index in this tuple. 0 means that the record has no flaw."""

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Payloads:
    """The columns that decide whether payloads may be compared. `geometry_numbers` are indices into `geometries`."""

    geometries: Sequence[Geometry]
    geometry_numbers: npt.NDArray[np.int32]
    numels: npt.NDArray[np.int64]
    bin_offsets: npt.NDArray[np.int64]
    bin_sizes: npt.NDArray[np.int64]
    truncated: Booleans
    overwritten: Booleans
    scalar: Booleans


def find_flaws(payloads: Payloads, file_bytes: int) -> npt.NDArray[np.uint8]:
    """Return the index in `FLAWS` of each record's first flaw, if the payload file has `file_bytes` bytes."""
    itemsizes = _column(payloads, [one.itemsize for one in payloads.geometries])
    numels = _column(payloads, [-1 if one.numel is None else one.numel for one in payloads.geometries])
    sizes = payloads.bin_sizes
    # The difference does not overflow if the offset is in the file. Otherwise it is not needed.
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
    """Return one entry for each record, from a table with one entry for each geometry."""
    return np.array(table, np.int64)[payloads.geometry_numbers]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The type of a tensor, and its placement in its buffer. Records with equal ones share one object.

    Attributes:
        dtype, narrow: the element type. At least one is None. Both are None for an unknown type.
        strides, start_offset: in elements.
        numel: None if the extents are negative, their product reaches 2**60, or strides are missing.
    """

    dtype: DType | None
    narrow: NarrowFloat | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start_offset: int
    numel: int | None

    @classmethod
    def from_record(cls, record: JsonRecord) -> Geometry:
        """Return the record's type and placement. Older fields are converted to strides and a start."""
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
            shape=shape,
            strides=strides,
            start_offset=start_offset,
            numel=numel if sound else None,
        )

    @property
    def itemsize(self) -> int:
        """Return the number of payload bytes of one element; 0 for an unknown type."""
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


MAX_DIMENSIONS = 16
"""A tensor in a dump has at most this many dimensions. The runtime's tensors have fewer. A broken file may claim any
number."""

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Extents = Annotated[list[Int64], msgspec.Meta(max_length=MAX_DIMENSIONS)]
KernelIds = Annotated[list[Int64], msgspec.Meta(max_length=64)]


class JsonRecord(msgspec.Struct, gc=False):
    """One element of `args` (older: `tensors`), with the fields of all eras.

    Since May 2026 `strides` and `start_offset` place the tensor in its buffer. Before, `raw_shape` and `offsets` did.
    `kind` came with scalars. `func_id` was one number before it was a list.
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


def scalar_value(record: JsonRecord) -> int | float | bool | None:
    """Return the value of a scalar record; None if the manifest has none.

    Raises:
        ValueError: no known runtime writes such a value.
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


MAX_BYTES = 2 * 2**30
"""A larger manifest is not read. One of this size has about six million records."""

_MAX_HEADER_BYTES = 2**20
"""The parts of a manifest before and after its records take at most this many bytes each."""
_CHUNK_BYTES = 2**20
"""Records are decoded from this many bytes at a time, to bound the memory."""

_ARRAY = re.compile(rb'"(args|tensors)"\s*:\s*\[')
_SEPARATOR = re.compile(rb"\s*+,")
_BLANK_TO_END = re.compile(rb"\s*+\Z")

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class BinFormat(msgspec.Struct, frozen=True):
    """The format of the payload file, as the manifest gives it."""

    type: str
    byte_order: str


class JsonHeader(msgspec.Struct, frozen=True):
    """All fields of a manifest except the records. Since June 2026 counts are named after `args`, not `tensors`."""

    bin_format: BinFormat
    bin_file: str | None
    before_dispatch: Count
    after_completion: Count
    dropped_records: Count
    dropped_overwrite: Count
    total_args: Count | None = None
    input_args: Count | None = None
    output_args: Count | None = None
    inout_args: Count | None = None
    total_tensors: Count | None = None
    input_tensors: Count | None = None
    output_tensors: Count | None = None
    inout_tensors: Count | None = None


_read_header = json_reader(JsonHeader)
_read_records = json_reader(list[JsonRecord])


@dataclass(frozen=True)
class Manifest:
    """A manifest with its checked header. Its records are not yet read: they are `text[first:last]`."""

    path: Path
    header: JsonHeader
    text: memoryview
    first: int
    last: int

    @classmethod
    def parse(cls, path: Path, text: memoryview) -> Manifest:
        """Read all of `text` except the records.

        Raises:
            MalformedFileError: it is not the JSON of a dump, or the layout of the payloads is unknown.
        """
        opening = _ARRAY.search(text, 0, _MAX_HEADER_BYTES)
        if opening is None:
            raise MalformedFileError(
                path=path, expected='JSON with an array "args" or "tensors"', found="none"
            )
        last = _end_of_records(path, text)
        without_records = bytes(text[: opening.end()]) + bytes(text[last:])
        try:
            header = _read_header(without_records)
        except JsonError as error:
            raise MalformedFileError(
                path=path, expected="the JSON of a dump", found=f"one that does not fit: {error}"
            ) from error
        layout = (header.bin_format.type, header.bin_format.byte_order)
        if layout != ("logical_contiguous", "little_endian"):
            raise MalformedFileError(
                path=path, expected="logical_contiguous, little_endian payloads", found=" ".join(layout)[:80]
            )
        return cls(path, header, text, opening.end(), last)

    def batches(self) -> Iterator[list[JsonRecord]]:
        """Yield the records in file order, some thousand at a time.

        Raises:
            MalformedFileError: something among the records is no record.
        """
        if _BLANK_TO_END.match(self.text, self.first, self.last):
            return
        count = 0
        place = self.first
        while True:
            chunk = self.text[place : min(self.last, place + _CHUNK_BYTES)].tobytes()
            # A record contains no other objects, so that each closing brace ends a record.
            end = chunk.rfind(b"}") + 1
            try:
                records = _read_records(b"[" + chunk[:end] + b"]")
            except JsonError as error:
                raise self.record_error(count, f"one that does not fit: {error}") from error
            if not records:
                raise self.record_error(count, "none: cut short?")
            yield records
            count += len(records)
            place += end
            separator = _SEPARATOR.match(self.text, place, self.last)
            if separator is None:
                break
            place = separator.end()
        if not _BLANK_TO_END.match(self.text, place, self.last):
            raise self.record_error(count, "other text")

    def record_error(self, index: int, found: str) -> MalformedFileError:
        """Return the error for something else than a record at `index`."""
        return MalformedFileError(
            path=self.path, expected=f"an argument record at [{index}] or soon after", found=found
        )


def _end_of_records(path: Path, text: memoryview) -> int:
    """Return the position of the bracket that closes the records."""
    tail_start = max(0, len(text) - _MAX_HEADER_BYTES)
    end = bytes(text[tail_start:]).rfind(b"]")
    if end < 0:
        raise MalformedFileError(path=path, expected="the records' closing bracket", found="none: cut short?")
    return tail_start + end
