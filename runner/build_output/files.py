"""Reads the files below one folder, and nothing else.

`Folder` gives access to files whose path, links resolved, lies inside it. `BuildOutputError` and its subclasses say in
one line what is wrong with a file. `json_reader` decodes JSON into typed records, with one error for everything that
can be wrong with it.

`assigned_literals` reads the values that a Python file assigns off its syntax tree, and executes nothing. It
understands what a generated `kernel_config.py` holds: literals, lists, dictionaries and names assigned before. It also
understands members of an imported enumeration (`_D.IN`), and paths built from the file's own folder.
"""

from __future__ import annotations

import ast
import errno
import os
import stat
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt


class BuildOutputError(Exception):
    """A build directory, or a file in it, cannot be read as what it should be.

    Attributes:
        path: the file or folder at fault.
        expected: what a sound one has there.
        found: what this one has.
        remedy: what to do about it, or an empty string.
    """

    def __init__(self, *, path: Path, expected: str, found: str, remedy: str = "") -> None:
        self.path = path
        self.expected = expected
        self.found = found
        self.remedy = remedy
        message = f"{path}: expected {expected}, found {_one_line(found)}"
        super().__init__(f"{message}; {remedy}" if remedy else message)


def _one_line(text: str) -> str:
    """Make a parser's message about a hostile file fit to be printed."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable if len(printable) <= 400 else f"{printable[:400]}..."


class MissingFileError(BuildOutputError):
    """The file is not there."""


class MalformedFileError(BuildOutputError):
    """The file is there, but is not of the format its name promises."""


class UnsafePathError(BuildOutputError):
    """A path leads out of the build directory, or to something that is no regular file."""


class FileTooLargeError(BuildOutputError):
    """The file is larger than any sound one of its kind, and was not read."""


class IncompleteRecordError(BuildOutputError):
    """A dumped argument has no complete payload to look at: see its `flaw`."""


_HEAD_BYTES = 4096
"""`is_text` decides by this many bytes at the start of a file."""

_CHUNK = 2**20
"""Files are read and compared in pieces of this many bytes. Smaller ones cost calls, larger ones memory."""
MOST_ENTRIES = 200_000
"""At most this many files and folders may lie below one folder. Links inside of it can make a few look like any
number."""

SAFETENSORS, NUMPY_ARRAY = "a safetensors file", "an array of numpy.save"
_ZIP = "a zip archive"
_FORMATS = (
    (b"\x93NUMPY", NUMPY_ARRAY),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"GGUF", "a GGUF file"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x80\x02", "a pickle, as torch.save made before torch 1.6"),
    (b"\x80", "a pickle"),
    (b"PK\x03\x04", _ZIP),
)
"""The first bytes of files that people take for tensor files, and what such files are."""


def is_valid_path(path: str) -> bool:
    """Return whether the system takes the text as a path: it has no NUL, and no half of a character."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Says why a file is not read: what was found in its place, and what to do about it."""

    found: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """What lies below a folder, by path, in order.

    Attributes:
        files: regular files inside the folder, links to such included.
        folders: folders that were listed.
        refused: entries that are no regular file inside the folder, or cannot be listed.
        left_out: files and folders that the caller does not want, with the reason.
    """

    files: Sequence[str]
    folders: Sequence[str]
    refused: Mapping[str, Refusal]
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class Folder:
    """A folder whose files are read only after their path, links resolved, is known to lie inside it.

    The check and the read are two steps. It guards against what a build left behind, not against a process that swaps
    files meanwhile.
    """

    root: Path

    @classmethod
    def open(cls, root: Path, *, expected: str) -> Folder:
        """Return the existing folder `root`, itself possibly a link; `MissingFileError` if there is none."""
        if not root.is_dir():
            found = "a file" if root.exists() else "nothing"
            raise MissingFileError(path=root, expected=expected, found=found)
        return cls(root.resolve())

    def locate(self, relative: PurePath | str) -> Path:
        """Return the absolute path of `relative`, links resolved.

        Raises:
            UnsafePathError: it is absolute, or leads out of the folder.
        """
        spelled = str(relative)
        inside = self.root / relative
        if not is_valid_path(spelled) or PurePath(relative).is_absolute():
            raise UnsafePathError(
                path=self.root, expected="a path inside this folder", found=repr(spelled[:200])
            )
        try:
            resolved = inside.resolve()
        except (OSError, RuntimeError) as error:
            raise UnsafePathError(path=inside, expected="a readable path", found=str(error)) from error
        if resolved.is_relative_to(self.root):
            return resolved
        if self.is_link(relative):
            raise UnsafePathError(
                path=inside,
                expected=f"a path inside {self.root}",
                found=f"a link to {resolved}",
                remedy="put the file itself there",
            )
        raise UnsafePathError(path=inside, expected=f"a path inside {self.root}", found=str(resolved))

    def is_link(self, relative: PurePath | str) -> bool:
        """Return whether `relative` is a link, wherever it leads."""
        return os.path.islink(self.root / relative)  # noqa: PTH114 (pathlib's raises where the name is too long)

    def has_file(self, relative: PurePath | str) -> bool:
        """Return whether `relative` is a regular file inside the folder."""
        try:
            return self.locate(relative).is_file()
        except (BuildOutputError, OSError):
            return False

    def has_folder(self, relative: PurePath | str) -> bool:
        """Return whether `relative` is a folder inside the folder."""
        try:
            return self.locate(relative).is_dir()
        except (BuildOutputError, OSError):
            return False

    def size(self, relative: PurePath | str, *, expected: str) -> int:
        """Return the bytes of the regular file `relative`, with the errors of `find`."""
        return self.find(relative, expected=expected)[1]

    def find(self, relative: PurePath | str, *, expected: str) -> tuple[Path, int]:
        """Return the path of the regular file `relative`, links resolved, and its bytes.

        Raises:
            MissingFileError, UnsafePathError: as their names say.
        """
        path = self.locate(relative)
        try:
            status = path.stat()
        except OSError as error:
            raise MissingFileError(
                path=path, expected=expected, found=error.strerror or str(error)
            ) from error
        if not stat.S_ISREG(status.st_mode):
            raise UnsafePathError(
                path=path, expected=f"{expected}, a regular file", found=_kind(status.st_mode)
            )
        if not os.access(path, os.R_OK):
            raise MissingFileError(path=path, expected=expected, found=os.strerror(errno.EACCES))
        return path, status.st_size

    def read(self, relative: PurePath | str, *, expected: str, limit: int) -> bytes:
        """Return the contents of a regular file of at most `limit` bytes.

        Raises:
            MissingFileError, UnsafePathError, FileTooLargeError: as their names say.
        """
        path, size = self.find(relative, expected=expected)
        if size > limit:
            raise FileTooLargeError(
                path=path, expected=f"{expected} of at most {limit} bytes", found=f"{size} bytes"
            )
        try:
            with path.open("rb") as file:
                return file.read(limit)
        except OSError as error:
            raise MissingFileError(
                path=path, expected=expected, found=error.strerror or str(error)
            ) from error

    def read_part(
        self, relative: PurePath | str, *, start: int, size: int, expected: str
    ) -> npt.NDArray[np.uint8]:
        """Return `size` bytes of a regular file from `start` on, in memory: the file may be cut short meanwhile.

        Raises:
            MissingFileError, UnsafePathError: as their names say.
            MalformedFileError: the file ends before.
        """
        path, _ = self.find(relative, expected=expected)
        try:
            with path.open("rb") as file:
                file.seek(start)
                part, read = read_into_memory(path, file, size)
        except OSError as error:
            raise MissingFileError(
                path=path, expected=expected, found=error.strerror or str(error)
            ) from error
        if read < size:
            raise MalformedFileError(
                path=path,
                expected=f"{expected}, {size} bytes from byte {start} on",
                found=f"{read}: the file was cut short",
                remedy="record it again",
            )
        return part

    def names(self, relative: PurePath | str = "") -> list[str]:
        """Return the sorted names of the entries of the folder `relative`, which must exist."""
        return sorted(entry.name for entry in self.locate(relative).iterdir())

    def tree(self, left_out: Callable[[str], str]) -> Tree:
        """List everything below the folder. `left_out` returns the reason for which a path is left out, or "".

        A link that stays inside the folder is followed, unless it leads to a folder that it lies in.

        Raises:
            FileTooLargeError: there are more than `MOST_ENTRIES`.
        """
        files: list[str] = []
        folders: list[str] = []
        refused: dict[str, Refusal] = {}
        unwanted: dict[str, str] = {}
        waiting: list[tuple[str, tuple[Path, ...]]] = [("", (self.root,))]
        seen = 0
        while waiting:
            folder, way = waiting.pop()
            try:
                with os.scandir(way[-1]) as listed:
                    entries = [(f"{folder}/{entry.name}".lstrip("/"), entry) for entry in listed]
            except OSError as error:
                refused[folder or "."] = Refusal(found=f"a folder that cannot be listed ({error.strerror})")
                continue
            folders.append(folder)
            seen += len(entries)
            if seen > MOST_ENTRIES:
                raise FileTooLargeError(
                    path=self.root,
                    expected=f"at most {MOST_ENTRIES} files and folders in it",
                    found="more",
                    remedy="compare the folders in it one by one",
                )
            for path, entry in entries:
                if reason := left_out(path):
                    unwanted[path] = reason
                elif entry.is_file(follow_symlinks=False):
                    files.append(path)
                elif isinstance(found := self._target(path), Refusal):
                    refused[path] = found
                elif not found.is_dir():
                    files.append(path)
                elif found in way:
                    refused[path] = Refusal(found="a link to a folder that it lies in")
                else:
                    waiting.append((path, (*way, found)))
        return Tree(
            files=sorted(files),
            folders=sorted(folders),
            refused=dict(sorted(refused.items())),
            left_out=dict(sorted(unwanted.items())),
        )

    def _target(self, path: str) -> Path | Refusal:
        """Return the regular file or folder that `path` is, links resolved, or why it is neither."""
        try:
            target = self.locate(path)
            mode = target.stat().st_mode
        except UnsafePathError as error:
            return Refusal(found=error.found, remedy=error.remedy)
        except OSError as error:
            found = (
                "a link to nothing"
                if self.is_link(path)
                else f"a file that cannot be read ({error.strerror})"
            )
            return Refusal(found=found)
        return target if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else Refusal(found=_kind(mode))


