"""Judges a run by what it printed and how it ended.

The judgement is bad for the failure that was asked for, and good for a validated pass. Any other run is a skip, which
says nothing about the commit. `JudgingRule` is what `--bad-when`, `--good-when` and `--crash` say, with `Condition`s.
`Listener` applies it to the output of a run. The functions at the end classify commits at which nothing ran.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import regex

from ...store import vocabulary
from ...store.vocabulary import Evidence, Judgement, OutputStream, Verdict, VerdictSource
from ..case.case import CaseName
from ..errors import UsageError, UserError, nearest_name, suggestion
from ..verdict.classify import Classification, Classifier, HarnessOutcome
from ..verdict.output_lines import plain_texts
from ..verdict.rules import MEASURES, SENT_FROM_OUTSIDE, Ending, error_size, measure_words, signal_of
from ..verdict.symptoms import (
    UNITTEST_NAME,
    Family,
    SymptomReader,
    Symptoms,
    exception_family,
    strip_time_stamp,
)

Crash = Literal["skip", "bad", "stop"]
"""What a command that a signal ends means: a skip, a bad commit, or the end of the bisection as with `git bisect run`.

A skip counts as bad all the same where the failing end crashes in the same way."""
SKIP_CODE = 125
"""A command exits with this code if it cannot judge a commit, as in `git bisect run`."""

NOT_RUN: Mapping[int, str] = {126: "cannot be run", 127: "was not found"}
"""A shell exits with these codes if it could not run a command."""
NOT_JUDGED = Classification(verdict=Verdict.UNKNOWN, signature=None, evidence=(), metrics={})
"""A run of which nothing is known yet has this classification."""
_GENERAL_CONDITIONS = (
    "regex:PATTERN, not-regex:PATTERN, exception:TYPE, test:ID, exit:CODE, or a printed number: "
    "'log:/error: (\\S+)/ > 0.002'"
)
_GENERAL_KINDS = ("regex", "not-regex", "exception", "test", "exit", "log")
"""The kinds of condition that `_parse_general_condition` reads."""
_STACK_CONDITIONS = f"a verdict, signature:TEXT, an error such as {MEASURES[0]}:1e-4, {_GENERAL_CONDITIONS}"
_MAX_SEARCH_SECONDS = 10
"""A user's pattern may be searched in one line for this many seconds. Only exponential backtracking takes so long.

Python's own `re` has no timeout, so such a pattern would block the run."""
_NUMBER = re.compile(r"/(?P<pattern>.+)/\s*(?P<compare>[<>]=?)\s*(?P<limit>\S+)")
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True, kw_only=True)
class ErrorAbove:
    """The condition that an output's error is larger than `size` by one of `MEASURES`, whatever the case tolerates."""

    measure: str
    size: float

    def holds(self, classification: Classification) -> bool | None:
        """Return whether an error is larger; None where nothing was compared or measured."""
        found = error_size(classification.metrics, self.measure)
        if found is None or not classification.verdict.traits.compares_outputs:
            return None
        return found.value > self.size


