"""Keeps the machine's processors busy: under load, threads take turns that they take on no idle machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

# Ends with whoever holds the other end of its input, however that one ends.
_SPIN = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    pass
"""


@contextmanager
def busy() -> Generator[None]:
    """One spinning process a processor, until the end of the block or of this process."""
    processes = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", _SPIN], stdin=subprocess.PIPE)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()
