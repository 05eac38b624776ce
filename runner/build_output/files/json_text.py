"""JSON into typed records, with one error for everything that can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

Record = TypeVar("Record")


class JsonError(ValueError):
    """The text is no JSON, or not of the wanted types; the message says where."""


def json_reader(kind: type[Record]) -> Callable[[bytes], Record]:
    """A function from JSON to `kind` that raises `JsonError`; make it once and use it often."""
    decode = msgspec.json.Decoder(kind).decode

    def read(text: bytes) -> Record:
        try:
            return decode(text)
        # msgspec lets text that is no UTF-8, and nesting without end, through as they are.
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise JsonError(str(error)) from error

    return read
