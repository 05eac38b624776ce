"""Judges a run by what it printed and how it ended.

A run has three outcomes. Bad is the failure that was asked for. Good is a validated pass. Everything else is a skip,
which says nothing about the commit: a run that crashes before its check, for example. `--bad-when`, `--good-when`,
`--crash` and the exit code of a command decide. `Condition` and `BadWhen` are these rules, and `Listener` applies them
to a run. The functions at the end make the verdicts of commits where nothing ran.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import regex

from ...store import vocabulary
from ...store.vocabulary import Evidence, Judgement, Verdict, VerdictSource
from ..case.case import CaseName
from ..errors import UsageError, UserError
from ..verdict.classify import Classification, Classifier, Ending, HarnessOutcome, plain_texts
from ..verdict.rules import MEASURES, SENT_FROM_OUTSIDE, error_size, measure_words, signal_of
from ..verdict.symptoms import Family, SymptomReader, Symptoms, family_of_exception

Crash = Literal["skip", "bad", "stop"]
"""A command that a signal ends has one of these outcomes.

The default is a skip, unless the failing end crashes in the same way. Other choices are bad, and the end of the
bisection, as with `git bisect run`."""
SKIP_CODE = 125
"""A command says with this exit code that it cannot judge a commit, as `git bisect run` has it."""

NOT_RUN: Mapping[int, str] = {126: "cannot be run", 127: "was not found"}
"""A shell reports with these exit codes that it could not run a command. Each has a description."""
NOT_JUDGED = Classification(verdict=Verdict.UNKNOWN, signature=None, evidence=(), metrics={})
"""A run of which nothing is known yet has this classification."""
_GENERAL_CONDITIONS = (
    "regex:PATTERN, not-regex:PATTERN, exception:TYPE, test:ID, exit:CODE, or a printed number: "
    "'log:/error: (\\S+)/ > 0.002'"
)
_STACK_CONDITIONS = f"a verdict, signature:TEXT, an error such as {MEASURES[0]}:1e-4, {_GENERAL_CONDITIONS}"
_LONGEST_SEARCH = 10
"""A pattern of a person may take this many seconds for one line. Only one that tries each way to cut a line takes so
long. Python's own `re` would go on for years, and nothing could stop the run."""
_NUMBER = re.compile(r"/(?P<pattern>.+)/\s*(?P<compare>[<>]=?)\s*(?P<limit>\S+)")
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True, kw_only=True)
class ErrorAbove:
    """Errors larger than `size` by one of `MEASURES`, whatever the case's own tolerance is."""

    measure: str
    size: float

    def holds(self, classification: Classification) -> bool | None:
        """Return whether the error is larger; None where nothing was compared, or its error was not measured."""
        found = error_size(classification.metrics, self.measure)
        if found is None or not classification.verdict.traits.compares_outputs:
            return None
        return found.value > self.size


