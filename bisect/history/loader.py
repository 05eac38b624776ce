"""Reads ranges from git, and answers all questions of a bisection about histories.

`HistoryReader` is the entry: it answers a `HistoryQuestion` from the private clones. `load_range` reads and collapses a
range, and `record_range` keeps it in the store. `blamed_file` finds which commits contain what a compiler's error
blames. `find_check_change` exchanges the ways in which a commit and its parent measure.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from sys import intern

import numpy as np

from ...runner.case.preflight import exchange_checks
from ...runner.commit_diff import commits_with_same_change
from ...runner.errors import UserError
from ...runner.git import GitError, GitRepository, commit_index, empty_worktree, literal_pathspec
from ...runner.overlays import find_applicable_commits, list_patches
from ...runner.pins import NoPinError, Revisions
from ...runner.stack import Overlay
from ...runner.verdict.rules import CompilerError
from ...runner.workspace.content import StackContent
from ...runner.workspace.slot import MissingCommitError, Workspace
from ...store.bisections import BisectionJournal, RangeCandidate, storable_text
from ...store.vocabulary import Commit
from ..ask.question import BisectRequest, moved_pins, pin_records
from ..search.graph import CommitGraph, Mask, Window, Windows
from ..search.testability import BlamedFile
from .questions import (
    AskApplies,
    AskBlamedFile,
    AskCheckChange,
    AskFirstParents,
    AskMergeBase,
    AskMovedPins,
    AskPatches,
    AskPins,
    AskRange,
    AskSameChange,
    AskTarget,
    AskUndone,
    CheckChange,
    FirstParents,
    HistoryAnswer,
    HistoryQuestion,
    MovedPin,
    PinRecord,
)
from .range import (
    MAX_COMMITS,
    CommitRange,
    LoadedRange,
    Node,
    Outline,
    Range,
    Target,
    collapse,
    find_reverts,
    is_long,
    object_masks,
    plain_subject,
    reverted_subject,
    touches,
)


class HistoryReader:
    """Reads histories for one request."""

    def __init__(
        self,
        request: BisectRequest,
        *,
        workspace: Workspace,
        content: StackContent,
        revisions: Revisions,
        planned: LoadedRange | None = None,
    ) -> None:
        """`planned` is the range of the request, where it was loaded before."""
        self._request = request
        self._planned = planned
        self._workspace = workspace
        self._content = content
        self._revisions = revisions
        self._loaded: dict[int, LoadedRange] = {}
        """The ranges that were loaded so far, by their ordinals."""

    def answer(self, question: HistoryQuestion) -> HistoryAnswer:
        """Return the answer to any question. Raises `UserError` where the history does not hold what is needed."""
        match question:
            case AskRange():
                return self._range(question)
            case AskBlamedFile() | AskUndone():
                return self._about_commit(question)
            case AskTarget():
                return self._target(question)
            case AskFirstParents():
                return first_parents(self._clone(question.repository), question.commit)
            case AskMovedPins():
                return self._moved_pins(question)
            case AskCheckChange():
                return self._check_change(question)
            case AskMergeBase():
                return self._merge_base(question)
            case AskPatches() | AskApplies() | AskSameChange():
                return self._patches(question)
            case AskPins():
                return self._pins(question)

    def revisions_of(self, target: Target) -> dict[str, str]:
        """Return the commit of every repository for a target. Raises `NoPinError`."""
        return self._revisions.complete({**target.held, target.repository: target.commit})

    def _clone(self, repository: str) -> GitRepository:
        return self._workspace.clones[repository]

    def _range(self, question: AskRange) -> LoadedRange | None:
        search_range = question.range
        planned = None if question.reads_on else self._planned
        if planned is not None and planned.range == search_range:
            loaded = planned
            self._revisions.learn(search_range.repository, loaded.commits)
        else:
            history = self._history(question)
            loaded = load_range(
                search_range,
                history,
                content=self._content,
                revisions=self._revisions,
                opened=question.opened,
            )
        if loaded is None:
            return None
        releases = self._request.stack.repositories[search_range.repository].releases
        if releases is not None:
            loaded = replace(
                loaded, versions={commit: version for version, commit in releases.commits.items()}
            )
        self._loaded[question.ordinal] = loaded
        return loaded

    def _history(self, question: AskRange) -> "RangeHistory":
        """Return the history of a range. Its outline is read once."""
        known = self._loaded.get(question.ordinal)
        clone = self._clone(question.range.repository)
        if question.opened and known is not None and known.outline is not None:
            return RangeHistory(repository=clone, outline=known.outline)
        # A commit may bring in the change of a cherry-pick, too.
        whole = question.whole or bool(self._request.cherry_picks)
        return read_history(question.range, clone, whole=whole)

    def _about_commit(self, question: AskBlamedFile | AskUndone) -> BlamedFile | bool | None:
        loaded = self._loaded[question.ordinal]
        clone = self._clone(loaded.range.repository)
        if isinstance(question, AskUndone):
            return is_undone(loaded, clone, question.commit)
        return blamed_file(
            loaded, clone, candidates=question.candidates, commit=question.commit, error=question.error
        )

    def _target(self, question: AskTarget) -> Target | None:
        if question.repository == self._request.repository and question.commit in self._request.range.skip:
            return None
        try:
            revisions = self._revisions.complete({**question.held, question.repository: question.commit})
            content = self._content.revisions_key(revisions)
        except (NoPinError, MissingCommitError):
            return None
        return Target(
            repository=question.repository, commit=question.commit, held=question.held, content=content
        )

    def _moved_pins(self, question: AskMovedPins) -> tuple[MovedPin, ...]:
        return tuple(
            moved_pins(
                self._request.stack,
                self._revisions.pins,
                repository=question.repository,
                old=question.old,
                new=question.new,
            )
        )

    def _check_change(self, question: AskCheckChange) -> CheckChange | None:
        case, script = self._request.stack.case, self._request.script
        if script is None or any(over.covers(str(script.path)) for over in self._overlays(case.repository)):
            return None
        clone = self._clone(case.repository)
        return find_check_change(clone, script.path, case.yardstick, old=question.old, new=question.new)

    def _overlays(self, repository: str) -> tuple[Overlay, ...]:
        return self._request.stack.repositories[repository].overlays

    def _merge_base(self, question: AskMergeBase) -> str | None:
        for sha in (question.one, question.other):
            self._workspace.ensure_commit(question.repository, sha)
        return self._clone(question.repository).merge_base(question.one, question.other)

    def _patches(self, question: AskPatches | AskApplies | AskSameChange) -> tuple[str, ...] | None:
        match question:
            case AskPatches():
                revisions = self._revisions.complete({question.repository: question.commit})
                return tuple(list_patches(revisions, question.repository))
            case AskApplies():
                return find_applicable_commits(
                    self._clone(question.repository), question.change, question.commits
                )
            case AskSameChange():
                return commits_with_same_change(
                    self._clone(question.repository), question.commit, question.among
                )

    def _pins(self, question: AskPins) -> tuple[PinRecord, ...]:
        return pin_records(
            self._request.stack,
            self._revisions.pins,
            good=self.revisions_of(question.good),
            bad=self.revisions_of(question.bad),
            frozen=self._request.frozen,
        )


def first_parents(repository: GitRepository, commit: str) -> FirstParents:
    """Return a commit and its first parents in order."""
    line = repository.first_parents(commit)
    return FirstParents(commits=tuple(line), is_whole=line[-1] not in repository.shallow_commits)


@dataclass(frozen=True, kw_only=True)
class RangeHistory:
    """Holds what was read of the commits of a range. The repository has the rest.

    commits: all commits, parents before children. None where they are too many to be read at once.
    outline: all commits by id. None where all were read.
    """

    repository: GitRepository
    commits: Sequence[Commit] | None = None
    outline: Outline | None = None


def read_history(where: Range, repository: GitRepository, *, whole: bool = False) -> RangeHistory:
    """Return the commits of a range, or their outline where they are too many. With `whole`, read all of them.

    A commit may be a candidate by its files alone (`Range.paths`), or be left out (`Range.skip`). Such a range is read
    as a whole. Raises `GitError`.
    """
    lines = repository.list_commits(
        good=where.old, bad=where.new, also_good=where.also_old, first_parent=where.first_parent
    )
    if whole or not is_long(len(lines)) or where.paths or where.skip:
        shas = [line.partition(" ")[0] for line in lines]
        return RangeHistory(repository=repository, commits=repository.read_history(shas))
    return RangeHistory(repository=repository, outline=Outline(lines, first_parent=where.first_parent))


def load_range(
    where: Range,
    history: RangeHistory,
    *,
    content: StackContent,
    revisions: Revisions,
    opened: Sequence[str] = (),
) -> LoadedRange | None:
    """Collapse a range. None where none of its commits can change a result.

    opened: the stretches of a long range that are opened, as in `AskRange`.

    Raises:
        NoPinError, MissingCommitError: an end lacks a pin or a commit.
        UserError: the clone is shallow.
    """
    loading = _Loading(where, history.repository, content=content, revisions=revisions)
    if history.commits is not None:
        return loading.load_all(history.commits)
    assert history.outline is not None
    return loading.load_part(history.outline, opened)


@dataclass(frozen=True)
class _Stretch:
    """The commits that `last` builds on and none of `after` does, by their places in the outline.

    is_read: whether what they change is read.
    """

    after: tuple[int, ...]
    last: int
    is_read: bool = False


def _open_stretches(outline: Outline, opened: Sequence[str]) -> list[_Stretch]:
    """Return the stretches of a range after some of them were opened, in this order. The first one is the range."""
    end = len(outline.shas) - 1
    stretches = [_Stretch((), end)]
    for last in (end, *(outline.place(sha) for sha in opened)):
        place = next(place for place, stretch in enumerate(stretches) if stretch.last == last)
        stretch = stretches[place]
        if not is_long(outline.chains.count(stretch.after, stretch.last)):
            stretches[place] = replace(stretch, is_read=True)
            continue
        middle = outline.chains.halve(stretch.after, stretch.last)
        stretches[place : place + 1] = [
            _Stretch(stretch.after, middle),
            _Stretch((*stretch.after, middle), stretch.last),
        ]
    return stretches


class _JoinedStretches:
    """The nodes of a range that is read in part, stretch by stretch.

    The last commit of a stretch that was not read represents all of it, and builds on the stretch before. So does each
    commit that builds on a commit of that stretch.
    """

    def __init__(self, outline: Outline, where: Range) -> None:
        self._outline = outline
        self._followed_parents = where.followed_parents
        self._nodes: list[Node] = []
        self._node_parents: list[tuple[int, ...]] = []
        self._good_side: tuple[Commit, ...] = ()
        self._before = where.old
        """The last commit of the stretch before."""
        self.parents: dict[str, tuple[str, ...]] = {}
        """The parents of commits, as `LoadedRange.joined`."""

    def add_unread(self, last: Commit, size: int) -> None:
        """Add a stretch of `size` commits that was not read."""
        self.parents[last.sha] = (self._before,)
        self._node_parents.append(self._last_node())
        self._nodes.append(Node(members=(last,), unread=size - 1))
        self._before = last.sha

    def add_read(self, commits: Sequence[Commit], content: Callable[[str], str]) -> bool:
        """Add a stretch of these commits. Return whether one of them differs from what lies before the stretch."""
        own = {commit.sha for commit in commits}
        joined = {commit.sha: self._join(commit, own) for commit in commits}
        collapsed = collapse(commits, content, parents=lambda commit: joined[commit.sha])
        if collapsed is None:
            return False
        if self._nodes:
            last = self._nodes[-1]
            self._nodes[-1] = replace(last, members=(*last.members, *collapsed.good_side))
        else:
            self._good_side = collapsed.good_side
        first, last_node = len(self._nodes), self._last_node()
        self._node_parents += [
            tuple(first + parent for parent in parents) or last_node for parents in collapsed.parents
        ]
        self._nodes += collapsed.nodes
        self.parents |= {each.sha: joined[each.sha] for each in commits if joined[each.sha] != each.parents}
        self._before = commits[-1].sha
        return True

    def _join(self, commit: Commit, own: Collection[str]) -> tuple[str, ...]:
        """Return the parents of a commit. The commit before the stretch stands for those that were not read."""
        return tuple(
            dict.fromkeys(
                self._before if sha not in own and self._outline.place(sha) is not None else sha
                for sha in self._followed_parents(commit)
            )
        )

    def _last_node(self) -> tuple[int, ...]:
        return (len(self._nodes) - 1,) if self._nodes else ()

    def commit_range(self) -> CommitRange:
        """Return the range of all stretches that were added."""
        return CommitRange(
            nodes=tuple(self._nodes),
            parents=tuple(self._node_parents),
            bad=len(self._nodes) - 1,
            good_side=self._good_side,
        )


class _Loading:
    """Collapses a range, of which all commits were read, or a part."""

    def __init__(
        self, where: Range, repository: GitRepository, *, content: StackContent, revisions: Revisions
    ) -> None:
        self._where = where
        self._repository = repository
        self._content = content
        self._revisions = revisions
        self._complete = _completion(where, revisions)
        self._keys: dict[str, str] = {}
        self._untestable: set[str] = set()

    def load_all(self, commits: Sequence[Commit]) -> LoadedRange | None:
        """Return the range of these commits. None where none of them can change a result."""
        where = self._where
        if not commits:
            return None
        self._learn(commits)
        unrelated = frozenset(commit.sha for commit in commits if not touches(commit, where.paths))
        if len(unrelated) == len(commits):
            return None
        collapsed = collapse(
            commits,
            self._key,
            skip=frozenset(where.skip),
            unrelated=unrelated,
            parents=where.followed_parents,
        )
        if collapsed is None:
            return None
        merges = [commit for commit in commits if where.first_parent and len(commit.parents) > 1]
        joined = {commit.sha: tuple(where.followed_parents(commit)) for commit in merges}
        return replace(self._make(commits, collapsed, unrelated=unrelated), joined=joined)

    def load_part(self, outline: Outline, opened: Sequence[str]) -> LoadedRange | None:
        """Return the range with only those stretches read that `opened` opens.

        The whole range is read where no commit of a read stretch differs from what lies before it.
        """
        _check_whole(self._repository, outline.shas)
        stretches = _open_stretches(outline, opened)
        lasts = self._repository.read_history([outline.shas[stretch.last] for stretch in stretches])
        joined = _JoinedStretches(outline, self._where)
        for stretch, last in zip(stretches, lasts, strict=True):
            if not stretch.is_read:
                joined.add_unread(last, outline.chains.count(stretch.after, stretch.last))
                continue
            places = outline.chains.members(stretch.after, stretch.last)
            commits = self._repository.read_history([outline.shas[place] for place in places])
            self._learn(commits)
            if not joined.add_read(commits, self._key):
                return self.load_all(self._repository.read_history(outline.shas))
        collapsed = joined.commit_range()
        commits = [*collapsed.good_side, *(member for node in collapsed.nodes for member in node.members)]
        loaded = self._make(commits, collapsed, unrelated=frozenset())
        return replace(loaded, outline=outline, opened=tuple(opened), joined=joined.parents)

    def _learn(self, commits: Sequence[Commit]) -> None:
        _check_whole(self._repository, [commit.sha for commit in commits])
        self._content.learn(self._where.repository, commits)
        self._revisions.learn(self._where.repository, commits)

    def _key(self, sha: str) -> str:
        """Return the key of a commit's content. A commit that pins nothing that can be had has one of its own."""
        if sha not in self._keys:
            try:
                self._keys[sha] = self._content.revisions_key(self._complete(sha))
            except (NoPinError, MissingCommitError):
                self._untestable.add(sha)
                self._keys[sha] = f"no pin at {sha}"
        return self._keys[sha]

    def _make(
        self, commits: Sequence[Commit], collapsed: CommitRange, *, unrelated: frozenset[str]
    ) -> LoadedRange:
        where, content, complete = self._where, self._content, self._complete
        untestable = self._untestable | {
            member.sha for node in collapsed.nodes if node.commit.sha in where.skip for member in node.members
        }
        graph = CommitGraph(collapsed.parents, [node.commit.date.timestamp() for node in collapsed.nodes])
        contents: dict[str, str | None] = {commit.sha: self._key(commit.sha) for commit in commits}
        contents |= dict.fromkeys(untestable & contents.keys())
        old_content, new_content = (content.revisions_key(complete(end)) for end in (where.old, where.new))
        return LoadedRange(
            range=where,
            commits=tuple(commits),
            contents=contents,
            old_content=old_content,
            new_content=new_content,
            commit_range=collapsed,
            graph=graph,
            windows=find_windows(commits, collapsed, graph),
            builds=_build_keys(
                collapsed, contents, old_content, where.old, lambda sha: content.build_key(complete(sha))
            ),
            objects=_objects(where, commits, repository=self._repository, content=content),
            unrelated=unrelated,
        )


