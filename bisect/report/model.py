"""The published report: what `report.json` holds, and in it `ExplanationReport`, which `explain` prints too.

The report's JSON schema is docs/report.schema.json, which this command writes:

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
from ...store.durable_files import Document, drop_format_key, published_schema
from ...store.vocabulary import BisectionOutcome, BuildSource, Judgement, Phase, Seeks, Verdict, VerdictSource
from ..engine.answer import Counterfactual, EndRate, MovedLayers, NoCommit, YardstickTest
from ..history.questions import PinRecord

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
    joins: bool = False
    """Whether it is a merge of which each parent was judged, so that the change is in joining them."""
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


# What `explain` says of the culprit's build


class QuotedStatement(Model):
    """A statement of a dump, with the lines around it."""

    file: str
    line: int
    statement: str
    lines: tuple[str, ...]


class ChangedStatement(Model):
    """The first variable whose value differs; `before` is its statement before the pass, if there is one."""

    variable: str
    before: QuotedStatement | None
    after: QuotedStatement


class MisplacedTile(Model):
    """A tile whose bytes are not what an operation needs.

    `made` is the statement that makes `tile`, `used` the one that needs it, `written` the one that makes `other`. Bytes
    count from the beginning of the memory space, or of the allocation `base`.
    """

    kind: str
    sentence: str
    operation: str
    tile: str
    other: str | None
    space: str
    base: str | None
    first_byte: int
    bytes: int
    rows: tuple[int, int] | None
    made: QuotedStatement | None
    used: QuotedStatement
    written: QuotedStatement | None


class QuotedChange(Model):
    """A change that a pass made in a function: the statements before and after it, or the tiles that it moved.

    Without any of them it is the head of the function.
    """

    function: str
    before: tuple[QuotedStatement, ...]
    after: tuple[QuotedStatement, ...]
    tiles: tuple[str, ...]


class Proof(Model):
    """The findings of the runs with changes undone.

    - The result is right without `cause`, and wrong with `cause` alone, or with `context` more changes that let it run.
    - It is wrong without each of `refuted`, and right with it alone.
    - `changes` is the number of the pass's changes. Where `cause` is empty, `problem` says why.
    """

    cause: tuple[QuotedChange, ...]
    refuted: tuple[QuotedChange, ...]
    changes: int
    context: int
    runs: int
    problem: str


class PassResult(Model):
    """The result of executing the dump after a pass.

    `error` is in tolerances. `same_as` names the pass whose dump says the same. `faults` counts tiles that lie where
    they must not.
    """

    order: int
    name: str
    state: Literal["right", "wrong", "not executed"]
    error: Metric | None
    faults: int
    same_as: str | None
    problem: str | None
    seconds: float


class CheckReport(Model):
    """The findings about the check, with the outputs that they are about.

    An output is `out_of_reach` where the expected values, rounded to its type, fail. It is `unchanged` where a run that
    writes nothing passes. Errors are those of the program before any pass, in tolerances: `frontend_error` as it is,
    `input_error` if each input is moved by one unit in its last place, and `rounding_bound` by legal rounding at most.
    """

    cannot_fail: tuple[str, ...]
    out_of_reach: tuple[str, ...]
    not_finite: tuple[str, ...]
    unchanged: tuple[str, ...]
    frontend_error: Metric | None
    input_error: Metric | None
    rounding_bound: Metric | None
    problem: str | None


class StepTime(Model):
    """A step and its time."""

    step: str
    seconds: float


EXPLANATION = "explanation.json"
"""The folder of a report has this document if the passes of the culprit's program were executed."""


class ExplanationReport(Document):
    """The answer.

    - `verdict` says what explains the failure, and `message` says it in a sentence.
    - `last_good` and `first_bad` are the passes on both sides of the change. `candidates` are those that can have made
      it: several, where dumps between the two were not executed.
    - `changed` is set where a pass changed a value, and `misplaced` where it put a tile where it must not lie.
    - `proof` says which of the pass's changes are the cause.
    - `notes` are set where the IR is right: facts that may explain a wrong run, and are no fault of a pass.
    - `next_command` goes on where the IR is right.
    """

    schema_version: Literal[1] = 1
    verdict: Literal[
        "check_cannot_fail",
        "tolerance_out_of_reach",
        "wrong_before_passes",
        "wrong_at_first_dump",
        "pass_changed_values",
        "memory_fault",
        "right_ir",
        "nothing_executed",
    ]
    message: str
    build: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rtol: float
    atol: float
    check: CheckReport | None
    passes: tuple[PassResult, ...]
    last_good: str | None
    first_bad: str | None
    candidates: tuple[str, ...]
    changed: ChangedStatement | None
    misplaced: tuple[MisplacedTile, ...]
    proof: Proof | None
    notes: tuple[str, ...]
    steps: tuple[StepTime, ...]
    next_command: str | None


# The report


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

    upgrades = (drop_format_key,)
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
    """The first commits that failed before a later one passed. Of a sought fix, those that passed before one failed."""

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
    """How often each end failed in the runs that measured it. Later runs that confirm the answer do not count."""
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
    explanation: ExplanationReport | None = None
    """Says after which pass the culprit's program is wrong. None where its passes were not dumped."""
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
