"""Locks that processes hold: who removes their files takes them from nobody, and each is a plain file with one name."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.workspace.home import FolderLock, ProcessLock, sole_user


def test_a_folder_has_one_user_until_the_end_of_the_block(tmp_path: Path) -> None:
    with sole_user(tmp_path) as first:
        with sole_user(tmp_path) as second:
            assert (first, second) == (True, False)
        with sole_user(tmp_path) as third:
            assert not third, "another's end lets nobody in"
    with sole_user(tmp_path) as fourth:
        assert fourth


def test_a_folder_that_is_not_there_has_no_user(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), sole_user(tmp_path / "none"):
        pass


@pytest.mark.parametrize(("kind", "taken"), [(ProcessLock, True), (FolderLock, False)])
def test_a_lock_whose_file_was_removed_is_held_by_its_folder(
    kind: type[ProcessLock], taken: bool, tmp_path: Path
) -> None:
    file = tmp_path / "lock"
    held = kind(file)
    assert held.acquire(blocking=False)
    assert not kind(file).acquire(blocking=False)
    file.unlink()
    other = kind(file)
    assert other.acquire(blocking=False) is taken
    if taken:
        other.release()
    held.release()
    assert kind(file).acquire(blocking=False)


def test_a_lock_that_is_not_got_lets_go_of_the_folder(tmp_path: Path) -> None:
    """As where an earlier version holds the file alone."""
    file = tmp_path / "lock"
    earlier = ProcessLock(file)
    assert earlier.acquire(blocking=False)
    assert not FolderLock(file).acquire(blocking=False)
    earlier.release()
    later = FolderLock(file)
    assert later.acquire(blocking=False)
    assert os.pread(later.fileno(), 300, 0).split()[0] == str(os.getpid()).encode()
    later.release()


@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/null")])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    plant(tmp_path / "lock")
    with pytest.raises(UserError, match=r"expected a lock, found a link or no plain file; remove it"):
        ProcessLock(tmp_path / "lock").acquire(blocking=True)


def test_a_second_name_is_refused_and_the_file_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "lock").hardlink_to(tmp_path / "mine")
    with pytest.raises(UserError, match="expected a lock"):
        ProcessLock(tmp_path / "lock").acquire(blocking=False)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_mode_is_given_to_a_new_lock_alone(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o640)
    for name, mode in (("old", 0o640), ("new", 0o666)):
        lock = ProcessLock(tmp_path / name, mode=0o666)
        assert lock.acquire(blocking=True)
        lock.release()
        assert (tmp_path / name).stat().st_mode & 0o777 == mode
