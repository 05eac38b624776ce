"""Caches the outputs of build steps, by the content that they were made from.

`BuildCache` is the cache of one machine. `BuildStore` is a store that machines share, at a URL that `fsspec` opens,
such as a folder or S3. `SharedBuilds` connects the two: the cache fetches from the store what it lacks, and offers new
builds.
"""

import contextlib
import gzip
import hashlib
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast
from urllib.parse import urlsplit

import msgspec
from filelock import FileLock, Timeout

from ...store.durable_files import entries_below, remove, replace_file, sync, sync_tree, try_remove_tree
from ...store.vocabulary import url_passwords
from ..errors import UsageError, UserError
from ..process.run import Interrupt, InterruptedWorkError, try_lock


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits. Raises `OSError`."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_READ_ONLY = ("http", "https")
"""Stores with these protocols cannot be written."""
_PACKAGES = {"http": "aiohttp", "https": "aiohttp", "s3": "s3fs"}
"""`fsspec` needs these packages, by protocol."""


class BuildStoreError(Exception):
    """The store cannot be used now, or a build in it does not match its note."""


class _Note(msgspec.Struct, frozen=True):
    """What the store's file `keys/KEY` says of the build at `objects/SHA-256`."""

    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    bytes: Annotated[int, msgspec.Meta(ge=0)]


class BuildStore:
    """The store at a URL: a note for each key, and the builds by their SHA-256.

    A build is written before its note, and is not used unless it matches the note.
    """

    def __init__(self, url: str, *, check: Callable[[], None]) -> None:
        """`check` is called between the pieces of a transfer, and may raise `InterruptedWorkError`.

        Raises `UserError` where this machine cannot open such a URL.
        """
        self._url = url
        self._check = check
        protocol = check_build_store(url)
        package = _PACKAGES.get(protocol)
        if package is not None and find_spec(package) is None:
            raise UserError(
                f"--build-store {url}: expected the package {package}, found none: pip install {package}"
            )
        # The import is late because most runs have no store and need not wait for it.
        import fsspec.core  # pyright: ignore[reportMissingTypeStubs]

        core: Any = fsspec.core
        self._files, self._root = core.url_to_fs(url, skip_instance_cache=True, use_listings_cache=False)
        self._is_local = protocol == "file"
        self.is_writable = protocol not in _READ_ONLY

    def has(self, key: str) -> bool:
        """Return whether the store has a build under a key. Raises `BuildStoreError`."""
        with self._translate_errors():
            note = self._note(key)
            return note is not None and bool(self._files.exists(self._path("objects", note.sha256)))

    def get(self, key: str, target: Path, *, max_bytes: int) -> bool:
        """Write the build under a key to a file; return False where there is none.

        Raises `BuildStoreError`, and `OSError` where there is no room.
        """
        with self._translate_errors():
            note = self._note(key)
            if note is None:
                return False
            source = self._path("objects", note.sha256)
            if not self._files.exists(source):
                return False
            size: int | None = self._files.info(source).get("size")
        if max(note.bytes, size or 0) > max_bytes:
            raise BuildStoreError(f"{source}: expected at most {max_bytes} bytes, found {size}")
        with self._translate_errors():
            self._files.get_file(source, str(target), callback=_piece_callback(self._check, note.bytes))
        if digest_of(target) != note.sha256:
            raise BuildStoreError(f"{source}: expected the SHA-256 that it is called by, found another")
        return True

    def put(self, key: str, file: Path) -> None:
        """Store a file under a key. Raises `BuildStoreError`."""
        note = _Note(digest_of(file), file.stat().st_size)
        with self._translate_errors(), tempfile.TemporaryDirectory() as temporary:
            self._write(file, self._path("objects", note.sha256))
            note_file = Path(temporary) / "note"
            note_file.write_bytes(msgspec.json.encode(note))
            self._write(note_file, self._path("keys", key))

    def _note(self, key: str) -> _Note | None:
        try:
            text: bytes = self._files.cat_file(self._path("keys", key))
        except FileNotFoundError:
            return None
        return msgspec.json.decode(text, type=_Note)

    def _write(self, file: Path, target: str) -> None:
        """Write a file to the store in one step, so that no reader sees a part of it."""
        if not self._is_local:
            # An object store shows a file once it is whole.
            self._files.put_file(str(file), target, callback=_piece_callback(self._check, None))
            return
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        with replace_file(Path(target)) as incoming:
            self._files.put_file(str(file), str(incoming))

    def _path(self, *parts: str) -> str:
        return "/".join((str(self._root).rstrip("/"), *parts))

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        """Raise `BuildStoreError` in place of an error in the block, whose type depends on the kind of store."""
        try:
            yield
        except InterruptedWorkError:
            raise
        except Exception as error:
            raise BuildStoreError(f"{self._url}: {type(error).__name__}: {error}") from error


