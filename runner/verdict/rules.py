"""The `[[verdicts]]` tables of a stack file (`VerdictRule`): which printed line means which verdict.

Beside them stands what verdicts need that is no rule of a stack. `Ending` is how a process ended. `BUILD_RULES` know
what a failed build step prints when the machine is at fault. `CompilerError` is the file that a compiler's error
blames. `ErrorSize` is how large the errors of a run are.
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
    """The end of one process: its exit code, or the number of the signal that killed it.

    `timed_out` and `cancelled` say that the runner put an end to it; code and signal then tell nothing.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    cancelled: bool

    @property
    def kind(self) -> EndingKind:
        """Return how it ended: by itself, by a signal, or by its time running out."""
        if self.timed_out:
            return "timeout"
        return "exit" if self.signal is None else "signal"

    @property
    def is_clean(self) -> bool:
        """Return whether the process ended by itself with exit code 0."""
        return self.kind == "exit" and self.exit_code == 0

    @property
    def was_killed_from_outside(self) -> bool:
        """Return whether others send such a signal: an out-of-memory killer, a batch system, an operator."""
        return self.signal_name in SENT_FROM_OUTSIDE

    @property
    def signal_name(self) -> str | None:
        """Return the name of the signal, such as `SIGSEGV`; None where no signal ended the process."""
        return signal_of(-self.signal) if self.kind == "signal" and self.signal is not None else None

    @property
    def code(self) -> int | None:
        """Return the exit code, as Python has it: negative for a signal."""
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
    """Return the name of the signal that killed a program; None where none did. `code` is the process's own, or a
    shell's.

    >>> signal_of(-11), signal_of(139), signal_of(1), signal_of(255)
    ('SIGSEGV', 'SIGSEGV', None, None)
    """
    number = -code if code < 0 else code - 128
    try:
        return signals.Signals(number).name if number > 0 else None
    except ValueError:
        return None if code > 0 else f"signal {number}"


EXCEPTION = "exception"
"""A signature calls the run's exception by this name. No group of a pattern may have it."""


def _compile(pattern: object) -> object:
    """Compile text here for a message that shows the pattern; pydantic refuses what is no pattern at all."""
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
    """One line pattern and the verdict it speaks for. In a list of rules the earlier one wins.

    Patterns are tried on one line at a time, without colours (`classify.plain_texts`).

    In a `mismatch` rule some group names have a meaning. `output` names the failing output. `outputs` holds a list
    of quoted names. `actual` is a printed value; the signature marks NaN and infinity. `nan` and `inf` count such
    values. Every other group of the rule, and of its `details`, is a number measured on the output named last.
    In a `stall` rule and its `details`, the groups that `StallReport` knows give the kind of wait and the kernels.
    They stand behind the signature.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: Verdict
    pattern: LinePattern
    stream: Literal["any", "stdout", "stderr"] = "any"
    requires: LinePattern | None = None
    """The rule counts only if some other line of the output matches this."""
    unless: LinePattern | None = None
    """The rule does not count if some line of the output matches this."""
    endings: Annotated[tuple[EndingKind, ...], Field(min_length=1)] = ("exit",)
    """Ways for the process to end under which the rule may decide. A report that is complete once it is
    printed stands whatever happens later: it names all three."""
    chronological: bool = False
    """Of the rules that have this, the one whose line came first decides, whatever their order. It is for faults that
    may each follow from another. Such rules are meant for one stream, because lines of two arrive in any order."""
    raised_in: LinePattern | None = None
    """The rule counts only for the line that ends a traceback, whose innermost frame is in a file that matches this."""
    signature: str | None = None
    """What tells one fault from another, with the pattern's named groups in braces. `{exception}` is the line that
    ends the first traceback of the run."""
    details: tuple[LinePattern, ...] = ()
    """Of a `mismatch`: lines after this one that describe the same output. Of a `stall`: lines anywhere that tell of
    the tasks that were left. For these two alone."""

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
    def tells_exception(self) -> bool:
        """Return whether the signature is not known before the run's first traceback is."""
        return EXCEPTION in template_fields(self.signature or "")

    def signature_of(self, match: re.Match[str], *, exception: str | None = None) -> str | None:
        """Fill the template from a match of `pattern`; None if there is none, or it comes out blank."""
        if self.signature is None:
            return None
        told = {**match.groupdict(), EXCEPTION: exception}
        named = {name: " ".join((value or "").split()) for name, value in told.items()}
        return self.signature.format_map(named).strip()[:200] or None


def template_fields(template: str) -> list[str]:
    """The names that a template has in braces.

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


# Warnings are left out: pip and git warn of a network they then do without.
_NOT_A_WARNING = r"^(?!\s*WARNING\b).*"

_TOOLS = r"cmake|ninja|make|git|ccache|cc|c\+\+|gcc|g\+\+(?:-\d+)?|clang(?:\+\+)?|ptoas|pip|python3?"

# Lines may be indented: pip shows what a failed build printed that way.
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
        r"^\s*(?:\S*/)?(?:ba|da|z)?sh: .*\b(?P<tool>[\w.+-]+): (?:command )?not found$"
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
    """An error as gcc and clang print it. `line` counts from 1; `missing` is the header that was not found."""

    path: str
    line: int
    message: str
    missing: str | None = None


def compiler_error(line: str) -> CompilerError | None:
    """The error that a line of output tells of; None where it tells of none.

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
    """The errors that some lines tell of, each once."""
    return tuple(dict.fromkeys(error for line in lines if (error := compiler_error(line)) is not None))


Metrics = Mapping[str, Mapping[str, float]]
"""Measured numbers by output, then by name."""

MEASURES = ("relative_l2", "max_diff", "mismatched_fraction", "beyond_tolerance", "times_tolerance")
"""An error's size has these measures, the most telling first."""
_NOT_FINITE = "not_finite"


@dataclass(frozen=True)
class ErrorSize:
    """The largest error over the outputs of one run; infinite where an output holds NaN or infinity for a number."""

    measure: str
    value: float

    def __str__(self) -> str:
        return f"{measure_words(self.measure)} {self.value:.2g}"


def measure_words(measure: str) -> str:
    """Return what a measure is called."""
    return measure.replace("_", " ")


def error_size(metrics: Metrics, measure: str | None = None) -> ErrorSize | None:
    """By one measure, or the most telling one that there is; None without any."""
    for name in MEASURES if measure is None else (measure,):
        values = [of_output[name] for of_output in metrics.values() if name in of_output]
        if any(of_output.get(_NOT_FINITE, 0) > 0 for of_output in metrics.values()):
            values.append(math.inf)
        if values:
            return ErrorSize(name, max(math.inf if math.isnan(value) else value for value in values))
    return None
