"""Puts changes alone into the good build, and takes them out of the bad one: what flips the failure is its cause."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ....runner.build_output.files.errors import BuildOutputError
from ....runner.build_output.golden_data import TensorFolder
from ....runner.errors import UserError
from ....store.vocabulary import Verdict
from ....store.words import plural
from ...graph.static_difference.of_both import is_of_both
from ...replay.comparison import same_outputs
from ...replay.recorded_build import RecordedBuild
from ...replay.replay import ReplayError
from ..experiments.experiment import MakeBuild, Record, RunInOrder, Steps, Tell
from .changes import BuildChanges, Change, ChangedPart
from .explanation import Cause, Intervention
from .failure import OutputJudge, WrongOutputs
from .minimal_sets import failing_sets

Tied = frozenset[Change]
"""Changes that are made together or not at all."""


@dataclass(kw_only=True)
class Interventions:
    """Asks for runs of the good build with some of the changes, under a `schedule` of the stack file; None: as its
    toolchain has it."""

    changes: BuildChanges
    schedule: str | None = None
    passes: int = 1
    """How often a build has to pass until it is taken for one without the failure, which may come and go."""
    made: dict[frozenset[Change], Intervention] = field(default_factory=dict[frozenset[Change], Intervention])

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
        causes = [self._cause(_united(found), apart=len(found) > 1) for found in sets]
        return tuple(sorted(causes, key=lambda cause: -cause.effect))

    def _cause(self, changes: frozenset[Change], *, apart: bool) -> Cause:
        """`apart` says that the changes were also made without each other."""
        intervention = self.made.get(changes)
        ordered = tuple(change for change in self.changes.changes if change in changes)
        if intervention is None:
            # All changes. That no fewer fail was shown where the runs of fewer got to an end that tells.
            shown = len(ordered) == 1 or (apart and all(map(self._tells, self.made.values())))
            return Cause(changes=ordered, effect=1.0, subject=self._whole, shown=shown)
        effect = self._effect(intervention)
        return Cause(changes=ordered, effect=effect, subject=intervention.build, shown=True)

    def _fails(self, chosen: frozenset[Change]) -> Steps[bool]:
        """Whether the good build with these changes shows some of the failure."""
        if self._adds_nothing(chosen):
            return False
        if chosen not in self.made:
            yield from Tell(f"running the good build with {_named(chosen)}")
            self.made[chosen] = yield from self._run(chosen, f"with-{len(self.made) + 1:02}")
        return self._effect(self.made[chosen]) > 0

    def _run(self, chosen: frozenset[Change], name: str) -> Steps[Intervention]:
        try:
            build = yield from MakeBuild(
                make=lambda folder: self.changes.make(chosen, folder, self.schedule), name=f"{name}/made"
            )
            recorded = yield from Record(build=build, name=f"{name}/recorded")
            wrong = self._wrong_in(recorded)
            for _ in range(1, self.passes):
                if wrong:
                    break
                (outputs,) = yield from RunInOrder(build=recorded, schedule=None, runs=1)
                recorded = replace(recorded, outputs=outputs)
                wrong = self._wrong_in(recorded)
        except (UserError, BuildOutputError) as error:
            ended = error.verdict if isinstance(error, ReplayError) else None
            return Intervention(changes=chosen, build=None, failure=WrongOutputs({}), ended=ended)
        return Intervention(changes=chosen, build=recorded, failure=wrong)

    @property
    @abstractmethod
    def _whole(self) -> RecordedBuild | None:
        """The failing build."""

    @abstractmethod
    def _effect(self, intervention: Intervention) -> float:
        """The share of the failure that it shows, 0 to 1."""

    @abstractmethod
    def _wrong_in(self, build: RecordedBuild) -> WrongOutputs:
        """What is wrong in the outputs of a run; nothing where they are not told, or say nothing of the changes."""

    @abstractmethod
    def _tells(self, intervention: Intervention) -> bool:
        """Whether a run without the failure shows that the changes do not make it."""

    @abstractmethod
    def _adds_nothing(self, chosen: frozenset[Change]) -> bool:
        """Whether it is known without a run that the changes have no effect beside the others."""


@dataclass(kw_only=True)
class OnOutputs(Interventions):
    """Interventions on a failure of the outputs: that of the `failing` build, which put out `outputs`; `good` is the
    build without the changes."""

    failing: RecordedBuild
    good: RecordedBuild
    outputs: TensorFolder
    failure: WrongOutputs
    judge: OutputJudge

    @property
    def _whole(self) -> RecordedBuild:
        return self.failing

    def _effect(self, intervention: Intervention) -> float:
        return self.failure.share_in(intervention.failure)

    def _wrong_in(self, build: RecordedBuild) -> WrongOutputs:
        if build.outputs is None or not is_of_both(build.tasks, self.failing.tasks, self.good.tasks):
            return WrongOutputs({})
        return self.judge.failure(build.outputs)

    def _tells(self, intervention: Intervention) -> bool:
        build = intervention.build
        return build is not None and is_of_both(build.tasks, self.failing.tasks, self.good.tasks)

    def _adds_nothing(self, chosen: frozenset[Change]) -> bool:
        # The other changes alone have left the very outputs of the failing build.
        others = self.made.get(frozenset(self.changes.changes) - chosen)
        return (
            others is not None
            and others.build is not None
            and same_outputs(others.build.outputs, self.outputs)
        )


@dataclass(kw_only=True)
class OnEnding(Interventions):
    """Interventions on a build that crashes, stalls, or does not compile: it ends with `verdict`."""

    verdict: Verdict

    @property
    def _whole(self) -> None:
        return None

    def _effect(self, intervention: Intervention) -> float:
        return float(intervention.ended is self.verdict)

    def _wrong_in(self, build: RecordedBuild) -> WrongOutputs:
        return WrongOutputs({})

    def _tells(self, intervention: Intervention) -> bool:
        return intervention.build is not None or intervention.ended is not None

    def _adds_nothing(self, chosen: frozenset[Change]) -> bool:
        return False


def _united(sets: frozenset[Tied]) -> frozenset[Change]:
    return frozenset(change for tied in sets for change in tied)


def _named(chosen: frozenset[Change]) -> str:
    names = sorted(
        change.kernel if change.part is ChangedPart.KERNEL else change.part.value for change in chosen
    )
    return f"{plural(len(chosen), 'change')} ({', '.join(dict.fromkeys(names))})"