def _build_keys(
    collapsed: CommitRange,
    contents: Mapping[str, str | None],
    old_content: str,
    old: str,
    key: Callable[[str], str],
) -> dict[str, str]:
    """Return the key of the build of each content of the candidates and the old end. `key` gives that of a commit.

    Many contents share a build, and then one text.
    """
    built = {contents[node.commit.sha]: node.commit.sha for node in collapsed.nodes} | {old_content: old}
    return {content: intern(key(sha)) for content, sha in built.items() if content is not None}


def _completion(where: Range, revisions: Revisions) -> Callable[[str], Mapping[str, str]]:
    """Return a function from a commit of a range to the commits of all repositories. It raises `NoPinError`."""
    if revisions.depend_on(where.repository):
        return lambda sha: revisions.complete({**where.held, where.repository: sha})
    others = revisions.complete({**where.held, where.repository: where.new})
    return lambda sha: {**others, where.repository: sha}


def _check_whole(repository: GitRepository, shas: Iterable[str]) -> None:
    """Raise `UserError` where a shallow clone ends at one of some commits."""
    if cut := sorted(repository.shallow_commits.intersection(shas)):
        raise UserError(
            f"expected all commits between the ends, found a shallow clone that ends at {cut[0][:12]} among them; run "
            "in the checkout: git fetch --deepen=200, or --unshallow"
        )


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]')
"""Matches an include directive. Git reads the pattern too, as an extended regular expression."""


