"""The published report: what `report.json` holds.

Its JSON schema is docs/report.schema.json, which this command writes:

python -m precision_bisect.bisect.report.model > docs/report.schema.json
"""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from ...runner.commit_diff import CommitDiff
from ...runner.localization import Localization
from ...runner.stack import Model, Rename
from ...store.durable_files import Document, published_schema, remove_format
from ...store.vocabulary import BisectionOutcome, BuildSource, Judgement, Phase, Seeks, Verdict, VerdictSource
from ..engine.answer import Counterfactual, EndRate, MovedLayers, NoCommit, YardstickTest
from ..history.questions import PinRecord

UNFINISHED = "unfinished"

Metric = Annotated[float, Field(allow_inf_nan=False)] | Literal["NaN", "Infinity", "-Infinity"]
"""A metric is a measured number. JSON has finite numbers only, so the others are words."""


def to_metric(value: float) -> Metric:
    """Return a number as JSON can hold it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


class CommitReference(Model):
    """A commit with its subject."""

    repository: str
    commit: str
    subject: str | None
    """None where the store does not describe the commit."""


class AnswerCommit(CommitReference):
    """A culprit, or a commit that may be one. `confidence` is the posterior probability that it made the change."""

    parent: str | None
    """The first parent, which was run beside the commit."""
    confidence: float | None
    merge: bool
    """Whether the commit has several parents."""
    version: str | None = None
    """The release that the commit stands for."""
    under: str | None = None
    """The perturbation under which the commit was found, and under which it fails in every run."""
    author: str | None
    email: str | None
    date: datetime | None
    url: str | None = None
    """The commit's page, for a browser."""
    files: tuple[str, ...]
    """Paths that differ from the first parent."""
    diff: CommitDiff | None = None
    """The same paths with the lines that change. None where they were not read, as for suspects."""


class RunCount(Model):
    """Runs that could be judged, and how many of them failed."""

    runs: int
    failures: int


class ConfidenceBasis(Model):
    """On what the confidence in a culprit rests: the runs of its range, each counted once.

    ends: the runs of ends that are neither the culprit nor a parent of it.
    with_change, without_change: all these runs, by whether their commit has the change.
    against: the commits that build on the culprit, but mostly behave as before it.
    learned: whether the search began from earlier runs of the case and its stack.
    """

    culprit: RunCount
    parents: RunCount
    others: RunCount
    other_commits: int
    ends: RunCount
    with_change: RunCount | None = None
    """None in reports of earlier versions, as is `without_change`."""
    without_change: RunCount | None = None
    against: tuple[str, ...] = ()
    learned: bool
    text: str
    """The same in sentences, with the assumptions."""
    remarks: tuple[str, ...] = ()
    """The sentences of `text` that limit the answer."""


class SkippedCommit(CommitReference):
    """A commit that could not be judged."""

    verdict: Verdict | None
    """None where there was nothing to run."""
    reason: str
    verdict_source: VerdictSource = VerdictSource.OUTPUT
    exit_code: int | None = None
    """The exit code of its last run; negative for a signal."""


class OtherFailure(Model):
    """A failure that differs from the culprit's, or from the failing end's where no culprit is named.

    It may be a separate bug, and it may hide other failures where it occurs.
    """

    verdict: Verdict
    signature: str | None
    first: CommitReference
    """The first commit that showed it, parents before children."""
    last: CommitReference
    commits: int
    """How many commits that were run showed it."""
    counts_as_bad: bool
    """Whether runs that failed so were counted as bad; otherwise they were skipped."""
    onset: CommitReference | None
    """The commit that introduced it: it fails so, and each of its parents passes. None where the runs do not tell."""
    may_have_begun_at: int
    """The number of candidates that may have introduced it, where `onset` is not known; otherwise 0."""
    shown: int | None = None
    """The run of `first` whose evidence shows it."""
    verdict_source: VerdictSource = VerdictSource.OUTPUT