@dataclass(frozen=True, kw_only=True)
class PrintedNumber:
    """The condition that the last number printed as `pattern` is over or under a limit.

    With `holds_for_nan`, nan is on either side of it. It is on neither side otherwise.
    """

    pattern: regex.Pattern[str]
    compare: str
    limit: float
    holds_for_nan: bool

    def holds(self, printed: str | None) -> bool | None:
        """Return whether the condition holds for a printed text; None for a text that is no number."""
        if printed is None:
            return None
        try:
            number = float(printed.rstrip(".,;:"))
        except ValueError:
            return None
        return self.holds_for_nan if math.isnan(number) else _COMPARISONS[self.compare](number, self.limit)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition on a run. `text` is the value of the option, and one of the other fields says what is asked."""

    text: str
    verdict: Verdict | None = None
    signature: str | None = None
    present: regex.Pattern[str] | None = None
    """A pattern that a line matches."""
    absent: regex.Pattern[str] | None = None
    """A pattern that no line matches."""
    exception: str | None = None
    test: str | None = None
    exit_code: int | None = None
    error: ErrorAbove | None = None
    number: PrintedNumber | None = None

    @classmethod
    def parse(cls, text: str, *, option: str, command: bool) -> "Condition":
        """Parse the value of an option. A `command` behind `--` has no verdicts.

        Raises:
            UsageError: the text is no condition, or a verdict that cannot be bad.
        """
        kind, colon, argument = text.partition(":")
        shown = f"{option} {text}"
        if argument.strip():
            # No result may be right because it is nan.
            condition = _parse_general_condition(
                text, kind, argument, shown, holds_for_nan=option == "--bad-when"
            )
            if condition is not None:
                return condition
        if command:
            instead = (
                f"'log:/{kind}: (\\S+)/ > {argument}'" if kind in MEASURES else "exception:AssertionError"
            )
            raise UsageError(
                f"{shown}: expected {_GENERAL_CONDITIONS}, for a command behind --"
                f"{suggestion(kind, _GENERAL_KINDS) or f'; such as {option} {instead}'}"
            )
        if kind == "signature" and argument.strip():
            return cls(text=text, signature=argument.strip())
        if colon and kind in MEASURES:
            return cls(text=text, error=ErrorAbove(measure=kind, size=_parse_size(shown, kind, argument)))
        allowed = [verdict for verdict in Verdict if verdict.traits.can_be_bad]
        if colon or text not in allowed:
            raise UsageError(f"{shown}: expected one of {', '.join(allowed)}, or {_STACK_CONDITIONS}")
        return cls(text=text, verdict=Verdict(text))

    def holds(
        self, classification: Classification, matcher: "LineMatcher", symptoms: Symptoms
    ) -> bool | None:
        """Return whether the condition holds for a run; None where the run cannot show that.

        `matcher` has searched the run's lines for `line_pattern`.
        """
        if self.error is not None:
            return self.error.holds(classification)
        if self.number is not None:
            return self.number.holds(matcher.number)
        if self.present is not None:
            return matcher.matched
        if self.absent is not None:
            # A run that ends early does not print the line either.
            return (not matcher.matched) if symptoms.exit_code == 0 else None
        if self.exception is not None:
            names = (each.name for each in symptoms.shown if each.family is not Family.TEST)
            return any(name == self.exception.rpartition(".")[2] for name in names)
        if self.test is not None:
            return self._has_test_failed(symptoms)
        if self.exit_code is not None:
            return symptoms.exit_code == self.exit_code
        if self.signature is not None:
            return classification.signature == self.signature
        return classification.verdict is self.verdict

    def _has_test_failed(self, symptoms: Symptoms) -> bool | None:
        """Return whether the test failed; None where an error kept the test from checking anything."""
        failed = [
            each
            for each in symptoms.shown
            if each.family is Family.TEST and self.test in _spellings(each.name)
        ]
        errors = [each.text.partition(": ") for each in failed if each.text]
        if any(exception_family(name, message).prevents_check for name, _, message in errors):
            return None
        return bool(failed)

    @property
    def line_pattern(self) -> regex.Pattern[str] | None:
        """Return the pattern that is searched in each line."""
        return self.present or self.absent or (self.number.pattern if self.number else None)

    def missing_measurement(self, classification: Classification, matcher: "LineMatcher") -> str | None:
        """Describe the number or error that the condition needs and a finished run lacks; None if it lacks none."""
        if self.number is not None and self.number.holds(matcher.number) is None:
            return f"no number was printed as {self.number.pattern.pattern}"
        if self.error is None or not classification.verdict.traits.compares_outputs:
            return None
        is_measured = self.error.holds(classification) is not None
        return None if is_measured else f"no {measure_words(self.error.measure)} was measured"


def _spellings(test: str) -> tuple[str, ...]:
    """Return the names by which a test may be asked for: as it was printed, and without the details of unittest."""
    match = UNITTEST_NAME.fullmatch(test)
    return (test,) if match is None else (test, match["test"], match["method"])


@dataclass
class LineMatcher:
    """Searches the lines of a run for a pattern, and remembers whether one matched."""

    pattern: regex.Pattern[str] | None
    matched: bool = False
    number: str | None = None
    """The first group of the last match; None where the pattern has no group."""

    def feed(self, line: str) -> None:
        """Read one line. Raises `UserError` where the pattern takes longer than `_MAX_SEARCH_SECONDS`."""
        if self.pattern is None or (self.matched and not self.pattern.groups):
            return
        try:
            for text in plain_texts(line):
                if (match := self.pattern.search(text, timeout=_MAX_SEARCH_SECONDS)) is not None:
                    self.matched = True
                    self.number = match[1] if self.pattern.groups else None
        except TimeoutError as error:
            raise UserError(
                f"{self.pattern.pattern}: expected a pattern that is searched in one line within "
                f"{_MAX_SEARCH_SECONDS} s, found a line of {len(line)} characters that takes longer; write it without "
                "a repeat inside a repeat, such as (a+)+"
            ) from error


@dataclass(frozen=True, kw_only=True)
class JudgingRule:
    """The rules by which a run is judged."""

    bad: Condition | None = None
    """What makes a run bad. Without it, a command's run is bad if it fails as the failing end does."""
    good: Condition | None = None
    """What makes a run pass. Without it, that is the verdict `pass`, or a command's exit code 0."""
    command: bool = False
    """Whether a command behind `--` is judged. Its runs have no verdicts."""
    crash: Crash = "skip"
    """What a command that a signal ends means."""

    @classmethod
    def parse(
        cls, bad: str | None, *, good: str | None = None, command: bool = False, crash: Crash = "skip"
    ) -> "JudgingRule":
        """Parse the values of `--bad-when`, `--good-when` and `--crash`. Raises `UsageError`."""
        return cls(
            bad=None if bad is None else Condition.parse(bad, option="--bad-when", command=command),
            good=None if good is None else Condition.parse(good, option="--good-when", command=command),
            command=command,
            crash=crash,
        )

    @property
    def compares_failures(self) -> bool:
        """Return whether a failure is bad only if it resembles the failing end's."""
        return self.command and self.bad is None

    @property
    def reads_symptoms(self) -> bool:
        """Return whether the judgement depends on the errors that a run prints."""
        conditions = [each for each in (self.bad, self.good) if each is not None]
        return self.command or any(each.exception or each.test for each in conditions)

    def judge(
        self,
        classification: Classification,
        symptoms: Symptoms,
        *,
        bad_matcher: LineMatcher,
        good_matcher: LineMatcher,
    ) -> Judgement:
        """Return the judgement of a run. The matchers have searched its lines for the conditions' patterns.

        With `compares_failures`, every failure is bad here, and is compared with the failing end's later.

        Raises:
            PredicateAbortError: the command's ending stops the bisection.
        """
        if self.command and (judgement := self._judge_ending(symptoms)) is not None:
            return judgement
        if not self.command and not classification.verdict.traits.judges_commit:
            return Judgement.SKIP
        passes = symptoms.exit_code == 0 if self.command else classification.verdict is Verdict.PASS
        if self.good is not None:
            passes = self.good.holds(classification, good_matcher, symptoms) is True
        if self.bad is None and passes:
            return Judgement.GOOD
        if self.bad is None:
            return Judgement.BAD if symptoms.exit_code else Judgement.SKIP
        match self.bad.holds(classification, bad_matcher, symptoms):
            case True:
                return Judgement.BAD
            case False if passes or (self.bad.error is not None and self.good is None):
                return Judgement.GOOD
            case _:
                return Judgement.SKIP

    def judge_failed_build(self, classification: Classification) -> Judgement:
        """Return the judgement of a commit that does not build: bad if that failure is asked for, or else a skip."""
        bad = self.bad
        if bad is None or not classification.verdict.traits.judges_commit:
            return Judgement.SKIP
        has_signature = bad.signature is not None and bad.signature == classification.signature
        return Judgement.BAD if has_signature or bad.verdict is classification.verdict else Judgement.SKIP

    def _judge_ending(self, symptoms: Symptoms) -> Judgement | None:
        """Return the judgement that follows from a command's ending alone; None where its output decides."""
        code = symptoms.exit_code
        if self.bad is not None and self.bad.exit_code == code:
            return Judgement.BAD
        if code == SKIP_CODE or code in NOT_RUN:
            return Judgement.SKIP
        killed_by = signal_of(code)
        if self.crash == "stop" and (code < 0 or code >= 128):
            raise PredicateAbortError(
                f"command: expected an exit code from 0 to 127, found {_describe_exit(code, killed_by)}, which stops "
                "the bisection as --crash stop says; no verdict was recorded: fix the command and resume, or leave "
                "--crash stop out, and such a run is a skip"
            )
        if killed_by is None:
            return None
        if self.crash == "bad":
            return Judgement.BAD
        return None if self.compares_failures and killed_by not in SENT_FROM_OUTSIDE else Judgement.SKIP

    def __str__(self) -> str:
        return "the command fails" if self.bad is None else self.bad.text


