"""What a failing build is compared with: before it is run or read, and after.

A `Reference` says what was asked for. Opened against the failing build, it becomes `ExpectedValues`: which of its tasks
can be compared, and what they should leave. The search and the verdicts know nothing else, whatever the reference is.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Protocol

from ....runner.build_output.golden_data import TensorFolder
from ....runner.compare.statistics.statistics import Tolerance
from ....runner.localization.divergence import ReferenceUsed
from ...graph.dag import Dag
from ...graph.task_list import KernelTask
from ...replay.recorded_build import RecordedBuild
from ...replay.runnable_build import RunnableBuild
from ..attribution.attribution import Attributor
from ..experiments.experiment import Expectation, Steps


class Reference(Protocol):
    """What the failing build is compared with, as it was asked for."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders that belong to it: nothing is written there."""
        ...

    @property
    def build(self) -> RunnableBuild | None:
        """The build that it runs; None where values are known without a run."""
        ...

    def used(self, platform: str) -> ReferenceUsed:
        """What the result says of it. The failing build runs on `platform`."""
        ...

    def open(self, failing: RecordedBuild) -> Steps[ExpectedValues]:
        """What the failing build's tasks should leave.

        Raises:
            UserError: it cannot be run, or nothing can be compared with it.
            BuildOutputError: a part of it cannot be read.
        """
        ...


class ExpectedValues(Protocol):
    """What the tasks of a failing build should leave, as far as the reference tells."""

    @property
    def compared(self) -> tuple[int, ...]:
        """Ordinals, ascending, of the failing build's tasks of which it tells something."""
        ...

    @property
    def dag(self) -> Dag:
        """The graph in which they are searched: node `i` is the task `compared[i]`."""
        ...

    @property
    def complete(self) -> bool:
        """Whether it tells all that each of them reads and leaves, to the last bit: any difference counts then."""
        ...

    @property
    def all_bytes(self) -> int:
        """What a dump of everything takes, in whichever build takes more."""
        ...

    @property
    def outputs(self) -> TensorFolder | None:
        """What a run should put out; None where that is not told."""
        ...

    @property
    def good(self) -> RecordedBuild | None:
        """The recorded run of a good build; None where values alone, or the failing build itself, are compared with."""
        ...

    @property
    def runs(self) -> int:
        """Runs of the reference so far."""
        ...

    @property
    def unaligned(self) -> tuple[KernelTask, ...]:
        """Tasks of the failing build that have no counterpart."""
        ...

    @property
    def unaligned_reference(self) -> tuple[KernelTask, ...]:
        """Tasks of the reference that have no counterpart."""
        ...

    @property
    def not_compared(self) -> tuple[str, ...]:
        """Values that say nothing of the failing build, and why."""
        ...

    def against(self, failing: RecordedBuild) -> ExpectedValues:
        """What another failing build should leave, by what is known already."""
        ...

    def orders(self, before: int, after: int) -> bool | None:
        """Whether the reference has the second task wait for the first; None where it cannot tell."""
        ...

    def known_divergent(self, tolerance: Tolerance) -> Mapping[int, bool]:
        """Tasks, by ordinal, that are known to diverge or not to before anything was dumped."""
        ...

    def counterpart_of(self, ordinal: int) -> KernelTask | None:
        """The same task in the reference; None where none is run."""
        ...

    def dump(self, *, results: Set[int], whole: Set[int]) -> Expectation:
        """What some tasks should leave, and what the `whole` ones should read: by a run, where there is a build."""
        ...

    def dump_everything(self) -> Expectation:
        """What all tasks should read and leave. Only where it is `complete`."""
        ...

    def attributor(self, tolerance: Tolerance) -> Attributor:
        """Tells where errors come from."""
        ...

    def unknown_above(self, ordinals: Set[int]) -> tuple[KernelTask, ...]:
        """Tasks before some divergent ones of which not all is known: the error may be theirs."""
        ...
