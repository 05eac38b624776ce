"""The range between good and bad as a graph of commits that can differ in result."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from ...store.commit import Commit

_GOOD_SIDE = -1
_REVERT = re.compile(r'Revert "(.*)"')
_PULL_REQUEST = re.compile(r" \(#\d+\)$")
"""What a squash merge puts behind a subject."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """Commits of equal content that follow one another. Only the first can have changed anything."""

    members: tuple[Commit, ...]

    @property
    def commit(self) -> Commit:
        """The candidate, which stands for all members."""
        return self.members[0]


@dataclass(frozen=True, kw_only=True)
class CommitRange:
    """The nodes of `good..bad`, parents before children.

    `parents[i]` are the nodes that node i builds on; what builds on the good side alone has none. `bad` is the node of
    the bad end. `good_side` are commits whose content equals that of the good side.
    """

    nodes: tuple[Node, ...]
    parents: tuple[tuple[int, ...], ...]
    bad: int
    good_side: tuple[Commit, ...]

    @property
    def collapsed(self) -> int:
        """How many commits need no test of their own."""
        return len(self.good_side) + sum(len(node.members) - 1 for node in self.nodes)


def touches(commit: Commit, paths: Sequence[str]) -> bool:
    """Whether a commit changes one of these files, or a file below one of these folders, against its first parent; any
    commit does where there are none."""
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

    `commits` are those of `good..bad`, parents first, the bad end last; `content` gives the key of any commit, parents
    outside of the range included. None where nothing is left: the bad end equals the good side.

    A merge is folded too when all its parents lie in one node, and equal it, or when it equals a parent that builds on
    all nodes of the others, and on the same commits before the range: it joins nothing to it, and a run of either would
    count for both. Any other merge stays: folding it could hide that one side undid the other. What is in `skip` is
    never run, and so stands for no commit that can be. What is in `elsewhere` is folded into its first parent, but for
    the bad end, and for merges of another line of candidates.
    """
    folding = _Folding(content, skip=skip, elsewhere=frozenset(elsewhere) - {commits[-1].sha})
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


class _Folding:
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
        self._lines: list[int] = []
        """What each node builds on, itself included, as bits."""
        self._before: dict[str, frozenset[str]] = {}
        """On which commits from before the range each one builds first."""

    def take(self, commit: Commit) -> None:
        """Fold a commit, or begin a node with it."""
        below = sorted({self.place.get(parent, _GOOD_SIDE) for parent in commit.parents})
        self._before[commit.sha] = self._before_all(commit.parents)
        node = self._stands_for(commit, below)
        if node is not None:
            self.place[commit.sha] = node
            (self.good_side if node == _GOOD_SIDE else self.members[node]).append(commit)
            return
        self.place[commit.sha] = len(self.members)
        self.members.append([commit])
        self.parents.append(tuple(index for index in below if index != _GOOD_SIDE))
        self._lines.append(self._bits(below) | 1 << self.place[commit.sha])

    def _stands_for(self, commit: Commit, below: Sequence[int]) -> int | None:
        """The node that a commit is folded into; None where it begins one."""
        if not commit.parents:
            return None
        first = self.place.get(commit.parents[0], _GOOD_SIDE)
        if commit.sha not in self._skip and first != _GOOD_SIDE and self.members[first][0].sha in self._skip:
            return None
        if len(below) == 1 and self._content(commit.sha) == self._content(commit.parents[0]):
            return first
        if (joined := self._joins_nothing(commit, below)) is not None:
            return joined
        covered = self._bits(below) & ~self._bits((first,)) == 0
        return first if covered and commit.sha in self._elsewhere else None

    def _joins_nothing(self, commit: Commit, below: Sequence[int]) -> int | None:
        """The node of a parent of equal content that builds on the nodes of all others; None where there is none, or
        it stands for what is never run."""
        good_side = [parent for parent in commit.parents if self.place.get(parent, _GOOD_SIDE) == _GOOD_SIDE]
        before = self._before_all(good_side)
        for parent in commit.parents:
            node = self.place.get(parent, _GOOD_SIDE)
            if node == _GOOD_SIDE or self.members[node][0].sha in self._skip:
                continue
            covered = not self._bits(below) & ~self._lines[node] and before <= self._before[parent]
            if covered and self._content(commit.sha) == self._content(parent):
                return node
        return None

    def _before_all(self, shas: Sequence[str]) -> frozenset[str]:
        """On which commits from before the range some commits build first: themselves, where they are some. What one of
        them has is not copied: of a long range most merges add nothing."""
        each = [self._before.get(sha, frozenset({sha})) for sha in shas]
        most = max(each, key=len, default=frozenset[str]())
        return most if all(those <= most for those in each) else most.union(*each)

    def _bits(self, nodes: Iterable[int]) -> int:
        """All that some nodes build on; the good side counts as nothing."""
        bits = 0
        for node in nodes:
            bits |= self._lines[node] if node != _GOOD_SIDE else 0
        return bits


@dataclass(frozen=True, kw_only=True)
class Undoing:
    """Commit `undoing` undoes what `changing` did. `said`: its subject is git's own for a revert of it."""

    changing: str
    undoing: str
    said: bool


def undone(commits: Sequence[Commit]) -> list[Undoing]:
    """Pairs of commits of which the later one reverts the earlier one, or brings a file of it back to what it was.

    `commits` come parents first; whether one follows the other is for the caller to see.
    """
    changed: dict[str, list[tuple[str, str]]] = {}
    by_subject: dict[str, str] = {}
    pairs: dict[tuple[str, str], bool] = {}
    for commit in commits:
        for change in commit.changes:
            before = changed.setdefault(change.path, [])
            pairs |= {(sha, commit.sha): False for sha, old in before if old == change.new_object}
            before.append((commit.sha, change.old_object))
        subject = _PULL_REQUEST.sub("", commit.subject)
        reverted = _REVERT.fullmatch(subject)
        if reverted is not None and (changing := by_subject.get(_PULL_REQUEST.sub("", reverted[1]))):
            pairs[changing, commit.sha] = True
        by_subject[subject] = commit.sha
    return [
        Undoing(changing=changing, undoing=undoing, said=said) for (changing, undoing), said in pairs.items()
    ]