def distinguishing_condition(symptoms: Symptoms, *, but_not: Symptoms) -> str | None:
    """Return a value of `--bad-when` that holds for one run and not for another; None where there is none."""
    for each in symptoms.causes:
        if each.family is Family.TEST:
            text = f"test:{each.name}"
        elif each.name.endswith(("Error", "Exception")):
            text = f"exception:{each.name}"
        else:
            continue
        condition = Condition.parse(text, option="--bad-when", command=True)
        holds, holds_for_other = (
            condition.holds(NOT_JUDGED, LineMatcher(None), each) for each in (symptoms, but_not)
        )
        if holds and not holds_for_other:
            return text
    printed = (_distinguishing_words(str(each), symptoms, but_not) for each in symptoms.causes)
    return next((f"regex:{words}" for words in printed if words), None)


_MIN_PATTERN_LENGTH = 6
"""A proposed pattern has at least this many characters, because fewer are in too many lines."""


def _distinguishing_words(error: str, symptoms: Symptoms, but_not: Symptoms) -> str | None:
    """Return the longest fixed part of an error as a pattern, if only the first of two runs prints it."""
    words = max(_MASK.split(error), key=len).strip()
    if len(words) < _MIN_PATTERN_LENGTH or any(words in line for line in but_not.last_lines):
        return None
    if not any(words in line for line in symptoms.last_lines):
        return None
    return re.sub(r"\\([ -])", r"\1", re.escape(words))


