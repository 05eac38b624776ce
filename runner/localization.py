"""The document that a localization writes, `OUT/divergence.json`, as models that every report reads.

`Divergence` is the whole document. Its parts describe the wrong outputs, their causes, the first divergent tensors,
races, stalls and crashes. Readers do not trust the file: `read_divergence` and `read_reduction` return None for one
that is missing, too large or malformed. The published schema is written by:

    python -m precision_bisect.runner.localization > docs/divergence.schema.json
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from ..store.durable_files import Document, DocumentError, published_schema, read_document
from ..store.vocabulary import percent


class DocumentPart(BaseModel):
    """A part of `divergence.json`, as a frozen model.

    Unknown keys are ignored, because later versions may add keys. Keys that an earlier version did not write have
    defaults.
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
    """The number of elements that are over the tolerance."""
    rows: tuple[RowRun, ...] = ()
    """The first runs of rows that contain an element over the tolerance."""
    worst: float | None = None
    """The largest error as a multiple of the tolerance; null for NaN, Inf, a zero tolerance, or a missing output."""


class UnwrittenRows(DocumentPart):
    """Wrong elements of an output that no task of the failing build writes."""

    output: str
    rows: tuple[RowRun, ...]
    columns: tuple[ColumnRun, ...] = ()
    """The columns of a row that no task writes; empty where no task writes any column."""
    written_by: tuple[str, ...] = ()
    """The tasks of the good build that write these elements."""


class CaseFailure(DocumentPart):
    """Why the case fails: the outputs that violate |actual - expected| <= atol + rtol |expected|."""

    rtol: float
    atol: float
    told: bool
    """Whether the case gave this tolerance. Otherwise it is the harness's, widened until the good build passes."""
    by_good_build: bool = False
    """Whether the good build's outputs are the expected ones, because they differ too much from the golden ones."""
    outputs: tuple[FailingOutput, ...] = ()
    """The outputs over the tolerance; empty where the case passes."""
    unwritten: tuple[UnwrittenRows, ...] = ()


class BuildChange(DocumentPart):
    """A part in which the failing build differs from the good one."""

    part: Literal["kernel", "orchestration", "kernel list", "runtime", "data"]
    file: str = ""
    line: int | None = None
    """The line in the failing build's file, from 1."""
    kernel: str | None = None
    moved_from: int | None = None
    """The line in the good build's file, from 1, of a text that only moved; otherwise null."""
    diff: tuple[str, ...] = ()
    """Lines of the good build after `-`, and lines of the failing one after `+`; for the runtime, settings.

    At most 12 are quoted. A last line without a sign counts the rest.
    """


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
"""A fault has one of these kinds:

- `kernel`: a kernel computes something else.
- `out of place`: a kernel reads or writes elsewhere.
- `submission`: a task is submitted with other arguments, scalars, kernel or blocks.
- `missing or extra task`: the build has other tasks.
- `order`: tasks wait for other tasks.
- `shared buffer`: tensors lie elsewhere in memory.
- `orchestration`: its source differs, and the tasks do not show more.
- `kernel list`, `runtime` or `data`: that part of the build differs.
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
    """The differences that these changes make between the tasks of a run and those of the good build."""
    kernel: str | None = None
    """The kernel at fault, or the kernel of a task that is submitted differently; null without such a task."""
    position: int | None = None
    """The position of a task, in submission order. The first rule that finds a task chooses it:

    1. The kernel's first task that is seen to go wrong.
    2. The first task that writes elsewhere than in the good build.
    3. The first task that differs.
    """
    task_class: str | None = None
    tensor: str | None = None
    """The tensor that the task leaves wrong, gets in another form, or crashes before writing.

    It is null where the source does not give its name.
    """


class NearBuffer(DocumentPart):
    """A buffer of a task, and its distance from the address of a crash."""

    tensor: str | None
    """The buffer's name in the crashing task, or else in the first of `tasks`; null where the source gives none."""
    size: int
    """The size in bytes."""
    offset: int
    """The bytes from the buffer's first byte to the address; negative where the address is before the buffer."""
    tasks: tuple[int, ...]
    """The positions of the tasks that use the buffer, up to the task that crashes."""


class Fault(DocumentPart):
    """The address that a task accessed when it crashed."""

    address: str
    """The address in hexadecimal."""
    buffers: tuple[NearBuffer, ...]
    """The buffers around the address, or else those of the crashing task, the nearest first.

    They are empty where the address is far from all buffers.
    """


