"""Opens the store: a SQLAlchemy URL, migrated to the newest schema, ready for sessions.

On SQLite and PostgreSQL alike, one writing transaction runs at a time. Each begins by taking the store's own lock: the
write lock of SQLite, or an advisory lock of PostgreSQL. So what a transaction reads is still true when it writes. The
migrations are modules of `versions/`, which alembic runs. The first of them is the schema of the first release, which
also completes the stores of earlier revisions.
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
from .tables import Base  # with the tables of nights and bisections beside it
from .vocabulary import hide_credentials

_TABLE = "alembic_version"


_BEFORE_RELEASE = tuple(f"{number:04}" for number in range(1, 15))
"""The schemas before the first release. The script of the first release makes of each what it lacks."""


def schemas() -> list[str]:
    """Return the schemas of releases, the oldest first. Their scripts are named `versions/v<schema>_<what>.py`."""
    scripts = resources.files("precision_bisect.store.versions").iterdir()
    return sorted(script.name[1:].partition("_")[0] for script in scripts if script.name.startswith("v"))


def read_schema(connection: Connection) -> str | None:
    """Return the schema of a store, as its migrations recorded it; None where there is no store yet."""
    if not inspect(connection).has_table(_TABLE):
        return None
    return connection.exec_driver_sql(f"SELECT version_num FROM {_TABLE}").scalar()


_WRITERS = 0x70726563
"""All writers of a PostgreSQL store share the advisory lock of this key. It is also the first key of its bisections'
locks."""


_DATABASES = ("sqlite", "postgresql")
"""A store can be in one of these databases."""

_LOG_HEADER = 32
"""The header of SQLite's log has this many bytes. https://sqlite.org/fileformat.html#the_write_ahead_log"""
_LOG_BEGINNINGS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_OPEN_FILE_KEY = "opened"
"""The sessions of a store keep the file that they write to under this key."""


class StoreError(Exception):
    """The store cannot be opened or written. The message says what was expected, found, where, and what to do."""

    def __init__(self, message: str = "") -> None:
        super().__init__(hide_credentials(message))


class OlderSchemaError(StoreError):
    """The store was written by an earlier version of the tool, and is not migrated yet."""


@dataclass(frozen=True)
class _OpenFile:
    """A file that was opened. SQLite continues to use it where its name is gone, or leads to another file."""

    path: Path
    device: int
    inode: int

    @classmethod
    def from_path(cls, path: Path) -> "_OpenFile":
        """Return the file that a path leads to. Raises `OSError`."""
        status = path.stat()
        return cls(path, status.st_dev, status.st_ino)

    @property
    def is_there(self) -> bool:
        """Return whether the path still leads to the file."""
        try:
            return _OpenFile.from_path(self.path) == self
        except OSError:
            return False


def sqlite_url(path: Path) -> str:
    """Return the URL of a store in one file."""
    return f"sqlite:///{path}"


def absolute_url(url: str) -> str:
    """Return a URL that leads to the same store from any folder. Raises `StoreError`."""
    file = _file_of(parsed := _parse_url(url))
    return url if file is None else parsed.set(database=str(file)).render_as_string(hide_password=False)


def store_folder(url: str) -> Path | None:
    """Return the folder of a store in a file; None where it is elsewhere. Raises `StoreError`."""
    file = _file_of(_parse_url(url))
    return None if file is None else file.parent


def _file_of(parsed: URL) -> Path | None:
    is_one = parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:")
    return Path(parsed.database or "").absolute() if is_one else None


def open_store(url: str) -> sessionmaker[Session]:
    """Open (and make or migrate) the store at `url`. Raises `StoreError`."""
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
                # Where no file can be made, waiting for its lock would not end.
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


def read_store(url: str) -> sessionmaker[Session]:
    """Open the store at `url` to read. Nothing is made, migrated or locked. Raises `StoreError`."""
    parsed = _parse_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        _check_is_file(parsed, Path(parsed.database))
        _refuse_damage(parsed, Path(parsed.database))
        engine = _engine(_read_only_file(parsed, Path(parsed.database)))
    else:
        engine = _engine(parsed).execution_options(postgresql_readonly=True)
    with _translate_errors(parsed, "read"), engine.connect() as connection:
        found, head = read_schema(connection), schemas()[-1]
        if found != head:
            _refuse_later(parsed, found)
            raise OlderSchemaError(
                f"expected a store of schema {head} at {parsed.render_as_string()}, found {found or 'none'}; "
                "the next bisection that uses it brings an older one up to date"
            )
    return sessionmaker(engine, expire_on_commit=False)


