"""Renames of arguments, functions and classes, and the files that are adapted to them (`--adapt`).

A commit's own files use its names, but its overlays may not. Neither may the case's files, if another repository made
the rename. `adapt` rewrites such files of a worktree with the names of the commit under test. `add_renames` reads the
renames of a file, and `RenameTracker` finds out which of them a revision has made. `proposed_renames` finds renames in
a commit's diff, and `find_explaining_renames` those that explain a refused argument.
"""

import ast
import difflib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from ..store.durable_files import read_text_file
from ..store.vocabulary import Commit, plural
from .errors import UsageError, reason
from .git import GitError, GitRepository
from .overlays import covered_files, read_effective_text
from .settings import TomlError, first_error, parse_toml
from .spellings import (
    ATTRIBUTE,
    DEFINITION,
    IMPORT,
    KEYWORD,
    PARAMETER,
    Respelling,
    Spelling,
    respell_files,
    respell_source,
    spellings,
)
from .stack import Model, Rename, Stack

PYTHON_FILES = "*.py"
"""Files that match this pattern of git are adapted."""

_MAX_NAMED_FILES = 3
"""A notice names at most this many files, and counts the others, so that it stays one line."""


class RenameRules(Model):
    """A file of `--adapt`."""

    rename: tuple[Rename, ...] = Field(min_length=1)


def add_renames(stack: Stack, files: Iterable[Path], repositories: Mapping[str, GitRepository]) -> Stack:
    """Return the stack with the renames of `--adapt` files, in their order. Raises `UserError`."""
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

    The value is the ids of the commits that made them, separated by blanks.
    """
    return f"{repository}+renames"


def is_rename_applied(rename: Rename, revisions: Mapping[str, str]) -> bool:
    """Return whether the repository of a rename has the new name at some revisions."""
    return rename.commit in revisions.get(renames_name(rename.repository), "").split()


class RenameTracker:
    """Finds out which renames a revision, or one of its ancestors, has made."""

    def __init__(self, renames: Sequence[Rename], repositories: Mapping[str, GitRepository]) -> None:
        self._commits: dict[str, list[str]] = {}
        """The commits that make renames, by repository."""
        for rename in renames:
            commits = self._commits.setdefault(rename.repository, [])
            if rename.commit not in commits:
                commits.append(rename.commit)
        self._repositories = repositories
        self._known: dict[tuple[str, str], bool] = {}
        """Whether a commit that makes renames is an ancestor of a commit, by both ids."""

    def learn(self, repository: str, history: Sequence[Commit]) -> None:
        """Find the renames of a history, parents first, without asking git for each commit."""
        for renaming in self._commits.get(repository, ()):
            for commit in history:
                self._known[renaming, commit.sha] = renaming == commit.sha or any(
                    self._has(repository, parent, renaming) for parent in commit.parents
                )

    def revisions_with_renames(self, revisions: Mapping[str, str]) -> dict[str, str]:
        """Return the made renames of some revisions, by `renames_name`."""
        found = {
            repository: [each for each in commits if self._has(repository, revisions[repository], each)]
            for repository, commits in self._commits.items()
            if repository in revisions
        }
        return {renames_name(repository): " ".join(made) for repository, made in found.items() if made}

    def _has(self, repository: str, sha: str, renaming: str) -> bool:
        """Return whether a commit has the renames that the commit `renaming` makes."""
        if (renaming, sha) not in self._known:
            try:
                self._known[renaming, sha] = self._repositories[repository].is_ancestor(renaming, sha)
            except GitError:
                return False  # A missing commit is reported when its content is read.
        return self._known[renaming, sha]


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """A respelling in files of a repository."""

    respelling: Respelling
    is_whole: bool
    """Whether all Python files of the repository are respelled, and not only its overlays."""

    @property
    def as_json(self) -> str:
        """Return the argument of `spellings.py` where it runs as a program."""
        parts = self.respelling
        return json.dumps([[parts.old, parts.new, list(parts.keyword_of)]])


@dataclass(frozen=True, kw_only=True)
class AdaptedFile:
    """A file, and the number of places at which it is respelled."""

    repository: str
    path: str
    places: int


def adapt(worktree: GitRepository, stack: Stack, repository: str, revisions: Mapping[str, str]) -> None:
    """Respell the files of a worktree, which already has its overlays, with the names of some revisions."""
    for adaptation in adaptations(stack, repository, revisions):
        if adaptation.is_whole:
            paths = worktree.run("ls-files", "-z", "--", PYTHON_FILES).split("\0")
        else:
            paths = [*covered_files(worktree, stack.repositories[repository].overlays)]
        respell_files(worktree.path, paths, [adaptation.respelling])


def adaptations(stack: Stack, repository: str, revisions: Mapping[str, str]) -> Iterator[Adaptation]:
    """Yield the respellings of a repository's files, in the order in which they are applied.

    First the renames that the revisions have not made are undone, the latest one first. Then the made ones are applied.
    """
    relevant = [each for each in stack.renames if is_adapted(stack, repository, each)]
    made = [each for each in relevant if is_rename_applied(each, revisions)]
    for rename in (*(each for each in reversed(relevant) if each not in made), *made):
        yield Adaptation(
            respelling=make_respelling(rename, made=rename in made),
            is_whole=_is_whole(stack, repository, rename),
        )


def is_adapted(stack: Stack, repository: str, rename: Rename) -> bool:
    """Return whether files of a repository are adapted to a rename."""
    return _is_whole(stack, repository, rename) or bool(stack.repositories[repository].overlays)


def make_respelling(rename: Rename, *, made: bool) -> Respelling:
    """Return the respelling of other files for a commit that has made a rename, or has not."""
    old, new = (rename.old, rename.new) if made else (rename.new, rename.old)
    return Respelling(old, new, rename.keyword_of)


def adapted_files(
    clones: Mapping[str, GitRepository], stack: Stack, rename: Rename, revisions: Mapping[str, str]
) -> Iterator[AdaptedFile]:
    """Yield the files that are adapted to a rename at some revisions."""
    respelling = make_respelling(rename, made=is_rename_applied(rename, revisions))
    for name in (each for each in stack.repositories if each in revisions):
        clone, sha, overlays = clones[name], revisions[name], stack.repositories[name].overlays
        files = set(covered_files(clone, overlays))
        if _is_whole(stack, name, rename):
            files.update(_files_with_word(clone, sha, respelling.old, PYTHON_FILES))
        for path in sorted(files):
            if path.endswith(".py") and is_adapted(stack, name, rename):
                text = read_effective_text(clone, overlays, sha, path) or ""
                _, places = respell_source(text.encode("utf-8", "surrogateescape"), respelling)
                if places:
                    yield AdaptedFile(repository=name, path=path, places=places)


def describe_rename(
    rename: Rename, subject: str, adapted: Mapping[str, Sequence[AdaptedFile]]
) -> Iterator[str]:
    """Yield sentences that describe the effect of a rename on the runs.

    `subject` is that of its commit. `adapted` are the files that are adapted to it, by the end of the range.
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
    """Return whether all files of a repository are of other commits than the rename: they are the case's."""
    return repository == stack.case.repository != rename.repository


