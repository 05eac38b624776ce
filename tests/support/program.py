"""The command `bisect-precision` as a user starts it, without what makes most runs of it slow: importing its modules.

`run_program` forks the command from a process that has imported them (`program_server.py`), which each process of
tests starts once. `PROGRAM` starts it anew: for tests of what happens before a command has been imported, of signals,
and of an environment that importing reads.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import psutil

from tests.support.interrupts import obey_interrupts

_MAIN = "from precision_bisect.runner.process.entry import bisect_precision; bisect_precision()"
PROGRAM = [sys.executable, "-c", _MAIN]
_SERVER = Path(__file__).with_name("program_server.py")


def run_program(
    *words: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end, with nothing on its standard input; by default here, in this environment."""
    request = {
        "words": words,
        "cwd": str(cwd or Path.cwd()),
        "environment": dict(os.environ if environment is None else environment),
    }
    code, out, err = _server().run(request)
    return subprocess.CompletedProcess([*PROGRAM, *words], code, out, err)


def start_program(*words: str, cwd: Path, environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    """Start the command anew, with nothing on its standard input; it obeys Ctrl-C."""
    return subprocess.Popen(
        [*PROGRAM, *words],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=obey_interrupts,
    )


def kill_driver(signal_name: str) -> str:
    """The words by which a command in sh sends its driver a signal. Between them are three processes of the runner."""
    up = "p=$PPID; for _ in 1 2 3; do p=$(cut -d ' ' -f 4 /proc/$p/stat); done"
    return f"{up}; kill -{signal_name} $p"


def processes_at(home: Path | str) -> list[psutil.Process]:
    """What still runs with this home in its environment, but for this process."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            own = process.environ().get("PRECISION_BISECT_HOME")
        except psutil.Error:
            continue
        if own == str(home) and process.pid != os.getpid():
            found.append(process)
    return found


class _Server:
    """The process that has imported all; it ends when its socket does, with this process at the latest."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        # As PROGRAM is started, so that `__main__` and the path of modules are the same.
        code = f"import runpy; runpy.run_path({str(_SERVER)!r})['serve'](); {_MAIN}"
        with theirs:
            # Pipes, as those of the runs will be: streams remember what kind of file they were opened on.
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self._answers = self._socket.makefile("r")

    def run(self, request: Mapping[str, object]) -> tuple[int, str, str]:
        """Fork a run, and wait for it and for all that writes to its pipes; its exit code, or the negative number of
        the signal that ended it, and what was written."""
        readers, writers = zip(os.pipe(), os.pipe(), strict=True)
        socket.send_fds(self._socket, [b"r"], writers)
        for writer in writers:
            os.close(writer)
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        with ThreadPoolExecutor(2) as threads:
            out, err = threads.map(_read, readers)
        status = self._answers.readline()
        assert status, self._process.communicate()
        return os.waitstatus_to_exitcode(int(status)), out, err


def _read(descriptor: int) -> str:
    with os.fdopen(descriptor) as pipe:
        return pipe.read()


@cache
def _server() -> _Server:
    return _Server()