class CollapsedCommit(CommitReference):
    """A commit that was not run itself, because commit `same_as` has the same content."""

    same_as: str


class EvidenceLine(Model):
    """A line of output that justifies a verdict."""

    stream: str
    line: int
    """The number of the line in the whole log, from 1; 0 where the evidence is no line of the log."""
    text: str
    why: str


class RunError(Model):
    """The largest error over the outputs of a run, by the most significant measure that it has."""

    measure: str
    value: Metric


class RunReport(Model):
    """One finished build-and-run. Seconds are wall time."""

    ordinal: int
    """The run's number among all runs of the bisection, from 1."""
    verdict: Verdict
    judgement: Judgement
    signature: str | None
    metrics: Mapping[str, Mapping[str, Metric]]
    """The metrics by output, then by name."""
    error: RunError | None
    build_seconds: float
    run_seconds: float
    build: BuildSource
    build_key: str | None
    exit_code: int | None
    """The exit code of the run; negative for a signal."""
    slot: int
    host: str
    attempt: int
    """More than 1 where the driver was killed during this run, and the run was started again."""
    started: datetime
    finished: datetime
    evidence: tuple[EvidenceLine, ...]
    log: str | None
    build_directory: str | None
    command: tuple[str, ...]
    reused: str | None = None
    """The earlier bisection that made this run for the same question; None where this bisection made it."""
    verdict_source: VerdictSource = VerdictSource.OUTPUT


class ProbeReport(CommitReference):
    """All runs of one commit that were made for one reason."""

    phase: Phase
    revisions: Mapping[str, str]
    """The commit of every repository of the stack."""
    verdict: Verdict
    """The verdict of the deciding run: the first that failed as asked, else the first that passed, else the first."""
    judgement: Judgement
    signature: str | None
    seconds: float
    """The time that all runs took, builds included."""
    build: BuildSource
    """Says where the build of the first run came from."""
    runs: tuple[RunReport, ...]


class PatchReport(CommitReference):
    """A commit whose change was applied to the commits of `old..new` before they were built."""

    old: str
    new: str
    used_at: tuple[str, ...]
    """The commits that ran with this change."""


class PerturbationReport(Model):
    """What both ends did under a perturbation, which was tried because the failure is flaky."""

    name: str
    changes: str
    bad_runs: int
    bad_failures: int
    good_runs: int
    good_failures: int
    searched: bool
    """Whether the perturbation made the failure certain, so that the range was searched under it."""


class RangeReport(Model):
    """A range that was searched. The first range of a report is the one that was asked about."""

    repository: str
    seeks: Seeks
    """The good end is the older one for a regression, and the newer one for a fix."""
    good: str
    bad: str
    held: Mapping[str, str]
    """The repositories that stayed at one commit for the whole range, with these commits."""
    commits: int
    candidates: int
    """How many of the commits can differ in their result."""


class Surroundings(Model):
    """An environment (interpreter, tools, CPU, libraries), and the ordinals of the runs that were made in it."""

    fingerprint: str
    details: Mapping[str, str]
    runs: tuple[int, ...]


class EnvironmentReport(Model):
    """All environments, in the order of their first runs. The environment has changed where there are several."""

    moved: bool
    changes: tuple[str, ...]
    surroundings: tuple[Surroundings, ...]


class Side(CommitReference):
    """One side of the answer: the culprit or its parent, or an end of the range where there is no culprit."""

    revisions: Mapping[str, str]
    verdict: Verdict
    signature: str | None
    runs: tuple[int, ...]
    """The ordinals of all its runs that could be judged."""
    failures: int
    """How many of them failed."""
    shown: int
    """The ordinal of the run that shows this side best."""
    script: str
    """A shell script that clones, builds and runs this side in a separate folder."""
    verdict_source: VerdictSource = VerdictSource.OUTPUT


class Reproduction(Model):
    """Both sides, each with the script that reproduces it. A side is None where no run showed it."""

    good: Side | None
    bad: Side | None


