"""Reads hostile files safely: paths inside one folder, sizes, JSON, and values in Python sources.

- `Folder` resolves the links in a path, and refuses a path that leads out of the folder.
- `BuildOutputError` and its subclasses say in one line what is wrong with a file.
- `json_reader` decodes JSON into typed records, and raises only `JsonError`.
- `read_literals` reads the values that a Python file assigns, without executing it. It understands what a generated
  `kernel_config.py` contains: literals, lists, dictionaries, earlier names, members of an imported enumeration
  (`_D.IN`), and paths relative to the file's own folder.
"""

from __future__ import annotations

import ast
import errno
import os
import stat
import warnings
import zipfile
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt


class BuildOutputError(Exception):
    """A build directory, or a file in it, is missing, unsafe or not in the expected format.

    Attributes:
        path: the file or folder at fault.
        expected: what should be there.
        found: what is there.
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
    """Replace characters that cannot be printed by blanks, and shorten the text to 400 characters."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable if len(printable) <= 400 else f"{printable[:400]}..."


class MissingFileError(BuildOutputError):
    """The file does not exist, or cannot be read."""


class MalformedFileError(BuildOutputError):
    """The file can be read, but does not have the format that its name implies."""


class UnsafePathError(BuildOutputError):
    """A path leads out of the folder, or to something that is not a regular file."""


class FileTooLargeError(BuildOutputError):
    """The file, or the number of files, exceeds a limit. Nothing was read."""


class IncompleteRecordError(BuildOutputError):
    """A dumped argument has no complete payload. Its `flaw` says why."""


_HEAD_BYTES = 4096
"""`is_text` reads this many bytes at the start of a file."""

_CHUNK = 2**20
"""Files are read and compared in pieces of this many bytes. Smaller pieces take more calls, larger ones more memory."""
MAX_ENTRIES = 200_000
"""At most this many files and folders may be below one folder. Links between folders can multiply them."""

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
"""The first bytes of files that people mistake for tensor files, with the name of each format."""


