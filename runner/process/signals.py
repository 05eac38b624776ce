"""What ends a program's work: signals, limits of time, and readers that end.

Before work begins, SIGINT ends the process at once, because there is nothing to undo. Then the first one raises
`KeyboardInterrupt`, and what was begun is undone. A second one that comes while that takes long ends the process, and
with it what it has started. Code that swallows the exception (a finalizer, a callback of a library) does not keep the
program from ending.

`outlive_readers` lets a program continue when the reader of its output ends, as `head` does.
"""

import atexit
import contextlib
import importlib
import io
import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum, auto
from types import FrameType

from typing_extensions import override

from .entry import INTERRUPTED, exit_at_once

_REPEAT_WINDOW = 1.0
"""A second signal within this many seconds counts as the same Ctrl-C. A shell and a parent may both send it."""
_RESEND_DELAY = 0.01
"""A swallowed interrupt is sent again after this many seconds."""


class _Stage(Enum):
    STARTING = auto()
    WORKING = auto()
    LEAVING = auto()


class _InterruptHandler:
    """Decides what this process does on SIGINT. It does nothing where the process is not one of the programs."""

    def __init__(self) -> None:
        self.stage = _Stage.STARTING
        self.at: float | None = None
        """The time of the signal that is being obeyed."""
        self.code: int | None = None
        """The exit code of the process; None where Python chooses it."""

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.stage is _Stage.STARTING:
            exit_at_once(number, frame)
        if self.stage is _Stage.LEAVING:
            self.code = INTERRUPTED
            return
        self.interrupt()

    def interrupt(self) -> None:
        """Raise `KeyboardInterrupt`, unless that was done just now."""
        if self.at is None:
            self.at = time.monotonic()
            raise KeyboardInterrupt
        if time.monotonic() - self.at > _REPEAT_WINDOW:
            os._exit(INTERRUPTED)

    def resend(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """Send the signal again where a `KeyboardInterrupt` was swallowed."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        from threading import Timer

        self.at = None
        again = Timer(_RESEND_DELAY, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    def leave(self) -> None:
        """Flush the streams and end the process. While Python shuts down after that, it hears no signal."""
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        if self.code is not None:
            os._exit(self.code)


_interrupts = _InterruptHandler()


def run(commands: str, *, heeds: bool) -> None:
    """Run the program of a module's commands to the end of the process. `heeds` says that SIGINT is not ignored."""
    if heeds:
        signal.signal(signal.SIGINT, _interrupts.handle)
        sys.unraisablehook = _interrupts.resend
        atexit.register(_interrupts.leave)  # It is registered first, and so called last.
    try:
        importlib.import_module(commands).main()
    except KeyboardInterrupt:
        _interrupts.code = INTERRUPTED
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        # The same Ctrl-C may have ended another program, whose end this one saw.
        code = INTERRUPTED if end.code == 1 and _interrupts.at is not None else end.code
        if _interrupts.code is None and isinstance(code, int):
            _interrupts.code = code
        sys.exit(code)


@contextmanager
def interruptible_work() -> Generator[None]:
    """Let SIGINT raise `KeyboardInterrupt` in the block, where there is something to undo, but not after it."""
    _interrupts.stage = _Stage.WORKING
    try:
        yield
    finally:
        _interrupts.stage = _Stage.LEAVING


def check_interrupt() -> None:
    """Raise `KeyboardInterrupt` where one was raised before and somebody swallowed it."""
    if _interrupts.at is not None:
        raise KeyboardInterrupt


@contextmanager
def terminate_as_interrupt() -> Generator[None]:
    """Let SIGTERM and SIGHUP raise `KeyboardInterrupt`, as Ctrl-C does.

    No result is recorded, and nothing is left running.
    """

    def interrupt(_number: int, _frame: object) -> None:
        _interrupts.interrupt()

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class OutOfTimeInterrupt(KeyboardInterrupt):
    """The time is over. As with Ctrl-C, what was begun is cleaned up, and no result of it counts."""


@contextmanager
def time_limit(seconds: float | None) -> Generator[None]:
    """Raise `OutOfTimeInterrupt` in the main thread, which must enter this, after `seconds`; None means never.

    An earlier limit around this one stays in force.
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
        # A limit of 0 seconds is over at once, but the timer takes 0 as no limit.
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, min(seconds, outer or seconds)))
        yield
    finally:
        left = outer - (time.monotonic() - begun)
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, left) if outer else 0.0)
        signal.signal(signal.SIGALRM, handler)


def outlive_readers() -> None:
    """Make the command's work and exit code independent of its readers. Output without a reader is discarded."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # A stream of another kind, such as one that a test captures, stays as it is.
        if type(stream) is io.TextIOWrapper:
            encoding, errors, lines = stream.encoding, stream.errors, stream.line_buffering
            through = stream.write_through
            kept = _Output(stream.detach(), encoding, errors, line_buffering=lines, write_through=through)
            setattr(sys, name, kept)


class _Output(io.TextIOWrapper):
    """A text stream that discards its text once its reader has ended."""

    @override
    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            self._discard_output()
            return len(text)

    @override
    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            self._discard_output()

    def _discard_output(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
