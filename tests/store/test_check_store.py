"""Whether a store could be opened is found out without making one."""

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import URL, Engine, QueuePool, create_engine

from precision_bisect.store.database import (
    absolute_url,
    check_can_open,
    migrate_and_read,
    open_read_only,
    open_store,
    sqlite_url,
    store_exists,
)
from precision_bisect.store.vocabulary import StoreError


def test_a_store_that_is_not_there_yet_needs_a_place(tmp_path: Path) -> None:
    check_can_open(sqlite_url(tmp_path / "deep" / "store.db"))
    check_can_open("sqlite:///:memory:")
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="expected a place for a store"):
        check_can_open(sqlite_url(tmp_path / "file" / "store.db"))


def test_an_empty_file_is_no_new_store(tmp_path: Path) -> None:
    """A full disk, or a copy that failed, leaves one: what it held is gone."""
    file = tmp_path / "store.db"
    file.touch()
    for look in (open_store, migrate_and_read, check_can_open):
        with pytest.raises(StoreError, match=r"found a file of 0 bytes: its results are lost; .* remove .*"):
            look(sqlite_url(file))
    assert file.stat().st_size == 0
    file.unlink()
    open_store(sqlite_url(file)).kw["bind"].dispose()
    check_can_open(sqlite_url(file))


def test_foreign_bytes_in_place_of_the_log_are_refused(tmp_path: Path) -> None:
    """SQLite takes such a log as none: a history would be empty without a word."""
    file, log = tmp_path / "store.db", tmp_path / "store.db-wal"
    open_store(sqlite_url(file)).kw["bind"].dispose()
    for header in (b"", bytes(4096)):  # what a power cut leaves
        log.write_bytes(header)
        # A connection that closes later would remove the log.
        open_store(sqlite_url(file)).kw["bind"].dispose()
    log.write_bytes(b"foreign " * 512)
    for look in (open_store, migrate_and_read):
        with pytest.raises(
            StoreError,
            match=r"remove .*store\.db-wal to continue with the older results",
        ):
            look(sqlite_url(file))
    assert log.read_bytes() == b"foreign " * 512


@pytest.mark.parametrize("look", [open_store, migrate_and_read, check_can_open])
def test_what_is_no_store_is_refused_and_left_as_it_is(tmp_path: Path, look: Callable[[str], object]) -> None:
    foreign = tmp_path / "foreign.db"
    with closing(sqlite3.connect(foreign)) as database:
        database.execute("create table theirs (id integer)")
        database.commit()
    before = foreign.read_bytes()
    with pytest.raises(StoreError, match="found a database of another program, with the table theirs"):
        look(sqlite_url(foreign))
    assert foreign.read_bytes() == before
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match="found something that is not a regular file"):
        look(sqlite_url(tmp_path / "pipe"))


