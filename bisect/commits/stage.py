"""One range under search: its commits, collapsed, as the graph that the search sees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...runner.git.repository import GitRepository
from ...runner.git.revisions import NoPinError, Revisions
from ...runner.workspace.content import StackContent
from ...runner.workspace.workspace import MissingCommitError
from ...store.commit import Commit
from ...store.journal import Journal, RangeCommit
from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Judgement, Seeks
from ..search.choose.windows import Window
from ..search.evidence.knowledge import Outcome
from ..search.graph.graph import CommitGraph
from .collapse import CommitRange, collapse, undone


@dataclass(frozen=True, kw_only=True)
class Range:
    """A repository between two of its commits, with the repositories in `held` kept where they are.

    The old end is good and the new one bad where a regression is sought; where a fix is, it is the other way about.
    """

    repository: str
    old: str
    new: str
    held: Mapping[str, str]
    seeks: Seeks = Seeks.REGRESSION
    first_parent: bool = False
    """Branches that were merged within the range are not looked into: the merge stands for them."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A range with its commits; node i of `collapsed` is commit i of `graph`.

    `contents` gives the content key of each commit; None where it pins no submodule.
    """

    range: Range
    commits: tuple[Commit, ...]
    contents: Mapping[str, str | None]
    collapsed: CommitRange
    graph: CommitGraph
    windows: tuple[Window, ...]
    """Between a change and its undoing."""


def load_stage(
    where: Range, *, repository: GitRepository, content: StackContent, revisions: Revisions
) -> Stage | None:
    """Read and collapse a range. None where no commit of it can change a result."""
    commits = repository.commits(good=where.old, bad=where.new, first_parent=where.first_parent)
    if not commits:
        return None
    content.learn(where.repository, commits)
    revisions.learn(where.repository, commits)

    def key(sha: str) -> str | None:
        try:
            return content.of_revisions(revisions.complete({**where.held, where.repository: sha}))
        except (NoPinError, MissingCommitError):
            return None

    graph_commits = (
        [replace(commit, parents=commit.parents[:1]) for commit in commits] if where.first_parent else commits
    )
    collapsed = collapse(graph_commits, lambda sha: key(sha) or f"no pin at {sha}")
    if collapsed is None:
        return None
    graph = CommitGraph(collapsed.parents, [node.commit.date.timestamp() for node in collapsed.nodes])
    return Stage(
        range=where,
        commits=tuple(commits),
        contents={commit.sha: key(commit.sha) for commit in commits},
        collapsed=collapsed,
        graph=graph,
        windows=_windows(commits, collapsed, graph),
    )


def _windows(commits: Sequence[Commit], collapsed: CommitRange, graph: CommitGraph) -> tuple[Window, ...]:
    place = {member.sha: index for index, node in enumerate(collapsed.nodes) for member in node.members}
    windows: list[Window] = []
    for pair in undone(commits):
        start, end = place.get(pair.changing), place.get(pair.undoing)
        if start is not None and end is not None and start != end and graph.ancestors(end)[start]:
            windows.append(Window(start, end, reverted=pair.said))
    return tuple(windows)


def outcome_of(judgement: Judgement, seeks: Seeks) -> Outcome:
    """What a run says to the search of a range, for which BAD is all that is as at the new end."""
    if judgement is Judgement.SKIP:
        return Outcome.SKIP
    return Outcome.BAD if (judgement is Judgement.BAD) == (seeks is Seeks.REGRESSION) else Outcome.GOOD


def place_of(probe: ProbeRow) -> str | None:
    """Where a run was made: the slot, and so the worktree, the virtual environment and the board behind it."""
    return None if probe.slot is None else f"{probe.host or ''} {probe.slot}"


def note_stage(journal: Journal, stage: Stage, ordinal: int) -> int:
    """Keep a stage and its candidates in the store, once; its id."""
    standing: dict[str, str] = {
        member.sha: node.commit.sha for node in stage.collapsed.nodes for member in node.members
    }
    return journal.stage(
        ordinal=ordinal,
        repository=stage.range.repository,
        seeks=stage.range.seeks,
        old=stage.range.old,
        new=stage.range.new,
        held=stage.range.held,
        candidates=[
            RangeCommit(
                commit=commit,
                representative=standing.get(commit.sha),
                content=stage.contents[commit.sha],
            )
            for commit in stage.commits
        ],
    )
