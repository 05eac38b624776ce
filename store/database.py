"""Opens the store at a SQLAlchemy URL, migrates it to the newest schema, and makes sessions of it.

On SQLite and PostgreSQL alike, one writing transaction runs at a time. Each begins by taking the store's write lock.
That is the write lock of SQLite, or an advisory lock of PostgreSQL. So what a transaction reads is still true when it
writes. Alembic runs the migrations, which are modules of `versions/`. The first of them makes the schema of the first
release. It also completes stores that earlier revisions made.
"""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from filelock import FileLock
from sqlalchemy import URL, Connection, Engine, create_engine, event, func, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DatabaseError, SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from .durable_files import is_writable, make_folder, nearest_existing, replace_file
from .tables import Base  # this import also defines the tables
from .vocabulary import hide_credentials

_VERSION_TABLE = "alembic_version"
"""Alembic records the schema version of a store in this table."""

_BEFORE_RELEASE = tuple(f"{number:04}" for number in range(1, 15))
"""The schema versions before the first release. The migration to the first release adds what they lack."""


def schema_versions() -> list[str]:
    """Return the schema versions of releases, oldest first. The migrations are `versions/v<version>_<what>.py`."""
    scripts = resources.files("precision_bisect.store.versions").iterdir()
    return sorted(script.name[1:].partition("_")[0] for script in scripts if script.name.startswith("v"))


def read_schema_version(connection: Connection) -> str | None:
    """Return the schema version that a store's migrations recorded; None if the database is no store yet."""
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    return connection.exec_driver_sql(f"SELECT version_num FROM {_VERSION_TABLE}").scalar()


_WRITE_LOCK_KEY = 0x70726563  # 'prec' in ASCII
"""The writers of a PostgreSQL store take the advisory lock with this key.

It is also the first of the two keys of a bisection's lock."""

_DATABASES = ("sqlite", "postgresql")
"""A store can be in these databases."""

_WAL_HEADER_BYTES = 32
"""The size of the header of SQLite's write-ahead log. https://sqlite.org/fileformat.html#the_write_ahead_log"""
_WAL_MAGICS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_OPEN_FILE_KEY = "opened"
"""The `info` of a store's sessions has the file that they write to under this key."""


class StoreError(Exception):
    """The store cannot be opened or written. The message says what was expected, what was found, and what to do."""

    def __init__(self, message: str = "") -> None:
        super().__init__(hide_credentials(message))


class OlderSchemaError(StoreError):
    """An earlier version of the tool wrote the store, and no migration has run since."""


@dataclass(frozen=True)
class _OpenFile:
    """A file that was opened. SQLite continues to use it if its path is removed or replaced."""

    path: Path
    device: int
    inode: int

    @classmethod
    def from_path(cls, path: Path) -> "_OpenFile":
        """Return the file at a path. Raises `OSError`."""
        status = path.stat()
        return cls(path, status.st_dev, status.st_ino)

    @property
    def is_unchanged(self) -> bool:
        """Return whether the same file is still at the path."""
        try:
            return _OpenFile.from_path(self.path) == self
        except OSError:
            return False


def sqlite_url(path: Path) -> str:
    """Return the URL of a store in a SQLite file."""
    return f"sqlite:///{path}"


def absolute_url(url: str) -> str:
    """Return a URL that means the same store in any current folder. Raises `StoreError`."""
    file = _file_of(parsed := _parse_url(url))
    return url if file is None else parsed.set(database=str(file)).render_as_string(hide_password=False)


def store_folder(url: str) -> Path | None:
    """Return the folder of a store's file; None if the store is not in a file. Raises `StoreError`."""
    file = _file_of(_parse_url(url))
    return None if file is None else file.parent


def _file_of(parsed: URL) -> Path | None:
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:")
    return Path(parsed.database or "").absolute() if is_file else None


