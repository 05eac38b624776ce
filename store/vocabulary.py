"""The words that every room uses for a bisection, its probes and a night's cases, as they stand in the store."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Stream = Literal["stdout", "stderr", "outcome", "build"]
"""Where a line came from: `outcome` is the error text that the harness shim wrote, `build` a build step."""


class Verdict(StrEnum):
    """What one build-and-run of a case at one commit turned out to be."""

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


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A line that speaks for or against a verdict.

    `line` counts from 1 over all output in order of arrival; it is 0 where the text is no line of output.
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


class Seeks(StrEnum):
    """What a search looks for: the first commit at which the case fails, or, behind failing ones, that passes."""

    REGRESSION = "regression"
    FIX = "fix"

    @property
    def opposite(self) -> "Seeks":
        """The other one."""
        return Seeks.FIX if self is Seeks.REGRESSION else Seeks.REGRESSION


class Phase(StrEnum):
    """Why a probe was made."""

    ENDPOINT = "endpoint"
    SEARCH = "search"
    CONFIRM = "confirm"
    COUNTERFACTUAL = "counterfactual"
    PERTURBED = "perturbed"

    @property
    def is_as_asked(self) -> bool:
        """Whether such a probe runs a commit as the question has it: with its own pins, and unperturbed."""
        return self not in (Phase.COUNTERFACTUAL, Phase.PERTURBED)


class ProbeState(StrEnum):
    """A probe counts wholly (finished) or not at all."""

    STARTED = "started"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    """Stopped by the driver itself, for its result had become worthless."""


class Judgement(StrEnum):
    """What a verdict means for the question asked."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


class BuildSource(StrEnum):
    """Where the toolchain of a probe came from."""

    BUILT = "built"
    CACHED = "cached"
    PRESENT = "present"
    NONE = "none"


class CaseStatus(StrEnum):
    """What a night found of a cell."""

    PASSED = "passed"
    FLAKY = "flaky"
    """It failed and passed at one and the same content."""
    NEW = "new"
    """It fails, and never passed."""
    REGRESSED = "regressed"
    """It fails, and passed in an earlier night."""
    KNOWN = "known"
    """It fails as it did in an earlier night: its regression is open."""
    INFRASTRUCTURE = "infrastructure"
    """The device, the disk or the network failed: nothing is known of the case."""
    UNTESTED = "untested"
    """It could not be judged: not built, not validated, case missing, or no time left."""


class SubmissionState(StrEnum):
    """What has become of a bisection that was submitted to the queue."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    """Its exit code says how."""
    CANCELLED = "cancelled"
