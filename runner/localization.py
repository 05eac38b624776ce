"""The document that a localization writes, `OUT/divergence.json`, as models that every report reads.

`reduce` writes the document. Readers treat it as untrusted: `read_divergence` and `read_reduction` return None for a
file that is missing, too large or malformed. `Divergence` is the whole document. Its parts describe the wrong outputs,
their causes, the first divergent tensors, races, stalls and crashes.

    python -m precision_bisect.runner.localization > docs/divergence.schema.json
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from ..store.durable_files import Document, DocumentError, published_schema, read_document
from ..store.vocabulary import percent


class DocumentPart(BaseModel):
    """A part of `divergence.json`, as a frozen value.

    Keys that this version does not know are ignored, so that documents of later versions that only add keys stay
    readable. What an earlier version did not write has a default.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")


class RowRun(DocumentPart):
    """Rows `first` to `last`, both included, counted through all dimensions but the last."""

    first: int
    last: int


class ColumnRun(DocumentPart):
    """Columns `first` to `last`, both included, counted along the last dimension."""

    first: int
    last: int


class FailingOutput(DocumentPart):
    """An output whose error is over the case's tolerance."""

    name: str
    shape: tuple[int, ...] = ()
    elements: int
    wrong: int
    """The number of its elements that are over the tolerance."""
    rows: tuple[RowRun, ...] = ()
    """The first runs of rows that contain such an element."""
    worst: float | None = None
    """The largest error as a multiple of what the tolerance allows; null for NaN, Inf, or a missing output."""


class UnwrittenRows(DocumentPart):
    """The place where an output has wrong elements that no task of the failing build writes."""

    output: str
    rows: tuple[RowRun, ...]
    columns: tuple[ColumnRun, ...] = ()
    """The columns that no task writes in one of these rows. They are empty where no task writes any column."""
    written_by: tuple[str, ...] = ()
    """Tasks of the good build that write these elements."""


class CaseFailure(DocumentPart):
    """Says why the case fails: outputs that violate |actual - expected| <= atol + rtol |expected|."""

    rtol: float
    atol: float
    told: bool
    """Whether the case gave this tolerance. Else it is the harness's default, widened until the good build
    passes."""
    by_good_build: bool = False
    """Whether the good build's outputs are the expected ones, because they are over the tolerance of the golden
    outputs.
    """
    outputs: tuple[FailingOutput, ...] = ()
    """The outputs over the tolerance. They are empty where the case passes."""
    unwritten: tuple[UnwrittenRows, ...] = ()


class BuildChange(DocumentPart):
    """A part in which the failing build differs from the good one."""

    part: Literal["kernel", "orchestration", "kernel list", "runtime", "data"]
    file: str = ""
    line: int | None = None
    """The line in the failing build's file, from 1."""
    kernel: str | None = None
    moved_from: int | None = None
    """The line in the good build's file, from 1, where the text only moved. `line` is where it is now."""
    diff: tuple[str, ...] = ()
    """Lines of the good build after `-`, and lines of the failing one after `+`."""


CauseKind = Literal[
    "kernel",
    "out of place",
    "submission",
    "missing or extra task",
    "order",
    "shared buffer",
    "orchestration",
    "kernel list",
    "runtime",
    "data",
]
"""The kinds of faults:

- `kernel`: what a kernel computes; `out of place`: where it reads or writes.
- `submission`: what a task is given (arguments, scalars, kernel, blocks).
- `missing or extra task`: which tasks there are; `order`: what they wait for; `shared buffer`: where tensors lie.
- `orchestration`: its source, where the tasks do not show more.
- `kernel list`, `runtime` and `data`: that part of the build.
"""


class FailureCause(DocumentPart):
    """A smallest set of changes that makes the good build fail."""

    what: str
    """What changed, in one line."""
    kind: CauseKind = "orchestration"
    confirmed: bool
    """Whether runs showed the cause. Otherwise it is a candidate."""
    effect: float
    """The share of the failing build's wrong elements, 0 to 1, that these changes alone make wrong."""
    changes: tuple[BuildChange, ...] = ()
    differences: tuple[str, ...] = ()
    """How these changes make the tasks of a run differ from the good build's."""
    kernel: str | None = None
    """The kernel that is at fault, or whose task is submitted differently; null where no task is."""
    position: int | None = None
    """The position of a task, in submission order. Three rules choose the task:

    1. The kernel's first task that is seen to go wrong.
    2. Where none is seen to, the first task that writes elsewhere than in the good build.
    3. Where no task does that either, the first task that differs.
    """
    task_class: str | None = None
    tensor: str | None = None
    """What that task leaves wrong, is given differently, or crashes before it has written.

    It is null where the source does not give its name.
    """


