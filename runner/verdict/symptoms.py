"""Reads what a run of any command shows of its failure: its errors, its last lines, and how it ended.

A script exits with 1 whatever fails, but its output says more: a Python exception, a failing test, a compiler's error.
`SymptomReader` reads the output line by line, in bounded memory, and returns `Symptoms`. `_PATTERNS` has a row for each
line that a common tool prints. Numbers, addresses, folders and hashes are masked in messages, so that one fault reads
the same at every commit. `likeness.py` compares the symptoms of two runs.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from ...store.vocabulary import OutputStream
from .output_lines import (
    FRAME_MARKS,
    FailurePlaces,
    ReportedTests,
    Tracebacks,
    plain_texts,
    relevant_line_spans,
    search,
    substitute,
)
from .rules import Ending, signal_of

LAST_LINES = 20
"""This many lines at the end of each stream are kept. Advice that a script prints after its error is seldom longer."""
_MAX_PER_FAMILY = 40
"""At most this many symptoms of one family are kept. A whole test suite may fail in thousands of tests."""
_MAX_MESSAGE_LENGTH = 160
"""At most this many characters of a message are kept. The beginning of a message identifies its error."""

TIMEOUT_CODE = 124
"""coreutils' `timeout` exits with this code if it killed its command."""


class Family(StrEnum):
    """What failed."""

    TEST = "test"
    ASSERTION = "assertion"
    EXCEPTION = "exception"
    ERROR = "error"
    IMPORT = "import"
    SYNTAX = "syntax"
    COLLECTION = "collection"
    COMPILE = "compile"
    LINK = "link"
    BUILD = "build"
    COMMAND = "command"
    FILE = "file"
    USAGE = "usage"
    MEMORY = "memory"
    DISK = "disk"
    NETWORK = "network"
    LICENSE = "license"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    CONSEQUENCE = "consequence"

    @property
    def prevents_check(self) -> bool:
        """Return whether such an error ends a run before the check."""
        return self in _PREVENTS_CHECK

    @property
    def may_be_machine(self) -> bool:
        """Return whether the machine may be the cause, and not the commit."""
        return self in _MAY_BE_MACHINE


UNITTEST_NAME = re.compile(r"(?P<test>(?P<method>\w+) \([\w.]+\))(?: [\[(].*)?")
"""The name of a test as unittest prints it: the method, its class, and the parameters of a subtest that failed."""

_NAMELESS_FAMILIES = frozenset({Family.ERROR, Family.CONSEQUENCE})
"""An error of these families has no name that distinguishes it."""
_MAY_BE_MACHINE = frozenset({Family.MEMORY, Family.DISK, Family.NETWORK, Family.LICENSE})
_PREVENTS_CHECK = frozenset(
    {
        *_MAY_BE_MACHINE,
        *(Family.IMPORT, Family.SYNTAX, Family.COLLECTION, Family.COMPILE, Family.LINK, Family.BUILD),
        *(Family.COMMAND, Family.FILE, Family.USAGE, Family.SIGNAL, Family.TIMEOUT),
    }
)


@dataclass(frozen=True)
class Symptom:
    """One error that a run shows.

    `name` is the exception's type, the test's id, or the tool. `text` is the message, with its variable parts masked.
    """

    family: Family
    name: str
    text: str = ""

    def __str__(self) -> str:
        if self.family is Family.TEST:
            return f"{self.name}: {self.text}" if self.text else f"{self.name} fails"
        if self.family.prevents_check and self.text and self.name not in _EXCEPTION_FAMILIES:
            return self.text
        return ": ".join(filter(None, (self.name, self.text)))