@dataclass(frozen=True, kw_only=True)
class PrintedNumber:
    """A number that the run prints, compared with a limit.

    The last number that is printed counts. nan counts as bad: it is over the limit or under it, whichever is asked.
    """

    pattern: regex.Pattern[str]
    compare: str
    limit: float

    def holds(self, printed: str | None) -> bool | None:
        """Return whether the number is bad; None where none was printed."""
        try:
            number = math.nan if printed is None else float(printed.rstrip(".,;:"))
        except ValueError:
            return None
        if printed is None:
            return None
        return math.isnan(number) or _COMPARISONS[self.compare](number, self.limit)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One thing that a run may show, in the words of `text`. `parse` makes conditions."""

    text: str
    verdict: Verdict | None = None
    signature: str | None = None
    matches: regex.Pattern[str] | None = None
    lacks: regex.Pattern[str] | None = None
    exception: str | None = None
    test: str | None = None
    exit_code: int | None = None
    error: ErrorAbove | None = None
    number: PrintedNumber | None = None

    @classmethod
    def parse(cls, text: str, *, option: str, command: bool) -> "Condition":
        """Parse the value of an option.

        `command` says whether a command behind `--` is judged, which has no verdicts.

        Raises:
            UsageError: it is no condition, or it is a verdict that cannot be bad.
        """
        kind, colon, argument = text.partition(":")
        shown = f"{option} {text}"
        if (
            colon
            and argument.strip()
            and (found := _parse_general_condition(text, kind, argument, shown)) is not None
        ):
            return found
        if command:
            instead = (
                f"'log:/{kind}: (\\S+)/ > {argument}'" if kind in MEASURES else "exception:AssertionError"
            )
            raise UsageError(
                f"{shown}: expected {_GENERAL_CONDITIONS}, for a command behind --; such as {option} {instead}"
            )
        if kind == "signature" and argument.strip():
            return cls(text=text, signature=argument.strip())
        if colon and kind in MEASURES:
            return cls(text=text, error=ErrorAbove(measure=kind, size=_size(shown, kind, argument)))
        allowed = [verdict for verdict in Verdict if verdict.traits.can_be_bad]
        if colon or text not in allowed:
            raise UsageError(f"{shown}: expected one of {', '.join(allowed)}, or {_STACK_CONDITIONS}")
        return cls(text=text, verdict=Verdict(text))

    def holds(self, classification: Classification, seen: "LineMatcher", symptoms: Symptoms) -> bool | None:
        """Return whether the run shows the condition; None where this run cannot show it or its absence."""
        if self.error is not None:
            return self.error.holds(classification)
        if self.number is not None:
            return self.number.holds(seen.number)
        if self.matches is not None:
            return seen.matched
        if self.lacks is not None:
            # A run that ends early does not print the line either.
            return (not seen.matched) if symptoms.exit_code == 0 else None
        if self.exception is not None:
            names = (each.name for each in symptoms.shown if each.family is not Family.TEST)
            return any(name == self.exception.rpartition(".")[2] for name in names)
        if self.test is not None:
            return self._test_failed(symptoms)
        if self.exit_code is not None:
            return symptoms.exit_code == self.exit_code
        if self.signature is not None:
            return classification.signature == self.signature
        return classification.verdict is self.verdict

    def _test_failed(self, symptoms: Symptoms) -> bool | None:
        failed = [
            each
            for each in symptoms.shown
            if each.family is Family.TEST and f"{each.name} ".startswith(f"{self.test} ")
        ]
        details = [each.text.partition(": ") for each in failed if each.text]
        if any(family_of_exception(name, said).prevents_check for name, _, said in details):
            return None
        return bool(failed)

    @property
    def line_pattern(self) -> regex.Pattern[str] | None:
        """Return the pattern that is searched in each line."""
        return self.matches or self.lacks or (self.number.pattern if self.number else None)

    def missing_measurement(self, classification: Classification, seen: "LineMatcher") -> str | None:
        """Describe what was not measured in a run that reached its end; None where nothing is missing."""
        if self.number is not None and self.number.holds(seen.number) is None:
            return f"no number was printed as {self.number.pattern.pattern}"
        if self.error is None or not classification.verdict.traits.compares_outputs:
            return None
        measured = self.error.holds(classification) is not None
        return None if measured else f"no {measure_words(self.error.measure)} was measured"


@dataclass
class LineMatcher:
    """What a condition's pattern has matched so far."""

    pattern: regex.Pattern[str] | None
    matched: bool = False
    number: str | None = None
    """The first group of the last match."""
    _takes_number: bool = field(init=False)

    def __post_init__(self) -> None:
        self._takes_number = self.pattern is not None and self.pattern.groups > 0

    def feed(self, line: str) -> None:
        """Read one line. Raises `UserError` where the pattern takes longer than `_LONGEST_SEARCH`."""
        if self.pattern is None or (self.matched and not self._takes_number):
            return
        try:
            for text in plain_texts(line):
                if (match := self.pattern.search(text, timeout=_LONGEST_SEARCH)) is not None:
                    self.matched = True
                    self.number = match[1] if self._takes_number else None
        except TimeoutError as error:
            raise UserError(
                f"{self.pattern.pattern}: expected a pattern that is searched in one line within "
                f"{_LONGEST_SEARCH} s, found a line of {len(line)} characters that takes longer; write it without a "
                "repeat inside a repeat, such as (a+)+"
            ) from error


