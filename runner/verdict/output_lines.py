"""Reads lines of a run's output: what a terminal shows of them, tracebacks, counts of tests, and places of failures.

- `plain_texts` removes colours and control characters from a line.
- `search` tries a pattern on a text. `relevant_line_spans` skips the lines on which no pattern can match. Looking for a
  fixed text is many times as fast as trying a pattern.
- `Tracebacks` finds the exception that ended a Python program.
- `ReportedTests` adds up the counts that common test runners print.
- `FailurePlaces` collects the source lines or functions in which errors were raised. One message, such as "'NoneType'
  object is not subscriptable", may come from two faults.
"""

import importlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

MAX_TEXT = 2000
"""A pattern is tried on a text of at most this many characters, because its cost grows with its input."""

REPLACEMENT = "\ufffd"
"""This character stands for a control character, and for bytes that are no text."""

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, hyperlinks
    r"|[@-Z\\^_])"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u2028\u2029]")


def plain_texts(line: str) -> Iterator[str]:
    """Yield what a terminal would have shown of `line`, one text for each time it was drawn over.

    Escape sequences and trailing blanks are removed. Other control characters become U+FFFD. Empty texts are left out.
    Each text is cut at `MAX_TEXT` characters.

    >>> list(plain_texts("\\x1b[32m 45%\\r[RUN] PASS (0.10s)\\x1b[0m\\r\\n"))
    [' 45%', '[RUN] PASS (0.10s)']
    """
    if line.isprintable():
        # Most lines are short and plain. Nothing has to be removed or replaced.
        if text := line[:MAX_TEXT].rstrip():
            yield text
        return
    for segment in line.replace("\n", "\r").split("\r"):
        # The first cut leaves room, because an escape sequence may cross the second, exact one.
        text = _ESCAPE_SEQUENCE.sub("", segment[: 4 * MAX_TEXT])[:MAX_TEXT].rstrip()
        if text:
            yield _CONTROL.sub(REPLACEMENT, text)


# The parser with which the standard library compiles patterns. It has no public one.
_PATTERN_PARSER: Any = importlib.import_module("re._parser")