class NearBuffer(DocumentPart):
    """A buffer of a task, and its distance from the address of a crash."""

    tensor: str | None
    """The buffer's name in the task that crashes, or else in the first of `tasks`; null where the source does not give
    it.
    """
    size: int
    """The size in bytes."""
    offset: int
    """Bytes from the buffer's first byte to the address; below 0 where the address is before it."""
    tasks: tuple[int, ...]
    """The positions of the tasks that use the buffer, up to the task that crashes."""


class Fault(DocumentPart):
    """The address that a task touched when it crashed."""

    address: str
    """The address in hexadecimal."""
    buffers: tuple[NearBuffer, ...]
    """The buffers that hold the address, or else those of the crashing task, the nearest first.

    They are empty where the address is far from all buffers.
    """


class CrashedTask(DocumentPart):
    """The first task that makes a build crash: the tasks before it alone do not."""

    position: int
    """The position in submission order, from 0, counting tasks that run a kernel."""
    kernel: str
    """The kernel's name; empty where the kernel list does not give it."""
    kernel_sources: tuple[str, ...]
    orchestration_source: str
    orchestration_line: int
    """The line of the statement that submits the task."""
    tensor: str | None = None
    """The tensor that the task was to write; null where that is not one tensor with a name."""
    fault: Fault | None = None
    """The fault; null where the run did not report the address, as on a board, and in documents without it."""


DEFAULT_SCHEDULE = "as it is"
"""This value stands in place of a schedule of the stack file where the runtime runs unchanged."""


class UnorderedTasks(DocumentPart):
    """Two tasks that touch the same elements, one writing, with no path between them in the failing build."""

    before_task_id: str = ""
    before_kernel: str
    before_argument: int | None = None
    after_task_id: str = ""
    after_kernel: str
    after_argument: int | None = None
    hazard: Literal["read after write", "write after read", "write after write"]
    cause: str
    ordered_in_reference: bool | None = None
    """Whether the reference orders the two; null where one of them has no counterpart, or there is no other
    build."""


class OrderTrial(DocumentPart):
    """Runs of the failing build under one schedule of the stack file, on the same data."""

    schedule: str
    variables: Mapping[str, str]
    runs: int
    failed: int
    """Counts the runs whose outputs differ from the reference's."""
    stopped: int
    """Counts the runs without readable outputs: they crashed, stalled, or ran out of time."""
    reference_runs: int = 0
    """Runs of a good build under the same schedule, alternating with the failing build's.

    They end when the good build's outputs are wrong too. They also end when enough runs passed. A build that failed as
    often as the failing one would have shown it by then, with a probability of 99 %.

    """
    reference_fails: bool | None = None
    """Whether a good build has wrong outputs under the schedule too.

    It is null where the good build was not run or produced no outputs. It is also null where all its runs were right,
    but too few to be sure.
    """

    @property
    def reference_may_fail(self) -> bool:
        """Return whether a good build may fail under the schedule too, so that no difference of the builds is blamed.

        That holds where it was run and was not shown to pass.
        """
        return self.reference_runs > 0 and self.reference_fails is not False

    @property
    def least_rate_shown(self) -> float:
        """Return the least failure rate that as many runs as these would have shown with a probability of 99 %.

        It is the r of (1 - r)^runs = 0.01.
        """
        return 1 - 0.01 ** (1 / self.runs)

    @property
    def passed_runs(self) -> int:
        """Return the number of runs whose outputs are the reference's."""
        return self.runs - self.failed - self.stopped


class OrderConfirmation(DocumentPart):
    """Fresh runs of an order that had failed, alternating with runs of one that had passed, until one behaves
    differently.
    """

    failing: OrderTrial
    passing: OrderTrial

    @property
    def holds(self) -> bool:
        """Return whether the first order failed in all runs, and the other one passed in all."""
        return self.failing.failed == self.failing.runs and self.passing.passed_runs == self.passing.runs


class Race(DocumentPart):
    """The search for a race. It is made where an edge is missing, or where a task goes wrong that is right alone."""

    confirmed: bool
    """Whether one order fails and another passes on the same data, in all of several fresh runs each."""
    trials: tuple[OrderTrial, ...] = ()
    confirmation: OrderConfirmation | None = None
    """The confirmation; null where no order failed in all its trials, or none passed in all."""


