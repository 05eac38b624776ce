"""A localization handed from `bisect` to `reduce`, who do not know each other: the job, and what comes back.

The job is a JSON file, and the answer another: `divergence.json` (docs/divergence.schema.json), of which this holds
what reports show. It is read as a stranger's.
"""

import json
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from .stack.parts import Model
from .stack.stack import Stack

DIVERGENCE, TASK_GRAPH, REDUCTION = "divergence.json", "task_graph.html", "reduction.json"
_T = TypeVar("_T", bound=BaseModel)
_LARGEST = 4 << 20
"""Bytes; one with a thousand divergent tensors is smaller."""
_BLOCKS = Field(max_length=64)


class JobSide(Model):
    """A build directory and what runs it: the repositories of `stack` lie where the build's own commits are checked
    out and built, in `slot`, for `python`."""

    build: Path
    stack: Stack
    python: Path
    slot: Path


class LocalizationJob(Model):
    """What is to be found out. `timeout` is seconds for one run; `rtol` and `atol` are the case's own closeness, None
    where its run did not tell."""

    failing: JobSide
    reference: JobSide
    platform: str
    device: int
    golden_data: Path
    timeout: float
    rtol: float | None
    atol: float | None
    output: Path
    reduce_to: Path | None
    """Where a reduction goes; None: none is made."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Pattern(_Part):
    """A kind of wrong that fits."""

    name: str
    confidence: float
    evidence: str


class HeatMap(_Part):
    """Block rows of shares of wrong elements, and of numbers of NaN and Inf."""

    rows: int
    columns: int
    row_step: int
    column_step: int
    wrong: Annotated[tuple[Annotated[tuple[float, ...], _BLOCKS], ...], _BLOCKS]
    wild: Annotated[tuple[Annotated[tuple[int, ...], _BLOCKS], ...], _BLOCKS]


class Statistics(_Part):
    """The difference of one tensor."""

    dtype: str
    shape: tuple[int, ...]
    elements: int
    different: int
    max_error: float
    max_error_index: tuple[int, ...] | None = None
    max_ulps: int
    nan: int
    inf: int
    rows: int
    rows_different: int
    first_rows_different: tuple[int, ...]
    heat: HeatMap | None = None


class FirstDivergent(_Part):
    """One tensor of a divergent task none of whose predecessors diverges."""

    task_id: str
    kernel: str
    kernel_sources: tuple[str, ...]
    orchestration_source: str
    orchestration_lines: tuple[int, ...]
    argument: int
    tensor: str | None
    task_class: str = Field("unknown", validation_alias=AliasChoices("class", "task_class"))
    reason: str
    pattern: Pattern | None
    statistics: Statistics | None


class MissingEdge(_Part):
    """Two tasks that touch the same elements with no path between them."""

    before_kernel: str
    after_kernel: str
    hazard: str
    cause: str
    ordered_in_reference: bool | None


class Race(_Part):
    """Whether the order of tasks was seen to decide."""

    confirmed: bool


class FirstPass(_Part):
    """The first pass of the compiler after which the program differs, by its number and name."""

    number: int
    name: str


class Generated(_Part):
    """Whether compiler or runtime is at fault, where that is settled, and what it rests on."""

    first_pass: FirstPass | None = None
    origin: str | None
    shown: str


class StalledTask(_Part):
    """A task that was not done when the runtime gave up."""

    task_id: str
    kernel: str
    kernel_sources: tuple[str, ...]
    orchestration_source: str
    orchestration_lines: tuple[int, ...]
    state: str
    cores: tuple[int, ...]


class Stall(_Part):
    """Where a build stops that does not end."""

    believed: bool
    reason: str
    completed: int
    total: int
    tasks: tuple[StalledTask, ...]


class Divergence(_Part):
    """The whole result."""

    failing_build: str
    schedule: str | None = None
    first_divergent: tuple[FirstDivergent, ...]
    missing_edges: tuple[MissingEdge, ...] = ()
    race: Race | None = None
    stall: Stall | None = None
    generated: Generated | None = None


class _Size(_Part):
    before: int
    after: int


class ReductionSize(_Part):
    """How far a build was reduced."""

    tasks: _Size
    kernels: _Size


class Localization(Model):
    """What came of it, as it is kept with the bisection's conclusion."""

    status: Literal["found", "nothing", "left out"]
    message: str
    """One line: why there is nothing, or what was compared."""
    divergence: Divergence | None = None
    reduction: ReductionSize | None = None
    reduced: Path | None = None
    """The folder of the reduction."""


def read_divergence(folder: Path) -> Divergence | None:
    """That of a folder; None where there is none that can be read."""
    return _read(folder / DIVERGENCE, Divergence)


def read_reduction(folder: Path) -> ReductionSize | None:
    """That of a folder; None where there is none that can be read."""
    return _read(folder / REDUCTION, ReductionSize)


def _read(file: Path, model: type[_T]) -> _T | None:
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return None
        return model.model_validate(json.loads(file.read_bytes()))
    except (OSError, ValueError, RecursionError, ValidationError):
        return None
