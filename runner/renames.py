"""Renames of arguments, functions and classes, and the files that are adapted to them (`--adapt`).

A commit's own files know its names. Files of other times do not: those that are laid over it, and those of the case's
repository where another repository made the rename. The adaptation writes such files with the names of the commit under
test.

`add_renames` adds the renames of the `--adapt` files to a stack. `RenameTracker` says which of them a revision has
made, and `adapt` respells the files of a worktree.

`proposed_renames` searches for renames in a commit's diff of Python files. A name counts as renamed where the diff puts
another one in its place, as the parser sees places. It is a keyword argument or parameter of a function, or else an
attribute, an imported name or a definition. A rename is proposed where all places agree. The old name must not be used
after the commit, except where a test expects an error, and the new name not before it. `find_explaining_renames`
searches for the rename that explains a refused argument.
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
from .settings import TomlError, parse_toml
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
from .stack import Model, Rename, Stack, first_error

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


_SUFFIXES = (".py", ".pyi")
"""Files with these suffixes are searched: Python's sources, and stubs, which repeat the names of an extension
module."""

_ARGUMENT_ROLES = (KEYWORD, PARAMETER)
_OTHER_ROLES = (ATTRIBUTE, IMPORT, DEFINITION)
_PRIVATE_PREFIXES = ("_", "test_")
"""Prefixes of names that other files do not call: private names, and tests. Their renames adapt nothing."""

_EXPECTS_ERROR = ("raises", "assertRaises", "assertRaisesRegex")
"""These functions of pytest and unittest open a block in which an error is expected.

An old name in such a block is no use of it: a test checks that it is gone."""

_NO_MATCH = 1
"""`git grep` ends with this exit code where no file has the word."""

_REFUSAL = re.compile(
    r"(?P<function>\w+(?:\.[\w<>]+)*)\(\) got an unexpected keyword argument '(?P<keyword>\w+)'"
)
_CONSTRUCTOR = "__init__"
"""Python names the constructor in its message. A rename names the class."""

_MAX_COMMITS = 40
"""This many commits are examined at most, of those that change how often the argument is used.

Each takes the parser a moment, and the rename is almost always among the nearest.
"""


@dataclass(frozen=True, kw_only=True)
class ProposedRename:
    """A rename and its evidence: the number of places in the diff, and the first of them."""

    rename: Rename
    places: int
    first: str


@dataclass(frozen=True, kw_only=True)
class DoubtfulRename:
    """A name that the diff puts in place of another one, and why the two may not mean the same."""

    told: str
    why: str


@dataclass(frozen=True)
class RefusedArgument:
    """A keyword argument that a function does not accept."""

    function: str
    keyword: str


def proposed_renames(
    repository: GitRepository, name: str, sha: str, *, about: RefusedArgument | None = None
) -> tuple[list[ProposedRename], list[DoubtfulRename]]:
    """Return what a commit renames, those with most places first, and the doubtful renames.

    `name` is the name of the repository. With `about`, only renames of that argument count, under its old name or its
    new one.
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
        # Only a file in which the number of the word's uses changes can rename it. One question to git saves reading
        # all other files.
        differ = repository.run(
            "diff", "--name-only", "-z", "-S", about.keyword, old.sha, sha, "--", *changed
        )
        changed = differ.split("\0")[:-1] if changed else []
    places = defaultdict[_Pair, _Places](_Places)
    for path in changed:
        for pair, line in _pairs(old, new, path):
            if about is None or (pair.function == about.function and about.keyword in (pair.old, pair.new)):
                places[pair].add(path, line)
    doubts = {pair: _doubt(pair, old=old, new=new) for pair in sorted(places)}
    _doubt_rivals(doubts)
    grouped = defaultdict[tuple[str, str, bool], list[_Pair]](list)
    ordered = sorted(doubts.items(), key=lambda each: -places[each[0]].count)
    for pair, doubt in ordered:
        if doubt is None:
            grouped[pair.old, pair.new, bool(pair.function)].append(pair)
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
        for pairs in grouped.values()
    ]
    doubtful = [
        DoubtfulRename(
            told=f"{pair.describe(pair.old)} to {pair.new}, {plural(places[pair].count, 'place')}", why=doubt
        )
        for pair, doubt in ordered
        if doubt is not None
    ]
    return sorted(proposed, key=lambda each: -each.places), doubtful


