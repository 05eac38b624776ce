"""Why a case fails, as `divergence.json` tells it: its wrong outputs, and the changes that make them wrong."""

from typing import Literal

from .part import DocumentPart


class RowRun(DocumentPart):
    """Rows `first` to `last`, both included, counted through all dimensions but the last."""

    first: int
    last: int


class ColumnRun(DocumentPart):
    """Columns `first` to `last`, both included, counted along the last dimension."""

    first: int
    last: int


class FailingOutput(DocumentPart):
    """An output over the case's tolerance."""

    name: str
    shape: tuple[int, ...] = ()
    elements: int
    wrong: int
    """How many of its elements are over the tolerance."""
    rows: tuple[RowRun, ...] = ()
    """The first runs of rows that have one."""
    worst: float | None = None
    """The largest error as a multiple of what the tolerance allows; null for NaN, Inf, or a missing output."""


class UnwrittenRows(DocumentPart):
    """Where an output has wrong elements that no task of the failing build writes."""

    output: str
    rows: tuple[RowRun, ...]
    columns: tuple[ColumnRun, ...] = ()
    """The columns that no task writes in one of these rows; none given where that is all."""
    written_by: tuple[str, ...] = ()
    """Tasks of the good build that do."""


class CaseFailure(DocumentPart):
    """What the case fails for: outputs over |actual - expected| <= atol + rtol |expected|."""

    rtol: float
    atol: float
    told: bool
    """Whether that is the case's own tolerance; else the harness's default, widened until the good build passes."""
    by_good_build: bool = False
    """Whether the good build's outputs are what is expected, as they are over the tolerance of the golden ones."""
    outputs: tuple[FailingOutput, ...] = ()
    """None: the case passes."""
    unwritten: tuple[UnwrittenRows, ...] = ()


class BuildChange(DocumentPart):
    """A part in which the failing build is not the good one."""

    part: Literal["kernel", "orchestration", "kernel list", "runtime", "data"]
    file: str = ""
    line: int | None = None
    """Of the failing build's file, from 1."""
    kernel: str | None = None
    moved_from: int | None = None
    """Where it only stands elsewhere: the line of the good build's file, from 1, that it stood at; `line` is where it
    stands now."""
    diff: tuple[str, ...] = ()
    """Lines of the good build with `-` before them, of the failing one with `+`."""


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
"""What is at fault: what a kernel computes, or where it reads or writes; what a task is given (arguments, scalars,
kernel, blocks), which tasks there are, what they wait for, where tensors lie; the orchestration where tasks do not tell
more."""


class FailureCause(DocumentPart):
    """Changes that make the good build fail, and no fewer of them do."""

    what: str
    """What changed, in one line."""
    kind: CauseKind = "orchestration"
    confirmed: bool
    """Whether runs showed it; else it is a candidate."""
    effect: float
    """The share of the failing build's wrong elements, 0 to 1, that these changes alone make wrong."""
    changes: tuple[BuildChange, ...] = ()
    differences: tuple[str, ...] = ()
    """How the tasks of a run differ by it from the good build's."""
    kernel: str | None = None
    """The kernel that is at fault, or whose task is submitted otherwise; null where no task is."""
    position: int | None = None
    """Of its first task that is seen to go wrong, in submission order; of the first that writes elsewhere than in the
    good build, where none of that kernel is seen to; where no task at all is, of the first that differs."""
    task_class: str | None = None
    tensor: str | None = None
    """What that task leaves wrong, is given otherwise, or crashes before it has written; null where the text does not
    settle its name."""
