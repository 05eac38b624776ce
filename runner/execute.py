"""Run one command under the supervisor: output streamed to a compressed log, a timeout, nothing left running."""

import gzip
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .interrupt import Interrupt, InterruptedWorkError
from .process_lock import ProcessLock
from .verdict import Ending

_SUPERVISOR = Path(__file__).with_name("supervise.py")
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 16
"""Bytes of a line that are kept; a line without end must not fill memory or disk."""

OnLine = Callable[[str, str], None]
"""Called with the stream (`stdout` or `stderr`) and the line without its end, in order of arrival."""


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
    """Stops it early."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How it ended, and after how many seconds."""

    ending: Ending
    seconds: float


def execute(command: Command, *, log: Path, on_line: OnLine) -> Finished:
    """Run a command to its end or its timeout.

    Whatever ends this call, an exception included, every process of the command is gone when it returns. Raises
    `InterruptedWorkError`.
    """
    begun = time.monotonic()
    control_read, control_write = os.pipe()
    try:
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                str(_SUPERVISOR),
                str(control_read),
                str(command.memory or 0),
                str(command.cwd),
                *command.argv,
            ],
            env=dict(command.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(control_read, *(lock.fileno() for lock in command.holds)),
        )
    except BaseException:
        os.close(control_write)
        raise
    finally:
        os.close(control_read)
    timed_out = False
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(log, "wb", compresslevel=3) as sink:
            timed_out = not _pump(
                process, sink, on_line, deadline=begun + command.timeout, interrupt=command.interrupt
            )
    finally:
        os.close(control_write)
        _drain(process)
    return Finished(ending=_ending(process.returncode, timed_out=timed_out), seconds=time.monotonic() - begun)


def _pump(
    process: subprocess.Popen[bytes],
    sink: gzip.GzipFile,
    on_line: OnLine,
    *,
    deadline: float,
    interrupt: Interrupt | None,
) -> bool:
    """Copy both streams until they end. False when the deadline came first. Raises `InterruptedWorkError`."""
    with selectors.DefaultSelector() as selector:
        streams = 2
        if interrupt is not None:
            selector.register(interrupt, selectors.EVENT_READ)
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, _Lines(name, sink, on_line))
        while streams:
            remaining = deadline - time.monotonic()
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
                    streams -= 1
    return True


class _Lines:
    """Cuts one stream into lines of bounded length and hands each to the log and the listener."""

    def __init__(self, name: str, sink: gzip.GzipFile, on_line: OnLine) -> None:
        self._name = name
        self._sink = sink
        self._on_line = on_line
        self._pending = bytearray()
        self._overlong = False

    def feed(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._append(line)
            self._emit()
        self._append(rest)

    def close(self) -> None:
        if self._pending:
            self._emit()

    def _append(self, data: bytes) -> None:
        room = _LONGEST_LINE - len(self._pending)
        self._overlong |= len(data) > room
        self._pending += data[:room]

    def _emit(self) -> None:
        if self._overlong:
            self._pending += b" [line cut]"
        self._sink.write(self._pending + b"\n")
        self._on_line(self._name, self._pending.decode("utf-8", "replace"))
        self._pending.clear()
        self._overlong = False


def _drain(process: subprocess.Popen[bytes]) -> None:
    """Wait for the supervisor, which kills what is left; its pipes may still hold unread output."""
    pipes: list[IO[bytes]] = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    for pipe in pipes:
        pipe.close()
    process.wait()


def _ending(code: int, *, timed_out: bool) -> Ending:
    if timed_out:
        return Ending(exit_code=None, signal=None, timed_out=True, cancelled=False)
    if code < 0:
        return Ending(exit_code=None, signal=-code, timed_out=False, cancelled=False)
    return Ending(exit_code=code, signal=None, timed_out=False, cancelled=False)
