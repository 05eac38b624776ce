"""Slots: folders with worktrees and a virtual environment, in which commits are checked out and built.

`Workspace` has the private clones of one stack, and its pool of slots. `Slot` checks commits out, and records what is
built in it. A private clone borrows the objects of the user's checkout (git alternates). Each slot has repositories of
its own that borrow the objects of the private clones. So the user's checkouts never change, and the branches, tags,
stashes, settings and hooks that a run makes reach no other slot.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from filelock import FileLock

from ...store.durable_files import entries_below, remove, sync_tree, try_remove_tree, write_whole
from ...store.vocabulary import hide_credentials, plural
from ..errors import UserError
from ..git import GITLINK, GitError, GitRepository, read_shallow_commits
from ..overlays import apply_overlay, apply_patch, list_patches
from ..pins import MissingSubmoduleError, PinReader, is_initialized, list_submodules, module_stores
from ..renames import adapt
from ..stack import VENV, Stack
from .environment import VirtualEnvironment
from .home import FolderLock, Home, ProcessLock


class Workspace:
    """The private clones of one stack, and its pool of slots."""

    def __init__(self, stack: Stack, home: Home) -> None:
        """Open the stack's repositories. Raises `UserError` where one is missing."""
        self.stack = stack
        self.repositories = {
            name: GitRepository.open_root(repository.path, name=name)
            for name, repository in stack.repositories.items()
        }
        self._home = home
        self.clones_folder = home.clones
        self._present: set[tuple[str, str]] = set()
        """The repository and the id of each commit that was found here."""
        self._missing: dict[tuple[str, str], str] = {}
        """The reason why a commit could not be fetched, by its repository and id."""
        self._refused: dict[str, str] = {}
        """The reason why an object could not be fetched, by its id."""
        paths = json.dumps({name: str(git.common_directory) for name, git in self.repositories.items()})
        self._pool = home.slots / f"{stack.name}-{hashlib.sha256(paths.encode()).hexdigest()[:12]}"

    @cached_property
    def clones(self) -> Mapping[str, GitRepository]:
        """Return the private clones, by repository; the first use makes them. Raises `UserError`."""
        try:
            self._home.make_cache()
            return {
                name: ensure_private_clone(
                    self.clones_folder, repository, submodules=self.stack.repositories[name].submodules
                )
                for name, repository in self.repositories.items()
            }
        except OSError as error:
            raise _not_writable_error(self.clones_folder, error) from error

    def acquire(self) -> Slot:
        """Return the first free slot, locked until it is released or this process ends. Raises `UserError`."""
        try:
            index = 0
            while (lock := self._try_lock(index)) is None:
                index += 1
        except OSError as error:
            raise _not_writable_error(self._pool, error) from error
        return Slot(
            index=index, directory=self._pool / str(index), stack=self.stack, clones=self.clones, lock=lock
        )

    def _try_lock(self, index: int) -> ProcessLock | None:
        """Lock a slot and return the lock; None where somebody else holds it."""
        directory = self._pool / str(index)
        directory.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(directory / _LOCK)
        return lock if lock.acquire(blocking=False) else None

    def ensure_commit(self, repository: str, sha: str) -> None:
        """Fetch a commit to the private clone, unless it is on this machine. A failed fetch is not repeated.

        Raises `MissingCommitError`.
        """
        key = repository, sha
        if key in self._present or self.clones[repository].has_commit(sha):
            self._present.add(key)
            return
        if key not in self._missing:
            reason = self._fetch_commit(repository, sha)
            if reason is None:
                return
            self._missing[key] = reason
        raise MissingCommitError(
            f"{repository}: expected commit {sha} in {self.repositories[repository].path}, found none, and could not "
            f"fetch it ({self._missing[key]}); fetch it there first"
        )

    def _fetch_commit(self, repository: str, sha: str) -> str | None:
        """Fetch a commit. Return the reason if that fails, else None."""
        url = self.repositories[repository].remote_url()
        if url is None:
            return "it has no remote named origin"
        try:
            self.clones[repository].fetch_commit(url, sha)
        except GitError as error:
            return str(error)
        return None

    def fetch_missing(self, repository: str, *revisions: str) -> MissingObjects:
        """Fetch the missing objects of commits to the private clone. A partial or damaged clone lacks some.

        `git rev-list` gets `revisions`. A refused object is not requested again. Raises `GitError` where a commit is
        missing.
        """
        clone, url = self.clones[repository], self.repositories[repository].remote_url()
        reason = (
            "there is no remote to fetch from"
            if url is None
            else f"{hide_credentials(url)} does not give what is missing"
        )
        fetched = 0
        # A fetched tree may name other missing objects, so this repeats until none is left.
        while missing := clone.missing_objects(*revisions):
            requested = [each for each in missing if each not in self._refused]
            if not requested:
                return MissingObjects(fetched, missing, self._refused[missing[0]])
            if url is not None:
                with suppress(GitError):
                    clone.fetch_objects(url, requested)
            refused = frozenset(clone.missing_objects(*revisions)).intersection(requested)
            self._refused.update(dict.fromkeys(refused, reason))
            fetched += len(requested) - len(refused)
        return MissingObjects(fetched)


