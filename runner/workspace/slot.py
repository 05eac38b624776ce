"""Slots: folders with worktrees and a virtual environment, in which commits are checked out and built.

The user's checkouts are never changed. Each repository has a private bare clone that borrows the user's objects (git
alternates). `Workspace` has the private clones of one stack and its pool of slots. The worktrees of a slot belong to
repositories of that slot, which borrow the objects of the private clones. Before each run they are reset. So what a run
leaves in one by name (branches, tags, stashes, settings, hooks) reaches no other slot and no other run.

A slot's virtual environment sees the packages of the base interpreter behind its own, but not its editable installs. A
`ProcessLock` lasts as long as the process that took it and the commands that this process has started.
"""

import errno
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from filelock import FileLock, Timeout

from ...store.durable_files import sync_tree, write_whole
from ...store.vocabulary import hide_credentials, plural
from ..errors import UserError
from ..git import GITLINK, GitError, GitRepository, read_shallow_commits
from ..overlays import apply_overlay, apply_patch, list_patches
from ..pins import MissingSubmoduleError, PinReader, is_initialized, list_submodules, module_stores
from ..renames import adapt
from ..stack import VENV, Stack
from .home import Home

_POLL = 0.02
"""A lock's holder that was killed is looked at once in this many seconds. It needs only a moment to go."""


@contextmanager
def sole_user(folder: Path) -> Generator[bool]:
    """Lock a folder until the end of the block or of the process; yield whether this process alone has it.

    The folder itself is locked, so removing lock files does not release it. On a file system without locks of folders,
    such as NFS, this yields True for all. Raises `OSError` where there is no such folder.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _is_locked(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def sole_holder(file: Path, folder: Path) -> Generator[bool]:
    """Lock a file, and its folder, until the end of the block; yield whether this process alone has both.

    Removing the file does not release the folder, and where folders cannot be locked the file counts. Raises `OSError`
    where there is no such folder.
    """
    with ExitStack() as held:
        try:
            held.enter_context(FileLock(file, mode=0o600, blocking=False))
            alone = held.enter_context(sole_user(folder))
        except Timeout:
            alone = False
        yield alone


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


class ProcessLock:
    """A lock that is exclusive among all processes of the machine.

    On a file system that shares locks, it is exclusive among all machines. The kernel releases it at the latest. A
    command that is given the descriptor (`Command.holds`) holds the lock too. Where the driver is killed, the lock is
    free only when the last process of its command is gone.
    """

    def __init__(self, path: Path, *, mode: int = 0o644) -> None:
        self._path = path
        self._mode = mode
        self._descriptor: int | None = None

    def fileno(self) -> int:
        """Return the descriptor, while the lock is held."""
        assert self._descriptor is not None
        return self._descriptor

    def acquire(self, *, blocking: bool) -> bool:
        """Take the lock. Return False where somebody else holds it and `blocking` is not asked for.

        A holder that was killed, but whose command is still ending, is waited for in both cases. Raises `UserError`
        where something else is in the lock's place.
        """
        descriptor = self._open()
        try:
            # Another user may have put a link to one of our files there, which the number written below would damage.
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise self._not_a_lock_error()
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX if blocking else fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if _is_alive(os.pread(descriptor, 300, 0)):
                        os.close(descriptor)
                        return False
                    time.sleep(_POLL)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {platform.node()}".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Release the lock, so that others can take it."""
        os.close(self.fileno())
        self._descriptor = None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        while True:
            # The file is opened before it is created. In a folder that all users share, Linux refuses to create a file
            # that another user has created already (fs.protected_regular).
            try:
                return os.open(self._path, flags)
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                    raise self._not_a_lock_error() from error
                raise
            try:
                descriptor = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, self._mode)
            except FileExistsError:
                continue
            os.fchmod(descriptor, self._mode)
            return descriptor

    def _not_a_lock_error(self) -> UserError:
        return UserError(f"{self._path}: expected a lock, found a link or no plain file; remove it")


