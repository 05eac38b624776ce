"""The errors that end a command: one line each, made for the person who has to act on it."""


class UserError(Exception):
    """What was expected, what was found, where, and what to do, in one line.

    `exit_code` is the tool's exit code (DESIGN: 1 error, 2 usage, 4 the ends do not differ or are unrelated,
    6 not decided).
    """

    exit_code = 1


class UsageError(UserError):
    """The words of the command, or the files it names, cannot be used as they are."""

    exit_code = 2


class EndsError(UserError):
    """Good and bad do not span a range that could hold a culprit."""

    exit_code = 4


class UndecidedError(UserError):
    """What is asked cannot be told, for a commit on which the answer rests cannot be judged."""

    exit_code = 6


def reason(error: OSError | UnicodeDecodeError) -> str:
    """Why a file cannot be used, in the system's words."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no UTF-8 text"
    return error.strerror or str(error)