def open_to_read(url: str) -> sessionmaker[Session]:
    """Open the store at `url` to read. A store of an earlier version is migrated first.

    Raises:
        StoreError: it cannot be read, or is of an earlier version and cannot be written.
    """
    try:
        return read_store(url)
    except OlderSchemaError:
        open_store(url).kw["bind"].dispose()
        return read_store(url)


def is_there(url: str) -> bool:
    """Return whether there is a store at `url`. Opening it would otherwise make its file.

    Raises `StoreError` where no store is possible, because the path to it is no folder.
    """
    file = _file_of(parsed := _parse_url(url))
    if file is None:
        return parsed.get_backend_name() != "sqlite"  # A database in memory belongs to one process.
    if file.exists():
        return True
    if not (there := nearest_existing(file.parent)).is_dir():
        raise _no_place_error(parsed, f"{there}, which is no folder")
    return False


def check_store_file(sessions: sessionmaker[Session]) -> None:
    """Check that what was written to a store can be read again.

    Raises `StoreError` where its file was removed, or replaced, after it was opened. No write reports that.
    """
    opened: _OpenFile | None = sessions.kw.get("info", {}).get(_OPEN_FILE_KEY)
    if opened is not None and not opened.is_there:
        found = "another one" if opened.path.exists() else "none"
        raise StoreError(
            f"{opened.path}: expected the store that was opened there, found {found}: it was removed meanwhile, and "
            "what came of this is not in it"
        )


def check_store(url: str) -> None:
    """Check that the store at `url` could be opened. Nothing is made, migrated or locked. Raises `StoreError`."""
    parsed = _parse_url(url)
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
    """Raise `StoreError` where the file of a store exists and is read-only, or is no file."""
    _check_is_file(parsed, file)
    if file.is_file() and not os.access(file, os.W_OK):
        raise StoreError(
            f"expected a store that can be written at {parsed.render_as_string()}, found a file that may only be read; "
            "name another one with --store"
        )


def _check_is_file(parsed: URL, file: Path) -> None:
    """Raise `StoreError` where a pipe, a device or a folder is in place of a store. It might never open."""
    if file.exists() and not file.is_file():
        raise StoreError(
            f"expected a store at {parsed.render_as_string()}, found what is no file; name another one with --store"
        )


def _mode_of(file: Path) -> int:
    """Return the mode of a store's file, for its lock too. A user who can only read the lock can block others."""
    return stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o600


def _make_file(parsed: URL, file: Path) -> None:
    """Make the file of a new store, for its owner alone. A kill leaves a whole file or none."""
    with replace_file(file) as partial:
        partial.touch(mode=0o600)
        engine = _engine(parsed.set(database=str(partial)))
        _prepare_sqlite(engine)
        try:
            _migrate(engine)
            engine.dispose()
        except BaseException:
            # An interrupt can leave a connection open, and with it the files that SQLite keeps for it.
            for suffix in ("-wal", "-shm", "-journal"):
                Path(f"{partial}{suffix}").unlink(missing_ok=True)
            raise


def _refuse_damage(parsed: URL, file: Path) -> None:
    """Raise `StoreError` where SQLite would take the loss of what a store held for an empty store.

    The file is empty, or the log beside it, which has the newest transactions, begins with other bytes than a log. A
    power cut leaves zeros there, and only what was not synced is lost then.
    """
    if not file.is_file():
        return
    if file.stat().st_size == 0:
        raise StoreError(
            f"expected a store at {parsed.render_as_string()}, found a file of 0 bytes: what it held is lost; "
            "put a copy of it there, or remove the file to begin anew"
        )
    log = Path(f"{file}-wal")
    header = b""
    if log.is_file():
        with log.open("rb") as opened:
            header = opened.read(_LOG_HEADER)
    if len(header) == _LOG_HEADER and any(header) and header[:4] not in _LOG_BEGINNINGS:
        raise StoreError(
            f"{log}: expected the log of the store beside it, found other bytes: the newest results are lost; "
            "put a copy of it there, or remove the file to go on with the older ones"
        )


def _check_place(parsed: URL, file: Path) -> None:
    """Raise `StoreError` where no file can be made for a store."""
    there = nearest_existing(file.parent)
    if not is_writable(there):
        raise _no_place_error(parsed, f"{there}, which is no folder that can be written")


def _no_place_error(parsed: URL, found: str) -> StoreError:
    return StoreError(
        f"expected a place for a store at {parsed.render_as_string()}, found {found}; name another one with --store"
    )


