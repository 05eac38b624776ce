"""Divergent tensors as `divergence.json` tells of them: the task, the difference, and where it comes from."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from .part import DocumentPart

_BLOCKS = Field(max_length=64)
"""Of a map of errors, along either side; a page draws each."""
_Class = Annotated[
    Literal["introduced", "inherited", "amplified", "interaction", "unknown"],
    Field(validation_alias=AliasChoices("class", "task_class"), serialization_alias="class"),
]


class PatternFit(DocumentPart):
    """A kind of wrong that fits; `confidence` is between 0 and 1."""

    name: str
    confidence: float
    evidence: str


class ErrorMap(DocumentPart):
    """Where a tensor is wrong, by blocks of `row_step` x `column_step` elements of its matrix of all but the last
    dimension x the last one. Block rows of shares of wrong elements (0 to 1), and of how many pairs hold NaN or Inf."""

    rows: int
    columns: int
    row_step: int
    column_step: int
    wrong: Annotated[tuple[Annotated[tuple[float, ...], _BLOCKS], ...], _BLOCKS]
    wild: Annotated[tuple[Annotated[tuple[int, ...], _BLOCKS], ...], _BLOCKS]


class TensorStatistics(DocumentPart):
    """The difference of one tensor. Errors run over pairs that are finite on both sides; null where undefined."""

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
        """How far it is off, in words. Of NaN and Inf no error can be told, so that they are counted; where only the
        sign of zeros differs there is none."""
        wild = [f"{count} {what}" for count, what in ((self.nan, "NaN"), (self.inf, "Inf")) if count]
        if self.max_error == 0 and wild:
            return ", ".join(wild)
        if self.max_error == 0 and self.different:
            return "-0.0 stands for 0.0 or the other way round"
        at = f" at {list(self.max_error_index)}" if self.max_error_index is not None else ""
        return ", ".join([*wild, f"error {self.max_error:.6g}{at}"])


class TaskDistances(DocumentPart):
    """Relative L2 distances to the reference's result; null where one is infinite.

    `out` in the run; `introduced` by the failing kernel alone on the reference's inputs; `propagated` by the
    reference's kernel alone on the failing run's inputs; `inputs` between the inputs; `floor` by the reference's kernel
    with every input changed by one unit in the last place. `factor` is `out / inputs`, null where the inputs are right.
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
    """In submission order, counting tasks that run a kernel; null in documents that do not tell."""
    kernel: str
    kernel_sources: tuple[str, ...] = ()
    reference_kernel: str | None = None
    reference_task_id: str | None = None
    """Null without a reference that is run."""
    orchestration_source: str
    orchestration_lines: tuple[int, ...] = ()
    """Lines of the submits that may have made the task."""
    cause: int | None = None
    """The number, from 1, of the cause that it shows; null where none is known."""
    argument: int
    tensor: str | None = None
    """Its name in the orchestration; null where the text does not settle it."""
    task_class: _Class = "unknown"
    reason: str = ""
    distances: TaskDistances | None = None
    pattern: PatternFit | None = None
    """The surest; null where none fits."""
    statistics: TensorStatistics | None = None
    """Null where type or shape differ so that elements do not correspond."""


class DownstreamTask(DocumentPart):
    """What a task below the first divergent ones made of the error that reached it."""

    task_id: str
    position: int
    kernel: str
    task_class: _Class = "unknown"
    reason: str = ""
    distances: TaskDistances | None = None
