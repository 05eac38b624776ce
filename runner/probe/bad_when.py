"""What counts as bad: `--bad-when`, and the exit code of a predicate command."""

import math
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from ...store.vocabulary import Judgement, Verdict
from ..errors import UsageError, UserError
from ..verdict.error_size import MEASURES, error_size, measure_words
from ..verdict.output_lines import plain_texts
from ..verdict.verdict import Classification

_SAYS_NOTHING_OF_THE_COMMIT = frozenset({Verdict.ENVIRONMENT_ERROR})
SKIP_CODE = 125
"""With which a predicate says that it cannot judge a commit."""
NOT_RUN: Mapping[int, str] = {126: "cannot be run", 127: "was not found"}
"""What a shell says of a command by its exit code."""
_COMPARED = frozenset({Verdict.PASS, Verdict.MISMATCH})
_NEVER_BAD = frozenset({Verdict.PASS, Verdict.ENVIRONMENT_ERROR, Verdict.UNKNOWN})
_OTHERS = f"signature:TEXT, regex:PATTERN, or an error such as {MEASURES[0]}:1e-4"


@dataclass(frozen=True, kw_only=True)
class ErrorAbove:
    """Errors larger than `size` by one of `MEASURES`, whatever the case's own tolerance says of them."""

    measure: str
    size: float

    def judge(self, classification: Classification) -> Judgement:
        """A skip where nothing was compared, or its error not measured."""
        found = error_size(classification.metrics, self.measure)
        if found is None or classification.verdict not in _COMPARED:
            return Judgement.SKIP
        return Judgement.BAD if found.value > self.size else Judgement.GOOD

    def __str__(self) -> str:
        return f"{self.measure}:{self.size!r}"


@dataclass(frozen=True, kw_only=True)
class BadWhen:
    """One of: a verdict, a signature, a pattern that some line of the output matches, or an error above a size."""

    verdict: Verdict | None = None
    signature: str | None = None
    regex: re.Pattern[str] | None = None
    error: ErrorAbove | None = None

    @classmethod
    def parse(cls, text: str) -> "BadWhen":
        """Read `mismatch`, `signature:TEXT`, `regex:PATTERN` or `relative_l2:SIZE` (or another measure).

        Raises:
            UsageError: not one of these, or a verdict that cannot be bad.
        """
        kind, colon, argument = text.partition(":")
        if not colon:
            return cls(verdict=_bad_verdict(text))
        if kind == "signature" and argument.strip():
            return cls(signature=argument.strip())
        if kind == "regex" and argument:
            try:
                return cls(regex=re.compile(argument))
            except re.error as error:
                raise UsageError(
                    f"--bad-when {text}: expected a regular expression after regex:, but {error}"
                ) from error
        if kind in MEASURES:
            return cls(error=ErrorAbove(measure=kind, size=_size(text, argument)))
        raise UsageError(f"--bad-when {text}: expected a verdict, or {_OTHERS}")

    def matches_line(self, line: str) -> bool:
        """Whether the pattern, if this is one, is found in a line of output."""
        return self.regex is not None and any(self.regex.search(text) for text in plain_texts(line))

    def judge(self, classification: Classification, *, matched_regex: bool) -> Judgement:
        """Bad is what this says, good is only `pass`, anything else is a skip.

        `matched_regex` tells whether `matches_line` held for any line. A fault of the machine is a skip
        whatever was printed.
        """
        if classification.verdict in _SAYS_NOTHING_OF_THE_COMMIT:
            return Judgement.SKIP
        if self.error is not None:
            return self.error.judge(classification)
        if self.regex is not None:
            is_bad = matched_regex
        elif self.signature is not None:
            is_bad = classification.signature == self.signature
        else:
            is_bad = classification.verdict is self.verdict
        if is_bad:
            return Judgement.BAD
        return Judgement.GOOD if classification.verdict is Verdict.PASS else Judgement.SKIP

    def lacks(self, classification: Classification) -> str | None:
        """What was not measured of a run that was compared; None where nothing is missing."""
        if self.error is None or classification.verdict not in _COMPARED:
            return None
        measured = self.error.judge(classification) is not Judgement.SKIP
        return None if measured else f"no {measure_words(self.error.measure)} was measured"

    def __str__(self) -> str:
        if self.error is not None:
            return str(self.error)
        if self.regex is not None:
            return f"regex:{self.regex.pattern}"
        return f"signature:{self.signature}" if self.signature is not None else str(self.verdict)


class PredicateAbortError(UserError):
    """The predicate command asks for the bisection to stop."""


def judge_exit_code(exit_code: int) -> Judgement:
    """Read a predicate's exit code as `git bisect run` does: 0 good, 125 skip, any other up to 127 bad; but for those
    with which a shell says that a command was not found or cannot be run, which tell nothing of the commit: a skip.

    Raises:
        PredicateAbortError: 128 and above, or killed by a signal (a negative code).
    """
    if exit_code < 0 or exit_code >= 128:
        raise PredicateAbortError(
            f"predicate command: expected an exit code from 0 to 127, found {_ending(exit_code)}, which stops the "
            "bisection; no verdict was recorded: mend the command and resume, or, where this is the failure, have it "
            "count as bad: -- sh -c 'COMMAND || exit 1'"
        )
    if exit_code == SKIP_CODE or exit_code in NOT_RUN:
        return Judgement.SKIP
    return Judgement.GOOD if exit_code == 0 else Judgement.BAD


def _ending(exit_code: int) -> str:
    """An exit code as people know it: that of a signal by the signal's name, as a shell hands it on too."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return str(exit_code)
    return f"that {name} killed it" if exit_code < 0 else f"{exit_code} (as of a program that {name} killed)"


def _bad_verdict(text: str) -> Verdict:
    allowed = [verdict for verdict in Verdict if verdict not in _NEVER_BAD]
    if text not in allowed:
        raise UsageError(f"--bad-when {text}: expected one of {', '.join(allowed)}, or {_OTHERS}")
    return Verdict(text)


def _size(text: str, number: str) -> float:
    try:
        size = float(number)
    except ValueError:
        size = math.nan
    if not 0 <= size < math.inf:
        measure = text.partition(":")[0]
        raise UsageError(
            f"--bad-when {text}: expected a number, 0 or more, after {measure}:, found {number!r}"
        )
    return size
