"""The argument dump of one run: what every task was given, and what it left.

Two spellings are read: `args_dump/{args_dump.json,args.bin}`, and the older
`tensor_dump/{tensor_dump.json,tensor_dump.bin}`, whose files at first were named after the time of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...tensor.view import DType, Storage, TensorView
from ..files.errors import FileTooLargeError, MissingFileError, RecordNotWholeError
from ..files.folder import Folder
from .index import ArgsIndex
from .manifest import MOST_BYTES, Manifest, SpelledHeader
from .records import ArgRecord, ArgumentRole, DumpStage, Kind

_WHAT = "the manifest of an argument dump"
_PAYLOADS = "the payloads of an argument dump"


@dataclass(frozen=True, kw_only=True)
class DumpHeader:
    """What the runtime says about the dump as a whole.

    Attributes:
        level: 1 tagged arguments, 2 all, 3 metadata of all and payloads of tagged; None where unwritten.
        dropped_records: records lost for want of room: arguments that ran but are not listed at all.
        dropped_overwrite: payloads overwritten before they were collected.
    """

    level: int | None
    truncated: int
    dropped_records: int
    dropped_overwrite: int


@dataclass(frozen=True, kw_only=True)
class ArgsDump:
    """An indexed argument dump; payloads stay on disk until they are looked at.

    Attributes:
        bin_file: the payload file below `folder`, of `payload_bytes`; None where the dump has none.
        inconsistencies: where the header's own counts differ from the records, in sentences; empty if sound.
    """

    folder: Folder
    header: DumpHeader
    index: ArgsIndex
    bin_file: str | None
    payload_bytes: int
    inconsistencies: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> ArgsDump:
        """Indexes the dump in the folder `path`.

        Raises:
            BuildOutputError: the manifest is missing or malformed, or its payload file missing or elsewhere.
        """
        folder = Folder.open(path, expected="the folder of an argument dump")
        name = manifest_name(folder)
        size = folder.size(name, expected=_WHAT)
        if size > MOST_BYTES:
            raise FileTooLargeError(
                path=path / name, expected=f"{_WHAT} of at most {MOST_BYTES} bytes", found=f"{size} bytes"
            )
        text = folder.read_part(name, start=0, size=size, expected=_WHAT)
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
        """Record `index` in manifest order."""
        return self.index.record(index)

    def find(
        self,
        *,
        task_id: int | None = None,
        arg_index: int | None = None,
        role: ArgumentRole | None = None,
        stage: DumpStage | None = None,
    ) -> list[ArgRecord]:
        """The records that agree with everything given, in manifest order."""
        found = self.index.find(task_id=task_id, arg_index=arg_index, role=role, stage=stage)
        return [self.record(index) for index in found]

    def task_ids(self) -> list[int]:
        """The ids of the dumped tasks, ascending."""
        return np.unique(self.index.task_ids).tolist()

    def tensor(self, record: ArgRecord) -> TensorView:
        """The payload of `record`, its elements as they lie in memory: row-major whatever the record's strides are.

        Raises:
            RecordNotWholeError: the record is a scalar, has a flaw, or elements that numpy has no type for (`numbers`).
            MalformedFileError: the payload file was cut short meanwhile.
        """
        raw = self._payload(record)
        if record.dtype is None:
            assert record.narrow is not None
            raise RecordNotWholeError(
                path=self.folder.root,
                expected=f"elements that a task can be given again for {record.name}",
                found=f"{record.narrow.value}, which diff-tensors alone compares",
            )
        storage = raw.view(record.dtype.storage)
        return TensorView.of_contiguous(record.name, record.dtype, record.shape, storage)

    def numbers(self, record: ArgRecord) -> TensorView:
        """The numbers in the payload of `record`: as `tensor`, but floats of eight and four bits are float32.

        Raises:
            RecordNotWholeError: the record is a scalar or has a flaw.
            MalformedFileError: the payload file was cut short meanwhile.
        """
        if record.narrow is None:
            return self.tensor(record)
        values, shape = record.narrow.numbers(self._payload(record)), record.narrow.shape(record.shape)
        view = TensorView.of_contiguous(record.name, DType.FLOAT32, shape, values)
        return replace(view, converted=record.narrow.described)

    def _payload(self, record: ArgRecord) -> Storage:
        """The bytes of a record's payload."""
        if record.kind is Kind.SCALAR or record.flaw is not None:
            found = "a scalar" if record.flaw is None else record.flaw.value
            raise RecordNotWholeError(
                path=self.folder.root, expected=f"a whole tensor for {record.name}", found=found
            )
        # Read, not mapped: a mapped file that is cut short while it is looked at kills the process.
        return (
            self.folder.read_part(
                self.bin_file, start=record.bin_offset, size=record.bin_size, expected=_PAYLOADS
            )
            if self.bin_file is not None and record.bin_size
            else np.empty(0, np.uint8)
        )


def manifest_name(folder: Folder) -> str:
    """Name of the one manifest in a dump's folder; `MissingFileError` if there is none."""
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
    """Size of the payload file; 0 where the dump has none."""
    if bin_file is None:
        return 0
    folder.locate(bin_file)
    return folder.size(bin_file, expected=_PAYLOADS) if folder.has_file(bin_file) else 0


def _header(header: SpelledHeader) -> DumpHeader:
    return DumpHeader(
        level=header.dump_args_level,
        truncated=header.truncated_args or header.truncated_tensors or 0,
        dropped_records=header.dropped_records,
        dropped_overwrite=header.dropped_overwrite,
    )


def _inconsistencies(header: SpelledHeader, index: ArgsIndex) -> list[str]:
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