def open_store(url: str) -> sessionmaker[Session]:
    """Open the store at `url` to write. Make or migrate it if needed. Raises `StoreError`."""
    parsed = _parse_url(url)
    engine = _engine(parsed)
    with _translate_errors(parsed, "opened and written"):
        if engine.dialect.name == "sqlite":
            _prepare_sqlite(engine)
            if parsed.database and parsed.database != ":memory:":
                file = Path(parsed.database)
                _check_writable(parsed, file)
                _refuse_foreign(parsed, file)
                make_folder(file.parent.absolute(), mode=0o700)
                lock = file.with_name(file.name + ".migrate.lock")
                # FileLock would wait forever if it could not make this file. `touch` fails at once.
                lock.touch(mode=_mode_of(file))
                with FileLock(lock):
                    if not file.exists():
                        _make_file(parsed, file)
                    _refuse_damage(parsed, file)
                    _migrate(engine)
                return sessionmaker(
                    engine,
                    expire_on_commit=False,
                    info={_OPEN_FILE_KEY: _OpenFile.from_path(file.absolute())},
                )
        elif engine.dialect.name == "postgresql":
            _prepare_postgresql(engine)
        _migrate(engine)
    return sessionmaker(engine, expire_on_commit=False)


def open_read_only(url: str) -> sessionmaker[Session]:
    """Open the store at `url` to read. Nothing is made, migrated or locked.

    Raises:
        OlderSchemaError: the store needs a migration.
        StoreError: the store cannot be read.
    """
    parsed = _parse_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        _check_is_file(parsed, Path(parsed.database))
        _refuse_damage(parsed, Path(parsed.database))
        engine = _engine(_read_only_file(parsed, Path(parsed.database)))
    else:
        engine = _engine(parsed).execution_options(postgresql_readonly=True)
    with _translate_errors(parsed, "read"), engine.connect() as connection:
        found, head = read_schema_version(connection), schema_versions()[-1]
        if found != head:
            _refuse_newer_schema(parsed, found)
            raise OlderSchemaError(
                f"expected a store of schema {head} at {parsed.render_as_string()}, found {found or 'none'}; "
                "the next bisection that uses it migrates an older store"
            )
    return sessionmaker(engine, expire_on_commit=False)


def migrate_and_read(url: str) -> sessionmaker[Session]:
    """Open the store at `url` to read. Migrate it first if an earlier version of the tool wrote it.

    Raises:
        StoreError: the store cannot be read, or it needs a migration and cannot be written.
    """
    try:
        return open_read_only(url)
    except OlderSchemaError:
        open_store(url).kw["bind"].dispose()
        return open_read_only(url)


def store_exists(url: str) -> bool:
    """Return whether there is a store at `url`, without making one. A PostgreSQL store is taken to exist.

    Raises `StoreError` if no store is possible, because part of its path is a file.
    """
    file = _file_of(parsed := _parse_url(url))
    if file is None:
        return parsed.get_backend_name() != "sqlite"  # A database in memory exists only in its own process.
    if file.exists():
        return True
    if not (there := nearest_existing(file.parent)).is_dir():
        raise _no_place_error(parsed, f"{there}, which is not a folder")
    return False


def check_store_file(sessions: sessionmaker[Session]) -> None:
    """Check that the results written to a store are still in it.

    Raises `StoreError` if its file was removed or replaced after it was opened. Writes to such a file succeed.
    """
    opened: _OpenFile | None = sessions.kw.get("info", {}).get(_OPEN_FILE_KEY)
    if opened is not None and not opened.is_unchanged:
        found = "another one" if opened.path.exists() else "none"
        raise StoreError(
            f"{opened.path}: expected the store that was opened there, found {found}: the store was removed or "
            "replaced while it was in use, so the results of this command are not in it"
        )


def check_store(url: str) -> None:
    """Check that the store at `url` could be opened to write. Nothing is made, migrated or locked.

    Raises `StoreError`.
    """
    parsed = _parse_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database and not Path(parsed.database).exists():
        _engine(parsed).dispose()
        if parsed.database != ":memory:":
            _check_place(parsed, Path(parsed.database).absolute())
        return
    if (file := _file_of(parsed)) is not None:
        _check_writable(parsed, file)
    with suppress(OlderSchemaError):
        open_read_only(url).kw["bind"].dispose()


def _check_writable(parsed: URL, file: Path) -> None:
    """Raise `StoreError` if the path of a store is a read-only file, or is not a regular file."""
    _check_is_file(parsed, file)
    if file.is_file() and not os.access(file, os.W_OK):
        raise StoreError(
            f"expected a store that can be written at {parsed.render_as_string()}, found a read-only file; "
            "name another one with --store"
        )


def _check_is_file(parsed: URL, file: Path) -> None:
    """Raise `StoreError` if a pipe, a device or a folder is at the path of a store. Opening a pipe might never end."""
    if file.exists() and not file.is_file():
        raise StoreError(
            f"expected a store at {parsed.render_as_string()}, found something that is not a regular file; "
            "name another one with --store"
        )