def check_build_store(url: str) -> str:
    """Return the protocol of a store's URL. Raises `UsageError` where the URL cannot be one."""
    from fsspec.registry import known_implementations  # pyright: ignore[reportMissingTypeStubs]

    known: Any = known_implementations
    protocol = urlsplit(url).scheme or "file"
    if protocol not in known:
        raise UsageError(
            f"--build-store {url}: expected a folder or a URL such as s3://bucket/folder or https://host/folder, found "
            f"the unknown protocol {protocol}"
        )
    if "@" in urlsplit(url).netloc:
        raise UsageError(
            "--build-store: expected a URL without a name or password, found one with them; each machine has its own, "
            "in $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY or in ~/.config/fsspec"
        )
    if url_passwords(url):
        raise UsageError(
            "--build-store: expected an address without a password or token, which reports and the store would show; "
            "put it where fsspec looks for it"
        )
    if protocol == "file" and not Path(url.removeprefix("file://")).is_absolute():
        raise UsageError(
            f"--build-store {url}: expected a full path, for each machine opens it, found a relative one"
        )
    return protocol


def _piece_callback(check: Callable[[], None], max_bytes: int | None) -> object:
    """Return a callback for the pieces of a transfer. It calls `check`, and raises if there are more bytes."""
    from fsspec.callbacks import Callback  # pyright: ignore[reportMissingTypeStubs]

    def on_piece(size: int | None, value: int) -> None:
        check()
        if max_bytes is not None and value > max_bytes:
            raise BuildStoreError(f"expected {max_bytes} bytes, found more")

    make: Any = Callback
    return make(hooks={"piece": on_piece})


class ArchiveError(Exception):
    """An archive is not in the form that `pack_folder` writes."""


def pack_folder(folder: Path, archive: Path) -> None:
    """Write a folder's entries to a compressed archive, the same for equal entries. Raises `OSError`."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(entries_below(folder)):
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_strip_owner)


def unpack_folder(archive: Path, folder: Path) -> None:
    """Extract an archive's entries to a folder, except entries and links that lead out of it. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, mode="r:gz") as tar:
        tar.extractall(folder, filter=_keep_if_inside)


def unpack_whole(archive: Path, folder: Path, *, max_bytes: int) -> None:
    """Extract all entries of an archive to a new folder.

    Raises:
        ArchiveError: it is no archive, has more than `max_bytes`, or an entry leads out of the folder.
        OSError: there is no room.
    """
    folder.mkdir(parents=True)
    try:
        with gzip.open(archive, "rb") as stream:
            bounded = cast(BinaryIO, _BoundedStream(stream, max_bytes))
            with tarfile.open(fileobj=bounded, mode="r|") as tar:
                tar.extractall(folder, filter="data")
    except gzip.BadGzipFile as error:
        raise ArchiveError(str(error)) from error
    except OSError:
        raise
    except Exception as error:  # `tarfile` has no bound on the types of errors that a damaged archive causes.
        raise ArchiveError(f"{type(error).__name__}: {error}") from error


class _BoundedStream:
    """A stream that raises `ArchiveError` when more than `max_bytes` are read."""

    def __init__(self, stream: gzip.GzipFile, max_bytes: int) -> None:
        self._stream = stream
        self._left = max_bytes

    def read(self, count: int) -> bytes:
        data = self._stream.read(count)
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveError("expected fewer bytes than there are")
        return data


def _strip_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None  # A run left a pipe or a socket.
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _keep_if_inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None


_READ = 1 << 20
"""A file is searched in pieces of this many bytes, so that a large library does not fill the memory."""


