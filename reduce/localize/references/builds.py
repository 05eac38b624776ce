"""References that are builds: a good one, or the failing build itself, run on another target or under a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ....runner.localization.divergence import ReferenceUsed
from ...replay.recorded_build import RecordedBuild
from ...replay.runnable_build import RunnableBuild
from ...replay.toolchain import Toolchain
from ..experiments.experiment import Record, Steps, Tell
from .reference_runs import ReferenceRuns


@dataclass(frozen=True, kw_only=True)
class _BuildThatIsRun:
    """What both references have in common: a build directory, and the toolchain that runs it."""

    path: Path
    toolchain: Toolchain

    @property
    def folders(self) -> tuple[Path, ...]:
        """The build directory."""
        return (self.path,)

    @property
    def build(self) -> RunnableBuild:
        """The build directory and its toolchain."""
        return RunnableBuild(path=self.path, toolchain=self.toolchain)

    def open(self, failing: RecordedBuild) -> Steps[ReferenceRuns]:
        """Record the build's task graph, on the failing build's data. Raises as `RecordedBuild.open`."""
        yield from Tell("recording the task graph of the reference")
        reference = yield from Record(build=self.build, name="reference")
        return ReferenceRuns.of(failing, reference)


@dataclass(frozen=True, kw_only=True)
class GoodBuild(_BuildThatIsRun):
    """A good build of the same case, the parent commit's for instance.

    It is run by a toolchain of its own: where the runtime is at fault, it needs the runtime of its commit.
    """

    def used(self, platform: str) -> ReferenceUsed:
        """What the result says of it; it runs where its own toolchain does, whatever the `platform` of the other."""
        return ReferenceUsed(kind="good build", path=str(self.path), platform=self.toolchain.platform)


@dataclass(frozen=True, kw_only=True)
class SameBuild(_BuildThatIsRun):
    """The failing build itself, run otherwise: its toolchain is on another target, or under `schedule`, by its name in
    the stack file."""

    schedule: str | None = None

    def used(self, platform: str) -> ReferenceUsed:
        """What the result says of it; it runs where its own toolchain does, whatever the `platform` of the other."""
        return ReferenceUsed(
            kind="other target" if self.schedule is None else "other schedule",
            path=str(self.path),
            platform=self.toolchain.platform,
            schedule=self.schedule,
        )