@dataclass(frozen=True, kw_only=True)
class Symptoms:
    """All that a run shows of its failure.

    Attributes:
        exit_code: negative for a signal.
        shown: the errors, in the order of their first lines.
        last_lines: the last lines of each stream, with their variable parts masked.
        tests: how many tests ran, as the test runners print it; None if none printed it.
        places: the source lines or functions in which errors were raised.
        values: the lines of `shown`, then of `last_lines`, without masking their numeric values. Empty for runs that
            older versions recorded. Equality of runs ignores them.
    """

    exit_code: int
    shown: tuple[Symptom, ...] = ()
    last_lines: tuple[str, ...] = ()
    tests: int | None = None
    skipped_tests: int = 0
    places: tuple[str, ...] = ()
    values: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        """Return the first error with a name, or else the first error, in a few words; empty if there is none.

        A test file that could not be collected is described by the error that prevented it.
        """
        named = [each for each in self.causes if each.family is not Family.ERROR]
        reasons = [each for each in named if each.family is not Family.COLLECTION]
        return str(next(iter((*reasons, *named, *self.causes)), ""))

    @property
    def may_be_machine(self) -> bool:
        """Return whether the machine may be the cause, and not the commit."""
        return any(each.family.may_be_machine for each in self.causes)

    @property
    def ran_no_test(self) -> bool:
        """Return whether test runners printed that no test ran, or that all were skipped."""
        return self.tests == 0

    @property
    def missing_test(self) -> str | None:
        """Return the id of the test that pytest did not find; None where anything else failed."""
        match self.causes:
            case [Symptom(family=Family.COLLECTION, name="pytest", text=text)] if "::" in text:
                return text
            case _:
                return None

    def leaves_out_checks(self, usual: "Symptoms") -> bool:
        """Return whether a last line says that nothing was checked, while a usual run ends with other lines."""
        lines, usual_lines = {*self.last_lines}, {*usual.last_lines}
        return bool(usual_lines - lines) and any(_EMPTY_CHECK.search(line) for line in lines - usual_lines)

    @property
    def is_crash(self) -> bool:
        """Return whether a signal ended the run, or was its first error."""
        return any(each.family is Family.SIGNAL for each in self.shown[:1])

    def subtract_usual(self, usual: Collection["Symptoms"]) -> "Symptoms":
        """Return these symptoms without the errors that usual runs show, such as runs that pass."""
        usual_errors = all_errors(usual)
        shown = tuple(symptom for symptom in self.shown if symptom not in usual_errors)
        error_values = dict(zip(self.shown, self.values, strict=False))
        kept_values = [error_values[symptom] for symptom in shown if symptom in error_values]
        return replace(self, shown=shown, values=(*kept_values, *self.values[len(self.shown) :]))

    def unusual_values(self, usual: Collection["Symptoms"]) -> dict[Symptom | str, str]:
        """Return the value of each error that has a name. If there is no such error, return those of the last lines.

        Errors and lines of usual runs, such as runs that pass, are left out.
        """
        usual_errors = all_errors(usual)
        errors: dict[Symptom | str, str] = {
            symptom: value
            for symptom, value in zip(self.shown, self.values, strict=False)
            if symptom not in usual_errors and symptom.family not in _NAMELESS_FAMILIES
        }
        if errors:
            return errors
        usual_lines = all_last_lines(usual)
        lines = zip(self.last_lines, self.values[len(self.shown) :], strict=False)
        return {line: value for line, value in lines if line not in usual_lines}

    @property
    def causes(self) -> tuple[Symptom, ...]:
        """Return the errors without those of family `CONSEQUENCE`, which follow from others."""
        return tuple(each for each in self.shown if each.family is not Family.CONSEQUENCE)

    def to_json(self) -> dict[str, Any]:
        """Return the symptoms as a JSON object, which `from_json` reads."""
        return {
            "exit_code": self.exit_code,
            "shown": [[each.family.value, each.name, each.text] for each in self.shown],
            "last_lines": [*self.last_lines],
            "tests": self.tests,
            "skipped_tests": self.skipped_tests,
            "places": [*self.places],
            "values": [*self.values],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Symptoms":
        """Return the symptoms of a JSON object that `to_json` made. Objects of older versions lack keys."""
        return cls(
            exit_code=document["exit_code"],
            shown=tuple(Symptom(Family(family), name, text) for family, name, text in document["shown"]),
            last_lines=tuple(document["last_lines"]),
            tests=document.get("tests"),
            skipped_tests=document.get("skipped_tests", 0),
            places=tuple(document.get("places", ())),
            values=tuple(document.get("values", ())),
        )


def all_errors(runs: Iterable[Symptoms]) -> frozenset[Symptom]:
    """Return every error that one of the runs shows."""
    return frozenset(symptom for each in runs for symptom in each.shown)


def all_last_lines(runs: Iterable[Symptoms]) -> frozenset[str]:
    """Return every last line that one of the runs prints."""
    return frozenset(line for each in runs for line in each.last_lines)


_EXCEPTION_FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("ImportError", "ModuleNotFoundError", "ZipImportError"), Family.IMPORT),
    **dict.fromkeys(("SyntaxError", "IndentationError", "TabError"), Family.SYNTAX),
    **dict.fromkeys(
        ("MemoryError", "OutOfMemoryError", "ArrayMemoryError", "java.lang.OutOfMemoryError"), Family.MEMORY
    ),
    **dict.fromkeys(("AssertionError", "AssertionFailedError", "ComparisonFailure"), Family.ASSERTION),
    **dict.fromkeys(
        (
            *("ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "URLError", "HTTPError"),
            *("gaierror", "SSLError", "ConnectTimeout", "ReadTimeout", "UnknownHostException"),
        ),
        Family.NETWORK,
    ),
    **dict.fromkeys(("FileNotFoundError", "NotADirectoryError", "PermissionError"), Family.FILE),
    **dict.fromkeys(("CalledProcessError", "SystemExit", "KeyboardInterrupt"), Family.CONSEQUENCE),
    "TimeoutExpired": Family.TIMEOUT,
}
_MESSAGE_FAMILIES = (
    (re.compile(r"(?i)\bout of memory\b|bad_alloc|cannot allocate memory|unable to allocate"), Family.MEMORY),
    (re.compile(r"(?i)no space left on device|disk quota exceeded"), Family.DISK),
    (
        re.compile(
            r"(?i)could not resolve host|name resolution|network is unreachable|connection (?:refused|timed out|reset)"
            r"|getaddrinfo|max retries exceeded|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|certificate verify failed"
        ),
        Family.NETWORK,
    ),
    (
        re.compile(
            r"(?i)licen[cs]e\b.{0,40}\b(?:expired|checkout|denied|unavailable|not (?:found|available)|server|failed)"
        ),
        Family.LICENSE,
    ),
    (
        re.compile(
            r"cannot open shared object file|undefined symbol: |Cannot find module|No module named"
            r"|Can't locate \S+ in @INC|cannot load such file"
        ),
        Family.IMPORT,
    ),
)
"""A message that matches one of these patterns has its family, whatever the exception's type."""