def _not_writable_error(folder: Path, error: OSError) -> UserError:
    return UserError(
        f"{error.filename or folder}: expected to be able to write here: {error.strerror or error}; "
        "free space or set PRECISION_BISECT_HOME to a folder with room"
    )


class MissingCommitError(UserError):
    """A commit is neither on this machine nor at the remote."""


@dataclass(frozen=True)
class MissingObjects:
    """The number of objects that were fetched, the ids of those that are still missing, and the reason."""

    fetched: int
    missing: tuple[str, ...] = ()
    reason: str = ""


class UntestableCommitError(UserError):
    """A commit cannot be checked out whole. Another attempt would fail too."""


class LongNameError(UntestableCommitError):
    """A commit has a file or folder whose name is longer than the disk allows."""

    def __init__(self, repository: str, sha: str, name: str, *, longest: int) -> None:
        super().__init__(
            f"{repository} {sha[:12]} has a file whose name takes {len(os.fsencode(name))} bytes ({name[:20]}...), "
            f"and the disk allows {longest}"
        )


class LinkedOutputError(UntestableCommitError):
    """A commit has a link in place of a folder for outputs of the build or the case."""

    def __init__(self, link: Path) -> None:
        super().__init__(
            f"{link}: expected a folder, found a link: what is built in it would be removed where the link leads"
        )


class MissingObjectsError(UntestableCommitError):
    """A commit cannot be checked out, because some of its objects are not available."""

    def __init__(self, repository: str, sha: str, objects: MissingObjects) -> None:
        count = len(objects.missing)
        super().__init__(
            f"{repository} {sha[:12]} lacks {plural(count, 'object')} of its files ({objects.missing[0][:12]}"
            f"{', ...' if count > 1 else ''}), and {objects.reason}"
        )


# The names of a stack's repositories have no dot, so no worktree takes the place of one of these files.
_LOCK = "slot.lock"
_STATE = "state.json"
"""This file of a slot has the key of each step's outputs, by the step's name."""
_BOOT = "boot.txt"
"""This file has the identifier of the machine's boot in which the slot was last cleared."""
_STEP_MARK = "running-step.txt"
"""This file exists while a step's command runs."""
_CASE_MARK = "before-case.json"
"""This file has the status of the entries that cleaning spares, as it was before the last run of the case."""
_BYTECODE = "__pycache__"
"""Python checks the bytecode in a folder of this name before it is used, so no run depends on an earlier one."""


