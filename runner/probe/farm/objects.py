"""Files by the SHA-256 of what is in them: how data gets from one machine to another without a common path."""

import contextlib
import shutil
from pathlib import Path

from ...errors import UserError
from ..files.digest import digest_of

PIECE = 4 << 20
"""Bytes that travel at once."""
_INCOMING = ".incoming"


class Objects:
    """A folder of such files. They come in pieces, and are there once they were found to be what they are called."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, digest: str) -> Path:
        """Where an object lies, if it is there."""
        return self._folder / digest

    def has(self, digest: str) -> bool:
        """Whether an object is there, whole."""
        return self.path(digest).is_file()

    def receive(self, digest: str, sender: str, offset: int, piece: bytes) -> None:
        """Write a piece of an object that a sender began at offset 0.

        Raises:
            OSError: there is no room for it.
            UserError: pieces before it are missing.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        incoming = self._incoming(digest, sender)
        with incoming.open("wb" if offset == 0 else "ab") as file:
            if file.tell() != offset:
                raise UserError(f"{incoming}: expected {offset} bytes, found {file.tell()}; send it again")
            file.write(piece)

    def seal(self, digest: str, sender: str) -> None:
        """Take in an object whose last piece has come.

        Raises:
            UserError: it is not what it is called.
        """
        self.received(digest, sender).replace(self.path(digest))

    def received(self, digest: str, sender: str) -> Path:
        """The file of all pieces of a sender, which nobody else knows.

        Raises:
            UserError: it is not what it is called.
        """
        incoming = self._incoming(digest, sender)
        found = digest_of(incoming)
        if found != digest:
            incoming.unlink()
            raise UserError(f"{incoming}: expected the SHA-256 {digest}, found {found}; send it again")
        return incoming

    def abandon(self, digest: str, sender: str) -> None:
        """Remove the pieces of an object that will not become whole."""
        with contextlib.suppress(OSError):
            self._incoming(digest, sender).unlink()

    def take(self, file: Path) -> str:
        """Move a file in; its digest. Raises `OSError`."""
        digest = digest_of(file)
        self._folder.mkdir(parents=True, exist_ok=True)
        # By way of a name beside it: the file may lie on another disk.
        incoming = self._incoming(digest, "own")
        shutil.move(file, incoming)
        incoming.replace(self.path(digest))
        return digest

    def _incoming(self, digest: str, sender: str) -> Path:
        return self._folder / f"{digest}.{sender}{_INCOMING}"
