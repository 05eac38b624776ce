"""Whether a store could be opened is found out without making one."""

import os
from pathlib import Path

import pytest

from precision_bisect.store.database import StoreError, check_store, open_store, open_to_read, sqlite_url


def test_a_store_that_is_not_there_yet_needs_a_place(tmp_path: Path) -> None:
    check_store(sqlite_url(tmp_path / "deep" / "store.db"))
    check_store("sqlite:///:memory:")
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="expected a place for a store"):
        check_store(sqlite_url(tmp_path / "file" / "store.db"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_no_place(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="no folder that can be written"):
        check_store(sqlite_url(tmp_path / "store.db"))


def test_a_folder_in_which_no_file_can_be_made_is_no_place_whatever_it_permits() -> None:
    """Waiting for a lock in it would have no end. /proc lets root write, and has no files."""
    with pytest.raises(StoreError, match="no folder that can be written"):
        check_store("sqlite:////proc/store.db")
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
    for use in (check_store, open_store):
        with pytest.raises(
            StoreError, match=r"can be written at sqlite:.*, found a file that may only be read; name an"
        ):
            use(url)
    open_to_read(url).kw["bind"].dispose()


def test_a_store_of_any_version_up_to_this_one_will_do(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    file.touch()
    check_store(sqlite_url(file))
    assert file.stat().st_size == 0
    open_store(sqlite_url(file)).kw["bind"].dispose()
    check_store(sqlite_url(file))


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    file.write_text("notes of a day, which are longer than the head of a database")
    with pytest.raises(StoreError, match="not a database"):
        check_store(sqlite_url(file))


@pytest.mark.parametrize("url", ["nonsense", "mysq://host/name"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="expected a database URL"):
        check_store(url)
