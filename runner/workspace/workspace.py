"""The private clones of one stack, and its pool of slots.

The user's checkouts are never touched. Each repository has one private bare repository whose object store borrows the
user's objects (git alternates); slots are worktrees of it.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from filelock import FileLock

from ...store.files import write_whole
from ..errors import UserError
from ..git.repository import GitError, GitRepository, boundary_of
from ..git.submodules import module_stores
from ..process.lock import ProcessLock
from ..stack.stack import Stack
from .home import Home
from .slot import LOCK, Slot

# Hooks and monitors that the user has configured for all repositories are not for ours. Our objects are few, and
# borrowed ones are the user's to collect.
_CLONE_SETTINGS = {"gc.auto": "0", "core.hooksPath": "/dev/null", "submodule.recurse": "false"}


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
            self._home.make()
            return {
                name: _private_clone(
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


def _private_clone(clones: Path, repository: GitRepository, *, submodules: bool) -> GitRepository:
    """A bare repository whose objects are the user's, and with `submodules` those of the checkout's submodules."""
    source = repository.common_directory
    sources = [source, *module_stores(repository)] if submodules else [source]
    key = f"{source} with submodules" if submodules else str(source)
    name = f"{repository.path.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.git"
    path = clones / name
    clones.mkdir(parents=True, exist_ok=True)
    with FileLock(clones / f"{name}.lock"):
        alternates = path / "objects" / "info" / "alternates"
        if not alternates.is_file():
            shutil.rmtree(path, ignore_errors=True)
            hashes = repository.run("rev-parse", "--show-object-format")
            # No template: it may bring hooks.
            GitRepository(clones).run(
                "init", "--quiet", "--bare", "--template=", f"--object-format={hashes}", str(path)
            )
            for setting, value in _CLONE_SETTINGS.items():
                GitRepository(path).run("config", setting, value)
            alternates.parent.mkdir(exist_ok=True)
        _share(alternates, [str(each / "objects") for each in sources])
        _share(path / "shallow", sorted({sha for each in sources for sha in boundary_of(each)}))
    return GitRepository(path)


def _share(file: Path, lines: Sequence[str]) -> None:
    """Have a file of a private clone say what is so for the user's repositories now: where their objects are, or where
    shallow ones end. They may have been deepened, or got a submodule, since."""
    text = "".join(f"{line}\n" for line in lines)
    if not text:
        file.unlink(missing_ok=True)
    elif not file.is_file() or file.read_text() != text:
        write_whole(file, text)


def _unwritable(folder: Path, error: OSError) -> UserError:
    return UserError(
        f"{error.filename or folder}: expected to be able to write here: {error.strerror or error}; "
        "free space or set PRECISION_BISECT_HOME to a folder with room"
    )
