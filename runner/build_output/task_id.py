"""Task ids: the same 64-bit number is hexadecimal in a dump and decimal in a graph."""

from __future__ import annotations

import re

_SPELLING = re.compile(r"0x([0-9a-fA-F]{1,16})|([0-9]{1,20})")


def parse_task_id(spelling: str | int) -> int:
    """The id in 0 ... 2**64 - 1 spelled as a number, as decimal digits, or as `0x` and hexadecimal digits.

    >>> parse_task_id("0x0000000200000001") == parse_task_id("8589934593") == 8589934593
    True

    Raises:
        ValueError: it is none of these.
    """
    return parse_uint64(spelling)


def parse_uint64(spelling: str | int) -> int:
    """Any of the runtime's 64-bit numbers, spelled as a task id is; `ValueError` if it is none."""
    match = _SPELLING.fullmatch(str(spelling))
    number = (int(match[1], 16) if match[1] else int(match[2])) if match else -1
    if not 0 <= number < 2**64:
        raise ValueError(f"expected a number of 64 bits, found {spelling!r:.40}")
    return number


def format_task_id(task_id: int) -> str:
    """The id as dumps spell it: `0x` and sixteen hexadecimal digits."""
    return f"0x{task_id:016x}"
