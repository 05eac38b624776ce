"""The range between good and bad as a graph of commits that can differ in result."""

import re
from collections.abc import Callable, Collection, Sequence
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


def collapse(
    commits: Sequence[Commit], content: Callable[[str], str], *, skip: Collection[str] = ()
) -> CommitRange | None:
    """Fold each commit whose content equals that of its only parent into it.

    `commits` are those of `good..bad`, parents first, the bad end last; `content` gives the key of any commit, parents
    outside of the range included. None where nothing is left: the bad end equals the good side.

    A merge is folded too when all its parents lie in one node, and equal it. Any other merge stays: folding it could
    hide that one side undid the other. What is in `skip` is never run, and so stands for no commit that can be.
    """
    place: dict[str, int] = {}
    members: list[list[Commit]] = []
    parents: list[tuple[int, ...]] = []
    good_side: list[Commit] = []
    for commit in commits:
        below = sorted({place.get(parent, _GOOD_SIDE) for parent in commit.parents})
        untested = commit.sha not in skip and any(
            members[index][0].sha in skip for index in below if index != _GOOD_SIDE
        )
        if len(below) == 1 and not untested and content(commit.sha) == content(commit.parents[0]):
            place[commit.sha] = below[0]
            (good_side if below[0] == _GOOD_SIDE else members[below[0]]).append(commit)
            continue
        place[commit.sha] = len(members)
        members.append([commit])
        parents.append(tuple(index for index in below if index != _GOOD_SIDE))
    bad = place[commits[-1].sha]
    if bad == _GOOD_SIDE:
        return None
    return CommitRange(
        nodes=tuple(Node(members=tuple(group)) for group in members),
        parents=tuple(parents),
        bad=bad,
        good_side=tuple(good_side),
    )


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