class CrashedTask(DocumentPart):
    """The first task with which a build crashes. With only the tasks before it, the build does not crash."""

    position: int
    """The position in submission order, from 0, counting tasks that run a kernel."""
    kernel: str
    """The kernel's name; empty where the kernel list does not give it."""
    kernel_sources: tuple[str, ...]
    orchestration_source: str
    orchestration_line: int
    """The line of the statement that submits the task."""
    tensor: str | None = None
    """The tensor that the task was to write; null unless it is a single tensor with a name."""
    fault: Fault | None = None
    """The accessed address; null where the run did not report it, as on a board, and in documents without it."""


DEFAULT_SCHEDULE = "as it is"
"""This is the name of running without any schedule of the stack file."""


class UnorderedTasks(DocumentPart):
    """Two tasks that access the same elements without a path between them in the failing build. One of them writes."""

    before_task_id: str = ""
    before_kernel: str
    before_argument: int | None = None
    after_task_id: str = ""
    after_kernel: str
    after_argument: int | None = None
    hazard: Literal["read after write", "write after read", "write after write"]
    cause: str
    ordered_in_reference: bool | None = None
    """Whether the reference orders the two; null without a reference, or where one of them has no counterpart."""


class OrderTrial(DocumentPart):
    """Runs of the failing build under one schedule of the stack file, on the same data."""

    schedule: str
    variables: Mapping[str, str]
    runs: int
    failed: int
    """The number of runs whose outputs differ from the reference's."""
    stopped: int
    """The number of runs without readable outputs: they crashed, stalled, or ran out of time."""
    reference_runs: int = 0
    """The number of runs of a good build under the same schedule, which alternate with the failing build's.

    They end when the good build's outputs are wrong too, or when enough of its runs have passed. Then a build that
    fails as often as the failing one would have failed with a probability of 99 %.
    """
    reference_fails: bool | None = None
    """Whether a good build has wrong outputs under the schedule too.

    It is null where the good build was not run, produced no outputs, or passed in too few runs to be sure.
    """

    @property
    def reference_may_fail(self) -> bool:
        """Return whether a good build was run under the schedule and was not shown to pass.

        Then no difference between the builds is blamed.
        """
        return self.reference_runs > 0 and self.reference_fails is not False

    @property
    def min_rate_shown(self) -> float:
        """Return the least failure rate that so many runs show with a probability of 99 %: (1 - r)^runs = 0.01."""
        return 1 - 0.01 ** (1 / self.runs)

    @property
    def passed_runs(self) -> int:
        """Return the number of runs whose outputs equal the reference's."""
        return self.runs - self.failed - self.stopped


class OrderConfirmation(DocumentPart):
    """Fresh runs of an order that had failed, alternating with runs of one that had passed.

    They end when an order behaves differently than before.
    """

    failing: OrderTrial
    passing: OrderTrial

    @property
    def holds(self) -> bool:
        """Return whether one order failed in all its runs, and the other one passed in all its runs."""
        return self.failing.failed == self.failing.runs and self.passing.passed_runs == self.passing.runs


class Race(DocumentPart):
    """The search for a race. A harness must report outputs, and one of these must suggest a race.

    1. Some tasks do not wait for each other.
    2. The build passes without a schedule, and fails under one.
    3. The good build fails in the same order too, or was not shown to pass in it.
    4. A wrong task is right when it runs alone, and no known change makes the build fail.
    5. A task diverged in one run and not in the next.
    """

    confirmed: bool
    """Whether one order failed and another passed on the same data, in all of several fresh runs each."""
    trials: tuple[OrderTrial, ...] = ()
    confirmation: OrderConfirmation | None = None
    """The fresh runs; null unless one order failed in all its trials and another one passed in all."""


class StalledTask(DocumentPart):
    """A task that was not done when the runtime gave up."""

    task_id: str
    kernel: str
    kernel_sources: tuple[str, ...]
    orchestration_source: str
    orchestration_lines: tuple[int, ...]
    """The lines of the statements that may have submitted the task."""
    state: str
    """The state in the runtime's words: RUNNING, READY or WAIT."""
    cores: tuple[int, ...]
    """The cores that the task occupied, by the runtime's numbers."""
    dependencies_met: int = 0
    dependencies: int = 0


class Stall(DocumentPart):
    """Where the failing build stops."""

    believed: bool
    reason: str
    completed: int
    """The number of tasks that were done, including allocations."""
    total: int
    """The number of all tasks, including allocations."""
    tasks: tuple[StalledTask, ...]
    """The tasks that ran, in the order of their dispatch; where none ran, the tasks that waited."""