def find_required_texts(pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Return a set of texts such that each match of the pattern contains one of them; empty if there is none.

    >>> find_required_texts(re.compile(r"^Output '(?P<name>[^']+)' does not match"))
    ("' does not match",)
    >>> find_required_texts(re.compile(r"(?:\\bstalled|timed out) after \\d+"))
    (' after ',)
    >>> find_required_texts(re.compile(r"\\d+|never"))
    ()
    """
    # The cache has no compiled patterns as keys: hashing one takes as long as a search.
    return _find_required_texts(pattern.pattern, pattern.flags)


def search(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return `pattern.search(text)`. This is faster where the pattern does not match."""
    texts = find_required_texts(pattern)
    if texts and not any(each in text for each in texts):
        return None
    return pattern.search(text)


def find_line_starts(texts: Iterable[bytes], lines: bytes) -> list[int]:
    """Return the offsets of the lines that contain one of the texts, ascending.

    >>> find_line_starts([b"x", b"y"], b"axx\\nb\\ncy\\n")
    [0, 6]
    """
    starts: set[int] = set()
    for text in texts:
        place = lines.find(text)
        while place >= 0:
            starts.add(lines.rfind(b"\n", 0, place) + 1)
            end = lines.find(b"\n", place)
            place = lines.find(text, end) if end >= 0 else -1
    return sorted(starts)


def relevant_line_spans(
    texts: Iterable[bytes], lines: bytes, *, reads_all: Callable[[], bool]
) -> Iterator[tuple[int, int]]:
    """Yield start and end of each line that contains one of the texts, in order. The end excludes the line break.

    `reads_all` is called before each line. While it returns True, every line is yielded.

    >>> list(relevant_line_spans([b"x"], b"ab\\ncx\\nd\\n", reads_all=lambda: False))
    [(3, 5)]
    """
    relevant = deque(find_line_starts(texts, lines))
    start = 0
    while start < len(lines):
        while relevant and relevant[0] < start:
            relevant.popleft()
        if not reads_all():
            if not relevant:
                return
            start = relevant[0]
        end = lines.find(b"\n", start)
        end = len(lines) if end < 0 else end
        yield start, end
        start = end + 1


@cache
def _find_required_texts(pattern: str, flags: int) -> tuple[str, ...]:
    if flags & re.IGNORECASE:
        return ()
    return tuple(sorted(_texts_of_sequence(_PATTERN_PARSER.parse(pattern, flags))))


def _texts_of_sequence(items: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """Return the rarest required texts of any item. All items of a sequence have to match."""
    best: frozenset[str] = frozenset()
    literal = ""
    terminated: list[tuple[Any, Any]] = [*items, ("END", None)]
    for kind, argument in terminated:
        if str(kind) == "LITERAL":
            literal += chr(argument)
            continue
        # A text has `REPLACEMENT` where the line may have another character.
        literals = frozenset({literal}) if literal and REPLACEMENT not in literal else frozenset[str]()
        best = max(best, literals, _texts_of_item(str(kind), argument), key=_rarity)
        literal = ""
    return best


def _texts_of_item(kind: str, argument: Any) -> frozenset[str]:
    match kind:
        case "SUBPATTERN":
            _, added_flags, _, items = argument
            return frozenset() if added_flags & re.IGNORECASE else _texts_of_sequence(items)
        case "ATOMIC_GROUP":
            return _texts_of_sequence(argument)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, _, items = argument
            return _texts_of_sequence(items) if least > 0 else frozenset()
        case "BRANCH":
            _, branches = argument
            each = [_texts_of_sequence(branch) for branch in branches]
            return frozenset[str]().union(*each) if all(each) else frozenset()
        case _:
            return frozenset()


def _rarity(texts: frozenset[str]) -> tuple[int, int]:
    """Return a sort key that grows with how rarely a line contains one of the texts: few long texts are rarest."""
    return min(map(len, texts), default=0), -len(texts)


_TRACEBACK_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<path>[^"]+)", line \d+')
# Without its module, an exception is taken for one only if its name begins with a capital.
_EXCEPTION = re.compile(r"^(?:(?:[^\W\d]\w*\.|<locals>\.)+[^\W\d]\w*|[A-Z]\w*)(?:: .*)?$")
_INSTALLED_FILE = re.compile(r"/(?:site|dist)-packages/|/lib/python[\d.]+/|^<")
_CHAIN_LINES = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
TRACEBACK_MARKS = (_TRACEBACK_START, *_CHAIN_LINES)
"""Outside of a traceback, `Tracebacks` takes notice only of lines with one of these texts."""
_VARIABLE_PARTS = (
    (re.compile(r"(?<![\w.])/(?:[^\s/'\":,()]+/)+(?=[^\s/'\":,()])"), ""),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "0x.."),
    (re.compile(r"%\d+\b"), "%.."),
)


@dataclass
class _OpenTraceback:
    """A traceback of one stream that has not ended yet."""

    indent: str
    """The text before its first line and its last one. Pip indents the output of a failed build."""
    file: str = ""
    """The file of the innermost frame so far."""
    source: str = ""
    """The source line of that frame."""
    own_source: str = ""
    """The source line of the innermost frame outside of installed packages."""


class Tracebacks:
    """Reads the tracebacks of a run line by line. Tracebacks of different streams may be interleaved.

    Attributes:
        exception: the last line of the first complete traceback, or of the last one chained to it. None before.
        source: the source line that raised the exception of the last complete traceback; empty if not printed.
        own_source: the source line of that traceback's innermost frame outside of installed packages.
    """

    def __init__(self) -> None:
        self.exception: str | None = None
        self.source = ""
        self.own_source = ""
        self._open: dict[str, _OpenTraceback] = {}
        self._chained: set[str] = set()

    def is_inside(self, stream: str) -> bool:
        """Return whether a traceback of this stream has begun and not ended."""
        return stream in self._open

    def feed(self, stream: str, text: str) -> str | None:
        """Take a line. If it ends a traceback, return the file of the innermost frame, "" without frames."""
        if text.endswith(_TRACEBACK_START) and text.lstrip() == _TRACEBACK_START:
            self._open[stream] = _OpenTraceback(indent=text.removesuffix(_TRACEBACK_START))
            return None
        if text.lstrip() in _CHAIN_LINES:
            self._chained.add(stream)
            return None
        traceback = self._open.get(stream)
        if traceback is None:
            return None
        if (frame := _FRAME.match(text)) is not None:
            traceback.file, traceback.source = frame["path"], ""
        elif _EXCEPTION.match(line := text.removeprefix(traceback.indent)):
            del self._open[stream]
            self.source, self.own_source = traceback.source, traceback.own_source
            if self.exception is None or stream in self._chained:
                self.exception = line
            self._chained.discard(stream)
            return traceback.file
        elif not traceback.source and text.strip(" ^~"):
            traceback.source = text.strip()
            if not _INSTALLED_FILE.search(traceback.file):
                traceback.own_source = traceback.source
        return None


def remove_variable_parts(text: str) -> str:
    """Return a message without what differs between runs: folders, addresses, and names of numbered values.

    >>> remove_variable_parts("RuntimeError: /w/0/a.py: value %12 at 0x7f01 used twice")
    'RuntimeError: a.py: value %.. at 0x.. used twice'
    """
    return substitute(text, _VARIABLE_PARTS)


def substitute(text: str, replacements: Iterable[tuple[re.Pattern[str], str]]) -> str:
    """Replace all matches of the first pattern in the text, then those of the next one, and so on."""
    for pattern, replacement in replacements:
        text = pattern.sub(replacement, text)
    return text


_ROWS = tuple(
    re.compile(row)
    for row in (
        r"^(?:[\w.]+ \(.*?\) )?\.\.\. skipped\b",  # unittest -v says it again at the end
        r"^Ran (?P<total>\d+) tests? in "  # unittest
        r"|\b(?:skipped|expected failures|unexpected successes)=(?P<skipped>\d+)",
        r"(?i:\bran) (?P<total>\d+) (?:checks?|cases?|tests?)\b",
        r"\b(?P<ran>\d+) (?:tests? )?(?:passed|failed|passing|failing)\b"  # most runners
        r"|\b(?P<skipped>\d+) (?:skipped|ignored|xfailed|xpassed|pending|todo)\b",
        r"^=+ (?:no tests ran|\d+ deselected)|^no tests ran in |^=* ?\d+ tests? collected\b",  # pytest
        r"^\[=+\] Running (?P<total>\d+) tests? from|^\[  SKIPPED \] (?P<skipped>\d+) tests?\b",  # gtest
        r"% tests passed, .* out of (?P<total>\d+)|^No tests were found",  # ctest
        r"\*\*\*(?P<skipped>)(?:Skipped|Not Run \(Disabled\))",
        r"^ok\s+(?P<total>)\S+\s+(?:[\d.]+s|\(cached\))$|\[no tests? (?:to run|files)\]|no tests to run",  # go
        r"^\s*--- (?:(?P<ran>)PASS|(?P<skipped>)SKIP): ",
        r"^\s*ok \d+\b.*# (?P<skipped>)(?i:skip)|^1\.\.0\b|^Result: NOTESTS",  # TAP
        r"^\s*(?P<ran>)(?:not )?ok \d+\b|^Files=\d+, Tests=(?P<total>\d+)",
        r"^(?:#|\u2139) (?:tests (?P<total>\d+)|skipped (?P<skipped>\d+))$",  # node
        r"^No tests found",  # jest
        r"^(?:\[\w+\] )?Tests run: (?P<total>\d+), .*Skipped: (?P<skipped>\d+)",  # maven
    )
)
"""These patterns match the counts of tests that runners print. Of a line, only the first pattern that matches is used.

A group is a number of tests, or empty for one test. `total` includes tests that were skipped or failed as expected.
"""


@dataclass
class ReportedTests:
    """Counts the tests that a run says it ran, line by line."""

    any_reported: bool = False
    ran: int = 0
    total: int = 0
    skipped: int = 0

    def feed(self, text: str) -> None:
        """Take a line."""
        for pattern in _ROWS:
            if search(pattern, text) is None:
                continue
            self.any_reported = True
            for match in pattern.finditer(text):
                counts = match.groupdict()
                self.ran += _count(counts.get("ran"))
                self.total += _count(counts.get("total"))
                self.skipped += _count(counts.get("skipped"))
            return

    @property
    def tests(self) -> int | None:
        """Return the number of tests that ran; None if no runner printed one.

        Some runners print each number twice. They do so in every run, so that runs can still be compared.
        """
        return self.ran + max(self.total - self.skipped, 0) if self.any_reported else None


def _count(text: str | None) -> int:
    """Return the number of a group: 0 where it did not match, 1 where it is empty. At most nine digits are read."""
    return 0 if text is None else int(text[:9] or 1)


_PYTEST_SOURCE = re.compile(r"^>\s{3,}(?P<place>\S.*)")
_STACK_FRAME = re.compile(r"^\s+at (?:async )?(?P<place>[\w.$<>/]+(?: \[as \w+\])?) ?\((?P<file>[^()]*)\)$")
_LIBRARY_PLACE = re.compile(
    r"^(?:java|javax|jdk|sun|kotlin|scala|org\.junit|org\.opentest4j)\b|^(?:node|native)\b"
)
FRAME_MARKS = (">    ", "\tat ", "   at ")
"""One of these is in each line that `FailurePlaces` reads."""
_MAX_PLACES = 20
"""At most this many places of a failure are kept. A failing test suite may print thousands."""


@dataclass
class FailurePlaces:
    """Collects the places at which a run failed: source lines as pytest prints them, or functions of stack frames."""

    found: dict[str, None] = field(default_factory=dict[str, None])
    _follows_error: bool = False

    def expect_frame(self) -> None:
        """Note that an error was printed. The next frame outside of libraries is its place."""
        self._follows_error = True

    def feed(self, text: str) -> bool:
        """Take a line. Return whether it is a source line or a stack frame."""
        if (source := search(_PYTEST_SOURCE, text)) is not None:
            self.add(source["place"])
            return True
        frame = search(_STACK_FRAME, text)
        if frame is None:
            return False
        if self._follows_error and not (
            _LIBRARY_PLACE.search(frame["place"]) or _LIBRARY_PLACE.search(frame["file"])
        ):
            self.add(frame["place"])
            self._follows_error = False
        return True

    def add(self, place: str) -> None:
        """Add a place, unless it is empty or `_MAX_PLACES` are known."""
        if place and len(self.found) < _MAX_PLACES:
            self.found[place] = None
