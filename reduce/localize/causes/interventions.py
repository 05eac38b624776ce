"""Puts changes alone into the good build, and takes them out of the bad one: what flips the failure is its cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....runner.build_output.files.errors import BuildOutputError
from ....runner.build_output.golden_data import TensorFolder
from ....runner.errors import UserError
from ...replay.recorded_build import RecordedBuild
from ..experiments.experiment import MakeBuild, Record, Steps, Tell
from .changes import BuildChanges, Change, ChangedPart
from .explanation import Cause, Intervention
from .failure import OutputJudge, WrongOutputs
from .minimal_sets import failing_sets

Tied = frozenset[Change]
"""Changes that are made together or not at all."""


@dataclass(kw_only=True)
class Interventions:
    """Asks for runs of the good build with some of the changes. `failure` is that of the `failing` build, which put out
    `outputs`, under a `schedule` of the stack file; None: as its toolchain has it."""

    changes: BuildChanges
    failing: RecordedBuild
    outputs: TensorFolder
    failure: WrongOutputs
    judge: OutputJudge
    schedule: str | None
    trials: dict[frozenset[Change], Intervention] = field(
        default_factory=dict[frozenset[Change], Intervention]
    )

    def causes(self, suspected: Sequence[Tied]) -> Steps[tuple[Cause, ...]]:
        """The smallest sets of changes that make the failure, by their effect; `suspected` are all changes, the most
        suspected first."""
        asking = failing_sets(suspected)
        try:
            asked = next(asking)
            while True:
                asked = asking.send((yield from self._fails(_united(asked))))
        except StopIteration as finished:
            sets: tuple[frozenset[Tied], ...] = finished.value
        causes = [self._cause(_united(found)) for found in sets]
        return tuple(sorted(causes, key=lambda cause: -cause.effect))

    def _cause(self, changes: frozenset[Change]) -> Cause:
        trial = self.trials.get(changes)
        ordered = tuple(change for change in self.changes.changes if change in changes)
        if trial is None or trial.build is None:
            return Cause(changes=ordered, effect=1.0, subject=self.failing, shown=len(ordered) == 1)
        return Cause(
            changes=ordered, effect=self.failure.share_in(trial.failure), subject=trial.build, shown=True
        )

    def _fails(self, chosen: frozenset[Change]) -> Steps[bool]:
        """Whether the good build with these changes shows some of the failure."""
        if self._adds_nothing(chosen):
            return False
        trial = yield from self._trial(chosen)
        return self.failure.share_in(trial.failure) > 0

    def _adds_nothing(self, chosen: frozenset[Change]) -> bool:
        """Whether the other changes alone have left the very outputs of the failing build."""
        others = self.trials.get(frozenset(self.changes.changes) - chosen)
        return others is not None and others.build is not None and _same(others.build.outputs, self.outputs)

    def _trial(self, chosen: frozenset[Change]) -> Steps[Intervention]:
        if chosen not in self.trials:
            yield from Tell(f"running the good build with {_named(chosen)}")
            self.trials[chosen] = yield from self._run(chosen, f"with-{len(self.trials) + 1:02}")
        return self.trials[chosen]

    def _run(self, chosen: frozenset[Change], name: str) -> Steps[Intervention]:
        try:
            build = yield from MakeBuild(
                make=lambda folder: self.changes.make(chosen, folder, self.schedule), name=f"{name}/made"
            )
            recorded = yield from Record(build=build, name=f"{name}/recorded")
            outputs = recorded.outputs
            failure = WrongOutputs({}) if outputs is None else self.judge.failure(outputs)
        except (UserError, BuildOutputError) as error:
            return Intervention(changes=chosen, build=None, failure=WrongOutputs({}), why=str(error))
        return Intervention(changes=chosen, build=recorded, failure=failure)


def _united(sets: frozenset[Tied]) -> frozenset[Change]:
    return frozenset(change for tied in sets for change in tied)


def _named(chosen: frozenset[Change]) -> str:
    names = sorted(
        change.kernel if change.part is ChangedPart.KERNEL else change.part.value for change in chosen
    )
    return f"{len(chosen)} changes ({', '.join(dict.fromkeys(names))})" if names else "no change"


def _same(first: TensorFolder | None, second: TensorFolder) -> bool:
    """Whether two runs have put out the same bits."""
    return (
        first is not None
        and first.names == second.names
        and all(
            first.tensor(name).contiguous().tobytes() == second.tensor(name).contiguous().tobytes()
            for name in first.names
        )
    )
