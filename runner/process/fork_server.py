"""Imports modules once, and makes each run a fork of itself. `fork_servers.py` starts it.

    python fork_server.py MODULE ...

This file and `supervise.py` run under the stack's own interpreter, CPython 3.9 or later, with nothing but the standard
library. The protocol is:

1. Standard input is a Unix socket. After the imports, a line of JSON is written to it: null, or why they failed.
2. Each byte that then comes brings the three descriptors of a run: a connection, standard output and standard error.
3. The connection carries a line of JSON with `argv`, `cwd`, `memory` and `variables`. `argv` goes without the
   interpreter, and `memory` is bytes of address space, or 0. `variables` are those that this process does not have.
4. The run's wait status goes back on the connection.

As in `supervise.py`, a process between this one and the run kills all that is left of the run. It does so at the run's
end, or when the other end of the connection is closed. This process ends when standard input ends.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    # This file's neighbours must not stand in for other modules.
    del sys.path[0]

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import socket
import threading
from pathlib import Path
from typing import Any

_SUPERVISE: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("supervise.py")))


def main(modules: list[str]) -> list[str] | None:
    """Return the arguments of a run, in the run's process. Return None in the server, once no more runs will come."""
    server = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    server.sendall(json.dumps(_import(modules)).encode() + b"\n")
    gc.freeze()  # Without this, the collections of each run would visit and copy all that was imported.
    while True:
        _, descriptors, _, _ = socket.recv_fds(server, 1, 3)
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
    try:
        for name in modules:
            importlib.import_module(name)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:1000]
    finally:
        # What a module prints is flushed here, so that not every run prints it.
        sys.stdout.flush()
        sys.stderr.flush()
    return None


def _supervise(connection: int, stdout: int, stderr: int) -> list[str]:
    """Supervise a run. Return in the process of the run alone."""
    _SUPERVISE["become_reaper"]()
    with os.fdopen(connection, "rb", buffering=0, closefd=False) as request:
        line = request.readline()
    if not line:
        os._exit(0)
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        os.close(connection)
        return _begin(asked, stdout, stderr)
    # Both streams stay open here. Their end tells a reader that nothing of the run is left.
    status = _SUPERVISE["outlive"](child, connection)
    if status is not None:
        os.write(connection, b"%d" % status)
    os._exit(0)


def _begin(asked: dict[str, Any], stdout: int, stderr: int) -> list[str]:
    os.setsid()
    for descriptor, number in ((stdout, 1), (stderr, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)
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
    """Run a script as the interpreter does. An exception that ends the script is left to the interpreter."""
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
    """End the process as the interpreter does, but without tearing down what was imported.

    Tearing down takes longer than a short run.
    """
    ending: Any = (threading, atexit)
    ending[0]._shutdown()
    ending[1]._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # This writes what C code has printed.
    os._exit(code & 0xFF)


if __name__ == "__main__":
    arguments = main(sys.argv[1:])
    if arguments is not None:
        run(arguments)
