"""The vocabulary that all rooms share: commits, verdicts, outcomes, and the phrases in which they are printed.

`Commit` is a commit as it is read from git, searched, and kept in the store. `Verdict` is the result of one run, and
`VerdictTraits` are its properties. The other enumerations are the states of a bisection, its probes and a night's
cases, as they stand in the store. `plural`, `percent`, `duration`, `verdict_phrase` and `build_phrase` format values
for people. `hide_credentials` removes passwords from texts.
"""

import math
import re
import textwrap
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

MAKER = "precision-bisect"
MAKER_EMAIL = "precision-bisect@localhost"
"""The author's address of commits that this tool makes in its own clones, of releases and of files on the user's disk.

The dates of such commits have no meaning."""
_ABSENT_MODE, _SUBMODULE_MODE = "000000", "160000"
"""The modes that git gives to an absent path and to a submodule."""


class TreeChange(NamedTuple):
    """One path that differs from the first parent: old and new mode and object id. Zeros mean that it is absent.

    It is a tuple, because a long history has hundreds of thousands of them.
    """

    path: str
    old_mode: str
    old_object: str
    new_mode: str
    new_object: str

    @property
    def has_file(self) -> bool:
        """Return whether there is a file at the path after the change, rather than nothing or a submodule."""
        return self.new_mode not in (_ABSENT_MODE, _SUBMODULE_MODE)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as git describes it. `changes` are against the first parent."""

    sha: str
    parents: tuple[str, ...]
    author: str
    email: str
    date: datetime
    subject: str
    changes: tuple[TreeChange, ...]

    @property
    def is_generated(self) -> bool:
        """Return whether this tool made the commit, so that its author and date are nobody's."""
        return self.email == MAKER_EMAIL

    @property
    def files(self) -> list[str]:
        """Return the changed paths."""
        return [change.path for change in self.changes]


OutputStream = Literal["stdout", "stderr"]
Stream = OutputStream | Literal["outcome", "build"]
"""The source of a line. `outcome` is the error text that the harness shim wrote, `build` a build step."""


class Verdict(StrEnum):
    """The result of one build and run of a case at one commit."""

    PASS = "pass"
    MISMATCH = "mismatch"
    COMPILE_ERROR = "compile_error"
    ASSEMBLE_ERROR = "assemble_error"
    KERNEL_COMPILE_ERROR = "kernel_compile_error"
    STALL = "stall"
    CRASH = "crash"
    DEVICE_ERROR = "device_error"
    TIMEOUT = "timeout"
    BUILD_ERROR = "build_error"
    ENVIRONMENT_ERROR = "environment_error"
    NOT_VALIDATED = "not_validated"
    UNKNOWN = "unknown"

    @property
    def traits(self) -> "VerdictTraits":
        """Return what a run with this verdict is like."""
        return _TRAITS[self]


@dataclass(frozen=True, kw_only=True)
class VerdictTraits:
    """The properties of a verdict. Code that treats some verdicts differently tests a property, and lists no verdicts.

    No field has a default, so a new one must be answered for every verdict.
    """

    ends_well: bool
    """The case ended without a failure."""
    is_failure: bool
    """The program fails. In a night such a case counts as failing."""
    can_be_bad: bool
    """`--bad-when` accepts it."""
    remedy: str | None
    """What to do before a resume, if the machine alone failed and the run says nothing about the commit."""
    is_intermittent: bool
    """Another run of the same build often ends differently."""
    device_or_program: bool
    """The failure is the device's or the program's. A night ignores it for a case that never passed."""
    compares_outputs: bool
    """Outputs were compared with their golden data."""
    leaves_tensors: bool
    """The failure leaves dumped tensors, which can be compared with those of a good run."""
    fails_in_run: bool
    """The build was made and launched, and then failed."""
    ends_early: bool
    """A build exists, but fails before outputs are compared. Such a failure can be reduced."""
    fails_to_build: bool
    """The toolchain could not be built at this commit."""

    @property
    def judges_commit(self) -> bool:
        """Return whether a run says something about the commit, and not about the machine alone."""
        return self.remedy is None

    @property
    def may_be_device(self) -> bool:
        """Return whether the device or the rest of the machine, and not the program, may be at fault."""
        return self.device_or_program or not self.judges_commit


