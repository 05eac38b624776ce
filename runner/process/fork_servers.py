"""Runs commands of a stack's interpreter as forks of a process that has made the slow imports, for many short runs.

A fork has a session, a timeout, a memory limit, and a supervisor that leaves nothing of it (`fork_server.py`). Forks
share the memory addresses of libraries and the heap, and the seed of Python's hashes. At the end of a fork, nothing
that was imported is torn down. The final statement about a failure should therefore come from processes that were
started from scratch.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from .run import Command, RunningCommand, SupervisedProcess, start_process

_SERVER = Path(__file__).with_name("fork_server.py")
_PATH = "PYTHONPATH"
_Key = tuple[str, tuple[str, ...], frozenset[tuple[str, str]]]


class NoForkServerError(Exception):
    """Nothing can be forked. The message says why."""


class ForkServers:
    """Keeps one server for each interpreter, set of modules and environment, from its first use until `close`.

    Environments that differ only in PYTHONPATH, or in variables that a caller declares as read late, share a server.
    The class may be used from several threads. If a server cannot be started, `on_refusal` is called with the reason,
    and all commands are started from scratch.
    """

    def __init__(self, on_refusal: Callable[[str], None]) -> None:
        self.refused = False
        self._on_refusal = on_refusal
        self._servers: dict[_Key, _Server] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the servers, and the runs that are not finished."""
        with self._lock:
            for server in self._servers.values():
                server.close()
            self._servers.clear()

    def start(
        self, command: Command, modules: Sequence[str], *, late: Collection[str] = ()
    ) -> RunningCommand:
        """Start a command of the form `interpreter script.py ...` as a fork with `modules` imported.

        Neither the modules nor the interpreter read the variables `late`. A command that holds locks is started from
        scratch, because a fork could not keep them.
        """
        if self.refused or command.holds:
            return start_process(command)
        names = {*late, _PATH}
        early = {name: value for name, value in command.environment.items() if name not in names}
        variables = {name: value for name, value in command.environment.items() if name in names}
        key = (command.argv[0], tuple(modules), frozenset(early.items()))
        with self._lock:
            try:
                _check_path(command.environment.get(_PATH, ""), modules)
                if key not in self._servers:
                    self._servers[key] = _Server.start(command, early, modules)
                return self._servers[key].fork(command, variables)
            except (NoForkServerError, OSError) as error:
                self.refused = True
                self._on_refusal(f"runs import {', '.join(modules)} anew, as they cannot be forked: {error}")
        return start_process(command)


def _check_path(path: str, modules: Sequence[str]) -> None:
    """Raise `NoForkServerError` where PYTHONPATH would have changed the imports if it had been set before them."""
    for folder in filter(None, path.split(os.pathsep)):
        for name in (*modules, "sitecustomize", "usercustomize"):
            if (found := Path(folder, name)).is_dir() or (found := found.with_suffix(".py")).is_file():
                raise NoForkServerError(f"PYTHONPATH has {found}")


@dataclass(frozen=True)
class _Server:
    supervised: SupervisedProcess
    connection: socket.socket

    @classmethod
    def start(cls, command: Command, environment: Mapping[str, str], modules: Sequence[str]) -> _Server:
        ours, theirs = socket.socketpair()
        with theirs:
            supervised = SupervisedProcess.start(
                [command.argv[0], str(_SERVER), *modules],
                cwd=Path("/"),
                environment=environment,
                stdin=theirs.fileno(),
                output=subprocess.DEVNULL,
            )
        server = cls(supervised, ours)
        try:
            server._check(command.timeout)
        except BaseException:
            server.close()
            raise
        return server

    def _check(self, timeout: float) -> None:
        self.connection.settimeout(timeout)
        with self.connection.makefile("rb") as said:
            line = said.readline()
        self.connection.settimeout(None)
        why = json.loads(line) if line else "it ended while it imported them"
        if why is not None:
            raise NoForkServerError(why)

    def fork(self, command: Command, variables: Mapping[str, str]) -> _ForkedRun:
        ours, theirs = socket.socketpair()
        pipes = [os.pipe(), os.pipe()]
        forked = _ForkedRun(ours, *(os.fdopen(reading, "rb", buffering=0) for reading, _ in pipes))
        try:
            asked = {
                "argv": command.argv[1:],
                "cwd": str(command.cwd),
                "memory": command.memory or 0,
                "variables": variables,
            }
            ours.sendall(json.dumps(asked).encode() + b"\n")
            socket.send_fds(self.connection, [b"r"], [theirs.fileno(), *(writing for _, writing in pipes)])
        except BaseException:
            theirs.close()
            forked.finish()
            raise
        finally:
            theirs.close()
            for _, writing in pipes:
                os.close(writing)
        return forked

    def close(self) -> None:
        self.connection.close()
        self.supervised.finish()


@dataclass(frozen=True)
class _ForkedRun:
    connection: socket.socket
    stdout: IO[bytes]
    stderr: IO[bytes]

    def finish(self) -> int | None:
        with contextlib.suppress(OSError):  # Its other end is gone already.
            self.connection.shutdown(socket.SHUT_WR)
        for pipe in (self.stdout, self.stderr):
            pipe.close()
        status = b""
        with self.connection, contextlib.suppress(ConnectionResetError):  # Nobody has read the request.
            while part := self.connection.recv(64):
                status += part
        return os.waitstatus_to_exitcode(int(status)) if status else None
