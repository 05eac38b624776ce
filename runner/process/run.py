"""Runs one command to its end: streams its output to a compressed log, bounds its time, leaves nothing running.

`execute` runs the command below a supervisor (`SupervisedProcess`), which ends everything below it when this side ends.
`Interrupt` stops work that is no longer wanted: its descriptor becomes readable.

`Secrets` hides values of environment variables in what runs print. A value is public only if compilers, interpreters,
loaders or numerical libraries are known to read the variable. Of the others, a value is a secret in two cases. The name
or the value looks like one, or the value is too long and mixed for a word. This protects against accidents: a run that
wants to reveal a secret can write it backwards.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from filelock import FileLock, Timeout

from ...store.durable_files import open_private
from ...store.vocabulary import url_passwords
from ..errors import UserError
from ..verdict.classify import Ending
from ..workspace.slot import ProcessLock

_LOCK_POLL = 0.2
"""A lock that another process holds is tried once in this many seconds."""


class InterruptedWorkError(Exception):
    """The work was stopped on request. No result of it counts."""


class HasDescriptor(Protocol):
    """Has a descriptor that becomes readable when a message comes or the other end is gone, as a connection does."""

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        ...


class Interrupt:
    """Asks for a stop as soon as its descriptor can be read. It does not read from the descriptor."""

    def __init__(self, source: HasDescriptor) -> None:
        self._source = source

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._source.fileno()

    def check(self) -> None:
        """Return if no stop is asked for.

        Raises:
            InterruptedWorkError: a stop is asked for.
        """
        poll = select.poll()
        poll.register(self._source.fileno(), select.POLLIN)
        if poll.poll(0):
            raise InterruptedWorkError

    def wait(self, acquire: Callable[[], bool]) -> None:
        """Try to take a lock until it succeeds. Raises `InterruptedWorkError`."""
        poll = select.poll()
        poll.register(self._source.fileno(), select.POLLIN)
        while not acquire():
            if poll.poll(int(_LOCK_POLL * 1000)):
                raise InterruptedWorkError


@contextmanager
def interrupt_after(seconds: float) -> Generator[Interrupt]:
    """Yield an interrupt that asks for a stop after some seconds."""
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
    """Take a file lock if it is free; return whether it did."""
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    return True


IRRELEVANT_VARIABLES = frozenset(
    {
        *("HOME", "HOSTNAME", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TEMP", "TMP", "TMPDIR"),
        *("COLORTERM", "COLUMNS", "DISPLAY", "LINES", "LS_COLORS", "STY", "TERM", "WAYLAND_DISPLAY"),
        *("HISTCONTROL", "HISTFILE", "HISTFILESIZE", "HISTSIZE", "MAIL", "MANPATH", "PS1", "VIRTUAL_ENV"),
        *("EDITOR", "INVOCATION_ID", "PAGER", "USER", "VISUAL", "WINDOWID", "_"),
    }
)
"""These variables describe places and terminals. They are no secrets, and they do not change results."""
_PUBLIC_NAMES = """
    BASH_ENV ENV IFS LANG LANGUAGE LOCPATH POSIXLY_CORRECT TZ TZDIR
    AR AS CC CFLAGS COMPILER_PATH CPATH CPP CPPFLAGS CXX CXXFLAGS C_INCLUDE_PATH LD LDFLAGS LIBRARY_PATH
    MAKE MAKEFLAGS MFLAGS NM RANLIB SOURCE_DATE_EPOCH STRIP
    CLASSPATH GOARCH GODEBUG GOFLAGS GOGC GOMAXPROCS GOOS GOPATH GOROOT JDK_HOME NODE_OPTIONS NODE_PATH
    PERL5LIB PERL5OPT RUBYLIB RUBYOPT RUSTC RUSTFLAGS
