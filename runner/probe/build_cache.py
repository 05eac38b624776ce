"""Caches the outputs of build steps, by the content that they were made from.

`BuildCache` is the cache of one machine. `BuildStore` is a store that machines share: files at a URL that `fsspec`
opens. That is a folder that all of them see, S3, or HTTP, for example; HTTP is read only. For each key a note,
`keys/KEY`, holds the size and the SHA-256 of the build, which lies at `objects/SHA-256`. The build is written before
its note, and a build that does not match its note is not used.

`SharedBuilds` connects the two. Outputs that name this machine's own folders, in a file or a link, are useful only
where these folders have the same path. They get another key, which includes the path.
"""

import contextlib
import gzip
import hashlib
import os
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast
from urllib.parse import urlsplit

import msgspec
from filelock import FileLock, Timeout

from ...store.durable_files import replace_file, sync, sync_tree
from ...store.vocabulary import url_passwords
from ..errors import UsageError, UserError
from ..process.run import Interrupt, InterruptedWorkError, try_lock
from ..workspace.slot import remove


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits. Raises `OSError`."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_READ_ONLY = ("http", "https")
_PACKAGES = {"http": "aiohttp", "https": "aiohttp", "s3": "s3fs"}


class BuildStoreError(Exception):
    """The store cannot be used now, or its contents do not match its note."""


class _Note(msgspec.Struct, frozen=True):
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    bytes: Annotated[int, msgspec.Meta(ge=0)]


class BuildStore:
    """The store at a URL.

    `check` is called between the pieces of a transfer, and may raise `InterruptedWorkError`.
    """

    def __init__(self, url: str, *, check: Callable[[], None]) -> None:
        """Raise `UserError` where this machine cannot open such a URL."""
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
        self.takes = protocol not in _READ_ONLY

    def has(self, key: str) -> bool:
        """Return whether the store has a key. Raises `BuildStoreError`."""
        with self._translate_errors():
            note = self._note(key)
            return note is not None and bool(self._files.exists(self._path("objects", note.sha256)))

    def get(self, key: str, target: Path, *, most_bytes: int) -> bool:
        """Write the build under a key to a file; return False where there is none.

        Raises `BuildStoreError`, and `OSError` where there is no room.
        """
        with self._translate_errors():
            note = self._note(key)
            if note is None:
                return False
            source = self._path("objects", note.sha256)
            size: int | None = self._files.info(source).get("size") if self._files.exists(source) else -1
        if size == -1:
            return False
        if max(note.bytes, size or 0) > most_bytes:
            raise BuildStoreError(f"{source}: expected at most {most_bytes} bytes, found {size}")
        with self._translate_errors():
            self._files.get_file(source, str(target), callback=_callback(self._check, note.bytes))
        if digest_of(target) != note.sha256:
            raise BuildStoreError(f"{source}: expected the SHA-256 that it is called by, found another")
        return True

    def put(self, key: str, file: Path) -> None:
        """Store a file under a key. Raises `BuildStoreError`."""
        note = _Note(digest_of(file), file.stat().st_size)
        with self._translate_errors(), tempfile.TemporaryDirectory() as temporary:
            self._write(file, self._path("objects", note.sha256))
            noted = Path(temporary) / "note"
            noted.write_bytes(msgspec.json.encode(note))
            self._write(noted, self._path("keys", key))

    def _note(self, key: str) -> _Note | None:
        try:
            text: bytes = self._files.cat_file(self._path("keys", key))
        except FileNotFoundError:
            return None
        return msgspec.json.decode(text, type=_Note)

    def _write(self, file: Path, target: str) -> None:
        """Write a file to the store in one step.

        An object store puts a file in place at once. In a folder, the file gets its name when it is whole.
        """
        if not self._is_local:
            self._files.put_file(str(file), target, callback=_callback(self._check, None))
            return
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        with replace_file(Path(target)) as incoming:
            self._files.put_file(str(file), str(incoming))

    def _path(self, *parts: str) -> str:
        return "/".join((str(self._root).rstrip("/"), *parts))

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        """Turn every kind of store's own errors into `BuildStoreError`."""
        try:
            yield
        except InterruptedWorkError:
            raise
        except Exception as error:
            raise BuildStoreError(f"{self._url}: {type(error).__name__}: {error}") from error