def refused_argument(line: str) -> RefusedArgument | None:
    """Return the argument that Python's message in a line refuses; None where the line has no such message.

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

    The argument may be the old name: then a commit that `at` builds on made the rename. Or it is the new name: then a
    commit on the way from `at` to the `later` ones makes it. `name` is the name of the repository. The ancestors of the
    `earlier` commits are examined only where nothing else is found.
    """

    def first(commits: Sequence[str], side: Literal["old", "new"]) -> Iterator[ProposedRename]:
        for sha in commits:
            for proposed in proposed_renames(repository, name, sha, about=refused)[0]:
                rename = proposed.rename
                if refused.function in rename.keyword_of and refused.keyword == getattr(rename, side):
                    yield proposed
                    return

    limit = f"--max-count={_MAX_COMMITS}"
    made = _commits_changing_uses(repository, refused.keyword, limit, at, *(f"^{sha}" for sha in earlier))
    to_come = _commits_changing_uses(repository, refused.keyword, "--reverse", *later, f"^{at}")
    found = [*first(made, "old"), *first(to_come[:_MAX_COMMITS], "new")]
    return found or [*first(_commits_changing_uses(repository, refused.keyword, limit, at), "old")]


def _commits_changing_uses(repository: GitRepository, word: str, *commits: str) -> list[str]:
    """Return the commits that change how often a word occurs in Python files."""
    return repository.run("log", "--format=%H", "-S", word, *commits, "--", "*.py", "*.pyi").split()


@dataclass(frozen=True, order=True)
class _Pair:
    """One name in place of another. `function` is empty where the names are no arguments."""

    old: str
    new: str
    function: str

    @property
    def roles(self) -> tuple[str, ...]:
        return _ARGUMENT_ROLES if self.function else _OTHER_ROLES

    def describe(self, name: str) -> str:
        return f"{name} of {self.function}" if self.function else name


@dataclass
class _Places:
    """The places of a pair in the diff."""

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

    def use(self, name: str, pair: _Pair) -> str | None:
        """Return where a name is used in the roles of a pair; None where it is not."""
        for path in self._files_with_name(name):
            used = [
                found.line
                for found in self.spellings(path)
                if found.name == name and found.role in pair.roles and found.function == pair.function
            ]
            refused = _expected_error_lines(self.source(path)) if used else frozenset[int]()
            line = next((line for line in used if line not in refused), None)
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

    def _files_with_name(self, name: str) -> list[str]:
        patterns = (f"*{suffix}" for suffix in _SUFFIXES)
        try:
            found = self.repository.run("grep", "-l", "-z", "-w", "-F", "-e", name, self.sha, "--", *patterns)
        except GitError as error:
            if error.status == _NO_MATCH:
                return []
            raise
        return [path.removeprefix(f"{self.sha}:") for path in found.split("\0") if path]


def _pairs(old: _Tree, new: _Tree, path: str) -> Iterator[tuple[_Pair, int]]:
    """Yield the pairs of names that a file's diff replaces, with the line in the new file."""
    before, after = old.source(path).splitlines(), new.source(path).splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "replace":
            continue
        was = [each for each in old.spellings(path) if start < each.line <= end]
        now = [each for each in new.spellings(path) if new_start < each.line <= new_end]
        yield from _align_names(was, now)


def _align_names(was: Sequence[Spelling], now: Sequence[Spelling]) -> Iterator[tuple[_Pair, int]]:
    """Yield the pairs of names with equal roles that replace each other.

    Such names stand between unchanged ones, in equal numbers on both sides.
    """
    keys = [[(each.role, each.function, each.name) for each in side] for side in (was, now)]
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(
        None, keys[0], keys[1], autojunk=False
    ).get_opcodes():
        if tag != "replace" or end - start != new_end - new_start:
            continue
        for one, other in zip(was[start:end], now[new_start:new_end], strict=True):
            pair = _Pair(old=one.name, new=other.name, function=one.function)
            alike = (one.role, one.function) == (other.role, other.function) and one.name != other.name
            if alike and not any(
                name.startswith(_PRIVATE_PREFIXES) for name in (pair.old, pair.new, pair.function)
            ):
                yield pair, other.line


def _doubt(pair: _Pair, *, old: _Tree, new: _Tree) -> str | None:
    """Return why two names may not mean the same; None where all places agree."""
    if (used := old.use(pair.new, pair)) is not None:
        return f"{pair.describe(pair.new)} was there before it, at {used}"
    if (used := new.use(pair.old, pair)) is not None:
        return f"{pair.describe(pair.old)} is still there after it, at {used}"
    return None


def _doubt_rivals(doubts: dict[_Pair, str | None]) -> None:
    """Doubt the pairs that share a name, because it is unclear which name replaced it."""
    left = [pair for pair, doubt in doubts.items() if doubt is None]
    for pair in left:
        for other in left:
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
