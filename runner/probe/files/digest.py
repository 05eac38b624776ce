"""What is in a file, as a name."""

import hashlib
from pathlib import Path


def digest_of(file: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits. Raises `OSError`."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
