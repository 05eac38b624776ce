"""The vocabulary that all packages share: commits, verdicts, outcomes, and the words in which they are printed.

`Commit` is a commit as it is read from git, searched, and kept in the store. The enumerations are the states of a
bisection, its probes and a night's cases, as they stand in the store. The functions format counts and times for people.
"""

import math
import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

MAKER = "precision-bisect"
MAKER_EMAIL = "precision-bisect@localhost"
"""This tool makes commits in its own clones, of releases and of files on the user's disk, with this author's address.

The dates of such commits have no meaning."""
_NOTHING, _SUBMODULE = "000000", "160000"
"""Git gives these modes to an absent path and to a submodule."""


class TreeChange(NamedTuple):
    """One path that differs from the first parent: old and new mode and object id. Zeros mean that it is absent.

    A long history has hundreds of thousands of them.
    """

    path: str
    old_mode: str
    old_object: str
    new_mode: str
    new_object: str

    @property
    def has_file(self) -> bool:
        """Return whether there is a file at the path after the change, rather than nothing or a submodule."""
        return self.new_mode not in (_NOTHING, _SUBMODULE)


@dataclass(frozen=True)
class Commit:
    """A commit as git describes it; `changes` are against the first parent."""

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


Stream = Literal["stdout", "stderr", "outcome", "build"]
"""A line has one of these sources. `outcome` is the error text that the harness shim wrote, `build` a build step."""


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
    """The properties of a verdict. Code that treats some verdicts differently tests a property, and lists none.

    None has a default, so that a new property is asked of every verdict.
    """

    ends_well: bool
    """The case ended without a failure."""
    is_failure: bool
    """The program fails. In a night such a case counts as failing."""
    can_be_bad: bool
    """`--bad-when` takes it."""
    judges_commit: bool
    """It says something of the commit, and not of the machine alone."""
    is_intermittent: bool
    """Another run of the same build often ends otherwise."""
    may_be_device: bool
    """The device, and not the program, may be at fault. A night ignores it for a case that never passed."""
    compares_outputs: bool
    """Outputs were compared with their golden data."""
    leaves_tensors: bool
    """A failure whose dumped tensors can be compared with those of a good run."""
    fails_in_run: bool
    """The build was made and launched, and then failed."""
    ends_early: bool
    """A build exists, and what it contains fails before outputs are compared. Such a failure can be reduced."""
    fails_to_build: bool
    """The toolchain could not be built at this commit."""