class FolderLock(ProcessLock):
    """A lock on a file in a folder and on the folder itself. While it is held, others can take neither."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._folder = ExitStack()

    def acquire(self, *, blocking: bool) -> bool:
        """Take the lock, like its base class. A folder that somebody else has is not waited for."""
        with ExitStack() as folder:
            if folder.enter_context(sole_user(self._path.parent)) and super().acquire(blocking=blocking):
                self._folder = folder.pop_all()
                return True
        return False

    def release(self) -> None:
        """Release both locks."""
        super().release()
        self._folder.close()


def _is_alive(holder: bytes) -> bool:
    """Return whether the process whose number is in the file lives.

    A process that has not written its number yet counts as living, and so does a process of another machine.
    """
    number, _, host = holder.partition(b" ")
    if not number.isdigit() or host != platform.node().encode():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (
        PermissionError,
        OverflowError,
    ):  # The process is another user's, or no process has such a number.
        return True
    return True


@dataclass(frozen=True)
class Worktree:
    """The folder `path`, which is or will be a worktree of `clone`."""

    path: Path
    clone: GitRepository

    def is_there(self) -> bool:
        """Return whether the folder is a worktree of the clone."""
        return self._administration() is not None

    def check_out(self, sha: str, *, kept: Sequence[str] = ()) -> None:
        """Check out a commit, and remove all other files except the gitignore patterns `kept`. Raises `GitError`."""
        # Nobody else works here, so a lock was left by a git that was killed.
        administration = self._administration() or self.path
        for lock in administration.glob("*.lock"):
            lock.unlink()
        worktree = GitRepository(self.path)
        # A run may have marked files that git then leaves as they are: `S`, and small letters.
        if any(line[0] == "S" or line[0].islower() for line in worktree.run("ls-files", "-v").splitlines()):
            (administration / "index").unlink()
        worktree.run("checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules", sha)
        # A single `-f` would leave repositories that a build has cloned.
        worktree.run("clean", "-xffd", "--quiet", *(f"--exclude={path}" for path in kept))

    def make(self, sha: str) -> None:
        """Make the worktree from scratch, at a commit."""
        remove(self.path)
        self.clone.run("worktree", "prune")
        self.clone.run("worktree", "add", "--force", "--force", "--detach", str(self.path), sha)

    def restore(self, sha: str) -> None:
        """Check out a commit and remove all other files, whatever state the folder is in."""
        if self.is_there():
            # A worktree that a kill left half-written is not worth repairing.
            with suppress(GitError):
                self.check_out(sha)
                return
        self.make(sha)

    def _administration(self) -> Path | None:
        """Return where the clone keeps the worktree's state; None where the folder is no worktree of it.

        Git would treat such a folder as a part of whatever repository lies around it.
        """
        try:
            kind, _, text = (self.path / ".git").read_text().strip().partition(" ")
        except (OSError, ValueError):
            return None
        place = Path(text)
        ours = (self.clone.path / "worktrees").resolve()
        return place if kind == "gitdir:" and place.is_dir() and place.resolve().parent == ours else None


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, if it is there. Raises `OSError`."""
    if path.is_dir() and not path.is_symlink():
        try:
            shutil.rmtree(path)
        except RecursionError:
            # A run may nest folders deeper than Python's calls. `rm` walks them without a path or a stack.
            subprocess.run(["rm", "-rf", "--", path], check=True)
    else:
        path.unlink(missing_ok=True)


def find_link(path: Path, root: Path) -> Path | None:
    """Return the first folder on the way from `root` to `path` that is a link; None where there is none.

    A commit or a run can put a link there, and whatever is removed or read behind it belongs to somebody else. `path`
    itself may be a link.
    """
    for parent in reversed(path.relative_to(root).parents):
        if (root / parent).is_symlink() and parent != Path():
            return root / parent
    return None


# Hooks and monitors that the user has configured for all repositories must not run in ours. Our objects are few, and
# the user collects the borrowed ones. A power cut may leave an object empty that git has not synced, and git fails on
# it.
_SETTINGS = (
    "[gc]\n\tauto = 0\n[core]\n\thooksPath = /dev/null\n\tfsync = committed\n[submodule]\n\trecurse = false\n"
)
_KEPT_ENTRIES = frozenset(("objects", "worktrees"))
_KEPT_WORKTREE_ENTRIES = frozenset(("HEAD", "commondir", "gitdir", "index"))


