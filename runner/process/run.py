"""Runs one command to its end: streams its output to a compressed log, bounds its time, leaves nothing running.

`execute` runs a `Command`. A process that a `ForkServer` forks supervises it, and kills all its processes when this
process ends. `Interrupt` stops work that is no longer wanted. `Secrets` hides values of environment variables in what
commands print. This protects against accidents alone: a command can print a secret backwards.
"""

from __future__ import annotations

import atexit
import gzip
import json
import os
import re
import select
import selectors
import signal
import socket
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
from ...store.vocabulary import OutputStream, url_passwords
from ..errors import UserError
from ..git import inherited_environment
from ..verdict.rules import Ending
from ..workspace.home import ProcessLock

_LOCK_POLL = 0.2
"""A lock that another process holds is tried once in this many seconds."""


class InterruptedWorkError(Exception):
    """The work was stopped on request, and has no result."""


class HasDescriptor(Protocol):
    """A file, pipe or connection whose descriptor becomes readable."""

    def fileno(self) -> int:
        """Return the descriptor."""
        ...


class Interrupt:
    """A request to stop, which is made when a descriptor becomes readable. Nothing is read from it."""

    def __init__(self, source: HasDescriptor) -> None:
        self._source = source

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._source.fileno()

    def check(self) -> None:
        """Raise `InterruptedWorkError` if the request was made."""
        self._check(timeout=0.0)

    def wait(self, acquire: Callable[[], bool]) -> None:
        """Call `acquire`, which tries to take a lock, until it returns True. Raises `InterruptedWorkError`."""
        while not acquire():
            self._check(timeout=_LOCK_POLL)

    def _check(self, *, timeout: float) -> None:
        poll = select.poll()
        poll.register(self._source.fileno(), select.POLLIN)
        if poll.poll(int(timeout * 1000)):
            raise InterruptedWorkError


@contextmanager
def interrupt_after(seconds: float) -> Generator[Interrupt]:
    """Yield an interrupt whose request is made after some seconds."""
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
    """Take a file lock if it is free, and return whether it was."""
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
"""These variables describe places and terminals. They are not secret, and do not change results."""
_PUBLIC_NAMES = """
    BASH_ENV ENV IFS LANG LANGUAGE LOCPATH PATH POSIXLY_CORRECT TZ TZDIR
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
"""A variable with one of these names or prefixes is public, because compilers, interpreters, loaders or numerical
libraries read it."""
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASS|PWD|CREDENTIAL|AUTH(?!OR)|COOKIE|WEBHOOK|PRIVATE|GIT_CONFIG_VALUE|JWT|DSN|KEY|(^|_)(PAT|PW)(_|$)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(r"://[^/\s]*@|\b(authorization|bearer|basic)\b[: ]", re.IGNORECASE)
_MIN_SECRET, _MIN_SECRET_WORD, _MIN_OTHER_SECRET = 8, 12, 16
"""A secret has at least this many characters.

The first number is for a variable that is named like a secret. The second is for such a variable with a plain word as
its value. The third is for other variables."""


def is_public(name: str, value: str) -> bool:
    """Return whether a variable's value may be kept and shown.

    >>> is_public("OMP_NUM_THREADS", "4"), is_public("CARGO_REGISTRY_TOKEN", "x"), is_public("GITHUB_PAT", "ghp_x")
    (True, False, False)
    """
    known = name in _PUBLIC_NAMES.split() or name.startswith(tuple(_PUBLIC_PREFIXES.split()))
    return known and not _looks_secret(name, value)


class Secrets:
    """Hides the secret values of environment variables in what a command prints.

    A variable that is not public has a secret in two cases. Its name or value looks like that of a secret, or its value
    is too long and mixed for a word.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        shown = [
            value
            for name, value in variables.items()
            if name in IRRELEVANT_VARIABLES or is_public(name, value)
        ]
        name_of: dict[str, str] = {}
        for name, value in variables.items():
            if name in IRRELEVANT_VARIABLES or is_public(name, value):
                continue
            for secret in _secret_parts(name, value):
                if not any(secret in each for each in shown):
                    # A command may print the value as JSON or Python do.
                    spellings = {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]}
                    name_of.update(dict.fromkeys(spellings, name))
        self.longest = max((len(os.fsencode(secret)) for secret in name_of), default=0)
        """The length of the longest secret, in bytes."""
        # The longest secret comes first, because it may contain another one.
        self._replacements = {
            os.fsencode(secret): f"***{name_of[secret]}***".encode()
            for secret in sorted(name_of, key=len, reverse=True)
        }

    def hide(self, text: bytes) -> bytes:
        """Return a text with the name of its variable in place of each secret.

        >>> Secrets({"GITHUB_PAT": "ghp_0123456789", "DEPTH": "3"}).hide(b"push 3 with ghp_0123456789")
        b'push 3 with ***GITHUB_PAT***'
        """
        for secret, name in self._replacements.items():
            if secret in text:
                text = text.replace(secret, name)
        return text


