"""Which renames a commit has made: its own, and those of what it builds on."""

from collections.abc import Mapping, Sequence

from ....store.commit import Commit
from ...stack.parts import Rename
from ..repository import GitError, GitRepository


def renames_name(repository: str) -> str:
    """How the renames that a repository's revision has made are named among revisions; their value is the ids of the
    commits that made them, parted by blanks."""
    return f"{repository}+renames"


def is_made(rename: Rename, revisions: Mapping[str, str]) -> bool:
    """Whether a revision has a rename's new name."""
    return rename.commit in revisions.get(renames_name(rename.repository), "").split()


class MadeRenames:
    """Finds the renames that belong to a revision."""

    def __init__(self, renames: Sequence[Rename], repositories: Mapping[str, GitRepository]) -> None:
        self._commits: dict[str, list[str]] = {}
        for rename in renames:
            commits = self._commits.setdefault(rename.repository, [])
            commits += [rename.commit] if rename.commit not in commits else []
        self._repositories = repositories
        self._known: dict[tuple[str, str], bool] = {}

    def learn(self, repository: str, history: Sequence[Commit]) -> None:
        """Follow the renames of a history, parents first, without asking git for each commit."""
        for made in self._commits.get(repository, ()):
            for commit in history:
                self._known[made, commit.sha] = made == commit.sha or any(
                    self._has(repository, parent, made) for parent in commit.parents
                )

    def of(self, revisions: Mapping[str, str]) -> dict[str, str]:
        """What goes with some revisions, by `renames_name`."""
        found = {
            repository: [made for made in commits if self._has(repository, revisions[repository], made)]
            for repository, commits in self._commits.items()
        }
        return {renames_name(repository): " ".join(made) for repository, made in found.items() if made}

    def _has(self, repository: str, sha: str, made: str) -> bool:
        if (made, sha) not in self._known:
            try:
                self._known[made, sha] = self._repositories[repository].is_ancestor(made, sha)
            except GitError:
                # A commit that cannot be had is told of when its content is read.
                return False
        return self._known[made, sha]
