"""Stopping work that has lost its value: a descriptor that can be read once it is to stop."""

import os
import select
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol

from filelock import FileLock, Timeout

_LOOK = 0.2
"""Seconds between two looks while waiting for somebody else's lock."""


class InterruptedWorkError(Exception):
    """The work was to stop, and has: no result of it counts."""


class HasDescriptor(Protocol):
    """Has a descriptor that can be read once a message has come or the other end is gone, as a connection has."""

    def fileno(self) -> int:
        """The descriptor to wait for."""
        ...


class Interrupt:
    """Asks for a stop as soon as its descriptor can be read. Nothing is read from it here."""

    def __init__(self, source: HasDescriptor) -> None:
        self._source = source

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._source.fileno()

    def check(self) -> None:
        """Go on where no stop is asked for.

        Raises:
            InterruptedWorkError: a stop is asked for.
        """
        poll = select.poll()
        poll.register(self._source.fileno(), select.POLLIN)
        if poll.poll(0):
            raise InterruptedWorkError

    def wait(self, acquire: Callable[[], bool]) -> None:
        """Try a lock until it is had. Raises `InterruptedWorkError`."""
        poll = select.poll()
        poll.register(self._source.fileno(), select.POLLIN)
        while not acquire():
            if poll.poll(int(_LOOK * 1000)):
                raise InterruptedWorkError


@contextmanager
def interrupt_after(seconds: float) -> Generator[Interrupt]:
    """An interrupt that asks for a stop after some seconds."""
    source, sink = os.pipe()
    timer = threading.Timer(max(0.0, seconds), lambda: os.write(sink, b"."))
    timer.daemon = True
    with os.fdopen(source, "rb") as ready, os.fdopen(sink, "wb"):
        timer.start()
        try:
            yield Interrupt(ready)
        finally:
            timer.cancel()
            timer.join()


def try_lock(lock: FileLock) -> bool:
    """Take a file lock where it is free."""
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    return True
