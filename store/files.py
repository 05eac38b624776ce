"""Files and folders that are there wholly or not at all: a reader never sees the half of one."""

import shutil
import tempfile
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

IGNORE = ".gitignore"
_EVERYTHING = "*\n"
_PARTIAL = ".partial"


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8, so that whoever opens it reads what stood there before or all of `content`.

    Raises:
        OSError: it cannot be written; what stood there is still there.
    """
    with replacing(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def make_ignored_folder(path: Path) -> None:
    """Make a folder that git ignores by a file of its own, unless there are files in it already.

    Raises:
        OSError: it cannot be made or written.
    """
    path.mkdir(parents=True, exist_ok=True)
    if not any(path.iterdir()):
        (path / IGNORE).write_text(_EVERYTHING)


def make_own_folder(path: Path) -> None:
    """Make a folder that only this tool writes to, and that git ignores whatever lies in it.

    Raises:
        OSError: it cannot be made or written.
    """
    path.mkdir(parents=True, exist_ok=True)
    if not (path / IGNORE).exists():
        write_whole(path / IGNORE, _EVERYTHING)


def nearest_existing(path: Path) -> Path:
    """A path, or what there is of the folders that lead to it."""
    while not path.exists():
        path = path.parent
    return path


def is_writable(folder: Path) -> bool:
    """Whether it is a folder in which a file can be made, which permissions alone do not tell; none is left behind."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A free name in the folder of `path`: the file or link that the body writes there takes the place of `path`.

    The file gets the mode of the one it replaces. Where the body raises, also at Ctrl-C, nothing is left behind and
    `path` stays as it was. Several processes may do so at once; the last one to end wins.

    Raises:
        OSError: nothing was written, or it could not be moved to `path`.
    """
    partial = path.with_name(f".{uuid.uuid4().hex}{_PARTIAL}")
    try:
        yield partial
        if path.is_file() and not partial.is_symlink():
            shutil.copymode(path, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def making_folder(path: Path) -> Generator[Path]:
    """A name beside `path`: the folder that the body makes there becomes `path`, which must not be there by then.

    Where the body raises, also at Ctrl-C, nothing is left behind. What a killed process left is removed by the next
    one that makes the same folder; two must not do so at once.

    Raises:
        OSError: no folder was made, or it could not be moved to `path`.
    """
    partial = path.with_name(f"{path.name}{_PARTIAL}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def is_partial(path: Path) -> bool:
    """Whether a killed process may have left this file or folder unfinished."""
    return path.suffix == _PARTIAL
