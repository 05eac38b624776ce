"""Commits that private clones get beside those of the user's repositories."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ...store.commit import MAKER, MAKER_EMAIL
from .repository import GitRepository

IDENTITY = ("-c", f"user.name={MAKER}", "-c", f"user.email={MAKER_EMAIL}")
"""Who makes them."""


@contextmanager
def bare_worktree(clone: GitRepository, sha: str) -> Generator[GitRepository]:
    """A worktree of a private clone for a while, at a commit, without files and with an empty index."""
    with TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        clone.run("worktree", "add", "--quiet", "--detach", "--no-checkout", str(root), sha)
        try:
            worktree = GitRepository(root)
            worktree.run("read-tree", "--empty")
            yield worktree
        finally:
            clone.run("worktree", "remove", "--force", str(root))


def commit_index(worktree: GitRepository, about: str, *, parents: tuple[str, ...] = ()) -> str:
    """The commit of what is in a worktree's index. Its name follows from that, and from when it is made."""
    named = (word for parent in parents for word in ("-p", parent))
    return worktree.run(*IDENTITY, "commit-tree", worktree.run("write-tree"), *named, "-m", about)