def private_clone(clones: Path, repository: GitRepository, *, submodules: bool) -> GitRepository:
    """Return a private repository that borrows the user's objects, and with `submodules` those of the submodules."""
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
            # The alternates are written last, so that a clone that a power cut left incomplete is made again.
            sync_tree(path)
        _borrow(path, sources)
    return GitRepository(path)


def slot_repository(path: Path, clone: GitRepository) -> GitRepository:
    """Return the repository of a slot that sees all commits of a private clone.

    Of earlier runs it keeps only objects and the worktrees, which stay at their commits. No other process may use it
    meanwhile.
    """
    if path.is_dir():
        _empty(path, kept=_KEPT_ENTRIES)
        for worktree in path.glob("worktrees/*"):
            if _is_within(worktree, path.parent):
                _empty(worktree, kept=_KEPT_WORKTREE_ENTRIES)
            else:
                remove(worktree)
    _make(path, hashes=_hashes(clone))
    _borrow(path, [clone.path])
    return GitRepository(path)


def _hashes(repository: GitRepository) -> str:
    return repository.run("rev-parse", "--show-object-format")


def _make(path: Path, *, hashes: str) -> None:
    """Make a repository without hooks. A template may bring some, so none is used."""
    options = ("--quiet", "--bare", "--template=", f"--object-format={hashes}")
    GitRepository(path.parent).run("init", *options, str(path))
    with (path / "config").open("a", encoding="utf-8") as config:
        config.write(_SETTINGS)
    _alternates(path).parent.mkdir(exist_ok=True)


def _alternates(path: Path) -> Path:
    return path / "objects" / "info" / "alternates"


def _borrow(path: Path, sources: Sequence[Path]) -> None:
    _share(_alternates(path), [str(each / "objects") for each in sources])
    _share(path / "shallow", sorted({sha for each in sources for sha in read_shallow_commits(each)}))


def _share(file: Path, lines: Sequence[str]) -> None:
    """Update a file of ours from the sources: where their objects are, or where shallow ones end.

    The sources may have been deepened, or got a submodule, since.
    """
    text = "".join(f"{line}\n" for line in lines)
    if not text:
        file.unlink(missing_ok=True)
    elif not file.is_file() or file.read_text() != text:
        write_whole(file, text)


def _is_within(worktree: Path, slot: Path) -> bool:
    """Return whether a worktree's administration belongs to a worktree in the slot. A run may have made others."""
    try:
        link = Path((worktree / "gitdir").read_text().strip())
    except (OSError, ValueError):
        return False
    return link.is_file() and link.resolve().is_relative_to(slot.resolve())


def _empty(folder: Path, *, kept: frozenset[str]) -> None:
    for entry in folder.iterdir():
        if entry.name not in kept:
            remove(entry)


# A plain path line adds the folder without running its .pth files. So the user's own editable installs of the stack
# stay out of the slot. It is read last, so that what a step installs by a .pth file comes first.
_BASE_PATHS = "zzz-base.pth"
_DESCRIBE = (
    # The current folder is a checkout that may have a json.py.
    "import sys; sys.path.remove('') if '' in sys.path else None; "
    "import json, site; "
    "found = [p for p in site.getsitepackages() + [site.getusersitepackages()] if p in sys.path]; "
    "print(json.dumps({'executable': sys.executable, 'version': sys.version, 'packages': found}))"
)


def describe_base(python: str | None) -> dict[str, object]:
    """Return executable, version and package folders (`packages`) of an interpreter; by default, of the running one.

    Raises `UserError`.
    """
    base = python or sys.executable
    try:
        printed = subprocess.run([base, "-c", _DESCRIBE], check=True, capture_output=True, text=True).stdout
        return cast(dict[str, object], json.loads(printed))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise UserError(
            f"environment.python: expected a Python interpreter, found {base}: {error}"
        ) from error


def base_packages(python: str | None) -> list[str]:
    """Return the folders in which an interpreter finds installed packages. Raises `UserError`."""
    return cast(list[str], describe_base(python)["packages"])