class StalledTask(DocumentPart):
    """A task that was not done when the runtime gave up."""

    task_id: str
    kernel: str
    kernel_sources: tuple[str, ...]
    orchestration_source: str
    orchestration_lines: tuple[int, ...]
    """The lines of the submits that may have made the task."""
    state: str
    """The state in the runtime's words: RUNNING, READY or WAIT."""
    cores: tuple[int, ...]
    """The cores that the task occupied, by the runtime's numbers."""
    dependencies_met: int = 0
    dependencies: int = 0


class Stall(DocumentPart):
    """Says where the failing build stops. `completed` of `total` tasks, allocations included, were done."""

    believed: bool
    reason: str
    completed: int
    total: int
    tasks: tuple[StalledTask, ...]
    """The tasks that ran, the last one dispatched at the end; where none ran, the tasks that waited."""


_BLOCK_LIMIT = Field(max_length=64)
"""An error map has at most this many blocks along either side. A page draws each block."""
_Class = Annotated[
    Literal["introduced", "inherited", "amplified", "interaction", "unknown"],
    Field(validation_alias=AliasChoices("class", "task_class"), serialization_alias="class"),
]


class PatternFit(DocumentPart):
    """A pattern of wrong elements that fits; `confidence` is between 0 and 1."""

    name: str
    confidence: float
    evidence: str


class ErrorMap(DocumentPart):
    """Says where a tensor is wrong, by blocks of `row_step` x `column_step` elements.

    The tensor is seen as a matrix: all dimensions but the last are its rows, the last one is its columns. `wrong` holds
    the block rows of the shares of wrong elements (0 to 1). `wild` holds how many pairs have NaN or Inf.
    """

    rows: int
    columns: int
    row_step: int
    column_step: int
    wrong: Annotated[tuple[Annotated[tuple[float, ...], _BLOCK_LIMIT], ...], _BLOCK_LIMIT]
    wild: Annotated[tuple[Annotated[tuple[int, ...], _BLOCK_LIMIT], ...], _BLOCK_LIMIT]


class TensorStatistics(DocumentPart):
    """The difference of one tensor. Errors are over pairs that are finite on both sides; null where undefined."""

    dtype: str
    reference_dtype: str | None = None
    shape: tuple[int, ...]
    elements: int
    different: int
    max_error: float
    max_error_index: tuple[int, ...] | None = None
    max_relative_error: float | None = None
    relative_l2: float | None = None
    rmse: float | None = None
    max_ulps: int
    nan: int
    inf: int
    rows: int
    rows_different: int
    first_rows_different: tuple[int, ...]
    heat: ErrorMap | None = None

    @property
    def worst(self) -> str:
        """Return how far the tensor is off, in words.

        NaN and Inf have no error, so they are counted. There is no error where only the sign of zeros differs.
        """
        wild = [f"{count} {what}" for count, what in ((self.nan, "NaN"), (self.inf, "Inf")) if count]
        if self.max_error == 0 and wild:
            return ", ".join(wild)
        if self.max_error == 0 and self.different:
            return "-0.0 stands for 0.0 or the other way round"
        at = f" at {list(self.max_error_index)}" if self.max_error_index is not None else ""
        return ", ".join([*wild, f"error {self.max_error:.6g}{at}"])


class TaskDistances(DocumentPart):
    """Relative L2 distances to the reference's result; null where one is infinite.

    - `out`: the failing run's result.
    - `introduced`: the result of the failing kernel alone on the reference's inputs.
    - `propagated`: the result of the reference's kernel alone on the failing run's inputs.
    - `inputs`: the distance between the inputs.
    - `floor`: the result of the reference's kernel where each input is changed by one unit in the last place.
    - `factor`: `out / inputs`, null where the inputs are right.

    5e-324, the least number above 0, is the distance of tensors that differ in the sign of zeros alone.
    """

    out: float | None = None
    introduced: float | None = None
    propagated: float | None = None
    inputs: float | None = None
    floor: float | None = None
    factor: float | None = None


