"""What may end a program's work: signals, limits of time, and readers of its output.

Before work begins, SIGINT ends the process at once. In `interruptible_work`, the first SIGINT raises
`KeyboardInterrupt`, and a later one ends the process. A finalizer or a library that swallows the exception does not
keep the program from ending. `time_limit` raises a `KeyboardInterrupt` too. `outlive_readers` lets a program continue
when the reader of its output ends, as `head` does.
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
"""Another signal within this many seconds belongs to the same Ctrl-C, which a shell and a parent may both send."""
_RESEND_DELAY = 0.01
"""A signal is sent again this many seconds after its exception was swallowed."""


class _Stage(Enum):
    STARTING = auto()
    WORKING = auto()
    LEAVING = auto()


class _InterruptHandler:
    """Decides what this process does on SIGINT. `run_program` installs it."""

    def __init__(self) -> None:
        self.stage = _Stage.STARTING
        self.interrupted_at: float | None = None
        """The time of the signal that raised `KeyboardInterrupt`; None before one."""
        self.exit_code: int | None = None
        """The exit code of the process; None while Python chooses it."""
        self.is_deferring = False
        """Whether `defer_interrupt` is to raise the exception, and not the handler."""

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.stage is _Stage.STARTING:
            exit_at_once(number, frame)
        if self.stage is _Stage.LEAVING:
            self.exit_code = INTERRUPTED
            return
        self.interrupt()

    def interrupt(self) -> None:
        """Raise `KeyboardInterrupt` on the first signal. On a later one, end the process."""
        if self.interrupted_at is None:
            self.interrupted_at = time.monotonic()
            if not self.is_deferring:
                raise KeyboardInterrupt
        elif time.monotonic() - self.interrupted_at > _REPEAT_WINDOW:
            os._exit(INTERRUPTED)

    def resend(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """Handle an exception that Python cannot raise: for a `KeyboardInterrupt`, send its signal again."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        if issubclass(unraisable.exc_type, OutOfTimeInterrupt):
            # Outside of a limit, its signal would end the process. The end of a limit stops the timer.
            if callable(signal.getsignal(signal.SIGALRM)):
                signal.setitimer(signal.ITIMER_REAL, _RESEND_DELAY)
            return
        from threading import Timer

        self.interrupted_at = None
        again = Timer(_RESEND_DELAY, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    def leave(self) -> None:
        """Flush the streams, and end the process if its exit code is known. Python's shutdown would hear no signal."""
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        if self.exit_code is not None:
            os._exit(self.exit_code)


_interrupts = _InterruptHandler()


def run_program(module: str, *, handles_interrupts: bool) -> None:
    """Call the `main` of a module, and end the process. Without `handles_interrupts`, SIGINT stays ignored."""
    if handles_interrupts:
        signal.signal(signal.SIGINT, _interrupts.handle)
        sys.unraisablehook = _interrupts.resend
        atexit.register(_interrupts.leave)  # It is registered first, and so called last.
    try:
        importlib.import_module(module).main()
    except KeyboardInterrupt:
        _interrupts.exit_code = INTERRUPTED
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        # The same Ctrl-C may have ended a child whose failure became this exit code 1.
        code = INTERRUPTED if end.code == 1 and _interrupts.interrupted_at is not None else end.code
        if _interrupts.exit_code is None and isinstance(code, int):
            _interrupts.exit_code = code
        sys.exit(code)


@contextmanager
def interruptible_work() -> Generator[None]:
    """Let SIGINT raise `KeyboardInterrupt` in the block. After the block, SIGINT only sets the exit code."""
    _interrupts.stage = _Stage.WORKING
    try:
        yield
    except Exception:
        check_interrupt()
        raise
    finally:
        _interrupts.stage = _Stage.LEAVING


def check_interrupt() -> None:
    """Raise `KeyboardInterrupt` again, if one was raised before and somebody swallowed it.

    C code may swallow it by raising another exception: numpy's comparison of columns raises a `TypeError`.
    """
    if _interrupts.interrupted_at is not None:
        raise KeyboardInterrupt


@contextmanager
def defer_interrupt() -> Generator[None]:
    """Raise the `KeyboardInterrupt` of a signal in the block at the end of the block, which must be short."""
    was_interrupted, outer = _interrupts.interrupted_at is not None, _interrupts.is_deferring
    _interrupts.is_deferring = True
    try:
        yield
    finally:
        _interrupts.is_deferring = outer
    if not was_interrupted and not outer:
        check_interrupt()


@contextmanager
def terminate_as_interrupt() -> Generator[None]:
    """Let SIGTERM and SIGHUP raise `KeyboardInterrupt` in the block, as Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        _interrupts.interrupt()

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class OutOfTimeInterrupt(KeyboardInterrupt):
    """A limit of time is over. As with Ctrl-C, running work is cleaned up and has no result."""


@contextmanager
def time_limit(seconds: float | None) -> Generator[None]:
    """Raise `OutOfTimeInterrupt` in the block after `seconds`; None means never. Only the main thread may use this.

    A limit around this one stays in force.
    """
    if seconds is None:
        yield
        return

    is_over = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal is_over
        is_over = True
        raise OutOfTimeInterrupt

    begun = time.monotonic()
    handler = signal.signal(signal.SIGALRM, stop)
    outer, _ = signal.getitimer(signal.ITIMER_REAL)
    try:
        # The timer takes 0 as no limit, but a limit of 0 seconds is over at once.
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, min(seconds, outer or seconds)))
        yield
    except Exception as error:
        # C code may raise another exception in place of an interrupt: see `check_interrupt`.
        if is_over:
            raise OutOfTimeInterrupt from error
        raise
    finally:
        left = outer - (time.monotonic() - begun)
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, left) if outer else 0.0)
        signal.signal(signal.SIGALRM, handler)


def outlive_readers() -> None:
    """Let the program continue when a reader of its output ends. Output without a reader is discarded."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # A stream of another type, such as a test's, stays as it is.
        if type(stream) is io.TextIOWrapper:
            encoding, errors, lines = stream.encoding, stream.errors, stream.line_buffering
            through = stream.write_through
            wrapper = _PatientStream(
                stream.detach(), encoding, errors, line_buffering=lines, write_through=through
            )
            setattr(sys, name, wrapper)


class _PatientStream(io.TextIOWrapper):
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
