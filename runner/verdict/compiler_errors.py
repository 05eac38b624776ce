"""Which file a line of a compiler's output blames."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ERROR = re.compile(
    r"(?:^|(?<=\s))(?P<path>[^\s:]+):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<message>.+?)\s*$"
)
_MISSING = re.compile(r"^'?(?P<path>[^\s':]+)'?(?:: No such file or directory| file not found)$")


@dataclass(frozen=True, kw_only=True)
class CompilerError:
    """An error as gcc and clang print it: the file and the line, from 1, in which it shows, what it says, and the
    header that it misses."""

    path: str
    line: int
    message: str
    missing: str | None = None


def compiler_error(line: str) -> CompilerError | None:
    """The error that a line of output tells of; None where it tells of none.

    >>> error = compiler_error("src/a.hpp:3:10: fatal error: b/c.hpp: No such file or directory")
    >>> error.path, error.line, error.missing
    ('src/a.hpp', 3, 'b/c.hpp')
    """
    if "error: " not in line or (error := _ERROR.search(line)) is None:
        return None
    missing = _MISSING.match(error["message"])
    return CompilerError(
        path=error["path"],
        line=int(error["line"]),
        message=error["message"],
        missing=None if missing is None else missing["path"],
    )


def compiler_errors(lines: Iterable[str]) -> tuple[CompilerError, ...]:
    """The errors that some lines tell of, each once."""
    return tuple(dict.fromkeys(error for line in lines if (error := compiler_error(line)) is not None))
