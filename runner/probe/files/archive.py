"""A folder as one file, and back."""

import gzip
import tarfile
import zlib
from pathlib import Path
from typing import BinaryIO, cast


class ArchiveError(Exception):
    """An archive is not what `pack_folder` writes."""


def pack_folder(folder: Path, archive: Path) -> None:
    """Write a folder's entries to a compressed archive, which is the same for the same entries. Raises `OSError`."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(folder.rglob("*")):
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_without_owner)


def unpack_folder(archive: Path, folder: Path) -> None:
    """Write an archive's entries to a folder. What would lie outside of it, or links there, is left out.

    Raises:
        OSError: there is no room for them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, mode="r:gz") as tar:
        tar.extractall(folder, filter=_inside)


def unpack_whole(archive: Path, folder: Path, *, most_bytes: int) -> None:
    """Write all entries of an archive to a new folder.

    Raises:
        ArchiveError: it is no archive, an entry would lie outside or lead there, or it holds more than `most_bytes`.
        OSError: there is no room for them.
    """
    folder.mkdir(parents=True)
    try:
        with gzip.open(archive, "rb") as stream:
            bounded = cast(BinaryIO, _Bounded(stream, most_bytes))
            with tarfile.open(fileobj=bounded, mode="r|") as tar:
                tar.extractall(folder, filter="data")
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ArchiveError(str(error)) from error


class _Bounded:
    """A stream that ends in an error where it is longer than it may be."""

    def __init__(self, stream: gzip.GzipFile, most_bytes: int) -> None:
        self._stream = stream
        self._left = most_bytes

    def read(self, count: int) -> bytes:
        data = self._stream.read(count)
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveError("expected fewer bytes than there are")
        return data


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None  # a pipe or a socket that a run left
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None
