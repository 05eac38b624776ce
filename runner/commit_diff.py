"""What a commit changes against its first parent: a stat for each file, and a bounded number of hunks.

`read_diff` asks git. `nearest_hunks` is pure: it returns the hunks that have most to do with some words.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import log
from typing import TYPE_CHECKING

from .stack import Model

if TYPE_CHECKING:
    from .git import GitRepository


_MOST_FILES = 100
"""The stat of at most this many files is kept. The totals count all files."""
_MOST_FILES_READ = 20
"""Hunks are read of at most this many files, so that a commit that touches everything is not slower."""
_MOST_LINES_READ = 4000
"""Hunks of at most this many changed lines are read in all. Only the first file may have more."""
_LARGE_FILES = ("-c", "core.bigFileThreshold=512k")
"""With these options git treats a larger file as binary, because a single line of it may be the whole file."""
_MOST_HUNKS = 40
"""A diff keeps this many hunks, the nearest to the names of the failure. A report shows still fewer."""
_MOST_LINES = 40
"""A hunk keeps this many lines and counts the rest. A generated file may have one hunk of any length."""
_LONGEST_LINE = 160
"""A line of a hunk keeps this many characters. A minified file may be a single line."""
_TAB = 8
"""Tabs are widened to this many columns, as git and terminals show them."""
_PROSE = (".md", ".rst")
"""Documentation has these suffixes. Runs rarely read such files."""

_OPTIONS = (
    "--root",
    "-r",
    "--find-renames",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--submodule=short",
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+[a-z]+")
_LEAST_LETTERS = 4
"""Shorter words do not tell which file is meant: three letters occur in too many paths."""


class FileStat(Model):
    """How many lines of a file a commit adds and removes; None where the file is binary, or large."""

    path: str
    added: int | None
    removed: int | None


class Hunk(Model):
    """Neighbouring changed lines of a file, as `git diff` shows them."""

    path: str
    header: str
    """The line that begins with @@ and gives the line numbers."""
    lines: tuple[str, ...]
    """The lines, each after its sign: +, - or a blank."""
    left_out: int = 0
    """How many lines follow these and are not kept."""

    @property
    def changed_lines(self) -> int:
        """Return the number of added and removed lines among those that are kept."""
        return sum(line[:1] in ("+", "-") for line in self.lines)


class CommitDiff(Model):
    """What a commit changes against `parent`, its first one. The first commit of a history changes all its
    files."""

    commit: str
    parent: str | None
    files: tuple[FileStat, ...]
    """The stats of the first files; `changed_files` counts all."""
    changed_files: int
    added: int
    removed: int
    hunks: tuple[Hunk, ...]
    """The hunks that are nearest to what was asked about."""


def read_diff(
    repository: "GitRepository", commit: str, parent: str | None, names: Sequence[str]
) -> CommitDiff:
    """Return what a commit changes, with the hunks nearest to some names. Raises `GitError`."""
    ends = (commit,) if parent is None else (parent, commit)
    changes = list(_changes(_diff(repository, ends, "--numstat", "-z")))
    hunks = [
        hunk
        for change in _files_to_read(changes, names)
        for hunk in _hunks(change.stat.path, _diff(repository, ends, "--patch", paths=change.paths))
    ]
    stats = [change.stat for change in changes]
    return CommitDiff(
        commit=commit,
        parent=parent,
        files=tuple(stats[:_MOST_FILES]),
        changed_files=len(stats),
        added=sum(stat.added or 0 for stat in stats),
        removed=sum(stat.removed or 0 for stat in stats),
        hunks=nearest_hunks(hunks, names, most=_MOST_HUNKS),
    )


def nearest_hunks(hunks: Sequence[Hunk], names: Iterable[str], *, most: int) -> tuple[Hunk, ...]:
    """Return the hunks that have most to do with some names, the nearest first, and at most `most` of them.

    Names are texts, such as a case or what it printed. The order is:

    1. Hunks of files that a name gives in full come first, and hunks of documentation come last.
    2. Of the others, hunks that share more words with the names come first. A word counts more the fewer hunks have it.
    3. Of equal hunks the largest come first.
    """
    texts = list(names)
    wanted = _words(texts)
    shared = [_words((hunk.path, *hunk.lines)) & wanted for hunk in hunks]
    having = Counter(word for words in shared for word in words)

    def rank(place: int) -> tuple[bool, bool, float, int, int]:
        hunk = hunks[place]
        likeness = sum(log(len(hunks) / having[word]) for word in shared[place])
        return _is_named(hunk.path, texts), not _is_prose(hunk.path), likeness, hunk.changed_lines, -place

    return tuple(hunks[place] for place in sorted(range(len(hunks)), key=rank, reverse=True)[:most])


class _Change(Model):
    """The stat of a file, and its paths: two where it was renamed."""

    stat: FileStat
    paths: tuple[str, ...]


def _diff(repository: "GitRepository", ends: Sequence[str], *shape: str, paths: Sequence[str] = ()) -> str:
    # The import is late because the models above are also read where git must not be loaded.
    from .git import literal

    only = ("--", *map(literal, paths))
    return repository.run(*_LARGE_FILES, "diff-tree", "--no-commit-id", *_OPTIONS, *shape, *ends, *only)


def _changes(numstat: str) -> Iterator[_Change]:
    """Parse the records of `--numstat -z`. A renamed file has an empty path, then the old and the new one."""
    fields = iter(numstat.split("\0"))
    for field in fields:
        if not field:
            continue
        added, removed, path = field.split("\t", 2)
        paths = (path,) if path else (next(fields), next(fields))
        stat = FileStat(path=_storable_text(paths[-1]), added=_count(added), removed=_count(removed))
        yield _Change(stat=stat, paths=paths)


def _count(lines: str) -> int | None:
    return None if lines == "-" else int(lines)


def _files_to_read(changes: Sequence[_Change], names: Sequence[str]) -> Iterator[_Change]:
    """Choose the files whose hunks are read: those that are named, then those that share words, then the largest."""
    wanted = _words(names)

    def lines(change: _Change) -> int:
        return (change.stat.added or 0) + (change.stat.removed or 0)

    def rank(change: _Change) -> tuple[bool, bool, int, int]:
        path = change.stat.path
        return _is_named(path, names), not _is_prose(path), len(_words([path]) & wanted), lines(change)

    left = _MOST_LINES_READ
    for change in sorted(filter(lines, changes), key=rank, reverse=True)[:_MOST_FILES_READ]:
        # The first file is read whatever its size.
        if lines(change) <= left or left == _MOST_LINES_READ:
            left -= lines(change)
            yield change


def _hunks(path: str, patch: str) -> Iterator[Hunk]:
    """Split the patch of one file into hunks."""
    header, lines = "", list[str]()
    for line in patch.split("\n"):
        if line.startswith("@@ "):
            if header:
                yield _hunk(path, header, lines)
            header, lines = line, []
        elif header:
            lines.append(line or " ")
    if header:
        yield _hunk(path, header, lines)


def _hunk(path: str, header: str, lines: Sequence[str]) -> Hunk:
    return Hunk(
        path=path,
        header=_storable_text(header),
        lines=tuple(map(_storable_text, lines[:_MOST_LINES])),
        left_out=max(0, len(lines) - _MOST_LINES),
    )


def _storable_text(text: str) -> str:
    """Return the text without tabs, cut, and in characters that every store and JSON accept."""
    whole = (
        text.encode("utf-8", "surrogateescape")
        .decode("utf-8", "replace")
        .replace("\0", "\N{SYMBOL FOR NULL}")
    )
    return whole.expandtabs(_TAB)[:_LONGEST_LINE]


def _is_named(path: str, names: Iterable[str]) -> bool:
    """Return whether a name gives a file's path, or the path's end below a folder of this machine."""
    name = path.rpartition("/")[2]
    found = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    return any(found.search(text) for text in names)


def _is_prose(path: str) -> bool:
    return path.endswith(_PROSE)


def _words(names: Iterable[str]) -> set[str]:
    """Return the words of some names, whether underscores, capitals or blanks part them."""
    return {word.lower() for name in names for word in _WORD.findall(name) if len(word) >= _LEAST_LETTERS}
