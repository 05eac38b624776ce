"""A commit that changes how its case measures: the same commit with the yardstick of its parent, and the reverse."""

from collections.abc import Collection
from pathlib import PurePosixPath

from ...runner.case.yardstick import exchanged
from ...runner.git.made_commits import bare_worktree, commit_index
from ...runner.git.repository import GitRepository, literal
from .moved_yardstick import MovedYardstick


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
    (entry,) = clone.tree(sha, (literal(str(path)),))
    about = f"{path.name} of {sha[:12]} that measures as at {of[:12]}"
    with bare_worktree(clone, sha) as worktree:
        file = worktree.path / "text"
        file.write_bytes(text.encode())
        blob = worktree.run("hash-object", "-w", "--no-filters", str(file))
        worktree.run("read-tree", sha)
        worktree.run("update-index", "--cacheinfo", f"{entry.mode},{blob},{path}")
        commit = commit_index(worktree, about, parents=(sha,))
    clone.run("update-ref", f"refs/yardsticks/{commit}", commit)
    return commit
