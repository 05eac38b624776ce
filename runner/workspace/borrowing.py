"""Bare repositories of the tool's own that borrow their objects: private clones, and those of slots.

A private clone borrows the objects of a user's checkout. The worktrees of a slot belong to a repository of that slot
alone, which borrows those of the private clone, and is before each run as it was made: what a run leaves in it by name
(branches, tags, stashes, settings, hooks) reaches no other slot and no other run.
"""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from ...store.files import write_whole
from ..git.repository import GitRepository, boundary_of
from ..git.submodules import module_stores
from .worktree import remove

# Hooks and monitors that the user has configured for all repositories are not for ours. Our objects are few, and
# borrowed ones are the user's to collect.
_SETTINGS = "[gc]\n\tauto = 0\n[core]\n\thooksPath = /dev/null\n[submodule]\n\trecurse = false\n"
_KEPT = frozenset(("objects", "worktrees"))
_KEPT_OF_WORKTREE = frozenset(("HEAD", "commondir", "gitdir", "index"))


def private_clone(clones: Path, repository: GitRepository, *, submodules: bool) -> GitRepository:
    """A repository whose objects are the user's, and with `submodules` those of the checkout's submodules."""
    source = repository.common_directory
    sources = [source, *module_stores(repository)] if submodules else [source]
    key = f"{source} with submodules" if submodules else str(source)
    name = f"{repository.path.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.git"
    path = clones / name
    clones.mkdir(parents=True, exist_ok=True)
    with FileLock(clones / f"{name}.lock"):
        if not _alternates(path).is_file():
            shutil.rmtree(path, ignore_errors=True)
            _make(path, hashes=_hashes(repository))
        _borrow(path, sources)
    return GitRepository(path)


def slot_repository(path: Path, clone: GitRepository) -> GitRepository:
    """The repository of a slot that sees all commits of a private clone, with nothing of what earlier runs left in it
    but objects and the worktrees, which stay at their commits. Nobody else may use it meanwhile."""
    if path.is_dir():
        _empty(path, kept=_KEPT)
        for worktree in path.glob("worktrees/*"):
            if _is_within(worktree, path.parent):
                _empty(worktree, kept=_KEPT_OF_WORKTREE)
            else:
                remove(worktree)
    _make(path, hashes=_hashes(clone))
    _borrow(path, [clone.path])
    return GitRepository(path)


def _hashes(repository: GitRepository) -> str:
    return repository.run("rev-parse", "--show-object-format")


def _make(path: Path, *, hashes: str) -> None:
    """A repository without hooks: a template may bring some."""
    options = ("--quiet", "--bare", "--template=", f"--object-format={hashes}")
    GitRepository(path.parent).run("init", *options, str(path))
    with (path / "config").open("a", encoding="utf-8") as config:
        config.write(_SETTINGS)
    _alternates(path).parent.mkdir(exist_ok=True)


def _alternates(path: Path) -> Path:
    return path / "objects" / "info" / "alternates"


def _borrow(path: Path, sources: Sequence[Path]) -> None:
    _share(_alternates(path), [str(each / "objects") for each in sources])
    _share(path / "shallow", sorted({sha for each in sources for sha in boundary_of(each)}))


def _share(file: Path, lines: Sequence[str]) -> None:
    """Have a file of ours say what is so for the sources now: where their objects are, or where shallow ones end. They
    may have been deepened, or got a submodule, since."""
    text = "".join(f"{line}\n" for line in lines)
    if not text:
        file.unlink(missing_ok=True)
    elif not file.is_file() or file.read_text() != text:
        write_whole(file, text)


def _is_within(worktree: Path, slot: Path) -> bool:
    """Whether what a repository keeps of a worktree is of one that lies in the slot: a run may have made others."""
    try:
        link = Path((worktree / "gitdir").read_text().strip())
    except (OSError, ValueError):
        return False
    return link.is_file() and link.resolve().is_relative_to(slot.resolve())


def _empty(folder: Path, *, kept: frozenset[str]) -> None:
    for entry in folder.iterdir():
        if entry.name not in kept:
            remove(entry)
