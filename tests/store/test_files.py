"""What is written wholly or not at all: contents, modes, and what a failure leaves behind."""

import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Thread

import pytest

from precision_bisect.store.files import is_partial, making_folder, replacing, write_whole


def test_a_file_is_written_as_text_and_as_bytes(tmp_path: Path) -> None:
    write_whole(tmp_path / "text", "äöü\n")
    write_whole(tmp_path / "bytes", b"\x00\r\n")
    assert (tmp_path / "text").read_bytes() == "äöü\n".encode()
    assert (tmp_path / "bytes").read_bytes() == b"\x00\r\n"
    assert {path.name for path in tmp_path.iterdir()} == {"text", "bytes"}


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_whole(tmp_path / "new", "x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o444])
def test_a_replaced_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(mode)
    write_whole(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_reader_keeps_what_it_opened(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with file.open() as reader:
        write_whole(file, "new")
        assert reader.read() == "old"


def test_a_link_is_replaced_and_not_what_it_leads_to(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        with replacing(tmp_path / "newest") as link:
            link.symlink_to(name)
    assert (tmp_path / "newest").readlink() == Path("2")
    assert {path.name for path in tmp_path.iterdir()} == {"1", "2", "newest"}


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, SystemExit])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def write_half() -> None:
        with replacing(file) as partial:
            partial.write_text("ha")
            raise error

    with pytest.raises(error):
        write_half()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_moved_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_writers_at_once_do_not_mix(tmp_path: Path) -> None:
    file = tmp_path / "file"
    contents = [str(number) * 10_000 for number in range(8)]
    writers = [Thread(target=write_whole, args=(file, content)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert file.read_text() in contents
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_is_there_wholly_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "below" / "folder"

    def make(error: type[BaseException] | None) -> None:
        with making_folder(folder) as partial:
            partial.mkdir()
            (partial / "file").write_text("half")
            assert not folder.exists()
            if error is not None:
                raise error

    with pytest.raises(KeyboardInterrupt):
        make(KeyboardInterrupt)
    assert list(folder.parent.iterdir()) == []
    make(None)
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert list(folder.parent.iterdir()) == [folder]


def test_what_a_kill_left_of_a_folder_goes_with_the_next_attempt(tmp_path: Path) -> None:
    with making_folder(tmp_path / "folder") as partial:
        partial.mkdir()
        (partial / "new").touch()
        (left := tmp_path / "left.partial").mkdir()
    with making_folder(tmp_path / "left") as partial:
        assert partial == left
        partial.mkdir()
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "left"}


@pytest.mark.parametrize("begin", [replacing, making_folder])
def test_what_a_kill_leaves_is_known_by_its_name(
    tmp_path: Path, begin: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    with begin(tmp_path / "result.json") as partial:
        assert is_partial(partial)
        assert partial.parent == tmp_path
        partial.touch()
    assert not is_partial(tmp_path / "result.json")
