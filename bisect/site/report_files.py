"""What a localization and a reduction left beside a bisection's report, to be looked at or downloaded."""

import gzip
import io
import stat
import tarfile
from pathlib import Path

_TASK_GRAPH = "task_graph.html"
_REDUCED = Path("reduced")
_RESULT = "result"
"""In a reduction's folder: a link to the newest version."""
_LARGEST_PAGE = 16 << 20
_LARGEST_ARCHIVE = 64 << 20
"""Bytes; a page is made in memory."""

TASK_GRAPH_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
"""The page draws with a script of its own. `sandbox` without `allow-same-origin` keeps that script from this site's
addresses and storage."""


def task_graph(report: Path) -> Path | None:
    """The page that `reduce` made of the culprit's tasks."""
    return _plain_file(report / _TASK_GRAPH, _LARGEST_PAGE)


def reduced_files(report: Path) -> list[Path]:
    """The files of the reduced build, by name; none where there is none, or it is too large for a page. Links in it are
    left out: nothing outside of the reduction's folder is ever read."""
    folder = _result(report)
    if folder is None:
        return []
    files = sorted(file for file in folder.rglob("*") if not _behind_link(file, folder))
    plain = [file for file in files if _plain_file(file, _LARGEST_ARCHIVE)]
    return plain if sum(file.stat().st_size for file in plain) <= _LARGEST_ARCHIVE else []


def archive(report: Path) -> bytes:
    """The reduced build as tar.gz, the same bytes for the same files."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as tar,
    ):
        folder = _result(report)
        for file in reduced_files(report):
            assert folder is not None
            content = file.read_bytes()
            entry = tarfile.TarInfo(str(_REDUCED / file.relative_to(folder)))
            entry.size = len(content)
            entry.mode = 0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _result(report: Path) -> Path | None:
    """The newest version of the reduction; None where there is none, or it lies elsewhere."""
    folder = report / _REDUCED
    try:
        found = (folder / _RESULT).resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    inside = found.is_relative_to(report.resolve() / _REDUCED)
    return found if inside and found.is_dir() and not folder.is_symlink() else None


def _plain_file(file: Path, largest: int) -> Path | None:
    try:
        found = file.lstat()
    except OSError:
        return None
    return file if stat.S_ISREG(found.st_mode) and found.st_size <= largest else None


def _behind_link(file: Path, folder: Path) -> bool:
    return any(part.is_symlink() for part in (file, *file.parents) if part.is_relative_to(folder))
