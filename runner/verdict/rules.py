"""Defines what verdicts are made from: the rules of a stack file, and how a process ended.

- `VerdictRule` is one `[[verdicts]]` table of a stack file: a pattern of a printed line, and its verdict.
- `Ending` is the exit code, signal or time limit that ended a process.
- `BUILD_RULES` recognize what a failed build step prints, and whether the machine is at fault.
- `CompilerError` is an error as gcc and clang print it.
- `ErrorSize` is the largest numeric error of a run.
"""

import math
import re
import signal as signals
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ...store.vocabulary import Verdict

EndingKind = Literal["exit", "signal", "timeout"]

SENT_FROM_OUTSIDE = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"})
"""The signals that an out-of-memory killer, a batch system or an operator sends."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The end of one process: its exit code, the number of the signal that killed it, or its time limit.

    If `timed_out`, the runner killed the process, and there is no code or signal. A process that could not be started
    has none of the three.
    """

    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False

    @property
    def kind(self) -> EndingKind:
        """Return which of the three ended the process."""
        if self.timed_out:
            return "timeout"
        return "exit" if self.signal is None else "signal"

    @property
    def is_clean(self) -> bool:
        """Return whether the process ended by itself with exit code 0."""
        return self.kind == "exit" and self.exit_code == 0

    @property
    def was_killed_from_outside(self) -> bool:
        """Return whether the signal is one of `SENT_FROM_OUTSIDE`."""
        return self.signal_name in SENT_FROM_OUTSIDE

    @property
    def signal_name(self) -> str | None:
        """Return the name of the signal that ended the process, such as `SIGSEGV`; None if none did."""
        return signal_of(-self.signal) if self.kind == "signal" and self.signal is not None else None

    @property
    def code(self) -> int | None:
        """Return the exit code as Python's `subprocess` has it: negative for a signal."""
        return self.exit_code if self.signal is None else -self.signal

    def __str__(self) -> str:
        match self.kind:
            case "timeout":
                return "stopped at the time limit"
            case "signal":
                return f"killed by {self.signal_name}"
            case "exit":
                return f"exit code {self.exit_code}"


def signal_of(code: int) -> str | None:
    """Return the name of the signal that killed a program; None if none did.

    `code` is negative as Python's `subprocess` has it, or above 128 as a shell reports it.

    >>> signal_of(-11), signal_of(139), signal_of(1), signal_of(255)
    ('SIGSEGV', 'SIGSEGV', None, None)
    """
    number = -code if code < 0 else code - 128
    try:
        return signals.Signals(number).name if number > 0 else None
    except ValueError:
        return None if code > 0 else f"signal {number}"


EXCEPTION = "exception"
"""A signature refers to the run's exception by this name. No group of a pattern may have the same name."""


def _compile(pattern: object) -> object:
    """Compile text, with errors that show the pattern. pydantic itself refuses other types."""
    if not isinstance(pattern, str):
        return pattern
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"expected a regular expression, found {pattern!r}: {error}") from error
    if compiled.search("") is not None:
        raise ValueError(f"expected a pattern that needs some text, but {pattern!r} matches an empty line")
    return compiled


LinePattern = Annotated[re.Pattern[str], BeforeValidator(_compile)]


