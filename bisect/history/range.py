"""A range of commits between good and bad, as a graph of the commits that can differ in result.

`Range` is what is asked of a repository, and `LoadedRange` what git says of it. A `Target` is one commit with what is
built beside it. `collapse` folds commits of equal content into nodes. `find_reverts` finds changes that were taken
back, and `remove_candidates` removes lines that were forked before the range began.

`RecompiledObjects` counts the objects that a build compiles again when it goes on from another commit's build. A file
that no other one includes is one object: a source, a script. An included file stands for the objects of all sources
that include it, directly or not. So a header of the core is many objects, and one source is one.
"""

import posixpath
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ...runner.verdict.rules import CompilerError
from ...store.vocabulary import Commit, Judgement, Seeks
from ..search.belief import Outcome
from ..search.graph import Ancestry, CommitGraph, Floats, Window
from ..search.hypotheses import GOOD_END

_GOOD_SIDE = -1
"""Commits whose content is that of the good end have this place. Nodes are numbered from 0."""
_BACK = -1
"""A walk's step back has this place."""
_REVERT = re.compile(r'Revert "(.*)"')
_PULL_REQUEST = re.compile(r" \(#\d+\)$")
"""Matches what a squash merge appends to a subject."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """Commits of equal content that follow one another. Only the first can have changed anything."""

    members: tuple[Commit, ...]

    @property
    def commit(self) -> Commit:
        """Return the candidate, which represents all members."""
        return self.members[0]


@dataclass(frozen=True, kw_only=True)
class CommitRange:
    """The nodes of `good..bad`, parents before children.

    `parents[i]` are the nodes that node i builds on. A node that builds only on the good side has none. `bad` is the
    node of the bad end. `good_side` are commits whose content equals that of the good side.
    """

    nodes: tuple[Node, ...]
    parents: tuple[tuple[int, ...], ...]
    bad: int
    good_side: tuple[Commit, ...]

    @property
    def collapsed_count(self) -> int:
        """Return the number of commits that need no test of their own."""
        return len(self.good_side) + sum(len(node.members) - 1 for node in self.nodes)


def touches(commit: Commit, paths: Sequence[str]) -> bool:
    """Return whether a commit changes one of these files, or a file below one of these folders, against its first
    parent.

    Without paths, any commit does.
    """
    return not paths or any(
        not path or change.path == path or change.path.startswith(f"{path}/")
        for change in commit.changes
        for path in paths
    )


def collapse(
    commits: Sequence[Commit],
    content: Callable[[str], str],
    *,
    skip: Collection[str] = (),
    elsewhere: Collection[str] = (),
) -> CommitRange | None:
    """Fold each commit whose content equals that of its only parent into it.

    `commits` are those of `good..bad`, parents first, the bad end last. `content` gives the key of any commit, parents
    outside of the range included. Return None where nothing is left because the bad end equals the good side.

    A merge is folded in two cases. The first is that all its parents lie in one node and equal it. The second is that
    it equals a parent that builds on all nodes of the others, and on the same commits before the range. Such a merge
    joins nothing to that parent, and a run of either would count for both. Any other merge stays, because folding it
    could hide that one side undid the other.

    A commit in `skip` is never run, so it represents no commit that can be. A commit in `elsewhere` is folded into its
    first parent, except the bad end and merges of another line of candidates.
    """
    folding = _Collapser(content, skip=skip, elsewhere=frozenset(elsewhere) - {commits[-1].sha})
    for commit in commits:
        folding.take(commit)
    bad = folding.place[commits[-1].sha]
    if bad == _GOOD_SIDE:
        return None
    return CommitRange(
        nodes=tuple(Node(members=tuple(group)) for group in folding.members),
        parents=tuple(folding.parents),
        bad=bad,
        good_side=tuple(folding.good_side),
    )


class _Collapser:
    """Nodes as they grow, commit by commit."""

    def __init__(
        self, content: Callable[[str], str], *, skip: Collection[str], elsewhere: Collection[str]
    ) -> None:
        self._content = content
        self._skip = skip
        self._elsewhere = elsewhere
        self.place: dict[str, int] = {}
        self.members: list[list[Commit]] = []
        self.parents: list[tuple[int, ...]] = []
        self.good_side: list[Commit] = []
        self._nodes = Ancestry()
        self._before = Ancestry()
        """Commits from before the range, as roots, and the merges of lines that build on several."""
        self._bases: dict[str, int] = {}
        """The place in `_before` of what each commit builds on from before the range."""

    def take(self, commit: Commit) -> None:
        """Fold a commit, or begin a node with it."""
        below = sorted({self.place.get(parent, _GOOD_SIDE) for parent in commit.parents})
        self._bases[commit.sha] = self._join_bases(commit.parents)
        node = self._fold_target(commit, below)
        if node is not None:
            self.place[commit.sha] = node
            (self.good_side if node == _GOOD_SIDE else self.members[node]).append(commit)
            return
        self.parents.append(tuple(index for index in below if index != _GOOD_SIDE))
        self.place[commit.sha] = self._nodes.add(self.parents[-1])
        self.members.append([commit])

    def _fold_target(self, commit: Commit, below: Sequence[int]) -> int | None:
        """Return the node that a commit is folded into. None where it begins a node."""
        if not commit.parents:
            return None
        first = self.place.get(commit.parents[0], _GOOD_SIDE)
        if commit.sha not in self._skip and first != _GOOD_SIDE and self.members[first][0].sha in self._skip:
            return None
        if len(below) == 1 and self._content(commit.sha) == self._content(commit.parents[0]):
            return first
        if (joined := self._parent_with_all(commit, below)) is not None:
            return joined
        return first if commit.sha in self._elsewhere and self._builds_on(first, below) else None

    def _parent_with_all(self, commit: Commit, below: Sequence[int]) -> int | None:
        """Return the node of a parent of equal content that builds on the nodes of all other parents.

        Return None where there is none, or where that node is never run.
        """
        good_side = [parent for parent in commit.parents if self.place.get(parent, _GOOD_SIDE) == _GOOD_SIDE]
        for parent in commit.parents:
            node = self.place.get(parent, _GOOD_SIDE)
            if node == _GOOD_SIDE or self.members[node][0].sha in self._skip:
                continue
            if (
                self._builds_on(node, below)
                and all(self._has_bases_of(parent, other) for other in good_side)
                and self._content(commit.sha) == self._content(parent)
            ):
                return node
        return None

    def _builds_on(self, node: int, below: Iterable[int]) -> bool:
        """Return whether a node builds on all of some others. The good side counts as nothing."""
        return all(other == _GOOD_SIDE or self._nodes.is_ancestor(other, node) for other in below)

    def _base(self, sha: str) -> int:
        """Return the place in `_before` of a commit. A commit from before the range is a root."""
        if sha not in self._bases:
            self._bases[sha] = self._before.add(())
        return self._bases[sha]

    def _join_bases(self, shas: Sequence[str]) -> int:
        """Return the place in `_before` of all that some commits build on.

        Most merges of a long range add nothing to one of their parents, and share its place.
        """
        bases = [*dict.fromkeys(self._base(sha) for sha in shas)]
        most = max(bases, default=-1)
        if bases and all(self._before.is_ancestor(base, most) for base in bases):
            return most
        return self._before.add(bases)

    def _has_bases_of(self, sha: str, other: str) -> bool:
        """Return whether a commit builds on all commits from before the range that another one builds on."""
        own, base = self._base(sha), self._base(other)
        return self._before.is_ancestor(base, own) or all(
            self._before.is_ancestor(root, own) for root in self._before.roots(base)
        )


@dataclass(frozen=True, kw_only=True)
class RevertPair:
    """Commit `undoing` undoes what `changing` did. `said` is true if its subject is git's own for a revert of it."""

    changing: str
    undoing: str
    said: bool


