"""Forks for each run, with modules imported or as a program. `ForkServer` of `run.py` starts this process.

    python fork_server.py [MODULE ...]

This file and `supervise.py` run under the stack's own interpreter, CPython 3.9 or later, with nothing but the standard
library. The protocol is:

1. Standard input is a Unix socket. After the imports, the server writes a line of JSON: null, or the error. A
   second line is the server's process id.
2. Then each byte from the client carries the descriptors of a run: a connection, standard output, standard error, and
   those that stay open until nothing of the run is left.
3. The process that supervises the run writes its process id and a newline on the connection.
4. The client sends a line of JSON on the connection, with `argv`, `cwd`, `memory` and `variables`. `memory` is bytes of
   address space or 0. For a script, `argv` omits the interpreter, and `variables` has only what the server's own lack.
   For a program, `program` is true, `variables` is the whole environment, and bytes are written as Latin-1.
5. The run's wait status is sent back on the connection.

The supervising process works as `supervise.py` does. When the run ends, or the client closes the connection, it kills
all that is left of the run. The server ends when standard input ends.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    # Files in this folder must not be imported in place of other modules.
    del sys.path[0]

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import threading
from pathlib import Path
from typing import Any

_MAX_DESCRIPTORS = 253
"""Linux sends at most this many descriptors at once."""
_SUPERVISE: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("supervise.py")))


def main(modules: list[str]) -> list[str] | None:
    """Serve until standard input ends, and return None. In the process of a run, return the run's arguments."""
    server = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    server.sendall(b"%s\n%d\n" % (json.dumps(_import(modules)).encode(), os.getpid()))
    gc.freeze()  # Garbage collection in a run would visit, and so copy, all objects of the imports.
    while True:
        _, descriptors, _, _ = socket.recv_fds(server, 1, _MAX_DESCRIPTORS)
        if not descriptors:
            return None
        if os.fork() == 0:
            server.close()
            return _supervise(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _import(modules: list[str]) -> str | None:
    """Import modules; return why that failed, or None."""
    try:
        for name in modules:
            importlib.import_module(name)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:1000]
    finally:
        # Without this, each run would print again what the modules have printed.
        sys.stdout.flush()
        sys.stderr.flush()
    return None


def _supervise(connection: int, stdout: int, stderr: int, *held: int) -> list[str]:
    """Supervise a run in this process, and exit. In the process of the run, return its arguments."""
    _SUPERVISE["become_reaper"]()
    os.write(connection, b"%d\n" % os.getpid())
    with os.fdopen(connection, "rb", closefd=False) as request:
        line = request.readline()
    if not line.endswith(b"\n"):
        os._exit(0)
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        for descriptor in (connection, *held):
            os.close(descriptor)
        os.setsid()
        for descriptor, number in ((stdout, 1), (stderr, 2)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        if asked.get("program"):
            _execute(asked)
        return _begin(asked)
    # Both streams stay open here until nothing of the run is left, which is when a reader sees their end.
    status = _SUPERVISE["outlive"](child, connection)
    if status is not None:
        os.write(connection, b"%d" % status)
    os._exit(0)


def _execute(asked: dict[str, Any]) -> None:
    """Replace this process by a program. Without it, exit as a shell does: 127 if there is none, else 126."""
    argv = [word.encode("latin-1") for word in asked["argv"]]
    variables = {
        name.encode("latin-1"): value.encode("latin-1") for name, value in asked["variables"].items()
    }
    name = asked["cwd"].encode("latin-1")
    try:
        os.chdir(name)
        name = argv[0]
        _SUPERVISE["begin_command"](asked["memory"])
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them.
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], argv, variables)
    except OSError as error:
        os.write(2, b"%s: %s\n" % (name, (error.strerror or "").encode()))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _begin(asked: dict[str, Any]) -> list[str]:
    """Prepare the process of a script, and return its arguments."""
    os.chdir(asked["cwd"])
    os.environ.update(asked["variables"])
    sys.path[:0] = map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    _SUPERVISE["begin_command"](asked["memory"])
    _seed()
    return asked["argv"]


def _seed() -> None:
    """Seed the generators of numpy and torch again, as importing does. The module `random` seeds itself."""
    modules: dict[str, Any] = dict(sys.modules)
    if "numpy" in modules:
        modules["numpy"].random.seed()
    if "torch" in modules:
        modules["torch"].seed()


def run(argv: list[str]) -> None:
    """Run a script as the interpreter does, and end the process. An exception of the script propagates."""
    sys.argv[:] = argv
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path.insert(0, str(Path(argv[0]).resolve().parent))
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as error:
        if error.code is not None and not isinstance(error.code, int):
            raise
        end(error.code or 0)
    end(0)


def end(code: int) -> None:
    """End the process as the interpreter does, but without freeing the modules, which would take longer than a run."""
    private: Any = (threading, atexit)
    private[0]._shutdown()
    private[1]._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # This flushes the streams of C code.
    os._exit(code & 0xFF)


if __name__ == "__main__":
    arguments = main(sys.argv[1:])
    if arguments is not None:
        run(arguments)
