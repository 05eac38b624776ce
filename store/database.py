"""Opening the store: a SQLAlchemy URL, migrated to the newest schema, ready for sessions.

On either database one transaction of a writer runs at a time: each begins by taking the store's own lock (SQLite's
write lock, an advisory lock of PostgreSQL). What a transaction reads is then still true when it writes.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, DatabaseError, SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from .files import is_writable, nearest_existing
from .migrations.schemas import schema_of, schemas
from .tables.queue import Base  # with the tables of nights and bisections beside it

_WRITERS = 0x70726563
"""Key of the advisory lock of all writers of a PostgreSQL store, and the first key of those of its bisections."""


_DATABASES = ("sqlite", "postgresql")
"""The databases that a store can be in."""

_OPENED = "opened"
"""What the sessions of a store in a file call the file that they write to."""


class StoreError(Exception):
    """The store cannot be opened or written: what was expected, found, where, what to do."""


class OlderSchemaError(StoreError):
    """The store was written by an earlier version of the tool, and is not brought up to date yet."""


@dataclass(frozen=True)
class _Opened:
    """A file that was opened: SQLite goes on with it where its name is gone, or leads to another file."""

    path: Path
    device: int
    inode: int

    @classmethod
    def at(cls, path: Path) -> "_Opened":
        """The one that a path leads to. Raises `OSError`."""
        status = path.stat()
        return cls(path, status.st_dev, status.st_ino)

    @property
    def is_there(self) -> bool:
        """Whether its path still leads to it."""
        try:
            return _Opened.at(self.path) == self
        except OSError:
            return False


def sqlite_url(path: Path) -> str:
    """The URL of a store in one file."""
    return f"sqlite:///{path}"


def absolute_url(url: str) -> str:
    """The URL that leads to the same store from any folder. Raises `StoreError`."""
    file = _file_of(parsed := _parsed(url))
    return url if file is None else parsed.set(database=str(file)).render_as_string(hide_password=False)


def store_folder(url: str) -> Path | None:
    """The folder of a store in a file; None where it is elsewhere. Raises `StoreError`."""
    file = _file_of(_parsed(url))
    return None if file is None else file.parent


def _file_of(parsed: URL) -> Path | None:
    is_one = parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:")
    return Path(parsed.database or "").absolute() if is_one else None


def open_store(url: str) -> sessionmaker[Session]:
    """Open (and make or migrate) the store at `url`. Raises `StoreError`."""
    parsed = _parsed(url)
    engine = _engine(parsed)
    with _explained(parsed, "opened and written"):
        if engine.dialect.name == "sqlite":
            _prepare_sqlite(engine)
            if parsed.database and parsed.database != ":memory:":
                file = Path(parsed.database)
                _check_writable(parsed, file)
                file.parent.mkdir(parents=True, exist_ok=True)
                lock = file.with_name(file.name + ".migrate.lock")
                lock.touch()  # where no file can be made, waiting for its lock would have no end
                with FileLock(lock):
                    _migrate(engine)
                return sessionmaker(
                    engine, expire_on_commit=False, info={_OPENED: _Opened.at(file.absolute())}
                )
        elif engine.dialect.name == "postgresql":
            _prepare_postgresql(engine)
        _migrate(engine)
    return sessionmaker(engine, expire_on_commit=False)


def read_store(url: str) -> sessionmaker[Session]:
    """Open the store at `url` to read: nothing is made, migrated or locked. Raises `StoreError`."""
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        engine = _engine(_read_only_file(parsed, Path(parsed.database)))
    else:
        engine = _engine(parsed).execution_options(postgresql_readonly=True)
    with _explained(parsed, "read"), engine.connect() as connection:
        found, head = schema_of(connection), schemas()[-1]
        if found != head:
            _refuse_later(parsed, found)
            raise OlderSchemaError(
                f"expected a store of schema {head} at {parsed.render_as_string()}, found {found or 'none'}; "
                "the next bisection that uses it brings an older one up to date"
            )
    return sessionmaker(engine, expire_on_commit=False)


def open_to_read(url: str) -> sessionmaker[Session]:
    """Open the store at `url` to read, one of an earlier version after it has been brought up to date.

    Raises:
        StoreError: it cannot be read, or is of an earlier version and cannot be written.
    """
    try:
        return read_store(url)
    except OlderSchemaError:
        open_store(url).kw["bind"].dispose()
        return read_store(url)


def is_there(url: str) -> bool:
    """Whether there is a store at `url`, whose file opening it would make. Raises `StoreError` where there can be none,
    for what leads to it is no folder."""
    file = _file_of(parsed := _parsed(url))
    if file is None:
        return parsed.get_backend_name() != "sqlite"  # what is in memory alone is of one process
    if file.exists():
        return True
    if not (there := nearest_existing(file.parent)).is_dir():
        raise _no_place(parsed, f"{there}, which is no folder")
    return False


def check_kept(sessions: sessionmaker[Session]) -> None:
    """Look whether what was written to a store can be read again. Raises `StoreError` where its file was removed, or
    replaced, after it was opened, which no write to it tells."""
    opened: _Opened | None = sessions.kw.get("info", {}).get(_OPENED)
    if opened is not None and not opened.is_there:
        found = "another one" if opened.path.exists() else "none"
        raise StoreError(
            f"{opened.path}: expected the store that was opened there, found {found}: it was removed meanwhile, and "
            "what came of this is not in it"
        )


def check_store(url: str) -> None:
    """Look whether the store at `url` could be opened; nothing is made, migrated or locked. Raises `StoreError`."""
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database and not Path(parsed.database).exists():
        _engine(parsed).dispose()
        if parsed.database != ":memory:":
            _check_place(parsed, Path(parsed.database).absolute())
        return
    if (file := _file_of(parsed)) is not None:
        _check_writable(parsed, file)
    with suppress(OlderSchemaError):
        read_store(url).kw["bind"].dispose()


def _check_writable(parsed: URL, file: Path) -> None:
    """Raise `StoreError` where the file of a store is there and may only be read."""
    if file.is_file() and not os.access(file, os.W_OK):
        raise StoreError(
            f"expected a store that can be written at {parsed.render_as_string()}, found a file that may only be read; "
            "name another one with --store"
        )


def _check_place(parsed: URL, file: Path) -> None:
    """Raise `StoreError` where no file can be made for a store."""
    there = nearest_existing(file.parent)
    if not is_writable(there):
        raise _no_place(parsed, f"{there}, which is no folder that can be written")


def _no_place(parsed: URL, found: str) -> StoreError:
    return StoreError(
        f"expected a place for a store at {parsed.render_as_string()}, found {found}; name another one with --store"
    )


@contextmanager
def sole_driver(sessions: sessionmaker[Session], bisection: int) -> Generator[bool]:
    """Whether this process, of all machines that share a PostgreSQL store, is the one to drive a bisection: held
    until the end of the block, or of the process. A SQLite store is one machine's, which locks files."""
    engine = sessions.kw["bind"]
    if engine.dialect.name != "postgresql":
        yield True
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield bool(connection.scalar(select(func.pg_try_advisory_lock(_WRITERS, bisection))))
        connection.invalidate()


