"""Files of a stack that are of other times than what they call, and are written with its names.

A commit's own files know its names. Of other times are files that are laid over it, and those of the case's repository
where another one renamed.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...stack.parts import Rename
from ...stack.stack import Stack
from ..overlays import covered_files, read_laid_over
from ..repository import GitError, GitRepository
from .made import is_made
from .spellings import Respelling, respell, respelled

PYTHON_FILES = "*.py"
_NO_MATCH = 1


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """What is written otherwise in the files of a repository. `is_whole`: in all of them, else in those that are laid
    over."""

    respelling: Respelling
    is_whole: bool

    @property
    def as_json(self) -> str:
        """As `spellings.py` takes it where it runs as a program."""
        parts = self.respelling
        return json.dumps([[parts.spelling, parts.instead, list(parts.keyword_of)]])


@dataclass(frozen=True, kw_only=True)
class AdaptedFile:
    """A file, and in how many places it is written otherwise."""

    repository: str
    path: str
    places: int


def is_adapted(stack: Stack, repository: str, rename: Rename) -> bool:
    """Whether a rename concerns files of a repository."""
    return _is_whole(stack, repository, rename) or bool(stack.repositories[repository].overlays)


def adaptations(stack: Stack, repository: str, revisions: Mapping[str, str]) -> Iterator[Adaptation]:
    """What is written otherwise in a repository's files, in this order: the latest rename that is not made yet is taken
    back first, and those that are made follow each other."""
    concerned = [each for each in stack.renames if is_adapted(stack, repository, each)]
    to_come = [each for each in concerned if not is_made(each, revisions)]
    for rename in (*reversed(to_come), *(each for each in concerned if is_made(each, revisions))):
        yield Adaptation(
            respelling=respelling_of(rename, made=rename not in to_come),
            is_whole=_is_whole(stack, repository, rename),
        )


def respelling_of(rename: Rename, *, made: bool) -> Respelling:
    """What a rename means for a file of another time."""
    spelling, instead = (rename.old, rename.new) if made else (rename.new, rename.old)
    return Respelling(spelling, instead, rename.keyword_of)


def adapt(worktree: GitRepository, stack: Stack, repository: str, revisions: Mapping[str, str]) -> None:
    """Write the files of a worktree, in which what is laid over it lies already, with the names of its surroundings."""
    for adaptation in adaptations(stack, repository, revisions):
        respell(worktree.path, _paths(worktree, stack, repository, adaptation), [adaptation.respelling])


def adapted_files(
    clones: Mapping[str, GitRepository], stack: Stack, rename: Rename, revisions: Mapping[str, str]
) -> Iterator[AdaptedFile]:
    """The files that a rename changes at some revisions, each taken as it was committed."""
    respelling = respelling_of(rename, made=is_made(rename, revisions))
    for name in (each for each in stack.repositories if each in revisions):
        clone, sha, overlays = clones[name], revisions[name], stack.repositories[name].overlays
        files = set(covered_files(clone, overlays))
        if _is_whole(stack, name, rename):
            files |= _mentioning(clone, sha, respelling.spelling)
        for path in sorted(files):
            if path.endswith(".py") and is_adapted(stack, name, rename):
                text = read_laid_over(clone, overlays, sha, path) or ""
                _, places = respelled(text.encode("utf-8", "surrogateescape"), respelling)
                if places:
                    yield AdaptedFile(repository=name, path=path, places=places)


def _is_whole(stack: Stack, repository: str, rename: Rename) -> bool:
    return repository == stack.case.repository != rename.repository


def _paths(worktree: GitRepository, stack: Stack, repository: str, adaptation: Adaptation) -> list[str]:
    if adaptation.is_whole:
        return worktree.run("ls-files", "-z", "--", PYTHON_FILES).split("\0")
    return [*covered_files(worktree, stack.repositories[repository].overlays)]


def _mentioning(clone: GitRepository, sha: str, word: str) -> set[str]:
    """The files of Python in which a word stands."""
    try:
        found = clone.run("grep", "-l", "-z", "-w", "-F", "-e", word, sha, "--", PYTHON_FILES)
    except GitError as error:
        if error.status == _NO_MATCH:
            return set()
        raise
    return {path.removeprefix(f"{sha}:") for path in found.split("\0") if path}