def is_valid_path(path: str) -> bool:
    """Return whether the system accepts the text as a path: it has no NUL, and can be encoded."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The reason why a file is not read: what is in its place, and what to do about it."""

    found: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """All entries below a folder, sorted by path.

    Attributes:
        files: regular files inside the folder, and links to such files.
        folders: folders that were listed.
        refused: entries that lead out of the folder, are of another kind, or cannot be read.
        left_out: files and folders that the caller left out, with the reason.
    """

    files: Sequence[str]
    folders: Sequence[str]
    refused: Mapping[str, Refusal]
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class Folder:
    """A folder that reads a file only if its path, with links resolved, is inside the folder.

    The check and the read are two steps. A process that replaces files in between can defeat the check.
    """

    root: Path

    @classmethod
    def open(cls, root: Path, *, expected: str) -> Folder:
        """Return the folder `root`, which may be a link. Raises `MissingFileError` if it is not a folder."""
        # pathlib's functions raise where the name is too long.
        if not os.path.isdir(root):  # noqa: PTH112
            found = "a file" if os.path.exists(root) else "nothing"  # noqa: PTH110
            raise MissingFileError(path=root, expected=expected, found=found)
        return cls(root.resolve())

    def locate(self, relative: PurePath | str) -> Path:
        """Return the absolute path of `relative`, with links resolved.

        Raises:
            UnsafePathError: `relative` is absolute, is not a valid path, or leads out of the folder.
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
        """Return the size of the regular file `relative` in bytes. Raises what `find` raises."""
        return self.find(relative, expected=expected)[1]

    def find(self, relative: PurePath | str, *, expected: str) -> tuple[Path, int]:
        """Return the path of the regular file `relative`, with links resolved, and its size in bytes.

        Raises:
            MissingFileError: the file does not exist, or cannot be read.
            UnsafePathError: the path leads out of the folder, or to something that is not a regular file.
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
                path=path, expected=f"{expected}, a regular file", found=_describe_kind(status.st_mode)
            )
        if not os.access(path, os.R_OK):
            raise MissingFileError(path=path, expected=expected, found=os.strerror(errno.EACCES))
        return path, status.st_size

    def read(self, relative: PurePath | str, *, expected: str, limit: int) -> bytes:
        """Return the contents of a regular file of at most `limit` bytes.

        Raises:
            MissingFileError, UnsafePathError: as in `find`.
            FileTooLargeError: the file has more than `limit` bytes.
        """
        path, size = self.find(relative, expected=expected)
        if size > limit:
            raise FileTooLargeError(
                path=path, expected=f"{expected} of at most {limit} bytes", found=f"{size} bytes"
            )
        try:
            with path.open("rb") as file:
                content = file.read(limit + 1)
        except OSError as error:
            raise MissingFileError(
                path=path, expected=expected, found=error.strerror or str(error)
            ) from error
        if len(content) > limit:
            raise FileTooLargeError(
                path=path, expected=f"{expected} of at most {limit} bytes", found="more: the file has grown"
            )
        return content

    def read_part(
        self, relative: PurePath | str, *, start: int, size: int, expected: str
    ) -> npt.NDArray[np.uint8]:
        """Return a copy of `size` bytes of a regular file, from the offset `start` on.

        The bytes are copied because the file may be cut short later.

        Raises:
            MissingFileError, UnsafePathError: as in `find`.
            FileTooLargeError: this machine has less memory left than `size`.
            MalformedFileError: the file ends before the last of these bytes.
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
        """Return the sorted names of the entries of the folder `relative`. Raises `OSError` if it cannot be listed."""
        return sorted(entry.name for entry in self.locate(relative).iterdir())

    def tree(self, skip_reason: Callable[[str], str]) -> Tree:
        """List everything below the folder. `skip_reason` returns why a path is left out, or "" to keep the path.

        A link is followed if it leads to a place inside the folder, and not to a folder that contains the link.

        Raises:
            FileTooLargeError: there are more than `MAX_ENTRIES` files and folders.
        """
        files: list[str] = []
        folders: list[str] = []
        refused: dict[str, Refusal] = {}
        unwanted: dict[str, str] = {}
        waiting: list[tuple[str, tuple[Path, ...]]] = [("", (self.root,))]
        seen = 0
        while waiting:
            folder, ancestors = waiting.pop()
            try:
                with os.scandir(ancestors[-1]) as listed:
                    entries = [(f"{folder}/{entry.name}".lstrip("/"), entry) for entry in listed]
            except OSError as error:
                refused[folder or "."] = Refusal(found=f"a folder that cannot be listed ({error.strerror})")
                continue
            folders.append(folder)
            seen += len(entries)
            if seen > MAX_ENTRIES:
                raise FileTooLargeError(
                    path=self.root,
                    expected=f"at most {MAX_ENTRIES} files and folders in it",
                    found="more",
                    remedy="compare the folders in it one by one",
                )
            for path, entry in entries:
                if reason := skip_reason(path):
                    unwanted[path] = reason
                elif entry.is_file(follow_symlinks=False):
                    files.append(path)
                elif isinstance(found := self._target(path), Refusal):
                    refused[path] = found
                elif not found.is_dir():
                    files.append(path)
                elif found in ancestors:
                    refused[path] = Refusal(found="a link to a folder that contains it")
                else:
                    waiting.append((path, (*ancestors, found)))
        return Tree(
            files=sorted(files),
            folders=sorted(folders),
            refused=dict(sorted(refused.items())),
            left_out=dict(sorted(unwanted.items())),
        )

    def _target(self, path: str) -> Path | Refusal:
        """Return the regular file or folder that `path` leads to, or the reason why it is neither."""
        try:
            target = self.locate(path)
            mode = target.stat().st_mode
        except UnsafePathError as error:
            return Refusal(found=error.found, remedy=error.remedy)
        except OSError as error:
            found = (
                "a link to nothing"
                if isinstance(error, FileNotFoundError) and self.is_link(path)
                else f"a file that cannot be read ({error.strerror})"
            )
            return Refusal(found=found)
        return target if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else Refusal(found=_describe_kind(mode))


def read_into_memory(path: Path, stream: IO[bytes], size: int) -> tuple[npt.NDArray[np.uint8], int]:
    """Read up to `size` bytes from a stream of the file `path`. Return a buffer of `size` bytes, and the number read.

    Raises:
        FileTooLargeError: this machine has less memory left than `size`.
    """
    require_memory(path, size)
    try:
        buffer = np.empty(size, np.uint8)
    except MemoryError as error:
        raise _too_large(path, size, "more than this process may use") from error
    read = 0
    while read < size:
        piece = stream.read(min(_CHUNK, size - read))
        if not piece:
            break
        buffer[read : read + len(piece)] = np.frombuffer(piece, np.uint8)
        read += len(piece)
    return buffer, read


def require_memory(path: Path, size: int) -> None:
    """Raise `FileTooLargeError` if this machine has less than `size` bytes of free memory for the file `path`."""
    if size <= _CHUNK:
        return
    with suppress(OSError, ValueError), Path("/proc/meminfo").open("rb") as file:
        lines = (int(line.split()[1]) * 1024 for line in file if line.startswith(b"MemAvailable:"))
        free = next(lines, size)  # A kernel that does not tell it may have enough.
        if size > free:
            raise _too_large(path, size, f"{free} left on this machine")


def _too_large(path: Path, size: int, reason: str) -> FileTooLargeError:
    return FileTooLargeError(
        path=path,
        expected="a tensor that fits into memory",
        found=f"{size} bytes, {reason}",
        remedy="compare parts of it",
    )


MAX_COMPARED_BYTES = 2**32
"""A file without tensors is compared only up to this size in bytes. A sparse file may have any size."""


def first_difference(actual: Path, expected: Path) -> int | None:
    """Return the offset of the first byte at which two files differ, or None if they are the same.

    If one file is the beginning of the other, the offset is its size. The files may be of any size.
    """
    with actual.open("rb") as actual_file, expected.open("rb") as expected_file:
        offset = 0
        while True:
            actual_chunk, expected_chunk = actual_file.read(_CHUNK), expected_file.read(_CHUNK)
            if actual_chunk != expected_chunk:
                pairs = enumerate(zip(actual_chunk, expected_chunk, strict=False))
                differing = (index for index, (one, other) in pairs if one != other)
                return offset + next(differing, min(len(actual_chunk), len(expected_chunk)))
            if not actual_chunk:
                return None
            offset += len(actual_chunk)


def _describe_kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a device or socket"


def is_text(path: Path) -> bool:
    """Return whether a file begins with printable characters in UTF-8. An unreadable or empty file does not."""
    try:
        with path.open("rb") as file:
            # The last character of the head may be cut.
            decoder = getincrementaldecoder("utf-8")()
            head = decoder.decode(file.read(_HEAD_BYTES), final=not file.read(1))
    except (OSError, UnicodeDecodeError):
        return False
    return bool(head) and all(character.isprintable() or character.isspace() for character in head)


def describe_non_archive(path: Path) -> str | None:
    """Return what a file is instead of a readable zip archive: another format, or a part of one. None if unknown."""
    kind = file_format(path)
    if kind != _ZIP:
        return kind
    if _has_zip_directory(path):
        return None
    return "an archive that was cut short: the listing at its end is missing"


def file_format(path: Path) -> str | None:
    """Return the format of a file with its article, such as "a gzip file".

    The result is None if the first bytes do not identify a format, or the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            head, size = file.read(9), os.fstat(file.fileno()).st_size
    except OSError:
        return None
    if size == 0:
        return "an empty file"
    if head[8:] == b"{" and int.from_bytes(head[:8], "little") <= size - 8:
        return SAFETENSORS
    named = (name for magic, name in _FORMATS if head.startswith(magic))
    return next(named, "a text file" if is_text(path) else None)


