"""The folders of the tool's own data, and the locks on them.

`Home` names the folders: clones, slots, build cache, golden data, logs. `user_home` is the home of the invoking user.
`ProcessLock` excludes other processes from a file, as long as its process or a command that it started lives.
`sole_user` and `sole_holder` find out whether this process alone uses a folder.
"""

import errno
import fcntl
import os
import platform
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from ...store.durable_files import make_own_folder, read_or_create_key
from ..errors import UserError

HOME_VARIABLE = "PRECISION_BISECT_HOME"
_COMPARED_BUILDS = "compared.json"


@dataclass(frozen=True)
class Home:
    """Two root folders. `cache` may be deleted whenever nothing runs; `state` must be kept."""

    cache: Path
    state: Path

    def make(self) -> None:
        """Make both roots. A checkout around them stays clean: git ignores them. Raises `OSError`."""
        self.make_cache()
        make_own_folder(self.state)

    def make_cache(self) -> None:
        """Make the root of the cache. Raises `OSError`."""
        make_own_folder(self.cache)

    def key(self) -> bytes:
        """Return the secret key for digests of values that may be secrets. Raises `OSError`.

        The first call draws the key. No store or report contains it.
        """
        make_own_folder(self.state)
        return read_or_create_key(self.state / "key").encode()

    @property
    def clones(self) -> Path:
        """Return private bare repositories that borrow the objects of the user's checkouts."""
        return self.cache / "clones"

    @property
    def mirrors(self) -> Path:
        """Return repositories of the commits that drivers on other machines have sent here."""
        return self.cache / "mirrors"

    @property
    def objects(self) -> Path:
        """Return files that drivers on other machines have sent here, named by their SHA-256."""
        return self.cache / "objects"

    @property
    def probe_results(self) -> Path:
        """Return the results that drivers on other machines have yet to fetch, one folder for each probe."""
        return self.cache / "made"

    @property
    def slots(self) -> Path:
        """Return the slots of all stacks: worktrees and virtual environments."""
        return self.cache / "slots"

    @property
    def builds(self) -> Path:
        """Return the outputs of build steps, by content key."""
        return self.cache / "builds"

    @property
    def options(self) -> Path:
        """Return the options that cases offer, by content key."""
        return self.cache / "options"

    @property
    def golden(self) -> Path:
        """Return frozen golden data, by manifest digest."""
        return self.state / "golden"

    @property
    def releases(self) -> Path:
        """Return git histories that were made from the releases of tools."""
        return self.state / "releases"

    @property
    def trust_marks(self) -> Path:
        """Return one empty file for each settings or stack file that a person has trusted."""
        return self.state / "trusted"

    @property
    def bisections(self) -> Path:
        """Return logs and build directories of probes, one folder for each bisection."""
        return self.state / "bisections"

    def compared_builds_file(self, bisection: str) -> Path:
        """Return the file that describes the culprit's build of a bisection and the build it was compared with."""
        return self.bisections / bisection / _COMPARED_BUILDS

    def bisections_with_builds(self) -> list[str]:
        """Return the names of the bisections that have a `compared_builds_file`, newest first. Raises `OSError`."""
        files = sorted(
            self.bisections.glob(f"*/{_COMPARED_BUILDS}"), key=lambda file: file.stat().st_mtime, reverse=True
        )
        return [file.parent.name for file in files]

    @property
    def store(self) -> Path:
        """Return the file of the default store."""
        return self.state / "store.sqlite"


def user_home() -> Home:
    """Return the invoking user's home: below `$PRECISION_BISECT_HOME`, or else in the folders of the platform.

    Raises `UserError` where another user could write there. That user would decide what the tool trusts and runs.
    """
    root = os.environ.get(HOME_VARIABLE)
    if root:
        base = Path(root).absolute()
        # Whoever may write to `base` could replace both folders in it.
        _check_owned(base)
        home = Home(cache=base / "cache", state=base / "state")
    else:
        home = Home(
            cache=platformdirs.user_cache_path("precision-bisect"),
            state=platformdirs.user_state_path("precision-bisect"),
        )
    _check_owned(home.cache)
    _check_owned(home.state)
    return home