_MASK = re.compile(r"#|\S*[/.]\S*")
"""The parts of a masked line that vary: numbers, and words that may be parts of paths."""


class PredicateAbortError(UserError):
    """The ending of a command stops the bisection, as `--crash stop` says."""


def _describe_exit(exit_code: int, killed_by: str | None) -> str:
    """Describe an exit code. A shell passes on a signal as an exit code of 128 or more."""
    if killed_by is None:
        return str(exit_code)
    return (
        f"that {killed_by} killed it"
        if exit_code < 0
        else f"{exit_code} (as of a program that {killed_by} killed)"
    )


def _parse_general_condition(
    text: str, kind: str, argument: str, shown: str, *, holds_for_nan: bool
) -> Condition | None:
    """Return a condition that applies to any run; None for another kind of condition."""
    match kind:
        case "regex":
            return Condition(text=text, present=_parse_pattern(shown, "regex:", argument))
        case "not-regex":
            return Condition(text=text, absent=_parse_pattern(shown, "not-regex:", argument))
        case "exception":
            return Condition(text=text, exception=argument.strip())
        case "test":
            return Condition(text=text, test=argument.strip())
        case "exit":
            return Condition(text=text, exit_code=_parse_exit_code(shown, argument))
        case "log":
            return Condition(
                text=text, number=_parse_printed_number(shown, argument, holds_for_nan=holds_for_nan)
            )
        case _:
            return None


def _parse_pattern(shown: str, kind: str, pattern: str) -> regex.Pattern[str]:
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise UsageError(f"{shown}: expected a regular expression after {kind}, but {error}") from error


def _parse_exit_code(shown: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 3 or int(text) > 255:
        raise UsageError(f"{shown}: expected a number from 0 to 255 after exit:, found {text!r}")
    return int(text)


def _parse_printed_number(shown: str, text: str, *, holds_for_nan: bool) -> PrintedNumber:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{shown}: expected log:/PATTERN/ > NUMBER, such as 'log:/error: (\\S+)/ > 0.002', found {text!r}"
        )
    pattern = _parse_pattern(shown, "log:", found["pattern"])
    if pattern.groups != 1:
        raise UsageError(
            f"{shown}: expected one group around the number, such as (\\S+), found {pattern.groups} groups"
        )
    try:
        limit = float(found["limit"])
    except ValueError:
        limit = math.nan
    if math.isnan(limit):
        raise UsageError(f"{shown}: expected a number to compare with, found {found['limit']!r}")
    return PrintedNumber(pattern=pattern, compare=found["compare"], limit=limit, holds_for_nan=holds_for_nan)


def _parse_size(shown: str, measure: str, number: str) -> float:
    try:
        size = float(number)
    except ValueError:
        size = math.nan
    if not 0 <= size < math.inf:
        raise UsageError(f"{shown}: expected a number, 0 or more, after {measure}:, found {number!r}")
    return size


