"""Files and documents that last: complete or absent for other readers and after a power cut, and read at any age.

Every JSON value that is kept, in a column of the store or in a file, has its version under `schema_version`. A value
without one was written before there were versions, and has version 1. Upgrades lead from each version to the next. So a
value of any age can be read, and nobody needs an older version of the tool. `published_schema` gives the JSON schemas
that are published under `docs/`."""

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
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator

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


VERSION = "schema_version"
Upgrade = Callable[[Any], dict[str, Any]]
"""Such a function converts a value of one version to the next. It need not set the version."""


class DocumentError(Exception):
    """A kept JSON value cannot be read. The message says what was expected, what was found, what to do."""


def version_of(value: object) -> int:
    """Return the version of a kept value.

    >>> version_of({"schema_version": 3}), version_of({"message": "found"})
    (3, 1)
    """
    version = cast(Mapping[str, object], value).get(VERSION) if isinstance(value, Mapping) else None
    return version if isinstance(version, int) else 1


def remove_format(old: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrade a written document of version 1, which had its version under `format`."""
    return {key: value for key, value in old.items() if key != "format"}


def upgrade_value(value: object, upgrades: Sequence[Upgrade], *, kind: str) -> dict[str, Any]:
    """Return the value as the newest version writes it. `upgrades[i]` leads from version i + 1 to version i + 2.

    >>> upgrade_value({"said": "x"}, [lambda old: {"message": old["said"]}], kind="conclusion")
    {'message': 'x', 'schema_version': 2}

    Raises:
        DocumentError: a later version of the tool wrote it, or its structure does not match its version.
    """
    version, newest = version_of(value), 1 + len(upgrades)
    if not 1 <= version <= newest:
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
            f"expected a {kind} as its schema version {version} has it, found another structure ({error!r})"
        ) from error


_READING = object()
"""In this validation context a document may be an old one. A value that code makes is always current."""


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
    """Return the schema of `document` as it is written, as the text of its file. `by_alias` is as in writing."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **document.model_json_schema(by_alias=by_alias, mode="serialization"),
    }
    return json.dumps(schema, indent=2) + "\n"