def _mode_of(file: Path) -> int:
    """Return the mode of a store's file, which its lock file gets too; that of a new store if there is none.

    Whoever can read the lock file can lock it, so no more users may read it than the store.
    """
    return stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o600


def _make_file(parsed: URL, file: Path) -> None:
    """Make the file of a new store. Only its owner may read it. A kill leaves either a whole store or none."""
    with replace_file(file) as partial:
        partial.touch(mode=0o600)
        engine = _engine(parsed.set(database=str(partial)))
        _prepare_sqlite(engine)
        try:
            _migrate(engine)
            engine.dispose()  # Closing the last connection moves SQLite's log into the file before it is renamed.
        except BaseException:
            # An interrupt can leave a connection open, and SQLite's files for it on disk.
            for suffix in ("-wal", "-shm", "-journal"):
                Path(f"{partial}{suffix}").unlink(missing_ok=True)
            raise


def _refuse_damage(parsed: URL, file: Path) -> None:
    """Raise `StoreError` for a damaged store that SQLite would open as empty or out of date.

    A log of zeros is accepted: a power cut leaves one, and only unsynced data is lost.
    """
    if not file.is_file():
        return
    if file.stat().st_size == 0:
        raise StoreError(
            f"expected a store at {parsed.render_as_string()}, found a file of 0 bytes: its results are lost; "
            f"restore {file} from a copy, or remove {file} to start with an empty store"
        )
    log = Path(f"{file}-wal")
    header = b""
    if log.is_file():
        with log.open("rb") as opened:
            header = opened.read(_WAL_HEADER_BYTES)
    if len(header) == _WAL_HEADER_BYTES and any(header) and header[:4] not in _WAL_MAGICS:
        raise StoreError(
            f"{log}: expected the write-ahead log of {file}, found other bytes: the newest results are lost; "
            f"restore {log} from a copy, or remove {log} to continue with the older results"
        )


def _check_place(parsed: URL, file: Path) -> None:
    """Raise `StoreError` if no file can be made for a store."""
    there = nearest_existing(file.parent)
    if not is_writable(there):
        raise _no_place_error(parsed, f"{there}, which is not a writable folder")


def _no_place_error(parsed: URL, found: str) -> StoreError:
    return StoreError(
        f"expected a place for a store at {parsed.render_as_string()}, found {found}; name another one with --store"
    )


@contextmanager
def sole_driver(sessions: sessionmaker[Session], bisection: int) -> Generator[bool]:
    """Lock a bisection in a PostgreSQL store, and yield whether that succeeded.

    It fails if another process, on any machine that shares the store, drives the bisection. The lock is held until the
    end of the block or of the process. In a SQLite store, always yield True: its machine locks files instead.
    """
    engine = sessions.kw["bind"]
    if engine.dialect.name != "postgresql":
        yield True
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield bool(connection.scalar(select(func.pg_try_advisory_lock(_WRITE_LOCK_KEY, bisection))))
        connection.invalidate()  # Closing the connection frees the lock. The pool would keep the connection open.


