"""A commit that changes how its case measures: the same commit with the yardstick of its parent, and the reverse."""

from collections.abc import Collection
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from ...runner.case.yardstick import exchanged
from ...runner.git.repository import GitRepository
from ...store.commit import MAKER, MAKER_EMAIL
from .moved_yardstick import MovedYardstick

_IDENTITY = ("-c", f"user.name={MAKER}", "-c", f"user.email={MAKER_EMAIL}")


def moved_yardstick(
    clone: GitRepository, path: PurePosixPath, names: Collection[str], *, old: str, new: str
) -> MovedYardstick | None:
    """The exchange between a commit and its parent; None where the case at `path` measures alike at both, or that
    cannot be told from the rest of it."""
    texts = [clone.read_text(sha, str(path)) for sha in (old, new)]
    if texts[0] is None or texts[1] is None or texts[0] == texts[1]:
        return None
    exchange = exchanged(texts[0], texts[1], names, path)
    if exchange is None:
        return None
    return MovedYardstick(
        changes=exchange.changes,
        new_with_old=_with_file(clone, new, path, exchange.new_with_old, of=old),
        old_with_new=_with_file(clone, old, path, exchange.old_with_new, of=new),
    )


def _with_file(clone: GitRepository, sha: str, path: PurePosixPath, text: str, *, of: str) -> str:
    """A commit of the private clone that is another one but for this text of a file."""
    (entry,) = clone.tree(sha, (f":(top,literal){path}",))
    with TemporaryDirectory() as folder:
        file, root = Path(folder) / "text", Path(folder) / "tree"
        file.write_bytes(text.encode())
        blob = clone.run("hash-object", "-w", "--no-filters", str(file))
        clone.run("worktree", "add", "--quiet", "--detach", "--no-checkout", str(root), sha)
        try:
            worktree = GitRepository(root)
            worktree.run("read-tree", sha)
            worktree.run("update-index", "--cacheinfo", f"{entry.mode},{blob},{path}")
            tree = worktree.run("write-tree")
            about = f"{path.name} of {sha[:12]} that measures as at {of[:12]}"
            commit = worktree.run(*_IDENTITY, "commit-tree", tree, "-p", sha, "-m", about)
        finally:
            clone.run("worktree", "remove", "--force", str(root))
    clone.run("update-ref", f"refs/yardsticks/{commit}", commit)
    return commit
