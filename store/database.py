"""Opening the store: a SQLAlchemy URL, migrated to the newest schema, ready for sessions."""

from importlib import resources
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from filelock import FileLock
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from .schema import Base


class StoreError(Exception):
    """The store cannot be opened or written: what was expected, found, where, what to do."""


def sqlite_url(path: Path) -> str:
    """The URL of a store in one file."""
    return f"sqlite:///{path}"


def open_store(url: str) -> sessionmaker[Session]:
    """Open (and make or migrate) the store at `url`. Raises `StoreError`."""
    try:
        parsed = make_url(url)
        engine = create_engine(parsed)
    except (ArgumentError, ImportError) as error:
        raise StoreError(
            f"expected a database URL that SQLAlchemy can open, found {url!r}: {error}"
        ) from error
    try:
        if parsed.get_backend_name() == "sqlite":
            _prepare_sqlite(engine)
            if parsed.database and parsed.database != ":memory:":
                file = Path(parsed.database)
                file.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(file.with_name(file.name + ".migrate.lock")):
                    _migrate(engine)
                return sessionmaker(engine, expire_on_commit=False)
        _migrate(engine)
    except (SQLAlchemyError, OSError) as error:
        reason = str(error.orig) if isinstance(error, DatabaseError) else str(error)
        raise StoreError(
            f"expected a store that can be opened and written at {parsed.render_as_string()}: {reason}; "
            "free it or name another one with --store"
        ) from error
    return sessionmaker(engine, expire_on_commit=False)


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
        connection.exec_driver_sql("BEGIN")

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)


def _migrate(engine: Engine) -> None:
    with resources.as_file(resources.files("precision_bisect.store.migrations")) as scripts:
        config = Config()
        config.set_main_option("script_location", str(scripts).replace("%", "%%"))
        head = ScriptDirectory.from_config(config).get_current_head()
        with engine.connect() as connection:
            if MigrationContext.configure(connection).get_current_revision() == head:
                return
        with engine.begin() as connection:
            config.attributes.update(connection=connection, metadata=Base.metadata)
            command.upgrade(config, "head")
