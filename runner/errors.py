"""The errors that end a command with a message and an exit code, and the nearest names that messages suggest."""

import difflib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..store.vocabulary import hide_credentials


class UserError(Exception):
    """An error that the user can act on.

    The message is one line: what was expected, what was found, where, and what to do. It shows no credentials.
    """

    exit_code = 1
    """The command ends with this exit code."""
    is_answered = False
    """Whether the command has printed its answer all the same."""

    def __init__(self, message: str = "") -> None:
        super().__init__(hide_credentials(message))


class UsageError(UserError):
    """The command's words, or the files that they name, cannot be used as they are."""

    exit_code = 2


class EndsError(UserError):
    """The good and the bad commit do not span a range that could hold a culprit."""

    exit_code = 4


class UndecidedError(UserError):
    """The question cannot be answered, because a commit on which the answer rests cannot be judged."""

    exit_code = 6


_MAX_REASON_LENGTH = 200
"""A reason has at most this many characters. A failed copy of a folder lists one failure for each file."""


def reason(error: OSError | UnicodeDecodeError) -> str:
    """Return why a file cannot be used, in the system's words."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no UTF-8 text"
    return error.strerror or str(error)[:_MAX_REASON_LENGTH]


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return the end of a message that asks whether a similar name was meant; empty if no known name is similar.

    >>> suggestion("serched", ["searched", "steps"]), suggestion("x", ["searched"])
    (': did you mean searched?', '')
    """
    near = nearest_name(name, known)
    return "" if near is None else f": did you mean {near}?"


def nearest_name(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is most similar; None where none is similar."""
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def nearest_path(path: Path) -> Path | None:
    """Return a missing path with its first missing part replaced by the most similar entry; None without one."""
    missing = path
    with suppress(OSError):
        while not missing.parent.is_dir():
            missing = missing.parent
        near = nearest_name(missing.name, [entry.name for entry in missing.parent.iterdir()])
        meant = None if near is None else missing.parent / near / path.relative_to(missing)
        return meant if meant is not None and meant.exists() else None
    return None
