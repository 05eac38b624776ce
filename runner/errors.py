"""The errors that end a command. Each message is one line for the person who has to act on it."""

from ..store.vocabulary import hide_credentials


class UserError(Exception):
    """A message of one line: what was expected, what was found, where, and what to do.

    `exit_code` is the exit code of the tool: 1 is an error, 2 is wrong usage. 4 means that the ends do not differ or
    are unrelated. 6 means that the question could not be decided.
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(hide_credentials(message))


class UsageError(UserError):
    """The words of the command, or the files that it names, cannot be used as they are."""

    exit_code = 2


class EndsError(UserError):
    """The good and the bad commit do not span a range that could hold a culprit."""

    exit_code = 4


class UndecidedError(UserError):
    """The question cannot be answered, because a commit on which the answer rests cannot be judged."""

    exit_code = 6


def reason(error: OSError | UnicodeDecodeError) -> str:
    """Return why a file cannot be used, in the system's words."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no UTF-8 text"
    return error.strerror or str(error)
