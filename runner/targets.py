"""Leases of boards: one run at a time on a device, whichever bisection or user it belongs to."""

import contextlib
from collections.abc import Callable, Generator

from filelock import FileLock, Timeout

from .home import device_locks
from .stack import Platform


@contextlib.contextmanager
def lease(name: str, platform: Platform, device: int, *, on_wait: Callable[[str], None]) -> Generator[None]:
    """Hold a board for the time of a run. Simulators need no lease."""
    if not platform.board:
        yield
        return
    folder = device_locks()
    folder.mkdir(parents=True, exist_ok=True)
    # Other users of the machine lease the same boards.
    with contextlib.suppress(PermissionError):
        folder.chmod(0o1777)
    lock = FileLock(folder / f"{name}-{device}.lock", mode=0o666)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        on_wait(f"waiting for {name} device {device}, which another run holds")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