def check_build_store(url: str) -> str:
    """Return the protocol of a URL. Raises `UsageError` where no store can be there."""
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


def _callback(check: Callable[[], None], most_bytes: int | None) -> object:
    """Return a callback that `fsspec` calls for each piece.

    It stops a transfer that is no longer wanted, or that is longer than announced.
    """
    from fsspec.callbacks import Callback  # pyright: ignore[reportMissingTypeStubs]

    def on_piece(size: int | None, value: int) -> None:
        check()
        if most_bytes is not None and value > most_bytes:
            raise BuildStoreError(f"expected {most_bytes} bytes, found more")

    make: Any = Callback
    return make(hooks={"piece": on_piece})


class ArchiveError(Exception):
    """An archive is not in the form that `pack_folder` writes."""


def pack_folder(folder: Path, archive: Path) -> None:
    """Write a folder's entries to a compressed archive. Equal entries give equal archives. Raises `OSError`."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(folder.rglob("*")):
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_strip_owner)


def unpack_folder(archive: Path, folder: Path) -> None:
    """Extract an archive's entries to a folder. Entries outside the folder, and links to there, are left out.

    Raises:
        OSError: there is no room for them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, mode="r:gz") as tar:
        tar.extractall(folder, filter=_keep_if_inside)


def unpack_whole(archive: Path, folder: Path, *, most_bytes: int) -> None:
    """Extract all entries of an archive to a new folder.

    Raises:
        ArchiveError: it is no archive, an entry would lie outside or lead there, or it holds more than `most_bytes`.
        OSError: there is no room for them.
    """
    folder.mkdir(parents=True)
    try:
        with gzip.open(archive, "rb") as stream:
            bounded = cast(BinaryIO, _BoundedStream(stream, most_bytes))
            with tarfile.open(fileobj=bounded, mode="r|") as tar:
                tar.extractall(folder, filter="data")
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ArchiveError(str(error)) from error


class _BoundedStream:
    """A stream that raises an error when it is longer than allowed."""

    def __init__(self, stream: gzip.GzipFile, most_bytes: int) -> None:
        self._stream = stream
        self._left = most_bytes

    def read(self, count: int) -> bytes:
        data = self._stream.read(count)
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveError("expected fewer bytes than there are")
        return data


def _strip_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None  # Such a member is a pipe or a socket that a run left.
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
    """Uses the shared store for the cache of one machine. `own` is the folder of all that this machine makes itself."""

    def __init__(self, store: BuildStore, *, own: Path, most_bytes: int) -> None:
        self._store = store
        self._own = own
        self._most_bytes = most_bytes
        self.trouble: str | None = None
        """Says why the store could not be used. It is not asked again until `begin`, because each try may take
        minutes."""

    def begin(self) -> None:
        """Start a new build. The trouble with the store may be over."""
        self.trouble = None

    def fetch(self, key: str, entry: Path, names: set[str]) -> bool:
        """Make a new folder, with entries of these names, from the store's build under a key.

        Returns False where the store has no such build, or it cannot be used. Raises `OSError` where there is no room.
        """
        if self.trouble is not None:
            return False
        with tempfile.TemporaryDirectory(dir=entry.parent, suffix=".incoming") as temporary:
            archive = Path(temporary) / "archive"
            try:
                for each in (key, self._path_specific_key(key)):
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
        """Store a folder, unless the store has it or it cannot be useful elsewhere. Raises `OSError`."""
        if self.trouble is not None or not self._store.takes or _has_escaping_link(entry):
            return
        key = self._path_specific_key(key) if self._is_named_in(entry) else key
        try:
            if not self._store.has(key):
                with tempfile.TemporaryDirectory(dir=entry.parent, suffix=".incoming") as temporary:
                    archive = Path(temporary) / "archive"
                    pack_folder(entry, archive)
                    self._store.put(key, archive)
        except BuildStoreError as error:
            self.trouble = str(error)

    def _path_specific_key(self, key: str) -> str:
        return hashlib.sha256(f"{key} at {self._own}".encode()).hexdigest()

    def _is_named_in(self, entry: Path) -> bool:
        names = {bytes(self._own), bytes(self._own.resolve())}
        return any(_holds(path, names) for path in _files(entry))


