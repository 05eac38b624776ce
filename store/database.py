"""Opens the store at a SQLAlchemy URL, migrates it to the newest schema, and makes sessions of it.

`open_store` opens it to write, and `open_read_only` to read. On SQLite and PostgreSQL alike, one writing transaction
runs at a time. Each begins by taking the write lock of SQLite, or an advisory lock of PostgreSQL. So what a transaction
reads is still true when it writes. Alembic runs the migrations, which are modules of `versions/`. The first of them
makes the schema of the first release, and completes stores of earlier revisions.
"""

import logging
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
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from .durable_files import (
    is_writable,
    make_folder,
    nearest_existing,
    refuse_damaged_store,
    replace_file,
    schema_versions,
)
from .tables import Base  # this import also defines the tables
from .vocabulary import SQLITE_PREFIX, StoreError

_VERSION_TABLE = "alembic_version"
"""Alembic records the schema version of a store in this table."""

_PRERELEASE_VERSIONS = tuple(f"{number:04}" for number in range(1, 15))
"""These schema versions precede the first release. The migration to the first release completes their stores."""


def read_schema_version(connection: Connection) -> str | None:
    """Return the schema version that a store's migrations recorded; None if the database is no store yet."""
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    return connection.exec_driver_sql(f"SELECT version_num FROM {_VERSION_TABLE}").scalar()


_WRITE_LOCK_KEY = 0x70726563  # 'prec' in ASCII
"""Writers of a PostgreSQL store take the advisory lock with this key.

It is also the first of the two keys of a bisection's lock."""

_DATABASES = ("sqlite", "postgresql")
"""A store can be in these databases."""

_OPEN_FILE_KEY = "opened"
"""A store's sessions have the file that they write to under this key of their `info`."""

_SQLITE_QUERY = ("cached_statements", "check_same_thread", "detect_types", "isolation_level", "timeout")
"""The URL of a SQLite store may set these arguments of `sqlite3.connect`."""


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
    return f"{SQLITE_PREFIX}{path}"


def absolute_url(url: str) -> str:
    """Return a URL that means the same store in any current folder. Raises `StoreError`."""
    file = _file_path(parsed := _parse_url(url))
    return url if file is None else parsed.set(database=str(file)).render_as_string(hide_password=False)


def store_folder(url: str) -> Path | None:
    """Return the folder of a store's file; None if the store is not in a file. Raises `StoreError`."""
    file = _file_path(_parse_url(url))
    return None if file is None else file.parent


def _file_path(parsed: URL) -> Path | None:
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:")
    return Path(parsed.database or "").absolute() if is_file else None


def open_store(url: str) -> sessionmaker[Session]:
    """Open the store at `url` to write. Make or migrate it if needed. Raises `StoreError`."""
    parsed = _parse_url(url)
    engine = _make_engine(parsed)
    with _translate_errors(parsed, "opened and written"), _dispose_on_error(engine):
        if engine.dialect.name == "sqlite":
            _prepare_sqlite(engine)
            if (file := _file_path(parsed)) is not None:
                _check_writable(parsed, file)
                _refuse_foreign(parsed, file)
                make_folder(file.parent, mode=0o700)
                lock = file.with_name(file.name + ".migrate.lock")
                # FileLock would wait forever if it could not make this file. `touch` fails at once.
                lock.touch(mode=_file_mode(file))
                with FileLock(lock):
                    if not file.exists():
                        _make_file(parsed, file)
                    refuse_damaged_store(file)
                    _migrate(engine)
                return sessionmaker(
                    engine,
                    expire_on_commit=False,
                    info={_OPEN_FILE_KEY: _OpenFile.from_path(file)},
                )
        elif engine.dialect.name == "postgresql":
            _prepare_postgresql(engine)
        _migrate(engine)
    return sessionmaker(engine, expire_on_commit=False)