def find_secret(text: str, variables: Mapping[str, str]) -> str | None:
    """Return the name of a variable that looks like a secret and whose value occurs in a text; None without one.

    >>> find_secret("--token=ghp_0123456789", {"GITHUB_PAT": "ghp_0123456789"})
    'GITHUB_PAT'
    """
    return next(
        (
            name
            for name, value in variables.items()
            if name not in IRRELEVANT_VARIABLES
            and _looks_secret(name, value)
            and any(part in text for part in _secret_parts(name, value))
        ),
        None,
    )


def _looks_secret(name: str, value: str) -> bool:
    return _SECRET_NAME.search(name) is not None or _SECRET_VALUE.search(value) is not None


def _secret_parts(name: str, value: str) -> Iterator[str]:
    """Yield the secrets in a value: its lines, the last word of a header, the password of a URL."""
    if _looks_secret(name, value):
        yield from filter(_is_probable_secret, [*value.splitlines(), *value.split()[-1:]])
    else:
        yield from filter(_is_long_and_mixed, value.splitlines())
    yield from filter(_is_probable_secret, url_passwords(value))


_BASE64 = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[A-Za-z0-9+/]{20,}={0,2}")
"""A key of 20 characters or more in base64, which may begin with `/`. Paths seldom look so."""


def _is_probable_secret(text: str) -> bool:
    """Return whether a text of a variable that looks like a secret is no path, number or common word."""
    is_path = text.startswith(("/", "./", "~/")) and not _BASE64.fullmatch(text)
    if len(text) < _MIN_SECRET or is_path:
        return False
    is_word = text.isalpha() and (text.islower() or text.isupper() or text.istitle())
    return len(text) >= _MIN_SECRET_WORD if is_word else not re.fullmatch(r"[\d.,:+-]*", text)


def _is_long_and_mixed(text: str) -> bool:
    """Return whether a text is one long word of letters and digits, and no path."""
    has_letters_and_digits = re.search(r"[A-Za-z]", text) is not None and re.search(r"\d", text) is not None
    return len(text) >= _MIN_OTHER_SECRET and has_letters_and_digits and not re.search(r"[/\s]", text)


_WAIT_TIMEOUT = 0.5
"""A supervisor that has not ended is continued again after this many seconds."""

_SUPERVISOR = Path(__file__).with_name("supervise.py")
_FORK_SERVER = Path(__file__).with_name("fork_server.py")


@dataclass(frozen=True)
class SupervisedProcess:
    """A command below a supervisor, which kills the command when `control` is closed.

    `process` is the supervisor, and `control` is the writing end of its control pipe. It is
    also closed when this process ends.
    """

    process: subprocess.Popen[bytes]
    control: int

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        output: int = subprocess.PIPE,
    ) -> SupervisedProcess:
        """Start a command below a supervisor.

        `output` is the target of both output streams, as for `subprocess.Popen`.
        """
        control_read, control_write = os.pipe()
        try:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(_SUPERVISOR)),
                    *(str(control_read), str(cwd), *argv),
                ],
                env=dict(environment),
                stdin=stdin,
                stdout=output,
                stderr=output,
                pass_fds=(control_read,),
            )
        except BaseException:
            os.close(control_write)
            raise
        finally:
            os.close(control_read)
        return cls(process, control_write)

    @property
    def stdout(self) -> IO[bytes]:
        """Return the pipe of the command's standard output."""
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def stderr(self) -> IO[bytes]:
        """Return the pipe of the command's standard error."""
        assert self.process.stderr is not None
        return self.process.stderr

    def finish(self) -> int:
        """Kill the command, unless it has ended, and wait. Return its exit code, or minus the signal that ended it."""
        os.close(self.control)
        # The supervisor must not wait for a reader of unread output.
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        while True:
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(_WAIT_TIMEOUT)
            # The command may have stopped its supervisor, which cannot end while it is stopped.
            self.process.send_signal(signal.SIGCONT)