def is_driven(session: Session, bisection: int) -> bool | None:
    """Return whether a process holds the lock of `sole_driver`; None in a SQLite store, which has no such lock."""
    if session.get_bind().dialect.name != "postgresql":
        return None
    query = text(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND classid = :key AND objid = :bisection "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    return session.execute(query, {"key": _WRITE_LOCK_KEY, "bisection": bisection}).first() is not None


def _parse_url(url: str) -> URL:
    """Parse a URL. Raises `StoreError` if it is not the URL of a database that can be a store."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise _url_error(url, _suggest_url(url, error)) from error
    if parsed.get_backend_name() not in _DATABASES:
        raise _url_error(
            parsed.render_as_string(), "no other database is supported; name another one with --store"
        )
    if "@" in (parsed.host or ""):
        raise _url_error(parsed.set(host="...").render_as_string(), "write %40 for an @ in a password")
    # The default driver of `postgresql` differs between versions of SQLAlchemy.
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def _suggest_url(text: str, error: Exception) -> str:
    """Return advice on what to name instead of a text that is no URL."""
    if "://" in text:
        return f"correct it ({error})"
    file = Path(text.removeprefix("sqlite:")).expanduser().absolute()
    return f"for a file write {sqlite_url(file)}" if text else "name one"


def _engine(parsed: URL) -> Engine:
    try:
        return create_engine(parsed)
    except ImportError as error:
        if parsed.get_backend_name() == "postgresql":
            raise StoreError(
                f"expected psycopg for {parsed.render_as_string()}, found none: "
                "pip install 'precision-bisect[postgresql]'"
            ) from error
        raise _url_error(parsed.render_as_string(), f"leave its driver out ({error})") from error
    except ArgumentError as error:
        raise _url_error(parsed.render_as_string(), f"leave its driver out ({error})") from error


def _url_error(text: str, remedy: str) -> StoreError:
    return StoreError(
        "expected a database URL of SQLite or PostgreSQL, sqlite:////path/to/file or postgresql://user@host/name, "
        f"found {text!r}; {remedy}"
    )


@contextmanager
def _translate_errors(parsed: URL, purpose: str) -> Generator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        reason = " ".join(_error_text(error).split())
        raise StoreError(
            f"expected a store that can be {purpose} at {parsed.render_as_string()}: {reason}; "
            "free it or name another one with --store"
        ) from error


def _error_text(error: SQLAlchemyError | OSError) -> str:
    """Return the message of the database or of the operating system."""
    if isinstance(error, DatabaseError):
        return str(error.orig)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _read_only_file(parsed: URL, file: Path) -> URL:
    """Return the URL of a file in SQLite's read-only mode.

    In a read-only folder, SQLite cannot make the index of its log. `immutable` makes it do without one.
    """
    is_immutable = not os.access(file.parent, os.W_OK) and not file.with_name(file.name + "-wal").exists()
    return parsed.set(
        database=file.absolute().as_uri(),
        query={"mode": "ro", "uri": "true", **({"immutable": "1"} if is_immutable else {})},
    )


def _prepare_sqlite(engine: Engine) -> None:
    """Configure a SQLite engine.

    A write-ahead log lets reports read while a driver writes. Each transaction takes the write lock when it begins, so
    none fails halfway.
    """

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
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK_KEY})")

    event.listen(engine, "begin", on_begin)


def migrate(connection: Connection) -> None:
    """Run the missing migrations of a store, in the connection's transaction."""
    from alembic import command  # imported here because it is slow to import, and few stores need it
    from alembic.config import Config

    config = Config()
    with resources.as_file(resources.files("precision_bisect.store.migrations")) as scripts:
        config.set_main_option("script_location", str(scripts).replace("%", "%%"))
        versions = str(scripts.parent / "versions")
        config.set_main_option("version_locations", versions.replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        config.attributes.update(connection=connection, metadata=Base.metadata)
        if read_schema_version(connection) in _BEFORE_RELEASE:
            connection.exec_driver_sql(f"DELETE FROM {_VERSION_TABLE}")
        command.upgrade(config, "head")


def _migrate(engine: Engine) -> None:
    with engine.begin() as connection:
        found = read_schema_version(connection)
        if found == schema_versions()[-1]:
            return
        _refuse_newer_schema(engine.url, found)
        migrate(connection)


def _refuse_foreign(parsed: URL, file: Path) -> None:
    """Raise `StoreError` if a file contains tables of another program.

    The file is opened read-only, because the settings of a writing connection would change it.
    """
    if not file.exists():
        return
    engine = _engine(_read_only_file(parsed, file))
    with engine.connect() as connection:
        names = [] if read_schema_version(connection) else _table_names(connection)
    engine.dispose()
    if names:
        raise StoreError(
            f"expected a store at {parsed.render_as_string()}, found a database of another program, with "
            f"the table {names[0]}; name another one with --store"
        )


def _table_names(connection: Connection) -> list[str]:
    found = inspect(connection)
    return [*found.get_table_names(), *found.get_view_names()]


def _refuse_newer_schema(parsed: URL, found: str | None) -> None:
    """Raise `StoreError` if a newer version of the tool made the store's schema."""
    known = schema_versions()
    if found is not None and found not in (*_BEFORE_RELEASE, *known):
        raise StoreError(
            f"expected a store of schema {known[-1]} or earlier at {parsed.render_as_string()}, "
            f"found {found}, which a newer version of the tool made; update this one: "
            "pip install --upgrade precision-bisect"
        )