def _files_with_word(clone: GitRepository, sha: str, word: str, *patterns: str) -> list[str]:
    """Return the files of a commit that match a pattern and contain a word."""
    found = clone.run_or_none("grep", "-l", "-z", "-w", "-F", "-e", word, sha, "--", *patterns) or ""
    return [path.removeprefix(f"{sha}:") for path in found.split("\0") if path]


_SUFFIXES = (".py", ".pyi")
"""Files with these suffixes are searched. Stubs (`.pyi`) have the names of an extension module."""

_ARGUMENT_ROLES = (KEYWORD, PARAMETER)
_OTHER_ROLES = (ATTRIBUTE, IMPORT, DEFINITION)
_PRIVATE_PREFIXES = ("_", "test_")
"""Names with these prefixes are not used by other files, so their renames adapt nothing."""

_EXPECTS_ERROR = ("raises", "assertRaises", "assertRaisesRegex")
"""These functions of pytest and unittest begin a block in which an error is expected.

A test uses an old name in such a block to check that it is gone."""

_REFUSAL = re.compile(
    r"(?P<function>\w+(?:\.[\w<>]+)*)\(\) got an unexpected keyword argument '(?P<keyword>\w+)'"
)
_CONSTRUCTOR = "__init__"
"""Python's message names the constructor, but a rename names the class."""

_MAX_COMMITS = 40
"""At most this many commits are examined. Each takes a moment, and the rename is almost always among the nearest."""


@dataclass(frozen=True, kw_only=True)
class ProposedRename:
    """A rename, and its evidence: the number of places in the diff, and the first place."""

    rename: Rename
    places: int
    first: str


@dataclass(frozen=True, kw_only=True)
class DoubtfulRename:
    """A name that the diff puts in place of another one, but that may not mean the same."""

    description: str
    """The two names, and the number of places."""
    why: str
    """The reason for the doubt."""


@dataclass(frozen=True)
class RefusedArgument:
    """A keyword argument that a function does not accept."""

    function: str
    keyword: str