_TRAITS = {
    Verdict.PASS: VerdictTraits(
        ends_well=True,
        is_failure=False,
        can_be_bad=False,
        judges_commit=True,
        is_intermittent=False,
        may_be_device=False,
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
        judges_commit=True,
        is_intermittent=False,
        may_be_device=False,
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
        judges_commit=True,
        is_intermittent=False,
        may_be_device=False,
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
        judges_commit=True,
        is_intermittent=False,
        may_be_device=False,
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
        judges_commit=True,
        is_intermittent=False,
        may_be_device=False,
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
        judges_commit=True,
        is_intermittent=False,
        may_be_device=False,
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
        judges_commit=True,
        is_intermittent=True,
        may_be_device=False,
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
        judges_commit=True,
        is_intermittent=True,
        may_be_device=True,
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
        judges_commit=True,
        is_intermittent=False,
        may_be_device=True,
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
        judges_commit=True,
        is_intermittent=False,
        may_be_device=False,
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
        judges_commit=False,
        is_intermittent=False,
        may_be_device=True,
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
        judges_commit=True,
        is_intermittent=False,
        may_be_device=False,
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
        judges_commit=True,
        is_intermittent=False,
        may_be_device=False,
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
        """Return whether such a probe runs the commit unmodified: with the commit's own pins, and without a
        perturbation."""
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


HIGHEST_PRIORITY = 1000
"""No submission has a higher priority. The lowest one is its negative."""


_BUILDS = {
    BuildSource.BUILT: "built in {seconds:.1f} s",
    BuildSource.CACHED: "build from the cache in {seconds:.1f} s",
    BuildSource.PRESENT: "built before",
    BuildSource.NONE: "nothing built",
}
_UNINFORMATIVE_VERDICTS = (Verdict.MISMATCH, Verdict.UNKNOWN)
"""Verdicts that only repeat the judgement where an exit code or a person gave it, and are not printed then."""


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


def exit_code(code: int) -> str:
    """Return the signature of a command's runs that are judged by their exit code."""
    return f"exit code {code}"


def build_words(source: BuildSource, seconds: float) -> str:
    """Describe where the toolchain of a run came from, and how long that took.

    >>> build_words(BuildSource.BUILT, 2)
    'built in 2.0 s'
    """
    return _BUILDS[source].format(seconds=seconds)


def verdict_words(verdict: str, signature: str | None, source: VerdictSource) -> str:
    """Describe a verdict with its signature, or by the signature alone where an exit code or a person is the judge.

    >>> verdict_words("mismatch", "y", VerdictSource.OUTPUT), verdict_words("pass", None, VerdictSource.OUTPUT)
    ('mismatch (y)', 'pass')
    >>> verdict_words("mismatch", exit_code(1), VerdictSource.EXIT_CODE)
    'exit code 1'
    >>> verdict_words("build_error", exit_code(2), VerdictSource.EXIT_CODE)
    'build_error (exit code 2)'
    """
    if not signature:
        return verdict
    judged = source in (VerdictSource.EXIT_CODE, VerdictSource.PERSON)
    return signature if judged and verdict in _UNINFORMATIVE_VERDICTS else f"{verdict} ({signature})"


def duration(seconds: float) -> str:
    """Format seconds as people say them.

    >>> duration(42), duration(150), duration(7260)
    ('42 s', '2 min 30 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


_USER_INFORMATION = re.compile(r"(?P<scheme>\w*)://(?:(?P<user>[^/\s:@]*):)?(?P<password>[^/\s]+)@")
_LOGIN = re.compile(r"(?P<user>\b\w+):(?P<password>[^/\s@:'\"]{6,})@(?=[\w\[])")
"""This is an address that lacks its slashes. A shorter word before `@` is more likely a path and a revision."""
_PARAMETER = re.compile(
    r"(?P<name>[?&](?:\w*(?:pass|secret|token|api_?key)\w*|pwd|key|sig|signature)=)(?P<password>[^&\s'\"]+)",
    re.IGNORECASE,
)


def hide_credentials(text: str) -> str:
    """Return a text without the passwords and tokens of its URLs. Reports and pages repeat errors and notes.

    Libraries name an address once more without its scheme, so a password that was found goes wherever a host follows.

    >>> hide_credentials("https://bob:hush@host/x.git and ssh://git@host/x.git")
    'https://bob:***@host/x.git and ssh://git@host/x.git'
    >>> hide_credentials("tls://bob:hush@host: expected an answer, found none of bob:hush@host")
    'tls://bob:***@host: expected an answer, found none of bob:***@host'
    >>> hide_credentials("postgresql://host/store?user=bob&password=hush")
    'postgresql://host/store?user=bob&password=***'
    >>> hide_credentials("found 'postgres:bob:hushhush@host', found postgresql://bob:hu@sh@host/store")
    "found 'postgres:bob:***@host', found postgresql://bob:***@host/store"
    """
    for found in [*_USER_INFORMATION.finditer(text)]:
        if found["user"] is not None or found["scheme"] != "ssh":
            text = text.replace(f"{found['password']}@", "***@")
    return _LOGIN.sub(r"\g<user>:***@", _PARAMETER.sub(r"\g<name>***", text))


def url_passwords(text: str) -> list[str]:
    """Return the passwords and tokens of a text's URLs: in front of a host, or a parameter by that name.

    >>> url_passwords("https://bob:hush@host/x.git https://token@host postgres://host/db?password=quiet&user=bob")
    ['hush', 'token', 'quiet']
    """
    found = (each for pattern in (_USER_INFORMATION, _PARAMETER) for each in pattern.finditer(text))
    return [each["password"] for each in found]
