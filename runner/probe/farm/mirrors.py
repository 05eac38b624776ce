"""Commits of a driver's repositories at a host: what a host lacks travels as packs of git.

A mirror holds the whole history of what was sent, for a build may ask git about it; after the first pack only what is
new travels.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from ....store.files import write_whole
from ...git.repository import GitRepository
from ...workspace.home import Home

_MOST_TOLD = 20
"""Commits that a host says it has: newer packs build on one of the last."""


@dataclass(frozen=True)
class NeededCommits:
    """Commits that a probe needs of one repository. `mirror` names the repository at hosts, `boundary` are the commits
    at which a shallow clone ends."""

    mirror: str
    boundary: tuple[str, ...]
    hashes: str
    """The kind of commit ids, `sha1` or `sha256`."""
    commits: tuple[str, ...]

    @classmethod
    def of(cls, clone: GitRepository, commits: Collection[str], *, stack: str, name: str) -> "NeededCommits":
        """Those of a driver's private clone of the repository `name`."""
        boundary = tuple(sorted(clone.boundary))
        hashes = clone.run("rev-parse", "--show-object-format")
        # History that ends elsewhere is another history: mixed, it would be cut where one of them is.
        end = f"-{hashlib.sha256(' '.join(boundary).encode()).hexdigest()[:12]}" if boundary else ""
        return cls(f"{stack}-{name}-{hashes}{end}", boundary, hashes, tuple(dict.fromkeys(commits)))


@dataclass(frozen=True)
class LackedCommits:
    """Those of the needed commits that a host lacks, and some that it has."""

    commits: tuple[str, ...]
    has: tuple[str, ...]


class Mirror:
    """One repository at a host. A commit counts as there once all that it holds is."""

    def __init__(self, home: Home, needed: NeededCommits) -> None:
        self._needed = needed
        self.path = home.mirrors / needed.mirror
        self._whole = self.path / ".git" / "whole"

    def lacked(self) -> LackedCommits | None:
        """What it lacks of the needed commits; None where it has all."""
        commits = tuple(sha for sha in self._needed.commits if not (self._whole / sha).is_file())
        return LackedCommits(commits, self._newest()) if commits else None

    def _newest(self) -> tuple[str, ...]:
        if not self._whole.is_dir():
            return ()
        marks = sorted(self._whole.iterdir(), key=lambda mark: mark.stat().st_mtime_ns, reverse=True)
        return tuple(mark.name for mark in marks[:_MOST_TOLD])

    def take_in(self, pack: Path) -> None:
        """Add a pack after which the needed commits are there. Raises `OSError` and `GitError`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_name(f"{self.path.name}.lock")):
            repository = self._repository()
            repository.add_pack(pack)
            self._whole.mkdir(exist_ok=True)
            for sha in self._needed.commits:
                repository.run("cat-file", "-e", f"{sha}^{{tree}}")
                (self._whole / sha).touch()

    def _repository(self) -> GitRepository:
        repository = GitRepository(self.path)
        if not (self.path / ".git" / "shallow.known").is_file():
            self.path.mkdir(exist_ok=True)
            # No template: it may bring hooks.
            repository.run("init", "--quiet", "--template=", f"--object-format={self._needed.hashes}")
            repository.run("config", "gc.auto", "0")
            if self._needed.boundary:
                lines = "".join(f"{sha}\n" for sha in self._needed.boundary)
                write_whole(self.path / ".git" / "shallow", lines)
            (self.path / ".git" / "shallow.known").touch()
        return repository


def pack_of(clone: GitRepository, lacked: LackedCommits, target: Path) -> None:
    """Write a pack of what a host lacks, from a driver's clone. Raises `UserError`."""
    has: Sequence[str] = [sha for sha in lacked.has if clone.has_commit(sha)]
    clone.write_pack(target, wanted=lacked.commits, without=has)
