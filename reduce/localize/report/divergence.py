"""What `OUT/divergence.json` holds. Its schema is published as `docs/divergence.schema.json`.

python -m precision_bisect.reduce.localize.report.divergence > docs/divergence.schema.json
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ....store.json_schema import published_schema


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Reference(_Part):
    """What the failing build was compared with."""

    kind: Literal["good build", "other target", "other schedule", "recorded values", "golden data"]
    """Another target or schedule: the failing build itself, run otherwise. Values: by name, with no run at all; the
    golden outputs are among the recorded ones."""
    path: str
    platform: str
    schedule: str | None
    """By its name in the stack file; null where nothing was asked of the runtime."""


class Pattern(_Part):
    """A kind of wrong that fits; `confidence` is between 0 and 1."""

    name: str
    confidence: float
    evidence: str


class HeatMap(_Part):
    """Where a tensor is wrong, by blocks of `row_step` x `column_step` elements of its matrix of all but the last
    dimension x the last one. Block rows of shares of wrong elements (0 to 1), and of how many pairs hold NaN or Inf."""

    rows: int
    columns: int
    row_step: int
    column_step: int
    wrong: tuple[tuple[float, ...], ...]
    wild: tuple[tuple[int, ...], ...]


class Statistics(_Part):
    """The difference of one tensor. Errors run over pairs that are finite on both sides; null where undefined."""

    dtype: str
    reference_dtype: str
    shape: tuple[int, ...]
    elements: int
    different: int
    max_error: float
    max_error_index: tuple[int, ...] | None
    max_relative_error: float | None
    relative_l2: float | None
    rmse: float | None
    max_ulps: int
    nan: int
    inf: int
    rows: int
    rows_different: int
    first_rows_different: tuple[int, ...]
    heat: HeatMap


class Distances(_Part):
    """Relative L2 distances to the reference's result; null where one is infinite.

    `out` in the run; `introduced` by the failing kernel alone on the reference's inputs; `propagated` by the
    reference's kernel alone on the failing run's inputs; `inputs` between the inputs; `floor` by the reference's kernel
    with every input changed by one unit in the last place. `factor` is `out / inputs`, null where the inputs are right.
    """

    out: float | None
    introduced: float | None
    propagated: float | None
    inputs: float | None
    floor: float | None
    factor: float | None


class FirstDivergent(_Part):
    """One tensor of a divergent task none of whose predecessors diverges."""

    task_id: str
    position: int
    """In submission order, counting tasks that run a kernel."""
    kernel: str
    kernel_sources: tuple[str, ...]
    reference_kernel: str | None
    reference_task_id: str | None
    """Null without a reference that is run."""
    orchestration_source: str
    orchestration_lines: tuple[int, ...]
    """Lines of the submits that may have made the task."""
    argument: int
    tensor: str | None
    """Its name in the orchestration; null where the text does not settle it."""
    task_class: Literal["introduced", "inherited", "amplified", "interaction", "unknown"] = Field(
        serialization_alias="class"
    )
    reason: str
    distances: Distances | None
    pattern: Pattern | None
    """The surest; null where none fits."""
    statistics: Statistics | None
    """Null where type or shape differ so that elements do not correspond."""


class Downstream(_Part):
    """What a task below the first divergent ones made of the error that reached it."""

    task_id: str
    position: int
    kernel: str
    task_class: Literal["introduced", "inherited", "amplified", "interaction", "unknown"] = Field(
        serialization_alias="class"
    )
    reason: str
    distances: Distances | None


class MissingEdge(_Part):
    """Two tasks that touch the same elements, one writing, with no path between them in the failing build."""

    before_task_id: str
    before_kernel: str
    before_argument: int
    after_task_id: str
    after_kernel: str
    after_argument: int
    hazard: Literal["read after write", "write after read", "write after write"]
    cause: str
    ordered_in_reference: bool | None
    """Whether the reference orders the two; null where one of them has no counterpart, or there is no other build."""


class Trial(_Part):
    """Runs of the failing build under one schedule of the stack file, on the same data."""

    schedule: str
    variables: Mapping[str, str]
    runs: int
    failed: int
    """Of them, with other outputs than the reference."""
    stopped: int
    """Of them, without outputs that can be read: crashed, stalled, or out of time."""


class Confirmation(_Part):
    """Fresh runs of an order that had failed and of one that had passed, in turns, until one does otherwise."""

    failing: Trial
    passing: Trial


class Race(_Part):
    """Looked for where an edge is missing, or a task goes wrong that is right alone."""

    confirmed: bool
    """One order fails and another passes on the same data, in all of several fresh runs each."""
    trials: tuple[Trial, ...]
    confirmation: Confirmation | None
    """Null where no order failed in all its trials, or none passed in all."""


class Task(_Part):
    """A task by id and kernel."""

    task_id: str
    kernel: str


class PassDifference(_Part):
    """The first dumped pass after which the program differs, with the start of a unified diff."""

    number: int
    name: str
    diff: str


class Generated(_Part):
    """Generated sources that differ between the builds."""

    differing: tuple[str, ...]
    only_failing: tuple[str, ...]
    only_reference: tuple[str, ...]
    first_pass: PassDifference | None
    """Null where not both builds have dumps of passes, or none differs."""
    origin: Literal["compiler", "runtime"] | None
    """Null where what was measured does not settle it."""
    shown: str
    """What it rests on."""


class StalledTask(_Part):
    """A task that was not done when the runtime gave up."""

    task_id: str
    kernel: str
    kernel_sources: tuple[str, ...]
    orchestration_source: str
    orchestration_lines: tuple[int, ...]
    """Lines of the submits that may have made the task."""
    state: str
    """In the runtime's words: RUNNING, READY or WAIT."""
    cores: tuple[int, ...]
    """That it sat on, by the runtime's numbers."""
    dependencies_met: int
    dependencies: int