def _has_zip_directory(path: Path) -> bool:
    """Return whether a zip archive has a directory at its end, even a damaged one."""
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:
        return True


Record = TypeVar("Record")


class JsonError(ValueError):
    """The text is not valid JSON, or has a value of the wrong type. The message says where."""


def json_reader(kind: type[Record]) -> Callable[[bytes], Record]:
    """Return a function that decodes JSON into `kind`, and raises `JsonError`. It is slow to make, fast to call."""
    decode = msgspec.json.Decoder(kind).decode

    def read(text: bytes) -> Record:
        try:
            return decode(text)
        # msgspec raises the last two for text that is not UTF-8, and for nesting that is too deep.
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise JsonError(str(error)) from error

    return read


MAX_DEPTH = 64
"""Expressions may nest this deep. Deeper ones, in a hostile file, could exhaust Python's stack."""
_MAX_VALUES = 1_000_000
"""A value may have this many parts. Names that contain names, in a hostile file, could exhaust memory."""
_MAX_INTEGER = 2**63 - 1
"""A larger integer is not read, because the tables of the store hold signed 64-bit integers."""


class NotUnderstoodError(ValueError):
    """The source is not valid Python, or has an expression whose value this reader does not know."""


@dataclass(frozen=True)
class FileRelativePath:
    """A path relative to the folder of the Python file that assigns it."""

    relative: PurePosixPath


