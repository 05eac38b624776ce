"""What the failing build's tasks should leave, read from runs of a reference build."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from ....runner.build_output.args.dump import ArgsDump
from ....runner.build_output.golden_data import TensorFolder
from ....runner.compare.statistics.statistics import Tolerance
from ....runner.errors import UserError
from ...graph.alignment import Alignment, align
from ...graph.dag import Dag
from ...graph.shared_graph import shared_graph
from ...graph.task_list import KernelTask
from ...replay.recorded_build import RecordedBuild
from ..attribution.twin_kernels import TwinKernels
from ..experiments.reference_dump import ReferenceDump, written_by_both
from .final_outputs import output_evidence


@dataclass(frozen=True, kw_only=True)
class ReferenceRuns:
    """Two builds whose graphs were recorded, and which of their tasks correspond. Tasks are compared by the arguments
    that both are declared to write; where there are none, what reads them tells."""

    failing: RecordedBuild
    reference: RecordedBuild
    alignment: Alignment
    compared: tuple[int, ...]
    dag: Dag
    """The dependencies of both builds: the failing one may lack some that it needs."""
    complete: bool = True
    not_compared: tuple[str, ...] = ()

    @classmethod
    def of(cls, failing: RecordedBuild, reference: RecordedBuild) -> ReferenceRuns:
        """Align the two.

        Raises:
            UserError: they have no task in common.
        """
        alignment = align(failing.tasks, reference.tasks)
        if not alignment.reference_of:
            raise UserError(
                "expected tasks that both builds have, found none; is the reference of the same case?"
            )
        comparable = {
            task: other
            for task, other in alignment.reference_of.items()
            if written_by_both(failing.tasks.tasks[task], reference.tasks.tasks[other])
        }
        return cls(
            failing=failing,
            reference=reference,
            alignment=alignment,
            compared=tuple(sorted(comparable)),
            dag=shared_graph(failing.tasks, reference.tasks, comparable),
        )

    @property
    def all_bytes(self) -> int:
        """Bytes of a dump of everything, of the build in which that is more."""
        return max(self.failing.tasks.all_bytes, self.reference.tasks.all_bytes)

    @property
    def outputs(self) -> TensorFolder | None:
        """What the run that recorded the reference's graph put out."""
        return self.reference.outputs

    @property
    def good(self) -> RecordedBuild | None:
        """The reference, where it is another build."""
        same = self.failing.build.resolve() == self.reference.build.resolve()
        return None if same else self.reference

    @property
    def runs(self) -> int:
        """Runs of the reference so far."""
        return self.reference.replayer.runs

    @property
    def unaligned(self) -> tuple[KernelTask, ...]:
        """Tasks that the failing build alone has."""
        return tuple(self.failing.tasks.tasks[ordinal] for ordinal in self.alignment.only_failing)

    @property
    def unaligned_reference(self) -> tuple[KernelTask, ...]:
        """Tasks that the reference alone has."""
        return tuple(self.reference.tasks.tasks[ordinal] for ordinal in self.alignment.only_reference)

    def against(self, failing: RecordedBuild) -> ReferenceRuns:
        """The same runs beside another failing build. Raises as `of`."""
        return ReferenceRuns.of(failing, self.reference)

    def orders(self, before: int, after: int) -> bool | None:
        """Whether the reference has the second task wait for the first; None where it cannot tell: it is the same
        build, or one of the two has no counterpart."""
        if self.good is None:
            return None
        pair = self.alignment.reference_of.get(before), self.alignment.reference_of.get(after)
        return None if None in pair else pair not in self._unordered

    @cached_property
    def _unordered(self) -> Set[tuple[int | None, int | None]]:
        """Pairs of the reference's ordinals that touch the same elements and do not wait for each other."""
        return {(edge.before.ordinal, edge.after.ordinal) for edge in self.reference.missing_edges}

    def known_divergent(self, tolerance: Tolerance) -> Mapping[int, bool]:
        """What the outputs of the runs that recorded the graphs tell."""
        return output_evidence(self.failing, self.reference, tolerance)

    def counterpart_of(self, ordinal: int) -> KernelTask:
        """The task of the reference that corresponds."""
        return self.reference.tasks.tasks[self.alignment.reference_of[ordinal]]

    def dump(self, *, results: Set[int], whole: Set[int]) -> ReferenceDump:
        """Run the reference with markers at the counterparts. Raises as `RecordedBuild.dump`."""
        of = self.alignment.reference_of
        dump = self.reference.dump(
            results={of[ordinal] for ordinal in results}, whole={of[ordinal] for ordinal in whole}
        )
        return self._read(dump)

    def dump_everything(self) -> ReferenceDump:
        """Run the reference and dump all of it. Raises as `RecordedBuild.dump_everything`."""
        return self._read(self.reference.dump_everything())

    def _read(self, dump: ArgsDump) -> ReferenceDump:
        return ReferenceDump(
            failing=self.failing.tasks, reference=self.reference.tasks, alignment=self.alignment, dump=dump
        )

    def attributor(self, tolerance: Tolerance) -> TwinKernels:
        """Tells where errors come from, by the kernels of both builds."""
        return TwinKernels(
            failing=self.failing,
            reference=self.reference,
            alignment=self.alignment,
            tolerance=tolerance,
        )

    def unknown_above(self, ordinals: Set[int]) -> tuple[KernelTask, ...]:
        """None: what a task before a first divergent one left was seen."""
        return ()