class Slot:
    """A folder in which this process alone works, until it releases the slot or ends.

    The slot remembers which steps were built in it, whether a step was cut short, and its state before a case ran.
    """

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
        """Release the slot for another process. Its contents stay."""
        self.lock.release()

    def path(self, repository: str) -> Path:
        """Return the folder of a repository's worktree in this slot."""
        return self.directory / self._stack.directory(repository)

    @property
    def python(self) -> Path:
        """Return the interpreter of the slot's virtual environment."""
        return self._environment.python

    def ensure_python(self) -> None:
        """Make the virtual environment, unless it is current. Raises `UserError`."""
        if not self._environment.is_current():
            self._forget_all()
            self._environment.make()

    def packages_path(self) -> list[str]:
        """Return the folders in which the slot's interpreter finds distributions, in its order."""
        return self._environment.packages_path()

    def check_out(self, revisions: Mapping[str, str]) -> None:
        """Check out every repository at its revision.

        All other files in the worktrees are removed, except those that the stack file keeps and the outputs of steps.
        What the last case left elsewhere in the slot is removed too.

        Raises:
            UntestableCommitError: a commit has a link in place of a folder for outputs.
            PatchConflictError: a patch does not apply.
            MissingSubmoduleError: the checkout lacks a submodule's commit.
            UserError: anything else fails.
        """
        step_was_cut = (self.directory / _STEP_MARK).exists()
        if step_was_cut or self._recorded_boot() != _boot_id() or not self._undo_case():
            self._clear()
        repositories = [name for name in self._stack.repositories if name in revisions]
        # A submodule's worktree is inside that of its holder, so holders come first.
        for name in sorted(repositories, key=lambda name: len(self._stack.directory(name).parts)):
            try:
                self._check_out_repository(name, revisions[name])
            except GitError:
                # A worktree that a kill left half-written is not worth repairing.
                self._make_worktree(name, revisions[name])
        for name in repositories:
            self._apply_changes(name, revisions)
        for (holder, path), text in self._pins.changed_pin_files(revisions).items():
            self._replace_text(holder, path, text)
        for (holder, path), commit in self._pins.changed_gitlinks(revisions).items():
            # With this entry, a case that runs `git submodule update` leaves the submodule at the held commit.
            entry = f"{GITLINK},{commit},{path}"
            GitRepository(self.path(holder)).run("update-index", "--add", "--cacheinfo", entry)
        self._check_output_paths()

    def _check_output_paths(self) -> None:
        """Check that no link leads from an output's path out of the slot. Raises `LinkedOutputError`."""
        for _, output in self._stack.removed_paths():
            if (link := find_link(self.directory / output, self.directory)) is not None:
                raise LinkedOutputError(link)

    def check_names(self, repository: str, sha: str) -> None:
        """Check that the disk allows the names of a commit's files and folders. Raises `LongNameError`."""
        longest = os.pathconf(self.directory, "PC_NAME_MAX")
        for entry in self._clones[repository].tree(sha):
            for name in entry.path.split("/"):
                if len(os.fsencode(name)) > longest:
                    raise LongNameError(repository, sha, name, longest=longest)

    def _apply_changes(self, name: str, revisions: Mapping[str, str]) -> None:
        """Apply patches, overlays and renames to a worktree, and fill its submodules."""
        repository, worktree = self._stack.repositories[name], GitRepository(self.path(name))
        for patch in list_patches(revisions, name):
            apply_patch(worktree, patch)
        for overlay in repository.overlays:
            apply_overlay(worktree, overlay)
        adapt(worktree, self._stack, name, revisions)
        if repository.submodules:
            self._fill_submodules(name)

    def remove_output(self, output: str) -> None:
        """Remove an output of a build or a run, unless a link on the way to it leads out of the slot."""
        if find_link(self.directory / output, self.directory) is None:
            remove(self.directory / output)

    def _replace_text(self, repository: str, path: str, text: str) -> None:
        """Replace the text of a tracked file, until the next check-out. Raises `UserError`."""
        root = self.path(repository).resolve()
        file = root / path
        if not file.parent.resolve().is_relative_to(root):
            raise UserError(
                f"{file}: expected a pin file inside of {root}, found one behind a link; name its own path"
            )
        file.unlink()
        file.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")

    def _recorded_boot(self) -> str | None:
        try:
            return (self.directory / _BOOT).read_text()
        except (OSError, ValueError):
            return None

    def _clear(self) -> None:
        """Empty the slot. Builds can be restored from the cache of builds.

        A step that was cut short may have left half-written files that look finished. A power cut may leave such files
        too, because a slot's files are not synced: that would take long. A case may have changed what steps made.
        """
        for entry in self.directory.iterdir():
            if entry.name not in (_LOCK, _STEP_MARK):
                remove(entry)
        (self.directory / _STEP_MARK).unlink(missing_ok=True)
        (self.directory / _BOOT).write_text(_boot_id())

    def _check_out_repository(self, name: str, sha: str) -> None:
        repository = reset_slot_repository(self._slot_repository(name).path, self._clones[name])
        worktree = Worktree(self.path(name), repository)
        if worktree.exists():
            worktree.check_out(sha, keep=self._kept_patterns(name))
        else:
            self._make_worktree(name, sha)

    def _make_worktree(self, name: str, sha: str) -> None:
        self._forget_all()
        Worktree(self.path(name), self._slot_repository(name)).make(sha)

    def _slot_repository(self, name: str) -> GitRepository:
        """Return the slot's own repository, which has the worktrees of a repository of the stack."""
        # The names of a stack's repositories have no dot, so no worktree is in this folder.
        return GitRepository(self.directory / f"{name}.git")

    def _fill_submodules(self, name: str) -> None:
        """Check out the submodules that a worktree's index pins. Raises `MissingSubmoduleError`."""
        path, own = self.path(name), self._slot_repository(name)
        if not Worktree(path, own).may_have_submodules():
            return
        checkout = GitRepository(self._stack.repositories[name].path)
        # A patch may have moved a pin, so the index decides and not the commit.
        tree = GitRepository(path).run("write-tree")
        for submodule in list_submodules(own, tree, besides=self._stack.submodule_paths(name)):
            if submodule.is_here:
                Worktree(path / submodule.path, own).restore(submodule.commit)
            elif is_initialized(checkout, submodule):
                raise MissingSubmoduleError(submodule, checkout)

    def _kept_patterns(self, name: str) -> list[str]:
        """Return gitignore patterns of the files that cleaning spares: its `keep`, and the outputs of steps."""
        own = self._stack.directory(name)
        outputs = [Path(output) for step in self._stack.steps.values() for output in step.outputs]
        return [
            *self._stack.repositories[name].keep,
            *(f"/{_escape_pattern(path.relative_to(own))}" for path in outputs if path.is_relative_to(own)),
        ]

    def step_key(self, step: str) -> str | None:
        """Return the key of a step's outputs in this slot; None where the slot does not have them."""
        return self._read_state().get(step)

    def forget_step(self, step: str) -> None:
        """Forget the key of a step whose outputs are about to change."""
        state = self._read_state()
        if state.pop(step, None) is not None:
            self._write_state(state)

    def _forget_all(self) -> None:
        self._write_state({})

    def record_step(self, step: str, key: str) -> None:
        """Record that a step has succeeded with this key."""
        self._write_state(self._read_state() | {step: key})

    def begin_step(self, step: str) -> None:
        """Record that a step's command is about to run.

        Unless `end_step` follows, the slot is emptied before its next use.
        """
        (self.directory / _STEP_MARK).write_text(step)

    def end_step(self) -> None:
        """Record that the step's command was not cut short."""
        (self.directory / _STEP_MARK).unlink()

    def begin_case(self) -> None:
        """Record that the case is about to run. The next check-out undoes what the case does to the slot."""
        (self.directory / _CASE_MARK).write_text(json.dumps(self._spared_entries()))

    def _undo_case(self) -> bool:
        """Remove the entries that the last case added to those that cleaning spares.

        Returns False if the case changed or removed one of them, because that cannot be undone.
        """
        mark = self.directory / _CASE_MARK
        if not mark.exists():
            return True
        try:
            old_entries = cast(dict[str, list[int]], json.loads(mark.read_text()))
        except (OSError, ValueError):
            return False
        entries = self._spared_entries()
        for path in sorted(entries.keys() - old_entries.keys()):
            remove(self.directory / path)
        if any(entries.get(path) != status for path, status in old_entries.items()):
            return False
        mark.unlink()
        return True

    def _spared_entries(self) -> dict[str, list[int]]:
        """Return the status of each file and folder that cleaning spares, by its path.

        They are the outputs of steps, and everything outside of the worktrees. What runs of the case compile
        (`case.compiled`) is left out, because `RunCompileCache` keeps it by content.
        """
        reserved = {_LOCK, _STATE, _BOOT, _STEP_MARK, _CASE_MARK}
        reserved |= {f"{name}.git" for name in self._stack.repositories}
        reserved |= {self._stack.directory(name).parts[0] for name in self._stack.repositories}
        roots = [entry for entry in self.directory.iterdir() if entry.name not in reserved]
        outputs = (output for step in self._stack.steps.values() for output in step.outputs)
        roots += [self.directory / output for output in outputs if Path(output).parts[0] in reserved]
        compiled = [self.directory / path for path in self._stack.case.compiled]
        statuses: dict[str, list[int]] = {}
        for root in roots:
            if find_link(root, self.directory) is not None:
                continue  # What lies behind a link belongs to somebody else.
            is_folder = root.is_dir() and not root.is_symlink()
            for path in (root, *(entries_below(root) if is_folder else ())):
                if _BYTECODE not in path.parts and not any(path.is_relative_to(each) for each in compiled):
                    statuses[str(path.relative_to(self.directory))] = _status(path)
        return statuses

    def _read_state(self) -> dict[str, str]:
        try:
            return cast(dict[str, str], json.loads((self.directory / _STATE).read_text()))
        except (OSError, ValueError):
            return {}

    def _write_state(self, state: Mapping[str, str]) -> None:
        write_whole(self.directory / _STATE, json.dumps(state))


