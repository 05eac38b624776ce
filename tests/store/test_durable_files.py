"""What is written wholly or not at all: contents, modes, and what a failure leaves behind."""

import errno
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Thread

import pytest

from precision_bisect.store.database import open_store, sqlite_url
from precision_bisect.store.durable_files import (
    MAX_TEXT_BYTES,
    create_folder,
    entries_below,
    is_partial,
    make_folder,
    make_ignored_folder,
    make_own_folder,
    read_or_create_key,
    read_text_file,
    remove,
    replace_file,
    sync_tree,
    try_remove_tree,
    write_whole,
)


def test_a_file_is_written_as_text_and_as_bytes(tmp_path: Path) -> None:
    write_whole(tmp_path / "text", "äöü\n")
    write_whole(tmp_path / "bytes", b"\x00\r\n")
    assert (tmp_path / "text").read_bytes() == "äöü\n".encode()
    assert (tmp_path / "bytes").read_bytes() == b"\x00\r\n"
    assert {path.name for path in tmp_path.iterdir()} == {"text", "bytes"}


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is synced, in order."""
    names, sync = list[str](), os.fsync

    def note(descriptor: int) -> None:
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return names


def test_what_is_written_is_synced_before_it_gets_its_name_and_that_name_behind_it(
    tmp_path: Path, synced: list[str]
) -> None:
    folder = tmp_path / "a" / "b"
    make_folder(folder)
    assert synced == ["a", tmp_path.name]
    make_folder(folder)
    assert len(synced) == 2
    write_whole(folder / "file", "x")
    partial, parent = synced[2:]
    assert (is_partial(Path(partial)), parent) == (True, "b")
    (folder / "link").symlink_to("/nowhere")
    os.mkfifo(folder / "pipe")
    synced.clear()
    sync_tree(tmp_path / "a")
    assert synced == ["file", "b", "a"]


def test_a_new_file_or_folder_is_its_owner_s_alone_unless_it_is_public(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        write_whole(tmp_path / "own", "x")
        write_whole(tmp_path / "public", "x", is_public=True)
        make_own_folder(tmp_path / "home")
        make_ignored_folder(tmp_path / "report")
        open_store(sqlite_url(tmp_path / "stores" / "store.sqlite"))
    finally:
        os.umask(umask)
    modes = {
        name: stat.S_IMODE((tmp_path / name).stat().st_mode)
        for name in ("own", "public", "home", "report", "stores", "stores/store.sqlite")
    }
    assert modes == {
        "own": 0o600,
        "public": 0o644,
        "home": 0o700,
        "report": 0o700,
        "stores": 0o700,
        "stores/store.sqlite": 0o600,
    }


def test_a_store_that_was_made_for_others_too_stays_theirs(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    open_store(sqlite_url(file))
    file.chmod(0o660)
    open_store(sqlite_url(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o660


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
        with replace_file(tmp_path / "newest") as link:
            link.symlink_to(name)
    assert (tmp_path / "newest").readlink() == Path("2")
    assert {path.name for path in tmp_path.iterdir()} == {"1", "2", "newest"}


def test_a_file_in_place_of_a_planted_link_is_its_owner_s_alone(tmp_path: Path) -> None:
    public, link = tmp_path / "public", tmp_path / "report.md"
    public.write_text("")
    public.chmod(0o644)
    link.symlink_to(public)
    write_whole(link, "new")
    assert stat.S_IMODE(link.lstat().st_mode) == 0o600
    assert (public.read_text(), stat.S_IMODE(public.stat().st_mode)) == ("", 0o644)


@pytest.fixture
def deep_folder(tmp_path: Path) -> Generator[Path]:
    """A folder that nests deeper than Python's calls, with a file at its end and a link out of it."""
    folder = tmp_path / "deep"
    bottom = folder.joinpath(*["n"] * 1200)
    subprocess.run(["mkdir", "-p", bottom], check=True)
    (bottom / "file").write_text("found\n")
    (tmp_path / "elsewhere").mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)  # pytest's own removal recurses.


@pytest.mark.parametrize("remover", [remove, try_remove_tree])
def test_a_folder_of_any_depth_is_removed(
    deep_folder: Path, tmp_path: Path, remover: Callable[[Path], None]
) -> None:
    sync_tree(deep_folder)
    remover(deep_folder)
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]


