"""Reads a range from git, collapses it, and records it in the store; answers all questions about histories.

Two further functions ask git about single commits. `blamed_file` finds which commits of a range hold what a compiler's
error blames. `find_check_change` handles a commit that changes how its case measures: it makes the same commit with its
parent's way of measuring, and the reverse.

`HistoryReader` answers a bisection's questions from the private clones. The last functions explain what a merge base
means that is run in place of an end on another branch. It may not behave as that end does, or may not be judgeable.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import PurePosixPath

import numpy as np

from ...runner.case.preflight import exchange_checks
from ...runner.errors import EndsError, UndecidedError, UserError
from ...runner.git import (
    GitError,
    GitRepository,
    bare_worktree,
    commit_index,
    commits_with_same_change,
    literal,
)
from ...runner.overlays import find_applicable_commits, list_patches
from ...runner.pins import NoPinError, Revisions
from ...runner.stack import Overlay
from ...runner.verdict.rules import CompilerError
from ...runner.workspace.content import StackContent
from ...runner.workspace.slot import MissingCommitError, Workspace
from ...store.bisections import BisectionJournal, RangeCommit
from ...store.tables import ProbeRow
from ...store.vocabulary import Commit, Judgement, Seeks, Verdict, verdict_words
from ..ask.question import BisectRequest, moved_pins, pin_records
from ..search.graph import CommitGraph, Mask, Window
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
    CheckChange,
    FirstParents,
    HistoryAnswer,
    HistoryQuestion,
    MovedPin,
    PinRecord,
)
from .range import CommitRange, LoadedRange, Range, Target, collapse, find_reverts, object_masks, touches

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]')
"""Matches an include directive. Git reads the pattern too, as an extended regular expression."""


def read_commits(where: Range, repository: GitRepository) -> list[Commit]:
    """Return the commits of a range, parents before children. Raises `GitError`."""
    return repository.commits(
        good=where.old, bad=where.new, also_good=where.also_old, first_parent=where.first_parent
    )


def load_range(
    where: Range,
    commits: Sequence[Commit],
    *,
    repository: GitRepository,
    content: StackContent,
    revisions: Revisions,
) -> LoadedRange | None:
    """Collapse a range of these commits. Return None where none of them can change a result.

    Raises `NoPinError` or `MissingCommitError` for an end that cannot be had, `UserError` for a shallow clone.
    """
    if not commits:
        return None
    _check_whole(repository, commits)
    content.learn(where.repository, commits)
    revisions.learn(where.repository, commits)

    def content_key(sha: str) -> str:
        return content.revisions_key(revisions.complete({**where.held, where.repository: sha}))

    @cache
    def key(sha: str) -> str | None:
        try:
            return content_key(sha)
        except (NoPinError, MissingCommitError):
            return None

    lines = [replace(each, parents=each.parents[:1]) for each in commits] if where.first_parent else commits
    skip = frozenset(where.skip)
    elsewhere = frozenset(commit.sha for commit in commits if not touches(commit, where.paths))
    if len(elsewhere) == len(commits):
        return None
    collapsed = collapse(lines, lambda sha: key(sha) or f"no pin at {sha}", skip=skip, elsewhere=elsewhere)
    if collapsed is None:
        return None
    never_run = {member.sha for node in collapsed.nodes if node.commit.sha in skip for member in node.members}
    graph = CommitGraph(collapsed.parents, [node.commit.date.timestamp() for node in collapsed.nodes])
    contents = {commit.sha: None if commit.sha in never_run else key(commit.sha) for commit in commits}
    built = {contents[node.commit.sha]: node.commit.sha for node in collapsed.nodes}
    built[content_key(where.old)] = where.old
    return LoadedRange(
        range=where,
        commits=tuple(commits),
        contents=contents,
        old_content=content_key(where.old),
        new_content=content_key(where.new),
        collapsed=collapsed,
        graph=graph,
        windows=find_windows(commits, collapsed, graph),
        builds={
            each: content.build_key(revisions.complete({**where.held, where.repository: sha}))
            for each, sha in built.items()
            if each is not None
        },
        objects=_objects(where, commits, repository=repository, content=content),
        elsewhere=elsewhere,
    )


def _objects(
    where: Range, commits: Sequence[Commit], *, repository: GitRepository, content: StackContent
) -> dict[str, int]:
    """Return the objects that builds make of each file of a range, as bits.

    Which file includes which is read at the new end of the range. Files that no build depends on are left out.
    """
    paths = {entry.path for entry in repository.tree(where.new)}
    paths |= {change.path for commit in commits for change in commit.changes}
    files = content.build_inputs(where.repository, sorted(paths))
    if not files:
        return {}
    lines = repository.lines_like(where.new, _INCLUDE.pattern)
    includes = [(path, found[1]) for path, line in lines if (found := _INCLUDE.match(line))]
    objects = object_masks(files, includes)
    every = 0
    for made in objects.values():
        every |= made
    # A pin that moves may cause everything to be compiled again, so its changes are not examined.
    return objects | dict.fromkeys(content.build_pins(where.repository), every)


def _check_whole(repository: GitRepository, commits: Sequence[Commit]) -> None:
    cut = sorted(repository.shallow_commits.intersection(commit.sha for commit in commits))
    if cut:
        raise UserError(
            f"expected all commits between the ends, found a shallow clone that ends at {cut[0][:12]} among them; run "
            "in the checkout: git fetch --deepen=200, or --unshallow"
        )


def find_windows(commits: Sequence[Commit], collapsed: CommitRange, graph: CommitGraph) -> tuple[Window, ...]:
    """Return the windows between the candidates that change something and those that undo it."""
    place = {member.sha: index for index, node in enumerate(collapsed.nodes) for member in node.members}
    windows: list[Window] = []
    for pair in find_reverts(commits):
        start, end = place.get(pair.changing), place.get(pair.undoing)
        if start is not None and end is not None and start != end and graph.is_ancestor(start, end):
            windows.append(Window(start, end, reverted=pair.said))
    return tuple(windows)


def record_range(journal: BisectionJournal, loaded: LoadedRange, ordinal: int) -> int:
    """Record a range and its candidates in the store, once. Return its id."""
    standing: dict[str, str] = {
        member.sha: node.commit.sha for node in loaded.collapsed.nodes for member in node.members
    }
    return journal.stages.record(
        ordinal=ordinal,
        repository=loaded.range.repository,
        seeks=loaded.range.seeks,
        old=loaded.range.old,
        new=loaded.range.new,
        held=loaded.range.held,
        old_content=loaded.old_content,
        candidates=[
            RangeCommit(
                commit=commit,
                representative=standing.get(commit.sha),
                content=loaded.contents[commit.sha],
            )
            for commit in loaded.commits
        ],
    )


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
    """Return the file that a compiler's error names, with its versions at some candidates and the old end of the
    range.

    `commit` is the commit of the range that shows the error. Return None where no commit of the range changes the
    file, because it distinguishes nothing then. A header may be missing at some commits and present at others. Then a
    version is the file that includes it together with whether the header is there.
    """
    changed = {change.path for each in loaded.commits for change in each.changes}
    shows = match_path(error.path, changed)
    missing = None if error.missing is None else match_path(error.missing, changed)
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
        known = _line_mask(repository, blobs, erring=erring, line=error.line)
        has_line = has_line if known is None else known
    versions = [f"{blob} {lack}" for blob, lack in zip(blobs, lacks, strict=True)]
    return BlamedFile(
        path=shows or missing or error.path,
        versions=np.unique(versions, return_inverse=True)[1],
        fails=None if has_line is None else has_line & lacks,
    )


def match_path(printed: str, paths: Collection[str]) -> str | None:
    """Return the path of a repository that a printed path means.

    It shares its end with the printed path, and one of the two is contained in the other as a whole. The longest such
    path counts. Return None where there is none, or several are equally long.

    >>> match_path("/slots/1/pypto/src/a.cpp", ["src/a.cpp", "test/src/a.cpp", "a.cpp"])
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

    Return None where that line could not distinguish them.
    """
    texts = {blob: _lines(repository, blob) for blob in {*blobs, erring}}
    before = texts[erring]
    text = before[line - 1] if line <= len(before) else ""
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

    Return None where it measures alike, or where the difference cannot be separated from the rest of the case.
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
    (entry,) = clone.tree(sha, (literal(str(path)),))
    about = f"{path.name} of {sha[:12]} that measures as at {of[:12]}"
    with bare_worktree(clone, sha) as worktree:
        file = worktree.path / "text"
        file.write_bytes(text.encode())
        blob = worktree.run("hash-object", "-w", "--no-filters", str(file))
        worktree.run("read-tree", sha)
        worktree.run("update-index", "--cacheinfo", f"{entry.mode},{blob},{path}")
        commit = commit_index(worktree, about, parents=(sha,))
    clone.run("update-ref", f"refs/yardsticks/{commit}", commit)
    return commit


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
            case AskBlamedFile():
                return self._blamed_file(question)
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
        """Return the commit of every repository that goes with a target. Raises `NoPinError`."""
        return self._revisions.complete({**target.held, target.repository: target.commit})

    def _clone(self, repository: str) -> GitRepository:
        return self._workspace.clones[repository]

    def _range(self, question: AskRange) -> LoadedRange | None:
        where = question.range
        if self._planned is not None and self._planned.range == where:
            loaded = self._planned
            self._content.learn(where.repository, loaded.commits)
            self._revisions.learn(where.repository, loaded.commits)
        else:
            clone = self._clone(where.repository)
            loaded = load_range(
                where,
                read_commits(where, clone),
                repository=clone,
                content=self._content,
                revisions=self._revisions,
            )
        if loaded is None:
            return None
        releases = self._request.stack.repositories[where.repository].releases
        if releases is not None:
            loaded = replace(
                loaded, versions={commit: version for version, commit in releases.commits.items()}
            )
        self._loaded[question.ordinal] = loaded
        return loaded

    def _blamed_file(self, question: AskBlamedFile) -> BlamedFile | None:
        loaded = self._loaded[question.ordinal]
        clone = self._clone(loaded.range.repository)
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


def undecidable_merge_base(request: BisectRequest, probes: Iterable[ProbeRow]) -> UndecidedError | None:
    """Return the error that the merge base cannot be judged, so the side of the change is unknown.

    Return None where the merge base can be judged.
    """
    base = request.range.old
    judged = [probe for probe in probes if probe.commit == base]
    if not request.parted or not judged or judged[-1].judgement is not Judgement.SKIP:
        return None
    other, found = request.parted[0], judged[-1]
    old, new = ("good", "bad") if request.seeks is Seeks.REGRESSION else ("bad", "good")
    shown = verdict_words(found.verdict or Verdict.UNKNOWN, found.signature, found.verdict_source)
    return UndecidedError(
        f"the merge base {base[:12]} of {old} {other[:12]} and {new} {request.range.new[:12]} cannot be judged "
        f"({shown}): on which side the change lies is unknown; mend that and resume, or name a commit between "
        f"{base[:12]} and {request.range.new[:12]} as --{old}"
    )


def merge_base_finding(request: BisectRequest, probes: Iterable[ProbeRow]) -> EndsError | None:
    """Return the error that the change lies on the other branch. Return None where the merge base
    does not show that."""
    regression = request.seeks is Seeks.REGRESSION
    base = request.range.old
    unlike = Judgement.BAD if regression else Judgement.GOOD
    if not request.parted or not any(probe.commit == base and probe.judgement is unlike for probe in probes):
        return None
    other = request.parted[0]
    old, new, does, what = (
        ("good", "bad", "fails", "fixed") if regression else ("bad", "good", "passes", "introduced")
    )
    ends = f"--find-fix --bad {base} --good {other}" if regression else f"--good {base} --bad {other}"
    return EndsError(
        f"the merge base {base[:12]} of {old} {other[:12]} and {new} {request.range.new[:12]} {does} too: it was "
        f"{what} on the side of {other[:12]}; to find by which commit, ask with {ends}"
    )
