"""The private clones of one stack, and its pool of slots.

The user's checkouts are never touched. Each repository has one private bare repository whose object store borrows the
user's objects (git alternates); slots are worktrees of repositories of their own that borrow the clones'.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from ..errors import UserError
from ..git.repository import GitError, GitRepository
from ..process.lock import ProcessLock
from ..stack.stack import Stack
from .borrowing import private_clone
from .home import Home
from .slot import LOCK, Slot


class MissingCommitError(UserError):
    """A commit is neither on this machine nor at the remote."""


class Workspace:
    """The private clones of one stack, and its pool of slots."""

    def __init__(self, stack: Stack, home: Home) -> None:
        self.stack = stack
        self.repositories = {
            name: GitRepository.open_root(repository.path, name=name)
            for name, repository in stack.repositories.items()
        }
        self._home = home
        self.clones_folder = home.clones
        self._present: set[tuple[str, str]] = set()
        self._missing: dict[tuple[str, str], str] = {}
        paths = json.dumps({name: str(git.common_directory) for name, git in self.repositories.items()})
        self._pool = home.slots / f"{stack.name}-{hashlib.sha256(paths.encode()).hexdigest()[:12]}"

    @cached_property
    def clones(self) -> Mapping[str, GitRepository]:
        """Private repositories that see the user's objects, and those that had to be fetched. Raises `UserError`."""
        try:
            self._home.make_cache()
            return {
                name: private_clone(
                    self.clones_folder, repository, submodules=self.stack.repositories[name].submodules
                )
                for name, repository in self.repositories.items()
            }
        except OSError as error:
            raise _unwritable(self.clones_folder, error) from error

    def acquire(self) -> Slot:
        """The first slot that nobody uses. It is locked until released, or until this process ends.

        Raises `UserError`.
        """
        try:
            index = 0
            while (lock := self._lock(index)) is None:
                index += 1
        except OSError as error:
            raise _unwritable(self._pool, error) from error
        return Slot(
            index=index, directory=self._pool / str(index), stack=self.stack, clones=self.clones, lock=lock
        )

    def _lock(self, index: int) -> ProcessLock | None:
        """The lock of a slot, held; None where somebody else holds it."""
        directory = self._pool / str(index)
        directory.mkdir(parents=True, exist_ok=True)
        lock = ProcessLock(directory / LOCK)
        return lock if lock.acquire(blocking=False) else None

    def ensure_commit(self, repository: str, sha: str) -> None:
        """Make a commit's objects available to the private clone; what is not on this machine is fetched, or asked
        for once.

        Raises `MissingCommitError` where it cannot be had.
        """
        clone = self.clones[repository]
        if (repository, sha) in self._present or clone.has_commit(sha):
            self._present.add((repository, sha))
            return
        path = self.repositories[repository].path
        if (repository, sha) not in self._missing:
            url = self.repositories[repository].remote_url()
            if url is None:
                self._missing[repository, sha] = "it has no remote named origin"
            else:
                try:
                    clone.run("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", url, sha)
                except GitError as error:
                    self._missing[repository, sha] = str(error)
                else:
                    return
        raise MissingCommitError(
            f"{repository}: expected commit {sha} in {path}, found none, and could not fetch it "
            f"({self._missing[repository, sha]}); fetch it there first"
        )


def _unwritable(folder: Path, error: OSError) -> UserError:
    return UserError(
        f"{error.filename or folder}: expected to be able to write here: {error.strerror or error}; "
        "free space or set PRECISION_BISECT_HOME to a folder with room"
    )
