"""Slots: worktrees and a virtual environment of our own, in which commits are checked out and built.

The user's checkouts are never touched. Each repository has one private bare repository whose object store borrows the
user's objects (git alternates); slots are worktrees of it.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import cast

from filelock import FileLock, Timeout
from git.exc import GitCommandError

from .errors import UserError
from .git import GitRepository
from .home import Home
from .stack import Stack

_BASE_PATHS = "base.pth"
_BASE_PACKAGES = (
    "import json, site, sys; "
    "print(json.dumps([p for p in site.getsitepackages() + [site.getusersitepackages()] if p in sys.path]))"
)


class Workspace:
    """The private clones of one stack, and its pool of slots."""

    def __init__(self, stack: Stack, home: Home) -> None:
        self.stack = stack
        self.repositories = {
            name: GitRepository.open(repository.path, name=name)
            for name, repository in stack.repositories.items()
        }
        self.clones_folder = home.clones
        paths = json.dumps({name: str(git.common_directory) for name, git in self.repositories.items()})
        self._pool = home.slots / f"{stack.name}-{hashlib.sha256(paths.encode()).hexdigest()[:12]}"

    @cached_property
    def clones(self) -> Mapping[str, GitRepository]:
        """Private repositories that see the user's objects, and those that had to be fetched."""
        return {
            name: _private_clone(self.clones_folder, repository)
            for name, repository in self.repositories.items()
        }

    def acquire(self) -> "Slot":
        """The first slot that nobody uses. It is locked until released, or until this process ends."""
        index = 0
        while True:
            directory = self._pool / str(index)
            directory.mkdir(parents=True, exist_ok=True)
            lock = FileLock(directory / "slot.lock", blocking=False)
            try:
                lock.acquire()
            except Timeout:
                index += 1
                continue
            return Slot(index=index, directory=directory, stack=self.stack, clones=self.clones, lock=lock)

    def ensure_commit(self, repository: str, sha: str) -> None:
        """Make a commit's objects available to the private clone; what is not on this machine is fetched.

        Raises `UserError` where it cannot be had.
        """
        clone = self.clones[repository]
        if clone.has_commit(sha):
            return
        url = self.repositories[repository].remote_url()
        if url is not None:
            try:
                clone.run("fetch", "--quiet", "--no-tags", url, sha)
            except GitCommandError:
                pass
            else:
                return
        raise UserError(
            f"{repository}: expected commit {sha} in {self.repositories[repository].path}"
            f"{f' or at {url}' if url else ''}, found none; fetch it there first"
        )


