"""Makes one verdict of what a process printed, how it ended and what the harness returned.

`Classifier` reads the output line by line and decides at the end. `classify_build_failure` does this for a build step.
Other classes hold what was read:

- `HarnessOutcome` has what each call of the golden harness returned, as `shim.py` wrote it. The process that runs the
  code under test writes that file, so nothing in it is trusted before it is checked.
- `MismatchReport` has the outputs that failed the comparison, and by how much.
- `StallReport` has the kernels that a runtime was waiting for when it gave up.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...store.vocabulary import Evidence, Stream, Verdict, VerdictSource
from ..errors import UserError
from .output_lines import (
    TRACEBACK_MARKS,
    Tracebacks,
    find_required_texts,
    plain_texts,
    relevant_line_spans,
    remove_variable_parts,
    search,
)
from .rules import BUILD_RULES, Ending, VerdictRule, compiler_error

MAX_BYTES = 16 << 20
"""A larger outcome of a harness is not read. The run under test may write any size."""

Text = Annotated[str, Field(max_length=1 << 16)]
Name = Annotated[str, Field(max_length=256)]
Setting = bool | int | Text


class HarnessOutcomeError(UserError):
    """The file is not what the shim writes."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class HarnessException(_Record):
    """An exception that left the harness."""

    type: Name
    message: Text

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"

    @property
    def first_line(self) -> str:
        """Return the type and the first line of the message."""
        return str(self).partition("\n")[0]


class HarnessCall(_Record):
    """One call of `golden.run` or `golden.run_jit`."""

    function: Literal["run", "run_jit"]
    finished: bool
    """False if the process ended inside the call."""
    passed: bool | None
    """Whether the returned result says that the call passed; None if it returned no result."""
    validated: bool
    """Whether the call compared outputs. False if it only compiled, or got nothing to compare with."""
    error: Text | None
    work_dir: Text | None
    execution_time: float | None
    """The time of the execution, in seconds."""
    exception: HarnessException | None
    applied: Annotated[dict[Name, Setting], Field(max_length=32)]
    """Settings that the shim passed to the call."""
    replaced: Annotated[dict[Name, Text], Field(max_length=32)]
    """The case's own arguments that the shim replaced."""
    not_applied: Annotated[dict[Name, Text], Field(max_length=32)]
    """Settings that this revision of the harness does not have, with the reason."""
    measures: Annotated[dict[Name, dict[Name, float]], Field(max_length=64)] = {}
    """The errors of each compared output by measure. A measure that is undefined for an output is left out.

    `beyond_tolerance` and `not_finite` are shares of the elements. `times_tolerance` is the worst element's error over
    its tolerance. `relative_l2` is the error of the whole tensor."""


class Interpreter(_Record):
    """The Python that ran the case."""

    executable: Text
    version: Name
    implementation: Name


class HarnessOutcome(_Record):
    """All calls of one run of a case, in the order in which they began."""

    schema_version: Literal[1]
    interpreter: Interpreter
    began: int | None = None
    """The time at which the case began, in nanoseconds of the file system's clock, if other scripts ran before it."""
    calls: Annotated[tuple[HarnessCall, ...], Field(strict=False, max_length=10_000)]


