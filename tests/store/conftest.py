"""Both kinds of store: each test of the journal runs on SQLite and on PostgreSQL."""

import secrets
from collections.abc import Generator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from precision_bisect.store.database import sqlite_url
from tests.support import postgresql


@pytest.fixture(scope="session")
def postgresql_server() -> Generator[str]:
    """The URL of a server's first database."""
    if postgresql.programs() is None:
        pytest.skip(postgresql.ABSENT)
    with postgresql.server() as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: str) -> str:
    """An empty database on the server."""
    name = f"store_{secrets.token_hex(6)}"
    url = make_url(postgresql_server).set(drivername="postgresql+psycopg")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return make_url(postgresql_server).set(database=name).render_as_string()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "store.sqlite")
    return request.getfixturevalue("postgresql_url")
