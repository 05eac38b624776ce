"""A folder as one file, and back."""

import gzip
import tarfile
from pathlib import Path


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
