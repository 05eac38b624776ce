"""Makes one verdict of what a process printed, how it ended and what the harness returned.

`Classifier` reads the output line by line and decides at the end. The parts that it uses stand above it, in this order:

- `HarnessOutcome`: what each call of the golden harness returned, as `shim.py` wrote it. The process that runs the
  code under test writes that file, so nothing in it is believed before it is checked.
- `plain_texts` and `relevant_line_spans`: the lines that rules are tried on. Looking for a text is many times as fast
  as trying a pattern.
- `MismatchReport`: which outputs failed the comparison, and by how much. `StallReport`: which kernels a runtime
  that gave up was waiting for. `Tracebacks`: the exception that ended the program.
"""

import hashlib
import importlib
import math
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...store.vocabulary import Evidence, Stream, Verdict, VerdictSource
from ..errors import UserError
from .rules import BUILD_RULES, Ending, VerdictRule, compiler_error

MAX_BYTES = 16 << 20
"""A larger outcome of a harness, in bytes, is not read. The run under test writes it, and may write any size."""

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


class HarnessCall(_Record):
    """One call of `golden.run` or `golden.run_jit`."""

    function: Literal["run", "run_jit"]
    finished: bool
    """False if the process ended inside the call."""
    passed: bool | None
    """What the result says; None without a result."""
    validated: bool
    """Whether the call was given something to compare with, and was not only to compile."""
    error: Text | None
    work_dir: Text | None
    execution_time: float | None
    """Seconds."""
    exception: HarnessException | None
    applied: Annotated[dict[Name, Setting], Field(max_length=32)]
    """Settings that the shim put into the call."""
    replaced: Annotated[dict[Name, Text], Field(max_length=32)]
    """What the case itself had passed where the shim put something else."""
    not_applied: Annotated[dict[Name, Text], Field(max_length=32)]
    """Settings that this revision of the harness cannot take, and why."""
    measures: Annotated[dict[Name, dict[Name, float]], Field(max_length=64)] = {}
    """The errors of each output that was compared, as far as they are defined. `beyond_tolerance` and `not_finite` are
    shares of the elements; `times_tolerance` is that of the worst element; `relative_l2` is that of the tensor."""


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
    """Says when the case began, in nanoseconds as files have it, if other scripts ran before it."""
    calls: Annotated[tuple[HarnessCall, ...], Field(strict=False, max_length=10_000)]


