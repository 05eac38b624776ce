"""A range is read from git, collapsed, and noted in the store."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ...runner.errors import UserError
from ...runner.git.repository import GitRepository
from ...runner.git.revisions import NoPinError, Revisions
from ...runner.workspace.content import StackContent
from ...runner.workspace.workspace import MissingCommitError
from ...store.commit import Commit
from ...store.journals.bisections import BisectionJournal
from ...store.journals.stages import RangeCommit
from ..search.graph.graph import CommitGraph
from ..search.graph.window import Window
from .collapse import CommitRange, collapse, touches, undone
from .range import LoadedRange, Range
from .recompiled import objects_of

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]')
"""Git reads it too, as an extended regular expression."""


def load_range(
    where: Range, *, repository: GitRepository, content: StackContent, revisions: Revisions
) -> LoadedRange | None:
    """Read and collapse a range. None where no commit of it can change a result.

    Raises `NoPinError` and `MissingCommitError` where an end pins nothing that can be had, `UserError` where a shallow
    clone ends within the range.
    """
    commits = repository.commits(
        good=where.old, bad=where.new, also_good=where.also_old, first_parent=where.first_parent
    )
    if not commits:
        return None
    _check_whole(repository, commits)
    content.learn(where.repository, commits)
    revisions.learn(where.repository, commits)

    def of_commit(sha: str) -> str:
        return content.of_revisions(revisions.complete({**where.held, where.repository: sha}))

    def key(sha: str) -> str | None:
        try:
            return of_commit(sha)
        except (NoPinError, MissingCommitError):
            return None

    graph_commits = (
        [replace(commit, parents=commit.parents[:1]) for commit in commits] if where.first_parent else commits
    )
    skip = frozenset(where.skip)
    elsewhere = frozenset(commit.sha for commit in commits if not touches(commit, where.paths))
    if len(elsewhere) == len(commits):
        return None
    collapsed = collapse(
        graph_commits, lambda sha: key(sha) or f"no pin at {sha}", skip=skip, elsewhere=elsewhere
    )
    if collapsed is None:
        return None
    never_run = {member.sha for node in collapsed.nodes if node.commit.sha in skip for member in node.members}
    graph = CommitGraph(collapsed.parents, [node.commit.date.timestamp() for node in collapsed.nodes])
    contents = {commit.sha: None if commit.sha in never_run else key(commit.sha) for commit in commits}
    built = {contents[node.commit.sha]: node.commit.sha for node in collapsed.nodes}
    built[of_commit(where.old)] = where.old
    return LoadedRange(
        range=where,
        commits=tuple(commits),
        contents=contents,
        old_content=of_commit(where.old),
        new_content=of_commit(where.new),
        collapsed=collapsed,
        graph=graph,
        windows=_windows(commits, collapsed, graph),
        builds={
            each: content.of_build(revisions.complete({**where.held, where.repository: sha}))
            for each, sha in built.items()
            if each is not None
        },
        objects=_objects(where, commits, repository=repository, content=content),
        elsewhere=elsewhere,
    )


def _objects(
    where: Range, commits: Sequence[Commit], *, repository: GitRepository, content: StackContent
) -> dict[str, int]:
    """What builds make of each file of a range that they depend on, by what includes what at its new end."""
    paths = {entry.path for entry in repository.tree(where.new)}
    paths |= {change.path for commit in commits for change in commit.changes}
    files = content.built_from(where.repository, sorted(paths))
    if not files:
        return {}
    lines = repository.lines_like(where.new, _INCLUDE.pattern)
    includes = [(path, found[1]) for path, line in lines if (found := _INCLUDE.match(line))]
    objects = objects_of(files, includes)
    every = 0
    for made in objects.values():
        every |= made
    # What a pin that moves makes to be compiled again is not looked into: it may be all.
    return objects | dict.fromkeys(content.pins_of_builds(where.repository), every)


def _check_whole(repository: GitRepository, commits: Sequence[Commit]) -> None:
    cut = sorted(repository.boundary.intersection(commit.sha for commit in commits))
    if cut:
        raise UserError(
            f"expected all commits between the ends, found a shallow clone that ends at {cut[0][:12]} among them; run "
            "in the checkout: git fetch --deepen=200, or --unshallow"
        )


def _windows(commits: Sequence[Commit], collapsed: CommitRange, graph: CommitGraph) -> tuple[Window, ...]:
    place = {member.sha: index for index, node in enumerate(collapsed.nodes) for member in node.members}
    windows: list[Window] = []
    for pair in undone(commits):
        start, end = place.get(pair.changing), place.get(pair.undoing)
        if start is not None and end is not None and start != end and graph.ancestors(end)[start]:
            windows.append(Window(start, end, reverted=pair.said))
    return tuple(windows)


def note_range(journal: BisectionJournal, loaded: LoadedRange, ordinal: int) -> int:
    """Keep a range and its candidates in the store, once; its id."""
    standing: dict[str, str] = {
        member.sha: node.commit.sha for node in loaded.collapsed.nodes for member in node.members
    }
    return journal.stages.note(
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
