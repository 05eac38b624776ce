"""A slot: one set of worktrees and one virtual environment, and what stands built in them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from ...store.files import write_whole
from ..errors import UserError
from ..git.cherry_picks import apply_patch, patches_in
from ..git.overlays import lay_over
from ..git.pin_files import PinReader
from ..git.renames.files import adapt
from ..git.repository import GITLINK, GitError, GitRepository
from ..git.submodules import MissingSubmoduleError, is_initialized, submodules_at
from ..process.lock import ProcessLock
from ..stack.layout import VENV
from ..stack.stack import Stack
from .borrowing import slot_repository
from .virtual_environment import VirtualEnvironment
from .worktree import Worktree, remove

LOCK = "slot.lock"
_STATE = "state.json"
_RUNNING = "running-step"
_RUNNING_CASE = "running-case"


class Slot:
    """A folder that this process alone works in, until it releases it or ends."""

    def __init__(
        self,
        *,
        index: int,
        directory: Path,
        stack: Stack,
        clones: Mapping[str, GitRepository],
        lock: ProcessLock,
    ) -> None:
        self.index = index
        self.directory = directory
        self.lock = lock
        self._stack = stack
        self._clones = clones
        self._environment = VirtualEnvironment(directory / VENV, stack.environment.python)
        self._pins = PinReader(stack, clones)

    def release(self) -> None:
        """Let another run have it. What is built in it stays."""
        self.lock.release()

    def path(self, repository: str) -> Path:
        """The folder of a repository's worktree in this slot."""
        return self.directory / self._stack.directory(repository)

    @property
    def python(self) -> Path:
        """The interpreter of the slot's virtual environment."""
        return self._environment.python

    def ensure_python(self) -> None:
        """Make the virtual environment, once. Raises `UserError`."""
        if not self._environment.is_current():
            self.forget_all()
            self._environment.make()

    def packages_path(self) -> list[str]:
        """The folders in which the slot's interpreter finds distributions, in its order."""
        return self._environment.packages_path()

    def check_out(self, revisions: Mapping[str, str]) -> None:
        """Put every repository at its revision, and remove what earlier builds left outside of the kept paths.

        Raises `UserError`, `PatchConflictError` where a patch does not apply, `MissingSubmoduleError`.
        """
        if (self.directory / _RUNNING).exists():
            self._start_anew()
        spotless = (self.directory / _RUNNING_CASE).exists()
        if spotless:
            self._forget_outputs()
        repositories = [name for name in self._stack.repositories if name in revisions]
        for name in sorted(repositories, key=lambda name: len(self._stack.directory(name).parts)):
            try:
                self._check_out_one(name, revisions[name], spotless=spotless)
            except GitError:
                # A worktree that a kill left half-written is not worth repairing.
                self._add_worktree(name, revisions[name])
        if spotless:
            self.end_case()
        for name in repositories:
            self._complete(name, revisions)
        for (holder, path), text in self._pins.rewritten(revisions).items():
            self._write(holder, path, text)
        for (holder, path), commit in self._pins.held_links(revisions).items():
            # A case that runs `git submodule update` leaves it where it is held.
            entry = f"{GITLINK},{commit},{path}"
            GitRepository(self.path(holder)).run("update-index", "--add", "--cacheinfo", entry)

    def _complete(self, name: str, revisions: Mapping[str, str]) -> None:
        """Put over a worktree what goes over its commit, and its submodules into it."""
        repository, worktree = self._stack.repositories[name], GitRepository(self.path(name))
        for patch in patches_in(revisions, name):
            apply_patch(worktree, patch)
        for overlay in repository.overlays:
            lay_over(worktree, overlay)
        adapt(worktree, self._stack, name, revisions)
        if repository.submodules:
            self._fill_submodules(name)

    def _forget_outputs(self) -> None:
        """A case that was cut short may have left anything in what cleaning spares."""
        self.forget_all()
        for step in self._stack.steps.values():
            for output in step.outputs:
                remove(self.directory / output)

    def _write(self, repository: str, path: str, text: str) -> None:
        """Put a text in place of a tracked file, until the next check-out. Raises `UserError`."""
        root = self.path(repository).resolve()
        file = root / path
        if not file.parent.resolve().is_relative_to(root):
            raise UserError(
                f"{file}: expected a pin file inside of {root}, found one behind a link; name its own path"
            )
        file.unlink()
        file.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")

    def _start_anew(self) -> None:
        """A step that was cut short may have left half-written files which pass for finished ones."""
        for entry in self.directory.iterdir():
            if entry.name not in (LOCK, _RUNNING):
                remove(entry)
        self.end_step()

    def _check_out_one(self, name: str, sha: str, *, spotless: bool) -> None:
        slot_repository(self._own(name).path, self._clones[name])
        worktree = Worktree(self.path(name), self._own(name))
        if worktree.is_there():
            worktree.check_out(sha, kept=[] if spotless else self._kept(name))
        else:
            self._add_worktree(name, sha)

    def _add_worktree(self, name: str, sha: str) -> None:
        self.forget_all()
        Worktree(self.path(name), self._own(name)).make(sha)

    def _own(self, name: str) -> GitRepository:
        """The repository that the slot's worktrees of a repository belong to. No repository of a stack has a dot in
        its name."""
        return GitRepository(self.directory / f"{name}.git")

    def _fill_submodules(self, name: str) -> None:
        """Check out the submodules that the commit in a worktree pins. Raises `MissingSubmoduleError`."""
        path, own = self.path(name), self._own(name)
        checkout = GitRepository(self._stack.repositories[name].path)
        # Of the index: a patch may have moved a pin.
        tree = GitRepository(path).run("write-tree")
        for submodule in submodules_at(own, tree, besides=self._stack.pinned_folders(name)):
            if submodule.is_here:
                Worktree(path / submodule.path, own).bring(submodule.commit)
            elif is_initialized(checkout, submodule):
                raise MissingSubmoduleError(submodule, checkout)

    def _kept(self, name: str) -> list[str]:
        """What cleaning spares: declared caches, and the outputs of steps (the builder looks after those)."""
        own = self._stack.directory(name)
        outputs = [Path(output) for step in self._stack.steps.values() for output in step.outputs]
        return [
            *self._stack.repositories[name].keep,
            *(f"/{_escaped(path.relative_to(own))}" for path in outputs if path.is_relative_to(own)),
        ]

    def built(self, step: str) -> str | None:
        """The key under which a step last succeeded here."""
        return self._read_state().get(step)

    def forget(self, step: str) -> None:
        """A step's outputs are about to change: until it is recorded again, the slot does not hold it."""
        state = self._read_state()
        if state.pop(step, None) is not None:
            self._write_state(state)

    def forget_all(self) -> None:
        """Nothing that was built here counts any more."""
        self._write_state({})

    def record(self, step: str, key: str) -> None:
        """Note that a step has succeeded with this key."""
        self._write_state(self._read_state() | {step: key})

    def begin_step(self, step: str) -> None:
        """A step's command is about to run. Unless its end is noted, the slot starts anew before its next use."""
        (self.directory / _RUNNING).write_text(step)

    def end_step(self) -> None:
        """The step's command has ended by itself."""
        (self.directory / _RUNNING).unlink()

    def begin_case(self) -> None:
        """The case is about to run. Unless its end is noted, what cleaning spares is made anew before the next use."""
        (self.directory / _RUNNING_CASE).touch()

    def end_case(self) -> None:
        """The case has ended by itself."""
        (self.directory / _RUNNING_CASE).unlink()

    def _read_state(self) -> dict[str, str]:
        try:
            return cast(dict[str, str], json.loads((self.directory / _STATE).read_text()))
        except (OSError, ValueError):
            return {}

    def _write_state(self, state: Mapping[str, str]) -> None:
        write_whole(self.directory / _STATE, json.dumps(state))


def _escaped(path: Path) -> str:
    r"""A gitignore pattern for exactly this path.

    >>> _escaped(Path("build[1]/*"))
    'build\\[1]/\\*'
    """
    return re.sub(r"([\\*?\[])", r"\\\1", str(path))