_MAX_LINE_LENGTH = 1 << 16
"""At most this many bytes of a line are kept. A line without end must not fill memory or disk."""

_CHUNK = _MAX_LINE_LENGTH
"""At most this many bytes are read at once, so that a line within them need not be cut."""

_MAX_WAIT = 3600.0
"""One system call waits at most this many seconds for output. No system takes a wait of a month."""

_GRACE = 10.0
"""After a command has announced its end, it is stopped once it has printed nothing for this many seconds."""

OnLine = Callable[[OutputStream, str], None]
"""Is called with a stream and one line, without its newline."""

OnLines = Callable[[OutputStream, bytes], bool]
"""Is called with a stream and whole lines. If it returns False, `OnLine` is called with each of them."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command to run, and its limits."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    timeout: float
    """The timeout in seconds."""
    memory: int | None = None
    """The limit of the address space in bytes; None for no limit."""
    locks: Sequence[ProcessLock] = ()
    """The locks to hold until the command's last process is gone, even if this process ends before."""
    interrupt: Interrupt | None = None
    """The interrupt that stops the command early."""
    announces_end: Callable[[str], bool] | None = None
    """Returns whether a line announces the command's end. Then the command has only a short time left."""


@dataclass(frozen=True, kw_only=True)
class FinishedCommand:
    """The ending of a command, and the seconds that it took."""

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
        """Kill the command, unless it has ended, and wait until all its processes are gone.

        Returns its exit code, or minus the signal that ended it; None where its ending is not known.
        """
        ...


class LostRunError(UserError):
    """The ending of a command is not known, because somebody else stopped it."""


class NoForkServerError(UserError):
    """A server cannot be used. The message says why."""