@dataclass(frozen=True)
class Member:
    """A member of an enumeration that `from MODULE import NAME` imports, by its last name: `IN` for `_D.IN`."""

    name: str


_Scalar: TypeAlias = str | int | float | bool | None
LiteralValue: TypeAlias = (
    "_Scalar | FileRelativePath | Member | list[LiteralValue] | dict[str | int, LiteralValue]"
)

_HERE = FileRelativePath(PurePosixPath("."))
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


def read_literals(source: bytes, path: Path, names: Sequence[str]) -> dict[str, LiteralValue]:
    """Return the values that `source` assigns to `names` at module level. Names without an assignment are left out.

    Raises:
        NotUnderstoodError: the source is not valid Python. Or one of `names` has a value that is not understood, or
            stands in a statement that may change it.
    """
    try:
        with warnings.catch_warnings():
            # Warnings about the file, such as for invalid escapes, do not help the user.
            warnings.simplefilter("ignore")
            tree = ast.parse(source, filename=str(path))
        return _assigned_values(tree, names)
    except NotUnderstoodError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotUnderstoodError(f"not valid Python: {str(error) or type(error).__name__}") from error


def _assigned_values(tree: ast.Module, names: Sequence[str]) -> dict[str, LiteralValue]:
    evaluator = _Evaluator()
    for statement in tree.body:
        targets, expression = _assignment(statement)
        if expression is None:
            evaluator.skip(statement, names)
            continue
        try:
            evaluator.assign(targets, expression)
        except NotUnderstoodError:
            evaluator.forget(targets)
            if not set(names).isdisjoint(targets):
                raise
    return {name: evaluator.values[name] for name in names if name in evaluator.values}