def read_harness_outcome(path: Path, *, hide: Callable[[bytes], bytes] = bytes) -> HarnessOutcome | None:
    """Read the file at `path`; None if there is none. `hide` removes secrets from the text before it is parsed.

    Raises:
        HarnessOutcomeError: not a regular file, over `MAX_BYTES`, not JSON, or not of the shim's schema.
    """
    try:
        # A link could lead anywhere, and opening a pipe that the case left there would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _outcome_error(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _outcome_error(path, "something else than a regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _outcome_error(path, f"more than {MAX_BYTES} bytes")
    try:
        return HarnessOutcome.model_validate_json(hide(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        raise _outcome_error(path, f"{where}: {first['msg']}" if where else first["msg"]) from error


def _outcome_error(path: Path, problem: str) -> HarnessOutcomeError:
    plain = " ".join(problem.split())[:300].encode("unicode_escape").decode()
    return HarnessOutcomeError(
        f"{path}: expected the harness outcome that shim.py writes, found {plain}; run the case again"
    )


EVIDENCE_PER_RULE = 4
"""Each rule keeps at most this many lines of evidence. A loop may print the same error without end."""
LAST_LINES = 5
"""This many of the last lines are evidence if no rule decides. They mostly say why a run ended."""
MAX_CALLS_SHOWN = 16
"""The evidence lists at most this many calls of the harness. A case may make thousands."""

COMPILER_REASON, EXCEPTION_REASON = "what a compiler says", "an exception that it printed"
"""If no rule names the cause of a failure, evidence with one of these reasons does."""
_COMPILER_ERROR_MARKS = (b"error: ", b"\x1b")
"""A line with a compiler's error has one of these texts. In a coloured line, escapes may stand within `error: `."""
_TAIL_LINES = 4 * LAST_LINES
"""Of skipped lines, only this many of the last are decoded. Mostly `LAST_LINES` of them are not blank."""


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The verdict on one run. `metrics` holds finite numbers by output name and measure."""

    verdict: Verdict
    signature: str | None
    evidence: tuple[Evidence, ...]
    metrics: Mapping[str, Mapping[str, float]]
    source: VerdictSource = VerdictSource.OUTPUT


@dataclass(eq=False)
class _Hits:
    """What one rule has matched so far."""

    rule: VerdictRule
    evidence: list[Evidence] = field(default_factory=list[Evidence])
    signature: str | None = None
    first: re.Match[str] | None = None
    place: int = 0
    """The number of texts that were matched up to `first`. It orders the first matches of several rules."""
    required_seen: bool = False
    excluded_seen: bool = False

    @property
    def holds(self) -> bool:
        """Return whether the rule counts for this output."""
        required = self.rule.requires is None or self.required_seen
        return bool(self.evidence) and required and not self.excluded_seen

    def feed(
        self, stream: Stream, number: int, text: str, *, place: int, raised_in: str | None
    ) -> re.Match[str] | None:
        """Take a line, and return the match of the rule's pattern.

        `raised_in` is the file of the innermost frame if the line ends a traceback.
        """
        rule = self.rule
        if rule.requires is not None and not self.required_seen:
            self.required_seen = search(rule.requires, text) is not None
        if rule.unless is not None and not self.excluded_seen:
            self.excluded_seen = search(rule.unless, text) is not None
        if rule.raised_in is not None and not (raised_in and rule.raised_in.search(raised_in)):
            return None
        match = search(rule.pattern, text) if rule.stream in ("any", stream) else None
        if match is not None:
            if self.first is None:
                self.first, self.place = match, place
            if len(self.evidence) < EVIDENCE_PER_RULE:
                why = f"says {rule.verdict}"
                self.evidence.append(Evidence(stream=stream, line=number, text=text, why=why))
            self.signature = self.signature or rule.signature_of(match)
        return match


class Classifier:
    """Reads output as it comes, in bounded memory, and returns the verdict at the end.

    It decides in this order:

    1. A success needs exit code 0. If the harness reported its calls, all of them must have passed. Without a report, a
       `pass` rule must have matched and no `mismatch` rule. If a call or a line says that nothing was compared, the
       verdict is `not_validated`.
    2. Otherwise the first rule in the list decides that matched and may decide under this ending. If that rule is
       chronological, the chronological rule whose line came first gives the verdict.
    3. Otherwise the ending decides: `timeout`, `crash`, or `unknown`. A signal that others send, such as SIGKILL, is an
       `environment_error`, because it says nothing about the program.

    Error texts from the harness are matched by the same rules as printed lines.
    """

    def __init__(self, rules: Sequence[VerdictRule]) -> None:
        self._hits = [_Hits(rule) for rule in rules]
        self._required_texts = _find_texts_of_rules(rules)
        self._last_lines: deque[tuple[Stream, int, str]] = deque(maxlen=LAST_LINES)
        self._compiler_errors: list[Evidence] = []
        self._exception: Evidence | None = None
        self._printed = MismatchReport()
        self._returned = MismatchReport()
        self._open_rule: dict[str, VerdictRule] = {}
        stalls = [rule for rule in rules if rule.verdict is Verdict.STALL]
        self._stall_details = tuple(dict.fromkeys(detail for rule in stalls for detail in rule.details))
        self._stall = StallReport()
        self._tracebacks = Tracebacks()
        self._lines = 0
        self._texts = 0

    def feed(self, stream: Stream, line: str) -> None:
        """Take the next line, of any length and content."""
        self._lines += 1
        self.feed_numbered(stream, self._lines, line)

    def feed_numbered(self, stream: Stream, number: int, line: str) -> None:
        """Take line `number` of the log, for callers that leave out lines."""
        for text in plain_texts(line):
            if stream != "outcome":
                self._last_lines.append((stream, number, text))
                if len(self._compiler_errors) < EVIDENCE_PER_RULE and compiler_error(text) is not None:
                    self._compiler_errors.append(
                        Evidence(stream=stream, line=number, text=text, why=COMPILER_REASON)
                    )
            if self._may_match(stream, text):
                self._match(stream, number, text)

    def skim(self, stream: Stream, number: int, lines: bytes) -> bool:
        """Take whole lines at once, the first of which is line `number` of the log.

        It has the effect of one call of `feed_numbered` for each line, but tries rules only on lines that may match.
        If a rule may match any line, it returns False and takes no line.
        """
        if self._required_texts is None:
            return False
        texts = [text.encode("utf-8", "surrogatepass") for text in self._required_texts]
        position = 0
        for begin, end in relevant_line_spans(
            (*_COMPILER_ERROR_MARKS, *texts), lines, reads_all=lambda: self._tracebacks.is_inside(stream)
        ):
            number = self._skip_lines(stream, number, lines[position:begin])
            self.feed_numbered(stream, number, lines[begin:end].decode("utf-8", "replace"))
            number += 1
            position = end + 1
        self._skip_lines(stream, number, lines[position:])
        return True

    def _skip_lines(self, stream: Stream, number: int, lines: bytes) -> int:
        """Take whole lines on which no rule can match. Return the number of the next line."""
        count = lines.count(b"\n")
        last = lines.removesuffix(b"\n").rsplit(b"\n", _TAIL_LINES)[-_TAIL_LINES:]
        first = number + count - len(last)
        shown: list[tuple[Stream, int, str]] = [
            (stream, place, text)
            for place, line in enumerate(last, first)
            for text in plain_texts(line.decode("utf-8", "replace"))
        ]
        if len(shown) < LAST_LINES and first > number:
            # Too many of the last lines are blank, so earlier lines are evidence as well.
            for place, line in enumerate(lines.removesuffix(b"\n").split(b"\n"), number):
                self.feed_numbered(stream, place, line.decode("utf-8", "replace"))
        else:
            self._last_lines.extend(shown)
        return number + count

    def finish(
        self, ending: Ending, outcome: HarnessOutcome | None, *, kernels: Mapping[int, str] | None = None
    ) -> Classification:
        """Return the verdict. Call it once, after the last line.

        `kernels` are the names of the build's kernels by function id, if the build is known.
        """
        calls = outcome.calls if outcome is not None else ()
        for call in calls:
            self._open_rule.pop("outcome", None)
            for line in _error_lines(call):
                self.feed_numbered("outcome", 0, line)

        decisive = None
        verdict = self._success(calls) if ending.is_clean else None
        if verdict is None:
            decisive = self._first_failure(ending)
            verdict = _ending_verdict(ending) if decisive is None else decisive.rule.verdict
        return Classification(
            verdict=verdict,
            signature=self._signature(verdict, ending, decisive, _harness_exception(calls), kernels or {}),
            evidence=tuple(self._evidence(verdict, ending, calls, decisive)),
            metrics=self._metrics(verdict, calls),
        )

    def _metrics(self, verdict: Verdict, calls: Sequence[HarnessCall]) -> dict[str, dict[str, float]]:
        """Return the printed measures of mismatches, and the shim's measures, the worst over its calls."""
        if not verdict.traits.compares_outputs:
            return {}
        metrics: dict[str, dict[str, float]] = {}
        for call in calls:
            for name, values in call.measures.items():
                worst = metrics.setdefault(name, {})
                worst |= {key: max(value, worst.get(key, value)) for key, value in values.items()}
        if verdict is Verdict.MISMATCH:
            for name, values in self._mismatches.metrics.items():
                metrics[name] = {**values, **metrics.get(name, {})}
        return metrics

    def _may_match(self, stream: Stream, text: str) -> bool:
        if self._required_texts is None or self._tracebacks.is_inside(stream):
            return True
        return any(required in text for required in self._required_texts)

    def _match(self, stream: Stream, number: int, text: str) -> None:
        self._texts += 1
        raised_in = self._follow_traceback(stream, number, text)
        for hits in self._hits:
            match = hits.feed(stream, number, text, place=self._texts, raised_in=raised_in)
            if match is None:
                continue
            if hits.rule.verdict is Verdict.MISMATCH:
                self._open_rule[stream] = hits.rule
                self._report(stream).add(match)
            elif hits.rule.verdict is Verdict.STALL:
                self._stall.add(match)
        for detail in self._stall_details:
            if (match := search(detail, text)) is not None:
                self._stall.add(match)
        if (open_rule := self._open_rule.get(stream)) is not None:
            for detail in open_rule.details:
                if (match := search(detail, text)) is not None:
                    self._report(stream).add_detail(match)

    def _follow_traceback(self, stream: Stream, number: int, text: str) -> str | None:
        """Take a line of a traceback. If it ends one, return the file of the innermost frame."""
        previous = self._tracebacks.exception
        raised_in = self._tracebacks.feed(stream, text)
        if self._tracebacks.exception is not previous:
            self._exception = Evidence(stream=stream, line=number, text=text, why=EXCEPTION_REASON)
        return raised_in

    def _report(self, stream: Stream) -> MismatchReport:
        return self._returned if stream == "outcome" else self._printed

    @property
    def _mismatches(self) -> MismatchReport:
        """Return the harness's own report if it names outputs, because printed lines may be torn or cut."""
        return self._returned if self._returned.signature is not None else self._printed

    def _success(self, calls: Sequence[HarnessCall]) -> Verdict | None:
        if calls:
            if not all(call.finished and call.passed for call in calls):
                return None
            return Verdict.PASS if all(call.validated for call in calls) else Verdict.NOT_VALIDATED
        matched = {hits.rule.verdict for hits in self._hits if hits.holds}
        if Verdict.MISMATCH in matched:
            return None
        return next(
            (verdict for verdict in (Verdict.NOT_VALIDATED, Verdict.PASS) if verdict in matched), None
        )

    def _first_failure(self, ending: Ending) -> _Hits | None:
        failures = [
            hits
            for hits in self._hits
            if hits.holds and not hits.rule.verdict.traits.ends_well and ending.kind in hits.rule.endings
        ]
        if not failures or not failures[0].rule.chronological:
            return next(iter(failures), None)
        chronological = [hits for hits in failures if hits.rule.chronological]
        first = min(chronological, key=lambda hits: hits.place).rule.verdict
        return next(hits for hits in chronological if hits.rule.verdict is first)

    def _signature(
        self,
        verdict: Verdict,
        ending: Ending,
        decisive: _Hits | None,
        harness_exception: str | None,
        kernels: Mapping[int, str],
    ) -> str | None:
        if verdict is Verdict.MISMATCH and self._mismatches.signature is not None:
            return self._mismatches.signature
        if decisive is None:
            return ending.signal_name if verdict is Verdict.CRASH else None
        if decisive.rule.names_exception and decisive.first is not None:
            exception = remove_variable_parts(self._tracebacks.exception or harness_exception or "")
            return decisive.rule.signature_of(decisive.first, exception=exception)
        stall = self._stall.describe(kernels) if verdict is Verdict.STALL else None
        return ", ".join(filter(None, (decisive.signature, stall))) or None

    def _evidence(
        self, verdict: Verdict, ending: Ending, calls: Sequence[HarnessCall], decisive: _Hits | None
    ) -> Iterator[Evidence]:
        """Yield the lines that decided, the harness's calls, the ending, and what else was seen, in this order."""
        deciding = [
            hits for hits in self._hits if hits is decisive or (hits.holds and hits.rule.verdict is verdict)
        ]
        for hits in deciding:
            yield from hits.evidence
        for number, call in enumerate(calls[:MAX_CALLS_SHOWN], start=1):
            why = f"the harness's call {number} of {len(calls)}"
            yield Evidence(stream="outcome", line=0, text=_call_text(call), why=why)
        yield Evidence(stream="ending", line=0, text=str(ending), why="how the process ended")
        for hits in self._hits:
            if hits.evidence and hits not in deciding:
                first = hits.evidence[0]
                yield replace(first, why=f"{first.why}, but does not decide")
        if decisive is None and not verdict.traits.ends_well:
            yield from self._compiler_errors
            yield from self._last_evidence()

    def _last_evidence(self) -> Iterator[Evidence]:
        """Yield the last lines, preceded by the exception's line if that is not among them."""
        exception = self._exception
        last: list[Evidence] = []
        for stream, number, text in self._last_lines:
            is_exception = exception is not None and (exception.line, exception.text) == (number, text)
            why = EXCEPTION_REASON if is_exception else "among the last lines before the end"
            last.append(Evidence(stream=stream, line=number, text=text, why=why))
        if exception is not None and exception not in last:
            yield exception
        yield from last


_PIP_HINT = re.compile(r"\s*(?:(?:hint|note): |╰─> See above)")
"""Pip prints such lines last if a build fails. The cause precedes them."""


class _PrintedLine(Protocol):
    @property
    def stream(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def why(self) -> str: ...


def printed_cause(evidence: Sequence[_PrintedLine]) -> str | None:
    """Return the line that names the cause of a failure, if only the run's ending decided its verdict.

    It is the first error of a compiler, or the exception that ended the run. Without either it is the last line that
    may name a cause. None if a line decided the verdict, or nothing was printed.
    """
    printed = [line for line in evidence[1:] if line.stream not in ("ending", "outcome")]
    if not printed or evidence[0].stream != "ending":
        return None
    causes = [line for line in printed if line.why in (COMPILER_REASON, EXCEPTION_REASON)]
    no_hints = [line for line in printed if not _PIP_HINT.match(line.text)]
    return (causes[0] if causes else (no_hints or printed)[-1]).text.strip()


def classify_build_failure(lines: Iterable[tuple[int, str]], ending: Ending) -> Classification:
    """Decide whether a failed build step blames the commit (`build_error`) or the machine (`environment_error`).

    `lines` are numbered lines of the step's output. Of a long output a selection is enough. A step that reached its
    time limit is a `build_error` too, because a `timeout` is a case that hangs.
    """
    classifier = Classifier(BUILD_RULES)
    for number, line in lines:
        classifier.feed_numbered("build", number, line)
    classification = classifier.finish(ending, None)
    match classification.verdict:
        case Verdict.TIMEOUT:
            return replace(classification, verdict=Verdict.BUILD_ERROR, signature="time limit")
        case Verdict.UNKNOWN | Verdict.CRASH:
            return replace(classification, verdict=Verdict.BUILD_ERROR)
        case _:
            return classification


def _find_texts_of_rules(rules: Sequence[VerdictRule]) -> tuple[str, ...] | None:
    """Return texts such that each line that matters to a rule contains one; None if a rule may match any line.

    Lines that begin a traceback matter as well.
    """
    all_texts = {*TRACEBACK_MARKS}
    for rule in rules:
        for pattern in filter(None, (rule.pattern, rule.requires, rule.unless, *rule.details)):
            texts = find_required_texts(pattern)
            if not texts:
                return None
            all_texts.update(texts)
    return tuple(text for text in sorted(all_texts) if not any(other in text for other in all_texts - {text}))


def _ending_verdict(ending: Ending) -> Verdict:
    """Return the verdict if no rule decides."""
    if ending.kind == "timeout":
        return Verdict.TIMEOUT
    if ending.was_killed_from_outside:
        return Verdict.ENVIRONMENT_ERROR
    return Verdict.CRASH if ending.kind == "signal" else Verdict.UNKNOWN


def _error_lines(call: HarnessCall) -> list[str]:
    lines = (call.error or "").splitlines()
    if call.exception is not None:
        lines += str(call.exception).splitlines()
    return lines


def _harness_exception(calls: Sequence[HarnessCall]) -> str | None:
    """Return the first line of the first exception that left the harness."""
    exception = next((call.exception for call in calls if call.exception is not None), None)
    return None if exception is None else exception.first_line


def _call_text(call: HarnessCall) -> str:
    name = f"golden.{call.function}"
    if call.exception is not None:
        return next(plain_texts(f"{name} raised {call.exception.first_line}"))
    if not call.finished:
        return f"{name} did not return"
    passed = {True: "passed", False: "failed", None: "told no result"}[call.passed]
    return f"{name} {passed}, {'compared with golden' if call.validated else 'nothing compared'}"


MAX_OUTPUTS = 64
"""A report keeps the measures of at most this many outputs. The shim has the same limit."""
MAX_SIGNATURE = 160
"""A signature has at most this many characters of output names. The names beyond are counted and hashed."""

_QUOTATION = re.compile(r"'([^']*)'|\"([^\"]*)\"")


@dataclass
class _Output:
    measures: dict[str, float] = field(default_factory=dict[str, float])
    non_finite: set[str] = field(default_factory=set[str])
    """`nan`, `inf`, both, or neither."""


class MismatchReport:
    """The failing outputs, collected from matches of mismatch rules and of their details.

    Group names are those of `VerdictRule`. Of several values of one measure the first is kept.
    """

    def __init__(self) -> None:
        self._outputs: dict[str, _Output] = {}
        self._current: str | None = None

    def add(self, match: re.Match[str]) -> None:
        """Take in a match of a rule's pattern."""
        groups = _matched_groups(match)
        for single, double in _QUOTATION.findall(groups.pop("outputs", "")):
            self._add_output(single or double)
        if "output" in groups:
            self._current = groups.pop("output")
            self._add_output(self._current)
        self._add_measures(groups)

    def add_detail(self, match: re.Match[str]) -> None:
        """Take in a match of one of a rule's details. It describes the output named last."""
        self._add_measures(_matched_groups(match))

    @property
    def signature(self) -> str | None:
        """Return the sorted names of the failing outputs, such as `k[nan],out`; None if no output was named.

        >>> report = MismatchReport()
        >>> report.add(re.match("'(?P<output>.*)' FAIL (?P<actual>.*)", "'out' FAIL -inf"))
        >>> report.signature
        'out[inf]'
        """
        names: list[str] = []
        for name, output in sorted(self._outputs.items()):
            non_finite = ",".join(sorted(output.non_finite, reverse=True))
            names.append(f"{name}[{non_finite}]" if non_finite else name)
        return _join_names(names) or None

    @property
    def metrics(self) -> Mapping[str, Mapping[str, float]]:
        """Return finite numbers by output and measure.

        `mismatched_fraction` is `mismatched / total`. `not_finite` is 1 if the run reported NaN or infinity.
        """
        result: dict[str, dict[str, float]] = {}
        for name, output in self._outputs.items():
            measures = dict(output.measures)
            if measures.get("total") and "mismatched" in measures:
                measures["mismatched_fraction"] = measures["mismatched"] / measures["total"]
            if output.non_finite:
                measures["not_finite"] = 1.0
            if measures:
                result[name] = measures
        return result

    def _add_output(self, name: str) -> None:
        if len(self._outputs) < MAX_OUTPUTS:
            self._outputs.setdefault(name, _Output())

    def _add_measures(self, groups: Mapping[str, str]) -> None:
        output = self._outputs.get(self._current) if self._current is not None else None
        if output is None:
            return
        for name, text in groups.items():
            value = _number(text)
            if value is None:
                continue
            if not math.isfinite(value):
                output.non_finite.add("nan" if math.isnan(value) else "inf")
            elif name in ("nan", "inf"):
                output.non_finite |= {name} if value > 0 else set()
            elif name != "actual":
                output.measures.setdefault(name, value)


def _matched_groups(match: re.Match[str]) -> dict[str, str]:
    return {name: value for name, value in match.groupdict().items() if value is not None}


def _join_names(names: list[str]) -> str:
    """Return the names, separated by commas. If some do not fit, their number and a hash of all names replace them."""
    whole = ",".join(names)
    if len(whole) <= MAX_SIGNATURE:
        return whole
    # Each name takes a comma more than its length. The first is shown in any case, if only its beginning.
    fitting = sum(end <= MAX_SIGNATURE for end in accumulate(len(name) + 1 for name in names))
    shown = ",".join(names[: max(fitting, 1)])[:MAX_SIGNATURE]
    more = len(names) - max(fitting, 1)
    return f"{shown},+{more} #{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


WAIT_STATES = ("running", "ready", "waiting")
"""The states of unfinished tasks, which are groups in stall patterns. The first that was printed describes a stall.

The order is from cause to effect: a ready task may wait for a running one, and a waiting task for a ready one."""

_MAX_KERNELS = 64
"""Once this many kernels of a state are known, further ones are ignored. A stall may leave thousands of tasks."""
_MAX_SHOWN = 4
"""The description of a stall names at most this many kernels and counts the others, so that it stays one line."""
_FUNCTION_ID = re.compile(r"(?<![\w-])\d+")


class StallReport:
    """The unfinished tasks of a stall, collected from matches of stall rules and of their details.

    The group of `WAIT_STATES` that matched is the state of a task. The group `kernels` has the function ids of that
    task, such as `aiv0:3`. An id of -1 stands for no kernel. The group `round` numbers the runtime's diagnoses, and
    each diagnosis replaces earlier ones.
    """

    def __init__(self) -> None:
        self._states: set[str] = set()
        self._kernels: dict[str, list[int]] = {}
        self._round: str | None = None

    def add(self, match: re.Match[str]) -> None:
        """Take in a match."""
        groups = match.groupdict()
        state = next((name for name in WAIT_STATES if groups.get(name) is not None), None)
        if state is None:
            return
        number = groups.get("round")
        if number is not None and number != self._round:
            self._round = number
            self._states.clear()
            self._kernels.clear()
        self._states.add(state)
        kernels = self._kernels.setdefault(state, [])
        ids = [int(text) for text in _FUNCTION_ID.findall(groups.get("kernels") or "")]
        if len(kernels) < _MAX_KERNELS:
            kernels += [kernel for kernel in ids if kernel not in kernels]

    def describe(self, names: Mapping[int, str]) -> str | None:
        """Return the state and its kernels, such as `running in softmax`; None if no state was printed.

        `names` gives the kernels by function id. All running kernels are named, because each of them is stuck. Of ready
        or waiting ones only the first submitted is named, because the others may wait for it.
        """
        state = next((name for name in WAIT_STATES if name in self._states), None)
        if state is None:
            return None
        kernels = self._kernels.get(state, [])
        if state != "running":
            kernels = kernels[:1]
        shown = sorted({names.get(kernel, f"kernel {kernel}") for kernel in kernels})
        if len(shown) > _MAX_SHOWN:
            shown = [*shown[:_MAX_SHOWN], f"{len(shown) - _MAX_SHOWN} more"]
        return f"{state} in {', '.join(shown)}" if shown else state
