"""The renames of a commit, as its diff of Python files has them.

A name counts as renamed where the diff puts another one in its place, as the parser tells places: a keyword argument of
a function, or a parameter of it; else an attribute, an imported name or a definition. It is proposed where all agree:
the old name is used no more after the commit, but where a test expects an error, and the new one was not before.
"""

import ast
import difflib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ....store.words import plural
from ...stack.parts import Rename
from ..repository import GitError, GitRepository
from .spellings import ATTRIBUTE, DEFINITION, IMPORT, KEYWORD, PARAMETER, Spelling, spellings

_SUFFIXES = (".py", ".pyi")
_OF_FUNCTIONS = (KEYWORD, PARAMETER)
_NAMES = (ATTRIBUTE, IMPORT, DEFINITION)
_OF_NOBODY_ELSE = ("_", "test_")
"""How names begin that other files do not call: private ones, and tests."""
_EXPECTS_ERROR = ("raises", "assertRaises", "assertRaisesRegex")
"""The functions of pytest and unittest that open such a block."""
_NO_MATCH = 1


@dataclass(frozen=True, kw_only=True)
class ProposedRename:
    """A rename, and what speaks for it: in how many places of the diff, and where first."""

    rename: Rename
    places: int
    first: str


@dataclass(frozen=True)
class RefusedArgument:
    """A keyword argument that a function does not know."""

    function: str
    keyword: str


@dataclass(frozen=True, kw_only=True)
class DoubtfulRename:
    """A name that the diff puts in another one's place, and why it cannot be told that they mean the same."""

    told: str
    why: str


@dataclass(frozen=True, order=True)
class _Pair:
    """One name in place of another; `function` is empty where they are no arguments."""

    old: str
    new: str
    function: str

    @property
    def roles(self) -> tuple[str, ...]:
        return _OF_FUNCTIONS if self.function else _NAMES

    def told(self, name: str) -> str:
        return f"{name} of {self.function}" if self.function else name


@dataclass
class _Places:
    """Where the diff has a pair."""

    count: int = 0
    first: str = ""

    def add(self, path: str, line: int) -> None:
        self.count += 1
        self.first = self.first or f"{path}:{line}"


@dataclass
class _Tree:
    """The names in the files of Python of a commit."""

    repository: GitRepository
    sha: str
    _files: dict[str, list[Spelling]] = field(default_factory=dict[str, list[Spelling]])

    def use(self, name: str, pair: _Pair) -> str | None:
        """Where a name is used as those of a pair are; None where it is not."""
        for path in self._mentioning(name):
            used = [
                found.line
                for found in self.spellings(path)
                if found.name == name and found.role in pair.roles and found.function == pair.function
            ]
            refused = _expected_errors(self.source(path)) if used else frozenset[int]()
            line = next((line for line in used if line not in refused), None)
            if line is not None:
                return f"{path}:{line}"
        return None

    def spellings(self, path: str) -> list[Spelling]:
        """The names of a file; none where it is no Python."""
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

    def _mentioning(self, name: str) -> list[str]:
        patterns = (f"*{suffix}" for suffix in _SUFFIXES)
        try:
            found = self.repository.run("grep", "-l", "-z", "-w", "-F", "-e", name, self.sha, "--", *patterns)
        except GitError as error:
            if error.status == _NO_MATCH:
                return []
            raise
        return [path.removeprefix(f"{self.sha}:") for path in found.split("\0") if path]


def proposed_renames(
    repository: GitRepository, name: str, sha: str, *, about: RefusedArgument | None = None
) -> tuple[list[ProposedRename], list[DoubtfulRename]]:
    """What a commit of the repository called `name` renames, those with most places first, and what is doubtful; or of
    that what is `about` one argument, under its old name or its new one."""
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
        # As often as before, a word is no other one: one question to git spares reading all other files.
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
            told=f"{pair.told(pair.old)} to {pair.new}, {plural(places[pair].count, 'place')}", why=doubt
        )
        for pair, doubt in ordered
        if doubt is not None
    ]
    return sorted(proposed, key=lambda each: -each.places), doubtful


def _pairs(old: _Tree, new: _Tree, path: str) -> Iterator[tuple[_Pair, int]]:
    """The names that a file's diff puts in others' places, with the line of the new file."""
    before, after = old.source(path).splitlines(), new.source(path).splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "replace":
            continue
        was = [each for each in old.spellings(path) if start < each.line <= end]
        now = [each for each in new.spellings(path) if new_start < each.line <= new_end]
        yield from _aligned(was, now)


def _aligned(was: Sequence[Spelling], now: Sequence[Spelling]) -> Iterator[tuple[_Pair, int]]:
    """Names of equal roles that stand in each other's place: as many on either side, between what stayed."""
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
                name.startswith(_OF_NOBODY_ELSE) for name in (pair.old, pair.new, pair.function)
            ):
                yield pair, other.line


def _doubt(pair: _Pair, *, old: _Tree, new: _Tree) -> str | None:
    """Why two names may not mean the same; None where all agrees."""
    if (used := old.use(pair.new, pair)) is not None:
        return f"{pair.told(pair.new)} was there before it, at {used}"
    if (used := new.use(pair.old, pair)) is not None:
        return f"{pair.told(pair.old)} is still there after it, at {used}"
    return None


def _doubt_rivals(doubts: dict[_Pair, str | None]) -> None:
    """Doubt those that have a name in common: which one took its place could not be told."""
    left = [pair for pair, doubt in doubts.items() if doubt is None]
    for pair in left:
        for other in left:
            if other != pair and other.function == pair.function:
                if other.old == pair.old:
                    doubts[pair] = f"in other places {pair.told(pair.old)} became {other.new}"
                elif other.new == pair.new:
                    doubts[pair] = f"{pair.told(pair.new)} took the place of {other.old} too"


def _expected_errors(source: bytes) -> frozenset[int]:
    """The lines of the blocks in which a test expects an error."""
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