def read_into_memory(path: Path, stream: IO[bytes], size: int) -> tuple[npt.NDArray[np.uint8], int]:
    """Read `size` bytes from a stream of the file `path`, a piece at a time. Return the buffer, and how many were read.

    Raises:
        FileTooLargeError: this machine has not that much memory left.
    """
    require_memory(path, size)
    try:
        room = np.empty(size, np.uint8)
    except MemoryError as error:
        raise _too_large(path, size, "more than this process may take") from error
    read = 0
    while read < size:
        piece = stream.read(min(_CHUNK, size - read))
        if not piece:
            break
        room[read : read + len(piece)] = np.frombuffer(piece, np.uint8)
        read += len(piece)
    return room, read


def require_memory(path: Path, size: int) -> None:
    """Raise `FileTooLargeError` where `size` bytes of the file `path` are more than this machine has left."""
    if size <= _CHUNK:
        return
    with suppress(OSError, ValueError), Path("/proc/meminfo").open("rb") as file:
        left = next(int(line.split()[1]) * 1024 for line in file if line.startswith(b"MemAvailable:"))
        if size > left:
            raise _too_large(path, size, f"{left} left on this machine")


def _too_large(path: Path, size: int, left: str) -> FileTooLargeError:
    return FileTooLargeError(
        path=path,
        expected="a tensor that fits into memory",
        found=f"{size} bytes, {left}",
        remedy="compare parts of it",
    )


