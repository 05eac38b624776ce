"""A lock on a file that lasts as long as the process that took it, and the commands which that process has started."""

import fcntl
import os
import platform
import time
from pathlib import Path

_POLL = 0.02
"""Seconds between two looks at a holder that was killed."""


class ProcessLock:
    """Exclusive among all processes of the machine (of all machines, on a file system that shares locks), and released
    by the kernel at the latest.

    A command that is given the descriptor (`Command.holds`) holds the lock too: where the driver is killed, the
    lock is free only when the last process of its command is gone.
    """

    def __init__(self, path: Path, *, mode: int = 0o644) -> None:
        self._path = path
        self._mode = mode
        self._descriptor: int | None = None

    def fileno(self) -> int:
        """The descriptor, while the lock is held."""
        assert self._descriptor is not None
        return self._descriptor

    def acquire(self, *, blocking: bool) -> bool:
        """Take it. False where somebody else holds it and `blocking` is not asked for.

        A holder that was killed, but whose command is still dying, is waited for in both cases.
        """
        descriptor = self._open()
        try:
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
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        while True:
            # Opened before it is created: in a folder that all users share, Linux refuses to create what another
            # user has created already (fs.protected_regular).
            try:
                return os.open(self._path, flags)
            except FileNotFoundError:
                pass
            try:
                descriptor = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, self._mode)
            except FileExistsError:
                continue
            os.fchmod(descriptor, self._mode)
            return descriptor


def _is_alive(holder: bytes) -> bool:
    """Whether the process that noted its number in the file lives; one that has not noted it yet does, and so does
    one of another machine, for all that can be seen from here."""
    number, _, host = holder.partition(b" ")
    if not number.isdigit() or host != platform.node().encode():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