MAX_DEPARTURES = 8
"""This many commits are remembered as those that took a file away from one content. The newest of them stay."""


def find_reverts(commits: Sequence[Commit]) -> list[RevertPair]:
    """Return pairs of commits of which the later one reverts the earlier one, or restores the old content of a file.

    `commits` come parents first. A commit that restores a content is paired with those below it that took the file away
    from there. On each line that is the last one alone, because what went away before has returned before. Of the
    commits that took a file away from one content only the last eight count. Where the subject alone says that a
    commit is a revert, the caller has to check whether it follows the other one.
    """
    ancestry = Ancestry()
    numbers: dict[str, int] = {}
    departures: dict[tuple[str, str], deque[int]] = {}
    by_subject: dict[str, str] = {}
    pairs: dict[tuple[str, str], bool] = {}
    for commit in commits:
        number = ancestry.add([numbers[parent] for parent in commit.parents if parent in numbers])
        numbers[commit.sha] = number
        for change in commit.changes:
            earlier = departures.get((change.path, change.new_object))
            if earlier is not None:
                undone = _last_on_each_line(ancestry, earlier, number)
                pairs |= {(commits[changing].sha, commit.sha): False for changing in undone}
            left = departures.get((change.path, change.old_object))
            if left is None:
                left = departures[change.path, change.old_object] = deque(maxlen=MAX_DEPARTURES)
            left.append(number)
        subject = _PULL_REQUEST.sub("", commit.subject)
        reverted = _REVERT.fullmatch(subject)
        if reverted is not None and (changing := by_subject.get(_PULL_REQUEST.sub("", reverted[1]))):
            pairs[changing, commit.sha] = True
        by_subject[subject] = commit.sha
    return [
        RevertPair(changing=changing, undoing=undoing, said=said)
        for (changing, undoing), said in pairs.items()
    ]


