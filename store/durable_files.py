"""Files and folders that are complete or absent, for other readers and after a power cut."""

import errno
import os
import secrets
import shutil
import stat
import tempfile
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

IGNORE = ".gitignore"
_EVERYTHING = "*\n"
_PARTIAL = ".partial"
MOST_TEXT = 4 << 20
"""A larger text, in bytes, is not read. A device has no end, and a file with holes may have any size."""


def sync(*paths: Path) -> None:
    """Make the contents of files, and the entries of folders, survive a power cut. Raises `OSError`."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL comes from a file system that cannot sync folders.
                raise
        finally:
            os.close(descriptor)


def sync_tree(path: Path) -> None:
    """Make a file, or a folder with all its contents, survive a power cut. Its own name is an entry of its parent.

    Raises:
        OSError: it cannot be read or written.
    """
    if path.is_symlink():
        return
    if path.is_dir():
        for entry in path.iterdir():
            sync_tree(entry)
    if path.is_dir() or path.is_file():
        sync(path)


def sync_files(folder: Path) -> None:
    """Make the files of a folder, and its own name, survive a power cut, but not the contents of folders below it.

    Raises:
        OSError: they cannot be read or written.
    """
    sync(
        *(path for path in folder.iterdir() if path.is_file() and not path.is_symlink()),
        folder,
        folder.parent,
    )


def make_folder(path: Path, *, mode: int = 0o777) -> None:
    """Make a folder, and its missing parents, so that they survive a power cut. `mode` is that of each new folder.

    Raises `OSError`.
    """
    new = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(new):
        each.mkdir(mode=mode, exist_ok=True)
    path.mkdir(exist_ok=True)  # This fails where the path is no folder.
    sync(*(each.parent for each in new))


def open_private(path: str, flags: int) -> int:
    """Open a file, as an `opener` of `open`. A new file can be read by its owner alone."""
    return os.open(path, flags, mode=0o600)


def write_whole(path: Path, content: str | bytes, *, is_public: bool = False) -> None:
    """Write a file, text as UTF-8. A reader sees the old content or all of `content`, also after a power cut.

    A new file belongs to its owner alone, unless it `is_public`. Then the umask decides what others may read.

    Raises:
        OSError: it cannot be written; the old content is still there.
    """
    opener = None if is_public else open_private
    with replace_file(path) as partial, open(partial, "wb", opener=opener) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def read_text_file(path: Path) -> str:
    """Return the UTF-8 text of a file that a person named, or that a checkout or a run left.

    It may be a pipe of the shell, `<(...)`, but no named one, which nobody may ever write to.

    Raises:
        OSError: it cannot be read, is a named pipe, or has more than `MOST_TEXT` bytes.
        UnicodeDecodeError: it is no UTF-8 text.
    """
    with open(path, "rb", opener=_open_unless_named_pipe) as file:
        content = file.read(MOST_TEXT + 1)
    if len(content) > MOST_TEXT:
        raise OSError(errno.EFBIG, f"more than {MOST_TEXT >> 20} MiB, which is no text to read", str(path))
    return content.decode("utf-8")


def _open_unless_named_pipe(path: str, flags: int) -> int:
    # Without `O_NONBLOCK` opening a named pipe waits for somebody who writes to it.
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    # The path that a pipe of the shell leads to, such as `/proc/1/fd/pipe:[2]`, does not exist.
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and Path(path).resolve().exists():
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is a named pipe, which may never end", path)
    os.set_blocking(descriptor, True)
    return descriptor


def make_ignored_folder(path: Path) -> None:
    """Make a folder for its owner alone, with a file that makes git ignore it, unless it already contains files.

    Raises:
        OSError: it cannot be made or written.
    """
    make_folder(path, mode=0o700)
    if not any(path.iterdir()):
        write_whole(path / IGNORE, _EVERYTHING)


def make_own_folder(path: Path) -> None:
    """Make a folder for its owner alone, to which only this tool writes. Git ignores all its contents.

    Raises:
        OSError: it cannot be made or written.
    """
    make_folder(path, mode=0o700)
    if not (path / IGNORE).exists():
        write_whole(path / IGNORE, _EVERYTHING)


def read_or_draw_key(file: Path) -> str:
    """Return the random text in a file that its owner alone can read. The text is drawn at the first call.

    Raises:
        OSError: it cannot be made or read.
    """
    if not file.exists():
        make_folder(file.parent, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="ascii") as drawn:
            drawn.write(secrets.token_hex(16))
            drawn.flush()
            os.fsync(drawn.fileno())
            with suppress(FileExistsError):  # Another process was first.
                os.link(drawn.name, file)
                sync(file.parent)
    return read_text_file(file)  # A named pipe in its place is refused.


def nearest_existing(path: Path) -> Path:
    """Return the path, or the nearest of its parents that exists."""
    while not path.exists():
        path = path.parent
    return path


def is_writable(folder: Path) -> bool:
    """Return whether a file can be made in a folder. Permissions alone do not show that. No file is left behind."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@contextmanager
def replace_file(path: Path) -> Generator[Path]:
    """Yield a free name in the folder of `path`. The file or link that the body writes there durably replaces `path`.

    The file gets the mode of the file that it replaces, but not that of a link's target. Where the body raises, also at
    Ctrl-C, nothing is left behind and `path` stays unchanged. Several processes may do so at once. The last one to end
    wins.

    Raises:
        OSError: nothing was written, or it could not be moved to `path`.
    """
    partial = path.with_name(f".{uuid.uuid4().hex}{_PARTIAL}")
    try:
        yield partial
        if path.is_file() and not path.is_symlink() and not partial.is_symlink():
            shutil.copymode(path, partial)
        sync_tree(partial)
        partial.replace(path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def create_folder(path: Path) -> Generator[Path]:
    """Yield a name beside `path`. The folder that the body makes there becomes `path`, which must not exist by then.

    Where the body raises, also at Ctrl-C, nothing is left behind. Remains of a killed process are removed by the next
    process that makes the same folder. Two processes must not do so at once.

    Raises:
        OSError: no folder was made, or it could not be moved to `path`.
    """
    partial = path.with_name(f"{path.name}{_PARTIAL}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield partial
        sync_tree(partial)
        partial.replace(path)
        sync(path.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def is_partial(path: Path) -> bool:
    """Return whether a killed process may have left this file or folder unfinished."""
    return path.suffix == _PARTIAL
