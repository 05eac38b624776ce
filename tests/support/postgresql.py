"""A real PostgreSQL server for the tests, from Debian's package, alone in a folder and gone with it."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

ABSENT = (
    "PostgreSQL's server or psycopg is not installed "
    "(Debian: apt-get install postgresql; pip install 'precision-bisect[postgresql]')"
)


def programs() -> Path | None:
    """The folder of initdb and pg_ctl, which Debian keeps out of PATH; None without them, or without psycopg."""
    if find_spec("psycopg") is None:
        return None
    named = shutil.which("initdb")
    if named is not None:
        return Path(named).parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@contextmanager
def server() -> Generator[str]:
    """Start a server that listens on a socket in its own folder only; the URL of its database."""
    found = programs()
    assert found is not None
    # Short, for the path of a socket has 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    user: str | None = None
    if os.getuid() == 0:
        # The server refuses to run as root.
        user = next(name for name in ("postgres", "nobody") if _exists(name))
        shutil.chown(folder, user)

    def call(*words: str) -> None:
        subprocess.run(
            words, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )

    data = folder / "data"
    control = (str(found / "pg_ctl"), "--pgdata", str(data), "--wait", "--silent")
    try:
        call(
            *(str(found / "initdb"), "--pgdata", str(data), "--username", "tests", "--auth", "trust"),
            *("--encoding", "UTF8", "--no-locale", "--no-sync"),
        )
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        call(*control, "--log", str(folder / "log"), "--options", options, "start")
        try:
            yield f"postgresql://tests@/postgres?host={folder}"
        finally:
            call(*control, "--mode", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