MOST_COMPARED_BYTES = 2**32
"""At most this many bytes of a file without tensors are compared. A sparse file may claim any size."""


def first_difference(one: Path, other: Path) -> int | None:
    """Return the first byte at which two files differ, or one of them has ended; None where they are the same.

    The files are read to their ends.
    """
    with one.open("rb") as first, other.open("rb") as second:
        place = 0
        while True:
            ours, theirs = first.read(_CHUNK), second.read(_CHUNK)
            if ours != theirs:
                pairs = zip(ours, theirs, strict=False)
                differing = (at for at, (mine, golden) in enumerate(pairs) if mine != golden)
                return place + next(differing, min(len(ours), len(theirs)))
            if not ours:
                return None
            place += len(ours)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a device or socket"


def is_text(path: Path) -> bool:
    """Return whether a file begins as text does: printable letters in UTF-8. False where it cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES).decode(
                "utf-8", errors="strict" if path.stat().st_size < _HEAD_BYTES else "ignore"
            )
    except (OSError, UnicodeDecodeError):
        return False
    return bool(head) and all(letter.isprintable() or letter.isspace() for letter in head)


def describe_non_archive(path: Path) -> str | None:
    """Say what a file is that cannot be read as a zip archive, where its beginning or its end tells."""
    kind = file_format(path)
    if kind != _ZIP:
        return kind
    return (
        None
        if _has_zip_directory(path)
        else "an archive that was cut short: the listing at its end is missing"
    )


def file_format(path: Path) -> str | None:
    """Return the format of a file, with its article, where its beginning tells. None where it cannot be read."""
    try:
        with path.open("rb") as file:
            head, size = file.read(9), os.fstat(file.fileno()).st_size
    except OSError:
        return None
    if size == 0:
        return "an empty file"
    if head[8:] == b"{" and int.from_bytes(head[:8], "little") <= size - 8:
        return SAFETENSORS
    named = (name for begin, name in _FORMATS if head.startswith(begin))
    return next(named, "a text file" if is_text(path) else None)


def _has_zip_directory(path: Path) -> bool:
    """Return whether an archive has its listing, even if a damaged one."""
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:
        return True


Record = TypeVar("Record")


class JsonError(ValueError):
    """The text is no JSON, or not of the wanted types. The message says where."""


def json_reader(kind: type[Record]) -> Callable[[bytes], Record]:
    """Return a function from JSON to `kind` that raises `JsonError`. Make it once and use it often."""
    decode = msgspec.json.Decoder(kind).decode

    def read(text: bytes) -> Record:
        try:
            return decode(text)
        # msgspec raises these too: for text that is no UTF-8, and for nesting without end.
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise JsonError(str(error)) from error

    return read


MOST_DEPTH = 64
"""Expressions may nest this deep. Deeper ones would exhaust Python's stack, as a hostile file may intend."""
_LARGEST_NUMBER = 2**63 - 1
"""A larger integer is not read. Tables hold 64 bits with a sign."""


