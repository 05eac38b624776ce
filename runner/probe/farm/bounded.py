"""Bounds on what hosts keep for drivers: the oldest entries of a folder go, but for those in use.

Who uses an entry holds a lock of the kernel on it, shared with others, which ends with its process. What is young may
still be on its way here.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Generator, Iterable
from pathlib import Path

_YOUNG = 3600.0
"""Seconds."""


@contextlib.contextmanager
def in_use(paths: Iterable[Path]) -> Generator[None]:
    """While held, no `trim` removes these. Raises `FileNotFoundError` where one has just been removed."""
    with contextlib.ExitStack() as held:
        for path in paths:
            descriptor = _opened(path, held)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            # What was removed while the lock was awaited is another file, or none.
            if not os.path.samestat(os.fstat(descriptor), path.stat()):
                raise FileNotFoundError(path)
            os.utime(path)
        yield


def trim(folder: Path, *, most_bytes: int) -> None:
    """Remove the oldest entries of a folder until the others have `most_bytes`, but none in use or young."""
    if not folder.is_dir():
        return
    entries = sorted((path.stat().st_mtime_ns, path) for path in folder.iterdir() if path.exists())
    sizes = {path: _size(path) for _, path in entries}
    total = sum(sizes.values())
    young = time.time_ns() - int(_YOUNG * 1e9)
    for touched, path in entries:
        if total <= most_bytes or touched > young:
            return
        if _removed(path):
            total -= sizes[path]


def _removed(path: Path) -> bool:
    with contextlib.ExitStack() as held:
        try:
            fcntl.flock(_opened(path, held), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False  # somebody uses it, or has removed it
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return not path.exists()


def _opened(path: Path, held: contextlib.ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    held.callback(os.close, descriptor)
    return descriptor


def _size(path: Path) -> int:
    """Bytes that go with an entry; a file of several names is told of by each in part."""
    files = path.rglob("*") if path.is_dir() else (path,)
    total = 0
    for file in files:
        with contextlib.suppress(OSError):
            status = file.lstat()
            total += status.st_size // status.st_nlink
    return total
