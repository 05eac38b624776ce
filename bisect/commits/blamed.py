"""Which commits of a range hold what a compiler's error blames, as git tells it."""

from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

import numpy as np

from ...runner.git.repository import GitError, GitRepository
from ...runner.verdict.compiler_errors import CompilerError
from ..search.evidence.blamed_file import BlamedFile
from ..search.graph.graph import Mask
from .range import LoadedRange

_ABSENT = "0" * 40
_FEWEST_LETTERS = 4
"""Of a line that tells versions of a file apart: a brace would not."""


def blamed_file(
    loaded: LoadedRange,
    repository: GitRepository,
    *,
    candidates: Sequence[str],
    commit: str,
    error: CompilerError,
) -> BlamedFile | None:
    """The file that an error at a commit of a range names, over some candidates of the range and its old end; None
    where no commit of the range changes it, so that it tells nothing.

    Of a header that is missing at some commits and there at others, the file that includes it and whether it is there
    are a version together.
    """
    changed = {change.path for each in loaded.commits for change in each.changes}
    shows = path_of(error.path, changed)
    missing = None if error.missing is None else path_of(error.missing, changed)
    if shows is None and missing is None:
        return None
    commits = [*candidates, loaded.range.old]
    lacks = np.ones(len(commits), dtype=np.bool_)
    if missing is not None:
        lacks = np.array([blob == _ABSENT for blob in _blobs(loaded, repository, missing, commits)])
    blobs = [_ABSENT] * len(commits)
    has_line = None if missing is None else np.ones(len(commits), dtype=np.bool_)
    if shows is not None:
        *blobs, erring = _blobs(loaded, repository, shows, [*commits, commit])
        known = _has_line(repository, blobs, erring=erring, line=error.line)
        has_line = has_line if known is None else known
    versions = [f"{blob} {lack}" for blob, lack in zip(blobs, lacks, strict=True)]
    return BlamedFile(
        path=shows or missing or error.path,
        versions=np.unique(versions, return_inverse=True)[1],
        fails=None if has_line is None else has_line & lacks,
    )


def path_of(printed: str, paths: Collection[str]) -> str | None:
    """The path of a repository that a printed one means: the one that shares its end, wholly on either side; of several
    the longest, None where that is not one.

    >>> path_of("/slots/1/pypto/src/a.cpp", ["src/a.cpp", "test/src/a.cpp", "a.cpp"])
    'src/a.cpp'
    """
    name = PurePosixPath(printed)
    parts = tuple(part for part in name.parts if part not in ("..", "/"))
    alike: dict[int, list[str]] = {}
    for path in paths:
        own = PurePosixPath(path).parts
        shared = min(len(own), len(parts))
        if own[-shared:] == parts[-shared:]:
            alike.setdefault(shared, []).append(path)
    longest = alike[max(alike)] if alike else []
    return longest[0] if len(longest) == 1 else None


def _blobs(loaded: LoadedRange, repository: GitRepository, path: str, commits: Sequence[str]) -> list[str]:
    """The object that each of some commits, of a range or before it, has at a path."""
    blobs: dict[str, str] = {}

    def at(commit: str) -> str:
        if commit not in blobs:
            entries = repository.tree(commit, (path,))
            blobs[commit] = next((entry.object for entry in entries if entry.path == path), _ABSENT)
        return blobs[commit]

    for commit in loaded.commits:
        new = next((change.new_object for change in commit.changes if change.path == path), None)
        if new is None:
            new = at(commit.parents[0]) if commit.parents else _ABSENT
        blobs[commit.sha] = new
    return [at(commit) for commit in commits]


def _has_line(repository: GitRepository, blobs: Sequence[str], *, erring: str, line: int) -> Mask | None:
    """Which of `blobs` have the text of a line of one of them, whatever its indentation; None where that has none that
    could tell them apart."""
    texts = {blob: _lines(repository, blob) for blob in {*blobs, erring}}
    before = texts[erring]
    text = before[line - 1] if line <= len(before) else ""
    if sum(map(str.isalnum, text)) < _FEWEST_LETTERS:
        return None
    return np.array([text in texts[blob] for blob in blobs])


def _lines(repository: GitRepository, blob: str) -> list[str]:
    if blob == _ABSENT:
        return []
    try:
        return [" ".join(line.split()) for line in repository.run("cat-file", "blob", blob).split("\n")]
    except GitError:
        return []