class VirtualEnvironment:
    """One virtual environment in one folder."""

    def __init__(self, directory: Path, base: str | None) -> None:
        self.directory = directory
        self._base = base
        self._complete = directory / "complete"

    @property
    def python(self) -> Path:
        """Return the interpreter of this environment."""
        return self.directory / "bin" / "python"

    @cached_property
    def _description(self) -> dict[str, object]:
        return describe_base(self._base)

    def is_current(self) -> bool:
        """Return whether it was completed, from the base interpreter as it is now. Raises `UserError`."""
        try:
            return json.loads(self._complete.read_text()) == self._description
        except (OSError, ValueError):
            return False

    def make(self) -> None:
        """Make it from scratch. Raises `UserError`."""
        remove(self.directory)
        base = cast(str, self._description["executable"])
        try:
            subprocess.run(
                [base, "-m", "venv", "--without-pip", str(self.directory)], check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError(
                f"environment.python: expected an interpreter with the venv module, found {base}: {error}"
            ) from error
        packages = cast(list[str], self._description["packages"])
        (self._site_packages() / _BASE_PATHS).write_text("".join(f"{path}\n" for path in packages))
        self._complete.write_text(json.dumps(self._description))

    def packages_path(self) -> list[str]:
        """Return the folders in which it finds distributions, in its order; none before it was made."""
        if not self._complete.is_file():
            return []
        site_packages = self._site_packages()
        return [str(site_packages), *(site_packages / _BASE_PATHS).read_text().splitlines()]

    def _site_packages(self) -> Path:
        return next((self.directory / "lib").glob("python*")) / "site-packages"


LOCK = "slot.lock"
_STATE = "state.json"
_BOOT = "boot"
_STEP_MARK = "running-step"
_CASE_MARK = "running-case"


class Slot:
    """A folder that this process alone works in, until it releases the slot or ends."""

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
        """Let another run use the slot. What is built in it stays."""
        self.lock.release()

    def path(self, repository: str) -> Path:
        """Return the folder of a repository's worktree in this slot."""
        return self.directory / self._stack.directory(repository)

    @property
    def python(self) -> Path:
        """Return the interpreter of the slot's virtual environment."""
        return self._environment.python

    def ensure_python(self) -> None:
        """Make the virtual environment where it is not current. Raises `UserError`."""
        if not self._environment.is_current():
            self.forget_all()
            self._environment.make()

    def packages_path(self) -> list[str]:
        """Return the folders in which the slot's interpreter finds distributions, in its order."""
        return self._environment.packages_path()

    def check_out(self, revisions: Mapping[str, str]) -> None:
        """Check out every repository at its revision, and remove what earlier builds left outside the kept paths.

        Raises `UserError`, `PatchConflictError` where a patch does not apply, `MissingSubmoduleError`.
        """
        if (self.directory / _STEP_MARK).exists() or self._boot() != _boot_id():
            self._clear()
        spotless = (self.directory / _CASE_MARK).exists()
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
            self._apply_changes(name, revisions)
        for (holder, path), text in self._pins.changed_pin_files(revisions).items():
            self._write(holder, path, text)
        for (holder, path), commit in self._pins.changed_gitlinks(revisions).items():
            # With this entry, a case that runs `git submodule update` leaves the submodule at the held commit.
            entry = f"{GITLINK},{commit},{path}"
            GitRepository(self.path(holder)).run("update-index", "--add", "--cacheinfo", entry)
        self._check_outputs()

    def _check_outputs(self) -> None:
        """Raises `LinkedOutputError` where the checked-out files would have outputs of others removed."""
        for _, output in self._stack.removed_paths():
            if (link := find_link(self.directory / output, self.directory)) is not None:
                raise LinkedOutputError(link)

    def check_names(self, repository: str, sha: str) -> None:
        """Raises `LongNameError` where a commit has a file or folder with a name that the disk does not allow."""
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
        """Remove what a build or a run has made in the slot, unless a link on the way to it leads elsewhere."""
        if find_link(self.directory / output, self.directory) is None:
            remove(self.directory / output)

    def _forget_outputs(self) -> None:
        """Remove what steps have built. A case that was cut short may have changed anything that cleaning spares."""
        self.forget_all()
        for step in self._stack.steps.values():
            for output in step.outputs:
                self.remove_output(output)

    def _write(self, repository: str, path: str, text: str) -> None:
        """Replace the text of a tracked file, until the next check-out. Raises `UserError`."""
        root = self.path(repository).resolve()
        file = root / path
        if not file.parent.resolve().is_relative_to(root):
            raise UserError(
                f"{file}: expected a pin file inside of {root}, found one behind a link; name its own path"
            )
        file.unlink()
        file.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")

    def _boot(self) -> str | None:
        """Return the boot of the machine in which the slot was begun; None where that is not known."""
        try:
            return (self.directory / _BOOT).read_text()
        except (OSError, ValueError):
            return None

    def _clear(self) -> None:
        """Empty the slot.

        A step that was cut short may have left half-written files that look finished. So may a power cut, because
        nothing here is synced: that takes long. What was built is in the cache of builds.
        """
        for entry in self.directory.iterdir():
            if entry.name not in (LOCK, _STEP_MARK):
                remove(entry)
        (self.directory / _STEP_MARK).unlink(missing_ok=True)
        (self.directory / _BOOT).write_text(_boot_id())

    def _check_out_one(self, name: str, sha: str, *, spotless: bool) -> None:
        slot_repository(self._slot_repository(name).path, self._clones[name])
        worktree = Worktree(self.path(name), self._slot_repository(name))
        if worktree.is_there():
            worktree.check_out(sha, kept=[] if spotless else self._spared_patterns(name))
        else:
            self._add_worktree(name, sha)

    def _add_worktree(self, name: str, sha: str) -> None:
        self.forget_all()
        Worktree(self.path(name), self._slot_repository(name)).make(sha)

    def _slot_repository(self, name: str) -> GitRepository:
        """Return the slot's repository for the worktrees of a stack's repository.

        Stack repositories have no dot in their names, so the folder is free.
        """
        return GitRepository(self.directory / f"{name}.git")

    def _fill_submodules(self, name: str) -> None:
        """Check out the submodules that the commit in a worktree pins. Raises `MissingSubmoduleError`."""
        path, own = self.path(name), self._slot_repository(name)
        checkout = GitRepository(self._stack.repositories[name].path)
        # The tree is that of the index, because a patch may have moved a pin.
        tree = GitRepository(path).run("write-tree")
        for submodule in list_submodules(own, tree, besides=self._stack.submodule_paths(name)):
            if submodule.is_here:
                Worktree(path / submodule.path, own).restore(submodule.commit)
            elif is_initialized(checkout, submodule):
                raise MissingSubmoduleError(submodule, checkout)

    def _spared_patterns(self, name: str) -> list[str]:
        """Return patterns of what cleaning spares: declared caches, and step outputs, which the builder handles."""
        own = self._stack.directory(name)
        outputs = [Path(output) for step in self._stack.steps.values() for output in step.outputs]
        return [
            *self._stack.repositories[name].keep,
            *(f"/{_escape_pattern(path.relative_to(own))}" for path in outputs if path.is_relative_to(own)),
        ]

    def built_key(self, step: str) -> str | None:
        """Return the key under which a step last succeeded here."""
        return self._read_state().get(step)

    def forget(self, step: str) -> None:
        """Forget a step whose outputs are about to change. Until it is recorded again, the slot does not hold it."""
        state = self._read_state()
        if state.pop(step, None) is not None:
            self._write_state(state)

    def forget_all(self) -> None:
        """Forget everything that was built here."""
        self._write_state({})

    def record(self, step: str, key: str) -> None:
        """Record that a step has succeeded with this key."""
        self._write_state(self._read_state() | {step: key})

    def begin_step(self, step: str) -> None:
        """Record that a step's command is about to run.

        Unless `end_step` follows, the slot is emptied before its next use.
        """
        (self.directory / _STEP_MARK).write_text(step)

    def end_step(self) -> None:
        """Record that the step's command has ended by itself."""
        (self.directory / _STEP_MARK).unlink()

    def begin_case(self) -> None:
        """Record that the case is about to run.

        Unless `end_case` follows, what cleaning spares is made again before the next use.
        """
        (self.directory / _CASE_MARK).touch()

    def end_case(self) -> None:
        """Record that the case has ended by itself."""
        (self.directory / _CASE_MARK).unlink()

    def _read_state(self) -> dict[str, str]:
        try:
            return cast(dict[str, str], json.loads((self.directory / _STATE).read_text()))
        except (OSError, ValueError):
            return {}

    def _write_state(self, state: Mapping[str, str]) -> None:
        write_whole(self.directory / _STATE, json.dumps(state))


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


class MissingCommitError(UserError):
    """A commit is neither on this machine nor at the remote."""


@dataclass(frozen=True)
class MissingObjects:
    """The result of fetching the objects of commits: how many were fetched, which are still missing, and why."""

    fetched: int
    missing: tuple[str, ...] = ()
    reason: str = ""


class UntestableCommitError(UserError):
    """A commit cannot be checked out whole, whenever it is tried."""


class LongNameError(UntestableCommitError):
    """A commit has a file with a name that is longer than the disk allows."""

    def __init__(self, repository: str, sha: str, name: str, *, longest: int) -> None:
        super().__init__(
            f"{repository} {sha[:12]} has a file whose name takes {len(os.fsencode(name))} bytes ({name[:20]}...), "
            f"and the disk allows {longest}"
        )


class LinkedOutputError(UntestableCommitError):
    """A commit has a link in place of a folder in which the stack's build or case leaves its outputs."""

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
        self._refused: dict[str, str] = {}
        """Says why an object could not be fetched, by its id."""
        paths = json.dumps({name: str(git.common_directory) for name, git in self.repositories.items()})
        self._pool = home.slots / f"{stack.name}-{hashlib.sha256(paths.encode()).hexdigest()[:12]}"

    @cached_property
    def clones(self) -> Mapping[str, GitRepository]:
        """Return private repositories that see the user's objects, and those that were fetched. Raises `UserError`."""
        try:
            self._home.make_cache()
            return {
                name: private_clone(
                    self.clones_folder, repository, submodules=self.stack.repositories[name].submodules
                )
                for name, repository in self.repositories.items()
            }
        except OSError as error:
            raise _not_writable_error(self.clones_folder, error) from error

    def acquire(self) -> Slot:
        """Return the first free slot, locked until it is released or this process ends.

        Raises `UserError`.
        """
        try:
            index = 0
            while (lock := self._lock(index)) is None:
                index += 1
        except OSError as error:
            raise _not_writable_error(self._pool, error) from error
        return Slot(
            index=index, directory=self._pool / str(index), stack=self.stack, clones=self.clones, lock=lock
        )

    def _lock(self, index: int) -> ProcessLock | None:
        """Return the lock of a slot, held; None where somebody else holds it."""
        directory = self._pool / str(index)
        directory.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(directory / LOCK)
        return lock if lock.acquire(blocking=False) else None

    def ensure_commit(self, repository: str, sha: str) -> None:
        """Make a commit available in the private clone. A commit that is not on this machine is fetched.

        A failed fetch is not repeated. Raises `MissingCommitError` where the commit is not available.
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
                    clone.fetch_commit(url, sha)
                except GitError as error:
                    self._missing[repository, sha] = str(error)
                else:
                    return
        raise MissingCommitError(
            f"{repository}: expected commit {sha} in {path}, found none, and could not fetch it "
            f"({self._missing[repository, sha]}); fetch it there first"
        )

    def fetch_missing(self, repository: str, *revisions: str) -> MissingObjects:
        """Fetch the objects of commits that a partial or damaged clone does not have, each object once.

        The arguments are those of git rev-list. The objects go to the private clone. Raises `GitError` where a commit
        is missing.
        """
        clone, url = self.clones[repository], self.repositories[repository].remote_url()
        fetched = 0
        # A tree that was fetched may name other missing objects.
        while missing := clone.missing_objects(*revisions):
            asked = [each for each in missing if each not in self._refused]
            if not asked:
                return MissingObjects(fetched, missing, self._refused[missing[0]])
            if url is not None:
                with suppress(GitError):
                    clone.fetch_objects(url, asked)
            left = frozenset(clone.missing_objects(*revisions)).intersection(asked)
            why = (
                "there is no remote to fetch from"
                if url is None
                else f"{hide_credentials(url)} does not give what is missing"
            )
            self._refused.update(dict.fromkeys(left, why))
            fetched += len(asked) - len(left)
        return MissingObjects(fetched)


def _not_writable_error(folder: Path, error: OSError) -> UserError:
    return UserError(
        f"{error.filename or folder}: expected to be able to write here: {error.strerror or error}; "
        "free space or set PRECISION_BISECT_HOME to a folder with room"
    )