@dataclass(frozen=True)
class ForkServer:
    """A process that forks for each run (`fork_server.py`), so that a run need not start an interpreter or import.

    `connection` is our end of its standard input. `pid` is its own process id, not that of its supervisor.
    """

    supervised: SupervisedProcess
    connection: socket.socket
    pid: int

    @classmethod
    def start(
        cls,
        interpreter: Sequence[str],
        *,
        environment: Mapping[str, str],
        timeout: float,
        modules: Sequence[str] = (),
    ) -> ForkServer:
        """Start a server, and wait for at most `timeout` seconds until it has imported the modules.

        Raises `NoForkServerError` and `OSError`.
        """
        connection, stdin = socket.socketpair()
        with stdin:
            supervised = SupervisedProcess.start(
                [*interpreter, str(_FORK_SERVER), *modules],
                cwd=Path("/"),
                environment=environment,
                stdin=stdin.fileno(),
                output=subprocess.DEVNULL,
            )
        try:
            connection.settimeout(timeout)
            with connection.makefile("rb") as reports:
                line, pid = reports.readline(), reports.readline()
            connection.settimeout(None)
            problem = json.loads(line) if line else "it ended while it imported them"
            if problem is not None:
                raise NoForkServerError(problem)
        except BaseException:
            connection.close()
            supervised.finish()
            raise
        return cls(supervised, connection, int(pid))

    def fork_script(self, command: Command, variables: Mapping[str, str]) -> ForkedRun:
        """Run a script, with further variables, in the interpreter of the server. Raises `OSError`."""
        return self._fork(
            command, {"argv": command.argv[1:], "cwd": str(command.cwd), "variables": variables}
        )

    def fork_program(self, command: Command) -> ForkedRun:
        """Run a program, with the environment of the command alone. Raises `OSError`."""
        variables = {
            _encode_for_json(name): _encode_for_json(value) for name, value in command.environment.items()
        }
        argv = [_encode_for_json(word) for word in command.argv]
        return self._fork(
            command,
            {
                "program": True,
                "argv": argv,
                "cwd": _encode_for_json(str(command.cwd)),
                "variables": variables,
            },
        )

    def _fork(self, command: Command, request: Mapping[str, object]) -> ForkedRun:
        connection, far_end = socket.socketpair()
        pipes = [os.pipe(), os.pipe()]
        run = ForkedRun(self, connection, *(os.fdopen(reading, "rb", buffering=0) for reading, _ in pipes))
        try:
            writing = (far_end.fileno(), *(end for _, end in pipes))
            socket.send_fds(self.connection, [b"r"], [*writing, *(lock.fileno() for lock in command.locks)])
            message = {**request, "memory": command.memory or 0}
            connection.sendall(json.dumps(message).encode() + b"\n")
        except BaseException:
            far_end.close()
            run.finish()
            raise
        finally:
            far_end.close()
            for _, end in pipes:
                os.close(end)
        return run

    def resume(self) -> None:
        """Resume the server, which a run may have stopped."""
        if self.supervised.process.poll() is None:
            _resume_process(self.pid)
            self.supervised.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the server and all its runs."""
        self.connection.close()
        self.supervised.finish()


def _encode_for_json(text: str) -> str:
    """Return a text in which each character is one byte of the encoded text, because JSON has no bytes."""
    return os.fsencode(text).decode("latin-1")


def _resume_process(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@dataclass(frozen=True)
class ForkedRun:
    """A run that a server has forked, and the connection to the process that supervises it."""

    server: ForkServer
    connection: socket.socket
    stdout: IO[bytes]
    stderr: IO[bytes]

    def finish(self) -> int | None:
        """Kill the run, unless it has ended, and wait until all its processes are gone.

        Returns its exit code, or minus the signal that ended it; None where this or another process stopped it.
        """
        with suppress(OSError):  # Its other end is gone already.
            self.connection.shutdown(socket.SHUT_WR)
        for pipe in (self.stdout, self.stderr):
            pipe.close()
        received = b""
        self.connection.settimeout(_WAIT_TIMEOUT)
        with self.connection, suppress(ConnectionResetError):  # Nobody has read the request.
            while (part := self._receive(received)) != b"":
                received += part or b""
        _, _, status = received.partition(b"\n")
        return os.waitstatus_to_exitcode(int(status)) if status else None

    def _receive(self, received: bytes) -> bytes | None:
        """Return the next bytes from the supervising process. If none come in time, resume it and return None."""
        try:
            return self.connection.recv(64)
        except TimeoutError:
            # The run may have stopped the processes above it, which cannot end while they are stopped.
            pid, newline, _ = received.partition(b"\n")
            if newline:
                _resume_process(int(pid))
            self.server.resume()
            return None


_SERVER_TIMEOUT = 60.0
"""The server of programs, which imports nothing, must start within this many seconds."""
_program_servers: dict[int, ForkServer] = {}
"""The server of programs, by the id of the process that started it. A fork of this process needs its own."""
_program_servers_lock = threading.Lock()


def start_process(command: Command) -> RunningCommand:
    """Start a command below a supervisor. Raises `NoForkServerError` and `OSError`."""
    pid = os.getpid()
    with _program_servers_lock:
        server = _program_servers.pop(pid, None)
        if server is not None:
            try:
                run = server.fork_program(command)
            except OSError:  # Somebody has killed it.
                server.close()
            else:
                _program_servers[pid] = server
                return run
        server = ForkServer.start(
            (sys.executable, "-I", "-S"), environment=inherited_environment(), timeout=_SERVER_TIMEOUT
        )
        _program_servers[pid] = server
        atexit.register(_close_program_server, pid)
        return server.fork_program(command)


def _close_program_server(pid: int) -> None:
    """End the server of this process before the process ends, so that nothing is left when it has ended."""
    if os.getpid() == pid and (server := _program_servers.pop(pid, None)) is not None:
        server.close()


def execute(
    command: Command,
    *,
    log: Path,
    on_line: OnLine,
    on_lines: OnLines | None = None,
    start: Callable[[Command], RunningCommand] = start_process,
) -> FinishedCommand:
    """Run a command to its end or its timeout. The log and the listeners get its output without secrets.

    When this returns or raises, every process of the command is gone. Raises `InterruptedWorkError` and `LostRunError`.
    """
    begun = time.monotonic()
    timed_out = False
    deadline = _Deadline(begun + command.timeout)
    announces_end = command.announces_end

    def handle_line(stream: OutputStream, line: str) -> None:
        on_line(stream, line)
        if deadline.is_shortened or (announces_end is not None and announces_end(line)):
            deadline.shorten()

    secrets = Secrets(command.environment)
    run = start(command)
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb", opener=open_private) as file, gzip.open(file, "wb", compresslevel=3) as sink:
            on_all_lines = on_lines if announces_end is None else None
            pipes: dict[OutputStream, IO[bytes]] = {"stdout": run.stdout, "stderr": run.stderr}
            streams = [
                (pipe, _LineSplitter(stream, sink, secrets, handle_line, on_all_lines))
                for stream, pipe in pipes.items()
            ]
            timed_out = not _copy_streams(streams, deadline=deadline, interrupt=command.interrupt)
    finally:
        code = run.finish()
    if code is None and not timed_out:
        raise LostRunError(
            f"{' '.join(command.argv)[:200]}: expected an end, found it stopped from outside; run it again"
        )
    return FinishedCommand(ending=_ending(code, timed_out=timed_out), seconds=time.monotonic() - begun)


class _Deadline:
    """The time at which a command is stopped, by the monotonic clock."""

    def __init__(self, latest: float) -> None:
        self._latest = self.at = latest
        self.is_shortened = False

    def shorten(self) -> None:
        """Set the deadline to `_GRACE` seconds from now, but never to a later time than at first."""
        self.is_shortened = True
        self.at = min(self._latest, time.monotonic() + _GRACE)


def _copy_streams(
    streams: Sequence[tuple[IO[bytes], _LineSplitter]], *, deadline: _Deadline, interrupt: Interrupt | None
) -> bool:
    """Read both streams until they end, and return True; return False if the deadline comes first.

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
            for key, _ in selector.select(min(remaining, _MAX_WAIT)):
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