class VerdictRule(BaseModel):
    """A pattern of one line, and the verdict for which the line is evidence. Of two rules the earlier one wins.

    Patterns are tried on one line at a time, without colours (`output_lines.plain_texts`).

    In a `mismatch` rule and its `details` some groups have a meaning:

    - `output` is the name of the failing output, and `outputs` a list of quoted names.
    - `actual` is a printed value. The signature marks NaN and infinity.
    - `nan` and `inf` are numbers of such values.
    - Every other group is a measure of the output named last.

    A `stall` rule and its `details` have the groups of `StallReport`: the state of the tasks, and their kernels. They
    follow the signature.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: Verdict
    pattern: LinePattern
    stream: Literal["any", "stdout", "stderr"] = "any"
    requires: LinePattern | None = None
    """The rule counts only if a line of the output matches this pattern."""
    unless: LinePattern | None = None
    """The rule does not count if a line of the output matches this pattern."""
    endings: Annotated[tuple[EndingKind, ...], Field(min_length=1)] = ("exit",)
    """The rule may decide only if the process ended in one of these ways.

    A rule for a report that stays true whatever happens later lists all three."""
    chronological: bool = False
    """Of chronological rules the one whose line came first decides, whatever their order in the list.

    They are for faults that may follow from each other. They should read one stream, because lines of two streams
    arrive in any order."""
    raised_in: LinePattern | None = None
    """The rule matches only a line that ends a traceback, if the file of the innermost frame matches this pattern."""
    signature: str | None = None
    """A template that distinguishes one fault from another. The pattern's named groups stand in braces.

    `{exception}` is the line that ends the first traceback of the run."""
    details: tuple[LinePattern, ...] = ()
    """Patterns of further lines. Only rules for `mismatch` and `stall` may have them.

    For a `mismatch` these lines follow the rule's own and describe the same output. For a `stall` they stand anywhere,
    and describe the unfinished tasks."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        groups = set(self.pattern.groupindex)
        if EXCEPTION in groups:
            raise ValueError(f"expected another name for the group {EXCEPTION}: that is the run's exception")
        for field in template_fields(self.signature or ""):
            if field not in groups | {EXCEPTION}:
                raise ValueError(
                    f"signature {self.signature!r}: expected named groups of the pattern, which has "
                    f"{', '.join(sorted(groups)) or 'none'}, found {{{field}}}"
                )
        if self.details and self.verdict not in (Verdict.MISMATCH, Verdict.STALL):
            raise ValueError(
                f"details belong to mismatch and stall rules, found them in a rule for {self.verdict}"
            )
        if self.verdict.traits.ends_well and self.endings != ("exit",):
            raise ValueError(f"endings cannot be set for {self.verdict}: it always needs exit code 0")
        return self

    @property
    def names_exception(self) -> bool:
        """Return whether the signature contains the run's exception."""
        return EXCEPTION in template_fields(self.signature or "")

    def signature_of(self, match: re.Match[str], *, exception: str | None = None) -> str | None:
        """Return the signature for a match of `pattern`; None if there is no template, or the result is blank."""
        if self.signature is None:
            return None
        values = {**match.groupdict(), EXCEPTION: exception}
        one_line = {name: " ".join((value or "").split()) for name, value in values.items()}
        return self.signature.format_map(one_line).strip()[:200] or None


def template_fields(template: str) -> list[str]:
    """Return the names that a template has in braces.

    Raises:
        ValueError: broken braces, or a field that is more than a name.
    """
    fields: list[str] = []
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"expected group names in braces, found {template!r}: {error}") from error
    for _, field, format_spec, conversion in parts:
        if field is None:
            continue
        if not field.isidentifier() or format_spec or conversion:
            raise ValueError(f"expected a plain group name in braces, found {{{field}}} in {template!r}")
        fields.append(field)
    return fields


def _environment(pattern: str, signature: str) -> VerdictRule:
    return VerdictRule(
        verdict=Verdict.ENVIRONMENT_ERROR,
        pattern=re.compile(pattern),
        signature=signature,
        endings=("exit", "signal", "timeout"),
    )


# Warnings do not count: pip and git warn of a missing network, and may then succeed without it.
_NOT_A_WARNING = r"^(?!\s*WARNING\b).*"

_TOOLS = r"cmake|ninja|make|git|ccache|cc|c\+\+|gcc|g\+\+(?:-\d+)?|clang(?:\+\+)?|ptoas|pip|python3?"

