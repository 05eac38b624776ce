"""Makes one verdict of what a process printed, how it ended and what the harness returned."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...store.vocabulary import Evidence, Stream, Verdict
from .build_rules import BUILD_RULES
from .compiler_errors import compiler_error
from .ending import Ending
from .harness_outcome import HarnessCall, HarnessOutcome
from .literals import begins_of_lines_with, needed, search
from .mismatch_report import MismatchReport
from .output_lines import plain_texts
from .rules import SUCCESSES, VerdictRule
from .stall_report import StallReport
from .tracebacks import MARKS, Tracebacks, without_what_moves

EVIDENCE_PER_RULE = 4
LAST_LINES = 5
MAX_CALLS_SHOWN = 16

OF_A_COMPILER, OF_AN_EXCEPTION = "what a compiler says", "an exception that it printed"
"""Why lines are evidence that name the cause, where no rule does."""
_READ_WITHOUT_RULES = (b"error: ", b"\x1b")
"""What a line has that a compiler's error may be read from; in one that is coloured no text may stand as it is."""
_SKIMMED = 4 * LAST_LINES

__all__ = ["Classification", "Classifier", "Ending", "classify_build_failure"]


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The verdict on one run. `metrics` holds finite numbers by output name and measure."""

    verdict: Verdict
    signature: str | None
    evidence: tuple[Evidence, ...]
    metrics: Mapping[str, Mapping[str, float]]


@dataclass
class _Hits:
    """What one rule has matched so far."""

    rule: VerdictRule
    evidence: list[Evidence] = field(default_factory=list[Evidence])
    signature: str | None = None
    first: re.Match[str] | None = None
    place: int = 0
    """Of the first line that matched, among all lines."""
    required_seen: bool = False
    excluded_seen: bool = False

    @property
    def holds(self) -> bool:
        """Whether the rule counts for this output."""
        required = self.rule.requires is None or self.required_seen
        return bool(self.evidence) and required and not self.excluded_seen

    def feed(
        self, stream: Stream, number: int, text: str, *, place: int, raised_in: str | None
    ) -> re.Match[str] | None:
        """Take a line; its match where the rule's pattern matches it. `raised_in` is the file of the innermost frame
        where the line ends a traceback."""
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
    """Reads output as it comes, in bounded memory, and says at the end what it amounts to.

    The decision, in this order:

    1. A success needs exit code 0. Where the harness reported its calls, they alone make the success, and
       every one must have passed; without a report it takes a `pass` rule and no matching `mismatch` rule.
       One call, or one line, that says nothing was compared turns the whole run into `not_validated`.
    2. Otherwise the first rule in the list that matched and may decide under this ending; of those that are
       chronological, one of the verdict whose line came first.
    3. Otherwise the ending itself: `timeout`, `crash`, or `unknown`. A signal that others send (SIGKILL,
       SIGTERM, ...) is an `environment_error`: it says nothing about the program.

    Error texts from the harness go through the same rules as printed lines.
    """

    def __init__(self, rules: Sequence[VerdictRule]) -> None:
        self._hits = [_Hits(rule) for rule in rules]
        self._marks = _marks_of(rules)
        """One of these is in each text that a rule may match, or that begins a traceback; None: that is not known."""
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
        """Take the next line, decoded with `errors="replace"`; length and content may be anything."""
        self._lines += 1
        self.feed_numbered(stream, self._lines, line)

    def feed_numbered(self, stream: Stream, number: int, line: str) -> None:
        """Take a line that stands at `number` in the log, for a caller that leaves some out."""
        for text in plain_texts(line):
            if stream != "outcome":
                self._last_lines.append((stream, number, text))
                if len(self._compiler_errors) < EVIDENCE_PER_RULE and compiler_error(text) is not None:
                    self._compiler_errors.append(
                        Evidence(stream=stream, line=number, text=text, why=OF_A_COMPILER)
                    )
            if self._may_tell(stream, text):
                self._match(stream, number, text)

    def skim(self, stream: Stream, number: int, lines: bytes) -> bool:
        """Take whole lines, of which the first stands at `number` in the log; true where that has the same effect as
        one call for each, at less cost: rules are tried on those alone that have what a rule needs. Else none is taken.
        """
        if self._marks is None:
            return False
        marks = [mark.encode("utf-8", "surrogatepass") for mark in self._marks]
        marked = deque(begins_of_lines_with((*_READ_WITHOUT_RULES, *marks), lines))
        position = 0
        while position < len(lines):
            while marked and marked[0] < position:
                marked.popleft()
            follows = self._tracebacks.follows(stream)
            begin = position if follows else marked[0] if marked else len(lines)
            number = self._pass_over(stream, number, lines[position:begin])
            end = lines.find(b"\n", begin) + 1
            if begin < len(lines):
                self.feed_numbered(stream, number, lines[begin : end - 1].decode("utf-8", "replace"))
                number += 1
            position = end or len(lines)
        return True

    def _pass_over(self, stream: Stream, number: int, lines: bytes) -> int:
        """Take whole lines on which no rule can match; the number of the line behind them."""
        count = lines.count(b"\n")
        last = lines.removesuffix(b"\n").rsplit(b"\n", _SKIMMED)[-_SKIMMED:]
        first = number + count - len(last)
        shown: list[tuple[Stream, int, str]] = [
            (stream, place, text)
            for place, line in enumerate(last, first)
            for text in plain_texts(line.decode("utf-8", "replace"))
        ]
        if len(shown) < LAST_LINES and first > number:
            # They are blank: earlier ones count.
            for place, line in enumerate(lines.removesuffix(b"\n").split(b"\n"), number):
                self.feed_numbered(stream, place, line.decode("utf-8", "replace"))
        else:
            self._last_lines.extend(shown)
        return number + count

    def finish(
        self, ending: Ending, outcome: HarnessOutcome | None, *, kernels: Mapping[int, str] | None = None
    ) -> Classification:
        """Give the verdict. To be called once, after the last line. `kernels` are the names of the build's kernels by
        function id, where it is known.

        Raises:
            ValueError: the run was cancelled, and a cancelled run has no verdict.
        """
        if ending.cancelled:
            raise ValueError("a cancelled run has no verdict: drop the probe")
        calls = outcome.calls if outcome is not None else ()
        for call in calls:
            self._open_rule.pop("outcome", None)
            for line in _error_lines(call):
                self.feed_numbered("outcome", 0, line)

        decisive = None
        verdict = self._success(calls) if ending.is_clean else None
        if verdict is None:
            decisive = self._first_failure(ending)
            verdict = _verdict_of(ending) if decisive is None else decisive.rule.verdict
        return Classification(
            verdict=verdict,
            signature=self._signature(verdict, ending, decisive, _exception(calls), kernels or {}),
            evidence=tuple(self._evidence(verdict, ending, calls, decisive)),
            metrics=self._metrics(verdict, calls),
        )

    def _metrics(self, verdict: Verdict, calls: Sequence[HarnessCall]) -> dict[str, dict[str, float]]:
        """What was printed of mismatches, and what the harness's shim measured, the worst over its calls."""
        if verdict not in (Verdict.MISMATCH, Verdict.PASS):
            return {}
        metrics: dict[str, dict[str, float]] = {}
        for call in calls:
            for name, values in call.measures.items():
                known = metrics.setdefault(name, {})
                known |= {key: max(value, known.get(key, value)) for key, value in values.items()}
        if verdict is Verdict.MISMATCH:
            for name, values in self._mismatches.metrics.items():
                metrics[name] = {**values, **metrics.get(name, {})}
        return metrics

    def _may_tell(self, stream: Stream, text: str) -> bool:
        if self._marks is None or self._tracebacks.follows(stream):
            return True
        return any(mark in text for mark in self._marks)

    def _match(self, stream: Stream, number: int, text: str) -> None:
        self._texts += 1
        raised_in = self._raised_in(stream, number, text)
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

    def _raised_in(self, stream: Stream, number: int, text: str) -> str | None:
        """Follow tracebacks; the file of the innermost frame where the line ends one."""
        known = self._tracebacks.exception
        raised_in = self._tracebacks.feed(stream, text)
        if self._tracebacks.exception is not known:
            self._exception = Evidence(stream=stream, line=number, text=text, why=OF_AN_EXCEPTION)
        return raised_in

    def _report(self, stream: Stream) -> MismatchReport:
        return self._returned if stream == "outcome" else self._printed

    @property
    def _mismatches(self) -> MismatchReport:
        """The harness's own report where it names outputs: printed lines may be torn or cut."""
        return self._returned if self._returned.signature is not None else self._printed

    def _success(self, calls: Sequence[HarnessCall]) -> Verdict | None:
        if calls:
            if not all(call.finished and call.passed for call in calls):
                return None
            return Verdict.PASS if all(call.validated for call in calls) else Verdict.NOT_VALIDATED
        said = {hits.rule.verdict for hits in self._hits if hits.holds}
        if Verdict.MISMATCH in said:
            return None
        return next((verdict for verdict in (Verdict.NOT_VALIDATED, Verdict.PASS) if verdict in said), None)

    def _first_failure(self, ending: Ending) -> _Hits | None:
        failures = [
            hits
            for hits in self._hits
            if hits.holds and hits.rule.verdict not in SUCCESSES and ending.kind in hits.rule.endings
        ]
        if not failures or not failures[0].rule.chronological:
            return next(iter(failures), None)
        dated = [hits for hits in failures if hits.rule.chronological]
        first = min(dated, key=lambda hits: hits.place).rule.verdict
        return next(hits for hits in dated if hits.rule.verdict is first)

    def _signature(
        self,
        verdict: Verdict,
        ending: Ending,
        decisive: _Hits | None,
        raised: str | None,
        kernels: Mapping[int, str],
    ) -> str | None:
        if verdict is Verdict.MISMATCH and self._mismatches.signature is not None:
            return self._mismatches.signature
        if decisive is None:
            return ending.signal_name if verdict is Verdict.CRASH else None
        if decisive.rule.tells_exception and decisive.first is not None:
            exception = without_what_moves(self._tracebacks.exception or raised or "")
            return decisive.rule.signature_of(decisive.first, exception=exception)
        told = self._stall.text(kernels) if verdict is Verdict.STALL else None
        return ", ".join(filter(None, (decisive.signature, told))) or None

    def _evidence(
        self, verdict: Verdict, ending: Ending, calls: Sequence[HarnessCall], decisive: _Hits | None
    ) -> Iterator[Evidence]:
        """What decided, then what the harness and the ending say, then what else was seen."""
        for hits in self._hits:
            if hits is decisive or (hits.holds and hits.rule.verdict is verdict):
                yield from hits.evidence
        for number, call in enumerate(calls[:MAX_CALLS_SHOWN], start=1):
            why = f"the harness's call {number} of {len(calls)}"
            yield Evidence(stream="outcome", line=0, text=_call_text(call), why=why)
        yield Evidence(stream="ending", line=0, text=str(ending), why="how the process ended")
        for hits in self._hits:
            if hits.evidence and not (hits is decisive or (hits.holds and hits.rule.verdict is verdict)):
                first = hits.evidence[0]
                yield replace(first, why=f"{first.why}, but does not decide")
        if decisive is None and verdict not in SUCCESSES:
            yield from self._compiler_errors
            last = [
                Evidence(stream=stream, line=number, text=text, why=self._why_shown(number, text))
                for stream, number, text in self._last_lines
            ]
            if self._exception is not None and self._exception not in last:
                yield self._exception
            yield from last

    def _why_shown(self, number: int, text: str) -> str:
        """Why one of the last lines is evidence."""
        raised = self._exception
        is_raised = raised is not None and (raised.line, raised.text) == (number, text)
        return OF_AN_EXCEPTION if is_raised else "among the last lines before the end"