class NotUnderstoodError(ValueError):
    """An expression that this reader cannot give a value to."""


@dataclass(frozen=True)
class FolderPath:
    """A path below the folder of the file that spells it."""

    relative: PurePosixPath


@dataclass(frozen=True)
class Member:
    """The last name of a member of something imported, such as `IN` of `_D.IN`."""

    name: str


Literal: TypeAlias = (
    "str | int | float | bool | FolderPath | Member | list[Literal] | dict[str | int, Literal] | None"
)

_HERE = FolderPath(PurePosixPath("."))
_OWN_FOLDER = frozenset(
    {
        "Path(__file__).parent",
        "Path(__file__).resolve().parent",
        "pathlib.Path(__file__).parent",
        "pathlib.Path(__file__).resolve().parent",
        "os.path.dirname(__file__)",
        "os.path.dirname(os.path.abspath(__file__))",
    }
)


def assigned_literals(source: bytes, path: Path, names: Sequence[str]) -> dict[str, Literal]:
    """Return the values of the module-level assignments to `names` in `source`. Names never assigned are left out.

    Raises:
        NotUnderstoodError: the source is no Python, or one of `names` has a value that is not understood.
    """
    try:
        with warnings.catch_warnings():
            # Doubtful escapes and the like are no concern of our user.
            warnings.simplefilter("ignore")
            tree = ast.parse(source, filename=str(path))
        return _assigned_values(tree, names)
    except NotUnderstoodError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotUnderstoodError(f"no Python: {str(error) or type(error).__name__}") from error