def _assignment(statement: ast.stmt) -> tuple[list[str], ast.expr | None]:
    """Return the names and the value of a plain assignment; [] and None for any other statement."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            return (names, value) if len(names) == len(targets) else ([], None)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return [name], value
        case _:
            return [], None


class _Evaluator:
    """Evaluates the assignments of a module in their order."""

    def __init__(self) -> None:
        self.values: dict[str, LiteralValue] = {}
        self._imported: set[str] = set()
        """The names that `from MODULE import NAME` binds."""
        self._sizes: dict[str, tuple[int, int]] = {}
        """The depth and the number of values of each name. Names that contain names can multiply both."""
        self._depth = self._count = 0

    def assign(self, names: Sequence[str], expression: ast.expr) -> None:
        """Give names the value of an expression. Raises `NotUnderstoodError`."""
        self._depth = self._count = 0
        value = self._evaluate(expression, depth=0)
        self.forget(names)
        for name in names:
            self.values[name] = value
            self._sizes[name] = self._depth, self._count

    def forget(self, names: Iterable[str]) -> None:
        """Forget the values of names, which have others now."""
        for name in names:
            self.values.pop(name, None)
            self._imported.discard(name)

    def skip(self, statement: ast.stmt, names: Sequence[str]) -> None:
        """Pass over a statement that is no plain assignment. It may change each name in it.

        Raises:
            NotUnderstoodError: one of `names` is in it.
        """
        mentioned: set[str] = set()
        for node in ast.walk(statement):
            match node:
                case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    mentioned.add(name)
                case ast.alias(name=name, asname=new):
                    mentioned |= {*self.values} if name == "*" else {new or name.partition(".")[0]}
                case _:
                    pass
        if changed := mentioned.intersection(names):
            line = statement.lineno
            raise NotUnderstoodError(
                f"line {line}: {min(changed)} is read only from plain assignments, found: "
                f"{ast.unparse(statement)[:80]}"
            )
        self.forget(mentioned)
        if isinstance(statement, ast.ImportFrom):
            self._imported |= mentioned

    def _measure(self, node: ast.expr, *, depth: int, count: int) -> None:
        self._depth = max(self._depth, depth)
        self._count += count
        if depth > MAX_DEPTH:
            raise _not_understood(node, "nesting this deep")
        if self._count > _MAX_VALUES:
            raise _not_understood(node, f"a value of more than {_MAX_VALUES} parts")

    def _evaluate(self, node: ast.expr, *, depth: int) -> LiteralValue:
        self._measure(node, depth=depth, count=1)

        def inner(child: ast.expr) -> LiteralValue:
            return self._evaluate(child, depth=depth + 1)

        match node:
            case ast.Constant(value=str() | int() | float() | None as constant):
                return _check_constant(node, constant)
            case ast.Name(id=name) if name in self.values:
                below, count = self._sizes[name]
                self._measure(node, depth=depth + below, count=count)
                return self.values[name]
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if (
                owner in self._imported and name.isupper()
            ):
                return Member(name)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [inner(element) for element in elements]
            case ast.Dict(keys=keys, values=entries):
                return _dictionary(
                    node, [key and inner(key) for key in keys], [inner(entry) for entry in entries]
                )
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return _check_constant(node, -number)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                positive = inner(operand)
                if isinstance(positive, int | float):
                    return _check_constant(node, -positive)
            case _:
                pass
        return _evaluate_path(node, inner)


def _check_constant(node: ast.expr, constant: str | float | None) -> str | float | None:
    """Return the constant. Raises `NotUnderstoodError` if no path, command or table can hold it."""
    if isinstance(constant, str) and not is_valid_path(constant):
        raise _not_understood(node, "a text that no path or command can hold")
    if isinstance(constant, int) and not -_MAX_INTEGER - 1 <= constant <= _MAX_INTEGER:
        raise NotUnderstoodError(f"line {node.lineno}: a number this large is not read")
    return constant


def _evaluate_path(node: ast.expr, inner: Callable[[ast.expr], LiteralValue]) -> LiteralValue:
    """Return the value of an expression that makes a path. `inner` evaluates a subexpression."""
    match node:
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _join_path(node, [inner(left), inner(right)])
        case ast.Call(func=ast.Name(id="str" | "Path"), args=[argument], keywords=[]):
            if ast.unparse(argument) != "__file__" and isinstance(
                value := inner(argument), str | FileRelativePath
            ):
                return value
        case ast.Call(args=parts, keywords=[]) if _dotted_name(node.func) == "os.path.join":
            return _join_path(node, [inner(part) for part in parts])
        case _:
            pass
    if isinstance(node, ast.Attribute | ast.Call) and ast.unparse(node) in _OWN_FOLDER:
        return _HERE
    raise _not_understood(node, "this expression")


def _join_path(node: ast.expr, parts: list[LiteralValue]) -> FileRelativePath:
    match parts:
        case [FileRelativePath(relative=base), *names]:
            for name in names:
                if not isinstance(name, str):
                    raise _not_understood(node, "this path")
                base /= name
            return FileRelativePath(base)
        case _:
            raise _not_understood(node, "this path")


def _dictionary(
    node: ast.expr, keys: list[LiteralValue], entries: list[LiteralValue]
) -> dict[str | int, LiteralValue]:
    result: dict[str | int, LiteralValue] = {}
    for key, entry in zip(keys, entries, strict=True):
        if not isinstance(key, str | int):
            raise _not_understood(node, "a dictionary key that is neither a string nor a number")
        result[key] = entry
    return result


def _dotted_name(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Attribute) else ""


def _not_understood(node: ast.expr, what: str) -> NotUnderstoodError:
    return NotUnderstoodError(f"line {node.lineno}: {what} is not read: {ast.unparse(node)[:80]}")