_BLOCK_LIMIT = Field(max_length=64)
"""An error map has at most this many blocks along either side, because a page draws each block."""
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
    """Where a tensor is wrong, by blocks of `row_step` x `column_step` elements.

    The tensor is seen as a matrix: the last dimension is its columns, and all others are its rows.
    """

    rows: int
    columns: int
    row_step: int
    column_step: int
    wrong: Annotated[tuple[Annotated[tuple[float, ...], _BLOCK_LIMIT], ...], _BLOCK_LIMIT]
    """The share of wrong elements of each block, 0 to 1, by block row."""
    wild: Annotated[tuple[Annotated[tuple[int, ...], _BLOCK_LIMIT], ...], _BLOCK_LIMIT]
    """The number of pairs with NaN or Inf in each block, by block row."""


class TensorStatistics(DocumentPart):
    """The difference of one tensor. Errors are of pairs that are finite on both sides, and null where undefined."""

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
        """Return the worst difference in words: the numbers of NaN and Inf, and the largest error.

        Where only the sign of zeros differs, there is no error.
        """
        wild = [f"{count} {what}" for count, what in ((self.nan, "NaN"), (self.inf, "Inf")) if count]
        if self.max_error == 0 and wild:
            return ", ".join(wild)
        if self.max_error == 0 and self.different:
            return "-0.0 stands for 0.0 or the other way round"
        where = f" at {list(self.max_error_index)}" if self.max_error_index is not None else ""
        return ", ".join([*wild, f"absolute error {self.max_error:.6g}{where}"])


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
    """A tensor of a divergent task whose predecessors do not diverge."""

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
    """The lines of the statements that may have submitted the task."""
    cause: int | None = None
    """The number, from 1, of the cause that makes the task diverge; null where none is known."""
    argument: int
    tensor: str | None = None
    """The tensor's name in the orchestration; null where the source does not give it."""
    task_class: _Class = "unknown"
    reason: str = ""
    distances: TaskDistances | None = None
    pattern: PatternFit | None = None
    """The pattern with the highest confidence; null where none fits."""
    statistics: TensorStatistics | None = None
    """The statistics; null where types or shapes differ so that elements do not correspond."""


class DownstreamTask(DocumentPart):
    """A task after the first divergent ones, and its effect on the error that reached it."""

    task_id: str
    position: int
    kernel: str
    task_class: _Class = "unknown"
    reason: str = ""
    distances: TaskDistances | None = None


DIVERGENCE, TASK_GRAPH = "divergence.json", "task_graph.html"
"""The folder of a localization has these files: this document, and the page of its tasks."""
_PAGE_HEAD = re.compile(rb'<aside>(?:\n  <p class="back">.*?</p>)?')


def link_back(page: bytes, address: str, text: str) -> bytes:
    """Return the page of a localization's tasks with a link back, in place of an earlier one."""
    link = f'<aside>\n  <p class="back"><a href="{address}">{text}</a></p>'.encode()
    return _PAGE_HEAD.sub(lambda _: link, page, count=1)