def _check_owned(folder: Path) -> None:
    """Raise `UserError` if a folder, or a link in its place, is another user's, or if everybody may write there."""
    try:
        link, target = folder.lstat(), folder.stat()
    except OSError:
        return  # A missing folder will be made. An unreadable one is reported by its first reader.
    other = next((each.st_uid for each in (link, target) if each.st_uid != os.getuid()), None)
    if other is not None or target.st_mode & stat.S_IWOTH:
        found = "everybody may write there" if other is None else f"it is user {other}'s"
        raise UserError(
            f"{folder}: expected a folder in which you alone may write, found that {found}; name another home with "
            f"{HOME_VARIABLE}, or fix this one with chown and chmod"
        )


def command_line(words: Sequence[str]) -> str:
    """Return a command of the tool as text for any shell. The command uses the same home as this process."""
    root = os.environ.get(HOME_VARIABLE)
    home = f"{HOME_VARIABLE}={shlex.quote(str(Path(root).absolute()))} " if root else ""
    return home + shlex.join(locate_program(words))


def locate_program(words: Sequence[str]) -> list[str]:
    """Return a command of the tool, with the full path of its program where that is not on PATH."""
    program, *arguments = words
    installed = Path(sys.executable).with_name(program)
    needs_path = shutil.which(program) is None and installed.is_file()
    return [str(installed) if needs_path else program, *arguments]


def device_locks() -> Path:
    """Return the folder for locks of boards, which all users of a machine share, whatever their TMPDIR is."""
    return Path("/tmp")


@contextmanager
def sole_user(folder: Path) -> Generator[bool]:
    """Lock a folder for the block, and yield whether this process got the lock.

    The lock is on the folder itself, so removing lock files does not release it. Where folders cannot be locked, as on
    NFS, every process gets it. Raises `OSError` where there is no such folder.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_alone = True
        except OSError as error:
            is_alone = not isinstance(error, BlockingIOError)
        yield is_alone
    finally:
        os.close(descriptor)


@contextmanager
def sole_holder(file: Path, folder: Path) -> Generator[bool]:
    """Lock a file and its folder for the block, and yield whether this process got both locks.

    The lock on the folder outlasts a removed file. The lock on the file works where folders cannot be locked. Raises
    `OSError` where there is no such folder.
    """
    with ExitStack() as held:
        try:
            held.enter_context(FileLock(file, mode=0o600, blocking=False))
            is_alone = held.enter_context(sole_user(folder))
        except Timeout:
            is_alone = False
        yield is_alone


_POLL = 0.02
"""While a killed holder of a lock goes away, the lock is tried once in this many seconds."""


class ProcessLock:
    """A lock on a file that is exclusive among all processes of the machine.

    On a file system that shares locks, the lock is exclusive among all machines. The kernel releases the lock when its
    last holder ends. A command that inherits the descriptor (`Command.holds`) is a holder too. So where the driver is
    killed, the lock is free only when the last process of its command is gone.
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
        """Take the lock. Return False if somebody else holds it and `blocking` is false.

        Where the holder was killed and its command is still ending, this waits in any case. Raises `UserError` where
        the path is no plain file.
        """
        descriptor = self._open()
        try:
            # The process number that is written below would damage a file of ours to which another user put a link.
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise self._not_a_lock_error()
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
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
        """Release the lock."""
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
    """A lock on a file and on its folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._folder = ExitStack()

    def acquire(self, *, blocking: bool) -> bool:
        """Take both locks. Return False at once if somebody else holds the lock on the folder."""
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
    """Return whether the process lives whose number and machine a lock file contains.

    A process that has not written its number yet counts as living, and so does a process of another machine.
    """
    number, _, host = holder.partition(b" ")
    if not number.isdigit() or host != platform.node().encode():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass  # The process is another user's, or no process has such a number.
    return True
