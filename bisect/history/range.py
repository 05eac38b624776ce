"""A range of commits between good and bad, as a graph of the commits that can differ in result.

`Range` is what is asked of a repository, and `LoadedRange` what git says of it. A `Target` is one commit with the
revisions that are built with it. `collapse` folds commits of equal content into nodes, and `find_reverts` finds changes
that were taken back. `RecompiledObjects` counts the objects that a build compiles again when it starts from another
commit's build.
"""

import posixpath
import re
from array import array
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter

import numpy as np

from ...runner.errors import EndsError
from ...runner.verdict.rules import CompilerError
from ...store.vocabulary import Commit, Judgement, Seeks, plural
from ..search.belief import Outcome, Prior, prior_by_size
from ..search.graph import Ancestry, Chains, CommitGraph, Floats, Integers, Mask, Windows
from ..search.hypotheses import GOOD_END

_GOOD_SIDE = -1
"""The place of commits whose content is that of the good end. Nodes are numbered from 0."""
_BACK = -1
"""The place of a walk's step back."""
_REVERT = re.compile(r'Revert "(.*)"')
_PULL_REQUEST = re.compile(r" \(#\d+\)$")
"""Matches what a squash merge appends to a subject."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """Consecutive commits of equal content. Only the first can have changed anything."""

    members: tuple[Commit, ...]
    unread: int = 0
    """The number of commits for which the node stands beside its members, and which were not read."""

    @property
    def commit(self) -> Commit:
        """Return the candidate, which represents all members."""
        return self.members[0]


@dataclass(frozen=True, kw_only=True)
class CommitRange:
    """The nodes of `good..bad`, parents before children.

    parents: the nodes on which each node builds; empty for a node that builds only on the good side.
    bad: the node of the bad end.
    good_side: the commits whose content equals that of the good side.
    """

    nodes: tuple[Node, ...]
    parents: tuple[tuple[int, ...], ...]
    bad: int
    good_side: tuple[Commit, ...]


def touches(commit: Commit, paths: Sequence[str]) -> bool:
    """Return whether a commit changes one of these files or folders, against its first parent.

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
    unrelated: Collection[str] = (),
    parents: Callable[[Commit], Sequence[str]] = attrgetter("parents"),
) -> CommitRange | None:
    """Fold each commit whose content equals that of its only parent into it.

    commits: those of `good..bad`, parents first, the bad end last.
    content: returns the key of any commit, parents outside of the range included.
    skip: commits that are never run, so they represent no commit that can be.
    unrelated: commits that touch none of the search's paths. Each is folded into its first parent. Exceptions are the
    bad end, root commits, commits on a node that is never run, and merges of another line of candidates.
    parents: returns the parents of a commit that count.

    A merge is folded in two cases. The first is that all its parents lie in one node and equal it. The second is that
    it equals a parent that builds on all nodes of the others, and on the same commits before the range. Such a merge
    adds nothing to that parent, and a run of either counts for both. Any other merge stays, because folding it could
    hide that one side undid the other.

    Returns None where the bad end equals the good side.
    """
    side_commits = frozenset(unrelated) - {commits[-1].sha}
    folding = _Folding(content, skip=skip, unrelated=side_commits, parents=parents)
    for commit in commits:
        folding.add(commit)
    bad = folding.place[commits[-1].sha]
    if bad == _GOOD_SIDE:
        return None
    return CommitRange(
        nodes=tuple(Node(members=tuple(group)) for group in folding.members),
        parents=tuple(folding.parents),
        bad=bad,
        good_side=tuple(folding.good_side),
    )