class FirstDivergent(DocumentPart):
    """One tensor of a divergent task none of whose predecessors diverges."""

    task_id: str
    position: int | None = None
    """The position in submission order, counting tasks that run a kernel; null in documents without it."""
    kernel: str
    kernel_sources: tuple[str, ...] = ()
    reference_kernel: str | None = None
    reference_task_id: str | None = None
    """The task's id in the reference; null without a reference that is run."""
    orchestration_source: str
    orchestration_lines: tuple[int, ...] = ()
    """The lines of the submits that may have made the task."""
    cause: int | None = None
    """The number, from 1, of the cause that the task shows; null where none is known."""
    argument: int
    tensor: str | None = None
    """The tensor's name in the orchestration; null where the source does not give it."""
    task_class: _Class = "unknown"
    reason: str = ""
    distances: TaskDistances | None = None
    pattern: PatternFit | None = None
    """The pattern with the highest confidence; null where none fits."""
    statistics: TensorStatistics | None = None
    """The statistics; null where type or shape differ so that elements do not correspond."""


class DownstreamTask(DocumentPart):
    """What a task after the first divergent ones made of the error that reached it."""

    task_id: str
    position: int
    kernel: str
    task_class: _Class = "unknown"
    reason: str = ""
    distances: TaskDistances | None = None


DIVERGENCE, TASK_GRAPH = "divergence.json", "task_graph.html"
"""The folder of a localization holds these files: this document, and the page of its tasks."""


class ReferenceUsed(DocumentPart):
    """What the failing build was compared with."""

    kind: Literal["good build", "other target", "other schedule", "recorded values", "golden data"]
    """The kind of reference.

    With another schedule, or another target (in documents of earlier versions), the reference is the failing build
    itself, run differently. With recorded values or golden data nothing is run: values are compared by name. The golden
    outputs are among the recorded values.
    """
    path: str
    platform: str
    schedule: str | None = None
    """The schedule's name in the stack file; null where the runtime ran unchanged."""


class NamedTask(DocumentPart):
    """A task by id and kernel."""

    task_id: str
    kernel: str


class DivergentPass(DocumentPart):
    """The first dumped pass after which the program differs, with the start of a unified diff."""

    number: int
    name: str
    diff: str = ""


class GeneratedSources(DocumentPart):
    """Generated sources that differ between the builds, and the component that they show to be at fault."""

    differing: tuple[str, ...] = ()
    only_failing: tuple[str, ...] = ()
    only_reference: tuple[str, ...] = ()
    first_pass: DivergentPass | None = None
    """The first such pass; null where one build has no dumps of passes, or no pass differs."""
    origin: Literal["compiler", "runtime"] | None = None
    """The component at fault; null where the measurements do not decide."""
    shown: str
    """The evidence for `origin`."""

    @property
    def verdict(self) -> str:
        """Return which component is at fault, and why."""
        return f"{self.origin or 'compiler or runtime, which is not known'}: {self.shown}"


