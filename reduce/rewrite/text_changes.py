"""The places at which two versions of a source differ, and the version in which only some of them are changed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\])*\")", re.DOTALL)

_ARGUMENTS = re.compile(
    rb"\b(\w+)\.(?:add_\w+|launch_spec|set_dependencies|dump)\b|\brt_submit_\w+\([^;]*?(\w+)\)\s*;"
)
_DECLARED = re.compile(rb"\s*(?:[\w:]+[&*]?\s+)+[&*]?(\w+)\s*=(?!=)(.*)", re.DOTALL)
"""One name and its value. Arrays are left out: a view's shape and its offsets are said together."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the failing build's source as it is made, and as that build's file has it: number, from 1, and text."""

    text: bytes
    number: int
    written: bytes


def source_lines(text: bytes) -> tuple[SourceLine, ...]:
    """The lines of a file as it stands."""
    lines = text.splitlines(keepends=True)
    return tuple(SourceLine(line, number, line) for number, line in enumerate(lines, start=1))


@dataclass(frozen=True, kw_only=True)
class TextChange:
    """Lines of a source that are others in the version of the failing build.

    `start` to `stop` are line numbers of the reference, from 0; empty where lines were only added.
    """

    start: int
    stop: int
    was: tuple[bytes, ...]
    now: tuple[SourceLine, ...]
    first_line: int
    """Of the failing build's text, from 1."""

    @property
    def made(self) -> tuple[bytes, ...]:
        """The lines that are put in place of those that were."""
        return tuple(line.text for line in self.now)

    @property
    def changes_code(self) -> bool:
        """Whether more than comments and blanks differ."""
        return _code(self.was) != _code(self.made)

    def lines(self) -> tuple[str, ...]:
        """The change as a diff tells it: lines with `-` and `+` before them."""
        return tuple(
            f"{sign} {line.decode('utf-8', 'replace').strip()}"
            for sign, lines in (("-", self.was), ("+", tuple(line.written for line in self.now)))
            for line in lines
            if line.strip()
        )


def text_changes(reference: bytes, failing: Sequence[SourceLine]) -> tuple[TextChange, ...]:
    """All changes that matter to a compiler, in their order.

    >>> [change.lines() for change in text_changes(b"a;\\nb;\\n", source_lines(b"a;\\nc;\\n"))]
    [('- b;', '+ c;')]
    >>> text_changes(b"a;  // one\\n", source_lines(b"a; // two\\n"))
    ()
    """
    old, new = reference.splitlines(keepends=True), [line.text for line in failing]
    changes = (
        TextChange(
            start=start,
            stop=stop,
            was=tuple(old[start:stop]),
            now=tuple(failing[first:last]),
            first_line=failing[first].number if first < len(failing) else len(failing) + 1,
        )
        for kind, start, stop, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if kind != "equal"
    )
    return tuple(change for change in changes if change.changes_code)


def connected(changes: Sequence[TextChange]) -> tuple[tuple[TextChange, ...], ...]:
    """The changes of an orchestration in groups that are made together: lines and values that were moved, taken out of
    one place and put into another, and all that is said of one task's arguments. Declarations of names that both have
    are changes of their own, though they stand below each other.

    >>> [len(group) for group in connected(text_changes(b"a;\\nb;\\nc;\\n", source_lines(b"b;\\na;\\nc;\\nd;\\n")))]
    [2, 1]
    >>> old, new = b"int a = 1;\\nint b = 2;\\n", source_lines(b"int a = 3;\\nint b = 4;\\n")
    >>> [len(group) for group in connected(text_changes(old, new))]
    [1, 1]
    """
    groups: list[tuple[set[bytes], set[bytes], list[TextChange]]] = []
    for change in (part for whole in changes for part in _declarations(whole)):
        was, now = _moved(change.was), _moved(change.made)
        found = _ARGUMENTS.findall(b"".join((*change.was, *change.made)))
        names = {b"arguments " + (added or submitted) for added, submitted in found}
        was, now, members = was | names, now | names, [change]
        for group in [each for each in groups if each[0] & now or each[1] & was]:
            groups.remove(group)
            was, now, members = was | group[0], now | group[1], [*group[2], *members]
        groups.append((was, now, members))
    return tuple(tuple(members) for _, _, members in groups)


def _moved(lines: tuple[bytes, ...]) -> set[bytes]:
    """The statements of some lines, and the values of names, which may be found elsewhere again."""
    statements = {code for line in lines if (code := _code((line,))) not in (b"", b"{", b"}", b"};")}
    declared = (_DECLARED.match(line) for line in lines)
    return statements | {b"value " + _code((found[2],)) for found in declared if found is not None}


def _declarations(change: TextChange) -> Iterator[TextChange]:
    """The change line by line, where each line declares the name that the line in its place declared; else as it is."""
    pairs = [
        (_DECLARED.match(was), _DECLARED.match(now))
        for was, now in zip(change.was, change.made, strict=False)
    ]
    alike = all(was is not None and now is not None and was[1] == now[1] for was, now in pairs)
    if len(change.was) != len(change.now) or not alike:
        yield change
        return
    for place, (was, now) in enumerate(zip(change.was, change.now, strict=True)):
        start = change.start + place
        part = TextChange(start=start, stop=start + 1, was=(was,), now=(now,), first_line=now.number)
        if part.changes_code:
            yield part


def with_changes(reference: bytes, chosen: Collection[TextChange]) -> bytes:
    """The reference's text with some of the changes.

    >>> changes = text_changes(b"a\\nb\\nc\\n", source_lines(b"x\\nb\\ny\\n"))
    >>> with_changes(b"a\\nb\\nc\\n", changes[1:])
    b'a\\nb\\ny\\n'
    """
    lines = reference.splitlines(keepends=True)
    for change in sorted(chosen, key=lambda change: change.start, reverse=True):
        lines[change.start : change.stop] = change.made
    return b"".join(lines)


def _code(lines: tuple[bytes, ...]) -> bytes:
    """The text without comments and blanks."""
    bare = _COMMENT.sub(lambda match: match[1] or b" ", b"".join(lines))
    return b"".join(bare.split())