class _Folding:
    """The nodes as they grow, commit by commit."""

    def __init__(
        self,
        content: Callable[[str], str],
        *,
        skip: Collection[str],
        unrelated: Collection[str],
        parents: Callable[[Commit], Sequence[str]],
    ) -> None:
        self._content = content
        self._parents_of = parents
        self._skip = skip
        self._unrelated = unrelated
        self.place: dict[str, int] = {}
        self.members: list[list[Commit]] = []
        self.parents: list[tuple[int, ...]] = []
        self.good_side: list[Commit] = []
        self._nodes = Ancestry()
        """The nodes up to the last one that was asked for. A range without merges asks for none."""
        self._before = Ancestry()
        """The commits from before the range, as roots, and the merges of lines that build on several."""
        self._bases: dict[str, int] = {}
        """The place in `_before` of the commits on which each commit builds."""

    def add(self, commit: Commit) -> None:
        """Fold a commit, or begin a node with it."""
        parents = self._parents_of(commit)
        below = {self.place.get(parent, _GOOD_SIDE) for parent in parents}
        self._bases[commit.sha] = self._join_bases(parents)
        node = self._fold_target(commit, below)
        if node is not None:
            self.place[commit.sha] = node
            (self.good_side if node == _GOOD_SIDE else self.members[node]).append(commit)
            return
        self.place[commit.sha] = len(self.parents)
        self.parents.append(tuple(sorted(below - {_GOOD_SIDE})))
        self.members.append([commit])

    def _fold_target(self, commit: Commit, below: Set[int]) -> int | None:
        """Return the node into which a commit is folded. None where it begins a node."""
        parents = self._parents_of(commit)
        if not parents:
            return None
        first = self.place.get(parents[0], _GOOD_SIDE)
        if commit.sha not in self._skip and first != _GOOD_SIDE and self.members[first][0].sha in self._skip:
            return None
        if len(below) == 1 and self._content(commit.sha) == self._content(parents[0]):
            return first
        if len(parents) > 1 and (joined := self._parent_with_all(commit, below)) is not None:
            return joined
        return first if commit.sha in self._unrelated and self._builds_on(first, below) else None

    def _parent_with_all(self, commit: Commit, below: Set[int]) -> int | None:
        """Return the node of a parent of equal content that builds on the nodes of all other parents.

        None where there is none, or where that node is never run.
        """
        parents = self._parents_of(commit)
        good_side = [parent for parent in parents if self.place.get(parent, _GOOD_SIDE) == _GOOD_SIDE]
        for parent in parents:
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

    def _builds_on(self, node: int, below: Set[int]) -> bool:
        """Return whether a node builds on all of some others. The good side counts as nothing."""
        others = below - {_GOOD_SIDE, node}
        if others:
            for parents in self.parents[len(self._nodes) :]:
                self._nodes.add(parents)
        return all(self._nodes.is_ancestor(other, node) for other in others)

    def _base(self, sha: str) -> int:
        """Return the place in `_before` of a commit. A commit from before the range is a root."""
        if sha not in self._bases:
            self._bases[sha] = self._before.add(())
        return self._bases[sha]

    def _join_bases(self, shas: Sequence[str]) -> int:
        """Return the place in `_before` of all that some commits build on.

        Most merges of a long range add nothing to one of their parents, and share its place.
        """
        if len(shas) == 1:
            return self._base(shas[0])
        bases = [*dict.fromkeys(self._base(sha) for sha in shas)]
        most = max(bases, default=-1)
        if bases and all(self._before.is_ancestor(base, most) for base in bases):
            return most
        return self._before.add(bases)

    def _has_bases_of(self, sha: str, other: str) -> bool:
        """Return whether a commit builds on all commits from before the range on which another one builds."""
        own, base = self._base(sha), self._base(other)
        return self._before.is_ancestor(base, own) or all(
            self._before.is_ancestor(root, own) for root in self._before.roots(base)
        )


@dataclass(frozen=True, kw_only=True)
class RevertPair:
    """A commit `revert` that undoes the change of `change`.

    is_git_revert: whether the subject of `revert` is git's own for a revert of the other.
    """

    change: str
    revert: str
    is_git_revert: bool


MAX_DEPARTURES = 8
"""At most this many commits are remembered that changed a file away from one content, the newest ones."""