"""
_PUBLIC_PREFIXES = """
    ASAN_ GCONV_ GLIBC_ LC_ LD_ LSAN_ MALLOC_ MSAN_ TSAN_ UBSAN_
    CARGO_ CCACHE_ CMAKE_ CPLUS_ GCC_ JAVA_ NINJA_ PKG_CONFIG_ PYTHON RUST_ SKBUILD_
    ATEN_ BLAS_ BLIS_ DNNL_ FLEXIBLAS GOMP_ GOTO_ KMP_ MKL_ NPY_ NUMBA_ NUMEXPR_ NUMPY_ NVPL_ OMP_ ONEDNN_ OPENBLAS_
    PYTORCH_ TBB_ TORCH TRITON_ VECLIB_
    ACL_ ASCEND CANN_ CUBLAS_ CUDA_ HCCL_ HIP_ HSA_ NCCL_ NPU_ NVIDIA_ ROCR_
"""
"""The public variables have their whole names above, and the prefixes of others stand here."""
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASS|PWD|CREDENTIAL|AUTH(?!OR)|COOKIE|WEBHOOK|PRIVATE|GIT_CONFIG_VALUE|JWT|DSN|KEY|(^|_)(PAT|PW)(_|$)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(r"://[^/\s]*@|\b(authorization|bearer|basic)\b[: ]", re.IGNORECASE)
_MIN_SECRET, _MIN_SECRET_WORD, _MIN_OTHER_SECRET = 8, 12, 16
"""A secret has at least this number of characters.

They are for a value whose name looks like a secret's, for one that may be a plain word, and for any other."""


def is_public(name: str, value: str) -> bool:
    """Return whether a variable's value may be kept and shown.

    >>> is_public("OMP_NUM_THREADS", "4"), is_public("CARGO_REGISTRY_TOKEN", "x"), is_public("GITHUB_PAT", "ghp_x")
    (True, False, False)
    """
    known = name in _PUBLIC_NAMES.split() or name.startswith(tuple(_PUBLIC_PREFIXES.split()))
    return known and not _looks_secret(name, value)


def is_secret_name(name: str) -> bool:
    """Return whether a variable is named like a secret."""
    return _SECRET_NAME.search(name) is not None


class Secrets:
    """Hides values in what a command with these variables prints."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        plain = [
            value
            for name, value in variables.items()
            if name in IRRELEVANT_VARIABLES or is_public(name, value)
        ]
        found = {
            part: name
            for name, value in variables.items()
            if name not in IRRELEVANT_VARIABLES and not is_public(name, value)
            for whole in _parts(name, value)
            if not any(whole in each for each in plain)
            for part in {whole, json.dumps(whole)[1:-1], repr(whole)[1:-1]}
        }
        self.longest = max((len(os.fsencode(part)) for part in found), default=0)
        """The bytes of the longest value."""
        # The longest value comes first, because it may contain another one.
        self._names = {
            os.fsencode(part): f"***{found[part]}***".encode()
            for part in sorted(found, key=len, reverse=True)
        }

    def hide(self, text: bytes) -> bytes:
        """Return a text with the name of its variable in place of each value.

        >>> Secrets({"GITHUB_PAT": "ghp_0123456789", "DEPTH": "3"}).hide(b"push 3 with ghp_0123456789")
        b'push 3 with ***GITHUB_PAT***'
        """
        for value, name in self._names.items():
            if value in text:
                text = text.replace(value, name)
        return text


def find_secret(text: str, variables: Mapping[str, str]) -> str | None:
    """Return the name of a variable that looks like a secret and whose value a text has. Return None if there is none.

    >>> find_secret("--token=ghp_0123456789", {"GITHUB_PAT": "ghp_0123456789"})
    'GITHUB_PAT'
    """
    return next(
        (
            name
            for name, value in variables.items()
            if name not in IRRELEVANT_VARIABLES
            and _looks_secret(name, value)
            and any(part in text for part in _parts(name, value))
        ),
        None,
    )


def _looks_secret(name: str, value: str) -> bool:
    return is_secret_name(name) or _SECRET_VALUE.search(value) is not None


def _parts(name: str, value: str) -> Iterator[str]:
    """Yield the parts of a value that must not be printed: lines, the password of a URL, a header's last word."""
    looks = _looks_secret(name, value)
    whole = [*value.splitlines(), *(value.split()[-1:] if looks else ())]
    yield from filter(_is_value_of_secret_name if looks else _resembles_secret, whole)
    yield from filter(_is_value_of_secret_name, url_passwords(value))