def _files(entry: Path) -> Iterator[Path]:
    return (path for path in entry.rglob("*") if path.is_symlink() or path.is_file())


def _has_escaping_link(entry: Path) -> bool:
    """Return whether a link leads to something that does not travel with the entry."""
    root = entry.resolve()
    links = (path for path in _files(entry) if path.is_symlink())
    return any(
        path.readlink().is_absolute()
        or not path.resolve().is_relative_to(root / path.relative_to(entry).parts[0])
        for path in links
    )


def _holds(path: Path, names: set[bytes]) -> bool:
    """Return whether a file contains one of the names."""
    if path.is_symlink():
        return False  # An entry with absolute links is never offered to the store.
    longest = max(len(name) for name in names)
    with path.open("rb") as file:
        end = b""
        while piece := file.read(_READ):
            text = end + piece
            if any(name in text for name in names):
                return True
            end = text[-longest:]
    return False


_SIZE_FILE = "size"
_INCOMING_SUFFIX = ".incoming"
_OUTGOING_SUFFIX = ".outgoing"


class BuildCache:
    """Keeps outputs of steps by key, and drops the least recently used ones when they outgrow `limit` bytes.

    Outputs that are not here may be in `shared`, which also receives new ones.
    """

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
        """Start a new build, for which `trouble` is reported again."""
        if self._shared is not None:
            self._shared.begin()

    @property
    def trouble(self) -> str | None:
        """Return why the shared builds could not be used."""
        return None if self._shared is None else self._shared.trouble

    @contextlib.contextmanager
    def claim(self, key: str) -> Generator[None]:
        """Hold a key, so that no other process builds it at the same time.

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
        """Replace the outputs of a claimed key by the saved ones.

        Returns False where they are neither in the cache nor shared. Then the old outputs are removed all the same,
        because they belong to another key.
        """
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
            # The sources were checked out just now, and the stack's own build would treat outputs older than them as
            # stale. Equal times for all outputs keep them equally old.
            for path in (output, *output.rglob("*")) if output.is_dir() else (output,):
                os.utime(path, ns=(now, now), follow_symlinks=False)
        return True

    def save(self, key: str, outputs: list[Path]) -> None:
        """Keep the outputs of a claimed key. A full disk loses the copy, not the build."""
        temporary = self._directory / f"{key}{_INCOMING_SUFFIX}"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            for index, output in enumerate(outputs):
                _copy(output, temporary / str(index))
            (temporary / _SIZE_FILE).write_text(str(_size(temporary)))
            self._put(temporary, key)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            return
        if self._shared is not None:
            with contextlib.suppress(OSError):
                self._shared.offer(key, self._directory / key)
        self._trim()

    def _fetch(self, key: str, outputs: list[Path]) -> bool:
        """Fetch a build of another machine. A full disk loses the copy."""
        if self._shared is None:
            return False
        temporary = self._directory / f"{key}{_INCOMING_SUFFIX}"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            entries = {_SIZE_FILE, *map(str, range(len(outputs)))}
            if not self._shared.fetch(key, temporary, entries):
                return False
            (temporary / _SIZE_FILE).write_text(str(_size(temporary)))
            self._put(temporary, key)
        except OSError:
            return False
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self._trim()
        return True

    def _put(self, temporary: Path, key: str) -> None:
        """Move a whole entry into the cache. After a power cut no empty file may pass for a build."""
        sync_tree(temporary)
        temporary.replace(self._directory / key)
        sync(self._directory)

    def _trim(self) -> None:
        """Remove the oldest entries over the limit, and remains of killed processes. Entries in use stay."""
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
            total -= size

    def _discard(self, entry: Path) -> None:
        with contextlib.suppress(Timeout, OSError), FileLock(self._locks / entry.stem, blocking=False):
            # An entry that a killed process left half removed must not pass for a whole one.
            outgoing = entry.with_suffix(_OUTGOING_SUFFIX)
            if entry != outgoing:
                shutil.rmtree(outgoing, ignore_errors=True)
                entry.replace(outgoing)
            shutil.rmtree(outgoing, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)


def _size(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file())