_TRAITS = {
    Verdict.PASS: VerdictTraits(
        ends_well=True,
        is_failure=False,
        can_be_bad=False,
        remedy=None,
        is_intermittent=False,
        device_or_program=False,
        compares_outputs=True,
        leaves_tensors=False,
        fails_in_run=False,
        ends_early=False,
        fails_to_build=False,
    ),
    Verdict.MISMATCH: VerdictTraits(
        ends_well=False,
        is_failure=True,
        can_be_bad=True,
        remedy=None,
        is_intermittent=False,
        device_or_program=False,
        compares_outputs=True,
        leaves_tensors=True,
        fails_in_run=True,
        ends_early=False,
        fails_to_build=False,
    ),
    Verdict.COMPILE_ERROR: VerdictTraits(
        ends_well=False,
        is_failure=True,
        can_be_bad=True,
        remedy=None,
        is_intermittent=False,
        device_or_program=False,
        compares_outputs=False,
        leaves_tensors=False,
        fails_in_run=False,
        ends_early=False,
        fails_to_build=False,
    ),
    Verdict.ASSEMBLE_ERROR: VerdictTraits(
        ends_well=False,
        is_failure=True,
        can_be_bad=True,
        remedy=None,
        is_intermittent=False,
        device_or_program=False,
        compares_outputs=False,
        leaves_tensors=False,
        fails_in_run=False,
        ends_early=True,
        fails_to_build=False,
    ),
    Verdict.KERNEL_COMPILE_ERROR: VerdictTraits(
        ends_well=False,
        is_failure=True,
        can_be_bad=True,
        remedy=None,
        is_intermittent=False,
        device_or_program=False,
        compares_outputs=False,
        leaves_tensors=False,
        fails_in_run=False,
        ends_early=True,
        fails_to_build=False,
    ),
    Verdict.STALL: VerdictTraits(
        ends_well=False,
        is_failure=True,
        can_be_bad=True,
        remedy=None,
        is_intermittent=False,
        device_or_program=False,
        compares_outputs=False,
        leaves_tensors=True,
        fails_in_run=True,
        ends_early=True,
        fails_to_build=False,
    ),
    Verdict.CRASH: VerdictTraits(
        ends_well=False,
        is_failure=True,
        can_be_bad=True,
        remedy=None,
        is_intermittent=True,
        device_or_program=False,
        compares_outputs=False,
        leaves_tensors=False,
        fails_in_run=True,
        ends_early=True,
        fails_to_build=False,
    ),
    Verdict.DEVICE_ERROR: VerdictTraits(
        ends_well=False,
        is_failure=True,
        can_be_bad=True,
        remedy=None,
        is_intermittent=True,
        device_or_program=True,
        compares_outputs=False,
        leaves_tensors=False,
        fails_in_run=True,
        ends_early=True,
        fails_to_build=False,
    ),
    Verdict.TIMEOUT: VerdictTraits(
        ends_well=False,
        is_failure=True,
        can_be_bad=True,
        remedy=None,
        is_intermittent=False,
        device_or_program=True,
        compares_outputs=False,
        leaves_tensors=False,
        fails_in_run=False,
        ends_early=True,
        fails_to_build=False,
    ),
    Verdict.BUILD_ERROR: VerdictTraits(
        ends_well=False,
        is_failure=False,
        can_be_bad=True,
        remedy=None,
        is_intermittent=False,
        device_or_program=False,
        compares_outputs=False,
        leaves_tensors=False,
        fails_in_run=False,
        ends_early=False,
        fails_to_build=True,
    ),
    Verdict.ENVIRONMENT_ERROR: VerdictTraits(
        ends_well=False,
        is_failure=False,
        can_be_bad=False,
        remedy="fix the environment",
        is_intermittent=False,
        device_or_program=False,
        compares_outputs=False,
        leaves_tensors=False,
        fails_in_run=False,
        ends_early=False,
        fails_to_build=False,
    ),
    Verdict.NOT_VALIDATED: VerdictTraits(
        ends_well=True,
        is_failure=False,
        can_be_bad=True,
        remedy=None,
        is_intermittent=False,
        device_or_program=False,
        compares_outputs=False,
        leaves_tensors=False,
        fails_in_run=False,
        ends_early=False,
        fails_to_build=False,
    ),
    Verdict.UNKNOWN: VerdictTraits(
        ends_well=False,
        is_failure=False,
        can_be_bad=False,
        remedy=None,
        is_intermittent=False,
        device_or_program=False,
        compares_outputs=False,
        leaves_tensors=False,
        fails_in_run=False,
        ends_early=False,
        fails_to_build=False,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A line that speaks for or against a verdict.

    `line` counts from 1 over all output in order of arrival. It is 0 where the text is no line of output.
    """

    stream: Stream | Literal["ending"]
    line: int
    text: str
    why: str


class BisectionOutcome(StrEnum):
    """How a bisection ended."""

    CULPRIT = "culprit"
    SUSPECT = "suspect"
    NO_CULPRIT = "no_culprit"
    ONLY_SKIPPED = "only_skipped"
    ENDS_DO_NOT_DIFFER = "ends_do_not_differ"
    BUDGET = "budget"
    ERROR = "error"


UNFINISHED = "unfinished"
"""This word takes the place of the outcome while there is none."""


class DriveEnd(StrEnum):
    """How one drive of a bisection ended: one process that started or resumed it."""

    CONCLUDED = "concluded"
    """The bisection ended, or its budget did."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class Seeks(StrEnum):
    """What a search looks for: the first commit at which the case fails, or the first one after it that passes."""

    REGRESSION = "regression"
    FIX = "fix"

    @property
    def opposite(self) -> "Seeks":
        """Return the other kind of search."""
        return Seeks.FIX if self is Seeks.REGRESSION else Seeks.REGRESSION


class Phase(StrEnum):
    """Says why a probe was made."""

    ENDPOINT = "endpoint"
    SEARCH = "search"
    CONFIRM = "confirm"
    COUNTERFACTUAL = "counterfactual"
    PERTURBED = "perturbed"

    @property
    def is_unmodified(self) -> bool:
        """Return whether such a probe runs the commit with its own pins, and without a perturbation."""
        return self not in (Phase.COUNTERFACTUAL, Phase.PERTURBED)


class ProbeState(StrEnum):
    """The state of a probe, which counts wholly (finished) or not at all."""

    STARTED = "started"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    """The driver itself stopped the probe, because its result had become worthless."""


class Judgement(StrEnum):
    """What a verdict means for the question that was asked."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


class VerdictSource(StrEnum):
    """What a verdict rests on."""

    OUTPUT = "output"
    """What the run printed, and how it ended."""
    EXIT_CODE = "exit_code"
    """The exit code of a command, which is the judge. The verdict's signature then begins with `exit code N`."""
    PERSON = "person"
    """A person, who is the judge."""
    PATCH_CONFLICT = "patch_conflict"
    """A patch that does not apply, so that nothing was built or run."""


class BuildSource(StrEnum):
    """Says where the toolchain of a probe came from."""

    BUILT = "built"
    CACHED = "cached"
    PRESENT = "present"
    NONE = "none"


class CaseStatus(StrEnum):
    """What a night found about one cell: a case on a platform, at a tolerance, on a branch."""

    PASSED = "passed"
    FLAKY = "flaky"
    """The case failed and passed at the same content."""
    NEW = "new"
    """The case fails, and never passed."""
    REGRESSED = "regressed"
    """The case fails, and passed in an earlier night."""
    KNOWN = "known"
    """The case fails as it did in an earlier night: its regression is open."""
    INFRASTRUCTURE = "infrastructure"
    """The device, the disk or the network failed, so nothing is known about the case."""
    UNTESTED = "untested"
    """The case could not be judged: it was not built, not validated, missing, or there was no time left."""


class SubmissionState(StrEnum):
    """The state of a bisection that was submitted to the queue."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    """The submission ended, and its exit code says how."""
    CANCELLED = "cancelled"


MAX_PRIORITY = 1000
"""The highest priority of a submission. The lowest one is its negative."""


_BUILD_PHRASES = {
    BuildSource.BUILT: "built in {seconds:.1f} s",
    BuildSource.CACHED: "build from the cache in {seconds:.1f} s",
    BuildSource.PRESENT: "built before",
    BuildSource.NONE: "nothing built",
}
_UNINFORMATIVE_VERDICTS = (Verdict.MISMATCH, Verdict.UNKNOWN)
"""Verdicts that say no more than the judgement of an exit code or a person, and are not printed then."""


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "step"), plural(3, "step"), plural(2, "pass")
    ('1 step', '3 steps', '2 passes')
    """
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def percent(probability: float) -> str:
    """Return a probability, or a share, as people read it. It is never rounded up to certainty.

    >>> percent(0.99), percent(0.99996)
    ('99 %', '99.99 %')
    """
    return f"{math.floor(probability * 10_000 + 1e-6) / 100:g} %"


def exit_code_signature(code: int) -> str:
    """Return the signature of a command's runs that are judged by their exit code."""
    return f"exit code {code}"


def build_phrase(source: BuildSource, seconds: float) -> str:
    """Return where the toolchain of a run came from, and how long that took.

    >>> build_phrase(BuildSource.BUILT, 2)
    'built in 2.0 s'
    """
    return _BUILD_PHRASES[source].format(seconds=seconds)


def verdict_phrase(verdict: str, signature: str | None, source: VerdictSource) -> str:
    """Return a verdict with its signature, or the signature alone where an exit code or a person is the judge.

    >>> verdict_phrase("mismatch", "y", VerdictSource.OUTPUT), verdict_phrase("pass", None, VerdictSource.OUTPUT)
    ('mismatch (y)', 'pass')
    >>> verdict_phrase("mismatch", exit_code_signature(1), VerdictSource.EXIT_CODE)
    'exit code 1'
    >>> verdict_phrase("build_error", exit_code_signature(2), VerdictSource.EXIT_CODE)
    'build_error (exit code 2)'
    """
    if not signature:
        return verdict
    is_judge = source in (VerdictSource.EXIT_CODE, VerdictSource.PERSON)
    return signature if is_judge and verdict in _UNINFORMATIVE_VERDICTS else f"{verdict} ({signature})"


_OUTCOMES = {
    "suspect": "a suspect, not confirmed",
    "no_culprit": "no commit of the range explains it",
    "only_skipped": "the runs do not tell the commits left apart",
    "ends_do_not_differ": "the ends do not differ",
    "budget": "stopped by its budget",
    "error": "error",
    "unfinished": "not finished",
}


def phrase_for_outcome(outcome: str, *, seeks: Seeks, in_doubt: bool, has_caveat: bool) -> str:
    """Return how a bisection with this outcome ended.

    in_doubt: whether its suspects together have a probability of less than one half.
    has_caveat: whether something speaks against the culprit.
    """
    if outcome == BisectionOutcome.CULPRIT:
        return f"{sought_commit_noun(seeks)} found{', with a caveat' if has_caveat else ''}"
    if outcome == BisectionOutcome.SUSPECT and in_doubt:
        return "not known whether a commit is to blame"
    return _OUTCOMES[outcome]


def sought_commit_noun(seeks: Seeks) -> str:
    """Return the noun for the commit that a bisection seeks."""
    return "culprit" if seeks is Seeks.REGRESSION else "first fixed commit"


def duration(seconds: float) -> str:
    """Return seconds as people say them.

    >>> duration(42), duration(150), duration(7260)
    ('42 s', '2 min 30 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def wrap_text(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Return the text in lines of at most `width` columns, broken between words. A longer word has its own line.

    A number stays with its unit.

    >>> wrap_text("it took, run 2.7 s", 15)
    ['it took,', 'run 2.7 s']
    """
    lines = textwrap.wrap(
        _QUANTITY.sub(lambda match: match[0].replace(" ", _TIED_SPACE), text),
        max(1, width),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
    return [line.replace(_TIED_SPACE, " ") for line in lines]


_TIED_SPACE = "\ufffe"
"""Stands for a space at which no line is broken. No text has this noncharacter."""
_QUANTITY = re.compile(r"(?:\brun )?\b\d[\d.]* (?:s|min|h|%)(?!\w)")


_USER_INFORMATION = re.compile(r"(?P<scheme>\w*)://(?:(?P<user>[^/\s:@]*):)?(?P<password>[^/\s]+)@")
_LOGIN = re.compile(r"(?P<user>\b\w+):(?P<password>[^/\s@:'\"]{6,})@(?=[\w\[])")
"""Matches the login in an address that lacks its slashes. A shorter word before `@` is more likely a path and a
revision."""
_PARAMETER = re.compile(
    r"(?P<name>(?:[?&](?:\w*(?:pass|secret|token|api_?key)\w*|pwd|key|sig|signature)|\b(?:ssl)?password)=)"
    r"(?P<password>[^&\s'\"]+)",
    re.IGNORECASE,
)


def one_line(text: str) -> str:
    """Return the text on one line, with escapes for invisible characters and blanks for all kinds of space.

    Control characters would move a terminal's cursor. Direction marks would make a line read as a different one.

    >>> one_line("fix\\ttiling\\x1b[31m \\u202eSSAP")
    'fix tiling\\\\x1b[31m \\\\u202eSSAP'
    """
    return indented_line(text).strip()


def indented_line(text: str) -> str:
    """Return the text as `one_line` does, but keep the blanks at its beginning."""
    return text.rstrip() if text.isprintable() else "".join(map(_escape_invisible, text)).rstrip()


def shorten(text: str, limit: int) -> str:
    """Return the text as one line of at most `limit` characters.

    >>> shorten("0123456789", 6)
    '01234…'
    """
    return cut(one_line(text), limit)


def cut(line: str, limit: int) -> str:
    """Return at most `limit` characters of a line. An ellipsis replaces the end of a longer line."""
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _escape_invisible(character: str) -> str:
    if character.isprintable():
        return character
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")


def hide_credentials(text: str) -> str:
    """Return a text without the passwords and tokens of its URLs, because reports and pages repeat errors and notes.

    Libraries may repeat an address without its scheme. So a password that was found is hidden wherever `@` follows it.

    >>> hide_credentials("https://bob:hush@host/x.git and ssh://git@host/x.git")
    'https://bob:***@host/x.git and ssh://git@host/x.git'
    >>> hide_credentials("tls://bob:hush@host: expected an answer, found none of bob:hush@host")
    'tls://bob:***@host: expected an answer, found none of bob:***@host'
    >>> hide_credentials("postgresql://host/store?user=bob&password=hush")
    'postgresql://host/store?user=bob&password=***'
    >>> hide_credentials("found 'host=there password=hush'")
    "found 'host=there password=***'"
    >>> hide_credentials("found 'postgres:bob:hushhush@host', found postgresql://bob:hu@sh@host/store")
    "found 'postgres:bob:***@host', found postgresql://bob:***@host/store"
    """
    for match in [*_USER_INFORMATION.finditer(text)]:
        if match["user"] is not None or match["scheme"] != "ssh":
            text = text.replace(f"{match['password']}@", "***@")
    return _LOGIN.sub(r"\g<user>:***@", _PARAMETER.sub(r"\g<name>***", text))


def url_passwords(text: str) -> list[str]:
    """Return the passwords and tokens of a text's URLs: before a host, or in a parameter of such a name.

    >>> url_passwords("https://bob:hush@host/x.git https://token@host postgres://host/db?password=quiet&user=bob")
    ['hush', 'token', 'quiet']
    """
    matches = (match for pattern in (_USER_INFORMATION, _PARAMETER) for match in pattern.finditer(text))
    return [match["password"] for match in matches]


SQLITE_PREFIX = "sqlite:///"
"""The URL of a store in a SQLite file is this and the path."""


class StoreError(Exception):
    """The store cannot be opened, read or written. The message says what was expected and found, and what to do."""

    def __init__(self, message: str = "") -> None:
        super().__init__(hide_credentials(message))