@pytest.fixture
def few_descriptors() -> Generator[None]:
    """Far fewer files may be open at once than a deep folder has levels."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len([*Path("/proc/self/fd").iterdir()]) + 64, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("remover", [remove, try_remove_tree])
@pytest.mark.usefixtures("few_descriptors")
def test_a_deep_folder_is_removed_with_few_descriptors(
    deep_folder: Path, tmp_path: Path, remover: Callable[[Path], None]
) -> None:
    remover(deep_folder)
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]


@pytest.mark.parametrize("remover", ["remove", "try_remove_tree"])
def test_folders_that_a_run_made_read_only_are_removed(remover: str) -> None:
    """As by caches of Go and Bazel. Root may write there all the same, so another user removes them."""
    code = (
        "import os, tempfile\n"
        "from pathlib import Path\n"
        f"from precision_bisect.store.durable_files import {remover}\n"
        "os.getuid() or os.setuid(65534)\n"
        "root = Path(tempfile.mkdtemp())\n"
        "(root / 'made' / 'a' / 'b').mkdir(parents=True)\n"
        "(root / 'made' / 'a' / 'b' / 'file').touch()\n"
        "for name in ('made/a/b', 'made/a', 'made'):\n"
        "    (root / name).chmod(0o500)\n"
        f"{remover}(root / 'made')\n"
        "root.rmdir()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_cannot_be_removed_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of a deep tree are moved to its top. This one is there already."""
    folder = tmp_path / "folder"
    (folder / "kept").mkdir(parents=True)
    (folder / "kept" / "file").touch()

    def refuse(path: object, *, dir_fd: int | None = None) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "unlink", refuse)
    try_remove_tree(folder)
    assert sorted(path.name for path in folder.rglob("*")) == ["file", "kept"]


def test_a_folder_of_any_depth_is_listed_and_its_links_are_not_followed(deep_folder: Path) -> None:
    assert len(list(entries_below(deep_folder))) == 1200 + len(("file", "link"))


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, SystemExit])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def write_half() -> None:
        with replace_file(file) as partial:
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


def test_a_folder_is_there_wholly_or_not_at_all(tmp_path: Path, synced: list[str]) -> None:
    folder = tmp_path / "below" / "folder"

    def make(error: type[BaseException] | None) -> None:
        with create_folder(folder) as partial:
            partial.mkdir()
            (partial / "file").write_text("half")
            assert not folder.exists()
            if error is not None:
                raise error

    with pytest.raises(KeyboardInterrupt):
        make(KeyboardInterrupt)
    assert list(folder.parent.iterdir()) == []
    make(None)
    assert {tmp_path.name, "below"} <= {*synced}
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert list(folder.parent.iterdir()) == [folder]


def test_what_a_kill_left_of_a_folder_goes_with_the_next_attempt(tmp_path: Path) -> None:
    with create_folder(tmp_path / "folder") as partial:
        partial.mkdir()
        (partial / "new").touch()
        (left := tmp_path / "left.partial").mkdir()
    with create_folder(tmp_path / "left") as partial:
        assert partial == left
        partial.mkdir()
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "left"}


@pytest.mark.parametrize("begin", [replace_file, create_folder])
def test_what_a_kill_leaves_is_known_by_its_name(
    tmp_path: Path, begin: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    with begin(tmp_path / "result.json") as partial:
        assert is_partial(partial)
        assert partial.parent == tmp_path
        partial.touch()
    assert not is_partial(tmp_path / "result.json")


def test_a_text_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="more than 4 MiB"):
        read_text_file(Path("/dev/zero"))
    (tmp_path / "holes").touch()
    os.truncate(tmp_path / "holes", MAX_TEXT_BYTES + 1)
    with pytest.raises(OSError, match="more than 4 MiB"):
        read_text_file(tmp_path / "holes")
    os.truncate(tmp_path / "holes", MAX_TEXT_BYTES)
    assert len(read_text_file(tmp_path / "holes")) == MAX_TEXT_BYTES


def test_a_named_pipe_is_refused_at_once_and_a_pipe_of_the_shell_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="it is a named pipe"):
            read_text_file(tmp_path / name)
    reader, writer = os.pipe()
    with ThreadPoolExecutor(1) as threads, os.fdopen(reader):
        text = threads.submit(read_text_file, Path(f"/dev/fd/{reader}"))
        with os.fdopen(writer, "w") as pipe:
            pipe.write("text")
        assert text.result() == "text"


def test_a_named_pipe_in_place_of_a_key_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key")
    with pytest.raises(OSError, match="it is a named pipe"):
        read_or_create_key(tmp_path / "key")