class Stall(_Part):
    """Where the failing build stops. `completed` of `total` tasks, allocations included, were done."""

    believed: bool
    reason: str
    completed: int
    total: int
    tasks: tuple[StalledTask, ...]
    """Those that ran, the last one dispatched at the end; where none ran, those that waited."""


class Divergence(_Part):
    """The whole result."""

    schema_version: Literal[1] = 1
    failing_build: str
    reference: Reference
    rtol: float
    atol: float
    """0 and 0: any difference counts."""
    schedule: str | None
    """Of the stack file: the failing build was dumped in this order, in which it was seen to fail while another
    passed; null where it ran as it is."""
    tasks: int
    runs: int
    """Of the failing build, the one that recorded its graph included, until the first divergent tasks were shown."""
    reference_runs: int
    bytes_dumped: int
    """By the failing build, in all runs."""
    first_divergent: tuple[FirstDivergent, ...]
    candidates: tuple[Task, ...]
    """Compared with values: tasks before those of which not all results are known. The error may be theirs."""
    not_compared: tuple[str, ...]
    """Recorded values that say nothing of this build, and why."""
    rounding: tuple[Task, ...]
    """Tasks before those that differ too, within the harness's tolerance and within rounding: no fault."""
    downstream: tuple[Downstream, ...]
    """Some of the tasks below, one a kernel."""
    vanished: tuple[Task, ...]
    """Tasks that diverged while they were searched for, and not in the run that was to show it."""
    missing_edges: tuple[MissingEdge, ...]
    race: Race | None
    """Null where nothing points to one, or the harness does not tell what a run put out."""
    stall: Stall | None
    """Null where the failing build ends. Else nothing was compared."""
    generated: Generated | None
    """Null where the failing build is its own reference."""
    unaligned: tuple[Task, ...]
    unaligned_reference: tuple[Task, ...]
    unvisited: tuple[Task, ...]
    """Tasks that may hold a further first divergence and were not looked at."""


def schema_text() -> str:
    """The schema of `divergence.json`."""
    return published_schema(Divergence)


if __name__ == "__main__":
    print(schema_text(), end="")