def _objects(
    where: Range, commits: Sequence[Commit], *, repository: GitRepository, content: StackContent
) -> dict[str, int]:
    """Return the objects that are compiled from each file of a range, as bit masks.

    The include directives are read at the new end of the range. Files on which no build depends are left out.
    """
    if not content.has_build_inputs(where.repository):
        return {}
    paths = {entry.path for entry in repository.tree(where.new)}
    paths |= {change.path for commit in commits for change in commit.changes}
    files = content.build_inputs(where.repository, sorted(paths))
    if not files:
        return {}
    lines = repository.grep_lines(where.new, _INCLUDE.pattern)
    includes = [(path, found[1]) for path, line in lines if (found := _INCLUDE.match(line))]
    objects = object_masks(files, includes)
    every = 0
    for made in objects.values():
        every |= made
    # A pin that moves may cause everything to be compiled again, so its changes are not examined.
    return objects | dict.fromkeys(content.build_pins(where.repository), every)


def find_windows(commits: Sequence[Commit], collapsed: CommitRange, graph: CommitGraph) -> Windows:
    """Return the windows between the candidates that change something and those that undo it."""
    place = {member.sha: index for index, node in enumerate(collapsed.nodes) for member in node.members}
    windows: list[Window] = []
    for pair in find_reverts(commits):
        start, end = place.get(pair.change), place.get(pair.revert)
        if start is not None and end is not None and start != end and graph.is_ancestor(start, end):
            windows.append(Window(start, end, is_declared_revert=pair.is_git_revert))
    return Windows(windows)


