"""Signals that end a command politely."""

import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def terminated_like_interrupted() -> Generator[None]:
    """SIGTERM and SIGHUP raise `KeyboardInterrupt`, as Ctrl-C does: nothing is recorded, nothing is left running."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
