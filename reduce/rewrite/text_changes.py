"""The places at which two versions of a source differ, and the version in which only some of them are changed."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\])*\")", re.DOTALL)

_ARGUMENTS = re.compile(
    rb"\b(\w+)\.(?:add_\w+|launch_spec|set_dependencies|dump)\b|\brt_submit_\w+\([^;]*?(\w+)\)\s*;"
)


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


def connected(changes: Sequence[TextChange]) -> tuple[tuple[TextChange, ...], ...]:
    """The changes of an orchestration in groups that are made together: lines that were moved, taken out of one place
    and put into another, and all that is said of one task's arguments.

    >>> [len(group) for group in connected(text_changes(b"a;\\nb;\\nc;\\n", b"b;\\na;\\nc;\\nd;\\n"))]
    [2, 1]
    """
    groups: list[tuple[set[bytes], set[bytes], list[TextChange]]] = []
    for change in changes:
        was, now = _moved(change.was), _moved(change.now)
        found = _ARGUMENTS.findall(b"".join((*change.was, *change.now)))
        names = {b"arguments " + (added or submitted) for added, submitted in found}
        was, now, members = was | names, now | names, [change]
        for group in [each for each in groups if each[0] & now or each[1] & was]:
            groups.remove(group)
            was, now, members = was | group[0], now | group[1], [*group[2], *members]
        groups.append((was, now, members))
    return tuple(tuple(members) for _, _, members in groups)


def _moved(lines: tuple[bytes, ...]) -> set[bytes]:
    """The statements of some lines, which may be found elsewhere again."""
    return {code for line in lines if (code := _code((line,))) not in (b"", b"{", b"}", b"};")}


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