def record_range(
    journal: BisectionJournal, loaded: LoadedRange, ordinal: int, *, replaces: bool = False
) -> int:
    """Record a range and its candidates in the store, once. Return its id.

    With `replaces`, the candidates replace those that were recorded when less of the range was read.
    """
    unread = {node.commit.sha: node.unread for node in loaded.commit_range.nodes if node.unread}
    representatives = {
        member.sha: node.commit.sha for node in loaded.commit_range.nodes for member in node.members
    }
    return journal.stages.record(
        ordinal=ordinal,
        repository=loaded.range.repository,
        seeks=loaded.range.seeks,
        old=loaded.range.old,
        new=loaded.range.new,
        held=loaded.range.held,
        old_content=loaded.old_content,
        replaces=replaces,
        candidates=[
            RangeCandidate(
                sha=commit.sha,
                parents=loaded.joined.get(commit.sha, commit.parents),
                subject=storable_text(commit.subject),
                representative=representatives.get(commit.sha),
                content=loaded.contents[commit.sha],
                unread=unread.get(commit.sha, 0),
            )
            for commit in loaded.commits
        ],
    )


_MAX_PATHS = 500
"""At most so many files of a commit are followed. All of them may not fit in a command line."""


def is_undone(loaded: LoadedRange, repository: GitRepository, sha: str) -> bool:
    """Return whether the change of a commit was undone later in a range of which only a part was read.

    It was where a later commit gives one of its files the content back that its parent had. It was also where one of
    the next commits that were not read names it as reverted. Raises `GitError`.
    """
    outline, commit = loaded.outline, repository.commit(sha)
    place = None if outline is None else outline.place(sha)
    if outline is None or place is None:
        return False
    before = {change.path: change.old_object for change in commit.changes[:_MAX_PATHS]}
    later_changes = repository.changes(sha, loaded.range.new, paths=[*before]) if before else ()
    if any(before.get(change.path) == change.new_object for change in later_changes):
        return True
    later = outline.chains.members((place,), len(outline.shas) - 1)[:MAX_COMMITS]
    subjects = repository.subjects([outline.shas[each] for each in later])
    return any(reverted_subject(subject) == plain_subject(commit.subject) for subject in subjects)


