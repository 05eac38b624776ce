"""What a commit changes against its first parent: a stat for each file, and a bounded number of hunks.

`read_diff` asks git for the change of one commit, and keeps the hunks that `nearest_hunks` puts first.
`commits_with_same_change` compares the changes of several commits.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import log
from typing import TYPE_CHECKING

from .stack import Model

if TYPE_CHECKING:
    from .git import GitRepository


_MAX_FILES = 100
"""A diff has the stats of at most this many files. Its totals count all files."""
_MAX_FILES_READ = 20
"""A diff has hunks of at most this many files, so that a commit that touches everything does not take longer."""
_MAX_LINES_READ = 4000
"""A diff has hunks of at most this many changed lines. Only its first file may have more."""
_LARGE_FILES = ("-c", "core.bigFileThreshold=512k")
"""With these options git treats a larger file as binary. Its single line may be the whole file."""
_MAX_HUNKS = 40
"""A diff has at most this many hunks: those that are nearest to the names of the failure."""
_MAX_LINES = 40
"""A hunk has at most this many lines, and counts the others. A hunk of a generated file may have any length."""
_MAX_LINE_LENGTH = 160
"""A line of a hunk has at most this many characters. A minified file may be a single line."""
_TAB = 8
"""A tab stop has this many columns, as in git and terminals."""
_PROSE = re.compile(
    r"\.(md|rst|adoc)$|(^|/)(README|NOTES|NEWS|CHANGES|CHANGELOG|HISTORY|TODO|AUTHORS|LICENSE|COPYING)(\.txt)?$",
    re.IGNORECASE,
)
"""The paths of documentation. Runs rarely read such files."""
_IDLE = re.compile(
    r"\s*($|//|/\*|\*|\#|\"\"\"|import\s|from\s.*\simport\s|using\s|(\w+\.)*_*(log|logger|logging)\w*(\.\w+)*\()",
    re.IGNORECASE,
)
"""Lines that rarely change a result begin so: blank lines, comments, imports and logging."""
_VALUE = re.compile(r"\b(\d[\w.]*|[A-Z][A-Z0-9_]+)\b")
"""Numbers, and constants such as modes."""

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
_MIN_LETTERS = 4
"""Shorter words are ignored: three letters occur in too many paths."""


class FileStat(Model):
    """The number of lines of a file that a commit adds and removes; None where the file is binary, or large."""

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
    """The number of lines that follow `lines` in the commit."""

    @property
    def changed_lines(self) -> int:
        """Return the number of added and removed lines among `lines`."""
        return sum(line[:1] in ("+", "-") for line in self.lines)


class CommitDiff(Model):
    """What a commit changes against `parent`, its first one. A commit without a parent adds all its files."""

    commit: str
    parent: str | None
    files: tuple[FileStat, ...]
    """The stats of the first files; `changed_files` counts all."""
    changed_files: int
    added: int
    removed: int
    hunks: tuple[Hunk, ...]
    """The hunks as `nearest_hunks` orders them."""


def read_diff(
    repository: "GitRepository", commit: str, parent: str | None, names: Sequence[str]
) -> CommitDiff:
    """Return what a commit changes, with the hunks nearest to `names`. Raises `GitError`."""
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
        files=tuple(stats[:_MAX_FILES]),
        changed_files=len(stats),
        added=sum(stat.added or 0 for stat in stats),
        removed=sum(stat.removed or 0 for stat in stats),
        hunks=nearest_hunks(hunks, names, most=_MAX_HUNKS),
    )


def nearest_hunks(hunks: Sequence[Hunk], names: Iterable[str], *, most: int) -> tuple[Hunk, ...]:
    """Return at most `most` hunks, the nearest to some names first.

    `names` are texts, such as a case or its output. The order is:

    1. Hunks of files whose base name a text contains come first.
    2. Hunks of documentation come last.
    3. Hunks that change a number or a constant come first, then others that replace or remove code, then those that
       only add code. Hunks of comments, imports and logging come last.
    4. Hunks that share more words with the names come first. A word weighs more the fewer hunks have it.
    5. Larger hunks come first.
    """
    texts = list(names)
    wanted = _words(texts)
    shared = [_words((hunk.path, *hunk.lines)) & wanted for hunk in hunks]
    frequency = Counter(word for words in shared for word in words)

    def rank(place: int) -> tuple[bool, bool, int, float, int, int]:
        hunk = hunks[place]
        weight = sum(log(len(hunks) / frequency[word]) for word in shared[place])
        named, code = _is_named(hunk.path, texts), not _is_prose(hunk.path)
        return named, code, _effect(hunk), weight, hunk.changed_lines, -place

    return tuple(hunks[place] for place in sorted(range(len(hunks)), key=rank, reverse=True)[:most])


class _Change(Model):
    """A changed file: its stat, and its paths. A renamed file has two: the old one and the new one."""

    stat: FileStat
    paths: tuple[str, ...]


def _diff(repository: "GitRepository", ends: Sequence[str], *shape: str, paths: Sequence[str] = ()) -> str:
    # This import is late because reports read the models above and need not load GitPython.
    from .git import literal_pathspec

    only = ("--", *map(literal_pathspec, paths))
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
    """Yield the files whose hunks are read: named ones first, then those that share words, then the largest."""
    wanted = _words(names)

    def lines(change: _Change) -> int:
        return (change.stat.added or 0) + (change.stat.removed or 0)

    def rank(change: _Change) -> tuple[bool, bool, int, int]:
        path = change.stat.path
        return _is_named(path, names), not _is_prose(path), len(_words([path]) & wanted), lines(change)

    left = _MAX_LINES_READ
    for change in sorted(filter(lines, changes), key=rank, reverse=True)[:_MAX_FILES_READ]:
        # The first file is read whatever its size.
        if lines(change) <= left or left == _MAX_LINES_READ:
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
        lines=tuple(map(_storable_text, lines[:_MAX_LINES])),
        left_out=max(0, len(lines) - _MAX_LINES),
    )


def _storable_text(text: str) -> str:
    """Return a bounded text without tabs, in characters that every store and JSON accept."""
    whole = (
        text.encode("utf-8", "surrogateescape")
        .decode("utf-8", "replace")
        .replace("\0", "\N{SYMBOL FOR NULL}")
    )
    return whole.expandtabs(_TAB)[:_MAX_LINE_LENGTH]


def _is_named(path: str, names: Iterable[str]) -> bool:
    """Return whether a text contains the base name of a path."""
    name = path.rpartition("/")[2]
    pattern = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    return any(pattern.search(text) for text in names)


def _is_prose(path: str) -> bool:
    return _PROSE.search(path) is not None


def _effect(hunk: Hunk) -> int:
    """Return 3 where a hunk changes a value, 2 where it replaces or removes code, 1 where it adds code, else 0."""
    lines: dict[str, set[str]] = {"+": set(), "-": set()}
    for line in hunk.lines:
        if line[:1] in lines and not _IDLE.match(line, 1):
            lines[line[0]].add(_VALUE.sub("0", line[1:]))
    if lines["+"] & lines["-"]:
        return 3
    return 2 if lines["-"] else int(bool(lines["+"]))


def _words(names: Iterable[str]) -> set[str]:
    """Return the words of some texts in lower case. Underscores, capitals and blanks separate words."""
    return {word.lower() for name in names for word in _WORD.findall(name) if len(word) >= _MIN_LETTERS}


_INDEX_LINE = re.compile(r"^index .*\n(?!Binary files )", re.MULTILINE)
"""This line of a patch contains the ids of a file before and after. It does not match for a binary file.

The patch of a binary file shows nothing else of the change."""
_HUNK_HEADER = re.compile(r"^@@ .*$", re.MULTILINE)


def commits_with_same_change(repository: "GitRepository", sha: str, others: Sequence[str]) -> tuple[str, ...]:
    """Return those of `others` whose patches equal the patch of `sha`. Line numbers do not count."""
    patches = repository.patches([sha, *others])
    change = _patch_without_positions(patches[sha])
    return tuple(other for other in others if _patch_without_positions(patches[other]) == change)


def _patch_without_positions(patch: str) -> str:
    return _HUNK_HEADER.sub("@@", _INDEX_LINE.sub("", patch))
