"""Files and documents that last: complete or absent for other readers and after a power cut, and readable at any age.

`write_whole`, `replace_file` and `create_folder` write durably. A `Document` is the root of a JSON document. Every JSON
value that is stored, in a column of the store or in a file, has its version under `schema_version`. A value without one
has version 1. `upgrade_value` leads from each version to the next, so that nobody needs an older version of the tool to
read old values.
"""

import errno
import json
import os
import secrets
import shutil
import stat
import tempfile
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator

from .vocabulary import SQLITE_PREFIX, StoreError

IGNORE = ".gitignore"
_IGNORE_ALL = "*\n"
_PARTIAL = ".partial"
MAX_TEXT_BYTES = 4 << 20
"""`read_text_file` refuses a larger file. The limit stops endless devices (`/dev/zero`) and huge sparse files."""


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


def entries_below(folder: Path) -> Generator[Path]:
    """Yield all that a folder holds, at any depth, each folder before its contents. Links are not followed.

    `Path.rglob` ends with a `RecursionError` some hundred folders below. Raises `OSError`.
    """
    folders = [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                yield path
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, if it is there. Raises `OSError`."""
    if path.is_dir() and not path.is_symlink():
        try:
            shutil.rmtree(path)
        except (OSError, RecursionError):  # `rmtree` recurses, and holds a descriptor for each level.
            _remove_deep(path)
    else:
        path.unlink(missing_ok=True)


def try_remove_tree(path: Path) -> None:
    """Remove a folder, and ignore errors. Parts that cannot be removed remain. A link is left alone."""
    with suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            _remove_deep(path)


def _remove_deep(path: Path) -> None:
    """Remove a folder nested deeper than the recursion limit, or with paths longer than `PATH_MAX`.

    No descriptor stays open. Each folder below is moved to the top before it is emptied, so that no path grows.
    Raises `OSError`.
    """
    pending = [path]
    while pending:
        folder = pending.pop()
        with os.scandir(folder) as iterator:
            entries = list(iterator)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below = Path(entry.path)
                pending.append(below if folder == path else below.rename(path / uuid.uuid4().hex))
            else:
                Path(entry.path).unlink()
        if folder != path:
            folder.rmdir()
    path.rmdir()


def sync_tree(path: Path) -> None:
    """Make a file, or a folder with all its contents, survive a power cut.

    The caller must sync the parent folder too, because that folder holds the name of `path`.

    Raises:
        OSError: it cannot be read or written.
    """
    below = entries_below(path) if path.is_dir() and not path.is_symlink() else ()
    for entry in reversed((path, *below)):
        if not entry.is_symlink() and (entry.is_dir() or entry.is_file()):
            sync(entry)


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
        OSError: it cannot be written. The file has the old content or all of `content`.
    """
    opener = None if is_public else open_private
    with replace_file(path) as partial, open(partial, "wb", opener=opener) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def read_text_file(path: Path) -> str:
    """Return the UTF-8 text of a file that a person named, or that a checkout or a run left.

    The file may be a process substitution, `<(...)`. A named pipe is refused, because its writer might never come.

    Raises:
        OSError: it cannot be read, is a named pipe, or has more than `MAX_TEXT_BYTES` bytes.
        UnicodeDecodeError: it is no UTF-8 text.
    """
    with open(path, "rb", opener=_open_unless_named_pipe) as file:
        content = file.read(MAX_TEXT_BYTES + 1)
    if len(content) > MAX_TEXT_BYTES:
        raise OSError(
            errno.EFBIG, f"more than {MAX_TEXT_BYTES >> 20} MiB, which is no text to read", str(path)
        )
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
    """Make a folder for its owner alone. An empty folder also gets a `.gitignore` that excludes all its contents.

    Raises:
        OSError: it cannot be made or written.
    """
    make_folder(path, mode=0o700)
    if not any(path.iterdir()):
        write_whole(path / IGNORE, _IGNORE_ALL)


def make_own_folder(path: Path) -> None:
    """Make a folder for its owner alone, to which only this tool writes. Git ignores all its contents.

    Raises:
        OSError: it cannot be made or written.
    """
    make_folder(path, mode=0o700)
    if not (path / IGNORE).exists():
        write_whole(path / IGNORE, _IGNORE_ALL)


def read_or_create_key(file: Path) -> str:
    """Return the random key in a file that only its owner can read. The first call creates the file.

    Raises:
        OSError: it cannot be made or read.
    """
    if not file.exists():
        make_folder(file.parent, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="ascii") as temporary:
            temporary.write(secrets.token_hex(16))
            temporary.flush()
            os.fsync(temporary.fileno())
            with suppress(FileExistsError):  # Another process was first.
                os.link(temporary.name, file)
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
        OSError: `path` is unchanged, or it was replaced and may not survive a power cut.
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
    """Yield a free name in the parent of `path`.

    The folder that the body makes there becomes `path`, which must not exist.

    Where the body raises, also at Ctrl-C, nothing is left behind. Remains of a killed process are removed by the next
    process that makes the same folder. Two processes must not do so at once.

    Raises:
        OSError: no folder was made, or it was made and may not survive a power cut.
    """
    partial = path.with_name(f"{path.name}{_PARTIAL}")
    try_remove_tree(partial)
    make_folder(partial.parent)
    try:
        yield partial
        sync_tree(partial)
        partial.replace(path)
        sync(path.parent)
    except BaseException:
        try_remove_tree(partial)
        raise


def is_partial(path: Path) -> bool:
    """Return whether a killed process may have left this file or folder unfinished."""
    return path.suffix == _PARTIAL


VERSION = "schema_version"
Upgrade = Callable[[Any], dict[str, Any]]
"""A function that converts a value of one version to the next. It need not set the version."""


class DocumentError(StoreError):
    """A stored JSON value cannot be read. The message says what was expected, what was found, and what to do."""


def version_of(value: object) -> int:
    """Return the version of a stored value.

    >>> version_of({"schema_version": 3}), version_of({"message": "found"})
    (3, 1)
    """
    version = cast(Mapping[str, object], value).get(VERSION) if isinstance(value, Mapping) else None
    return version if isinstance(version, int) else 1


def drop_format_key(old: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrade a document of version 1 by dropping `format`, the key that held its version."""
    return {key: value for key, value in old.items() if key != "format"}


def upgrade_value(value: object, upgrades: Sequence[Upgrade], *, kind: str) -> dict[str, Any]:
    """Return the value as the newest version writes it. `upgrades[i]` leads from version i + 1 to version i + 2.

    >>> upgrade_value({"said": "x"}, [lambda old: {"message": old["said"]}], kind="conclusion")
    {'message': 'x', 'schema_version': 2}

    Raises:
        DocumentError: a later version of the tool wrote it, or its structure does not match its version.
    """
    version, newest = version_of(value), 1 + len(upgrades)
    if version < 1:
        raise DocumentError(f"expected a {kind} of schema version 1 or later, found {version}: it is damaged")
    if version > newest:
        raise DocumentError(
            f"expected a {kind} of schema version {newest} or earlier, found {version}, which a later version of "
            "the tool wrote; update this one: pip install --upgrade precision-bisect"
        )
    try:
        for upgrade in upgrades[version - 1 :]:
            value = upgrade(value)
        return {**cast(Mapping[str, Any], value), VERSION: newest}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DocumentError(
            f"expected a {kind} with the structure of schema version {version}, found another structure ({error!r})"
        ) from error


_PLAIN_KEY = "values"


def _wrap_plain(plain: object) -> dict[str, Any]:
    return {_PLAIN_KEY: plain}


_COLUMN_UPGRADES = (_wrap_plain,)


def versioned_value(plain: object) -> dict[str, Any]:
    """Wrap a column's plain value with its schema version, as the store keeps it."""
    return {VERSION: 1 + len(_COLUMN_UPGRADES), _PLAIN_KEY: plain}


def plain_value(stored: object) -> Any:
    """Unwrap a stored column value of any schema version. Raises `DocumentError`."""
    value = upgrade_value(stored, _COLUMN_UPGRADES, kind="column")
    if _PLAIN_KEY not in value:
        raise DocumentError(f"expected a column with {_PLAIN_KEY!r}, found one without: it is damaged")
    return value[_PLAIN_KEY]


_READING = object()
"""`read_document` passes this context to upgrade old documents.

Without it, validation accepts only the current version."""


class Document(BaseModel):
    """The root of a JSON document, which declares its `schema_version`.

    A change that makes old documents invalid needs an upgrade and the next version.

    >>> from typing import Literal
    >>> class Greeting(Document):
    ...     upgrades = (lambda old: {"text": old["word"]},)
    ...     schema_version: Literal[2] = 2
    ...     text: str
    >>> read_document(Greeting, {"word": "hello"})
    Greeting(schema_version=2, text='hello')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    upgrades: ClassVar[tuple[Upgrade, ...]] = ()
    """The upgrades. The first one takes a document of version 1, or without a version, to version 2."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        newest = 1 + len(cls.upgrades)
        declared = cls.model_fields.get(VERSION)
        if declared is None or declared.default != newest:
            raise TypeError(f"{cls.__name__}: expected schema_version {newest}, one more than its upgrades")

    @model_validator(mode="before")
    @classmethod
    def _bring_up_to_date(cls, value: object, info: ValidationInfo) -> object:
        if info.context is not _READING or not isinstance(value, Mapping):
            return value
        return upgrade_value(cast(object, value), cls.upgrades, kind=cls.__name__)


_D = TypeVar("_D", bound=Document)


def write_document(document: Document) -> dict[str, Any]:
    """Return the document as JSON values, with its version."""
    return document.model_dump(mode="json")


def read_document(model: type[_D], value: object) -> _D:
    """Return a document of any version up to the model's own, upgraded. The documents within it are upgraded too.

    Raises:
        DocumentError: a later version of the tool wrote it, or it is damaged.
    """
    try:
        return model.model_validate(value, context=_READING)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole of it"
        raise DocumentError(
            f"expected a {model.__name__}, found one that is damaged, or of another version of the tool, at {place}: "
            f"{first['msg']}"
        ) from error


def published_schema(document: type[BaseModel], *, by_alias: bool = True) -> str:
    """Return the schema of `document`, as the text of its file. `by_alias` is as in writing."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **document.model_json_schema(by_alias=by_alias, mode="serialization"),
    }
    return json.dumps(schema, indent=2) + "\n"


def schema_versions() -> list[str]:
    """Return the schema versions of releases, oldest first. The migrations are `versions/v<version>_<what>.py`."""
    scripts = resources.files("precision_bisect.store.versions").iterdir()
    return sorted(script.name[1:].partition("_")[0] for script in scripts if script.name.startswith("v"))


_WAL_HEADER_BYTES = 32
"""The header of SQLite's write-ahead log has this many bytes. https://sqlite.org/fileformat.html#the_write_ahead_log"""
_WAL_MAGICS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


def refuse_damaged_store(file: Path) -> None:
    """Raise `StoreError` for a damaged store that SQLite would open as empty or out of date.

    A log of zeros is accepted: a power cut leaves one, and only unsynced data is lost.
    """
    if not file.is_file():
        return
    if file.stat().st_size == 0:
        raise StoreError(
            f"expected a store at {SQLITE_PREFIX}{file}, found a file of 0 bytes: its results are lost; "
            f"restore {file} from a copy, or remove {file} to start with an empty store"
        )
    log = Path(f"{file}-wal")
    header = b""
    if log.is_file():
        with log.open("rb") as stream:
            header = stream.read(_WAL_HEADER_BYTES)
    if len(header) == _WAL_HEADER_BYTES and any(header) and header[:4] not in _WAL_MAGICS:
        raise StoreError(
            f"{log}: expected the write-ahead log of {file}, found other bytes: the newest results are lost; "
            f"restore {log} from a copy, or remove {log} to continue with the older results"
        )