_ABSENT = "0" * 40

_MIN_LETTERS = 4
"""A line needs this many letters and digits to distinguish versions of a file. A brace alone would not."""


def blamed_file(
    loaded: LoadedRange,
    repository: GitRepository,
    *,
    candidates: Sequence[str],
    commit: str,
    error: CompilerError,
) -> BlamedFile | None:
    """Return the file that a compiler's error names, with its versions at some candidates and the old end of the range.

    commit: the commit of the range that shows the error.

    A header may be missing at some commits and present at others. Then a version is that of the file that includes it,
    together with whether the header is there. Returns None where no commit of the range changes the file, because the
    versions then distinguish nothing.
    """
    changed = {change.path for each in loaded.commits for change in each.changes}
    shows = match_path(error.path, changed)
    missing = None if error.missing is None else match_path(error.missing, changed)
    if shows is None and missing is None:
        return None
    commits = [*candidates, loaded.range.old]
    lacks_header = np.ones(len(commits), dtype=np.bool_)
    if missing is not None:
        lacks_header = np.array([blob == _ABSENT for blob in _blobs(loaded, repository, missing, commits)])
    blobs = [_ABSENT] * len(commits)
    has_line = None if missing is None else np.ones(len(commits), dtype=np.bool_)
    if shows is not None:
        *blobs, erring = _blobs(loaded, repository, shows, [*commits, commit])
        known = _line_mask(repository, blobs, erring=erring, line=error.line)
        has_line = has_line if known is None else known
    versions = [f"{blob} {lacks}" for blob, lacks in zip(blobs, lacks_header, strict=True)]
    return BlamedFile(
        path=shows or missing or error.path,
        versions=np.unique(versions, return_inverse=True)[1],
        fails=None if has_line is None else has_line & lacks_header,
    )


