"""The home that a worker works in, by a name: what has begun in one home cannot go on in another."""

import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ....runner.workspace.home import Home


def home_name(home: Home) -> str:
    """The name of a home, which is drawn when it is first asked for."""
    file = home.state / "queue" / "place"
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="ascii") as drawn:
        drawn.write(secrets.token_hex(16))
        drawn.flush()
        with suppress(FileExistsError):  # where somebody was first
            os.link(drawn.name, file)
    return file.read_text(encoding="ascii")


def log_of(home: Home, bisection: str) -> Path:
    """Where a worker keeps what a bisection prints."""
    return home.state / "queue" / f"{bisection}.log"


def is_driven(home: Home, bisection: str) -> bool:
    """Whether a process of this home is at the bisection, such as one that its worker left behind."""
    lock = home.bisections / bisection / "driver.lock"
    if not lock.exists():
        return False
    try:
        with FileLock(lock, blocking=False):
            return False
    except Timeout:
        return True