class Divergence(Document):
    """The whole result of a localization."""

    model_config = ConfigDict(extra="ignore")

    schema_version: Literal[1] = 1
    failing_build: str
    reference: ReferenceUsed | None = None
    """The reference; null in documents without it."""
    rtol: float = 0.0
    atol: float = 0.0
    """The tolerance of the comparison. Where both are 0, any difference counts."""
    schedule: str | None = None
    """The schedule of the stack file in which the failing build was dumped; null where the runtime ran unchanged.

    The build was seen to fail in this order, while another one passed.
    """
    tasks: int = 0
    runs: int = 0
    """The number of runs until the first divergent tasks were shown.

    It counts runs of the failing build, and of the good one with changes of it. It includes the run that recorded the
    graph, and runs that alternated with the good build's.
    """
    reference_runs: int = 0
    bytes_dumped: int = 0
    """The bytes that the failing build dumped, in all runs."""
    failure: CaseFailure | None = None
    """The failure; null where no harness reports a run's outputs, and in documents without it."""
    causes: tuple[FailureCause, ...] = ()
    """The causes, ordered by their effect on the failing outputs.

    They are empty without a good build to which changes can be applied.
    """
    cleared: tuple[BuildChange, ...] = ()
    """Changes from the good build that are no cause."""
    first_divergent: tuple[FirstDivergent, ...] = ()
    """The first divergent tensors, those of the first cause first. They are empty where the case passes."""
    not_shown: tuple[NamedTask, ...] = ()
    """Further first divergent tasks, whose kernels are in `first_divergent` already. The budget of bytes had no room
    for them.
    """
    candidates: tuple[NamedTask, ...] = ()
    """Holds, in a comparison with recorded values, the tasks before the divergent ones whose results are not all known.

    The error may come from them.
    """
    not_compared: tuple[str, ...] = ()
    """Recorded values that say nothing about this build, and why."""
    rounding: tuple[NamedTask, ...] = ()
    """Tasks before the divergent ones that differ within the harness's tolerance and within rounding: they are no
    fault.
    """
    downstream: tuple[DownstreamTask, ...] = ()
    """Some of the tasks after the divergent ones, one for each kernel."""
    vanished: tuple[NamedTask, ...] = ()
    """Tasks that diverged during the search, but not in the run that was to show it."""
    missing_edges: tuple[UnorderedTasks, ...] = ()
    race: Race | None = None
    """The search for a race; null where nothing points to one, or the harness does not report a run's outputs."""
    tried: tuple[OrderTrial, ...] = ()
    """Runs of a build that passes without a schedule, until one fails.

    They are made under each schedule of the stack file, and some more without one. They are made where tasks do not
    wait for each other that do in the reference.
    """
    in_turns: OrderTrial | None = None
    """Runs in the order in which the build fails, alternating with the good build's.

    It is null where the build passes or produces no outputs, and in documents without it.
    """
    stall: Stall | None = None
    """The stall; null where the failing build ends. Where it is given, nothing was compared."""
    ended: str | None = None
    """How the failing build ended, where it neither produced its outputs nor stalled; otherwise null."""
    crash: CrashedTask | None = None
    """The crash; null where there was none, where runs with fewer tasks missed it, and in documents without it."""
    generated: GeneratedSources | None = None
    """The generated sources; null where the failing build is its own reference."""
    unaligned: tuple[NamedTask, ...] = ()
    unaligned_reference: tuple[NamedTask, ...] = ()
    unvisited: tuple[NamedTask, ...] = ()
    """Tasks that may hold a further first divergence and were not examined."""

    def run_evidence(self, cause: FailureCause) -> str:
        """Describe what the good build does with a cause's changes: wrong outputs, a stall, or the failing build's
        end.
        """
        if not cause.confirmed:
            return "a candidate: runs do not tell it apart"
        if self.stall is not None:
            what = "it stall"
        elif self.ended is not None:
            what = "it end in the same way"
        else:
            what = f"{percent(cause.effect)} of what is wrong"
        if len(cause.changes) > 1:
            return (
                f"in the good build, these {len(cause.changes)} changes together make {what}; fewer of them do not "
                "make it fail"
            )
        return f"alone in the good build, it makes {what}"

    @property
    def passes(self) -> bool:
        """Return whether the failing build's outputs are within the tolerance in every tried order in which the
        reference's are.
        """
        return self.failure is not None and not self.failure.outputs and not self.first_divergent

    @property
    def has_findings(self) -> bool:
        """Return whether there is something to look at: a cause, a divergent tensor, a stall, or a task that
        crashes."""
        return bool(self.causes or self.first_divergent or self.stall or self.crash)


def divergence_schema_text() -> str:
    """Return the schema of `divergence.json`."""
    return published_schema(Divergence)


REDUCTION = "reduction.json"
_MAX_DOCUMENT_BYTES = 4 << 20
"""A larger document, in bytes, is not read. A document with a thousand divergent tensors is smaller."""


class _Size(DocumentPart):
    before: int
    after: int


class ReductionSize(DocumentPart):
    """How far a build was reduced."""

    tasks: _Size
    kernels: _Size


class Localization(Document):
    """The result of a localization, as it is kept with the bisection's conclusion."""

    schema_version: Literal[1] = 1
    status: Literal["found", "nothing", "left out"]
    message: str
    """One line that says why there is no result, or what was compared."""
    divergence: Divergence | None = None
    reduction: ReductionSize | None = None
    reduced: Path | None = None
    """The folder of the reduction."""


def read_divergence(folder: Path) -> Divergence | None:
    """Return the divergence that a folder holds; None where it has none that can be read."""
    value = _read(folder / DIVERGENCE)
    try:
        return None if value is None else read_document(Divergence, value)
    except DocumentError:
        return None


def read_reduction(folder: Path) -> ReductionSize | None:
    """Return the size of the reduction that a folder holds; None where it has none that can be read."""
    value = _read(folder / REDUCTION)
    try:
        return None if value is None else ReductionSize.model_validate(value)
    except ValidationError:
        return None


def _read(file: Path) -> object:
    """Return the JSON of a file; None where it cannot be read, or is too large."""
    try:
        if not file.is_file() or file.stat().st_size > _MAX_DOCUMENT_BYTES:
            return None
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


if __name__ == "__main__":
    print(divergence_schema_text(), end="")