def match_path(printed: str, paths: Collection[str]) -> str | None:
    """Return the path of a repository that a printed path means.

    Both paths end alike, as far as the shorter one goes. The longest such path counts. None where there is none, or
    where several are equally long.

    >>> match_path("/slots/1/pypto/src/a.cpp", ["src/a.cpp", "test/src/a.cpp", "a.cpp"])
    'src/a.cpp'
    """
    name = PurePosixPath(printed)
    parts = tuple(part for part in name.parts if part not in ("..", "/"))
    by_length: dict[int, list[str]] = {}
    for path in paths:
        own = PurePosixPath(path).parts
        shared = min(len(own), len(parts))
        if own[-shared:] == parts[-shared:]:
            by_length.setdefault(shared, []).append(path)
    longest = by_length[max(by_length)] if by_length else []
    return longest[0] if len(longest) == 1 else None


def _blobs(loaded: LoadedRange, repository: GitRepository, path: str, commits: Sequence[str]) -> list[str]:
    """Return the object id that each of some commits has at a path. The commits are of a range or before it."""
    blobs: dict[str, str] = {}

    def blob_at(commit: str) -> str:
        if commit not in blobs:
            entries = repository.tree(commit, (path,))
            blobs[commit] = next((entry.object_id for entry in entries if entry.path == path), _ABSENT)
        return blobs[commit]

    for commit in loaded.commits:
        new = next((change.new_object for change in commit.changes if change.path == path), None)
        if new is None:
            new = blob_at(commit.parents[0]) if commit.parents else _ABSENT
        blobs[commit.sha] = new
    return [blob_at(commit) for commit in commits]


