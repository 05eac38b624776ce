"""A range of commits: what is asked of a repository between two of its commits, and what git tells of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ...runner.verdict.compiler_errors import CompilerError
from ...store.commit import Commit
from ...store.vocabulary import Judgement, Seeks
from ..search.evidence.knowledge import Outcome
from ..search.graph.graph import CommitGraph
from ..search.graph.window import Window
from ..search.model.groups import GOOD_END
from .collapse import CommitRange
from .recompiled import Recompiled, SlotBuild


@dataclass(frozen=True, kw_only=True)
class Range:
    """A repository between two of its commits, with the repositories in `held` kept where they are.

    The old end is good and the new one bad where a regression is sought; where a fix is, it is the other way about.
    """

    repository: str
    old: str
    new: str
    held: Mapping[str, str]
    also_old: tuple[str, ...] = ()
    """Others that do as the old end does: what they build on is no candidate."""
    skip: tuple[str, ...] = ()
    """Commits that are never run, and so count as untestable."""
    paths: tuple[str, ...] = ()
    """What a candidate touches; empty: any commit may be one."""
    seeks: Seeks = Seeks.REGRESSION
    first_parent: bool = False
    """Branches that were merged within the range are not looked into: the merge stands for them."""


@dataclass(frozen=True, kw_only=True)
class LoadedRange:
    """A range with its commits; node i of `collapsed` is commit i of `graph`.

    `contents` gives the content key of each commit, None where it pins no submodule; `old_content` and `new_content`
    are those of the two ends.
    """

    range: Range
    commits: tuple[Commit, ...]
    contents: Mapping[str, str | None]
    old_content: str
    new_content: str
    collapsed: CommitRange
    graph: CommitGraph
    windows: tuple[Window, ...]
    """Between a change and its undoing."""
    earlier_skips: Mapping[str, tuple[CompilerError, ...]] = field(
        default_factory=dict[str, tuple[CompilerError, ...]]
    )
    """The contents that other bisections of the store could not build when they last tried, and with which errors."""
    earlier_builds: tuple[tuple[SlotBuild, ...], ...] = ()
    """What other bisections of the store built that met contents of the range, each in the order of the starts."""
    builds: Mapping[str, str] = field(default_factory=dict[str, str])
    """What each content is built from, of those that can be had: equal ones share a build. A content that is not in it
    has one of its own."""
    objects: Mapping[str, int] = field(default_factory=dict[str, int])
    """What builds make of each file that they depend on (`recompiled.objects_of`); empty where nothing is built."""
    elsewhere: frozenset[str] = frozenset()
    """The commits that touch none of the range's paths. Their results are taken to be those of the commits that stand
    for them, whatever their content."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """The releases that commits stand for."""
    left_out: frozenset[str] = frozenset()
    """The commits of lines that were forked before the range and do what its new end does, as
    `lines.without_candidates` took them away."""

    @cached_property
    def candidates(self) -> tuple[str, ...]:
        """The commit that stands for each node."""
        return tuple(node.commit.sha for node in self.collapsed.nodes)

    def build_of(self, content: str) -> str:
        """What a content is built from; of one from outside of the range itself."""
        return self.builds.get(content, content)

    @cached_property
    def built_earlier(self) -> frozenset[str]:
        """What earlier bisections have built; it is probably still there."""
        return frozenset(self.build_of(build.content) for builds in self.earlier_builds for build in builds)

    @cached_property
    def earlier_seconds(self) -> tuple[float, ...]:
        """What their builds took."""
        timed = (build.seconds for builds in self.earlier_builds for build in builds)
        return tuple(seconds for seconds in timed if seconds is not None)

    @cached_property
    def recompiled(self) -> Recompiled | None:
        """What is compiled again between any two candidates; None where that is not known."""
        return Recompiled(self.collapsed, self.objects) if self.objects else None

    @cached_property
    def node_of_content(self) -> Mapping[str, int]:
        """The candidate, or the good end, that has some content."""
        nodes = {content: node for node, content in enumerate(self.candidate_contents) if content is not None}
        return {self.old_content: GOOD_END} | nodes

    @cached_property
    def candidate_contents(self) -> tuple[str | None, ...]:
        """The content of each node; None where it pins nothing that can be had."""
        return tuple(self.contents[sha] for sha in self.candidates)


def outcome_of(judgement: Judgement, seeks: Seeks) -> Outcome:
    """What a judged probe says to the search of a range. BAD means: behaves like the new end."""
    if judgement is Judgement.SKIP:
        return Outcome.SKIP
    return Outcome.BAD if (judgement is Judgement.BAD) == (seeks is Seeks.REGRESSION) else Outcome.GOOD