def _is_value_of_secret_name(text: str) -> bool:
    """Return whether a text, of a variable that is named like a secret, is no path, number or common word."""
    if len(text) < _MIN_SECRET or text.startswith(("/", "./", "~/")):
        return False
    is_word = text.isalpha() and (text.islower() or text.isupper() or text.istitle())
    return len(text) >= _MIN_SECRET_WORD if is_word else not re.fullmatch(r"[\d.,:+-]*", text)


def _resembles_secret(text: str) -> bool:
    mixed = re.search(r"[A-Za-z]", text) and re.search(r"\d", text)
    return len(text) >= _MIN_OTHER_SECRET and mixed is not None and not re.search(r"[/\s]", text)


_WAIT_TIMEOUT = 0.5
"""A command that was killed is looked at once in this many seconds."""

_SUPERVISOR = Path(__file__).with_name("supervise.py")


@dataclass(frozen=True)
class SupervisedProcess:
    """A process below a supervisor. `process` is the supervisor; closing `control`, the end of its pipe, stops it."""

    process: subprocess.Popen[bytes]
    control: int

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        memory: int = 0,
        holds: Sequence[int] = (),
        stdin: int = subprocess.DEVNULL,
        output: int = subprocess.PIPE,
    ) -> SupervisedProcess:
        """Start a command below a supervisor.

        `memory` is bytes of address space (0: no limit). `holds` are descriptors that stay open until the whole command
        has ended. `output` receives both streams.
        """
        control_read, control_write = os.pipe()
        try:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(_SUPERVISOR)),
                    *(str(control_read), str(memory), str(cwd), *argv),
                ],
                env=dict(environment),
                stdin=stdin,
                stdout=output,
                stderr=output,
                pass_fds=(control_read, *holds),
            )
        except BaseException:
            os.close(control_write)
            raise
        finally:
            os.close(control_read)
        return cls(process, control_write)

    @property
    def stdout(self) -> IO[bytes]:
        """Return the command's standard output, where it goes to a pipe."""
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def stderr(self) -> IO[bytes]:
        """Return the command's standard error, where it goes to a pipe."""
        assert self.process.stderr is not None
        return self.process.stderr

    def finish(self) -> int:
        """Kill what is left and wait. Return the exit code, or minus the signal that ended the command."""
        os.close(self.control)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()  # There may be unread output in the pipe.
        while True:
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(_WAIT_TIMEOUT)
            # The command may have stopped its supervisor, which cannot end while it is stopped.
            self.process.send_signal(signal.SIGCONT)


_LONGEST_LINE = 1 << 16
"""This many bytes of a line are kept. A line without end must not fill memory or disk."""

_CHUNK = _LONGEST_LINE
"""This many bytes are read at once. A line that lies wholly within them is never longer than a line may be."""

_GRACE = 10.0
"""A command gets this many seconds to end by itself once it has announced its end and prints nothing more."""

OnLine = Callable[[str, str], None]
"""Such a function is called with the stream (`stdout` or `stderr`) and each line without its end, in order."""

