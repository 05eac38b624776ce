"""Leases of boards: one run at a time on a device, whichever bisection or user it belongs to."""

import contextlib
from collections.abc import Callable, Generator

from ..process.interrupt import Interrupt
from ..process.lock import ProcessLock
from ..stack.parts import Platform
from .home import device_locks


@contextlib.contextmanager
def lease(
    name: str,
    platform: Platform,
    device: int,
    *,
    on_wait: Callable[[str], None],
    interrupt: Interrupt | None = None,
) -> Generator[tuple[ProcessLock, ...]]:
    """Hold a board for the time of a run, and give what the run has to hold. Simulators need no lease.

    Raises `InterruptedWorkError`.
    """
    if not platform.board:
        yield ()
        return
    folder = device_locks()
    folder.mkdir(parents=True, exist_ok=True)
    # Other users of the machine lease the same boards.
    with contextlib.suppress(PermissionError):
        folder.chmod(0o1777)
    lock = ProcessLock(folder / f"{name}-{device}.lock", mode=0o666)
    if not lock.acquire(blocking=False):
        on_wait(f"waiting for {name} device {device}, which another run holds")
        if interrupt is None:
            lock.acquire(blocking=True)
        else:
            interrupt.wait(lambda: lock.acquire(blocking=False))
    try:
        yield (lock,)
    finally:
        lock.release()