def _line_mask(repository: GitRepository, blobs: Sequence[str], *, erring: str, line: int) -> Mask | None:
    """Return which of `blobs` contain a line of the blob `erring`, whatever its indentation.

    None where that line could not distinguish them.
    """
    texts = {blob: _lines(repository, blob) for blob in {*blobs, erring}}
    before = texts[erring]
    text = before[line - 1] if 1 <= line <= len(before) else ""
    if sum(map(str.isalnum, text)) < _MIN_LETTERS:
        return None
    return np.array([text in texts[blob] for blob in blobs])


def _lines(repository: GitRepository, blob: str) -> list[str]:
    if blob == _ABSENT:
        return []
    try:
        return [" ".join(line.split()) for line in repository.run("cat-file", "blob", blob).split("\n")]
    except GitError:
        return []


def find_check_change(
    clone: GitRepository, path: PurePosixPath, names: Collection[str], *, old: str, new: str
) -> CheckChange | None:
    """Return how the case at `path` measures differently at a commit and its parent, with both exchanged.

    None where both measure alike, or where the difference cannot be separated from the rest of the case.
    """
    texts = [clone.read_text(sha, str(path)) for sha in (old, new)]
    if texts[0] is None or texts[1] is None or texts[0] == texts[1]:
        return None
    exchange = exchange_checks(texts[0], texts[1], names, path)
    if exchange is None:
        return None
    return CheckChange(
        changes=exchange.changes,
        new_with_old=_commit_with_file(clone, new, path, exchange.new_with_old, of=old),
        old_with_new=_commit_with_file(clone, old, path, exchange.old_with_new, of=new),
    )


def _commit_with_file(clone: GitRepository, sha: str, path: PurePosixPath, text: str, *, of: str) -> str:
    """Make a commit in the private clone that differs from another one only in the text of one file."""
    (entry,) = clone.tree(sha, (literal_pathspec(str(path)),))
    about = f"{path.name} of {sha[:12]} that measures as at {of[:12]}"
    with empty_worktree(clone, sha) as worktree:
        file = worktree.path / "text"
        file.write_bytes(text.encode())
        blob = worktree.run("hash-object", "-w", "--no-filters", str(file))
        worktree.run("read-tree", sha)
        worktree.run("update-index", "--cacheinfo", f"{entry.mode},{blob},{path}")
        commit = commit_index(worktree, about, parents=(sha,))
    clone.run("update-ref", f"refs/yardsticks/{commit}", commit)
    return commit
