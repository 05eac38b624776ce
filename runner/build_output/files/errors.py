"""What can be wrong with a file of a build directory, said in one line."""

from __future__ import annotations

from pathlib import Path


class BuildOutputError(Exception):
    """A build directory, or a file in it, cannot be read as what it should be.

    Attributes:
        path: the file or folder at fault.
        expected: what a sound one has there.
        found: what this one has.
        remedy: what to do about it, or an empty string.
    """

    def __init__(self, *, path: Path, expected: str, found: str, remedy: str = "") -> None:
        self.path = path
        self.expected = expected
        self.found = found
        self.remedy = remedy
        message = f"{path}: expected {expected}, found {_one_line(found)}"
        super().__init__(f"{message}; {remedy}" if remedy else message)


def _one_line(text: str) -> str:
    """What a hostile file made some parser say, fit to be printed."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable if len(printable) <= 400 else f"{printable[:400]}..."


class MissingFileError(BuildOutputError):
    """The file is not there."""


class MalformedFileError(BuildOutputError):
    """The file is there, but is not of the format its name promises."""


class UnsafePathError(BuildOutputError):
    """A path leads out of the build directory, or to something that is no regular file."""


class FileTooLargeError(BuildOutputError):
    """The file is larger than any sound one of its kind, and was not read."""


class RecordNotWholeError(BuildOutputError):
    """A dumped argument has no complete payload to look at: see its `flaw`."""
