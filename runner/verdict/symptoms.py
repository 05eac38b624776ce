"""What a run of any command shows of its failure: the errors that it prints, its last lines, and how it ends.

A script exits with 1 whatever fails. What it prints tells more: a Python exception, a failing test's id, a compiler's
error. `SymptomReader` reads the output line by line, in bounded memory, and recognizes what common tools print; each
tool is a row of `_PATTERNS`. Numbers, addresses, folders and hashes are taken out of messages, so that one fault reads
the same at every commit. `likeness.py` compares what two runs show.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from .classify import Tracebacks, plain_texts, relevant_line_spans, search, substitute
from .failure_details import FRAME_MARKS, FailurePlaces, ReportedTests
from .rules import Ending, signal_of

LAST_LINES = 20
"""This many lines at the end of each stream are kept. Advice that a script prints after its error is seldom longer."""
_MOST_OF_FAMILY = 40
"""At most this many symptoms of one family are kept. A run of a whole test suite may fail in thousands of tests."""
_LONGEST = 160
"""At most this many characters of a message are kept. Its beginning tells the error."""

TIMEOUT_CODE = 124
"""coreutils' `timeout` ends with this exit code if it killed its command."""


class Family(StrEnum):
    """What sort of thing failed."""

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
        """Return whether the run did not get as far as what it checks."""
        return self in _PREVENTS_CHECK

    @property
    def may_be_machine(self) -> bool:
        """Return whether the machine may have failed, and not the commit, so that another run may end otherwise."""
        return self in _MAY_BE_MACHINE