def _status(path: Path) -> list[int]:
    """Return a file's mode, size, and two times in ns, which change with its mode or contents.

    The status of a folder is empty, because its contents are listed. The status of a missing file is `[-1]`.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return [-1]
    if stat.S_ISDIR(status.st_mode):
        return []
    return [status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _boot_id() -> str:
    """Return the kernel's identifier of the current boot; empty where the kernel does not give one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""


def _escape_pattern(path: Path) -> str:
    r"""Return a gitignore pattern for exactly this path.

    >>> _escape_pattern(Path("build[1]/*"))
    'build\\[1]/\\*'
    """
    return re.sub(r"([\\*?\[])", r"\\\1", str(path))


def find_link(path: Path, root: Path) -> Path | None:
    """Return the first folder between `root` and `path` that is a link; None where there is none.

    A commit or a run can put a link there. Files behind it belong to somebody else, and must be neither read nor
    removed.
    """
    for parent in reversed(path.relative_to(root).parents):
        if (root / parent).is_symlink() and parent != Path():
            return root / parent
    return None


@dataclass(frozen=True)
class Worktree:
    """A folder that is, or will be, a worktree of the repository `clone`."""

    path: Path
    clone: GitRepository

    def exists(self) -> bool:
        """Return whether the folder is a worktree of the clone."""
        return self._administration() is not None

    def check_out(self, sha: str, *, keep: Sequence[str] = ()) -> None:
        """Check out a commit, and remove all other files, except those that match the gitignore patterns `keep`.

        Raises `GitError`.
        """
        # Nobody else works here, so a lock is from a git that was killed.
        administration = self._administration() or self.path
        for lock in administration.glob("*.lock"):
            lock.unlink()
        worktree = GitRepository(self.path)
        index = administration / "index"
        # A single `-f` would keep repositories that a build has cloned.
        clean = ("clean", "-xffd", "--quiet", *(f"--exclude={pattern}" for pattern in keep))
        if self._is_saved_index_valid(administration, sha):
            (administration / _SAVED_INDEX).replace(index)
        else:
            # Git converts files by the attributes that it finds in the folder, so all files go first.
            index.unlink(missing_ok=True)
            worktree.run(*clean)
        worktree.run("checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules", sha)
        worktree.run(*clean)
        self._save_index(sha)

    def _save_index(self, sha: str) -> None:
        """Save a copy of the index, before a run can change it.

        Git does not rewrite a file that the index marks as unchanged. A run may mark a file so, or add a file that git
        attributes make equal to the commit's.
        """
        administration = self._administration()
        if administration is not None:
            # The copy has the time of the index, by which git knows files that changed in the same instant.
            shutil.copy2(administration / "index", administration / _SAVED_INDEX)
            (administration / _SAVED_COMMIT).write_text(sha)

    def _is_saved_index_valid(self, administration: Path, sha: str) -> bool:
        """Return whether there is a saved index, and its commit has the same git attributes as `sha`.

        Git does not rewrite a file whose content is equal in both commits, though other attributes convert it
        differently.
        """
        try:
            old = (administration / _SAVED_COMMIT).read_text()
            changed = old != sha and GitRepository(self.path).run(
                "diff-tree", "-r", "--name-only", old, sha, "--", ":(glob)**/.gitattributes"
            )
        except (OSError, GitError):
            return False
        return not changed and (administration / _SAVED_INDEX).is_file()

    def may_have_submodules(self) -> bool:
        """Return whether the index may have a submodule. It has none if this is False.

        An entry contains its mode as four bytes (`man gitformat-index`). A split or sparse index has entries elsewhere.
        Listing a large tree would take longer than the rest of a check-out.
        """
        administration = self._administration()
        if administration is None:
            return True
        index = (administration / "index").read_bytes()
        return any(each in index for each in (int(GITLINK, 8).to_bytes(4, "big"), b"link", b"sdir"))

    def make(self, sha: str) -> None:
        """Make the worktree from scratch, at a commit. Raises `GitError`."""
        remove(self.path)
        self.clone.run("worktree", "prune")
        self.clone.run("worktree", "add", "--force", "--force", "--detach", str(self.path), sha)
        self._save_index(sha)

    def restore(self, sha: str) -> None:
        """Check out a commit and remove all other files; make the worktree again if that fails. Raises `GitError`."""
        if self.exists():
            # A worktree that a kill left half-written is not worth repairing.
            with suppress(GitError):
                self.check_out(sha)
                return
        self.make(sha)

    def _administration(self) -> Path | None:
        """Return the folder in which the clone keeps the worktree's index and HEAD; None if this is not its worktree.

        In a folder that is no worktree, git would use the repository around it.
        """
        try:
            key, _, value = (self.path / ".git").read_text().strip().partition(" ")
        except (OSError, ValueError):
            return None
        folder, worktrees = Path(value), (self.clone.path / "worktrees").resolve()
        belongs_to_clone = key == "gitdir:" and folder.is_dir() and folder.resolve().parent == worktrees
        return folder if belongs_to_clone else None


