"""Whether kernels of the failing build, or the tasks that it lacks, are what the case fails for: alone in the good
build, they make it fail so."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock

from ....runner.build_output.golden_data import TensorFolder
from ....runner.compare.statistics.statistics import Tolerance
from ...replay.comparison import differs, distance
from ...replay.replay import Replayer
from ...replay.working_copy import WorkingCopy
from ..program.candidate import Candidate
from ..program.made_build import take_kernel
from ..program.pair import BuildPair
from ..program.render.render import orchestration_source
from .error_size import same_size


@dataclass(frozen=True)
class _Differences:
    """Names of kernels whose sources differ, and tasks that only the good build submits."""

    kernels: frozenset[str] = frozenset()
    missing: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class KernelSwap:
    """Tells candidates that fail for a harmless difference from those that fail as the case does.

    A candidate whose program is the same in both builds, but for missing tasks, can differ in its kernels and by these
    tasks alone. These kernels are put into the whole good build, and these tasks left out of it, which is run once for
    each set of them. Where that changes its outputs by less than the failing build does, in each output that is wrong,
    they are not what the case fails for.

    differing: names of the kernels whose sources differ. elsewhere: whether the builds differ in more than kernels and
    orchestration, or run in toolchains that differ. tolerance: the case's own; zeros where it is not known. folder: for
    the builds, nothing of which stays. timeout: seconds a run.
    """

    pair: BuildPair
    differing: Collection[str]
    elsewhere: bool
    tolerance: Tolerance
    folder: Path
    timeout: float
    _answers: dict[_Differences, bool] = field(default_factory=dict[_Differences, bool])
    _lock: Lock = field(default_factory=Lock)

    def may_explain(self, candidate: Candidate) -> bool:
        """Whether what differs in the candidate makes the whole good build fail as the failing one does, or nothing
        tells. Where nothing differs it is chance, such as a race that both builds have."""
        kernels = self.pair.order.kernels(Candidate(self.pair.submitted(candidate)))
        found = _Differences(
            kernels=kernels.intersection(self.differing).difference(candidate.collapsed),
            missing=self.pair.missing.intersection(candidate.tasks),
        )
        wrong = self._wrong
        if not wrong or not self._same_program(candidate):
            return True
        if found == _Differences():
            return self.elsewhere
        everything = _Differences(frozenset(self.differing), self.pair.missing)
        if found == everything and self._same_program(self.pair.order.whole):
            return True
        with self._lock:
            if found not in self._answers:
                self._answers[found] = self._flips(found, wrong)
            return self._answers[found]

    def _same_program(self, candidate: Candidate) -> bool:
        plain = Candidate(candidate.tasks)
        cuts = self.pair.failing_cut(plain), self.pair.reference_cut(plain).without(self.pair.missing)
        ours, theirs = map(orchestration_source, cuts)
        return ours == theirs

    @cached_property
    def _wrong(self) -> dict[str, float]:
        """The failing run's outputs that are not the good one's, and how far they are off: those over the tolerance.
        Where none is known, those that are off as far as the worst one."""
        ours, theirs = self.pair.failing.outputs, self.pair.reference.outputs
        if ours is None or theirs is None:
            return {}
        errors = {name: error for name, error in _errors(ours, theirs).items() if error > 0}
        if self.tolerance != Tolerance():
            return {
                name: error
                for name, error in errors.items()
                if differs(ours.tensor(name), theirs.tensor(name), self.tolerance)
            }
        return {name: error for name, error in errors.items() if same_size(error, [max(errors.values())])}

    def _flips(self, found: _Differences, wrong: dict[str, float]) -> bool:
        reference, failing = self.pair.reference, self.pair.failing
        assert reference.outputs is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            build = Path(name) / "build"
            if found.missing:
                made = self.pair.make_whole_reference(build, without=found.missing)
                arguments, data = made.arguments, build / "data"
            else:
                WorkingCopy.of(reference.copy.path, build)
                arguments, data = reference.arguments, reference.data.inputs.folder.root.parent
            swapped = WorkingCopy(build)
            for kernel in found.kernels:
                take_kernel(kernel, failing.copy, swapped)
            ran = Replayer(
                copy=swapped, toolchain=failing.toolchain, folder=Path(name) / "runs", timeout=self.timeout
            ).classify(arguments, data=data, save_outputs=True)
            if ran.outputs is None:
                return True
            errors = _errors(ran.outputs, reference.outputs)
            return any(same_size(errors.get(name, 0.0), [error]) for name, error in wrong.items())


def _errors(ours: TensorFolder, theirs: TensorFolder) -> dict[str, float]:
    return {
        name: distance(ours.tensor(name), theirs.tensor(name)) for name in ours.names if name in theirs.names
    }