class SharedBuilds:
    """Uses the shared store for the cache of one machine.

    `own` is the folder of the machine's slots and clones. A build in which its path occurs is useful only to machines
    with the same path, so its key includes the path.
    """

    def __init__(self, store: BuildStore, *, own: Path, max_bytes: int) -> None:
        self._store = store
        self._own = own
        self._max_bytes = max_bytes
        self.trouble: str | None = None
        """Why the store could not be used. It is not tried again until `begin`, because a try may take minutes."""

    def begin(self) -> None:
        """Begin a new build, for which the store is tried again."""
        self.trouble = None

    def fetch(self, key: str, entry: Path, names: set[str]) -> bool:
        """Make the folder `entry` from the store's build under a key, which must have entries of these names.

        Returns False where the store has no such build, or cannot be used. Raises `OSError` where there is no room.
        """
        if self.trouble is not None:
            return False
        with _folder_beside(entry) as temporary:
            archive = temporary / "archive"
            try:
                for each in (key, self._path_specific_key(key)):
                    if self._store.get(each, archive, max_bytes=self._max_bytes):
                        unpack_whole(archive, entry, max_bytes=self._max_bytes)
                        found = {each.name for each in entry.iterdir()}
                        if found != names:
                            raise ArchiveError(f"expected a build with entries {names}, found {found}")
                        return True
            except (BuildStoreError, ArchiveError) as error:
                self.trouble = str(error)
        return False

    def offer(self, key: str, entry: Path) -> None:
        """Store a folder under a key, unless the store has it, or the folder is useless elsewhere. Raises `OSError`."""
        if self.trouble is not None or not self._store.is_writable or _has_escaping_link(entry):
            return
        key = self._path_specific_key(key) if self._occurs_in(entry) else key
        try:
            if not self._store.has(key):
                with _folder_beside(entry) as temporary:
                    archive = temporary / "archive"
                    pack_folder(entry, archive)
                    self._store.put(key, archive)
        except BuildStoreError as error:
            self.trouble = str(error)

    def _path_specific_key(self, key: str) -> str:
        return hashlib.sha256(f"{key} at {self._own}".encode()).hexdigest()

    def _occurs_in(self, entry: Path) -> bool:
        """Return whether a file of a folder contains the path of the machine's own folder."""
        names = {bytes(self._own), bytes(self._own.resolve())}
        # Links need no search, because a folder with absolute links is not offered.
        files = (path for path in entries_below(entry) if path.is_file() and not path.is_symlink())
        return any(_contains(path, names) for path in files)


@contextmanager
def _folder_beside(entry: Path) -> Generator[Path]:
    """Make a temporary folder beside a claimed entry. It has the entry's key, so that no other process removes it."""
    key = _key_of(entry)
    with tempfile.TemporaryDirectory(dir=entry.parent, prefix=f"{key}.", suffix=_INCOMING_SUFFIX) as folder:
        yield Path(folder)


def _has_escaping_link(entry: Path) -> bool:
    """Return whether a link in a folder is absolute, or leads out of the output that contains the link."""
    root = entry.resolve()
    links = (path for path in entries_below(entry) if path.is_symlink())
    return any(
        path.readlink().is_absolute()
        or not path.resolve().is_relative_to(root / path.relative_to(entry).parts[0])
        for path in links
    )


def _contains(path: Path, names: set[bytes]) -> bool:
    """Return whether a file contains one of the names."""
    longest = max(len(name) for name in names)
    with path.open("rb") as file:
        end = b""
        while piece := file.read(_READ):
            text = end + piece
            if any(name in text for name in names):
                return True
            end = text[-longest:]
    return False


def _key_of(entry: Path) -> str:
    """Return the key of an entry of the cache, or of what is on its way to be one. Keys have no dots."""
    return entry.name.partition(".")[0]


_SIZE_FILE = "size"
_INCOMING_SUFFIX = ".incoming"
_OUTGOING_SUFFIX = ".outgoing"