def _last_on_each_line(ancestry: Ancestry, commits: deque[int], commit: int) -> list[int]:
    """Return those of some ascending commits that `commit` builds on and that none of the others builds on."""
    last: list[int] = []
    for each in reversed(commits):
        if ancestry.is_ancestor(each, commit) and not any(
            ancestry.is_ancestor(each, later) for later in last
        ):
            last.append(each)
    return last[::-1]


@dataclass(frozen=True)
class SlotBuild:
    """A build that a slot came to hold.

    `seconds` is the time it took. It is None where the build came from a cache, or was there already.
    """

    content: str
    place: str
    seconds: float | None


def object_masks(files: Collection[str], includes: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the objects that are made of each of some files, as bits.

    `includes` has pairs of a file and a path as it is written there. Such a path means the file that it leads to from
    the folder of the including file. Where there is none, it means each file whose path ends like it.
    """
    by_name: dict[str, list[str]] = {}
    for file in files:
        by_name.setdefault(posixpath.basename(file), []).append(file)
    included: dict[str, set[str]] = {}
    for file, written in includes:
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(file), written))
        alike = by_name.get(posixpath.basename(written), [])
        tail = "/" + posixpath.normpath(written).removeprefix("../")
        meant = [beside] if beside in alike else [each for each in alike if f"/{each}".endswith(tail)]
        included.setdefault(file, set()).update(meant)
    inner = set[str]().union(*included.values())
    objects = dict.fromkeys(files, 0)
    objects |= {file: 1 << place for place, file in enumerate(sorted({*files} - inner))}
    waiting = [file for file in files if objects[file]]
    while waiting:
        file = waiting.pop()
        for each in included.get(file, ()):
            if objects[each] | objects[file] != objects[each]:
                objects[each] |= objects[file]
                waiting.append(each)
    return objects


class RecompiledObjects:
    """The candidates of a range, and what is compiled again between any two of them."""

    def __init__(self, collapsed: CommitRange, objects: Mapping[str, int]) -> None:
        """`objects` are those that are made of each file that builds depend on, as bits."""
        node_of = {member.sha: place for place, node in enumerate(collapsed.nodes) for member in node.members}
        good = len(collapsed.nodes)
        self._made = {file: made for file, made in objects.items() if made}
        self._neighbours: list[list[tuple[int, frozenset[str]]]] = [[] for _ in range(good + 1)]
        """The neighbours of each candidate and, in the last place, of the good end, with the files that differ.

        A candidate and its first parent are neighbours. The changes of a merge are its difference from that parent.
        """
        for place, node in enumerate(collapsed.nodes):
            parent = node_of.get(node.commit.parents[0], good) if node.commit.parents else good
            changed = frozenset(
                file for member in node.members for file in member.files if file in self._made
            )
            self._neighbours[place].append((parent, changed))
            self._neighbours[parent].append((place, changed))
        every = 0
        for made in objects.values():
            every |= made
        self.objects = every.bit_count()
        """The number of all objects."""
        self._known: dict[int, Floats] = {}

    def objects_from(self, node: int) -> Floats:
        """Return how many objects are compiled again at each candidate and, last, the good end. Shape [n + 1].

        The build before is that of `node`, a candidate or the good end.
        """
        start = node % len(self._neighbours)
        if start not in self._known:
            self._known[start] = self._count_objects(start)
        return self._known[start]

    def _count_objects(self, start: int) -> Floats:
        """Walk the tree of first parents from `start`, and count the objects that differ on the way to each place.

        A file that differs already adds nothing, so objects are joined once for each file of a line.
        """
        counts = np.full(len(self._neighbours), -1.0)
        differing, objects = set[str](), 0
        waiting = [(start, frozenset[str](), 0)]
        while waiting:
            place, files, before = waiting.pop()
            if place == _BACK:
                differing -= files
                objects = before
            elif counts[place] < 0:
                if fresh := files - differing:
                    waiting.append((_BACK, fresh, objects))
                    differing |= fresh
                    for file in fresh:
                        objects |= self._made[file]
                counts[place] = objects.bit_count()
                waiting.extend((near, changed, 0) for near, changed in self._neighbours[place])
        return counts

    def objects_after(self, nodes: Sequence[int]) -> Floats:
        """Return the same after the nearest of `nodes` for each place. Shape [n + 1]."""
        return np.min([self.objects_from(node) for node in nodes], axis=0)


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a probe builds and runs: one commit of a repository, with other repositories held at fixed commits.

    content: the key of all that can change the result; targets of equal content are the same.
    """

    repository: str
    commit: str
    held: Mapping[str, str]
    content: str


@dataclass(frozen=True, kw_only=True)
class Range:
    """A repository between two of its commits, with the repositories in `held` kept where they are.

    Where a regression is sought, the old end is good and the new one bad. Where a fix is sought, it is the other way
    about.
    """

    repository: str
    old: str
    new: str
    held: Mapping[str, str]
    also_old: tuple[str, ...] = ()
    """Further commits that behave like the old end. Their ancestors are no candidates."""
    skip: tuple[str, ...] = ()
    """Commits that are never run, and so count as untestable."""
    paths: tuple[str, ...] = ()
    """Files and folders, of which a candidate touches one. Without any, each commit may be a candidate."""
    seeks: Seeks = Seeks.REGRESSION
    first_parent: bool = False
    """Whether branches that were merged within the range are left out. Each is represented by its merge."""


@dataclass(frozen=True, kw_only=True)
class LoadedRange:
    """A range with its commits. Node i of `collapsed` is commit i of `graph`.

    `contents` gives the content key of each commit, None where it pins no submodule. `old_content` and `new_content`
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
    """The windows between a change and the commit that undoes it."""
    earlier_skips: Mapping[str, tuple[CompilerError, ...]] = field(
        default_factory=dict[str, tuple[CompilerError, ...]]
    )
    """Contents that other bisections of the store could not build at their last try, with the errors."""
    earlier_builds: tuple[tuple[SlotBuild, ...], ...] = ()
    """The builds of other bisections of the store that met contents of the range, each in the order of the starts."""
    builds: Mapping[str, str] = field(default_factory=dict[str, str])
    """The key of what each content is built from, where it can be had. Contents with equal keys share a build.

    A content that is not in it has a build of its own.
    """
    objects: Mapping[str, int] = field(default_factory=dict[str, int])
    """The objects that builds make of each file that they depend on (`object_masks`). Empty where nothing is built."""
    elsewhere: frozenset[str] = frozenset()
    """The commits that touch none of the range's paths.

    Their results are taken to be those of the commits that represent them, whatever their content.
    """
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """The releases that commits stand for."""
    left_out: frozenset[str] = frozenset()
    """The commits that `remove_candidates` removed. They lie on lines that were forked before the range, and behave
    like its new end."""

    @cached_property
    def candidates(self) -> tuple[str, ...]:
        """Return the commit that represents each node."""
        return tuple(node.commit.sha for node in self.collapsed.nodes)

    def build_of(self, content: str) -> str:
        """Return the key of what a content is built from. A content from outside of the range is its own key."""
        return self.builds.get(content, content)

    @cached_property
    def known_builds(self) -> frozenset[str]:
        """Return what earlier bisections have built. It is probably still there."""
        return frozenset(self.build_of(build.content) for builds in self.earlier_builds for build in builds)

    @cached_property
    def earlier_seconds(self) -> tuple[float, ...]:
        """Return the seconds that the builds of earlier bisections took."""
        timed = (build.seconds for builds in self.earlier_builds for build in builds)
        return tuple(seconds for seconds in timed if seconds is not None)

    @cached_property
    def recompiled_objects(self) -> RecompiledObjects | None:
        """Return what is compiled again between any two candidates. None where that is unknown."""
        return RecompiledObjects(self.collapsed, self.objects) if self.objects else None

    @cached_property
    def node_of_content(self) -> Mapping[str, int]:
        """Return the candidate, or the good end, that has some content."""
        nodes = {content: node for node, content in enumerate(self.candidate_contents) if content is not None}
        return {self.old_content: GOOD_END} | nodes

    @cached_property
    def candidate_contents(self) -> tuple[str | None, ...]:
        """Return the content of each node. None where it pins nothing that can be had."""
        return tuple(self.contents[sha] for sha in self.candidates)


def search_outcome(judgement: Judgement, seeks: Seeks) -> Outcome:
    """Return what a judged probe means for the search of a range. BAD means that it behaves like the new end."""
    if judgement is Judgement.SKIP:
        return Outcome.SKIP
    return Outcome.BAD if (judgement is Judgement.BAD) == (seeks is Seeks.REGRESSION) else Outcome.GOOD


def candidates_on_line(graph: CommitGraph, first: int) -> frozenset[int]:
    """Return the candidates that build on nothing of the range but a line that begins with `first`.

    The line ends where it is merged into another.
    """
    on_line: set[int] = {first}
    for node in range(first + 1, len(graph)):
        if graph.parents[node] and all(parent in on_line for parent in graph.parents[node]):
            on_line.add(node)
    return frozenset(on_line)


def remove_candidates(loaded: LoadedRange, left_out: Collection[int]) -> LoadedRange:
    """Return the range without some of its candidates. Those that build on them then build on the good side.

    Raises `ValueError` where the bad end is left out.
    """
    if loaded.graph.bad in left_out:
        raise ValueError("expected to keep the bad end of the range, found it among what is left out")
    kept = [node for node in range(len(loaded.graph)) if node not in left_out]
    place = {node: index for index, node in enumerate(kept)}
    parents = tuple(
        tuple(place[parent] for parent in loaded.graph.parents[node] if parent in place) for node in kept
    )
    nodes = tuple(loaded.collapsed.nodes[node] for node in kept)
    gone = {member.sha for node in left_out for member in loaded.collapsed.nodes[node].members}
    return replace(
        loaded,
        commits=tuple(commit for commit in loaded.commits if commit.sha not in gone),
        left_out=loaded.left_out | gone,
        collapsed=CommitRange(
            nodes=nodes, parents=parents, bad=place[loaded.graph.bad], good_side=loaded.collapsed.good_side
        ),
        graph=CommitGraph(parents, [node.commit.date.timestamp() for node in nodes]),
        windows=tuple(
            Window(place[window.start], place[window.end], reverted=window.reverted)
            for window in loaded.windows
            if window.start in place and window.end in place
        ),
    )