class _LineSplitter:
    """Splits one stream into lines of bounded length, and passes them to the log and the listeners."""

    def __init__(
        self,
        stream: OutputStream,
        sink: gzip.GzipFile,
        secrets: Secrets,
        on_line: OnLine,
        on_lines: OnLines | None,
    ) -> None:
        self._stream: OutputStream = stream
        self._sink = sink
        self._secrets = secrets
        self._on_line = on_line
        self._on_lines = on_lines
        self._pending = bytearray()
        """The beginning of a line whose end was not read yet."""

    def feed(self, data: bytes) -> None:
        lines, newline, rest = data.rpartition(b"\n")
        if newline:
            first, end_of_first, others = lines.partition(b"\n")
            self._emit(self._finish_line(first) + b"\n" + others + end_of_first)
        self._append(rest)

    def close(self) -> None:
        if self._pending:
            self._emit(self._finish_line(b"") + b"\n")

    def _append(self, data: bytes) -> None:
        # A secret that begins in the longest line has to be kept whole, so that it can be hidden.
        room = _MAX_LINE_LENGTH + 1 + self._secrets.longest - len(self._pending)
        self._pending += data[:room]

    def _finish_line(self, end: bytes) -> bytes:
        """Return the pending line with `end` after it, cut to `_MAX_LINE_LENGTH` bytes."""
        if not self._pending and len(end) <= _MAX_LINE_LENGTH:
            return end
        self._append(end)
        line = bytes(self._pending)
        self._pending.clear()
        if len(line) <= _MAX_LINE_LENGTH:
            return line
        hidden = self._secrets.hide(line)
        if len(line) > _MAX_LINE_LENGTH + self._secrets.longest:
            # More of the line was dropped, so its last bytes may be the beginning of a secret.
            hidden = hidden[: len(hidden) - self._secrets.longest]
        return hidden[:_MAX_LINE_LENGTH] + b" [line cut]"

    def _emit(self, lines: bytes) -> None:
        lines = self._secrets.hide(lines)
        self._sink.write(lines)
        if self._on_lines is not None and self._on_lines(self._stream, lines):
            return
        for line in lines.removesuffix(b"\n").split(b"\n"):
            self._on_line(self._stream, line.decode("utf-8", "replace"))


def _ending(code: int | None, *, timed_out: bool) -> Ending:
    if timed_out or code is None:
        return Ending(timed_out=True)
    if code < 0:
        return Ending(signal=-code)
    return Ending(exit_code=code)