class BuildCache:
    """Keeps outputs of steps by key. Of more than `limit` bytes, it removes the least recently used outputs."""

    def __init__(
        self,
        directory: Path,
        *,
        limit: int,
        interrupt: Interrupt | None,
        shared: SharedBuilds | None = None,
    ) -> None:
        self._directory = directory
        self._limit = limit
        self._interrupt = interrupt
        self._shared = shared
        self._locks = directory / "locks"

    def begin(self) -> None:
        """Begin a new build, for which the shared builds are tried again."""
        if self._shared is not None:
            self._shared.begin()

    @property
    def trouble(self) -> str | None:
        """Return why the shared builds could not be used; None where they could, or where there are none."""
        return None if self._shared is None else self._shared.trouble

    @contextlib.contextmanager
    def claim(self, key: str) -> Generator[None]:
        """Lock a key for the block, so that no other process builds it at the same time.

        Raises `InterruptedWorkError`.
        """
        self._locks.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._locks / key)
        if self._interrupt is not None:
            self._interrupt.wait(lambda: try_lock(lock))
        else:
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def holds(self, key: str) -> bool:
        """Return whether this machine keeps outputs under a key."""
        return (self._directory / key).is_dir()

    def restore(self, key: str, outputs: list[Path]) -> bool:
        """Replace outputs by the saved ones of a claimed key. Without saved ones, remove them and return False."""
        for output in outputs:
            remove(output)
        if not self.holds(key) and not self._fetch(key, outputs):
            return False
        saved = self._directory / key
        now = time.time_ns()
        os.utime(saved, ns=(now, now))
        for index, output in enumerate(outputs):
            output.parent.mkdir(parents=True, exist_ok=True)
            _copy(saved / str(index), output)
            # A build that compares times would treat outputs that are older than the sources, or than each other, as
            # stale.
            for path in (output, *entries_below(output)) if output.is_dir() else (output,):
                os.utime(path, ns=(now, now), follow_symlinks=False)
        return True

    def save(self, key: str, outputs: list[Path]) -> None:
        """Keep the outputs of a claimed key. If that fails, for lack of room for example, nothing is kept."""
        temporary = self._directory / f"{key}{_INCOMING_SUFFIX}"
        try_remove_tree(temporary)
        try:
            temporary.mkdir(parents=True)
            for index, output in enumerate(outputs):
                _copy(output, temporary / str(index))
            (temporary / _SIZE_FILE).write_text(str(_size(temporary)))
            self._put(temporary, key)
        except (OSError, RecursionError):  # `copytree` calls itself for each folder of a folder.
            try_remove_tree(temporary)
            return
        if self._shared is not None:
            with contextlib.suppress(OSError):
                self._shared.offer(key, self._directory / key)
        self._trim()

    def _fetch(self, key: str, outputs: list[Path]) -> bool:
        """Fetch a shared build into the cache. Return False where there is none, or no room."""
        if self._shared is None:
            return False
        temporary = self._directory / f"{key}{_INCOMING_SUFFIX}"
        try_remove_tree(temporary)
        try:
            entries = {_SIZE_FILE, *map(str, range(len(outputs)))}
            if not self._shared.fetch(key, temporary, entries):
                return False
            (temporary / _SIZE_FILE).write_text(str(_size(temporary)))
            self._put(temporary, key)
        except OSError:
            return False
        finally:
            try_remove_tree(temporary)
        self._trim()
        return True

    def _put(self, temporary: Path, key: str) -> None:
        """Move a complete entry into the cache."""
        # After a power cut, no empty file may pass for a build.
        sync_tree(temporary)
        temporary.replace(self._directory / key)
        sync(self._directory)

    def _trim(self) -> None:
        """Remove the oldest entries over the limit, and what killed processes left. Entries in use stay."""
        entries: list[tuple[float, int, Path]] = []
        for entry in self._directory.iterdir():
            if entry.suffix in (_INCOMING_SUFFIX, _OUTGOING_SUFFIX):
                self._discard(entry)
            else:
                with contextlib.suppress(OSError, ValueError):
                    entries.append((entry.stat().st_mtime, int((entry / _SIZE_FILE).read_text()), entry))
        total = sum(size for _, size, _ in entries)
        for _, size, entry in sorted(entries)[:-1]:
            if total <= self._limit:
                return
            self._discard(entry)
            if not entry.exists():
                total -= size

    def _discard(self, entry: Path) -> None:
        """Remove an entry, unless another process has claimed its key."""
        with contextlib.suppress(Timeout, OSError), FileLock(self._locks / _key_of(entry), blocking=False):
            # An entry that is removed only in part must not pass for a complete one.
            outgoing = entry.with_suffix(_OUTGOING_SUFFIX)
            if entry != outgoing:
                try_remove_tree(outgoing)
                entry.replace(outgoing)
            try_remove_tree(outgoing)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)


def _size(directory: Path) -> int:
    return sum(path.lstat().st_size for path in entries_below(directory) if path.is_file())
