"""Renames of arguments, functions and classes, and the files that are adapted to them (`--adapt`).

A commit's own files know its names. Files of other times do not: those that are laid over it, and those of the case's
repository where another repository made the rename. The adaptation writes such files with the names of the commit under
test.

`add_renames` adds the renames of the `--adapt` files to a stack. `RenameTracker` says which of them a revision has
made, and `adapt` respells the files of a worktree.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from ..store.durable_files import read_text_file
from ..store.vocabulary import Commit, plural
from .errors import UsageError, reason
from .git import GitError, GitRepository
from .overlays import covered_files, read_effective_text
from .spellings import Respelling, respell_files, respell_source
from .stack import Model, Rename, Stack, first_error
from .stack_file import TomlError, parse_toml

PYTHON_FILES = "*.py"
"""Files that match this pattern of git are adapted."""

_NO_FILE_MATCH = 1
"""`git grep` ends with this exit code where no file has the word."""

_MAX_NAMED_FILES = 3
"""A notice names this many files and counts the others, so that it stays one line."""


class RenameRules(Model):
    """The tables of a file that `--adapt` names."""

    rename: tuple[Rename, ...] = Field(min_length=1)


def add_renames(stack: Stack, files: Iterable[Path], repositories: Mapping[str, GitRepository]) -> Stack:
    """Return the stack with the renames of some files, in their order. Raises `UserError`."""
    renames = [
        _resolve_rename(rename, stack, repositories, option=f"--adapt {file}")
        for file in files
        for rename in _read(file).rename
    ]
    return stack.model_copy(update={"renames": (*stack.renames, *renames)})


def format_toml(rename: Rename) -> str:
    """Return a rename as a table of a file for `--adapt`."""
    lines = ["[[rename]]"]
    texts = {"repository": rename.repository, "commit": rename.commit, "old": rename.old, "new": rename.new}
    lines += [f'{key} = "{text}"' for key, text in texts.items()]
    if rename.keyword_of:
        functions = ", ".join(f'"{function}"' for function in rename.keyword_of)
        lines.append(f"keyword_of = [{functions}]")
    return "\n".join(lines)


def renames_name(repository: str) -> str:
    """Return the key of a repository's made renames among revisions.

    Its value is the ids of the commits that made them, parted by blanks.
    """
    return f"{repository}+renames"


def is_rename_applied(rename: Rename, revisions: Mapping[str, str]) -> bool:
    """Return whether a revision has a rename's new name."""
    return rename.commit in revisions.get(renames_name(rename.repository), "").split()


class RenameTracker:
    """Finds the renames that a revision, or a commit that it builds on, has made."""

    def __init__(self, renames: Sequence[Rename], repositories: Mapping[str, GitRepository]) -> None:
        self._commits: dict[str, list[str]] = {}
        for rename in renames:
            commits = self._commits.setdefault(rename.repository, [])
            commits += [rename.commit] if rename.commit not in commits else []
        self._repositories = repositories
        self._known: dict[tuple[str, str], bool] = {}

    def learn(self, repository: str, history: Sequence[Commit]) -> None:
        """Derive the renames of a history, parents first, without asking git for each commit."""
        for made in self._commits.get(repository, ()):
            for commit in history:
                self._known[made, commit.sha] = made == commit.sha or any(
                    self._has(repository, parent, made) for parent in commit.parents
                )

    def revisions_with_renames(self, revisions: Mapping[str, str]) -> dict[str, str]:
        """Return the made renames of some revisions, by `renames_name`."""
        found = {
            repository: [made for made in commits if self._has(repository, revisions[repository], made)]
            for repository, commits in self._commits.items()
        }
        return {renames_name(repository): " ".join(made) for repository, made in found.items() if made}

    def _has(self, repository: str, sha: str, made: str) -> bool:
        if (made, sha) not in self._known:
            try:
                self._known[made, sha] = self._repositories[repository].is_ancestor(made, sha)
            except GitError:
                # A commit that cannot be had is reported when its content is read.
                return False
        return self._known[made, sha]


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """A respelling in the files of a repository: in all of them (`is_whole`), else in those that are laid over."""

    respelling: Respelling
    is_whole: bool

    @property
    def as_json(self) -> str:
        """Return the input of `spellings.py` where it runs as a program."""
        parts = self.respelling
        return json.dumps([[parts.spelling, parts.instead, list(parts.keyword_of)]])


@dataclass(frozen=True, kw_only=True)
class AdaptedFile:
    """A file, and the number of places in which it is respelled."""

    repository: str
    path: str
    places: int


def adapt(worktree: GitRepository, stack: Stack, repository: str, revisions: Mapping[str, str]) -> None:
    """Respell the files of a worktree, which already contains its overlays, to the names of its revisions."""
    for adaptation in adaptations(stack, repository, revisions):
        respell_files(worktree.path, _paths(worktree, stack, repository, adaptation), [adaptation.respelling])