@dataclass(frozen=True)
class _Pattern:
    """A line that a tool prints. Its groups are the symptom's `name` and `text`. `tool` is the name without a group."""

    family: Family
    pattern: re.Pattern[str]
    tool: str = ""


def _rows(family: Family, *rows: str | tuple[str, str]) -> Iterator[_Pattern]:
    for row in rows:
        pattern, tool = (row, "") if isinstance(row, str) else row
        yield _Pattern(family, re.compile(pattern), tool)


_ANY_ERROR = r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Failed)"

# The first row that matches a line decides. A text that each match of a row contains must be in `_MARKS`.
_PATTERNS = (
    *_rows(
        Family.COLLECTION,
        (r"^ERROR collecting (?P<text>\S+)", "pytest"),
        (r"^_+ ERROR collecting (?P<text>\S+) _+$", "pytest"),
        (r"^ERROR (?P<text>[^\s:]+\.py)(?: - .*)?$", "pytest"),
        (r"^ERROR: (?:not found|file or directory not found): (?P<text>\S+)", "pytest"),
        (
            r"^ERROR: (?P<text>unittest\.loader\._FailedTest\S*|\S+ \(unittest\.loader\._FailedTest\S*\))",
            "unittest",
        ),
        (r"Test suite failed to run", "jest"),
        (r"^\S* ?error: test failed to start|^error: no test target named (?P<text>.*)", "cargo"),
    ),
    *_rows(
        Family.TEST,
        r"^(?:FAILED|ERROR) (?P<name>[^\s:]+\.py::\S+(?:\[.*?\])?)(?: - (?P<text>.*))?$",
        r"^(?P<name>[^\s:]+\.py::\S+(?:\[.*?\])?) (?:FAILED|ERROR)\b",
        r"^\[  FAILED  \] (?P<name>[\w/]+\.[\w/]+)",
        r"^(?:FAIL|ERROR): (?P<name>\w+ \([\w.]+\)(?: [\[(].*[\])])?)",
        r"^\s*--- FAIL: (?P<name>\S+)",
        r"^test (?P<name>\S+)(?: - should panic)? \.\.\. FAILED",
        r"^---- (?P<name>\S+) stdout ----$",
        r"^\s*\d+ - (?P<name>\S+) \((?P<text>Failed|Exception|SEGFAULT|Subprocess aborted|Timeout|Not Run|OTHER_FAULT"
        r"|ILLEGAL|NUMERICAL|INTERRUPT)[^)]*\)",
        r"^\s*\d+/\d+ Test\s+#\d+: (?P<name>\S+) \.*\*\*\*(?P<text>Failed|Exception|Timeout|Not Run)",
        r"^\s*not ok \d+ -? ?(?P<name>.+?)(?: # time=.*)?$",
        r"^\s*[\u2716\u2717\u2718] (?P<name>.*?[^:\s])(?: \([\d.]+ ?m?s\))?$",
        r"^\s*\u25cf (?P<name>.+ \u203a .+)$",
        r"^(?P<name>//\S+)\s+(?:\([^)]*\) )?FAILED in ",
        r"^# *Failed test '(?P<name>[^']+)'",
        r"^\[ERROR\]\s+(?P<name>\w+(?:\.\w+)+):\d+(?: (?P<text>.*))?$",
    ),
    *_rows(
        Family.COMPILE,
        (r"^(?:\S+\s)?(?P<path>[^\s:()]+):\d+(?::\d+)?: (?:fatal )?error: (?P<text>.+)", "compiler"),
        (r"^error\[E\d+\]: (?P<text>.+)", "rustc"),
        (r"^(?:vet: )?\.{0,2}[\w./-]+\.go:\d+:\d+: (?P<text>.+)", "go"),
        (r"^[^\s()]+\(\d+(?:,\d+)?\): (?:fatal )?error \w+: (?P<text>.+)", "tsc"),
        (r"^[^\s:]+:\d+:\d+ - error TS\d+: (?P<text>.+)", "tsc"),
        (r"^error: expected (?P<text>.+)$", "rustc"),
        (r"^cc1\w*: fatal error: (?P<text>.+)", "compiler"),
        (r"^nvcc fatal\s*: (?P<text>.+)", "nvcc"),
        (r"^FAIL\s+(?P<text>\S+ \[(?:build|setup) failed\])", "go"),
    ),
    *_rows(
        Family.LINK,
        (r"undefined reference to (?P<text>.+)", "ld"),
        (r"\bld(?:\.\w+)?: (?:cannot find|error:|library not found) ?(?P<text>.+)", "ld"),
        (r"multiple definition of (?P<text>[^;]+)", "ld"),
        (r"^Undefined symbols for architecture (?P<text>.+)", "ld"),
        (r"^error: linking with (?P<text>.+?) failed", "rustc"),
    ),
    *_rows(
        Family.MEMORY,
        (
            r"(?i)(?P<text>CUDA(?: error:)? out of memory|hip out of memory|CUDA_ERROR_OUT_OF_MEMORY)",
            "accelerator",
        ),
        (r"(?P<text>JavaScript heap out of memory)", "node"),
        (
            r"(?P<text>Killed signal terminated program|internal compiler error: Killed|virtual memory exhausted)",
            "compiler",
        ),
        (
            r"(?P<text>[Cc]annot allocate memory|std::bad_alloc|memory allocation of \d+ bytes failed)",
            "allocator",
        ),
        (r"^(?:\S+: line \d+:\s+\d+ )?Killed\b(?P<text>)", "killed"),
        (r"(?P<text>oom-kill|Out of memory: Killed process)", "kernel"),
    ),
    *_rows(
        Family.DISK,
        (r"(?P<text>[Nn]o space left on device|[Dd]isk quota exceeded|Read-only file system)", "file system"),
    ),
    *_rows(
        Family.LICENSE,
        (
            r"(?i)(?P<text>licen[cs]e\b.{0,40}\b(?:expired|checkout|denied|unavailable|not (?:found|available)|failed)"
            r"|(?:checkout|obtain|acquire) .{0,30}licen[cs]e\b.{0,30}|FLEXnet Licensing error\S*)",
            "license",
        ),
    ),
    *_rows(
        Family.NETWORK,
        (
            r"(?P<text>Could not resolve host\w*|Temporary failure in name resolution|Network is unreachable"
            r"|[Cc]onnection (?:refused|timed out|reset by peer)|Failed to connect to \S+ port|Max retries exceeded"
            r"|getaddrinfo \w+|network timeout|TLS handshake timeout|no such host|i/o timeout|EAI_AGAIN|ENOTFOUND"
            r"|SSL certificate problem|certificate verify failed|50[234] (?:Bad Gateway|Service Unavailable|Gateway"
            r" Time-?out)|toomanyrequests)",
            "network",
        ),
    ),
    *_rows(
        Family.SIGNAL,
        (r"(?P<text>Segmentation fault|Bus error|Illegal instruction|Floating point exception)", "signal"),
        (r"^(?:\S+: line \d+:\s+\d+ )?(?P<text>Aborted)\b", "signal"),
        (r"(?P<text>SIGSEGV|SIGBUS|SIGILL|SIGFPE)\b", "signal"),
    ),
    *_rows(
        Family.IMPORT,
        (r"(?P<text>error while loading shared libraries: [^:]+)", "ld.so"),
        (
            r"^(?:Uncaught )?Error(?: \[ERR_MODULE_NOT_FOUND\])?: (?P<text>Cannot find (?:module|package) .+)",
            "node",
        ),
        (r"(?P<text>Can't locate \S+ in @INC)", "perl"),
        (r"(?P<text>cannot load such file -- \S+)", "ruby"),
        (r"(?P<text>No module named .+)$", "python"),
        (r"(?P<text>cannot find package .+|no required module provides package .+)", "go"),
        (r"^error: (?P<text>no matching package named .+|failed to select a version .+)", "cargo"),
        (r"Error: Could not find or load main class (?P<text>.+)", "java"),
    ),
    *_rows(
        Family.SYNTAX,
        (r"(?P<text>syntax error.*)", "shell"),
        (r"^SyntaxError: (?P<text>.*)", "node"),
        (r"(?P<text>unexpected end of file|Unterminated quoted string.*)", "shell"),
    ),
    *_rows(
        Family.COMMAND,
        (r"(?:^|: )(?P<text>[\w./+-]+): (?:command )?not found$", "shell"),
        (r"^(?:\S+: )?(?:line \d+: )?(?P<text>\S+): Permission denied$", "shell"),
        (r"^make(?:\[\d+\])?: (?P<text>\S+): No such file or directory$", "make"),
        (r"^env: (?P<text>.+): No such file or directory$", "env"),
        (r"(?P<text>bad interpreter|Exec format error)", "shell"),
    ),
    *_rows(
        Family.USAGE,
        (
            r"(?P<text>unrecognized arguments|the following arguments are required|no such option|invalid choice).*",
            "usage",
        ),
        (r"^usage: (?P<text>\S+)", "usage"),
        (r"(?:npm ERR!|npm error) (?P<text>Missing script: .+)", "npm"),
        (r"(?i)^error: (?P<text>(?:unknown|unrecognized) (?:option|argument|command).*)", "usage"),
    ),
    *_rows(
        Family.BUILD,
        (r"^CMake Error(?: at [^\s:]+(?::\d+)?)?(?P<text>.*)", "cmake"),
        (r"^(?P<text>Could not find a package configuration file.*)", "cmake"),
        (
            r"^make(?:\[\d+\])?: \*\*\* (?P<text>No rule to make target .+|No targets specified.*|missing separator.*)",
            "make",
        ),
        (r"^\S*[Mm]akefile\S*:\d+: \*\*\* (?P<text>.+)", "make"),
        (r"^ninja: error: (?P<text>.+)", "ninja"),
        (r"^ERROR: \S*/?(?:BUILD|WORKSPACE|MODULE)(?:\.bazel)?:\d+:\d+: (?P<text>.+)", "bazel"),
        (
            r"^ERROR: (?P<text>(?:no such (?:target|package)|Skipping|Analysis of target|error loading package).+)",
            "bazel",
        ),
        (r"^(?P<text>//\S+) +FAILED TO BUILD", "bazel"),
        (r"^(?:npm ERR!|npm error) (?P<text>code \w+)", "npm"),
        (
            r"^error: (?P<text>failed to (?:parse manifest|load manifest|run custom build command|resolve).*)",
            "cargo",
        ),
        (r"^(?P<text>go: (?:errors parsing|cannot|module|updates to) .+|go\.mod:\d+: .+)", "go"),
        (r"^error: (?P<text>subprocess-exited-with-error|metadata-generation-failed)", "pip"),
        (
            r"^ERROR: (?P<text>(?:Could not find a version|No matching distribution|Failed building wheel).*)",
            "pip",
        ),
        (r"^(?:FAILURE|\[ERROR\] BUILD FAILURE|FAILURE: Build failed)(?P<text>.*)", "build"),
        (r"^fatal: (?P<text>.+)", "git"),
    ),
    *_rows(
        Family.FILE,
        (r"(?P<text>can't open file '[^']+')", "python"),
        (
            r"^(?:\S+: )?(?:line \d+: )?(?:cannot (?:open|access|stat) )?(?P<text>\S+): No such file or directory$",
            "file",
        ),
        (r"^Can't open perl script (?P<text>\S+)", "perl"),
        (r"(?P<text>ENOENT: no such file or directory.*)", "node"),
    ),
    *_rows(
        Family.ASSERTION,
        (r"Assertion (?P<text>.+) failed\.?$", "assert"),
        (r"^Assertion failed: (?P<text>.+)", "assert"),
        (r"^\S*thread '[^']+'(?: \(\d+\))? panicked at '(?P<text>.*)', \S+", "panic"),
        (r"^\S*thread '[^']+'(?: \(\d+\))? panicked at (?P<text>[^:\s]+):\d+:\d+:$", "panic"),
        (r"^(?:E\s+|Uncaught )?AssertionError(?: \[\w+\])?(?:: (?P<text>.*))?$", "AssertionError"),
        (r"^\S*: Failure$", "gtest"),
        r"^\s+(?P<name>expected|actual): (?P<text>.+)",
    ),
    *_rows(
        Family.EXCEPTION,
        (r"^panic: (?P<text>.+)", "panic"),
        (r"terminate called after throwing an instance of '(?P<name>[^']+)'", ""),
        (r"^(?:E\s{2,}|Uncaught )?(?P<name>" + _ANY_ERROR + r")(?: \[\w+\])?(?:: (?P<text>.*))?$", ""),
        (r'^Exception in thread "[^"]*" (?P<name>[\w.$]+)(?:: (?P<text>.*))?$', ""),
        (r"^\S+\.rb:\d+:in .+?: (?P<text>.+) \((?P<name>[\w:]+)\)$", ""),
        (r"(?P<text>ERROR: \w+Sanitizer: \S+)", "sanitizer"),
        (r"^(?P<text>.+) at \S+\.p[lm] line \d+\.?$", "perl"),
    ),
    *_rows(
        Family.CONSEQUENCE,
        (r"^make(?:\[\d+\])?: \*\*\* (?P<text>.*)Error \d+", "make"),
        (r"^(?:npm ERR!|npm error)(?P<text>.*)", "npm"),
        (
            r"^error: (?P<text>could not compile .+|test failed.*|aborting due to .+|\d+ targets? failed.*)",
            "cargo",
        ),
        (r"^collect2: error: (?P<text>.+)", "ld"),
        (r"^ninja: (?P<text>build stopped.*)", "ninja"),
        (r"^(?P<text>FAILED: .+|Errors while running CTest|FAIL|exit status \d+)$", "build"),
        (r"^FAIL\s+(?P<text>\S+)\s+[\d.]+s$", "go"),
        (r"^(?P<text>ERROR: Build did NOT complete successfully|FAILED: Build did NOT complete.*)", "bazel"),
        (r"^(?P<text>FAILED \((?:failures|errors)=.*\))$", "unittest"),
    ),
    *_rows(
        Family.ERROR,
        r"^(?:\S+: )?(?P<name>[Ee]rror|ERROR|[Ff]atal|FATAL|FAIL|FAILED|[Ff]ailure)\b:? ?(?P<text>.*)",
    ),
)
_EMPTY_CHECK = re.compile(
    r"(?i)\b(?:skip(?:s|ped|ping)?|disabled|nothing|already running|another instance"
    r"|not (?:run|checked|available|supported|found)|no (?:tests?|checks?|cases?|devices?|gpus?))\b"
)
_TEMPORARY = (
    re.compile(
        r"(?<![\w.])/(?:private/)?(?:var/)?tmp/[^\s/'\":,()]*?(?=(?:\.[a-z]+)?(?:[\s'\":,()]|$))"
        r"|\btmp(?:\.[A-Za-z0-9]{6,}|[a-z0-9_]{8})\b"
    ),
    "#",
)
"""A file right in a folder of temporary files, or what mktemp and Python's tempfile call one."""
_FOLDERS = (re.compile(r"(?<![\w./])(?:file://)?(?:[A-Za-z]:)?/(?:[^\s/'\":,()]+/)+"), "")
_ADDRESSES = (re.compile(r"\b0x[0-9a-fA-F]+\b"), "#")
_SPACES = (re.compile(r"\s+"), " ")
_VARIABLE_PARTS = (
    _TEMPORARY,
    _FOLDERS,
    _ADDRESSES,
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b"), "#"),
    (re.compile(r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+)"), "#"),
    (re.compile(r"(?<![\w.])[-+]?(?:nan|inf(?:inity)?)(?!\w)", re.IGNORECASE), "#"),
    (re.compile(r"#(?:[.,:x/-]?#)+"), "#"),
    _SPACES,
)
"""These patterns and replacements mask what differs between runs and commits."""
_LOCATIONS_AND_TIMES = (
    _TEMPORARY,
    _FOLDERS,
    _ADDRESSES,
    (re.compile(r"(?<=[Ll]ine )\d+|(?<=\w):\d+(?::\d+)?(?=[:)\s]|$)"), "#"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:[mun\u00b5]?s|sec(?:onds?)?|min(?:utes?)?)\b"), "#"),
    _SPACES,
)
"""These mask what differs between runs of one build, or after an edit of its source, but is no part of the result."""


def mask_locations_and_times(text: str) -> str:
    """Return a message with its numbers, but without folders, addresses, line numbers and durations.

    >>> mask_locations_and_times("error 0.5 > 2e-3 in /w/slot1/a.py:12 at 0x7f01, in 3.1 s")
    'error 0.5 > 2e-3 in a.py# at #, in #'
    """
    return substitute(text, _LOCATIONS_AND_TIMES).strip()[:_MAX_MESSAGE_LENGTH]


_TIME_STAMP = re.compile(
    r"^\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:? +"
)
"""Matches the time that loggers and build services print before each line."""


def strip_time_stamp(text: str) -> str:
    """Return a line without the time that a logger or a build service printed before it."""
    return _TIME_STAMP.sub("", text, count=1)


def mask_variable_parts(text: str) -> str:
    """Return a message without what varies between runs and commits: numbers, addresses, hashes and folders.

    >>> mask_variable_parts("error 0.5 > 2e-3 in /w/slot1/a.py at 0x7f01")
    'error # > # in a.py at #'
    """
    return substitute(text, _VARIABLE_PARTS).strip()[:_MAX_MESSAGE_LENGTH]


_REFINED_BY_MESSAGE = frozenset({Family.EXCEPTION, Family.ERROR, Family.BUILD, Family.CONSEQUENCE})
"""An error of these families may be of another one by its message or its type, such as a missing file."""


def recognize(text: str) -> Symptom | None:
    """Return the error on a line of output; None if there is none.

    >>> recognize("FAILED tests/test_x.py::test_y - AssertionError: 0.5 > 0.1")
    Symptom(family=<Family.TEST: 'test'>, name='tests/test_x.py::test_y', text='AssertionError: # > #')
    """
    for row in _PATTERNS:
        if (match := search(row.pattern, text)) is not None:
            groups = match.groupdict()
            name = groups.get("name") or row.tool
            message = groups.get("text") or ""
            family = row.family
            if family in _REFINED_BY_MESSAGE:
                family = exception_family(name, message, default=family)
            # The whole name identifies a test. Of an exception, the type alone counts, whatever module has it.
            name = name.strip() if family is Family.TEST else mask_variable_parts(name).rpartition(".")[2]
            return Symptom(family, name[:_MAX_MESSAGE_LENGTH], mask_variable_parts(message))
    return None


def exception_family(name: str, message: str, *, default: Family = Family.EXCEPTION) -> Family:
    """Return the family of an exception with this type and message."""
    for pattern, family in _MESSAGE_FAMILIES:
        if pattern.search(message):
            return family
    return _EXCEPTION_FAMILIES.get(name.rpartition(".")[2], default)


def _exception_symptom(line: str, source: str) -> Symptom:
    """Return the symptom of a traceback's last line. `source` is the source line that raised the exception."""
    name, _, message = line.partition(": ")
    family = exception_family(name, message)
    message = message or (source if family is Family.ASSERTION else "")
    return Symptom(family, name.rpartition(".")[2][:_MAX_MESSAGE_LENGTH], mask_variable_parts(message))


_MARKS = (
    *("expected: ", "actual: ", " stdout ----"),
    *("skipped", "ignored", "SKIP", "Skip", "pending", "passing", "NOTESTS", "PASS"),
    *("rror", "RROR", "ailure", "Fail", "FAIL", "failed", "xception", "fatal"),
    *("Fatal", "FATAL", "not ok", "panic", "Traceback", "During handling", "undefined", "multiple def"),
    *("ot found", "annot", "an't", "No such", "No module", "no such", "ermission denied", "illed"),
    *("emory", "MEMORY", "bad_alloc", "space left", "quota", "Read-only", "icen", "ICEN"),
    *("***", "Segm", "SIG", "Bus ", "Illegal", "Floating", "onnection"),
    *("etwork", "resol", "TLS", "SSL", "502", "503", "504"),
    *("ENO", "EAI", "terminate called", "oom", "usage", "unrecognized", "required", "invalid"),
    *("nknown", "go: ", "go.mod", ".go:", "Missing script", "Could not", "Exec format", "syntax"),
    *("unexpected", "Unterminated", "Undefined", "ld: ", "test", "Tests", "passed", "1..0"),
    *("\u2716", "\u2717", "\u2718", "\u25cf", ".pl line", ".pm line", ".rb:", "ok "),
    *("ok\t", "deselected", "\x1b", "NUMERICAL", "OTHER_FAULT", "getaddrinfo", "interpreter", "npm "),
    *("build stopped", "exit status", "SEGF", "imeout", "INTERRUPT", "ILLEGAL", "Not Run", "borted"),
    "Max retries",
    *FRAME_MARKS,
)
"""Each line that a pattern matches contains one of these texts. Patterns are not tried on other lines."""
_ENCODED_MARKS = tuple(mark.encode() for mark in _MARKS)
_MAX_PATTERN_LINES = 20_000
"""Patterns are tried on at most this many lines. Of a longer output, they are also tried on the last `_TAIL_LINES`."""
_TAIL_LINES = 200
"""This many of the last lines of each stream are kept."""
_HEAD_BYTES, _TAIL_BYTES = 4 << 20, 4 << 20
"""At most this many bytes are read at the beginning and at the end of an output, to bound the time."""


class PrintedLine(NamedTuple):
    """A line of an output. `number` counts from 1 over both streams."""

    stream: OutputStream
    number: int
    text: str


@dataclass
class SymptomReader:
    """Reads a run's output as it comes, in bounded memory."""

    _shown: dict[Symptom, PrintedLine | None] = field(default_factory=dict[Symptom, PrintedLine | None])
    """The errors, each with the line that it was first read from. A timeout and a signal have none."""
    _counts: dict[Family, int] = field(default_factory=dict[Family, int])
    _tails: dict[OutputStream, deque[PrintedLine]] = field(
        default_factory=dict[OutputStream, deque[PrintedLine]]
    )
    """The last lines of each stream."""
    _tracebacks: Tracebacks = field(default_factory=Tracebacks)
    _expects_panic: bool = False
    """Whether the next line is the message of a panic."""
    _tests: ReportedTests = field(default_factory=ReportedTests)
    _places: FailurePlaces = field(default_factory=FailurePlaces)
    _read_lines: int = 0
    _last_counted: int = 0
    """The number of the last line whose tests were counted."""
    _head_bytes_left: int = _HEAD_BYTES
    """The number of bytes that are still read as they come."""
    _late_chunks: deque[tuple[OutputStream, int, bytes]] = field(
        default_factory=deque[tuple[OutputStream, int, bytes]]
    )
    """The chunks after the first `_HEAD_BYTES`, at most `_TAIL_BYTES`. They are read at the end."""
    _late_size: int = 0
    _has_gap: bool = False
    """Whether chunks were dropped from `_late_chunks`."""

    def feed(self, stream: OutputStream, number: int, line: str) -> None:
        """Take one line. `number` counts from 1."""
        printed = [PrintedLine(stream, number, text) for text in plain_texts(line)]
        self._tail(stream).extend(printed)
        if self._head_bytes_left <= 0:
            self._keep_late_chunk(stream, number, f"{line.rstrip()}\n".encode("utf-8", "replace"))
            return
        self._head_bytes_left -= len(line)
        for each in printed:
            self._read(each)

    def skim(self, stream: OutputStream, first: int, lines: bytes) -> None:
        """Take whole lines, the first of which is number `first`. The effect is that of `feed` for each line."""
        self._keep_tail(stream, first, lines)
        if self._head_bytes_left <= 0:
            self._keep_late_chunk(stream, first, lines)
            return
        self._head_bytes_left -= len(lines)
        self._read_marked(stream, first, lines)

    def finish(self, ending: Ending) -> Symptoms:
        """Return all that the run showed. Call it once, after the last line."""
        self._read_late_chunks()
        if self._read_lines > _MAX_PATTERN_LINES:
            counted = self._last_counted
            for tail in self._tails.values():
                for line in tail:
                    self._recognize(line, counts_tests=line.number > counted)
        exit_code = ending.code or 0
        if ending.timed_out or exit_code == TIMEOUT_CODE:
            self._add(Symptom(Family.TIMEOUT, "timeout"), None)
        elif (killed_by := signal_of(exit_code)) is not None:
            self._shown = {Symptom(Family.SIGNAL, killed_by): None, **self._shown}
        if self._tests.tests == 0 and exit_code and not self._shown:
            self._add(Symptom(Family.COLLECTION, "no test ran"), None)
        last = {
            line: mask_locations_and_times(printed.text)
            for stream in sorted(self._tails)
            for printed in [*self._tails[stream]][-LAST_LINES:]
            if (line := mask_variable_parts(printed.text))
        }
        texts = ("" if line is None else line.text for line in self._shown.values())
        return Symptoms(
            exit_code=exit_code,
            shown=tuple(self._shown),
            last_lines=tuple(last),
            places=tuple(map(mask_variable_parts, self._places.found)),
            values=(*map(mask_locations_and_times, texts), *last.values()),
            tests=self._tests.tests,
            skipped_tests=self._tests.skipped,
        )

    @property
    def cause_line(self) -> PrintedLine | None:
        """Return the line that the first error with a name was read from, without its time; None if there is none."""
        causes = (
            line
            for symptom, line in self._shown.items()
            if line is not None and line.text and symptom.family not in _NAMELESS_FAMILIES
        )
        return next(causes, None)

    def _tail(self, stream: OutputStream) -> deque[PrintedLine]:
        return self._tails.setdefault(stream, deque(maxlen=_TAIL_LINES))

    def _keep_tail(self, stream: OutputStream, first: int, lines: bytes) -> None:
        all_lines = lines.removesuffix(b"\n").split(b"\n")
        last: list[PrintedLine] = []
        for place in reversed(range(len(all_lines))):
            number, texts = first + place, [*plain_texts(all_lines[place].decode("utf-8", "replace"))]
            last += (PrintedLine(stream, number, text) for text in reversed(texts))
            if len(last) >= _TAIL_LINES:
                break
        self._tail(stream).extend(reversed(last))

    def _keep_late_chunk(self, stream: OutputStream, first: int, lines: bytes) -> None:
        self._late_chunks.append((stream, first, lines))
        self._late_size += len(lines)
        while self._late_size - len(self._late_chunks[0][2]) >= _TAIL_BYTES:
            self._late_size -= len(self._late_chunks.popleft()[2])
            self._has_gap = True

    def _read_late_chunks(self) -> None:
        if self._has_gap:
            self._tracebacks, self._expects_panic = Tracebacks(), False
        while self._late_chunks:
            self._read_marked(*self._late_chunks.popleft())

    def _read_marked(self, stream: OutputStream, first: int, lines: bytes) -> None:
        """Read those lines that a pattern may match. `first` is the number of the first line."""
        if self._read_lines > _MAX_PATTERN_LINES:
            return
        marked = relevant_line_spans(_ENCODED_MARKS, lines, reads_all=lambda: self._reads_all(stream))
        number, counted = first, 0
        for begin, end in marked:
            number += lines.count(b"\n", counted, begin)
            counted = begin
            for text in plain_texts(lines[begin:end].decode("utf-8", "replace")):
                self._read(PrintedLine(stream, number, text))

    def _reads_all(self, stream: OutputStream) -> bool:
        """Return whether the next line matters, whatever it contains."""
        return self._expects_panic or self._tracebacks.is_inside(stream)

    def _read(self, line: PrintedLine) -> None:
        if not self._reads_all(line.stream) and not any(mark in line.text for mark in _MARKS):
            return
        self._read_lines += 1
        if self._read_lines <= _MAX_PATTERN_LINES:
            self._recognize(line, counts_tests=True)
            self._last_counted = line.number

    def _recognize(self, line: PrintedLine, *, counts_tests: bool) -> None:
        text = strip_time_stamp(line.text)
        line = line._replace(text=text)
        if counts_tests:
            self._tests.feed(text)
        if self._expects_panic:
            # Rust prints the message of a panic on the line after its place.
            self._expects_panic = False
            self._add(Symptom(Family.ASSERTION, "panic", mask_variable_parts(text)), line)
            return
        if self._tracebacks.feed(line.stream, text) is not None:
            self._add(_exception_symptom(text.strip(), self._tracebacks.source), line)
            self._places.add(mask_variable_parts(self._tracebacks.own_source))
            return
        if self._places.feed(text):
            return
        if self._tracebacks.is_inside(line.stream) and text.startswith(" "):
            return
        if (symptom := recognize(text)) is not None:
            self._expects_panic = symptom.name == "panic" and text.endswith(":")
            self._places.expect_frame()
            if not self._expects_panic:
                self._add(symptom, line)

    def _add(self, symptom: Symptom, line: PrintedLine | None) -> None:
        count = self._counts.get(symptom.family, 0)
        if symptom not in self._shown and count < _MAX_PER_FAMILY:
            self._counts[symptom.family] = count + 1
            self._shown[symptom] = line
