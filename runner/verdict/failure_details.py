"""What a failed run says beside its errors: how many tests it ran, and at which places of the source it failed.

`ReportedTests` reads what common test runners print of their tests, a row each. `FailurePlaces` reads the source line
or the function in which an error was raised. One message, such as "'NoneType' object is not subscriptable", may
come from two faults.
"""

import re
from dataclasses import dataclass, field

from .classify import search

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
"""Match the counts of tests that runners print. All matches of the first row that matches a line count.

Each group is a number, or is empty for 1: `ran`, `skipped`, and `total`, which includes tests that were skipped or
failed as expected.
"""


@dataclass
class ReportedTests:
    """Counts the tests that a run says it ran, line by line."""

    is_told: bool = False
    ran: int = 0
    total: int = 0
    skipped: int = 0

    def feed(self, text: str) -> None:
        """Take a line."""
        for pattern in _ROWS:
            if search(pattern, text) is None:
                continue
            self.is_told = True
            for match in pattern.finditer(text):
                counts = match.groupdict()
                self.ran += _count(counts.get("ran"))
                self.total += _count(counts.get("total"))
                self.skipped += _count(counts.get("skipped"))
            return

    @property
    def tests(self) -> int | None:
        """Return the number of tests; None where no runner says it. Some say it twice, in each run alike."""
        return self.ran + max(self.total - self.skipped, 0) if self.is_told else None


def _count(text: str | None) -> int:
    """The number, of no more digits than a count has; 1 where a line stands for one test."""
    return 0 if text is None else int(text[:9] or 1)


_PYTEST_SOURCE = re.compile(r"^>\s{3,}(?P<place>\S.*)")
_STACK_FRAME = re.compile(r"^\s+at (?:async )?(?P<place>[\w.$<>/]+(?: \[as \w+\])?) ?\((?P<file>[^()]*)\)$")
_LIBRARY_PLACE = re.compile(
    r"^(?:java|javax|jdk|sun|kotlin|scala|org\.junit|org\.opentest4j)\b|^(?:node|native)\b"
)
FRAME_MARKS = (">    ", "\tat ", "   at ")
"""One of these is in each line that `FailurePlaces` reads."""
_MOST_PLACES = 20
"""At most this many places of a failure are kept. A recursion prints the same frames without end."""


@dataclass
class FailurePlaces:
    """Collects the places at which a run failed, line by line: lines of source, or names of functions."""

    found: dict[str, None] = field(default_factory=dict[str, None])
    _follows_error: bool = False

    def expect_frame(self) -> None:
        """Note that an error was printed: the first frame of its own code that follows is its place."""
        self._follows_error = True

    def feed(self, text: str) -> bool:
        """Take a line. Return whether it tells a place, or is part of a stack."""
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
        """Add a place, unless there are many already."""
        if place and len(self.found) < _MOST_PLACES:
            self.found[place] = None
