"""Patches that unbreak a stretch of history: the change of one commit, made on top of others where they are tested."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from ..errors import UserError
from ..stack.parts import Model
from .made_commits import IDENTITY
from .repository import GitError, GitRepository

_CONFLICTS = 1
"""The exit code of `git merge-tree` where a merge has conflicts."""


class CherryPick(Model):
    """The change of `commit` is made on top of each commit of `old..new`, of the same repository. Full ids."""

    commit: str
    old: str
    new: str


class PatchConflictError(UserError):
    """A patch does not apply at a commit."""


def patch_name(repository: str) -> str:
    """How the patches of a repository are named among revisions; their value is the ids, parted by blanks."""
    return f"{repository}+cherry-picks"


def patches_in(revisions: Mapping[str, str], repository: str) -> list[str]:
    """The commits that are picked on top of a repository's revision, in order."""
    return revisions.get(patch_name(repository), "").split()


class CherryPicks:
    """Which commits of one repository are tested with which patches."""

    def __init__(self, picks: Sequence[CherryPick], *, repository: str, git: GitRepository) -> None:
        self.repository = repository
        self._picks = picks
        self._git = git

    def at(self, sha: str) -> list[str]:
        """The commits to pick on top of a commit, in the order in which they were given."""
        return [
            pick.commit for pick, stretch in zip(self._picks, self._stretches, strict=True) if sha in stretch
        ]

    @cached_property
    def _stretches(self) -> list[frozenset[str]]:
        return [
            frozenset(self._git.run("rev-list", f"{pick.old}..{pick.new}", "--").split())
            for pick in self._picks
        ]


def applies_to(clone: GitRepository, change: str, commits: Sequence[str]) -> tuple[str, ...] | None:
    """Those of some commits on top of which a commit's change can be made; None where git, before 2.38, cannot merge
    without a worktree. `clone` is a private repository, which is given commits that nothing refers to."""

    def of_tree(commit: str, *parents: str) -> str:
        named = (word for parent in parents for word in ("-p", parent))
        return clone.run(*IDENTITY, "commit-tree", f"{commit}^{{tree}}", *named, "-m", commit)

    # What git merges has to share a parent: that of the change is put before both.
    before = of_tree(f"{change}^")
    after = of_tree(change, before)
    applies: list[str] = []
    for commit in commits:
        try:
            clone.run("merge-tree", "--write-tree", of_tree(commit, before), after)
        except GitError as error:
            if error.status != _CONFLICTS:
                return None
        else:
            applies.append(commit)
    return tuple(applies)


def apply_patch(worktree: GitRepository, sha: str) -> None:
    """Make a commit's change in a worktree, without a commit. Raises `PatchConflictError`."""
    try:
        worktree.run("cherry-pick", "--no-commit", "--no-rerere-autoupdate", sha)
    except GitError as error:
        conflicts = worktree.run("diff", "--name-only", "--diff-filter=U", "-z").split("\0")
        where = f" in {', '.join(filter(None, conflicts))}" if any(conflicts) else f": {error}"
        raise PatchConflictError(f"{sha[:12]} does not apply{where}") from error
