"""Turns a raw output line into the short, plain texts that patterns are tried on."""

import re
from collections.abc import Iterator

MAX_TEXT = 2000
"""Longest text, in characters, that a pattern is tried on: the cost of a pattern grows with its input."""

REPLACEMENT = "\ufffd"
"""What stands for a control character, and for bytes that are no text."""

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, hyperlinks
    r"|[@-Z\\^_])"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u2028\u2029]")


def plain_texts(line: str) -> Iterator[str]:
    """Yield what a terminal would have shown of `line`, one text for each time it was drawn over.

    Escape sequences are dropped, other control characters become U+FFFD, trailing blanks go, empty texts
    are left out, and each text ends at `MAX_TEXT` characters.

    >>> list(plain_texts("\\x1b[32m 45%\\r[RUN] PASS (0.10s)\\x1b[0m\\r\\n"))
    [' 45%', '[RUN] PASS (0.10s)']
    """
    if line.isprintable():
        # Most lines are short and plain: there is nothing to drop, or to replace.
        if text := line[:MAX_TEXT].rstrip():
            yield text
        return
    for segment in line.replace("\n", "\r").split("\r"):
        # An escape sequence may straddle the cut, hence a generous first cut and an exact second one.
        text = _ESCAPE_SEQUENCE.sub("", segment[: 4 * MAX_TEXT])[:MAX_TEXT].rstrip()
        if text:
            yield _CONTROL.sub(REPLACEMENT, text)
