"""python ask.py SOCKET FILE: asks the reduction that listens there whether a text is interesting; exit code 0 or 1.

Called by reducers of texts. Imports nothing of this package.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path


def main() -> int:
    """Ask, and give the exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(sys.argv[1])
        connection.sendall(Path(sys.argv[2]).read_bytes())
        connection.shutdown(socket.SHUT_WR)
        return 0 if connection.recv(1) == b"y" else 1


if __name__ == "__main__":
    raise SystemExit(main())
