"""What a machine's cache of builds takes from a store that other machines fill too, and leaves there.

Outputs that name this machine's own folders, in a file or a link, are of use only where these have the same path: they
go under another key, which tells the path.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..files.archive import ArchiveError, pack_folder, unpack_whole
from .build_store import BuildStore, BuildStoreError

_READ = 1 << 20


class SharedBuilds:
    """The store, as the cache of one machine uses it. `own` is the folder of all that this machine makes itself."""

    def __init__(self, store: BuildStore, *, own: Path, most_bytes: int) -> None:
        self._store = store
        self._own = own
        self._most_bytes = most_bytes
        self.trouble: str | None = None
        """Why the store was of no use. It is left alone until `begin`: each try may take minutes."""

    def begin(self) -> None:
        """A new build: whatever was wrong with the store may be over."""
        self.trouble = None

    def fetch(self, key: str, entry: Path, names: set[str]) -> bool:
        """Make a new folder, with entries of these names, of what is in the store under a key. False where it is not
        there, or of no use. Raises `OSError` where there is no room."""
        if self.trouble is not None:
            return False
        with tempfile.TemporaryDirectory(dir=entry.parent, suffix=".incoming") as temporary:
            archive = Path(temporary) / "archive"
            try:
                for each in (key, self._tied(key)):
                    if self._store.get(each, archive, most_bytes=self._most_bytes):
                        unpack_whole(archive, entry, most_bytes=self._most_bytes)
                        found = {each.name for each in entry.iterdir()}
                        if found != names:
                            raise ArchiveError(f"expected a build with entries {names}, found {found}")
                        return True
            except (BuildStoreError, ArchiveError) as error:
                self.trouble = str(error)
        return False

    def offer(self, key: str, entry: Path) -> None:
        """Leave a folder in the store, unless it is there or cannot be of use elsewhere. Raises `OSError`."""
        if self.trouble is not None or not self._store.takes or _leads_out(entry):
            return
        key = self._tied(key) if self._is_named_in(entry) else key
        try:
            if not self._store.has(key):
                with tempfile.TemporaryDirectory(dir=entry.parent, suffix=".incoming") as temporary:
                    archive = Path(temporary) / "archive"
                    pack_folder(entry, archive)
                    self._store.put(key, archive)
        except BuildStoreError as error:
            self.trouble = str(error)

    def _tied(self, key: str) -> str:
        return hashlib.sha256(f"{key} at {self._own}".encode()).hexdigest()

    def _is_named_in(self, entry: Path) -> bool:
        names = {bytes(self._own), bytes(self._own.resolve())}
        return any(_holds(path, names) for path in _files(entry))


def _files(entry: Path) -> Iterator[Path]:
    return (path for path in entry.rglob("*") if path.is_symlink() or path.is_file())


def _leads_out(entry: Path) -> bool:
    """Whether a link leads to what does not travel with it."""
    root = entry.resolve()
    links = (path for path in _files(entry) if path.is_symlink())
    return any(
        path.readlink().is_absolute()
        or not path.resolve().is_relative_to(root / path.relative_to(entry).parts[0])
        for path in links
    )


def _holds(path: Path, names: set[bytes]) -> bool:
    """Whether one of the names is in a file."""
    if path.is_symlink():
        return False  # those that are not relative stay here
    longest = max(len(name) for name in names)
    with path.open("rb") as file:
        end = b""
        while piece := file.read(_READ):
            text = end + piece
            if any(name in text for name in names):
                return True
            end = text[-longest:]
    return False