_SETTINGS = """\
[gc]
	auto = 0
[core]
	hooksPath = /dev/null
	fsync = committed
	splitIndex = false
	trustctime = true
	checkStat = default
	ignoreStat = false
[submodule]
	recurse = false
"""
"""Private clones and slots' repositories have these settings of git.

Their objects are few, so they need no collection. Hooks that the user has for all repositories must not run in them.
After a power cut, git would fail on an object that was not synced. An index is one file, which is saved. Git looks at
all that tells a file which a run has changed."""
_KEPT_ENTRIES = frozenset(("objects", "worktrees"))
_SAVED_INDEX = "index-of-check-out"
_SAVED_COMMIT = "commit-of-check-out"
_KEPT_WORKTREE_ENTRIES = frozenset(("HEAD", "commondir", "gitdir", "index", _SAVED_INDEX, _SAVED_COMMIT))


def ensure_private_clone(clones: Path, repository: GitRepository, *, submodules: bool) -> GitRepository:
    """Return a bare repository in the folder `clones` that borrows the objects of a user's repository.

    The first call makes it.
    With `submodules`, the clone borrows the objects of the submodules too.
    """
    source = repository.common_directory
    sources = [source, *module_stores(repository)] if submodules else [source]
    key = f"{source} with submodules" if submodules else str(source)
    name = f"{repository.path.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.git"
    path = clones / name
    clones.mkdir(parents=True, exist_ok=True)
    with FileLock(clones / f"{name}.lock"):
        if not _alternates(path).is_file():
            try_remove_tree(path)
            _init_repository(path, object_format=repository.object_format)
            # The alternates are written last, so a clone that a power cut left incomplete is made again.
            sync_tree(path)
        _borrow_objects(path, sources)
    return GitRepository(path)