def find_reverts(commits: Sequence[Commit]) -> list[RevertPair]:
    """Return pairs of commits of which the later one reverts the earlier one, or restores the old content of a file.

    `commits` come parents first. A commit that restores a content is paired with the commits below it that changed the
    file away from that content. On each line only the last of them counts, because the content returned after all
    others. At most the last eight such commits are considered. Where the subject alone names a revert, the caller has
    to check that the later commit follows the earlier one.
    """
    restored = _restored_contents(commits)
    ancestry = _ancestry(commits) if restored else Ancestry()
    departures: dict[tuple[str, str], deque[_Departure]] = {}
    by_subject: dict[str, str] = {}
    pairs: dict[tuple[str, str], bool] = {}
    for number, commit in enumerate(commits):
        for change in commit.changes if restored else ():
            if (change.path, change.new_object) in restored:
                earlier = departures.get((change.path, change.new_object), ())
                undone = _undone_departures(ancestry, earlier, number)
                pairs |= {(commits[changing].sha, commit.sha): False for changing in undone}
            left = change.path, change.old_object
            if left in restored:
                earlier = departures.setdefault(left, deque(maxlen=MAX_DEPARTURES))
                earlier.append(_Departure(number, _parallel_departures(ancestry, earlier, number)))
        named = reverted_subject(commit.subject)
        if named is not None and (changing := by_subject.get(named)):
            pairs[changing, commit.sha] = True
        by_subject[plain_subject(commit.subject)] = commit.sha
    return [
        RevertPair(change=changing, revert=undoing, is_git_revert=reverted)
        for (changing, undoing), reverted in pairs.items()
    ]


def plain_subject(subject: str) -> str:
    """Return a subject without the number of a pull request."""
    return _PULL_REQUEST.sub("", subject)


def reverted_subject(subject: str) -> str | None:
    """Return the plain subject of the commit that a commit with this subject reverts. None where it reverts none."""
    named = _REVERT.fullmatch(plain_subject(subject))
    return None if named is None else plain_subject(named[1])


def _ancestry(commits: Sequence[Commit]) -> Ancestry:
    """Return which commits, by their places, build on which."""
    ancestry = Ancestry()
    places: dict[str, int] = {}
    for commit in commits:
        places[commit.sha] = ancestry.add([places[each] for each in commit.parents if each in places])
    return ancestry


def _restored_contents(commits: Sequence[Commit]) -> set[tuple[str, str]]:
    """Return the contents of files, by path and object, that a commit brings in after an earlier one changed them."""
    left: set[tuple[str, str]] = set()
    restored: set[tuple[str, str]] = set()
    for change in (change for commit in commits for change in commit.changes):
        if (change.path, change.new_object) in left:
            restored.add((change.path, change.new_object))
        left.add((change.path, change.old_object))
    return restored


@dataclass(frozen=True)
class _Departure:
    """A commit, by its place, that changed a file away from some content.

    parallel: earlier departures on which it does not build, the newest first. On one line there are none, so a long
    line asks `Ancestry` once for each departure.
    """

    commit: int
    parallel: tuple[int, ...]


def _parallel_departures(
    ancestry: Ancestry, departures: Sequence[_Departure], commit: int
) -> tuple[int, ...]:
    """Return the departures on which `commit` does not build, the newest first."""
    parallel: list[int] = []
    for each in reversed(departures):
        if ancestry.is_ancestor(each.commit, commit):
            # The commit also builds on all departures on which this one builds.
            earlier = (other for other in each.parallel if other >= departures[0].commit)
            return (*parallel, *(other for other in earlier if not ancestry.is_ancestor(other, commit)))
        parallel.append(each.commit)
    return tuple(parallel)


def _undone_departures(ancestry: Ancestry, departures: Sequence[_Departure], commit: int) -> list[int]:
    """Return the departures on which `commit` builds, without those on which another of them builds."""
    last = next((each for each in reversed(departures) if ancestry.is_ancestor(each.commit, commit)), None)
    if last is None:
        return []
    undone: list[int] = []
    for each in last.parallel:
        is_covered = any(ancestry.is_ancestor(each, later) for later in undone)
        if each >= departures[0].commit and not is_covered and ancestry.is_ancestor(each, commit):
            undone.append(each)
    return [*reversed(undone), last.commit]


@dataclass(frozen=True)
class SlotBuild:
    """A build that a slot came to hold.

    seconds: the time that it took. None where the build came from a cache, or was there already.
    """

    content: str
    place: str
    seconds: float | None


