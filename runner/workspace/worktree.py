"""A folder of a slot in which a private clone has a commit checked out."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..git.repository import GitError, GitRepository


@dataclass(frozen=True)
class Worktree:
    """The folder `path`, which is, or is to be, a worktree of `clone`."""

    path: Path
    clone: GitRepository

    def is_there(self) -> bool:
        """Whether the folder is a worktree of the clone."""
        return self._administration() is not None

    def check_out(self, sha: str, *, kept: Sequence[str] = ()) -> None:
        """Put it at a commit, and remove all else but the gitignore patterns `kept`. Raises `GitError`."""
        # Nobody else works here, so a lock is that of a git that was killed.
        for lock in (self._administration() or self.path).glob("*.lock"):
            lock.unlink()
        worktree = GitRepository(self.path)
        worktree.run("checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules", sha)
        # Twice forced, for repositories that a build has cloned are left alone otherwise.
        worktree.run("clean", "-xffd", "--quiet", *(f"--exclude={path}" for path in kept))

    def make(self, sha: str) -> None:
        """Make it anew, at a commit."""
        remove(self.path)
        self.clone.run("worktree", "prune")
        self.clone.run("worktree", "add", "--force", "--force", "--detach", str(self.path), sha)

    def bring(self, sha: str) -> None:
        """Put it at a commit, and remove all else, whatever state it is in."""
        if self.is_there():
            # A worktree that a kill left half-written is not worth repairing.
            with suppress(GitError):
                self.check_out(sha)
                return
        self.make(sha)

    def _administration(self) -> Path | None:
        """Where the clone keeps the worktree's state; None where the folder is no worktree of it.

        Git would take such a folder for a part of whatever repository lies around it.
        """
        try:
            kind, _, text = (self.path / ".git").read_text().strip().partition(" ")
        except (OSError, ValueError):
            return None
        place = Path(text)
        ours = (self.clone.path / "worktrees").resolve()
        return place if kind == "gitdir:" and place.is_dir() and place.resolve().parent == ours else None


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