def proposed_renames(
    repository: GitRepository, name: str, sha: str, *, about: RefusedArgument | None = None
) -> tuple[list[ProposedRename], list[DoubtfulRename]]:
    """Return the renames of a commit, those with most places first, and the doubtful renames.

    A name counts as renamed where the diff of a Python file puts another one in its place, in the same role. The rename
    is doubtful if the old name is still used after the commit, or the new one was used before it. `name` is the name of
    the repository. With `about`, only renames from or to that argument count.
    """
    commit = repository.commit(sha)
    if not commit.parents:
        return [], []
    old, new = _Tree(repository, commit.parents[0]), _Tree(repository, sha)
    changed = [
        change.path
        for change in commit.changes
        if change.path.endswith(_SUFFIXES) and change.old_mode == change.new_mode
    ]
    if about is not None:
        # A file that renames the word changes the number of its uses. Git finds such files faster than reading all.
        found = repository.run("diff", "--name-only", "-z", "-S", about.keyword, old.sha, sha, "--", *changed)
        changed = found.split("\0")[:-1] if changed else []
    places = defaultdict[_Pair, _Places](_Places)
    for path in changed:
        for pair, line in _pairs(old, new, path):
            if about is None or (pair.function == about.function and about.keyword in (pair.old, pair.new)):
                places[pair].add(path, line)
    doubts = {pair: _doubt(pair, old=old, new=new) for pair in sorted(places)}
    _doubt_rivals(doubts)
    doubtful: list[DoubtfulRename] = []
    groups = defaultdict[tuple[str, str, bool], list[_Pair]](list)
    for pair, doubt in sorted(doubts.items(), key=lambda each: -places[each[0]].count):
        if doubt is None:
            groups[pair.old, pair.new, bool(pair.function)].append(pair)
        else:
            description = f"{pair.describe(pair.old)} to {pair.new}, {plural(places[pair].count, 'place')}"
            doubtful.append(DoubtfulRename(description=description, why=doubt))
    proposed = [
        ProposedRename(
            rename=Rename(
                repository=name,
                commit=sha,
                old=pairs[0].old,
                new=pairs[0].new,
                keyword_of=tuple(pair.function for pair in pairs if pair.function),
            ),
            places=sum(places[pair].count for pair in pairs),
            first=places[pairs[0]].first,
        )
        for pairs in groups.values()
    ]
    return sorted(proposed, key=lambda each: -each.places), doubtful


def refused_argument(line: str) -> RefusedArgument | None:
    """Return the argument that a message of Python's in a line refuses; None where the line has none.

    >>> refused_argument("TypeError: Config.__init__() got an unexpected keyword argument 'level'")
    RefusedArgument(function='Config', keyword='level')
    """
    found = _REFUSAL.search(line)
    if found is None:
        return None
    *around, last = found["function"].split(".")
    return RefusedArgument(around[-1] if last == _CONSTRUCTOR and around else last, found["keyword"])


def find_explaining_renames(
    repository: GitRepository,
    name: str,
    refused: RefusedArgument,
    *,
    at: str,
    earlier: Sequence[str] = (),
    later: Sequence[str],
) -> list[ProposedRename]:
    """Return the renames that would explain why the commit `at` refuses an argument, the older one first.

    If the argument is the old name, `at` or an ancestor of it made the rename. If it is the new name, a commit between
    `at` and the `later` ones made it. Ancestors of the `earlier` commits are examined only where nothing else is found.
    `name` is the name of the repository.
    """

    def find_first(commits: Sequence[str], side: Literal["old", "new"]) -> Iterator[ProposedRename]:
        for sha in commits:
            for proposed in proposed_renames(repository, name, sha, about=refused)[0]:
                rename = proposed.rename
                if refused.function in rename.keyword_of and refused.keyword == getattr(rename, side):
                    yield proposed
                    return

    limit = f"--max-count={_MAX_COMMITS}"
    before = _commits_changing_uses(repository, refused.keyword, limit, at, *(f"^{sha}" for sha in earlier))
    after = _commits_changing_uses(repository, refused.keyword, "--reverse", *later, f"^{at}")
    found = [*find_first(before, "old"), *find_first(after[:_MAX_COMMITS], "new")]
    return found or [*find_first(_commits_changing_uses(repository, refused.keyword, limit, at), "old")]


def _commits_changing_uses(repository: GitRepository, word: str, *revisions: str) -> list[str]:
    """Return the commits that change the number of uses of a word in Python files. `git log` gets `revisions`."""
    return repository.run("log", "--format=%H", "-S", word, *revisions, "--", "*.py", "*.pyi").split()