OnLines = Callable[[str, bytes], bool]
"""Such a function is called with the stream and whole lines, before `OnLine` is called with each of them.

It returns True where it took them all, and then `OnLine` is not called for them."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """What to run. `timeout` is in seconds, `memory` in bytes of address space (None: no limit).

    `holds` are locks that stay held until the last process of the command is gone, whatever happens to this process.
    """

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    timeout: float
    memory: int | None = None
    holds: Sequence[ProcessLock] = ()
    interrupt: Interrupt | None = None
    """The interrupt that stops the command early."""
    tells_its_end: Callable[[str], bool] | None = None
    """Returns whether a line announces the command's end.

    From then on the command is stopped, as at its timeout, once it has printed nothing for a while.
    """


@dataclass(frozen=True, kw_only=True)
class FinishedCommand:
    """How a command ended, and after how many seconds."""

    ending: Ending
    seconds: float


class RunningCommand(Protocol):
    """A running command and its output."""

    @property
    def stdout(self) -> IO[bytes]:
        """Return the stream of its standard output."""
        ...

    @property
    def stderr(self) -> IO[bytes]:
        """Return the stream of its standard error."""
        ...

    def finish(self) -> int | None:
        """Stop the command. When this returns, all its processes are gone.

        Return its exit code, or minus the signal that ended it. Return None where somebody else stopped it, so that
        nobody knows how it would have ended.
        """
        ...


class LostRunError(UserError):
    """The ending of a command is not known."""


def start_process(command: Command) -> SupervisedProcess:
    """Start a command as a process below a supervisor of its own."""
    return SupervisedProcess.start(
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
    skims: OnLines | None = None,
    start: Callable[[Command], RunningCommand] = start_process,
) -> FinishedCommand:
    """Run a command to its end or its timeout. The log and the listeners never see secrets of its environment.

    Whatever ends this call, an exception included, every process of the command is gone when it returns. Raises
    `InterruptedWorkError`, and `LostRunError` where others stopped the command.
    """
    begun = time.monotonic()
    timed_out = False
    deadline = _Deadline(begun + command.timeout)
    tells = command.tells_its_end

    def hear(stream: str, line: str) -> None:
        on_line(stream, line)
        if deadline.told or (tells is not None and tells(line)):
            deadline.end_soon()

    secrets = Secrets(command.environment)
    started = start(command)
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb", opener=open_private) as file, gzip.open(file, "wb", compresslevel=3) as sink:
            streams = [
                (pipe, _Lines(name, sink, secrets, hear, skims if tells is None else None))
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
    """The time at which a command is stopped, by the monotonic clock."""

    def __init__(self, latest: float) -> None:
        self._latest = self.at = latest
        self.told = False

    def end_soon(self) -> None:
        """Shorten the time: the command has announced its end, and just printed something."""
        self.told = True
        self.at = min(self._latest, time.monotonic() + _GRACE)


def _pump(
    streams: Sequence[tuple[IO[bytes], _Lines]], *, deadline: _Deadline, interrupt: Interrupt | None
) -> bool:
    """Copy both streams until they end. Return False when the deadline came first.

    Raises `InterruptedWorkError`.
    """
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
    """Cuts one stream into lines of bounded length, and passes each to the log and the listener."""

    def __init__(
        self, name: str, sink: gzip.GzipFile, secrets: Secrets, on_line: OnLine, skims: OnLines | None
    ) -> None:
        self._name = name
        self._sink = sink
        self._secrets = secrets
        self._on_line = on_line
        self._skims = skims
        self._pending = bytearray()

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
        # So much more that a secret at the end of what is kept is whole, and can be hidden.
        room = _LONGEST_LINE + 1 + self._secrets.longest - len(self._pending)
        self._pending += data[:room]

    def _whole(self, end: bytes) -> bytes:
        """Return the line that ends with `end`, and begins with the pending bytes."""
        if not self._pending and len(end) <= _LONGEST_LINE:
            return end
        self._append(end)
        line = bytes(self._pending)
        self._pending.clear()
        if len(line) <= _LONGEST_LINE:
            return line
        hidden = self._secrets.hide(line)
        if len(line) > _LONGEST_LINE + self._secrets.longest:
            # There was more, and the last bytes may be the beginning of a secret.
            hidden = hidden[: len(hidden) - self._secrets.longest]
        return hidden[:_LONGEST_LINE] + b" [line cut]"

    def _emit(self, lines: bytes) -> None:
        lines = self._secrets.hide(lines)
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
