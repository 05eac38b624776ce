"""The published report: what `report.json` holds. Its JSON schema is docs/report.schema.json."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from ....runner.localization.answer import Localization
from ....runner.stack.parts import Model, Rename
from ....store.documents.document import Document
from ....store.documents.versions import without_format
from ....store.vocabulary import BisectionOutcome, BuildSource, Judgement, Phase, Seeks, Verdict
from ...result import Counterfactual, EndRate, MovedLayers, NoCommit, PinRecord, YardstickTest

UNFINISHED = "unfinished"

Metric = Annotated[float, Field(allow_inf_nan=False)] | Literal["NaN", "Infinity", "-Infinity"]
"""A measured number; JSON has no others than finite ones."""


class CommitReference(Model):
    """A commit with the words people know it by."""

    repository: str
    commit: str
    subject: str | None
    """None where the store has no description of it."""


class AnswerCommit(CommitReference):
    """A culprit, or a commit that may be one. `confidence` is the posterior probability that it made the change."""

    parent: str | None
    """Its first parent, which was run beside it."""
    confidence: float | None
    merge: bool
    """It has several parents."""
    version: str | None = None
    """The release that it stands for."""
    under: str | None = None
    """The perturbation under which it was found, and fails in every run."""
    author: str | None
    email: str | None
    date: datetime | None
    url: str | None = None
    """Where it can be looked at in a browser."""
    files: tuple[str, ...]
    """Paths that differ from the first parent."""


class RunCount(Model):
    """Runs that could be judged, and how many of them failed."""

    runs: int
    failures: int


class ConfidenceBasis(Model):
    """On what the confidence in a culprit rests: the runs of its range, each counted once. ends: those that are neither
    the culprit nor a parent of it. against: the commits that build on it and mostly do as before it. learned: whether
    the search began from earlier runs of the case and its stack."""

    culprit: RunCount
    parents: RunCount
    others: RunCount
    other_commits: int
    ends: RunCount
    against: tuple[str, ...] = ()
    learned: bool
    text: str
    """The same in sentences, with what is taken for granted."""


class SkippedCommit(CommitReference):
    """A commit that could not be judged."""

    verdict: Verdict | None
    """None where there was nothing to run."""
    reason: str


class OtherFailure(Model):
    """A failure that looks other than the culprit's, or the failing end's where none is named. It may be a fault of its
    own, and hide others where it shows."""

    verdict: Verdict
    signature: str | None
    first: CommitReference
    """The first commit that showed it, parents before children."""
    last: CommitReference
    commits: int
    """How many commits that were run showed it, from the first to the last."""
    counts_as_bad: bool
    """Whether such runs were counted as bad; else they were skipped."""
    onset: CommitReference | None
    """The commit that it came with: it shows there, and each parent passes. None where the runs do not tell."""
    may_have_begun_at: int
    """Of how many candidates it may be any that it came with, where `onset` is not known; else 0."""
    shown: int | None = None
    """The run of `first` whose evidence shows it."""


class CollapsedCommit(CommitReference):
    """A commit that was not run for itself: its content is that of commit `same_as`."""

    same_as: str


class EvidenceLine(Model):
    """A line of output that justifies a verdict."""

    stream: str
    line: int
    """From 1, counted over the whole log; 0 where the evidence is no line of it."""
    text: str
    why: str


class RunError(Model):
    """The largest error over the outputs of a run, by the most telling measure that it has."""

    measure: str
    value: Metric


class RunReport(Model):
    """One finished build-and-run. Seconds are wall time."""

    ordinal: int
    """Among all runs of the bisection, from 1."""
    verdict: Verdict
    judgement: Judgement
    signature: str | None
    metrics: Mapping[str, Mapping[str, Metric]]
    """By output, then by name."""
    error: RunError | None
    build_seconds: float
    run_seconds: float
    build: BuildSource
    build_key: str | None
    exit_code: int | None
    """Of the run; negative for a signal."""
    slot: int
    host: str
    attempt: int
    """More than 1 where a driver was killed in this run, and it was started again."""
    started: datetime
    finished: datetime
    evidence: tuple[EvidenceLine, ...]
    log: str | None
    build_directory: str | None
    command: tuple[str, ...]


class ProbeReport(CommitReference):
    """One commit that was put to the test, for one reason, in as many runs as that took."""

    phase: Phase
    revisions: Mapping[str, str]
    """The commit of every repository of the stack."""
    verdict: Verdict
    """Of the run that decides: the first that failed as asked, else the first that passed, else the first."""
    judgement: Judgement
    signature: str | None
    seconds: float
    """Build and run, of all runs."""
    build: BuildSource
    """Of the first run."""
    runs: tuple[RunReport, ...]


class PatchReport(CommitReference):
    """A commit whose change was made on top of those of `old..new` before they were built."""

    old: str
    new: str
    used_at: tuple[str, ...]
    """The commits that ran with it."""


class PerturbationReport(Model):
    """What both ends did under a perturbation that was tried, because the failure comes and goes."""

    name: str
    changes: str
    bad_runs: int
    bad_failures: int
    good_runs: int
    good_failures: int
    searched: bool
    """Whether it made the failure certain, so that the range was searched under it."""


class RangeReport(Model):
    """A range that was searched; the first is the one that was asked about."""

    repository: str
    seeks: Seeks
    """Of a regression the good end is the older one, of a fix the bad one."""
    good: str
    bad: str
    held: Mapping[str, str]
    """Repositories that were kept at one commit for the whole range."""
    commits: int
    candidates: int
    """How many of the commits can differ in result."""


class Surroundings(Model):
    """Interpreter, tools, CPU, libraries: one description, and the ordinals of the runs that were made in it."""

    fingerprint: str
    details: Mapping[str, str]
    runs: tuple[int, ...]


class EnvironmentReport(Model):
    """All surroundings in the order they were met; more than one means that the environment moved."""

    moved: bool
    changes: tuple[str, ...]
    surroundings: tuple[Surroundings, ...]


class Side(CommitReference):
    """One side of the answer: the culprit or its parent; an end of the range where there is no culprit."""

    revisions: Mapping[str, str]
    verdict: Verdict
    signature: str | None
    runs: tuple[int, ...]
    """Ordinals of all its runs that could be judged."""
    failures: int
    """How many of them failed."""
    shown: int
    """Ordinal of the run among them that shows it best."""
    script: str
    """A shell script that clones, builds and runs it in a folder of its own."""


class Reproduction(Model):
    """Both sides, each with the script that shows it again; None where no run showed that side."""

    good: Side | None
    bad: Side | None


class Timing(Model):
    """Seconds. `total` is the sum over runs, `overhead` what of it was neither build nor run.

    `elapsed` runs from the question to the answer (or the last run), pauses between drivers included.
    """

    elapsed: float
    total: float
    build: float
    run: float
    overhead: float


class Report(Document):
    """A whole bisection, made from the rows of the store alone."""

    upgrades = (without_format,)
    schema_version: Literal[2] = 2
    tool_version: str
    """Of the tool that wrote this report."""
    name: str
    created: datetime
    finished: datetime | None

    outcome: BisectionOutcome | Literal["unfinished"]
    message: str
    culprits: tuple[AnswerCommit, ...]
    through: AnswerCommit | None
    """The commit that brought the culprit in, where the culprit lies in a submodule."""
    lost: AnswerCommit | None
    """What the culprit took away by moving a pin back, or to another line: the fix of what fails now; where a fix was
    sought, the fault."""
    suspects: tuple[AnswerCommit, ...]
    no_commit: NoCommit | None = None
    """How probable it is that no commit is to blame, of suspects that have together less than half; None else."""
    other_failures: tuple[OtherFailure, ...] = ()
    earlier_failures: tuple[CommitReference, ...]
    """Commits that failed before a later one passed; where a fix was sought, that passed before a later one failed."""

    seeks: Seeks
    """What was asked for: the first commit that fails, or (`fix`) the first that passes again. `culprits` are those."""
    stack: str
    repository: str
    good: str
    bad: str
    case: str
    """A script with its arguments, a build directory, or a command that judges by its exit code."""
    platform: str
    device: int
    bad_when: str | None
    """None: the case's exit code says."""
    asked_confidence: float
    confidence_basis: ConfidenceBasis | None = None
    """None where no culprit is named."""
    caveats: tuple[str, ...] = ()
    """What its runs say against taking the answer as it stands, and what to do."""
    golden: str | None
    """SHA-256 of the manifest of the data that every probe ran with."""
    golden_directory: str | None = None
    """Where these data lie; None where there are none, or it was not kept."""

    ranges: tuple[RangeReport, ...]
    rates: tuple[EndRate, ...]
    """How often each end failed when it was measured."""
    counterfactuals: tuple[Counterfactual, ...]
    layers: tuple[MovedLayers, ...] = ()
    """Of each commit that moves several pins at once."""
    yardstick: YardstickTest | None = None
    """Where the culprit changes how its case measures."""
    probes: tuple[ProbeReport, ...]
    perturbations: tuple[PerturbationReport, ...] = ()
    """Those that were tried, of the range that was asked about or of one inside of it."""
    cherry_picks: tuple[PatchReport, ...]
    """What unbroke a stretch of the range. At its edges a change of result may be the patch's own."""
    renames: tuple[Rename, ...] = ()
    """With whose names files of other times were written: `old` before the commit, `new` from it on."""
    skipped: tuple[SkippedCommit, ...]
    collapsed: tuple[CollapsedCommit, ...]
    pins: tuple[PinRecord, ...]
    environment: EnvironmentReport
    notices: tuple[str, ...]
    localization: Localization | None
    """Where in the culprit's build the failure begins; None where that was not asked, or there is no culprit."""
    reproduce: Reproduction
    repeat: str | None = None
    """The command that searches the same range again, for a shell; None where nobody typed one."""
    reduce: str | None = None
    """The command that reduces the culprit's build; None where there are no two builds to compare, or it is reduced."""
    timing: Timing
