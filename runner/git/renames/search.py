"""The commit that renamed an argument, looked for where a call with that argument was refused."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from ..repository import GitRepository
from .proposal import ProposedRename, RefusedArgument, proposed_renames

_REFUSED = re.compile(
    r"(?P<function>\w+(?:\.[\w<>]+)*)\(\) got an unexpected keyword argument '(?P<keyword>\w+)'"
)
_CONSTRUCTOR = "__init__"
_MOST_TRIED = 40
"""Commits that are looked into, of those that use the argument more or less often than their parents."""


def refused_argument(line: str) -> RefusedArgument | None:
    """The argument that Python's message in a line is about; None where the line is about something else.

    >>> refused_argument("TypeError: Config.__init__() got an unexpected keyword argument 'level'")
    RefusedArgument(function='Config', keyword='level')
    """
    found = _REFUSED.search(line)
    if found is None:
        return None
    *around, last = found["function"].split(".")
    return RefusedArgument(around[-1] if last == _CONSTRUCTOR and around else last, found["keyword"])


def renames_behind(
    repository: GitRepository,
    name: str,
    refused: RefusedArgument,
    *,
    at: str,
    earlier: Sequence[str] = (),
    later: Sequence[str],
) -> list[ProposedRename]:
    """The renames that would explain why a commit refuses an argument, the older one first: one that it has, where the
    argument is the old name, and one of commits that lead from it to the `later` ones, where it is the new name.

    `name` is what the repository is called. What `earlier` commits have is looked into where nothing else is found.
    """

    def first(commits: Sequence[str], side: Literal["old", "new"]) -> Iterator[ProposedRename]:
        for sha in commits:
            for proposed in proposed_renames(repository, name, sha, about=refused)[0]:
                rename = proposed.rename
                if refused.function in rename.keyword_of and refused.keyword == getattr(rename, side):
                    yield proposed
                    return

    limit = f"--max-count={_MOST_TRIED}"
    made = _changing(repository, refused.keyword, limit, at, *(f"^{sha}" for sha in earlier))
    to_come = _changing(repository, refused.keyword, "--reverse", *later, f"^{at}")
    found = [*first(made, "old"), *first(to_come[:_MOST_TRIED], "new")]
    return found or [*first(_changing(repository, refused.keyword, limit, at), "old")]


def _changing(repository: GitRepository, word: str, *commits: str) -> list[str]:
    """Those of some commits that change how often a word stands in files of Python."""
    return repository.run("log", "--format=%H", "-S", word, *commits, "--", "*.py", "*.pyi").split()
