"""The faults of a tile's bytes that `memory` finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .ir import DumpLine, MemorySpace


class FindingKind(Enum):
    """A fault of a tile's bytes. The value is how a message names it."""

    OVERWRITTEN = "overwritten"
    NEVER_WRITTEN = "never written"
    OVER_OPERAND = "over its operand"
    TOO_LARGE = "too large"
    IN_RESERVED = "in the bytes of a pipe"
    DISPLACED = "not where its source lies"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One tile whose bytes are not what an operation needs.

    `tile` is what is read, or the operand that is lain upon, or what is too large. `other` was written over it, at
    `written_at`. The bytes count from the beginning of the space, or of the allocation `base`.
    """

    kind: FindingKind
    function: str
    operation: str
    place: DumpLine
    tile: str
    other: str | None
    written_at: DumpLine | None
    space: MemorySpace
    base: str | None
    first_byte: int
    bytes: int
    rows: tuple[int, int] | None = None
    """The first and last row of the tile that are concerned, counted from 0."""

    def describe(self) -> str:
        """One sentence."""
        where = f"{self.space.value} bytes {self.first_byte} to {self.first_byte + self.bytes - 1}"
        if self.base is not None:
            where += f" of {self.base}"
        rows = "" if self.rows is None else f", rows {self.rows[0]} to {self.rows[1]}"
        match self.kind:
            case FindingKind.OVERWRITTEN:
                text = f"{self.operation} reads {self.tile}{rows}, overwritten by {self.other} ({self.written_at})"
            case FindingKind.NEVER_WRITTEN:
                text = f"{self.operation} reads {self.tile}{rows}, which nothing has written"
            case FindingKind.OVER_OPERAND:
                text = f"{self.operation} writes {self.other} over its operand {self.tile}{rows}, before it has read it"
            case FindingKind.TOO_LARGE:
                text = f"{self.tile} reaches past the end of its memory"
            case FindingKind.DISPLACED:
                text = f"{self.operation} names {self.tile}, a view of {self.other}, where that does not lie"
            case FindingKind.IN_RESERVED:
                text = f"{self.tile} lies in bytes that are reserved for a pipe"
        return f"{self.place}: {text} ({where})"