def open_read_only(url: str) -> sessionmaker[Session]:
    """Open the store at `url` to read. No store is made, migrated or locked.

    SQLite may make its own files `-wal` and `-shm` beside a store.

    Raises:
        OlderSchemaError: the store needs a migration.
        StoreError: the store cannot be read.
    """
    parsed = _parse_url(url)
    if (file := _file_path(parsed)) is not None:
        _check_is_file(parsed, file)
        refuse_damaged_store(file)
        engine = _make_engine(_read_only_file(parsed, file))
    elif parsed.get_backend_name() == "sqlite":
        raise StoreError(
            f"expected a store that can be read at {parsed.render_as_string()}, found one in memory, which ends with "
            "its process; name another one with --store"
        )
    else:
        engine = _make_engine(parsed).execution_options(postgresql_readonly=True)
    with _translate_errors(parsed, "read"), _dispose_on_error(engine), engine.connect() as connection:
        version, head = read_schema_version(connection), schema_versions()[-1]
        if version != head:
            _refuse_newer_schema(parsed, version)
            raise OlderSchemaError(
                f"expected a store of schema {head} at {parsed.render_as_string()}, found {version or 'none'}; "
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
    """Return whether there is a file at the `url` of a store. A PostgreSQL store is assumed to exist.

    Raises `StoreError` if part of the path is a file, so that no store can be there.
    """
    file = _file_path(parsed := _parse_url(url))
    if file is None:
        return parsed.get_backend_name() != "sqlite"  # A database in memory exists only in its own process.
    if file.exists():
        return True
    if not (nearest := nearest_existing(file.parent)).is_dir():
        raise _no_place_error(parsed, f"{nearest}, which is not a folder")
    return False


def check_not_replaced(sessions: sessionmaker[Session]) -> None:
    """Check that a store's file is still the one that was opened.

    Raises `StoreError` if it was removed or replaced. Writes to a removed file succeed, but nobody can read them.
    """
    open_file: _OpenFile | None = sessions.kw.get("info", {}).get(_OPEN_FILE_KEY)
    if open_file is not None and not open_file.is_unchanged:
        found = "another one" if open_file.path.exists() else "none"
        raise StoreError(
            f"{open_file.path}: expected the store that was opened there, found {found}: the store was removed or "
            "replaced while it was in use, so the results of this command are not in it"
        )


def check_can_open(url: str) -> None:
    """Check that the store at `url` could be opened to write. No store is made, migrated or locked.

    Raises `StoreError`.
    """
    parsed = _parse_url(url)
    _make_engine(parsed).dispose()  # This raises an error where the driver is missing.
    file = _file_path(parsed)
    if file is None and parsed.get_backend_name() == "sqlite":
        return
    if file is not None:
        if not file.exists():
            _check_place(parsed, file)
            return
        _check_writable(parsed, file)
        refuse_damaged_store(file)
        with _translate_errors(parsed, "opened and written"):
            _refuse_foreign(parsed, file)
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


def _file_mode(file: Path) -> int:
    """Return the mode of a store's file, or that of a new one. The lock file gets it too.

    Whoever can read the lock file can lock it. So only the users who may read the store may read it.
    """
    return stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o600


def _make_file(parsed: URL, file: Path) -> None:
    """Make the file of a new store, which only its owner may read. A kill leaves either a whole store or none."""
    with replace_file(file) as partial:
        partial.touch(mode=0o600)
        engine = _make_engine(parsed.set(database=str(partial)))
        _prepare_sqlite(engine)
        try:
            _migrate(engine)
            engine.dispose()  # Closing the last connection moves SQLite's log into the file before it is renamed.
        except BaseException:
            engine.dispose()
            # An interrupt can leave a connection open, and SQLite's files for it on disk.
            for suffix in ("-wal", "-shm", "-journal"):
                Path(f"{partial}{suffix}").unlink(missing_ok=True)
            raise


def _check_place(parsed: URL, file: Path) -> None:
    """Raise `StoreError` if no file can be made for a store."""
    nearest = nearest_existing(file.parent)
    if not is_writable(nearest):
        raise _no_place_error(parsed, f"{nearest}, which is not a writable folder")


def _no_place_error(parsed: URL, found: str) -> StoreError:
    return StoreError(
        f"expected a place for a store at {parsed.render_as_string()}, found {found}; name another one with --store"
    )


@contextmanager
def sole_driver(sessions: sessionmaker[Session], bisection: int) -> Generator[bool]:
    """Lock a bisection in a PostgreSQL store, and yield whether that succeeded.

    It fails if another process, on any machine, drives the bisection. The end of the block, or of the process, frees
    the lock. Yields True for a SQLite store, because all its users are on one machine, where they lock a file.
    """
    engine = sessions.kw["bind"]
    if engine.dialect.name != "postgresql":
        yield True
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        try:
            yield bool(connection.scalar(select(func.pg_try_advisory_lock(_WRITE_LOCK_KEY, bisection))))
        finally:
            connection.invalidate()  # Closing the connection frees the lock. The pool would keep it open.


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
    if parsed.get_backend_name() == "sqlite" and "?" in url:
        arguments = [argument.partition("=") for argument in url.partition("?")[2].split("&")]
        if any(name not in _SQLITE_QUERY or not value for name, _, value in arguments):
            raise _url_error(
                url, f"write no ? in its path, and behind a ? only {', '.join(_SQLITE_QUERY)} with a value"
            )
    if "@" in (parsed.host or ""):
        raise _url_error(parsed.set(host="...").render_as_string(), "write %40 for an @ in a password")
    # The default driver of `postgresql` differs between versions of SQLAlchemy.
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def _suggest_url(text: str, error: Exception) -> str:
    """Return advice on what to name instead of a text that is no URL."""
    if "://" in text:
        return f"correct it ({error})"
    path = os.path.expanduser(text.removeprefix("sqlite:"))  # noqa: PTH111 (pathlib's raises for an unknown user)
    file = Path(path).absolute()
    return f"for a file write {sqlite_url(file)}" if text else "name one"


# Its pool would print a traceback of an interrupt that comes while a connection is given back.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())


def _make_engine(parsed: URL) -> Engine:
    try:
        engine = create_engine(parsed)
        if engine.dialect.name == "postgresql":
            # This runs before SQLAlchemy's own queries, whose results would be bytes with another encoding.
            event.listen(engine, "connect", _prepare_session, insert=True)
        return engine
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
def _dispose_on_error(engine: Engine) -> Generator[None]:
    """Close the connections of an engine where the block raises, so that it is not used further."""
    try:
        yield
    except BaseException:
        engine.dispose()
        raise


@contextmanager
def _translate_errors(parsed: URL, purpose: str) -> Generator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        system_message = error.strerror if isinstance(error, OSError) else None
        reason = database_message(error) or system_message or str(error)
        raise StoreError(
            f"expected a store that can be {purpose} at {parsed.render_as_string()}: {reason}; "
            "free it or name another one with --store"
        ) from error


def database_message(error: Exception) -> str | None:
    """Return an error of the database in one line, without the query. None for an error of anything else."""
    if not isinstance(error, SQLAlchemyError):
        return None
    return " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())


def _read_only_file(parsed: URL, file: Path) -> URL:
    """Return the URL of a file in SQLite's read-only mode.

    In a read-only folder, SQLite cannot make the index of its log. With `immutable` it needs none.
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


def _prepare_session(connection: Any, _record: object) -> None:
    """Let a session of PostgreSQL write dates as psycopg reads them, whatever the settings of the role.

    Raises `StoreError` where the database cannot hold every text, such as a commit's subject.
    """
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"expected a database with the encoding UTF8, found {encoding}; make one with createdb --encoding=UTF8 "
            "--template=template0, and name it"
        )
    connection.execute("SET DateStyle TO 'ISO'")
    connection.commit()


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
        if read_schema_version(connection) in _PRERELEASE_VERSIONS:
            connection.exec_driver_sql(f"DELETE FROM {_VERSION_TABLE}")
        command.upgrade(config, "head")


def _migrate(engine: Engine) -> None:
    with engine.begin() as connection:
        version, newest = read_schema_version(connection), schema_versions()[-1]
        if version == newest:
            return
        _refuse_newer_schema(engine.url, version)
        if version is None and not _table_names(connection):
            _create_tables(connection, newest)
        else:
            migrate(connection)


def _create_tables(connection: Connection, version: str) -> None:
    """Make the tables of a new store as all migrations together would. Alembic takes longer to import."""
    Base.metadata.create_all(connection)
    connection.exec_driver_sql(
        f"CREATE TABLE {_VERSION_TABLE} (version_num VARCHAR(32) NOT NULL, "
        f"CONSTRAINT {_VERSION_TABLE}_pkc PRIMARY KEY (version_num))"
    )
    connection.exec_driver_sql(f"INSERT INTO {_VERSION_TABLE} (version_num) VALUES ('{version}')")


def _refuse_foreign(parsed: URL, file: Path) -> None:
    """Raise `StoreError` if a file contains tables of another program.

    The file is opened read-only, because the settings of a writing connection would change it.
    """
    if not file.exists():
        return
    engine = _make_engine(_read_only_file(parsed, file))
    with _dispose_on_error(engine), engine.connect() as connection:
        names = [] if read_schema_version(connection) else _table_names(connection)
    engine.dispose()
    if names:
        raise StoreError(
            f"expected a store at {parsed.render_as_string()}, found a database of another program, with "
            f"the table {names[0]}; name another one with --store"
        )


def _table_names(connection: Connection) -> list[str]:
    inspector = inspect(connection)
    return [*inspector.get_table_names(), *inspector.get_view_names()]


def _refuse_newer_schema(parsed: URL, version: str | None) -> None:
    """Raise `StoreError` if a newer version of the tool made the store's schema."""
    versions = schema_versions()
    if version is not None and version not in (*_PRERELEASE_VERSIONS, *versions):
        raise StoreError(
            f"expected a store of schema {versions[-1]} or earlier at {parsed.render_as_string()}, "
            f"found {version}, which a newer version of the tool made; update this one: "
            "pip install --upgrade precision-bisect"
        )
