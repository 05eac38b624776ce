"""The errors that end a command. Each message is one line for the person who has to act on it."""

import re

_USER_INFORMATION = re.compile(r"(?P<scheme>\w*)://(?:(?P<user>[^/\s:@]*):)?(?P<password>[^/\s@]+)@")
_PARAMETER = re.compile(
    r"(?P<name>[?&](?:\w*(?:pass|secret|token|api_?key)\w*|pwd|key|sig|signature)=)(?P<password>[^&\s'\"]+)",
    re.IGNORECASE,
)


def hide_credentials(text: str) -> str:
    """Return a text without the passwords and tokens of its URLs. Reports and pages repeat errors and notes.

    Libraries name an address once more without its scheme, so a password that was found goes wherever a host follows.

    >>> hide_credentials("https://bob:hush@host/x.git and ssh://git@host/x.git")
    'https://bob:***@host/x.git and ssh://git@host/x.git'
    >>> hide_credentials("tls://bob:hush@host: expected an answer, found none of bob:hush@host")
    'tls://bob:***@host: expected an answer, found none of bob:***@host'
    >>> hide_credentials("postgresql://host/store?user=bob&password=hush")
    'postgresql://host/store?user=bob&password=***'
    """
    for found in [*_USER_INFORMATION.finditer(text)]:
        if found["user"] is not None or found["scheme"] != "ssh":
            text = text.replace(f"{found['password']}@", "***@")
    return _PARAMETER.sub(r"\g<name>***", text)


def url_passwords(text: str) -> list[str]:
    """Return the passwords and tokens of a text's URLs: in front of a host, or a parameter by that name.

    >>> url_passwords("https://bob:hush@host/x.git https://token@host postgres://host/db?password=quiet&user=bob")
    ['hush', 'token', 'quiet']
    """
    found = (each for pattern in (_USER_INFORMATION, _PARAMETER) for each in pattern.finditer(text))
    return [each["password"] for each in found]


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
