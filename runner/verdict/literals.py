"""What a line must hold for a pattern to match it: looking for a text is many times as fast as trying a pattern."""

import importlib
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from .output_lines import REPLACEMENT

# The standard library's own reader of patterns, which it compiles them with; there is no public one.
_READER: Any = importlib.import_module("re._parser")


def needed(pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Texts of which at least one stands in whatever the pattern matches; none where that cannot be told.

    >>> needed(re.compile(r"^Output '(?P<name>[^']+)' does not match"))
    ("' does not match",)
    >>> needed(re.compile(r"(?:\\bstalled|timed out) after \\d+"))
    (' after ',)
    >>> needed(re.compile(r"\\d+|never"))
    ()
    """
    # Not by the pattern itself: its hash is computed anew each time, which takes as long as a search.
    return _needed(pattern.pattern, pattern.flags)


def search(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """As `pattern.search(text)`, at less cost where it does not match."""
    texts = needed(pattern)
    if texts and not any(each in text for each in texts):
        return None
    return pattern.search(text)


def begins_of_lines_with(texts: Iterable[bytes], lines: bytes) -> list[int]:
    """Where the lines begin that hold one of the texts, in order.

    >>> begins_of_lines_with([b"x", b"y"], b"axx\\nb\\ncy\\n")
    [0, 6]
    """
    begins: set[int] = set()
    for text in texts:
        place = lines.find(text)
        while place >= 0:
            begins.add(lines.rfind(b"\n", 0, place) + 1)
            end = lines.find(b"\n", place)
            place = lines.find(text, end) if end >= 0 else -1
    return sorted(begins)


@cache
def _needed(pattern: str, flags: int) -> tuple[str, ...]:
    if flags & re.IGNORECASE:
        return ()
    return tuple(sorted(_of_sequence(_READER.parse(pattern, flags))))


def _of_sequence(items: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """The texts of the item that tells most, where each of them has to match."""
    best: frozenset[str] = frozenset()
    literal = ""
    ended: list[tuple[Any, Any]] = [*items, ("END", None)]
    for kind, argument in ended:
        if str(kind) == "LITERAL":
            literal += chr(argument)
            continue
        # A character that stands for others in a text may be another one in the line.
        alone = frozenset({literal}) if literal and REPLACEMENT not in literal else frozenset[str]()
        best = max(best, alone, _of_item(str(kind), argument), key=_told_by)
        literal = ""
    return best


def _of_item(kind: str, argument: Any) -> frozenset[str]:
    match kind:
        case "SUBPATTERN":
            _, added_flags, _, items = argument
            return frozenset() if added_flags & re.IGNORECASE else _of_sequence(items)
        case "ATOMIC_GROUP":
            return _of_sequence(argument)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, _, items = argument
            return _of_sequence(items) if least > 0 else frozenset()
        case "BRANCH":
            _, branches = argument
            each = [_of_sequence(branch) for branch in branches]
            return frozenset[str]().union(*each) if all(each) else frozenset()
        case _:
            return frozenset()


def _told_by(texts: frozenset[str]) -> tuple[int, int]:
    """How rarely one of these is met: long ones are rare, and few of them."""
    return min(map(len, texts), default=0), -len(texts)
