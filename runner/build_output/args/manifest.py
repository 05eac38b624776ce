"""Reads the manifest of an argument dump record by record, in memory that does not grow with the records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ..files.errors import MalformedFileError
from ..files.json_text import JsonError, json_reader
from .records import SpelledRecord

MOST_BYTES = 2 * 2**30
"""Largest manifest read: about six million records."""

_MOST_HEADER_BYTES = 2**20
_CHUNK_BYTES = 2**20

_ARRAY = re.compile(rb'"(args|tensors)"\s*:\s*\[')
_SEPARATOR = re.compile(rb"\s*+,")
_BLANK_TO_END = re.compile(rb"\s*+\Z")

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class BinFormat(msgspec.Struct, frozen=True):
    """How the manifest spells the format of the payload file."""

    type: str
    byte_order: str


class SpelledHeader(msgspec.Struct, frozen=True):
    """The fields beside the records. Counts were named after `tensors`, from June 2026 on after `args`."""

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


_read_header = json_reader(SpelledHeader)
_read_records = json_reader(list[SpelledRecord])


@dataclass(frozen=True)
class Manifest:
    """A manifest whose header is checked and whose records are yet to be read."""

    path: Path
    header: SpelledHeader
    text: memoryview
    first: int
    last: int

    @classmethod
    def parse(cls, path: Path, text: memoryview) -> Manifest:
        """Reads all of `text` but the records.

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

    def batches(self) -> Iterator[list[SpelledRecord]]:
        """The records in file order, some thousand at a time; `MalformedFileError` at the first that is none."""
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
                raise self.fault(count, f"one that does not fit: {error}") from error
            if not records:
                raise self.fault(count, "none: cut short?")
            yield records
            count += len(records)
            place += cut
            separator = _SEPARATOR.match(self.text, place, self.last)
            if separator is None:
                break
            place = separator.end()
        if not _BLANK_TO_END.match(self.text, place, self.last):
            raise self.fault(count, "other text")

    def fault(self, index: int, found: str) -> MalformedFileError:
        """The error to raise for record `index`."""
        return MalformedFileError(
            path=self.path, expected=f"an argument record at [{index}] or soon after", found=found
        )


def _end_of_records(path: Path, text: memoryview) -> int:
    """Where the bracket that closes the records stands."""
    tail_at = max(0, len(text) - _MOST_HEADER_BYTES)
    tail = bytes(text[tail_at:])
    end = tail.rfind(b"]")
    if end < 0:
        raise MalformedFileError(path=path, expected="the records' closing bracket", found="none: cut short?")
    return tail_at + end