class Slot:
    """One set of worktrees and one virtual environment."""

    def __init__(
        self,
        *,
        index: int,
        directory: Path,
        stack: Stack,
        clones: Mapping[str, GitRepository],
        lock: FileLock,
    ) -> None:
        self.index = index
        self.directory = directory
        self._stack = stack
        self._clones = clones
        self._lock = lock
        self._state = directory / "state.json"

    def release(self) -> None:
        """Let another run have it. What is built in it stays."""
        self._lock.release()

    def path(self, repository: str) -> Path:
        """A repository's worktree."""
        return self.directory / self._stack.directory(repository)

    @property
    def python(self) -> Path:
        """The slot's interpreter."""
        return self.directory / "venv" / "bin" / "python"

    def check_out(self, revisions: Mapping[str, str]) -> None:
        """Put every repository at its revision, and remove what earlier builds left outside of the kept paths."""
        for name in sorted(revisions, key=lambda name: len(self._stack.directory(name).parts)):
            try:
                self._check_out_one(name, revisions[name])
            except GitCommandError:
                # A worktree that a kill left half-written is not worth repairing.
                shutil.rmtree(self.path(name), ignore_errors=True)
                self._clones[name].run("worktree", "prune")
                self._check_out_one(name, revisions[name])

    def _check_out_one(self, name: str, sha: str) -> None:
        path = self.path(name)
        if not (path / ".git").exists():
            self._clones[name].run("worktree", "prune")
            self._clones[name].run("worktree", "add", "--force", "--force", "--detach", str(path), sha)
            return
        worktree = GitRepository(path)
        Path(worktree.run("rev-parse", "--absolute-git-dir"), "index.lock").unlink(missing_ok=True)
        worktree.run("checkout", "--quiet", "--force", "--detach", sha)
        worktree.run("clean", "-xfd", "--quiet", *(f"--exclude=/{kept}" for kept in self._kept(name)))

    def _kept(self, name: str) -> list[str]:
        """What cleaning spares: declared caches, and the outputs of steps (the builder looks after those)."""
        own = self._stack.directory(name)
        kept = [pattern.lstrip("/") for pattern in self._stack.repositories[name].keep]
        for step in self._stack.steps.values():
            for output in step.outputs:
                path = Path(output)
                if path.is_relative_to(own):
                    kept.append(str(path.relative_to(own)))
        return kept

    def ensure_python(self) -> None:
        """Make the virtual environment, once. It sees the base interpreter's packages behind its own."""
        base = self._stack.environment.python or sys.executable
        done = self.directory / "venv" / "complete"
        if done.is_file() and done.read_text() == base:
            return
        shutil.rmtree(self.directory / "venv", ignore_errors=True)
        self.forget_all()
        try:
            found = subprocess.run(
                [base, "-c", _BASE_PACKAGES], check=True, capture_output=True, text=True
            ).stdout
            subprocess.run(
                [base, "-m", "venv", "--without-pip", str(self.directory / "venv")],
                check=True,
                capture_output=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError(
                f"environment.python: expected an interpreter with the venv module, found {base}: {error}"
            ) from error
        # A plain path line adds the folder without running the .pth files in it: the user's own editable installs
        # of the stack stay out of the slot.
        (self._site_packages() / _BASE_PATHS).write_text("\n".join(cast(list[str], json.loads(found))) + "\n")
        done.write_text(base)

    def packages_path(self) -> list[str]:
        """The folders in which the slot's interpreter finds distributions, in its order."""
        if not self.python.exists():
            return []
        site_packages = self._site_packages()
        base = (site_packages / _BASE_PATHS).read_text().splitlines()
        return [str(site_packages), *base]

    def _site_packages(self) -> Path:
        return next((self.directory / "venv" / "lib").glob("python*")) / "site-packages"

    def built(self, step: str) -> str | None:
        """The key under which a step last succeeded here."""
        return self._read_state().get(step)

    def forget(self, step: str) -> None:
        """A step is about to run: until it is recorded again, the slot does not hold it."""
        state = self._read_state()
        if state.pop(step, None) is not None:
            self._write_state(state)

    def forget_all(self) -> None:
        """Nothing that was built here counts any more."""
        self._write_state({})

    def record(self, step: str, key: str) -> None:
        """A step has succeeded."""
        self._write_state(self._read_state() | {step: key})

    def _read_state(self) -> dict[str, str]:
        try:
            return cast(dict[str, str], json.loads(self._state.read_text()))
        except (OSError, ValueError):
            return {}

    def _write_state(self, state: Mapping[str, str]) -> None:
        temporary = self._state.with_suffix(".new")
        temporary.write_text(json.dumps(state))
        temporary.replace(self._state)


def _private_clone(clones: Path, repository: GitRepository) -> GitRepository:
    """A bare repository whose objects are the user's."""
    source = repository.common_directory
    name = f"{repository.path.name}-{hashlib.sha256(str(source).encode()).hexdigest()[:12]}.git"
    path = clones / name
    clones.mkdir(parents=True, exist_ok=True)
    with FileLock(clones / f"{name}.lock"):
        if not (path / "objects" / "info" / "alternates").is_file():
            shutil.rmtree(path, ignore_errors=True)
            outside = GitRepository(clones)
            outside.run("init", "--quiet", "--bare", str(path))
            # Our objects are few and borrowed ones are the user's to collect.
            GitRepository(path).run("config", "gc.auto", "0")
            (path / "objects" / "info" / "alternates").write_text(f"{source / 'objects'}\n")
    return GitRepository(path)
