"""The records of an argument dump as columns, about 60 bytes a record."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ..task_id import parse_task_id
from .flaws import FLAWS, Payloads, find_flaws
from .manifest import Manifest
from .records import ArgRecord, ArgumentRole, DumpStage, Geometry, Kind, SpelledRecord, scalar_value

MOST_DISTINCT = 200_000
"""Most distinct geometries, and kernel sets, that one dump may hold."""

_ROLES = tuple(ArgumentRole)
_STAGES = tuple(DumpStage)
_ROLE_CODES = {role: code for code, role in enumerate(_ROLES)}
_STAGE_CODES = {stage: code for code, stage in enumerate(_STAGES)}
_TRUNCATED, _OVERWRITTEN, _AMBIGUOUS, _SCALAR = 1, 2, 4, 8

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _Interned(Generic[Key, Value]):
    """Values numbered in order of their first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[Key, int] = {}
        self.values: list[Value] = []

    def add(self, key: Key, value: Value) -> int:
        """Gives a new `value` the next number."""
        if len(self.values) >= MOST_DISTINCT:
            raise ValueError(f"more than {MOST_DISTINCT} distinct geometries or kernel sets")
        number = self.numbers[key] = len(self.values)
        self.values.append(value)
        return number


@dataclass(frozen=True, kw_only=True)
class ArgsIndex:
    """Columns of equal length, one entry a record in manifest order, and tables of what many records share.

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
        """Reads every record of `manifest`, whose payload file has `payload_bytes`.

        Raises:
            MalformedFileError: at the first record that is none.
        """
        builder = _Builder()
        count = 0
        for records in manifest.batches():
            try:
                builder.add(records)
            except ValueError as error:
                raise manifest.fault(count, f"one that does not fit: {error}") from error
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
        """Numbers of the records that agree with everything given, in manifest order."""
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
        """Record `index`, 0 ... len - 1."""
        geometry = self.geometries[int(self.geometry_numbers[index])]
        return ArgRecord(
            index=index,
            task_id=int(self.task_ids[index]),
            kernels=self.kernels[int(self.kernel_numbers[index])],
            arg_index=int(self.arg_indices[index]),
            role=_ROLES[int(self.roles[index])],
            stage=_STAGES[int(self.stages[index])],
            kind=Kind.SCALAR if index in self.scalars else Kind.TENSOR,
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
    """Appends records to columns."""

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
        self.geometries: _Interned[Hashable, Geometry] = _Interned()
        self.kernels: _Interned[Hashable, tuple[int, ...]] = _Interned()
        self.scalars: dict[int, int | float | bool | None] = {}
        # The records of a task stand together, so few ids are parsed more than once.
        self.task_id = lru_cache(64)(parse_task_id)

    def add(self, records: list[SpelledRecord]) -> None:
        """Appends records; `ValueError` where a field has the right JSON type but makes no sense."""
        first = len(self.task_ids)
        self.geometry_numbers.extend([self.geometry(record) for record in records])
        self.kernel_numbers.extend([self.kernel_set(record) for record in records])
        self.marks.extend([_marks(record) for record in records])
        self.arg_indices.extend([record.arg_index for record in records])
        self.roles.extend([_ROLE_CODES[record.role] for record in records])
        self.stages.extend([_STAGE_CODES[record.stage] for record in records])
        self.numels.extend([record.numel for record in records])
        self.bin_offsets.extend([record.bin_offset for record in records])
        self.bin_sizes.extend([record.bin_size for record in records])
        self.task_ids.extend([self.task_id(record.task_id) for record in records])
        for index, record in enumerate(records, first):
            if record.kind is Kind.SCALAR:
                self.scalars[index] = scalar_value(record)

    def geometry(self, record: SpelledRecord) -> int:
        """Number of the record's geometry."""
        placed = record.strides
        placement = (str(record.raw_shape), str(record.offsets)) if placed is None else tuple(placed)
        key = (record.dtype, tuple(record.shape), placement, record.start_offset)
        number = self.geometries.numbers.get(key)
        return self.geometries.add(key, Geometry.of(record)) if number is None else number

    def kernel_set(self, record: SpelledRecord) -> int:
        """Number of the record's set of kernels."""
        ids = (record.func_id,) if isinstance(record.func_id, int) else tuple(record.func_id)
        number = self.kernels.numbers.get(ids)
        return self.kernels.add(ids, ids) if number is None else number

    def finish(self, payload_bytes: int) -> ArgsIndex:
        """The columns, and the flaws that records have in a payload file of `payload_bytes`."""
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


def _marks(record: SpelledRecord) -> int:
    """The record's flags, and whether it is a scalar, in one byte."""
    return (
        _TRUNCATED * record.truncated
        | _OVERWRITTEN * record.overwritten
        | _AMBIGUOUS * record.arg_index_ambiguous
        | _SCALAR * (record.kind is Kind.SCALAR)
    )
