"""Empty stores: migrated once in a process of tests, each of which has a copy of its own."""

import tempfile
from functools import cache
from pathlib import Path

from sqlalchemy.orm import Session, sessionmaker

from precision_bisect.store.database import open_store, sqlite_url


def new_store(file: Path) -> "sessionmaker[Session]":
    """A store in `file`, as opening it makes it where there is none."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_migrated())
    return open_store(sqlite_url(file))


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "store.sqlite"
        open_store(sqlite_url(file)).kw["bind"].dispose()
        return file.read_bytes()