@dataclass(frozen=True, order=True)
class _Pair:
    """A name, and the name that replaces it in a diff."""

    old: str
    new: str
    function: str
    """The function whose arguments the names are; empty where they are no arguments."""

    @property
    def roles(self) -> tuple[str, ...]:
        return _ARGUMENT_ROLES if self.function else _OTHER_ROLES

    def describe(self, name: str) -> str:
        return f"{name} of {self.function}" if self.function else name


@dataclass
class _Places:
    """The number of places of a pair in the diff, and the first place."""

    count: int = 0
    first: str = ""

    def add(self, path: str, line: int) -> None:
        self.count += 1
        self.first = self.first or f"{path}:{line}"


@dataclass
class _Tree:
    """The names in the Python files of a commit."""

    repository: GitRepository
    sha: str
    _files: dict[str, list[Spelling]] = field(default_factory=dict[str, list[Spelling]])

    def find_use(self, name: str, pair: _Pair) -> str | None:
        """Return a place at which a name is used in a role of a pair; None where there is none.

        Blocks in which a test expects an error do not count.
        """
        patterns = (f"*{suffix}" for suffix in _SUFFIXES)
        for path in _files_with_word(self.repository, self.sha, name, *patterns):
            lines = [
                found.line
                for found in self.spellings(path)
                if found.name == name and found.role in pair.roles and found.function == pair.function
            ]
            ignored = _expected_error_lines(self.source(path)) if lines else frozenset[int]()
            line = next((line for line in lines if line not in ignored), None)
            if line is not None:
                return f"{path}:{line}"
        return None

    def spellings(self, path: str) -> list[Spelling]:
        """Return the names of a file; none where it is no Python."""
        if path not in self._files:
            source = self.source(path)
            try:
                self._files[path] = spellings(source)
            except (SyntaxError, ValueError, RecursionError):
                self._files[path] = []
        return self._files[path]

    def source(self, path: str) -> bytes:
        return self.repository.run("cat-file", "blob", f"{self.sha}:{path}").encode(
            "utf-8", "surrogateescape"
        )


def _pairs(old: _Tree, new: _Tree, path: str) -> Iterator[tuple[_Pair, int]]:
    """Yield the pairs of names in a file's diff, each with the line in the new file."""
    before, after = old.source(path).splitlines(), new.source(path).splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "replace":
            old_names = [each for each in old.spellings(path) if start < each.line <= end]
            new_names = [each for each in new.spellings(path) if new_start < each.line <= new_end]
            yield from _align_names(old_names, new_names)


def _align_names(old_names: Sequence[Spelling], new_names: Sequence[Spelling]) -> Iterator[tuple[_Pair, int]]:
    """Yield the pairs of names with equal roles that replace each other between unchanged names."""
    old_keys, new_keys = (
        [(each.role, each.function, each.name) for each in names] for names in (old_names, new_names)
    )
    matcher = difflib.SequenceMatcher(None, old_keys, new_keys, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "replace" or end - start != new_end - new_start:
            continue
        for old, new in zip(old_names[start:end], new_names[new_start:new_end], strict=True):
            has_same_role = (old.role, old.function) == (new.role, new.function)
            is_private = any(
                name.startswith(_PRIVATE_PREFIXES) for name in (old.name, new.name, old.function)
            )
            if has_same_role and old.name != new.name and not is_private:
                yield _Pair(old=old.name, new=new.name, function=old.function), new.line


def _doubt(pair: _Pair, *, old: _Tree, new: _Tree) -> str | None:
    """Return why the two names of a pair may not mean the same; None without a reason."""
    if (place := old.find_use(pair.new, pair)) is not None:
        return f"{pair.describe(pair.new)} was there before it, at {place}"
    if (place := new.find_use(pair.old, pair)) is not None:
        return f"{pair.describe(pair.old)} is still there after it, at {place}"
    return None


def _doubt_rivals(doubts: dict[_Pair, str | None]) -> None:
    """Doubt the pairs that share a name with another undoubted pair."""
    undoubted = [pair for pair, doubt in doubts.items() if doubt is None]
    for pair in undoubted:
        for other in undoubted:
            if other != pair and other.function == pair.function:
                if other.old == pair.old:
                    doubts[pair] = f"in other places {pair.describe(pair.old)} became {other.new}"
                elif other.new == pair.new:
                    doubts[pair] = f"{pair.describe(pair.new)} took the place of {other.old} too"


def _expected_error_lines(source: bytes) -> frozenset[int]:
    """Return the lines of the blocks in which a test expects an error."""
    return frozenset(
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.context_expr, ast.Call)
        and getattr(item.context_expr.func, "attr", getattr(item.context_expr.func, "id", ""))
        in _EXPECTS_ERROR
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    )