@contextmanager
def sole_driver(sessions: sessionmaker[Session], bisection: int) -> Generator[bool]:
    """Yield whether this process is the only one, on all machines that share a PostgreSQL store, to drive a bisection.

    The lock is held until the end of the block, or of the process. A SQLite store belongs to one machine, which locks
    files.
    """
    engine = sessions.kw["bind"]
    if engine.dialect.name != "postgresql":
        yield True
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield bool(connection.scalar(select(func.pg_try_advisory_lock(_WRITERS, bisection))))
        connection.invalidate()


def is_driven(session: Session, bisection: int) -> bool | None:
    """Return whether some process holds the lock of `sole_driver`; None in a SQLite store, which cannot tell."""
    if session.get_bind().dialect.name != "postgresql":
        return None
    held = text(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND classid = :writers AND objid = :one "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    return session.execute(held, {"writers": _WRITERS, "one": bisection}).first() is not None


def _parse_url(url: str) -> URL:
    """Parse a URL. Raises `StoreError` where it is not the URL of a database that can be a store."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise _url_error(url, _suggest_url(url, error)) from error
    if parsed.get_backend_name() not in _DATABASES:
        raise _url_error(
            parsed.render_as_string(), "no other database is supported; name another one with --store"
        )
    # The driver behind the plain name differs between versions of SQLAlchemy.
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def _suggest_url(text: str, error: Exception) -> str:
    """Return what to name in place of a text that is no URL."""
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
        raise _url_error(parsed.render_as_string(), f"leave its driver out ({error})") from error
    except ArgumentError as error:
        raise _url_error(parsed.render_as_string(), f"leave its driver out ({error})") from error


def _url_error(text: str, mend: str) -> StoreError:
    return StoreError(
        "expected a database URL of SQLite or PostgreSQL, sqlite:////path/to/file or postgresql://user@host/name, "
        f"found {text!r}; {mend}"
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
    """Describe an error in the words of the database or the system."""
    if isinstance(error, DatabaseError):
        return str(error.orig)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _read_only_file(parsed: URL, file: Path) -> URL:
    """Return a URL for SQLite's own read-only mode.

    In a folder that nobody can write, SQLite cannot keep the index of its log. It need not, because nothing changes.
    """
    frozen = not os.access(file.parent, os.W_OK) and not file.with_name(file.name + "-wal").exists()
    return parsed.set(
        database=file.absolute().as_uri(),
        query={"mode": "ro", "uri": "true", **({"immutable": "1"} if frozen else {})},
    )


def _prepare_sqlite(engine: Engine) -> None:
    """Configure a SQLite engine.

    With WAL a report can be read while a driver writes. Transactions begin as writers, so none fails halfway.
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
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITERS})")

    event.listen(engine, "begin", on_begin)


def migrate(connection: Connection) -> None:
    """Run the migrations that a store lacks, in the connection's transaction."""
    from alembic import command  # imported here because it takes long, and few stores need it
    from alembic.config import Config

    config = Config()
    with resources.as_file(resources.files("precision_bisect.store.migrations")) as scripts:
        config.set_main_option("script_location", str(scripts).replace("%", "%%"))
        versions = str(scripts.parent / "versions")
        config.set_main_option("version_locations", versions.replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        config.attributes.update(connection=connection, metadata=Base.metadata)
        if read_schema(connection) in _BEFORE_RELEASE:
            connection.exec_driver_sql(f"DELETE FROM {_TABLE}")
        command.upgrade(config, "head")


def _migrate(engine: Engine) -> None:
    with engine.begin() as connection:
        found = read_schema(connection)
        if found == schemas()[-1]:
            return
        _refuse_later(engine.url, found)
        migrate(connection)


def _refuse_foreign(parsed: URL, file: Path) -> None:
    """Raise `StoreError` where a file holds tables of another program.

    The file is only read, because a store's settings would change it.
    """
    if not file.exists():
        return
    engine = _engine(_read_only_file(parsed, file))
    with engine.connect() as connection:
        names = [] if read_schema(connection) else _names_of_tables(connection)
    engine.dispose()
    if names:
        raise StoreError(
            f"expected a store at {parsed.render_as_string()}, found a database of another program, with "
            f"{names[0]} in it; name another one with --store"
        )


def _names_of_tables(connection: Connection) -> list[str]:
    found = inspect(connection)
    return [*found.get_table_names(), *found.get_view_names()]


def _refuse_later(parsed: URL, found: str | None) -> None:
    """Raise `StoreError` where a store has a schema that this version does not know."""
    known = schemas()
    if found is not None and found not in (*_BEFORE_RELEASE, *known):
        raise StoreError(
            f"expected a store of schema {known[-1]} or earlier at {parsed.render_as_string()}, "
            f"found {found}, which a later version of the tool made; update this one: "
            "pip install --upgrade precision-bisect"
        )
