"""Which paths of a repository the stack file ignores, as git itself would read the patterns."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from pathspec import GitIgnoreSpec


class IgnoredPaths:
    """The paths that match a list of gitignore patterns.

    >>> ignored = IgnoredPaths(["docs", "*.[ch]", "!api.h"])
    >>> [path for path in ("docs/guide.txt", "src/a.c", "src/api.h", "src/a.py") if path in ignored]
    ['docs/guide.txt', 'src/a.c']
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compile the patterns.

        Raises:
            ValueError: one of them is no gitignore pattern, or is of a kind that is not supported.
        """
        for pattern in patterns:
            if "[:" in pattern:
                raise ValueError(f"expected a pattern without a class such as [:alpha:], found {pattern!r}")
        try:
            self._files = GitIgnoreSpec.from_lines(patterns)
            # What is known to be a folder matches with the slash at a pattern's end or without it.
            self._folders = GitIgnoreSpec.from_lines(map(_without_last_slash, patterns))
        except ValueError as error:
            raise ValueError(f"expected patterns as in .gitignore: {error}") from error
        self._is_ignored_folder = lru_cache(maxsize=None)(self._find_ignored_folder)

    def __contains__(self, path: str) -> bool:
        """Whether a path, relative to the repository's root, is ignored, or is in an ignored folder."""
        return self._is_ignored_folder(str(PurePosixPath(path).parent)) or _matches(self._files, path)

    def _find_ignored_folder(self, folder: str) -> bool:
        """A pattern with `!` brings nothing back from an ignored folder, for git does not look into it."""
        if folder == ".":
            return False
        parent = str(PurePosixPath(folder).parent)
        return self._is_ignored_folder(parent) or _matches(self._folders, folder)


def _without_last_slash(pattern: str) -> str:
    bare = pattern.rstrip(" ")
    return bare[:-1] if bare.endswith("/") and bare != "!/" else pattern


def _matches(spec: GitIgnoreSpec, path: str) -> bool:
    # A line break in a path is a character like any other to git, but not to pathspec's regular expressions.
    return spec.match_file(path.replace("\n", "\0"))
