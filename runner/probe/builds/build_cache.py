"""Outputs of build steps, kept by the content that they were made from."""

import contextlib
import os
import shutil
import time
from collections.abc import Generator
from pathlib import Path

from filelock import FileLock, Timeout

from ...process.interrupt import Interrupt, try_lock
from ...workspace.worktree import remove
from .shared_builds import SharedBuilds

_SIZE_FILE = "size"
_INCOMING = ".incoming"
_OUTGOING = ".outgoing"


class BuildCache:
    """Outputs of steps by key, least recently used first out when they outgrow `limit` bytes. What is not here may be
    in `shared`, which is left what is new."""

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
        """A new build, for which `trouble` is told anew."""
        if self._shared is not None:
            self._shared.begin()

    @property
    def trouble(self) -> str | None:
        """Why the shared builds were of no use."""
        return None if self._shared is None else self._shared.trouble

    @contextlib.contextmanager
    def claimed(self, key: str) -> Generator[None]:
        """While held, nobody else builds this key: a build is never made twice at once.

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
        """Whether outputs are kept under a key on this machine."""
        return (self._directory / key).is_dir()

    def restore(self, key: str, outputs: list[Path]) -> bool:
        """Put saved outputs of a claimed key in place of what stands there. False where they are neither in the cache
        nor shared: then nothing stands there any more, which is of another key."""
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
            # The sources were checked out just now: outputs older than them would count as stale in the stack's
            # own eyes. One time for all keeps them equally old.
            for path in (output, *output.rglob("*")) if output.is_dir() else (output,):
                os.utime(path, ns=(now, now), follow_symlinks=False)
        return True

    def save(self, key: str, outputs: list[Path]) -> None:
        """Keep outputs of a claimed key. A full disk costs the copy, not the build."""
        temporary = self._directory / f"{key}{_INCOMING}"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            for index, output in enumerate(outputs):
                _copy(output, temporary / str(index))
            (temporary / _SIZE_FILE).write_text(str(_size(temporary)))
            temporary.replace(self._directory / key)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            return
        if self._shared is not None:
            with contextlib.suppress(OSError):
                self._shared.offer(key, self._directory / key)
        self._trim()

    def _fetch(self, key: str, outputs: list[Path]) -> bool:
        """Take in what another machine has built. A full disk costs the copy."""
        if self._shared is None:
            return False
        temporary = self._directory / f"{key}{_INCOMING}"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            entries = {_SIZE_FILE, *map(str, range(len(outputs)))}
            if not self._shared.fetch(key, temporary, entries):
                return False
            (temporary / _SIZE_FILE).write_text(str(_size(temporary)))
            temporary.replace(self._directory / key)
        except OSError:
            return False
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self._trim()
        return True

    def _trim(self) -> None:
        """Remove the oldest entries over the limit, and what killed processes have left. What is in use stays."""
        entries: list[tuple[float, int, Path]] = []
        for entry in self._directory.iterdir():
            if entry.suffix in (_INCOMING, _OUTGOING):
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
            # An entry that a kill left half-removed must not pass for a whole one.
            outgoing = entry.with_suffix(_OUTGOING)
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