def adaptations(stack: Stack, repository: str, revisions: Mapping[str, str]) -> Iterator[Adaptation]:
    """Yield the respellings of a repository's files, in the order in which they are applied.

    The renames that are not made yet are undone first, the latest one first. Then those that are made are applied, in
    their order.
    """
    concerned = [each for each in stack.renames if is_adapted(stack, repository, each)]
    to_come = [each for each in concerned if not is_rename_applied(each, revisions)]
    for rename in (*reversed(to_come), *(each for each in concerned if is_rename_applied(each, revisions))):
        yield Adaptation(
            respelling=make_respelling(rename, made=rename not in to_come),
            is_whole=_is_whole(stack, repository, rename),
        )


def is_adapted(stack: Stack, repository: str, rename: Rename) -> bool:
    """Return whether a rename concerns files of a repository."""
    return _is_whole(stack, repository, rename) or bool(stack.repositories[repository].overlays)


def make_respelling(rename: Rename, *, made: bool) -> Respelling:
    """Return the respelling that a rename means for a file of another time."""
    spelling, instead = (rename.old, rename.new) if made else (rename.new, rename.old)
    return Respelling(spelling, instead, rename.keyword_of)


def adapted_files(
    clones: Mapping[str, GitRepository], stack: Stack, rename: Rename, revisions: Mapping[str, str]
) -> Iterator[AdaptedFile]:
    """Yield the files that a rename changes at some revisions, each as it was committed."""
    respelling = make_respelling(rename, made=is_rename_applied(rename, revisions))
    for name in (each for each in stack.repositories if each in revisions):
        clone, sha, overlays = clones[name], revisions[name], stack.repositories[name].overlays
        files = set(covered_files(clone, overlays))
        if _is_whole(stack, name, rename):
            files |= _files_with_word(clone, sha, respelling.spelling)
        for path in sorted(files):
            if path.endswith(".py") and is_adapted(stack, name, rename):
                text = read_effective_text(clone, overlays, sha, path) or ""
                _, places = respell_source(text.encode("utf-8", "surrogateescape"), respelling)
                if places:
                    yield AdaptedFile(repository=name, path=path, places=places)


def describe_rename(
    rename: Rename, subject: str, adapted: Mapping[str, Sequence[AdaptedFile]]
) -> Iterator[str]:
    """Yield sentences that describe what a rename means for the runs.

    `adapted` holds the files that it changes, by the end of the range.
    """
    made_by = f"{rename.commit[:12]} of {rename.repository} ({subject})"
    if not any(adapted.values()):
        yield (
            f"--adapt: {rename.description} became {rename.new} with {made_by}, and no file that is of another time "
            "has the name that it would be written for: the rule changes nothing at the ends"
        )
        return
    yield (
        f"{rename.description} became {rename.new} with {made_by}: "
        "files of another time get the name of the commit at hand"
    )
    for end, files in adapted.items():
        if files:
            named = ", ".join(f"{file.repository}/{file.path}" for file in files[:_MAX_NAMED_FILES])
            more = f" and {len(files) - _MAX_NAMED_FILES} more" if len(files) > _MAX_NAMED_FILES else ""
            yield f"at the {end} end, {plural(sum(file.places for file in files), 'place')} of {named}{more}"


def _read(file: Path) -> RenameRules:
    try:
        return RenameRules.model_validate(parse_toml(read_text_file(file)))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--adapt {file}: expected a file to read: {reason(error)}") from error
    except TomlError as error:
        raise UsageError(f"--adapt {file}: expected TOML: {error}") from error
    except ValidationError as error:
        raise UsageError(f"--adapt {file}: {first_error(error, RenameRules)}") from error


def _resolve_rename(
    rename: Rename, stack: Stack, repositories: Mapping[str, GitRepository], *, option: str
) -> Rename:
    """Return the rename with the full id of its commit."""
    if rename.repository not in stack.repositories:
        raise UsageError(
            f"{option}: rename.repository: expected one of {', '.join(sorted(stack.repositories))}, found "
            f"{rename.repository}"
        )
    commit = repositories[rename.repository].resolve(rename.commit, option=f"{option}: rename.commit")
    return rename.model_copy(update={"commit": commit})


def _is_whole(stack: Stack, repository: str, rename: Rename) -> bool:
    return repository == stack.case.repository != rename.repository


def _paths(worktree: GitRepository, stack: Stack, repository: str, adaptation: Adaptation) -> list[str]:
    if adaptation.is_whole:
        return worktree.run("ls-files", "-z", "--", PYTHON_FILES).split("\0")
    return [*covered_files(worktree, stack.repositories[repository].overlays)]


def _files_with_word(clone: GitRepository, sha: str, word: str) -> set[str]:
    """Return the Python files that contain a word."""
    try:
        found = clone.run("grep", "-l", "-z", "-w", "-F", "-e", word, sha, "--", PYTHON_FILES)
    except GitError as error:
        if error.status == _NO_FILE_MATCH:
            return set()
        raise
    return {path.removeprefix(f"{sha}:") for path in found.split("\0") if path}
