"""Builds that machines leave for each other, by key: files at a URL that `fsspec` opens, such as a folder that all of
them see, S3, or HTTP, which is only read.

Of a key there is a note, `keys/KEY`, of the size and SHA-256 of what it stands for, which lies at `objects/SHA-256` and
is written first: what is not as its note says is not used.
"""

import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from ....store.files import replacing
from ...errors import UsageError, UserError
from ...process.interrupt import InterruptedWorkError
from ..files.digest import digest_of

_READ_ONLY = ("http", "https")
_PACKAGES = {"http": "aiohttp", "https": "aiohttp", "s3": "s3fs"}


class BuildStoreError(Exception):
    """The store cannot be used now, or holds something else than it says."""


class _Note(msgspec.Struct, frozen=True):
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    bytes: Annotated[int, msgspec.Meta(ge=0)]


class BuildStore:
    """The store at a URL. `check` is called between pieces of a transfer, and may raise `InterruptedWorkError`."""

    def __init__(self, url: str, *, check: Callable[[], None]) -> None:
        """Raises `UserError` where this machine cannot open such a URL."""
        self._url = url
        self._check = check
        protocol = check_build_store(url)
        package = _PACKAGES.get(protocol)
        if package is not None and find_spec(package) is None:
            raise UserError(
                f"--build-store {url}: expected the package {package}, found none: pip install {package}"
            )
        # Most runs have no store, and need not wait for its import.
        import fsspec.core  # pyright: ignore[reportMissingTypeStubs]

        core: Any = fsspec.core
        self._files, self._root = core.url_to_fs(url, skip_instance_cache=True, use_listings_cache=False)
        self._is_local = protocol == "file"
        self.takes = protocol not in _READ_ONLY

    def has(self, key: str) -> bool:
        """Whether there is something under a key. Raises `BuildStoreError`."""
        with self._told():
            note = self._note(key)
            return note is not None and bool(self._files.exists(self._path("objects", note.sha256)))

    def get(self, key: str, target: Path, *, most_bytes: int) -> bool:
        """Write what is under a key to a file; False where nothing is. Raises `BuildStoreError`, and `OSError` where
        there is no room."""
        with self._told():
            note = self._note(key)
            if note is None:
                return False
            source = self._path("objects", note.sha256)
            size: int | None = self._files.info(source).get("size") if self._files.exists(source) else -1
        if size == -1:
            return False
        if max(note.bytes, size or 0) > most_bytes:
            raise BuildStoreError(f"{source}: expected at most {most_bytes} bytes, found {size}")
        with self._told():
            self._files.get_file(source, str(target), callback=_callback(self._check, note.bytes))
        if digest_of(target) != note.sha256:
            raise BuildStoreError(f"{source}: expected the SHA-256 that it is called by, found another")
        return True

    def put(self, key: str, file: Path) -> None:
        """Leave a file under a key. Raises `BuildStoreError`."""
        note = _Note(digest_of(file), file.stat().st_size)
        with self._told(), tempfile.TemporaryDirectory() as temporary:
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
        """Stores of objects put a file in place at once; in a folder it gets its name when it is whole."""
        if not self._is_local:
            self._files.put_file(str(file), target, callback=_callback(self._check, None))
            return
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        with replacing(Path(target)) as incoming:
            self._files.put_file(str(file), str(incoming))

    def _path(self, *parts: str) -> str:
        return "/".join((str(self._root).rstrip("/"), *parts))

    @contextmanager
    def _told(self) -> Generator[None]:
        """Each kind of store has errors of its own. Raises `BuildStoreError`."""
        try:
            yield
        except InterruptedWorkError:
            raise
        except Exception as error:
            raise BuildStoreError(f"{self._url}: {type(error).__name__}: {error}") from error


def check_build_store(url: str) -> str:
    """The protocol of a URL. Raises `UsageError` where no store can be there."""
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
    if protocol == "file" and not Path(url.removeprefix("file://")).is_absolute():
        raise UsageError(
            f"--build-store {url}: expected a full path, for each machine opens it, found a relative one"
        )
    return protocol


def _callback(check: Callable[[], None], most_bytes: int | None) -> object:
    """What `fsspec` tells of each piece. It stops a transfer that is not wanted any more, or longer than was said."""
    from fsspec.callbacks import Callback  # pyright: ignore[reportMissingTypeStubs]

    def told(size: int | None, value: int) -> None:
        check()
        if most_bytes is not None and value > most_bytes:
            raise BuildStoreError(f"expected {most_bytes} bytes, found more")

    make: Any = Callback
    return make(hooks={"piece": told})