def object_masks(files: Collection[str], includes: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the objects that are compiled from each of some files, as bit masks.

    includes: pairs of a file and a path as it is written there.

    A file that no other one includes is one object. An included file stands for the objects of all files that include
    it, directly or not. A written path means the file that it leads to from the folder of the including file. Where
    there is none, it means each file whose path ends with it.
    """
    by_name: dict[str, list[str]] = {}
    for file in files:
        by_name.setdefault(posixpath.basename(file), []).append(file)
    included: dict[str, set[str]] = {}
    for file, written in includes:
        relative = posixpath.normpath(posixpath.join(posixpath.dirname(file), written))
        same_name = by_name.get(posixpath.basename(written), [])
        tail = "/" + posixpath.normpath(written).removeprefix("../")
        meant = (
            [relative] if relative in same_name else [each for each in same_name if f"/{each}".endswith(tail)]
        )
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
    """The candidates of a range, and the objects that are compiled again between any two of them."""

    def __init__(self, collapsed: CommitRange, objects: Mapping[str, int]) -> None:
        """`objects` are those that are compiled from each file on which builds depend, as bit masks."""
        node_of = {member.sha: place for place, node in enumerate(collapsed.nodes) for member in node.members}
        good = len(collapsed.nodes)
        self._made = {file: made for file, made in objects.items() if made}
        self._neighbours: list[list[tuple[int, frozenset[str]]]] = [[] for _ in range(good + 1)]
        """The neighbours of each candidate and, last, of the good end, with the files that differ.

        A candidate and its first parent are neighbours. The changes of a merge are its difference from that parent."""
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
        """Return the fewest objects that are compiled again at each place after a build of one of `nodes`.

        Shape [n + 1].
        """
        return np.min([self.objects_from(node) for node in nodes], axis=0)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Says what a probe builds and runs: one commit of a repository, with others held at fixed commits.

    content: the key of all that can change the result. Targets of equal content are the same.
    """

    repository: str
    commit: str
    held: Mapping[str, str]
    content: str


@dataclass(frozen=True, kw_only=True)
class Range:
    """A repository between two of its commits, with the repositories in `held` kept at fixed commits.

    In the search for a regression, the old end is good and the new one bad. In the search for a fix, the old end is bad
    and the new one good.
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
    """Files and folders of which a candidate touches at least one. Without any, each commit may be a candidate."""
    seeks: Seeks = Seeks.REGRESSION
    first_parent: bool = False
    """Whether branches that were merged within the range are left out. Each is represented by its merge."""

    def followed_parents(self, commit: Commit) -> Sequence[str]:
        """Return the parents of a commit along which the search goes."""
        return commit.parents[:1] if self.first_parent else commit.parents

    def other_side_error(self, ancestor: str, *, role: str, old: str) -> EndsError:
        """Return the error that a common ancestor has the new end's result, so the change lies on the old end's side.

        role: what the ancestor is, such as "merge base". old: the old end, as the user named it.
        """
        if self.seeks is Seeks.REGRESSION:
            old_name, new_name, result, change = "good", "bad", "fails", "fixed"
            ends = f"--find-fix --bad {ancestor} --good {old}"
        else:
            old_name, new_name, result, change = "bad", "good", "passes", "introduced"
            ends = f"--good {ancestor} --bad {old}"
        return EndsError(
            f"the {role} {ancestor[:12]} of {old_name} {old[:12]} and {new_name} {self.new[:12]} {result} too: the "
            f"failure was {change} on the side of {old[:12]}; to find the commit, ask with {ends}"
        )


MAX_COMMITS = 16_384
"""A range of more commits is read in parts. Git compares the trees of each commit that is read with its parent's."""


def is_long(commits: int) -> bool:
    """Return whether so many commits are too many to be read at once."""
    return commits > MAX_COMMITS


class Outline:
    """The ids and the parents of all commits of a range, without what they change.

    shas: the ids of the commits, parents before children.
    chains: the commits by their places in `shas`.
    """

    def __init__(self, lines: Sequence[str], *, first_parent: bool) -> None:
        """`lines` are those of `GitRepository.list_commits`."""
        self.shas = [line.partition(" ")[0] for line in lines]
        self._places = {sha: place for place, sha in enumerate(self.shas)}
        child, parent = array("q"), array("q")
        for place, line in enumerate(lines):
            parents = line.split(" ")[1 : 2 if first_parent else None]
            inside = [self._places[sha] for sha in parents if sha in self._places]
            child.extend([place] * len(inside))
            parent.extend(inside)
        self.chains = Chains(len(lines), *(np.array(each, dtype=np.int64) for each in (child, parent)))

    def place(self, sha: str) -> int | None:
        """Return the place of a commit. None where it lies outside of the range."""
        return self._places.get(sha)


@dataclass(frozen=True, kw_only=True)
class LoadedRange:
    """A range with its commits. Node i of `commit_range` is commit i of `graph`.

    A very long range is read in parts. Then a stretch of it that was not read is one node, which its last commit
    represents.

    contents: the content key of each commit, None where it pins no submodule.
    old_content, new_content: the content keys of the two ends.
    """

    range: Range
    commits: tuple[Commit, ...]
    contents: Mapping[str, str | None]
    old_content: str
    new_content: str
    commit_range: CommitRange
    graph: CommitGraph
    windows: Windows
    """The windows between a change and the commit that undoes it."""
    earlier_skips: Mapping[str, tuple[CompilerError, ...]] = field(
        default_factory=dict[str, tuple[CompilerError, ...]]
    )
    """Contents that other bisections of the store could not build at their last try, with the errors."""
    earlier_builds: tuple[tuple[SlotBuild, ...], ...] = ()
    """The builds of other bisections of the store that share contents with the range, each in the order of the
    starts."""
    builds: Mapping[str, str] = field(default_factory=dict[str, str])
    """The key of the inputs of each content's build, where it is known. Contents with equal keys share a build.

    A content without a key has a build of its own."""
    objects: Mapping[str, int] = field(default_factory=dict[str, int])
    """The objects that are compiled from each file (`object_masks`). Empty where nothing is compiled."""
    unrelated: frozenset[str] = frozenset()
    """The commits that touch none of the range's paths.

    Their results are taken to be those of the commits that represent them, whatever their content."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """The release for which each commit stands."""
    left_out: frozenset[str] = frozenset()
    """The commits that `remove_candidates` removed. They lie on lines that were forked before the range, and behave
    like its new end."""
    outline: Outline | None = None
    """All commits of the range. None where all of them were read."""
    opened: tuple[str, ...] = ()
    """The last commits of the stretches that were opened, as in `AskRange`."""
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The parents on which commits build in the search, where these are not all of their own.

    A commit may build on a stretch that was not read, or only the first parent of a merge may count."""

    @cached_property
    def unread_counts(self) -> Integers:
        """Return for each node the number of commits that were not read. Shape [n]."""
        return np.array([node.unread for node in self.commit_range.nodes], dtype=np.int64)

    @cached_property
    def unread(self) -> int:
        """Return the number of commits of the range that were not read."""
        return int(self.unread_counts.sum())

    @property
    def commit_count(self) -> int:
        """Return the number of all commits of the range."""
        return len(self.commits) + self.unread

    @property
    def candidate_count(self) -> int:
        """Return the number of commits that can change the result. Each unread commit counts as one."""
        return len(self.commit_range.nodes) + self.unread

    def count_candidates(self, among: Mask) -> int:
        """Return the number of candidates among some nodes, of shape [n]. Each unread commit counts as one."""
        return int(among.sum() + self.unread_counts[among].sum())

    @cached_property
    def prior(self) -> Prior | None:
        """Return how likely each node is to blame before any run. None where each stands for one candidate."""
        return prior_by_size(1.0 + self.unread_counts.astype(np.float64))

    @cached_property
    def candidates(self) -> tuple[str, ...]:
        """Return the commit that represents each node."""
        return tuple(node.commit.sha for node in self.commit_range.nodes)

    def build_of(self, content: str) -> str:
        """Return the key of the inputs of a content's build. A content from outside of the range is its own key."""
        return self.builds.get(content, content)

    @cached_property
    def _numbered_builds(self) -> tuple[Integers, Mapping[str, int]]:
        """Return the number of each place's build, -1 where a place has nothing to run, and the number of each key.

        The places are the candidates and, last, the old end.
        """
        numbers: dict[str, int] = {}
        places = [
            -1 if content is None else numbers.setdefault(self.build_of(content), len(numbers))
            for content in (*self.candidate_contents, self.old_content)
        ]
        return np.array(places, dtype=np.int64), numbers

    def places_with_build(self, built: Iterable[str]) -> Mask:
        """Return which candidates and, last, whether the old end have one of some builds. Shape [n + 1]."""
        places, numbers = self._numbered_builds
        is_built = np.zeros(len(numbers) + 1, dtype=np.bool_)
        is_built[[numbers[build] for build in built if build in numbers]] = True
        return is_built[places]

    def count_builds(self, *, without: Iterable[str]) -> int:
        """Return the number of different builds of all candidates and the old end, without some of them."""
        numbers = self._numbered_builds[1]
        return len(numbers) - sum(build in numbers for build in {*without})

    @cached_property
    def known_builds(self) -> frozenset[str]:
        """Return the keys of the builds that earlier bisections made, which are probably still there."""
        return frozenset(self.build_of(build.content) for builds in self.earlier_builds for build in builds)

    @cached_property
    def earlier_seconds(self) -> tuple[float, ...]:
        """Return the seconds that the builds of earlier bisections took."""
        timed = (build.seconds for builds in self.earlier_builds for build in builds)
        return tuple(seconds for seconds in timed if seconds is not None)

    @cached_property
    def recompiled_objects(self) -> RecompiledObjects | None:
        """Return the objects that are compiled again between any two candidates. None where that is unknown."""
        return RecompiledObjects(self.commit_range, self.objects) if self.objects else None

    @cached_property
    def node_of_content(self) -> Mapping[str, int]:
        """Return the candidate, or the good end, that has each content."""
        nodes = {content: node for node, content in enumerate(self.candidate_contents) if content is not None}
        return {self.old_content: GOOD_END} | nodes

    @cached_property
    def merges_of_old_end(self) -> frozenset[int]:
        """Return the candidates with a parent in the range that have the old end, or what is folded into it, as
        another parent."""
        old = {self.range.old, *(commit.sha for commit in self.commit_range.good_side)}
        return frozenset(
            place
            for place, node in enumerate(self.commit_range.nodes)
            if self.graph.parents[place] and not old.isdisjoint(self.range.followed_parents(node.commit))
        )

    @cached_property
    def candidate_contents(self) -> tuple[str | None, ...]:
        """Return the content of each node. None where it has nothing to run."""
        return tuple(self.contents[sha] for sha in self.candidates)


def search_outcome(judgement: Judgement, seeks: Seeks) -> Outcome:
    """Return the outcome of a judged probe for the search of a range. BAD means that it behaves like the new end."""
    if judgement is Judgement.SKIP:
        return Outcome.SKIP
    return Outcome.BAD if (judgement is Judgement.BAD) == (seeks is Seeks.REGRESSION) else Outcome.GOOD


def candidates_on_line(graph: CommitGraph, first: int, *, joined: Container[int]) -> frozenset[int]:
    """Return the candidates that build on nothing in the range except a line that begins with `first`.

    The line ends where it is merged into another. The candidates `joined` build on the old end, too.
    """
    on_line: set[int] = {first}
    for node in range(first + 1, len(graph)):
        parents = graph.parents[node]
        if parents and node not in joined and all(parent in on_line for parent in parents):
            on_line.add(node)
    return frozenset(on_line)


def remove_candidates(loaded: LoadedRange, left_out: Collection[int]) -> LoadedRange:
    """Return the range without some of its candidates. Their children then build on the good side.

    Candidates that lead to the bad end through these alone are removed too.

    Raises `ValueError` where the bad end is left out.
    """
    if loaded.graph.bad in left_out:
        raise ValueError("expected to keep the bad end of the range, found it among what is left out")
    leading = {loaded.graph.bad}
    for node in range(loaded.graph.bad, -1, -1):
        if node in leading:
            leading.update(parent for parent in loaded.graph.parents[node] if parent not in left_out)
    kept = sorted(leading)
    place = {node: index for index, node in enumerate(kept)}
    parents = tuple(
        tuple(place[parent] for parent in loaded.graph.parents[node] if parent in place) for node in kept
    )
    nodes = tuple(loaded.commit_range.nodes[node] for node in kept)
    gone = {
        member.sha
        for node, group in enumerate(loaded.commit_range.nodes)
        if node not in leading
        for member in group.members
    }
    return replace(
        loaded,
        commits=tuple(commit for commit in loaded.commits if commit.sha not in gone),
        left_out=loaded.left_out | gone,
        commit_range=CommitRange(
            nodes=nodes, parents=parents, bad=place[loaded.graph.bad], good_side=loaded.commit_range.good_side
        ),
        graph=CommitGraph(parents, [node.commit.date.timestamp() for node in nodes]),
        windows=loaded.windows.renumber(place),
    )


def describe_stage(repository: str, *, commits: int, candidates: int) -> str:
    """Return how many commits a range has, and how many of them can change the result."""
    text = f"{repository}: {plural(commits, 'commit')} in the range"
    return text if candidates == commits else f"{text}, {candidates} that can change the result"
