"""A limit of time for work in the main thread that nobody else can stop."""

import signal
import time
from collections.abc import Generator
from contextlib import contextmanager


class OutOfTimeInterrupt(KeyboardInterrupt):
    """The time is over. As with Ctrl-C, what was begun is cleaned up, and no result of it counts."""


@contextmanager
def interrupted_after(seconds: float | None) -> Generator[None]:
    """Raise `OutOfTimeInterrupt` in the main thread, in which this is entered, after so many seconds; None: never.

    An earlier limit around this one holds on.
    """
    if seconds is None:
        yield
        return

    def stop(_number: int, _frame: object) -> None:
        raise OutOfTimeInterrupt

    begun = time.monotonic()
    handler = signal.signal(signal.SIGALRM, stop)
    outer, _ = signal.getitimer(signal.ITIMER_REAL)
    try:
        # A limit of nothing is one that is over at once; the timer takes 0 for none.
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, min(seconds, outer or seconds)))
        yield
    finally:
        left = outer - (time.monotonic() - begun)
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, left) if outer else 0.0)
        signal.signal(signal.SIGALRM, handler)