@dataclass(frozen=True, kw_only=True)
class BadWhen:
    """How a run is judged.

    `bad` is what is bad. Without it, a command is bad that fails as the failing end does. `good` is what a pass has to
    show. Without it, that is the verdict `pass`, or exit code 0 of a command. `command` says whether a command behind
    `--` is judged.
    """

    bad: Condition | None = None
    good: Condition | None = None
    command: bool = False
    crash: Crash = "skip"

    @classmethod
    def parse(
        cls, bad: str | None, *, good: str | None = None, command: bool = False, crash: Crash = "skip"
    ) -> "BadWhen":
        """Parse the conditions. Raises `UsageError` where one is none."""
        return cls(
            bad=None if bad is None else Condition.parse(bad, option="--bad-when", command=command),
            good=None if good is None else Condition.parse(good, option="--good-when", command=command),
            command=command,
            crash=crash,
        )

    @property
    def compares_failures(self) -> bool:
        """Return whether a failure is bad that resembles the failing end's."""
        return self.command and self.bad is None

    @property
    def reads_symptoms(self) -> bool:
        """Return whether the errors that a run prints matter."""
        asked = (self.bad, self.good)
        return self.command or any(each is not None and (each.exception or each.test) for each in asked)

    def judge(
        self, classification: Classification, symptoms: Symptoms, *, of_bad: LineMatcher, of_good: LineMatcher
    ) -> Judgement:
        """Return the judgement of a run.

        Where failures are judged by their likeness, every failure is bad here. Whether it differs from the failing
        end's is judged later.

        Raises:
            PredicateAbortError: the command asks for the bisection to stop.
        """
        if self.command and (ended := self._judge_ending(symptoms)) is not None:
            return ended
        if not self.command and not classification.verdict.traits.judges_commit:
            return Judgement.SKIP
        passes = symptoms.exit_code == 0 if self.command else classification.verdict is Verdict.PASS
        if self.good is not None:
            passes = self.good.holds(classification, of_good, symptoms) is True
        if self.bad is None:
            return Judgement.GOOD if passes else Judgement.BAD if symptoms.exit_code else Judgement.SKIP
        match self.bad.holds(classification, of_bad, symptoms):
            case True:
                return Judgement.BAD
            case False if passes or self.bad.error is not None:
                return Judgement.GOOD
            case _:
                return Judgement.SKIP

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
                f"command: expected an exit code from 0 to 127, found {_ending(code, killed_by)}, which stops the "
                "bisection as --crash stop says; no verdict was recorded: mend the command and resume, or leave "
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
    """Return a value of `--bad-when` that one run shows and another does not; None where there is none."""
    for each in symptoms.causes:
        text = f"test:{each.name}" if each.family is Family.TEST else f"exception:{each.name}"
        if each.family is not Family.TEST and not each.name.endswith(("Error", "Exception")):
            continue
        condition = Condition.parse(text, option="--bad-when", command=True)
        if not condition.holds(NOT_JUDGED, LineMatcher(None), but_not):
            return text
    return None


class PredicateAbortError(UserError):
    """The command asks for the bisection to stop."""


def _ending(exit_code: int, killed_by: str | None) -> str:
    """Describe an exit code. That of a signal is described by the signal's name, also where a shell passed it on."""
    if killed_by is None:
        return str(exit_code)
    return (
        f"that {killed_by} killed it"
        if exit_code < 0
        else f"{exit_code} (as of a program that {killed_by} killed)"
    )


def _parse_general_condition(text: str, kind: str, argument: str, shown: str) -> Condition | None:
    """Return a condition that applies to any run; None for another kind of condition."""
    match kind:
        case "regex":
            return Condition(text=text, matches=_pattern(shown, "regex:", argument))
        case "not-regex":
            return Condition(text=text, lacks=_pattern(shown, "not-regex:", argument))
        case "exception":
            return Condition(text=text, exception=argument.strip())
        case "test":
            return Condition(text=text, test=argument.strip())
        case "exit":
            return Condition(text=text, exit_code=_exit_code(shown, argument))
        case "log":
            return Condition(text=text, number=_parse_printed_number(shown, argument))
        case _:
            return None


