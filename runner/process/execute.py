"""Run one command to its end: output streamed to a compressed log, a timeout, nothing left running."""

import gzip
import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from ..errors import UserError
from ..verdict.verdict import Ending
from .interrupt import Interrupt, InterruptedWorkError
from .lock import ProcessLock
from .supervised import Supervised

_LONGEST_LINE = 1 << 16
"""Bytes of a line that are kept; a line without end must not fill memory or disk."""

_CHUNK = _LONGEST_LINE
"""Bytes that are read at once: no more, so that what begins and ends among them is no longer than a line may be."""

_GRACE = 10.0
"""Seconds for a command to end by itself once it has told its end and printed nothing more."""

OnLine = Callable[[str, str], None]
"""Called with the stream (`stdout` or `stderr`) and the line without its end, in order of arrival."""

Skims = Callable[[str, bytes], bool]
"""Called with the stream and whole lines, before `OnLine` is called with each of them: true where it took them all, and
needs none by itself."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """What to run. `timeout` is seconds, `memory` bytes of address space (None: no limit); `holds` are locks that stay
    held until the last process of the command is gone, whatever becomes of this one."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    timeout: float
    memory: int | None = None
    holds: Sequence[ProcessLock] = ()
    interrupt: Interrupt | None = None
    """Stops the command early where this is asked for."""
    tells_its_end: Callable[[str], bool] | None = None
    """Whether a line tells how the command ends: from then on it is stopped, as at its timeout, once it has printed
    nothing for a while."""


@dataclass(frozen=True, kw_only=True)
class FinishedCommand:
    """How it ended, and after how many seconds."""

    ending: Ending
    seconds: float


class RunningCommand(Protocol):
    """A command that runs, and what it prints."""

    @property
    def stdout(self) -> IO[bytes]:
        """Where its standard output is read."""
        ...

    @property
    def stderr(self) -> IO[bytes]:
        """Where its standard error is read."""
        ...

    def finish(self) -> int | None:
        """Let go of it. When this returns, every process of it is gone: its exit code, or minus the signal that ended
        it. None: it was stopped by somebody else, and nobody knows how it would have ended."""
        ...


class LostRunError(UserError):
    """A command's end is not known."""


def start_anew(command: Command) -> Supervised:
    """Starts a command as a process below a supervisor of its own."""
    return Supervised.start(
        command.argv,
        cwd=command.cwd,
        environment=command.environment,
        memory=command.memory or 0,
        holds=[lock.fileno() for lock in command.holds],
    )


def execute(
    command: Command,
    *,
    log: Path,
    on_line: OnLine,
    skims: Skims | None = None,
    start: Callable[[Command], RunningCommand] = start_anew,
) -> FinishedCommand:
    """Run a command to its end or its timeout.

    Whatever ends this call, an exception included, every process of the command is gone when it returns. Raises
    `InterruptedWorkError`, and `LostRunError` where others stopped it.
    """
    begun = time.monotonic()
    timed_out = False
    deadline = _Deadline(begun + command.timeout)
    tells = command.tells_its_end

    def hear(stream: str, line: str) -> None:
        on_line(stream, line)
        if deadline.told or (tells is not None and tells(line)):
            deadline.end_soon()

    started = start(command)
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(log, "wb", compresslevel=3) as sink:
            streams = [
                (pipe, _Lines(name, sink, hear, skims if tells is None else None))
                for name, pipe in (("stdout", started.stdout), ("stderr", started.stderr))
            ]
            timed_out = not _pump(streams, deadline=deadline, interrupt=command.interrupt)
    finally:
        code = started.finish()
    if code is None and not timed_out:
        raise LostRunError(
            f"{' '.join(command.argv)[:200]}: expected an end, found it stopped from outside; run it again"
        )
    return FinishedCommand(ending=_ending(code, timed_out=timed_out), seconds=time.monotonic() - begun)


class _Deadline:
    """When a command is stopped, by the monotonic clock."""

    def __init__(self, latest: float) -> None:
        self._latest = self.at = latest
        self.told = False

    def end_soon(self) -> None:
        """The command has told its end, and printed something just now."""
        self.told = True
        self.at = min(self._latest, time.monotonic() + _GRACE)


def _pump(
    streams: "Sequence[tuple[IO[bytes], _Lines]]", *, deadline: _Deadline, interrupt: Interrupt | None
) -> bool:
    """Copy both streams until they end. False when the deadline came first. Raises `InterruptedWorkError`."""
    with selectors.DefaultSelector() as selector:
        open_streams = len(streams)
        if interrupt is not None:
            selector.register(interrupt, selectors.EVENT_READ)
        for pipe, lines in streams:
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, lines)
        while open_streams:
            remaining = deadline.at - time.monotonic()
            if remaining <= 0:
                for key in selector.get_map().values():
                    if key.fileobj is not interrupt:
                        key.data.close()
                return False
            for key, _ in selector.select(remaining):
                if key.fileobj is interrupt:
                    raise InterruptedWorkError
                data = os.read(key.fd, _CHUNK)
                if data:
                    key.data.feed(data)
                else:
                    key.data.close()
                    selector.unregister(key.fileobj)
                    open_streams -= 1
    return True


class _Lines:
    """Cuts one stream into lines of bounded length and hands each to the log and the listener."""

    def __init__(self, name: str, sink: gzip.GzipFile, on_line: OnLine, skims: Skims | None) -> None:
        self._name = name
        self._sink = sink
        self._on_line = on_line
        self._skims = skims
        self._pending = bytearray()
        self._overlong = False

    def feed(self, data: bytes) -> None:
        lines, end, rest = data.rpartition(b"\n")
        if end:
            first, end_of_first, others = lines.partition(b"\n")
            self._emit(self._whole(first) + b"\n" + others + end_of_first)
        self._append(rest)

    def close(self) -> None:
        if self._pending:
            self._emit(self._whole(b"") + b"\n")

    def _append(self, data: bytes) -> None:
        room = _LONGEST_LINE - len(self._pending)
        self._overlong |= len(data) > room
        self._pending += data[:room]

    def _whole(self, end: bytes) -> bytes:
        """The line that ends so, and begins with what is pending."""
        if not self._pending and len(end) <= _LONGEST_LINE:
            return end
        self._append(end)
        line = bytes(self._pending) + (b" [line cut]" if self._overlong else b"")
        self._pending.clear()
        self._overlong = False
        return line

    def _emit(self, lines: bytes) -> None:
        self._sink.write(lines)
        if self._skims is not None and self._skims(self._name, lines):
            return
        for line in lines.removesuffix(b"\n").split(b"\n"):
            self._on_line(self._name, line.decode("utf-8", "replace"))


def _ending(code: int | None, *, timed_out: bool) -> Ending:
    if timed_out or code is None:
        return Ending(exit_code=None, signal=None, timed_out=True, cancelled=False)
    if code < 0:
        return Ending(exit_code=None, signal=-code, timed_out=False, cancelled=False)
    return Ending(exit_code=code, signal=None, timed_out=False, cancelled=False)
