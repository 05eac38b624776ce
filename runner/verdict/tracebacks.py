"""Follows the tracebacks that Python prints, and remembers the exception that ended the first of them."""

import re
from dataclasses import dataclass

_BEGINS = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<path>[^"]+)", line \d+')
_EXCEPTION = re.compile(r"^(?:\w+\.)*[A-Z]\w*(?:: .*)?$")
_GOES_ON = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
MARKS = (_BEGINS, *_GOES_ON)
"""One of these is in each line that tells something where no traceback is followed."""
_MOVES = (
    (re.compile(r"(?<![\w.])/(?:[^\s/'\":,()]+/)+(?=[^\s/'\":,()])"), ""),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "0x.."),
    (re.compile(r"%\d+\b"), "%.."),
)


@dataclass
class _Followed:
    """A traceback of one stream, of which more lines may come."""

    indent: str
    """What stands before its first line, and its last: pip shows what a failed build printed that way."""
    innermost: str = ""


class Tracebacks:
    """The tracebacks of a run, line by line; lines of others may stand between those of one."""

    def __init__(self) -> None:
        self._open: dict[str, _Followed] = {}
        self._chained: set[str] = set()
        self._exception: str | None = None

    @property
    def exception(self) -> str | None:
        """The line that ends the first traceback, or the last of those that hang together with it: the exception as it
        left the program. None where there is no whole traceback."""
        return self._exception

    def follows(self, stream: str) -> bool:
        """Whether a traceback of this stream has begun and not ended: any line may belong to it."""
        return stream in self._open

    def feed(self, stream: str, text: str) -> str | None:
        """Take a line. Where it ends a traceback: the file of its innermost frame, empty where it has no frame."""
        if text.endswith(_BEGINS) and text.lstrip() == _BEGINS:
            self._open[stream] = _Followed(indent=text.removesuffix(_BEGINS))
            return None
        if text.lstrip() in _GOES_ON:
            self._chained.add(stream)
            return None
        followed = self._open.get(stream)
        if followed is None:
            return None
        if (frame := _FRAME.match(text)) is not None:
            followed.innermost = frame["path"]
        elif _EXCEPTION.match(line := text.removeprefix(followed.indent)):
            del self._open[stream]
            if self._exception is None or stream in self._chained:
                self._exception = line
            self._chained.discard(stream)
            return followed.innermost
        return None


def without_what_moves(text: str) -> str:
    """A message without what differs from run to run or from slot to slot: folders, addresses, numbers of values.

    >>> without_what_moves("RuntimeError: /w/0/a.py: value %12 at 0x7f01 used twice")
    'RuntimeError: a.py: value %.. at 0x.. used twice'
    """
    for pattern, instead in _MOVES:
        text = pattern.sub(instead, text)
    return text