def _pattern(shown: str, kind: str, pattern: str) -> regex.Pattern[str]:
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise UsageError(f"{shown}: expected a regular expression after {kind}, but {error}") from error


def _exit_code(shown: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 3 or int(text) > 255:
        raise UsageError(f"{shown}: expected a number from 0 to 255 after exit:, found {text!r}")
    return int(text)


def _parse_printed_number(shown: str, text: str) -> PrintedNumber:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{shown}: expected log:/PATTERN/ > NUMBER, such as 'log:/error: (\\S+)/ > 0.002', found {text!r}"
        )
    pattern = _pattern(shown, "log:", found["pattern"])
    if pattern.groups != 1:
        raise UsageError(
            f"{shown}: expected one group around the number, such as (\\S+), found {pattern.groups} groups"
        )
    try:
        limit = float(found["limit"])
    except ValueError:
        raise UsageError(f"{shown}: expected a number to compare with, found {found['limit']!r}") from None
    return PrintedNumber(pattern=pattern, compare=found["compare"], limit=limit)


def _size(shown: str, measure: str, number: str) -> float:
    try:
        size = float(number)
    except ValueError:
        size = math.nan
    if not 0 <= size < math.inf:
        raise UsageError(f"{shown}: expected a number, 0 or more, after {measure}:, found {number!r}")
    return size


_COMMAND_VERDICTS = {
    Judgement.GOOD: Verdict.PASS,
    Judgement.BAD: Verdict.MISMATCH,
    Judgement.SKIP: Verdict.UNKNOWN,
}

_MAX_SIGNATURE = 160
"""A signature has at most this many characters, so that it stays one line of a table."""


class Listener:
    """Passes output to the classifier and to the reader of symptoms, and searches it for the conditions' patterns.

    `begins` is the line before the case's own lines, in each stream; None where all lines are the case's.
    """

    def __init__(self, classifier: Classifier, bad_when: BadWhen, *, begins: str | None = None) -> None:
        self._classifier = classifier
        self._bad_when = bad_when
        self._symptoms = SymptomReader()
        self._of_bad, self._of_good = (
            LineMatcher(None if condition is None else condition.line_pattern)
            for condition in (bad_when.bad, bad_when.good)
        )
        self._begins = begins
        self._begun: set[str] = set()
        self._lines = 0

    @property
    def case_began(self) -> bool:
        """Return whether the case was reached."""
        return self._begins is None or bool(self._begun)

    def feed(self, stream: str, line: str) -> None:
        """Read one line of the run."""
        self._lines += 1
        if self._begins is not None and stream not in self._begun:
            if line.rstrip("\r\n") == self._begins:
                self._begun.add(stream)
            return
        self._classifier.feed_numbered("stdout" if stream == "stdout" else "stderr", self._lines, line)
        if self._bad_when.reads_symptoms:
            self._symptoms.feed(stream, line)
        self._of_bad.feed(line)
        self._of_good.feed(line)

    def skim(self, stream: str, lines: bytes) -> bool:
        """Read whole lines at once, if that has the same effect as reading them one by one.

        Otherwise it reads none, and returns False.
        """
        if self._begins is not None or self._of_bad.pattern is not None or self._of_good.pattern is not None:
            return False
        first = self._lines + 1
        if not self._classifier.skim("stdout" if stream == "stdout" else "stderr", first, lines):
            return False
        if self._bad_when.reads_symptoms:
            self._symptoms.skim(stream, lines)
        self._lines += lines.count(b"\n")
        return True

    def finish(
        self, ending: Ending, outcome: HarnessOutcome | None, *, kernels: Mapping[int, str]
    ) -> tuple[Classification, Judgement, Symptoms]:
        """Return the verdict and the judgement of the whole run, and its symptoms of a failure.

        `kernels` are the names of its kernels by function id.
        """
        found = self._classifier.finish(ending, outcome, kernels=kernels)
        symptoms = self._symptoms.finish(ending)
        if ending.timed_out and self._bad_when.command:
            return found, Judgement.SKIP, symptoms
        judgement = self._bad_when.judge(found, symptoms, of_bad=self._of_bad, of_good=self._of_good)
        if self._bad_when.command:
            return self._classify_command(found, judgement, symptoms), judgement, symptoms
        lacks = self._bad_when.bad.missing_measurement(found, self._of_bad) if self._bad_when.bad else None
        return found if lacks is None else replace(found, signature=lacks), judgement, symptoms

    def _classify_command(
        self, found: Classification, judgement: Judgement, symptoms: Symptoms
    ) -> Classification:
        """Return the verdict on a command's run, with the line that names the cause.

        The verdict is its judgement, or the reason of a skip.
        """
        verdict = _COMMAND_VERDICTS[judgement]
        if judgement is Judgement.SKIP and signal_of(symptoms.exit_code) is not None:
            verdict = Verdict.CRASH
        signature = None if judgement is Judgement.GOOD else describe_failure(symptoms)
        evidence = found.evidence
        if judgement is not Judgement.GOOD and (line := self._symptoms.cause_line) is not None:
            told = Evidence(stream="stdout", line=0, text=line, why="the first error that it names")
            evidence = (*evidence, *([] if any(each.text == line for each in evidence) else [told]))
        bad = self._bad_when.bad
        if (
            judgement is Judgement.SKIP
            and bad is not None
            and (lacks := bad.missing_measurement(found, self._of_bad))
        ):
            signature = f"{signature}; {lacks}" if signature else lacks
        return replace(
            found,
            verdict=verdict,
            signature=signature,
            evidence=evidence,
            source=VerdictSource.EXIT_CODE,
        )