def reset_slot_repository(path: Path, clone: GitRepository) -> GitRepository:
    """Make a slot's repository as it is before each run, and return it. It borrows the objects of a private clone.

    Branches, tags, settings and hooks of earlier runs are removed. Their objects and worktrees stay. No other process
    may use the repository meanwhile.
    """
    if path.is_dir():
        _remove_entries(path, keep=_KEPT_ENTRIES)
        for worktree in path.glob("worktrees/*"):
            if _belongs_to_slot(worktree, path.parent):
                _remove_entries(worktree, keep=_KEPT_WORKTREE_ENTRIES)
            else:
                remove(worktree)
    # This is what `git init` makes, which would take longer. The private clone has no branch either.
    for folder in (path / "refs", _alternates(path).parent):
        folder.mkdir(parents=True, exist_ok=True)
    for file in ("HEAD", "config"):
        shutil.copyfile(clone.path / file, path / file)
    _borrow_objects(path, [clone.path])
    return GitRepository(path)


def _init_repository(path: Path, *, object_format: str) -> None:
    """Make a bare repository. Its settings are ours, whatever a template says."""
    options = ("--quiet", "--bare", "--template=", f"--object-format={object_format}")
    GitRepository(path.parent).run("init", *options, str(path))
    with (path / "config").open("a", encoding="utf-8") as config:
        config.write(_SETTINGS)
    _alternates(path).parent.mkdir(exist_ok=True)