# Lines may be indented, because pip indents the output of a failed build.
BUILD_RULES = (
    _environment(r"\b[Nn]o space left on device\b|\b[Dd]isk quota exceeded\b", "disk full"),
    _environment(r"\b(?:Read-only file system|Too many open files)\b", "file system"),
    _environment(
        r"\bKilled signal terminated program\b|internal compiler error: Killed\b"
        r"|\bvirtual memory exhausted\b|\bout of memory allocating\b|[Cc]annot allocate memory\b",
        "out of memory",
    ),
    _environment(
        _NOT_A_WARNING + r"(?:Could not resolve (?:host|hostname)|Temporary failure in name resolution"
        r"|Network is unreachable|Failed to establish a new connection|Connection (?:refused|timed out)"
        r"|Failed to connect to \S+ port|unable to access '[^']*'|TLS connect error|SSL certificate problem)",
        "network",
    ),
    _environment(
        r"^\s*ERROR: (?:Could not find a version that satisfies the requirement|No matching distribution found)"
        r" (?:for )?(?P<package>[\w.-]+)",
        "missing package {package}",
    ),
    _environment(
        r"^\s*(?:\S*/)?(?:ba|da|z)?sh: (?:.*[\s/])?(?P<tool>[\w.+-]+): (?:command )?not found$"
        rf"|^\s*make(?:\[\d+\])?: (?P<program>{_TOOLS}): No such file or directory$"
        rf"|\[Errno 2\] No such file or directory: '(?P<command>{_TOOLS})'$",
        "missing tool {tool}{program}{command}",
    ),
    _environment(
        r"\bBackendUnavailable\b|\bModuleNotFoundError: No module named "
        r"'(?:scikit_build_core|setuptools|wheel|nanobind|pybind11|hatchling)\b",
        "missing build backend",
    ),
    _environment(
        r"Could not find CMAKE_ROOT|No CMAKE_\w+_COMPILER could be found"
        r"|CMake was unable to find a build program corresponding to",
        "missing tool cmake",
    ),
    VerdictRule(
        verdict=Verdict.BUILD_ERROR,
        pattern=re.compile(
            r"^\s*(?:\S*/)?(?P<file>[^\s/:]+):\d+(?::\d+)?: (?:fatal )?error: (?P<message>.*)"
        ),
        signature="{file}: {message}",
    ),
)


_ERROR = re.compile(
    r"(?:^|(?<=\s))(?P<path>[^\s:]+):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<message>.+?)\s*$"
)
_MISSING_FILE = re.compile(r"^'?(?P<path>[^\s':]+)'?(?:: No such file or directory| file not found)$")


@dataclass(frozen=True, kw_only=True)
class CompilerError:
    """An error as gcc and clang print it. `line` counts from 1. `missing` is the header that was not found, if any."""

    path: str
    line: int
    message: str
    missing: str | None = None


def compiler_error(line: str) -> CompilerError | None:
    """Return the compiler's error on a line of output; None if there is none.

    >>> error = compiler_error("src/a.hpp:3:10: fatal error: b/c.hpp: No such file or directory")
    >>> error.path, error.line, error.missing
    ('src/a.hpp', 3, 'b/c.hpp')
    """
    if "error: " not in line or (error := _ERROR.search(line)) is None:
        return None
    missing = _MISSING_FILE.match(error["message"])
    return CompilerError(
        path=error["path"],
        line=int(error["line"]),
        message=error["message"],
        missing=None if missing is None else missing["path"],
    )


def compiler_errors(lines: Iterable[str]) -> tuple[CompilerError, ...]:
    """Return the compiler's errors on these lines, without repetitions."""
    return tuple(dict.fromkeys(error for line in lines if (error := compiler_error(line)) is not None))


Metrics = Mapping[str, Mapping[str, float]]
"""The measured numbers of a run, by output and measure."""

MEASURES = ("relative_l2", "max_diff", "mismatched_fraction", "beyond_tolerance", "times_tolerance")
"""The size of an error is given by the first of these measures that the run has."""
_NOT_FINITE = "not_finite"


@dataclass(frozen=True)
class ErrorSize:
    """The largest error over the outputs of one run. It is infinite if an output has NaN or infinity wrongly."""

    measure: str
    value: float

    def __str__(self) -> str:
        return f"{measure_words(self.measure)} {self.value:.2g}"


def measure_words(measure: str) -> str:
    """Return the name of a measure for people."""
    return measure.replace("_", " ")


def error_size(metrics: Metrics, measure: str | None = None) -> ErrorSize | None:
    """Return the error's size by `measure`, or by the first of `MEASURES` that the run has; None without any."""
    for name in MEASURES if measure is None else (measure,):
        values = [measures[name] for measures in metrics.values() if name in measures]
        if any(measures.get(_NOT_FINITE, 0) > 0 for measures in metrics.values()):
            values.append(math.inf)
        if values:
            return ErrorSize(name, max(math.inf if math.isnan(value) else value for value in values))
    return None
