"""Which commit of every repository belongs to a probe."""

from collections.abc import Mapping, Sequence

from .errors import UserError
from .git import CommitInfo, GitRepository
from .stack import Stack

_GITLINK_MODE = "160000"


class NoPinError(UserError):
    """A commit pins no commit of a submodule that the stack expects there."""


class Revisions:
    """Extends a commit of one repository to commits of all."""

    def __init__(
        self, stack: Stack, repositories: Mapping[str, GitRepository], fixed: Mapping[str, str]
    ) -> None:
        """`fixed` gives the commits of repositories that are neither searched nor pinned."""
        self._stack = stack
        self._repositories = repositories
        self._fixed = fixed
        self._links: dict[tuple[str, str, str], str | None] = {}

    def complete(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """The commit of every repository: the chosen one, else what its holder pins, else the fixed one.

        Raises `NoPinError`.
        """
        revisions: dict[str, str] = {}

        def revision(name: str) -> str:
            if name not in revisions:
                link = self._stack.gitlinks.get(name)
                if name in chosen:
                    revisions[name] = chosen[name]
                elif link is None:
                    revisions[name] = self._fixed[name]
                else:
                    holder = revision(link.holder)
                    pinned = self.gitlink(link.holder, holder, link.path)
                    if pinned is None:
                        raise NoPinError(
                            f"{link.holder} {holder[:12]}: expected a submodule at {link.path}, found none"
                        )
                    revisions[name] = pinned
            return revisions[name]

        for name in self._stack.repositories:
            revision(name)
        return revisions

    def gitlink(self, holder: str, sha: str, path: str) -> str | None:
        """The commit that a submodule is pinned to."""
        key = (holder, sha, path)
        if key not in self._links:
            self._links[key] = self._repositories[holder].gitlink(sha, path)
        return self._links[key]

    def learn(self, repository: str, history: Sequence[CommitInfo]) -> None:
        """Follow the pins of a history, parents first, without asking git for each commit."""
        for pin in self._stack.gitlinks.values():
            if pin.holder != repository:
                continue
            for commit in history:
                if not commit.parents:
                    continue
                value = self.gitlink(repository, commit.parents[0], pin.path)
                for change in commit.changes:
                    if change.path == pin.path:
                        value = change.new_object if change.new_mode == _GITLINK_MODE else None
                self._links[repository, commit.sha, pin.path] = value


def fixed_revisions(
    stack: Stack, repositories: Mapping[str, GitRepository], *, searched: str
) -> dict[str, str]:
    """The commits, by the stack file's `revision`, of what is neither searched nor pinned. Raises `UserError`."""
    return {
        name: repositories[name].resolve(repository.revision, option=f"repositories.{name}.revision")
        for name, repository in stack.repositories.items()
        if name != searched and name not in stack.gitlinks
    }
