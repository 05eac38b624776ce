"""Access to the files below one folder, and to nothing else."""

from __future__ import annotations

import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np
import numpy.typing as npt

from .errors import (
    BuildOutputError,
    FileTooLargeError,
    MalformedFileError,
    MissingFileError,
    UnsafePathError,
)

_ARCHIVE = b"PK\x03\x04"
"""How a zip archive begins."""
_HEAD = 4096
"""Bytes that tell a text file."""


@dataclass(frozen=True)
class Folder:
    """A folder whose files are read only after their path, links resolved, is known to lie inside it.

    The check and the read are two steps: it guards against what a build left behind, not against a process
    that swaps files meanwhile.
    """

    root: Path

    @classmethod
    def open(cls, root: Path, *, expected: str) -> Folder:
        """The existing folder `root`, itself possibly a link; `MissingFileError` if there is none."""
        if not root.is_dir():
            found = "a file" if root.exists() else "nothing"
            raise MissingFileError(path=root, expected=expected, found=found)
        return cls(root.resolve())

    def locate(self, relative: PurePath | str) -> Path:
        """Absolute path of `relative`, links resolved.

        Raises:
            UnsafePathError: it is absolute, or leads out of the folder.
        """
        spelled = str(relative)
        inside = self.root / relative
        if "\0" in spelled or PurePath(relative).is_absolute():
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
        """Whether `relative` is a link, wherever it leads."""
        return (self.root / relative).is_symlink()

    def has_file(self, relative: PurePath | str) -> bool:
        """Whether `relative` is a regular file inside the folder."""
        try:
            return self.locate(relative).is_file()
        except (BuildOutputError, OSError):
            return False

    def has_folder(self, relative: PurePath | str) -> bool:
        """Whether `relative` is a folder inside the folder."""
        try:
            return self.locate(relative).is_dir()
        except (BuildOutputError, OSError):
            return False

    def size(self, relative: PurePath | str, *, expected: str) -> int:
        """Bytes of the regular file `relative`.

        Raises:
            MissingFileError, UnsafePathError: as its name says.
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
        return status.st_size

    def read(self, relative: PurePath | str, *, expected: str, limit: int) -> bytes:
        """Contents of a regular file of at most `limit` bytes.

        Raises:
            MissingFileError, UnsafePathError, FileTooLargeError: as their names say.
        """
        size = self.size(relative, expected=expected)
        path = self.locate(relative)
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
        """`size` bytes of a regular file from `start` on, in memory: the file may be cut short meanwhile.

        Raises:
            MissingFileError, UnsafePathError: as their names say.
            MalformedFileError: the file ends before.
        """
        self.size(relative, expected=expected)
        path = self.locate(relative)
        try:
            with path.open("rb") as file:
                part = np.fromfile(file, np.uint8, count=size, offset=start)
        except OSError as error:
            raise MissingFileError(
                path=path, expected=expected, found=error.strerror or str(error)
            ) from error
        if part.size < size:
            raise MalformedFileError(
                path=path,
                expected=f"{expected}, {size} bytes from byte {start} on",
                found=f"{part.size}: the file was cut short",
                remedy="record it again",
            )
        return part

    def names(self, relative: PurePath | str = "") -> list[str]:
        """Sorted names of the entries of the folder `relative`, which must exist."""
        return sorted(entry.name for entry in self.locate(relative).iterdir())


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a device or socket"


def is_text(path: Path) -> bool:
    """Whether a file begins as text does: printable letters in UTF-8. False where it cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode(
                "utf-8", errors="strict" if path.stat().st_size < _HEAD else "ignore"
            )
    except (OSError, UnicodeDecodeError):
        return False
    return bool(head) and all(letter.isprintable() or letter.isspace() for letter in head)


def found_in_place_of_archive(path: Path) -> str | None:
    """What a file is that cannot be read as a zip archive, where its beginning and its end tell."""
    if is_text(path):
        return "a text file"
    with path.open("rb") as file:
        begins_as_archive = file.read(len(_ARCHIVE)) == _ARCHIVE
    if begins_as_archive and not _is_whole(path):
        return "an archive that was cut short: the listing at its end is missing"
    return None


def _is_whole(path: Path) -> bool:
    """Whether an archive has its listing; a damaged one is there too."""
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:
        return True