def _parsed(url: str) -> URL:
    """Raises `StoreError` where it is not the URL of a database that can be a store."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise _not_a_url(url, _mended(url, error)) from error
    if parsed.get_backend_name() not in _DATABASES:
        raise _not_a_url(
            parsed.render_as_string(), "no other database is supported; name another one with --store"
        )
    # Which driver stands behind the plain name differs between versions of SQLAlchemy.
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def _mended(text: str, error: Exception) -> str:
    """What to name in place of a text that is no URL."""
    if "://" in text:
        return f"mend it ({error})"
    file = Path(text.removeprefix("sqlite:")).expanduser().absolute()
    return f"a file is named so: {sqlite_url(file)}" if text else "name one"


def _engine(parsed: URL) -> Engine:
    try:
        return create_engine(parsed)
    except ImportError as error:
        if parsed.get_backend_name() == "postgresql":
            raise StoreError(
                f"expected psycopg for {parsed.render_as_string()}, found none: "
                "pip install 'precision-bisect[postgresql]'"
            ) from error
        raise _not_a_url(parsed.render_as_string(), f"leave its driver out ({error})") from error
    except ArgumentError as error:
        raise _not_a_url(parsed.render_as_string(), f"leave its driver out ({error})") from error


def _not_a_url(text: str, mend: str) -> StoreError:
    return StoreError(
        "expected a database URL of SQLite or PostgreSQL, sqlite:////path/to/file or postgresql://user@host/name, "
        f"found {text!r}; {mend}"
    )


@contextmanager
def _explained(parsed: URL, purpose: str) -> Generator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        reason = " ".join(_told(error).split())
        raise StoreError(
            f"expected a store that can be {purpose} at {parsed.render_as_string()}: {reason}; "
            "free it or name another one with --store"
        ) from error


def _told(error: SQLAlchemyError | OSError) -> str:
    """What went wrong, in the words of the database or the system."""
    if isinstance(error, DatabaseError):
        return str(error.orig)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _read_only_file(parsed: URL, file: Path) -> URL:
    """SQLite's own read-only mode. Beside a file that nobody can write it cannot keep the index of its log, and
    need not: nothing changes."""
    frozen = not os.access(file.parent, os.W_OK) and not file.with_name(file.name + "-wal").exists()
    return parsed.set(
        database=file.absolute().as_uri(),
        query={"mode": "ro", "uri": "true", **({"immutable": "1"} if frozen else {})},
    )


def _prepare_sqlite(engine: Engine) -> None:
    """WAL lets a report be read while a driver writes; transactions begin as writers, so none fails halfway."""

    def on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout = 30000")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)


def _prepare_postgresql(engine: Engine) -> None:
    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITERS})")

    event.listen(engine, "begin", on_begin)


def _migrate(engine: Engine) -> None:
    with engine.begin() as connection:
        found = schema_of(connection)
        if found == schemas()[-1]:
            return
        _refuse_later(engine.url, found)
        from .migrations.migrate import migrate  # which imports alembic, for few stores

        migrate(connection, Base.metadata)


def _refuse_later(parsed: URL, found: str | None) -> None:
    """Raise `StoreError` where a store is of a schema that this version has no migration to."""
    known = schemas()
    if found is not None and found not in known:
        raise StoreError(
            f"expected a store of schema {known[-1]} or earlier at {parsed.render_as_string()}, "
            f"found {found}, which a later version of the tool made; update this one: "
            "pip install --upgrade precision-bisect"
        )
