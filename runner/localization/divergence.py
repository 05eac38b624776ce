"""What `OUT/divergence.json` holds: the one model of a localization, which `reduce` writes and every report reads.

python -m precision_bisect.runner.localization.divergence > docs/divergence.schema.json
"""

from typing import Literal

from pydantic import ConfigDict

from ...store.documents.document import Document
from ...store.documents.json_schema import published_schema
from .causes import BuildChange, CaseFailure, FailureCause
from .crash import CrashedTask
from .orders import OrderTrial, Race, UnorderedTasks
from .part import DocumentPart
from .stall import Stall
from .tensors import DownstreamTask, FirstDivergent

DIVERGENCE, TASK_GRAPH = "divergence.json", "task_graph.html"
"""Files in the folder of a localization: this document, and the page of its tasks."""


class ReferenceUsed(DocumentPart):
    """What the failing build was compared with."""

    kind: Literal["good build", "other target", "other schedule", "recorded values", "golden data"]
    """Another target or schedule: the failing build itself, run otherwise. Values: by name, with no run at all; the
    golden outputs are among the recorded ones."""
    path: str
    platform: str
    schedule: str | None = None
    """By its name in the stack file; null where nothing was asked of the runtime."""


class NamedTask(DocumentPart):
    """A task by id and kernel."""

    task_id: str
    kernel: str


class DivergentPass(DocumentPart):
    """The first dumped pass after which the program differs, with the start of a unified diff."""

    number: int
    name: str
    diff: str = ""


class Generated(DocumentPart):
    """Generated sources that differ between the builds, and who that shows to be at fault."""

    differing: tuple[str, ...] = ()
    only_failing: tuple[str, ...] = ()
    only_reference: tuple[str, ...] = ()
    first_pass: DivergentPass | None = None
    """Null where not both builds have dumps of passes, or none differs."""
    origin: Literal["compiler", "runtime"] | None = None
    """Null where what was measured does not settle it."""
    shown: str
    """What it rests on."""


class Divergence(Document):
    """The whole result of a localization."""

    model_config = ConfigDict(extra="ignore")

    schema_version: Literal[1] = 1
    failing_build: str
    reference: ReferenceUsed | None = None
    """Null in documents that do not tell."""
    rtol: float = 0.0
    atol: float = 0.0
    """0 and 0: any difference counts."""
    schedule: str | None = None
    """Of the stack file: the failing build was dumped in this order, in which it was seen to fail while another
    passed; null where it ran as it is."""
    tasks: int = 0
    runs: int = 0
    """Of the failing build and of the good one with changes of it, the one that recorded the graph and those in turns
    with the good build included, until the first divergent tasks were shown."""
    reference_runs: int = 0
    bytes_dumped: int = 0
    """By the failing build, in all runs."""
    failure: CaseFailure | None = None
    """Null where no harness tells what a run puts out, and in documents that do not tell."""
    causes: tuple[FailureCause, ...] = ()
    """By their effect on the failing outputs. None without a good build to put changes into."""
    cleared: tuple[BuildChange, ...] = ()
    """Changes from the good build that are no cause."""
    first_divergent: tuple[FirstDivergent, ...] = ()
    """Those of the first cause first; none where the case passes."""
    not_shown: tuple[NamedTask, ...] = ()
    """Further first divergent tasks, of whose kernels others are among those: the budget of bytes held no more."""
    candidates: tuple[NamedTask, ...] = ()
    """Compared with values: tasks before those of which not all results are known. The error may be theirs."""
    not_compared: tuple[str, ...] = ()
    """Recorded values that say nothing of this build, and why."""
    rounding: tuple[NamedTask, ...] = ()
    """Tasks before those that differ too, within the harness's tolerance and within rounding: no fault."""
    downstream: tuple[DownstreamTask, ...] = ()
    """Some of the tasks below, one a kernel."""
    vanished: tuple[NamedTask, ...] = ()
    """Tasks that diverged while they were searched for, and not in the run that was to show it."""
    missing_edges: tuple[UnorderedTasks, ...] = ()
    race: Race | None = None
    """Null where nothing points to one, or the harness does not tell what a run put out."""
    tried: tuple[OrderTrial, ...] = ()
    """Runs of a build that passes as it is: under each schedule of the stack file, and further ones as it is, until one
    fails, where tasks do not wait for each other that do in the reference."""
    in_turns: OrderTrial | None = None
    """Runs in the order in which it fails, in turns with the good build; null where it passes or puts nothing out, and
    in documents that do not tell."""
    stall: Stall | None = None
    """Null where the failing build ends. Else nothing was compared."""
    ended: str | None = None
    """How the failing build ended, where it did not get to its outputs, nor stalled; null where it did."""
    crash: CrashedTask | None = None
    """Null where it did not crash, or runs with fewer tasks did not tell, and in documents that do not tell."""
    generated: Generated | None = None
    """Null where the failing build is its own reference."""
    unaligned: tuple[NamedTask, ...] = ()
    unaligned_reference: tuple[NamedTask, ...] = ()
    unvisited: tuple[NamedTask, ...] = ()
    """Tasks that may hold a further first divergence and were not looked at."""

    @property
    def passes(self) -> bool:
        """Whether the outputs of the failing build are within the tolerance, in every order that was tried and in which
        the reference's are."""
        return self.failure is not None and not self.failure.outputs and not self.first_divergent

    @property
    def explained(self) -> bool:
        """Whether there is something to look at: a cause, a divergent tensor, a stall, or a task that crashes."""
        return bool(self.causes or self.first_divergent or self.stall or self.crash)


def schema_text() -> str:
    """The schema of `divergence.json`."""
    return published_schema(Divergence)


if __name__ == "__main__":
    print(schema_text(), end="")