def classify_build_failure(lines: Iterable[tuple[int, str]], ending: Ending) -> Classification:
    """Say whether a failed build step blames the commit (`build_error`) or the machine (`environment_error`).

    `lines` are numbered lines of the step's output, a selection if it is long. A step that ran into its time
    limit is a `timeout`.

    Raises:
        ValueError: the step was cancelled.
    """
    classifier = Classifier(BUILD_RULES)
    for number, line in lines:
        classifier.feed_numbered("build", number, line)
    found = classifier.finish(ending, None)
    if found.verdict in (Verdict.UNKNOWN, Verdict.CRASH):
        return replace(found, verdict=Verdict.BUILD_ERROR)
    return found


def _marks_of(rules: Sequence[VerdictRule]) -> tuple[str, ...] | None:
    """What a text has that a rule or a traceback may ask for; None where a rule may ask for any."""
    marks = {*MARKS}
    for rule in rules:
        for pattern in filter(None, (rule.pattern, rule.requires, rule.unless, *rule.details)):
            texts = needed(pattern)
            if not texts:
                return None
            marks.update(texts)
    return tuple(mark for mark in sorted(marks) if not any(other in mark for other in marks - {mark}))


def _verdict_of(ending: Ending) -> Verdict:
    """The verdict where no line says more."""
    if ending.kind == "timeout":
        return Verdict.TIMEOUT
    if ending.was_killed_from_outside:
        return Verdict.ENVIRONMENT_ERROR
    return Verdict.CRASH if ending.kind == "signal" else Verdict.UNKNOWN


def _error_lines(call: HarnessCall) -> list[str]:
    lines = (call.error or "").splitlines()
    if call.exception is not None:
        lines += f"{call.exception.type}: {call.exception.message}".splitlines()
    return lines


def _exception(calls: Sequence[HarnessCall]) -> str | None:
    """The first line of the first exception that left the harness."""
    raised = next((call.exception for call in calls if call.exception is not None), None)
    return None if raised is None else f"{raised.type}: {raised.message}".partition("\n")[0]


def _call_text(call: HarnessCall) -> str:
    name = f"golden.{call.function}"
    if call.exception is not None:
        first_line = f"{call.exception.type}: {call.exception.message}".partition("\n")[0]
        return next(plain_texts(f"{name} raised {first_line}"))
    if not call.finished:
        return f"{name} did not return"
    passed = {True: "passed", False: "failed", None: "told no result"}[call.passed]
    return f"{name} {passed}, {'compared with golden' if call.validated else 'nothing compared'}"