def test_who_may_not_use_a_store_cannot_lock_it(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "store.db"
    open_store(sqlite_url(file)).kw["bind"].dispose()
    assert {stat.S_IMODE(each.stat().st_mode) for each in file.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_store_that_is_not_there_yet_is_told_from_one_that_cannot_be(tmp_path: Path) -> None:
    assert not store_exists(sqlite_url(tmp_path / "deep" / "store.db"))
    assert not store_exists("sqlite:///:memory:")
    assert store_exists("postgresql://host/name")
    (tmp_path / "file").touch()
    assert store_exists(sqlite_url(tmp_path / "file"))
    with pytest.raises(
        StoreError, match=f"found {tmp_path}/file, which is not a folder; name another one with"
    ):
        store_exists(sqlite_url(tmp_path / "file" / "state" / "store.db"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_no_place(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="not a writable folder"):
        check_can_open(sqlite_url(tmp_path / "store.db"))


def test_a_folder_in_which_no_file_can_be_made_is_no_place_whatever_it_permits() -> None:
    """Waiting for a lock in it would have no end. /proc lets root write, and has no files."""
    with pytest.raises(StoreError, match="not a writable folder"):
        check_can_open("sqlite:////proc/store.db")
    with pytest.raises(StoreError, match=r"opened and written at sqlite:////proc/store.db: \w"):
        open_store("sqlite:////proc/store.db")


def test_a_store_that_may_only_be_read_is_no_store_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading it goes on. Root may write to each file but one that the system holds: the answer stands for that."""
    url = sqlite_url(tmp_path / "store.db")
    open_store(url).kw["bind"].dispose()
    (tmp_path / "store.db").chmod(0o444)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    for use in (check_can_open, open_store):
        with pytest.raises(StoreError, match=r"can be written at sqlite:.*, found a read-only file; name an"):
            use(url)
    migrate_and_read(url).kw["bind"].dispose()


def test_a_store_of_any_version_up_to_this_one_will_do(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with closing(sqlite3.connect(file)) as without_tables:
        without_tables.execute("PRAGMA user_version = 1")
    before = file.read_bytes()
    check_can_open(sqlite_url(file))
    assert file.read_bytes() == before
    open_store(sqlite_url(file)).kw["bind"].dispose()
    check_can_open(sqlite_url(file))


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    file.write_text("notes of a day, which are longer than the head of a database")
    with pytest.raises(StoreError, match="not a database"):
        check_can_open(sqlite_url(file))


@pytest.mark.parametrize(
    ("url", "mend"),
    [
        ("/nonexistent/x.db", "for a file write sqlite:////nonexistent/x.db"),
        ("sqlite:/nonexistent/x.db", "for a file write sqlite:////nonexistent/x.db"),
        (
            "mysql://user:secret@host/name",
            r"found 'mysql://user:\*\*\*@host/name'; no other database is supported",
        ),
        ("mysq://host/name", "no other database is supported; name another one with --store"),
        ("postgresql://host:port/name", "correct it"),
        ("sqlite+none:///x.db", "leave its driver out"),
        ("~nosuchuser/x", "for a file write sqlite:////.*/~nosuchuser/x"),
        ("sqlite:////tmp/what?.db", r"write no \? in its path"),
        ("sqlite:////tmp/x.db?timeout", r"write no \? in its path"),
        (
            "sqlite:///file:x.db?mode=ro&uri=true",
            r"behind a \? only cached_statements, .* timeout with a value",
        ),
    ],
)
def test_what_is_no_url_is_refused_with_what_to_name_in_its_place(url: str, mend: str) -> None:
    for look in (check_can_open, open_store, absolute_url):
        if look is absolute_url and "+none" in url:
            continue  # It opens nothing.
        with pytest.raises(StoreError, match=f"expected a database URL of SQLite or PostgreSQL, .*{mend}"):
            look(url)


def test_a_url_may_set_a_timeout(tmp_path: Path) -> None:
    url = f"{sqlite_url(tmp_path / 'store.db')}?timeout=5"
    open_store(url).kw["bind"].dispose()
    check_can_open(url)
    assert (tmp_path / "store.db").exists()


def test_a_store_in_memory_cannot_be_read_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where a file has its name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ":memory:").touch()
    for url in ("sqlite:///:memory:", "sqlite://"):
        check_can_open(url)
        with pytest.raises(StoreError, match="found one in memory, which ends with its process"):
            migrate_and_read(url)


@pytest.mark.parametrize("look", [open_store, open_read_only])
def test_a_store_that_cannot_be_opened_keeps_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[str], object]
) -> None:
    open_store(sqlite_url(tmp_path / "store.db")).kw["bind"].dispose()
    made: list[Engine] = []

    def create(url: URL) -> Engine:
        made.append(create_engine(url))
        return made[-1]

    monkeypatch.setattr("precision_bisect.store.database.create_engine", create)
    monkeypatch.setattr("precision_bisect.store.database.schema_versions", lambda: ["0"])
    with pytest.raises(StoreError):
        look(sqlite_url(tmp_path / "store.db"))
    assert made
    assert [engine.pool.checkedin() for engine in made if isinstance(engine.pool, QueuePool)] == [0] * len(
        made
    )


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hushhush1@host:notaport/db",
        "postgresql://u:hush@hushhush1@host/db",
        "postgresql:///db?host=/nosuch&user=u&password=hushhush1",
        "postgres:u:hushhush1@host",
    ],
)
def test_no_error_shows_the_password_of_an_address(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        check_can_open(url)
    assert "hushhush1" not in str(refused.value)