def describe_failure(symptoms: Symptoms) -> str:
    """Describe a failure, or skip, of a command by its exit code and the first error that it names."""
    code = vocabulary.exit_code(symptoms.exit_code)
    if symptoms.exit_code in NOT_RUN:
        return f"{code}: the command {NOT_RUN[symptoms.exit_code]} at this commit"
    return ": ".join(filter(None, (code, str(symptoms))))[:_MAX_SIGNATURE]


def case_missing(case: CaseName) -> Classification:
    """The commit has no such case."""
    return _untestable(
        "case missing",
        text=f"no {case.path} at this commit",
        why="the case does not exist here, so nothing was run",
    )


def perturbation_missing(lacks: Sequence[str]) -> Classification:
    """The machine lacks something that the run's perturbation needs."""
    evidence = Evidence(
        stream="ending",
        line=0,
        text=f"no {', '.join(lacks)} on this machine",
        why="the perturbation of this run needs it, so nothing was run",
    )
    return Classification(
        verdict=Verdict.UNKNOWN, signature="perturbation missing", evidence=(evidence,), metrics={}
    )


def case_not_reached(ending: Ending) -> Classification:
    """Something that ran before the case ended the process, or used all its time."""
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
    """The case cannot use the data, or the build directory, that `option` freezes."""
    signature = {"--golden-data": "data not frozen", "--runtime-dir": "build not frozen"}[option]
    return _untestable(
        signature, text=f"{option}: {why}", why=f"{signature}: a verdict would be of something else"
    )


def submodule_missing(what: str) -> Classification:
    """A submodule is pinned at a commit that the checkout does not have."""
    return _untestable(what, text=what, why="with an empty folder in its place it is another experiment")


def files_missing(what: str) -> Classification:
    """A commit cannot be checked out whole: a partial or damaged clone lacks objects, or the disk refuses a name."""
    return _untestable(what, text=what, why="without these files it is another experiment")


def patch_conflict(what: str) -> Classification:
    """A patch that was to repair the commit does not apply to it."""
    said = f"cherry-pick: {what}"
    untestable = _untestable(said, text=said, why="without the patch it is another experiment")
    return replace(untestable, source=VerdictSource.PATCH_CONFLICT)


def _untestable(signature: str, *, text: str, why: str) -> Classification:
    """Nothing is known of the commit.

    `text` is what was found instead of a run's line. `why` says why that shows nothing.
    """
    evidence = Evidence(stream="ending", line=0, text=text, why=why)
    return Classification(
        verdict=Verdict.UNKNOWN, signature=signature[:_MAX_SIGNATURE], evidence=(evidence,), metrics={}
    )