def _alternates(path: Path) -> Path:
    return path / "objects" / "info" / "alternates"


def _borrow_objects(path: Path, sources: Sequence[Path]) -> None:
    """Let a repository see the objects of the git directories `sources`, and end its history where theirs ends."""
    # The sources may have been deepened, or have got a submodule, since the last call.
    _update_file(_alternates(path), [str(each / "objects") for each in sources])
    _update_file(path / "shallow", sorted({sha for each in sources for sha in read_shallow_commits(each)}))


def _update_file(file: Path, lines: Sequence[str]) -> None:
    """Make a file have these lines; remove it if there are none."""
    text = "".join(f"{line}\n" for line in lines)
    if not text:
        file.unlink(missing_ok=True)
    elif not file.is_file() or file.read_text() != text:
        write_whole(file, text)


def _belongs_to_slot(administration: Path, slot: Path) -> bool:
    """Return whether git's folder for a worktree is for one in the slot. A run may have made worktrees elsewhere."""
    try:
        link = Path((administration / "gitdir").read_text().strip())
    except (OSError, ValueError):
        return False
    return link.is_file() and link.resolve().is_relative_to(slot.resolve())


def _remove_entries(folder: Path, *, keep: frozenset[str]) -> None:
    """Remove all entries of a folder but those named `keep`."""
    for entry in folder.iterdir():
        if entry.name not in keep:
            remove(entry)