VERDICT_BY_JUDGEMENT = {
    Judgement.GOOD: Verdict.PASS,
    Judgement.BAD: Verdict.MISMATCH,
    Judgement.SKIP: Verdict.UNKNOWN,
}
"""The store has these verdicts where a command or a person judges. Each failure of a command is a `mismatch`, whose
signature says which failure it is."""

_MAX_SIGNATURE = 160
"""A signature has at most this many characters, so that it stays one line of a table."""


class Listener:
    """Reads the output of a run, and judges the run at its end.

    `begin_line` precedes the case's own lines in each stream; None where all lines are the case's.
    """

    def __init__(self, classifier: Classifier, rule: JudgingRule, *, begin_line: str | None = None) -> None:
        self._classifier = classifier
        self._rule = rule
        self._symptoms = SymptomReader()
        self._bad_matcher, self._good_matcher = (
            LineMatcher(None if condition is None else condition.line_pattern)
            for condition in (rule.bad, rule.good)
        )
        self._begin_line = begin_line
        self._begun: set[str] = set()
        """The streams in which the case's own lines have begun."""
        self._lines = 0

    @property
    def case_began(self) -> bool:
        """Return whether the case was reached."""
        return self._begin_line is None or bool(self._begun)

    def feed(self, stream: OutputStream, line: str) -> None:
        """Read one line of the run."""
        self._lines += 1
        if self._begin_line is not None and stream not in self._begun:
            if line.rstrip("\r\n") == self._begin_line:
                self._begun.add(stream)
            return
        self._classifier.feed_numbered(stream, self._lines, line)
        if self._rule.reads_symptoms:
            self._symptoms.feed(stream, self._lines, line)
        self._bad_matcher.feed(line)
        self._good_matcher.feed(line)

    def skim(self, stream: OutputStream, lines: bytes) -> bool:
        """Read whole lines at once, if that has the same effect as `feed` for each of them; else return False."""
        has_pattern = self._bad_matcher.pattern is not None or self._good_matcher.pattern is not None
        if self._begin_line is not None or has_pattern:
            return False
        first = self._lines + 1
        if not self._classifier.skim(stream, first, lines):
            return False
        if self._rule.reads_symptoms:
            self._symptoms.skim(stream, first, lines)
        self._lines += lines.count(b"\n")
        return True

    def finish(
        self, ending: Ending, outcome: HarnessOutcome | None, *, kernels: Mapping[int, str]
    ) -> tuple[Classification, Judgement, Symptoms]:
        """Return the classification and the judgement of the whole run, and its symptoms of a failure.

        `kernels` are the names of its kernels by function id.
        """
        found = self._classifier.finish(ending, outcome, kernels=kernels)
        symptoms = self._symptoms.finish(ending)
        if ending.timed_out and self._rule.command:
            return found, Judgement.SKIP, symptoms
        judgement = self._rule.judge(
            found, symptoms, bad_matcher=self._bad_matcher, good_matcher=self._good_matcher
        )
        if self._rule.command:
            return self._classify_command(found, judgement, symptoms), judgement, symptoms
        missing = self._missing_measurement(found)
        return found if missing is None else replace(found, signature=missing), judgement, symptoms

    def _missing_measurement(self, found: Classification) -> str | None:
        bad = self._rule.bad
        return None if bad is None else bad.missing_measurement(found, self._bad_matcher)

    def _classify_command(
        self, found: Classification, judgement: Judgement, symptoms: Symptoms
    ) -> Classification:
        """Return the classification of a command's run. The signature describes its failure or the reason of a skip."""
        verdict = VERDICT_BY_JUDGEMENT[judgement]
        if judgement is Judgement.SKIP and signal_of(symptoms.exit_code) is not None:
            verdict = Verdict.CRASH
        signature = None if judgement is Judgement.GOOD else describe_failure(symptoms)
        evidence = found.evidence
        cause = None if judgement is Judgement.GOOD else self._symptoms.cause_line
        if cause is not None and all(strip_time_stamp(each.text) != cause.text for each in evidence):
            why = "the first error that it names"
            shown = Evidence(stream=cause.stream, line=cause.number, text=cause.text, why=why)
            evidence = (*evidence, shown)
        if cause is not None and symptoms.missing_test and (near := _nearest_test(cause.text)) is not None:
            text = f"did you mean {near}?"
            evidence = (*evidence, Evidence(stream="ending", line=0, text=text, why="the file has that test"))
        missing = self._missing_measurement(found) if judgement is Judgement.SKIP else None
        if missing is not None:
            signature = f"{signature}; {missing}" if signature else missing
        return replace(
            found,
            verdict=verdict,
            signature=signature,
            evidence=evidence,
            source=VerdictSource.EXIT_CODE,
        )


