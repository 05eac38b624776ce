"""The places at which two versions of a source differ, and the version in which only some of them are changed."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import SequenceMatcher

_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\])*\")", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class TextChange:
    """Lines of a source that are others in the version of the failing build.

    `start` to `stop` are line numbers of the reference, from 0; empty where lines were only added.
    """

    start: int
    stop: int
    was: tuple[bytes, ...]
    now: tuple[bytes, ...]
    first_line: int
    """Of the failing build's text, from 1."""

    @property
    def changes_code(self) -> bool:
        """Whether more than comments and blanks differ."""
        return _code(self.was) != _code(self.now)

    def lines(self) -> tuple[str, ...]:
        """The change as a diff tells it: lines with `-` and `+` before them."""
        return tuple(
            f"{sign} {line.decode('utf-8', 'replace').strip()}"
            for sign, lines in (("-", self.was), ("+", self.now))
            for line in lines
            if line.strip()
        )


def text_changes(reference: bytes, failing: bytes) -> tuple[TextChange, ...]:
    """All changes that matter to a compiler, in their order.

    >>> [change.lines() for change in text_changes(b"a;\\nb;\\n", b"a;\\nc;\\n")]
    [('- b;', '+ c;')]
    >>> text_changes(b"a;  // one\\n", b"a; // two\\n")
    ()
    """
    old, new = reference.splitlines(keepends=True), failing.splitlines(keepends=True)
    changes = (
        TextChange(
            start=start,
            stop=stop,
            was=tuple(old[start:stop]),
            now=tuple(new[first:last]),
            first_line=first + 1,
        )
        for kind, start, stop, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if kind != "equal"
    )
    return tuple(change for change in changes if change.changes_code)


def with_changes(reference: bytes, chosen: Collection[TextChange]) -> bytes:
    """The reference's text with some of the changes.

    >>> changes = text_changes(b"a\\nb\\nc\\n", b"x\\nb\\ny\\n")
    >>> with_changes(b"a\\nb\\nc\\n", changes[1:])
    b'a\\nb\\ny\\n'
    """
    lines = reference.splitlines(keepends=True)
    for change in sorted(chosen, key=lambda change: change.start, reverse=True):
        lines[change.start : change.stop] = change.now
    return b"".join(lines)


def _code(lines: tuple[bytes, ...]) -> bytes:
    """The text without comments and blanks."""
    bare = _COMMENT.sub(lambda match: match[1] or b" ", b"".join(lines))
    return b"".join(bare.split())
