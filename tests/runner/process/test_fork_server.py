"""The server of forks by itself: what it says of its imports, and one run as a fork."""

import array
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from precision_bisect.runner.process import fork_server


def start(*modules: str) -> "tuple[subprocess.Popen[bytes], socket.socket]":
    """A server, and the socket on which it is asked."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([sys.executable, fork_server.__file__, *modules], stdin=theirs.fileno())
    theirs.close()
    return process, ours


def line_of(connection: socket.socket) -> object:
    """What it says of its imports. Its process id follows."""
    with connection.makefile("r") as lines:
        imports = json.loads(lines.readline())
        assert int(lines.readline()) > 0
        return imports


def test_a_module_that_cannot_be_imported_is_told() -> None:
    process, server = start("no_such_module_of_ours")
    with server:
        assert line_of(server) == "ModuleNotFoundError: No module named 'no_such_module_of_ours'"
    assert process.wait(timeout=60) == 0


def test_a_run_is_a_fork_with_the_modules_there_and_its_own_arguments(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nprint('wave' in sys.modules, sys.argv[1:], os.getcwd(), os.environ['MORE'])\nsys.exit(5)\n"
    )
    process, server = start("wave")
    with server:
        assert line_of(server) is None
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        descriptors = array.array("i", [theirs.fileno(), write, write])
        server.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        theirs.close()
        os.close(write)
        asked = {"argv": [str(script), "a"], "cwd": str(tmp_path), "memory": 0, "variables": {"MORE": "yes"}}
        with ours:
            ours.sendall(json.dumps(asked).encode() + b"\n")
            with ours.makefile("r") as lines:
                assert int(lines.readline()) > 0, "the process that supervises the run"
                status = int(lines.read())
        with os.fdopen(read) as out:
            assert out.read() == f"True ['a'] {tmp_path} yes\n"
        assert os.waitstatus_to_exitcode(status) == 5
    assert process.wait(timeout=60) == 0, "it ends with its standard input"