_MAX_TEST_BYTES = 1 << 20
"""A larger file is not read for the names of its tests."""


def _nearest_test(line: str) -> str | None:
    """Return the test that is named most like the one that pytest did not find, by the line in which it says so."""
    path, _, wanted = line.rpartition(" ")[2].partition("::")
    file = Path(path)
    with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        if file.is_file() and file.stat().st_size <= _MAX_TEST_BYTES:
            names = [*_test_names(ast.parse(file.read_bytes()).body)]
            near = nearest_name(wanted.partition("[")[0], names)
            return None if near is None else f"{file.name}::{near}"
    return None


def _test_names(body: Sequence[ast.stmt], *, inside: str = "") -> Iterator[str]:
    """Yield the ids of the functions and classes of a module, without the file."""
    for each in body:
        if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{inside}{each.name}"
        if isinstance(each, ast.ClassDef):
            yield from _test_names(each.body, inside=f"{inside}{each.name}::")


def describe_failure(symptoms: Symptoms) -> str:
    """Describe a command's run that does not pass, by its exit code and the first error that it names."""
    code = vocabulary.exit_code_signature(symptoms.exit_code)
    if symptoms.exit_code in NOT_RUN:
        return f"{code}: the command {NOT_RUN[symptoms.exit_code]} at this commit"
    return ": ".join(filter(None, (code, str(symptoms))))[:_MAX_SIGNATURE]


def case_missing(case: CaseName) -> Classification:
    """Classify a commit that does not have the case."""
    return _untestable(
        "case missing",
        text=f"no {case.path} at this commit",
        why="the case does not exist here, so nothing was run",
    )


def perturbation_missing(missing: Sequence[str]) -> Classification:
    """Classify a run on a machine that lacks what the run's perturbation needs."""
    return _untestable(
        "perturbation missing",
        text=f"no {', '.join(missing)} on this machine",
        why="the perturbation of this run needs it, so nothing was run",
    )


def case_not_reached(ending: Ending) -> Classification:
    """Classify a run in which a script before the case ended the process, or used all its time."""
    return _untestable(
        "case not reached",
        text=f"{_describe_ending(ending)} before the case began",
        why="what --after names did not leave the process to the case",
    )


def _describe_ending(ending: Ending) -> str:
    if ending.timed_out:
        return "the time was over"
    if ending.signal is not None:
        return f"signal {ending.signal} ended the process"
    return f"the process ended with exit code {ending.exit_code}"


def not_frozen(option: str, why: str) -> Classification:
    """Classify a commit at which the case cannot use the data or build directory of `option`."""
    signature = {"--golden-data": "data not frozen", "--runtime-dir": "build not frozen"}[option]
    return _untestable(
        signature, text=f"{option}: {why}", why=f"{signature}: a verdict would be of something else"
    )


def submodule_missing(error: str) -> Classification:
    """Classify a commit that pins a submodule at a commit which the checkout does not have."""
    return _untestable(error, text=error, why="with an empty folder in its place it is another experiment")


def files_missing(error: str) -> Classification:
    """Classify a commit that cannot be checked out whole, for lack of objects or because of a file's name."""
    return _untestable(error, text=error, why="without these files it is another experiment")


def patch_conflict(error: str) -> Classification:
    """Classify a commit to which the patch that was to repair it does not apply."""
    text = f"cherry-pick: {error}"
    untestable = _untestable(text, text=text, why="without the patch it is another experiment")
    return replace(untestable, source=VerdictSource.PATCH_CONFLICT)


def _untestable(signature: str, *, text: str, why: str) -> Classification:
    """Return a classification with the verdict `unknown`. Its evidence has `text` in place of a printed line."""
    evidence = Evidence(stream="ending", line=0, text=text, why=why)
    return Classification(
        verdict=Verdict.UNKNOWN, signature=signature[:_MAX_SIGNATURE], evidence=(evidence,), metrics={}
    )
