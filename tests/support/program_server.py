"""What `program.py` starts once: it imports the commands' modules, and makes each run a fork of itself.

Standard input is a socket. Each run comes as a byte with the descriptors of its standard output and standard error, and
a line of JSON (`words`, `cwd`, `environment`); the run's wait status goes back as a line. Where the socket ends, so
does this process.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
from typing import Any

_COMMANDS = (
    "bisect_command",
    "commands",
    "nightly.night",
    "pages.serve",
    "queue_client",
    "queue_worker",
)


def serve() -> None:
    """Returns in the process of a run alone, which then is as one that was started for these words."""
    server = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for module in _COMMANDS:
        importlib.import_module(f"precision_bisect.bisect.{module}")
    gc.freeze()  # or the collections of each run would visit and copy all that was imported
    requests = server.makefile("r")
    while True:
        _, descriptors, _, _ = socket.recv_fds(server, 1, 2)
        if not descriptors:
            sys.exit()
        request = json.loads(requests.readline())
        child = os.fork()
        if child == 0:
            requests.close()
            server.close()
            _begin(request, *descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        server.sendall(b"%d\n" % os.waitpid(child, 0)[1])


def _begin(request: dict[str, Any], stdout: int, stderr: int) -> None:
    for descriptor, number in ((stdout, 1), (stderr, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["words"]