class Timing(Model):
    """Times in seconds. `total` is the sum over runs, and `overhead` is the part of it that is neither build nor run.

    `elapsed` is the time from the question to the answer, or to the last run. It includes pauses between starts.
    `waited` is the time that all starts took together, from each command to its end. It includes the checks before
    the first run and the localization.
    """

    elapsed: float
    waited: float | None = None
    """None where an earlier version began the bisection, because it did not note the starts."""
    total: float
    build: float
    run: float
    overhead: float


class Report(Document):
    """A whole bisection, made from the rows of the store alone."""

    upgrades = (remove_format,)
    schema_version: Literal[2] = 2
    tool_version: str
    """The version of the tool that wrote this report."""
    name: str
    created: datetime
    finished: datetime | None

    outcome: BisectionOutcome | Literal["unfinished"]
    message: str
    culprits: tuple[AnswerCommit, ...]
    through: AnswerCommit | None
    """The commit that brought the culprit in, where the culprit lies in a submodule."""
    lost: AnswerCommit | None
    """The commit that the culprit removed by moving a pin back, or to another branch.

    It is the fix of what fails now, or the cause of the failure where a fix was sought.
    """
    suspects: tuple[AnswerCommit, ...]
    no_commit: NoCommit | None = None
    """The probability that no commit is to blame, where the suspects together have less than half; otherwise None."""
    other_failures: tuple[OtherFailure, ...] = ()
    earlier_failures: tuple[CommitReference, ...]
    """Commits that failed before a later one passed. Where a fix was sought, they passed before a later one failed."""

    seeks: Seeks
    """What `culprits` are: the first commits that fail, or (`fix`) the first that pass again."""
    stack: str
    repository: str
    good: str
    bad: str
    case: str
    """A script with its arguments, a build directory, or a command that judges by its exit code."""
    platform: str
    device: int
    bad_when: str | None
    """What counts as bad. None: the exit code of the case decides."""
    asked_confidence: float
    confidence_basis: ConfidenceBasis | None = None
    """None where no culprit is named."""
    caveats: tuple[str, ...] = ()
    """What the runs say against the answer, and what to do."""
    golden: str | None
    """The SHA-256 of the manifest of the data that every probe ran with."""
    golden_directory: str | None = None
    """The folder of these data. None where there are none, or where it was not kept."""

    ranges: tuple[RangeReport, ...]
    rates: tuple[EndRate, ...]
    """How often each end failed when it was measured."""
    counterfactuals: tuple[Counterfactual, ...]
    layers: tuple[MovedLayers, ...] = ()
    """The tested layers of each commit that moves several pins at once."""
    yardstick: YardstickTest | None = None
    """The test of a culprit that also changes how its case measures; None for other culprits."""
    probes: tuple[ProbeReport, ...]
    perturbations: tuple[PerturbationReport, ...] = ()
    """The perturbations that were tried on the range that was asked about, or on a range inside it."""
    cherry_picks: tuple[PatchReport, ...]
    """Patches that made a part of the range testable. At the edges of that part, a patch itself may change a result."""
    renames: tuple[Rename, ...] = ()
    """Renames by which files of other commits were adapted: `old` is a name before the commit, `new` from it on."""
    skipped: tuple[SkippedCommit, ...]
    collapsed: tuple[CollapsedCommit, ...]
    pins: tuple[PinRecord, ...]
    environment: EnvironmentReport
    notices: tuple[str, ...]
    localization: Localization | None
    """Says where in the culprit's build the failure begins. None where this was not asked for, or there is no
    culprit."""
    reproduce: Reproduction
    repeat: str | None = None
    """The shell command that searches the same range again; None where nobody typed one."""
    reduce: str | None = None
    """The command that reduces the culprit's build. None: there are no two builds to compare, or it is reduced."""
    timing: Timing


def schema_text() -> str:
    """Return the JSON schema of `report.json`, as text."""
    return published_schema(Report, by_alias=False)


if __name__ == "__main__":
    print(schema_text(), end="")