class ReferenceUsed(DocumentPart):
    """The reference with which the failing build was compared."""

    kind: Literal["good build", "other target", "other schedule", "recorded values", "golden data"]
    """The kind of reference.

    With `other schedule`, or `other target` in older documents, the reference is the failing build itself, run in
    another way. `recorded values` and `golden data` are compared by name, and nothing is run. The recorded values
    include the golden outputs.
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
    """The generated sources that differ between the builds, and the component at fault."""

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

    The build failed under this schedule, and passed under another one.
    """
    tasks: int = 0
    runs: int = 0
    """The number of runs until the first divergent tasks were shown.

    These are all runs of the failing build, and runs of the good build with changes of the failing one.
    """
    reference_runs: int = 0
    bytes_dumped: int = 0
    """The bytes that the failing build dumped, in all runs."""
    failure: CaseFailure | None = None
    """The failure of the case; null where no harness reports a run's outputs, and in documents without it."""
    causes: tuple[FailureCause, ...] = ()
    """The causes, those with the largest effect on the failing outputs first.

    They are empty without a good build to which changes can be applied.
    """
    cleared: tuple[BuildChange, ...] = ()
    """The changes from the good build that are no cause."""
    first_divergent: tuple[FirstDivergent, ...] = ()
    """The first divergent tensors, those of the first cause first; empty where the case passes."""
    not_shown: tuple[NamedTask, ...] = ()
    """Further first divergent tasks, for which the budget of bytes had no room. `first_divergent` has their kernels."""
    candidates: tuple[NamedTask, ...] = ()
    """The tasks before the divergent ones of whose results some were not recorded. The error may come from them."""
    not_compared: tuple[str, ...] = ()
    """The recorded values that were not compared, and why."""
    rounding: tuple[NamedTask, ...] = ()
    """The tasks before the divergent ones whose differences are within the case's tolerance and within rounding."""
    downstream: tuple[DownstreamTask, ...] = ()
    """Some of the tasks after the divergent ones, one for each kernel."""
    vanished: tuple[NamedTask, ...] = ()
    """The tasks that diverged during the search, but not in the last run."""
    missing_edges: tuple[UnorderedTasks, ...] = ()
    race: Race | None = None
    """The search for a race; null where nothing suggests one, or where the harness does not report a run's outputs."""
    tried: tuple[OrderTrial, ...] = ()
    """Runs under each schedule of the stack file and without one, until one fails.

    They are made of a build that passes without a schedule. Runs without a schedule are made only where some tasks do
    not wait for each other.
    """
    in_turns: OrderTrial | None = None
    """Runs under the schedule in which the build fails, alternating with the good build's.

    It is null where the build passes or produces no outputs, and in documents without it.
    """
    stall: Stall | None = None
    """The stall, after which nothing was compared; null where the failing build ends."""
    ended: str | None = None
    """The ending of a failing build that neither produced its outputs nor stalled; otherwise null."""
    crash: CrashedTask | None = None
    """The crash; null without one, where runs with fewer tasks did not crash, and in documents without it."""
    generated: GeneratedSources | None = None
    """The generated sources; null where the failing build is its own reference."""
    unaligned: tuple[NamedTask, ...] = ()
    unaligned_reference: tuple[NamedTask, ...] = ()
    unvisited: tuple[NamedTask, ...] = ()
    """The tasks that may be further first divergent ones, and were not examined."""

    def run_evidence(self, cause: FailureCause) -> str:
        """Describe the effect of a cause's changes on the good build: wrong outputs, a stall, or the same ending."""
        if not cause.confirmed:
            return "a candidate: runs do not tell it apart"
        if self.stall is not None:
            effect = "it stall"
        elif self.ended is not None:
            effect = "it end in the same way"
        else:
            effect = f"{percent(cause.effect)} of what is wrong"
        if len(cause.changes) > 1:
            return (
                f"in the good build, these {len(cause.changes)} changes together make {effect}; fewer of them do not "
                "make it fail"
            )
        return f"alone in the good build, it makes {effect}"

    @property
    def passes(self) -> bool:
        """Return whether the failing build's outputs are right in every tried order in which the reference's are."""
        return self.failure is not None and not self.failure.outputs and not self.first_divergent

    @property
    def has_task_graph(self) -> bool:
        """Return whether the failing build left outputs. Only then is the page of its task graph written."""
        return self.stall is None and self.ended is None

    @property
    def has_findings(self) -> bool:
        """Return whether there is a cause, a divergent tensor, a crash, or a stall for which the build is to blame."""
        stalls = self.stall is not None and self.stall.believed
        return bool(self.causes or self.first_divergent or stalls or self.crash)


def divergence_schema_text() -> str:
    """Return the schema of `divergence.json`."""
    return published_schema(Divergence)


REDUCTION = "reduction.json"
"""The folder of a reduction has this document."""
_MAX_DOCUMENT_BYTES = 4 << 20
"""A document of more than this many bytes is not read. One with a thousand divergent tensors is smaller."""


class _Size(DocumentPart):
    before: int
    after: int


class ReductionSize(DocumentPart):
    """The size of a build before and after its reduction."""

    tasks: _Size
    kernels: _Size


class Localization(Document):
    """The result of a localization, as a bisection's conclusion contains it."""

    schema_version: Literal[1] = 1
    status: Literal["found", "nothing", "left out"]
    message: str
    """One line that says what was compared, or why there is no result."""
    divergence: Divergence | None = None
    reduction: ReductionSize | None = None
    reduced: Path | None = None
    """The folder of the reduction."""


_Result = TypeVar("_Result", bound=Document)


def read_divergence(folder: Path) -> Divergence | None:
    """Return the divergence in a folder; None where the file is missing, too large or malformed."""
    return read_result(folder / DIVERGENCE, Divergence)


def read_result(file: Path, model: type[_Result]) -> _Result | None:
    """Return the document in a file; None where the file is missing, too large or malformed."""
    value = _read(file)
    try:
        return None if value is None else read_document(model, value)
    except DocumentError:
        return None


def read_reduction(folder: Path) -> ReductionSize | None:
    """Return the size of the reduction in a folder; None where the file is missing, too large or malformed."""
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