def _assigned_values(tree: ast.Module, names: Sequence[str]) -> dict[str, Literal]:
    values: dict[str, Literal] = {}
    for statement in tree.body:
        target = _single_target(statement)
        if target is None:
            continue
        name, expression = target
        try:
            values[name] = _value(expression, values, depth=0)
        except NotUnderstoodError:
            values.pop(name, None)
            if name in names:
                raise
    return {name: values[name] for name in names if name in values}


def _single_target(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return name, value
        case _:
            return None


def _value(node: ast.expr, values: dict[str, Literal], *, depth: int) -> Literal:
    if depth > MOST_DEPTH:
        raise _not_understood(node, "nesting this deep")

    def inner(child: ast.expr) -> Literal:
        return _value(child, values, depth=depth + 1)

    match node:
        case ast.Constant(value=str() | int() | float() | None as constant):
            return _check_constant(node, constant)
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Attribute(value=ast.Name(), attr=name) if name.isupper():
            return Member(name)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [inner(element) for element in elements]
        case ast.Dict(keys=keys, values=entries):
            return _dictionary(
                node, [key and inner(key) for key in keys], [inner(entry) for entry in entries]
            )
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            positive = inner(operand)
            if isinstance(positive, int | float):
                return -positive
        case _:
            pass
    return _path(node, inner)


def _check_constant(node: ast.expr, constant: str | float | None) -> str | float | None:
    """Return the constant if paths, commands and tables can hold it; `NotUnderstoodError` if not."""
    if isinstance(constant, str) and not is_valid_path(constant):
        raise _not_understood(node, "a text that no path or command can hold")
    if isinstance(constant, int) and constant > _LARGEST_NUMBER:
        raise NotUnderstoodError(f"line {node.lineno}: a number this large is not read")
    return constant


def _path(node: ast.expr, inner: Callable[[ast.expr], Literal]) -> Literal:
    """Return the value of an expression that says where a file lies. `inner` returns the value of a part of it."""
    match node:
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _join_path(node, [inner(left), inner(right)])
        case ast.Call(func=ast.Name(id="str" | "Path"), args=[argument], keywords=[]):
            if ast.unparse(argument) != "__file__":
                return inner(argument)
        case ast.Call(args=parts, keywords=[]) if _dotted_name(node.func) == "os.path.join":
            return _join_path(node, [inner(part) for part in parts])
        case _:
            pass
    if isinstance(node, ast.Attribute | ast.Call) and ast.unparse(node) in _OWN_FOLDER:
        return _HERE
    raise _not_understood(node, "this expression")


def _join_path(node: ast.expr, parts: list[Literal]) -> FolderPath:
    match parts:
        case [FolderPath(relative=base), *names]:
            for name in names:
                if not isinstance(name, str):
                    raise _not_understood(node, "this path")
                base /= name
            return FolderPath(base)
        case _:
            raise _not_understood(node, "this path")


def _dictionary(node: ast.expr, keys: list[Literal], entries: list[Literal]) -> dict[str | int, Literal]:
    result: dict[str | int, Literal] = {}
    for key, entry in zip(keys, entries, strict=True):
        if not isinstance(key, str | int):
            raise _not_understood(node, "a dictionary key that is neither a string nor a number")
        result[key] = entry
    return result


def _dotted_name(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Attribute) else ""


def _not_understood(node: ast.expr, what: str) -> NotUnderstoodError:
    return NotUnderstoodError(f"line {node.lineno}: {what} is not read: {ast.unparse(node)[:80]}")