_NAMELESS_FAMILIES = frozenset({Family.ERROR, Family.CONSEQUENCE})
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

    name: the exception's type, the test's id, or the tool. text: the message, without what moves between runs.
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
    """All that a run shows: its errors in the order of their first lines, its last lines, and its ending.

    exit_code is negative for a signal. tests: how many test runners say that they ran, and that they skipped; None
    where none says it. places: where in the source errors were raised. values: the lines of `shown`, then of
    `last_lines`, with their numbers; empty for runs of older versions. Runs that differ in these alone are equal.
    """

    exit_code: int
    shown: tuple[Symptom, ...] = ()
    last_lines: tuple[str, ...] = ()
    tests: int | None = None
    skipped_tests: int = 0
    places: tuple[str, ...] = ()
    values: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        """The first error with a name, else the first one, in a few words; empty where none is shown."""
        named = (each for each in self.causes if each.family is not Family.ERROR)
        return str(next(named, next(iter(self.causes), "")))

    @property
    def may_be_machine(self) -> bool:
        """Return whether the machine may have failed, and not the commit."""
        return any(each.family.may_be_machine for each in self.causes)

    @property
    def ran_no_test(self) -> bool:
        """Return whether test runners say that they ran none, or skipped all."""
        return self.tests == 0

    def leaves_out_checks(self, usual: "Symptoms") -> bool:
        """Return whether the output says that nothing was checked, where another run's says something else."""
        here, there = {*self.last_lines}, {*usual.last_lines}
        return bool(there - here) and any(_EMPTY_CHECK.search(line) for line in here - there)

    @property
    def is_crash(self) -> bool:
        """Return whether a signal ended the run."""
        return any(each.family is Family.SIGNAL for each in self.shown[:1])

    def subtract_usual(self, usual: Collection["Symptoms"]) -> "Symptoms":
        """Return what these show that others do not, such as runs that pass."""
        noise = errors_of(usual)
        kept = tuple(symptom for symptom in self.shown if symptom not in noise)
        values = dict(zip(self.shown, self.values, strict=False))
        of_lines = self.values[len(self.shown) :]
        return replace(
            self, shown=kept, values=(*(values[each] for each in kept if each in values), *of_lines)
        )

    def values_without(self, usual: Collection["Symptoms"]) -> dict[Symptom | str, str]:
        """Return the lines of the failure with their numbers: of each error that has a name, else of the last lines.
        What other runs print too, such as runs that pass, is left out."""
        noise = errors_of(usual)
        of_errors: dict[Symptom | str, str] = {
            symptom: value
            for symptom, value in zip(self.shown, self.values, strict=False)
            if symptom not in noise and symptom.family not in _NAMELESS_FAMILIES
        }
        if of_errors:
            return of_errors
        lines = lines_of(usual)
        of_lines = zip(self.last_lines, self.values[len(self.shown) :], strict=False)
        return {line: value for line, value in of_lines if line not in lines}

    @property
    def causes(self) -> tuple[Symptom, ...]:
        """Return the errors without those that only follow from others."""
        return tuple(each for each in self.shown if each.family is not Family.CONSEQUENCE)

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it; `from_plain` reads it."""
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
    def from_plain(cls, plain: Mapping[str, Any]) -> "Symptoms":
        """Return what `plain` made."""
        return cls(
            exit_code=plain["exit_code"],
            shown=tuple(Symptom(Family(family), name, text) for family, name, text in plain["shown"]),
            last_lines=tuple(plain["last_lines"]),
            tests=plain.get("tests"),  # older runs have neither
            skipped_tests=plain.get("skipped_tests", 0),
            places=tuple(plain.get("places", ())),
            values=tuple(plain.get("values", ())),
        )


def errors_of(runs: Iterable[Symptoms]) -> frozenset[Symptom]:
    """Return every error that one of the runs shows."""
    return frozenset(symptom for each in runs for symptom in each.shown)


def lines_of(runs: Iterable[Symptoms]) -> frozenset[str]:
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
"""Match messages that tell their family, whatever line they stand on."""


@dataclass(frozen=True)
class _Pattern:
    """A line that a tool prints. Groups: `name` and `text` of the symptom. `tool` is the name where no group is."""

    family: Family
    pattern: re.Pattern[str]
    tool: str = ""


def _rows(family: Family, *rows: str | tuple[str, str]) -> Iterator[_Pattern]:
    for row in rows:
        pattern, tool = (row, "") if isinstance(row, str) else row
        yield _Pattern(family, re.compile(pattern), tool)


_ANY_ERROR = r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Failed)"

# The first row that matches a line decides. What the rows need as literal text is what a line is looked at for.
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
_VARIABLE_PARTS = (
    (re.compile(r"(?<![\w.])(?:[A-Za-z]:)?/(?:[^\s/'\":,()]+/)+"), ""),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "#"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b"), "#"),
    (re.compile(r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+)"), "#"),
    (re.compile(r"(?<![\w.])[-+]?(?:nan|inf(?:inity)?)(?!\w)", re.IGNORECASE), "#"),
    (re.compile(r"#(?:[.,:x/-]?#)+"), "#"),
    (re.compile(r"\s+"), " "),
)


_NON_VALUES = (
    *_VARIABLE_PARTS[:2],
    (re.compile(r"(?<=[Ll]ine )\d+|(?<=\w):\d+(?::\d+)?(?=[:)\s]|$)"), "#"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:[mun\u00b5]?s|sec(?:onds?)?|min(?:utes?)?)\b"), "#"),
    _VARIABLE_PARTS[-1],
)
"""Match what differs between runs of one build, or once a commit edits a file. None of it is a value of a failure."""


def values_of(text: str) -> str:
    """A message with its numbers, but without folders, addresses, line numbers and durations.

    >>> values_of("error 0.5 > 2e-3 in /w/slot1/a.py:12 at 0x7f01, in 3.1 s")
    'error 0.5 > 2e-3 in a.py# at #, in #'
    """
    return substitute(text, _NON_VALUES).strip()[:_LONGEST]


_STAMP = re.compile(r"^\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:? +")
"""Matches the time that loggers and build services put before each line."""


def template(text: str) -> str:
    """A message without what moves between runs and commits: numbers, addresses, hashes and folders.

    >>> template("error 0.5 > 2e-3 in /w/slot1/a.py at 0x7f01")
    'error # > # in a.py at #'
    """
    return substitute(text, _VARIABLE_PARTS).strip()[:_LONGEST]


def recognize(text: str) -> Symptom | None:
    """The error that a line of output tells of; None where it tells of none.

    >>> recognize("FAILED tests/test_x.py::test_y - AssertionError: 0.5 > 0.1")
    Symptom(family=<Family.TEST: 'test'>, name='tests/test_x.py::test_y', text='AssertionError: # > #')
    """
    for row in _PATTERNS:
        if (match := search(row.pattern, text)) is not None:
            groups = match.groupdict()
            name, message = groups.get("name") or row.tool, groups.get("text") or ""
            family = row.family
            if family in (Family.EXCEPTION, Family.ERROR, Family.BUILD, Family.CONSEQUENCE):
                family = family_of_exception(name, message, otherwise=family)
            name = name.strip() if family is Family.TEST else template(name).rpartition(".")[2]
            return Symptom(family, name[:_LONGEST], template(message))
    return None


def family_of_exception(name: str, message: str, *, otherwise: Family = Family.EXCEPTION) -> Family:
    """Return what sort of thing an exception of this type and message is."""
    for pattern, family in _MESSAGE_FAMILIES:
        if pattern.search(message):
            return family
    return _EXCEPTION_FAMILIES.get(name.rpartition(".")[2], otherwise)


def _exception_symptom(line: str, source: str) -> Symptom:
    """The symptom of the line that ends a traceback, whose innermost frame is at a line of source."""
    name, _, message = line.partition(": ")
    family = family_of_exception(name, message)
    message = message or (source if family is Family.ASSERTION else "")
    return Symptom(family, name.rpartition(".")[2][:_LONGEST], template(message))


_MARKS = (
    *("expected: ", "actual: ", " stdout ----"),
    *(
        "skipped",
        "ignored",
        "SKIP",
        "Skip",
        "pending",
        "passing",
        "NOTESTS",
        "PASS",
        "rror",
        "RROR",
        "ailure",
        "Fail",
        "FAIL",
        "failed",
        "xception",
        "fatal",
    ),
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
"""Each line that a pattern matches has one of these: the rest of a long output is passed over."""
_COARSE_MARKS = tuple(mark.encode() for mark in _MARKS)
_MOST_READ = 20_000
"""Patterns are tried on at most this many lines, and on the last lines of a longer output that is full of errors."""
_TAIL_LINES = 200
"""This many of the last lines of a stream are kept. Patterns that need several lines look back into them."""
_READ_FIRST, _READ_LAST = 4 << 20, 4 << 20
"""At most this many bytes are read at the beginning and at the end of an output, so that a long log is not slower."""


@dataclass
class SymptomReader:
    """Reads a run's output as it comes, in bounded memory."""

    _shown: dict[Symptom, str] = field(default_factory=dict[Symptom, str])
    """Each with the line that it was read from first."""
    _counts: dict[Family, int] = field(default_factory=dict[Family, int])
    _tails: dict[str, deque[str]] = field(default_factory=dict[str, deque[str]])
    """The last lines of each stream: what one stream prints at its end is not lost behind the other's."""
    _tracebacks: Tracebacks = field(default_factory=Tracebacks)
    _panic: bool = False
    _tests: ReportedTests = field(default_factory=ReportedTests)
    _places: FailurePlaces = field(default_factory=FailurePlaces)
    _read_lines: int = 0
    _room: int = _READ_FIRST
    """Bytes that are still read as they come."""
    _late: deque[tuple[str, bytes]] = field(default_factory=deque[tuple[str, bytes]])
    """What came last, read at the end."""
    _late_size: int = 0
    _has_gap: bool = False

    def feed(self, stream: str, line: str) -> None:
        """Take one line."""
        texts = [*plain_texts(line)]
        self._tail(stream).extend(texts)
        if self._room <= 0:
            self._keep_late(stream, f"{line.rstrip()}\n".encode("utf-8", "replace"))
            return
        self._room -= len(line)
        for text in texts:
            self._read(stream, text)

    def _tail(self, stream: str) -> deque[str]:
        return self._tails.setdefault(stream, deque(maxlen=_TAIL_LINES))

    @property
    def cause_line(self) -> str | None:
        """Return the line that the first error with a name was read from; None where there is none."""
        causes = (
            text for symptom, text in self._shown.items() if symptom.family not in _NAMELESS_FAMILIES and text
        )
        return next(causes, None)

    def skim(self, stream: str, lines: bytes) -> None:
        """Take whole lines at once, to the same effect."""
        self._keep_tail(stream, lines)
        if self._room <= 0:
            self._keep_late(stream, lines)
            return
        self._room -= len(lines)
        self._read_marked(stream, lines)

    def _keep_late(self, stream: str, lines: bytes) -> None:
        self._late.append((stream, lines))
        self._late_size += len(lines)
        while self._late_size - len(self._late[0][1]) >= _READ_LAST:
            self._late_size -= len(self._late.popleft()[1])
            self._has_gap = True

    def _read_late(self) -> None:
        if self._has_gap:
            self._tracebacks, self._panic = Tracebacks(), False
        while self._late:
            self._read_marked(*self._late.popleft())

    def _read_marked(self, stream: str, lines: bytes) -> None:
        """Read the lines that a pattern may match; the others are passed over."""
        if self._read_lines > _MOST_READ:
            return
        marked = relevant_line_spans(
            _COARSE_MARKS, lines, reads_all=lambda: self._panic or self._tracebacks.is_inside(stream)
        )
        for begin, end in marked:
            for text in plain_texts(lines[begin:end].decode("utf-8", "replace")):
                self._read(stream, text)

    def _keep_tail(self, stream: str, lines: bytes) -> None:
        every = lines.removesuffix(b"\n").split(b"\n")
        kept: list[str] = []
        for line in reversed(every):
            kept += reversed([*plain_texts(line.decode("utf-8", "replace"))])
            if len(kept) >= _TAIL_LINES:
                break
        self._tail(stream).extend(reversed(kept))

    def _read(self, stream: str, text: str) -> None:
        follows = self._panic or self._tracebacks.is_inside(stream)
        if not follows and not any(mark in text for mark in _MARKS):
            return
        self._read_lines += 1
        if self._read_lines <= _MOST_READ:
            self._recognize(stream, text)

    def _recognize(self, stream: str, line: str) -> None:
        text = _STAMP.sub("", line, count=1)
        self._tests.feed(text)
        if self._panic:
            # Rust prints the message of a panic on the line below its place.
            self._panic = False
            self._add(Symptom(Family.ASSERTION, "panic", template(text)), text)
            return
        ended = self._tracebacks.feed(stream, text)
        if ended is not None:
            self._add(_exception_symptom(text.strip(), self._tracebacks.source), text)
            self._places.add(template(self._tracebacks.own_source))
            return
        if self._places.feed(text):
            return
        if self._tracebacks.is_inside(stream) and text.startswith(" "):
            return
        if (symptom := recognize(text)) is not None:
            self._panic = symptom.name == "panic" and text.endswith(":")
            self._places.expect_frame()
            if not self._panic:
                self._add(symptom, text)

    def _add(self, symptom: Symptom, text: str) -> None:
        count = self._counts.get(symptom.family, 0)
        if symptom not in self._shown and count < _MOST_OF_FAMILY:
            self._counts[symptom.family] = count + 1
            self._shown[symptom] = text

    def finish(self, ending: Ending) -> Symptoms:
        """All that the run showed."""
        self._read_late()
        if self._read_lines > _MOST_READ:
            for stream, tail in self._tails.items():
                for text in tail:
                    self._recognize(stream, text)
        exit_code = ending.code or 0
        if ending.timed_out or exit_code == TIMEOUT_CODE:
            self._add(Symptom(Family.TIMEOUT, "timeout"), "")
        elif (killed_by := signal_of(exit_code)) is not None:
            self._shown = {Symptom(Family.SIGNAL, killed_by): "", **self._shown}
        if self._tests.tests == 0 and exit_code and not self._shown:
            self._add(Symptom(Family.COLLECTION, "no test ran"), "")
        last = {
            line: values_of(text)
            for stream in sorted(self._tails)
            for text in [*self._tails[stream]][-LAST_LINES:]
            if (line := template(text))
        }
        return Symptoms(
            exit_code=exit_code,
            shown=tuple(self._shown),
            last_lines=tuple(last),
            places=tuple(map(template, self._places.found)),
            values=(*map(values_of, self._shown.values()), *last.values()),
            tests=self._tests.tests,
            skipped_tests=self._tests.skipped,
        )