def read_harness_outcome(path: Path, *, hide: Callable[[bytes], bytes] = bytes) -> HarnessOutcome | None:
    """Read the file at `path`; None if there is none. `hide` takes secrets out of what the case said.

    Raises:
        HarnessOutcomeError: not a regular file, over `MAX_BYTES`, not JSON, or not of the shim's schema.
    """
    try:
        # A link could lead anywhere, and opening a pipe that the case left there would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unusable(path, "something else than a regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _unusable(path, f"more than {MAX_BYTES} bytes")
    try:
        return HarnessOutcome.model_validate_json(hide(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        raise _unusable(path, f"{where}: {first['msg']}" if where else first["msg"]) from error


def _unusable(path: Path, found: str) -> HarnessOutcomeError:
    plain = " ".join(found.split())[:300].encode("unicode_escape").decode()
    return HarnessOutcomeError(
        f"{path}: expected the harness outcome that shim.py writes, found {plain}; run the case again"
    )


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


# The standard library's own reader of patterns, which it compiles them with; there is no public one.
_PATTERN_PARSER: Any = importlib.import_module("re._parser")


def required_texts(pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Return texts of which each match of the pattern contains at least one; empty if there are no such texts.

    >>> required_texts(re.compile(r"^Output '(?P<name>[^']+)' does not match"))
    ("' does not match",)
    >>> required_texts(re.compile(r"(?:\\bstalled|timed out) after \\d+"))
    (' after ',)
    >>> required_texts(re.compile(r"\\d+|never"))
    ()
    """
    # Not by the pattern itself: its hash is computed anew each time, which takes as long as a search.
    return _required_texts(pattern.pattern, pattern.flags)


def search(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return `pattern.search(text)`, which costs less here if it does not match."""
    texts = required_texts(pattern)
    if texts and not any(each in text for each in texts):
        return None
    return pattern.search(text)


def find_line_starts(texts: Iterable[bytes], lines: bytes) -> list[int]:
    """Return where the lines begin that hold one of the texts, in order.

    >>> find_line_starts([b"x", b"y"], b"axx\\nb\\ncy\\n")
    [0, 6]
    """
    begins: set[int] = set()
    for text in texts:
        place = lines.find(text)
        while place >= 0:
            begins.add(lines.rfind(b"\n", 0, place) + 1)
            end = lines.find(b"\n", place)
            place = lines.find(text, end) if end >= 0 else -1
    return sorted(begins)


def relevant_line_spans(
    texts: Iterable[bytes], lines: bytes, *, reads_all: Callable[[], bool]
) -> Iterator[tuple[int, int]]:
    """Return the start and end of each line that holds one of the texts, without its line break, in order.

    `reads_all` is called before each line. If it returns True, the next line counts, whatever it holds.

    >>> list(relevant_line_spans([b"x"], b"ab\\ncx\\nd\\n", reads_all=lambda: False))
    [(3, 5)]
    """
    marked = deque(find_line_starts(texts, lines))
    position = 0
    while position < len(lines):
        while marked and marked[0] < position:
            marked.popleft()
        begin = position if reads_all() else marked[0] if marked else len(lines)
        if begin == len(lines):
            return
        end = lines.find(b"\n", begin)
        end = len(lines) if end < 0 else end
        yield begin, end
        position = end + 1


@cache
def _required_texts(pattern: str, flags: int) -> tuple[str, ...]:
    if flags & re.IGNORECASE:
        return ()
    return tuple(sorted(_texts_of_sequence(_PATTERN_PARSER.parse(pattern, flags))))


def _texts_of_sequence(items: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """Return the required texts of the item whose texts are rarest. All items have to match."""
    best: frozenset[str] = frozenset()
    literal = ""
    terminated: list[tuple[Any, Any]] = [*items, ("END", None)]
    for kind, argument in terminated:
        if str(kind) == "LITERAL":
            literal += chr(argument)
            continue
        # `REPLACEMENT` stands for other characters in a text, which the line may still hold.
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
    """Return a sort key of how rarely a line holds one of the texts: long texts are rare, and so are few."""
    return min(map(len, texts), default=0), -len(texts)


MAX_OUTPUTS = 64
"""A report keeps the measures of at most this many outputs. It is the shim's own limit."""
MAX_SIGNATURE = 160
"""A signature has this many characters of output names at most. What is beyond them is counted and hashed."""

_QUOTATION = re.compile(r"'([^']*)'|\"([^\"]*)\"")


@dataclass
class _Output:
    measures: dict[str, float] = field(default_factory=dict[str, float])
    marks: set[str] = field(default_factory=set[str])


class MismatchReport:
    """The failing outputs as named by matches of mismatch rules and their details.

    Group names are those of `VerdictRule`. The first value of a measure stands. At most `MAX_OUTPUTS`
    outputs are kept.
    """

    def __init__(self) -> None:
        self._outputs: dict[str, _Output] = {}
        self._current: str | None = None

    def add(self, match: re.Match[str]) -> None:
        """Take in a match of a rule's pattern."""
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        for single, double in _QUOTATION.findall(groups.pop("outputs", "")):
            self._open(single or double)
        if "output" in groups:
            name = groups.pop("output")
            self._open(name)
            self._current = name
        self._measure(groups)

    def add_detail(self, match: re.Match[str]) -> None:
        """Take in a match of one of a rule's details, which tells about the output named last."""
        self._measure({name: value for name, value in match.groupdict().items() if value is not None})

    @property
    def signature(self) -> str | None:
        """Return the failing outputs, sorted, with NaN and infinity marked: `out`, `k[nan],out`; None if unnamed.

        >>> report = MismatchReport()
        >>> report.add(re.match("'(?P<output>.*)' FAIL (?P<actual>.*)", "'out' FAIL -inf"))
        >>> report.signature
        'out[inf]'
        """
        names: list[str] = []
        for name, output in sorted(self._outputs.items()):
            marks = ",".join(sorted(output.marks, reverse=True))
            names.append(f"{name}[{marks}]" if marks else name)
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
            if output.marks:
                measures["not_finite"] = 1.0
            if measures:
                result[name] = measures
        return result

    def _open(self, name: str) -> None:
        if len(self._outputs) < MAX_OUTPUTS:
            self._outputs.setdefault(name, _Output())

    def _measure(self, groups: Mapping[str, str]) -> None:
        output = self._outputs.get(self._current) if self._current is not None else None
        if output is None:
            return
        for name, text in groups.items():
            value = _number(text)
            if value is None:
                continue
            if not math.isfinite(value):
                output.marks.add("nan" if math.isnan(value) else "inf")
            elif name in ("nan", "inf"):
                output.marks |= {name} if value > 0 else set()
            elif name != "actual":
                output.measures.setdefault(name, value)


def _join_names(names: list[str]) -> str:
    """Return the names, separated by commas. If they are too long: the first ones, the number of others, and a hash."""
    whole = ",".join(names)
    if len(whole) <= MAX_SIGNATURE:
        return whole
    shown = whole[:MAX_SIGNATURE].rpartition(",")[0] or whole[:MAX_SIGNATURE]
    more = len(names) - shown.count(",") - 1
    return f"{shown},+{more} #{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


STATES = ("running", "ready", "waiting")
"""Stall patterns have these groups. Each is a state of unfinished tasks. The first of them that was printed is the kind
of wait. A ready task may wait for a running one, and a waiting task for a ready one."""

_MOST_KERNELS = 64
"""No more kernels are taken in once this many are known. A stall may leave thousands of tasks."""
_MOST_SHOWN = 4
"""A stall's text names at most this many kernels and counts the rest, so that it stays one line."""
_FUNCTION_ID = re.compile(r"(?<![\w-])\d+")


class StallReport:
    """The tasks that a stall left, as matches of stall rules and of their details name them.

    The group of `STATES` that took part in a match is the state. `kernels` holds the function ids of a task in that
    state (`aic:-1 aiv0:3`, where -1 is none). `round` numbers the runtime's diagnoses, of which the last one counts.
    """

    def __init__(self) -> None:
        self._states: set[str] = set()
        self._kernels: dict[str, list[int]] = {}
        self._round: str | None = None

    def add(self, match: re.Match[str]) -> None:
        """Take in a match."""
        groups = match.groupdict()
        state = next((name for name in STATES if groups.get(name) is not None), None)
        if state is None:
            return
        number = groups.get("round")
        if number is not None and number != self._round:
            self._round = number
            self._states.clear()
            self._kernels.clear()
        self._states.add(state)
        known = self._kernels.setdefault(state, [])
        found = [int(text) for text in _FUNCTION_ID.findall(groups.get("kernels") or "")]
        if len(known) < _MOST_KERNELS:
            known += [kernel for kernel in found if kernel not in known]

    def text(self, names: Mapping[int, str]) -> str | None:
        """Return the kind of wait and its kernels, `running in softmax`; None where no state was printed.

        `names` gives the kernels by function id. Each task that runs is stuck. Of those that are ready or wait, the
        text names the first in order of submission alone, because the others may wait for it.
        """
        state = next((name for name in STATES if name in self._states), None)
        if state is None:
            return None
        kernels = self._kernels.get(state, [])
        if state != "running":
            kernels = kernels[:1]
        shown = sorted({names.get(kernel, f"kernel {kernel}") for kernel in kernels})
        if len(shown) > _MOST_SHOWN:
            shown = [*shown[:_MOST_SHOWN], f"{len(shown) - _MOST_SHOWN} more"]
        return f"{state} in {', '.join(shown)}" if shown else state


_TRACEBACK_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<path>[^"]+)", line \d+')
_EXCEPTION = re.compile(r"^(?:\w+\.)*[A-Z]\w*(?:: .*)?$")
_INSTALLED_FILE = re.compile(r"/(?:site|dist)-packages/|/lib/python[\d.]+/|^<")
_CHAIN_LINES = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
TRACEBACK_MARKS = (_TRACEBACK_START, *_CHAIN_LINES)
"""Outside of tracebacks, only a line with one of these says something about them."""
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
    innermost: str = ""
    source: str = ""
    own_source: str = ""
    """The source of the innermost frame outside of installed packages."""


class Tracebacks:
    """Reads the tracebacks of a run line by line. Lines of several tracebacks may alternate."""

    def __init__(self) -> None:
        self._open: dict[str, _OpenTraceback] = {}
        self._chained: set[str] = set()
        self._exception: str | None = None
        self.source = ""
        """The source line that raised the exception of the last complete traceback, if Python printed it."""
        self.own_source = ""
        """The source line of its innermost frame outside of installed packages."""

    @property
    def exception(self) -> str | None:
        """Return the exception as it left the program: the last line of the first traceback, or of the last one chained
        to it.

        None if no traceback is complete.
        """
        return self._exception

    def is_inside(self, stream: str) -> bool:
        """Return whether a traceback of this stream has begun and not ended, so that any line may belong to it."""
        return stream in self._open

    def feed(self, stream: str, text: str) -> str | None:
        """Take a line. If it ends a traceback, return the file of the innermost frame; empty without frames."""
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
            traceback.innermost, traceback.source = frame["path"], ""
        elif _EXCEPTION.match(line := text.removeprefix(traceback.indent)):
            del self._open[stream]
            self.source, self.own_source = traceback.source, traceback.own_source
            if self._exception is None or stream in self._chained:
                self._exception = line
            self._chained.discard(stream)
            return traceback.innermost
        elif not traceback.source and text.strip(" ^~"):
            traceback.source = text.strip()
            if not _INSTALLED_FILE.search(traceback.innermost):
                traceback.own_source = traceback.source
        return None


def remove_variable_parts(text: str) -> str:
    """Return a message without what differs between runs or slots: folders, addresses, numbers of values.

    >>> remove_variable_parts("RuntimeError: /w/0/a.py: value %12 at 0x7f01 used twice")
    'RuntimeError: a.py: value %.. at 0x.. used twice'
    """
    return substitute(text, _VARIABLE_PARTS)


def substitute(text: str, replacements: Iterable[tuple[re.Pattern[str], str]]) -> str:
    """Return the text with all matches of each pattern replaced, in the order of the patterns."""
    for pattern, replacement in replacements:
        text = pattern.sub(replacement, text)
    return text


EVIDENCE_PER_RULE = 4
"""Each rule keeps at most this many lines of evidence. A loop may print the same error without end."""
LAST_LINES = 5
"""This many of the last lines are evidence where no rule matches. They mostly say why a run ended."""
MAX_CALLS_SHOWN = 16
"""The evidence lists at most this many calls of the harness. A case may make thousands."""

OF_A_COMPILER, OF_AN_EXCEPTION = "what a compiler says", "an exception that it printed"
"""These reasons are given for lines of evidence that name the cause if no rule does."""
_READ_WITHOUT_RULES = (b"error: ", b"\x1b")
"""A compiler's error is read only from a line with one of these. Escape sequences may stand in the text of a coloured
line."""
_SKIM_LINES = 4 * LAST_LINES
"""This many of the last lines are looked at, since some are blank, to find `LAST_LINES` that are not."""

__all__ = ["Classification", "Classifier", "Ending", "classify_build_failure"]


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The verdict on one run. `metrics` holds finite numbers by output name and measure."""

    verdict: Verdict
    signature: str | None
    evidence: tuple[Evidence, ...]
    metrics: Mapping[str, Mapping[str, float]]
    source: VerdictSource = VerdictSource.OUTPUT


@dataclass
class _Hits:
    """What one rule has matched so far."""

    rule: VerdictRule
    evidence: list[Evidence] = field(default_factory=list[Evidence])
    signature: str | None = None
    first: re.Match[str] | None = None
    place: int = 0
    """Holds the place of the first line that matched, among all lines."""
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

    1. A success needs exit code 0. Where the harness reported its calls, every one must have passed. Without a
       report a `pass` rule must match, and no `mismatch` rule may.
       One call, or one line, that says nothing was compared turns the whole run into `not_validated`.
    2. Otherwise the first rule in the list decides that matched and may decide under this ending. Of
       chronological rules one of the verdict decides whose line came first.
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
        """Take whole lines, of which the first stands at `number` in the log, at less cost than one call for each.

        Rules are tried only on lines that hold what some rule needs. Return False, and take no line, where the effect
        would differ.
        """
        if self._marks is None:
            return False
        marks = [mark.encode("utf-8", "surrogatepass") for mark in self._marks]
        position = 0
        for begin, end in relevant_line_spans(
            (*_READ_WITHOUT_RULES, *marks), lines, reads_all=lambda: self._tracebacks.is_inside(stream)
        ):
            number = self._pass_over(stream, number, lines[position:begin])
            self.feed_numbered(stream, number, lines[begin:end].decode("utf-8", "replace"))
            number += 1
            position = end + 1
        self._pass_over(stream, number, lines[position:])
        return True

    def _pass_over(self, stream: Stream, number: int, lines: bytes) -> int:
        """Take whole lines on which no rule can match; the number of the line behind them."""
        count = lines.count(b"\n")
        last = lines.removesuffix(b"\n").rsplit(b"\n", _SKIM_LINES)[-_SKIM_LINES:]
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
        """Return what was printed of mismatches, and what the harness's shim measured, the worst over its calls."""
        if not verdict.traits.compares_outputs:
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
        if self._marks is None or self._tracebacks.is_inside(stream):
            return True
        return any(mark in text for mark in self._marks)

    def _match(self, stream: Stream, number: int, text: str) -> None:
        self._texts += 1
        raised_in = self._raising_place(stream, number, text)
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

    def _raising_place(self, stream: Stream, number: int, text: str) -> str | None:
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
        """Return the harness's own report where it names outputs: printed lines may be torn or cut."""
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
            if hits.holds and not hits.rule.verdict.traits.ends_well and ending.kind in hits.rule.endings
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
            exception = remove_variable_parts(self._tracebacks.exception or raised or "")
            return decisive.rule.signature_of(decisive.first, exception=exception)
        told = self._stall.text(kernels) if verdict is Verdict.STALL else None
        return ", ".join(filter(None, (decisive.signature, told))) or None

    def _evidence(
        self, verdict: Verdict, ending: Ending, calls: Sequence[HarnessCall], decisive: _Hits | None
    ) -> Iterator[Evidence]:
        """Return what decided, then what the harness and the ending say, then what else was seen."""
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
        if decisive is None and not verdict.traits.ends_well:
            yield from self._compiler_errors
            last = [
                Evidence(stream=stream, line=number, text=text, why=self._why_shown(number, text))
                for stream, number, text in self._last_lines
            ]
            if self._exception is not None and self._exception not in last:
                yield self._exception
            yield from last

    def _why_shown(self, number: int, text: str) -> str:
        """Return why one of the last lines is evidence."""
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
    """Return what a text has that a rule or a traceback may ask for; None where a rule may ask for any."""
    marks = {*TRACEBACK_MARKS}
    for rule in rules:
        for pattern in filter(None, (rule.pattern, rule.requires, rule.unless, *rule.details)):
            texts = required_texts(pattern)
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
