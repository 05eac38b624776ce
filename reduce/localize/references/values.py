"""References without a run: values that someone recorded, or the golden outputs alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ....runner.build_output.golden_data import TensorFolder
from ....runner.localization.divergence import ReferenceUsed
from ...replay.recorded_build import RecordedBuild
from ..experiments.experiment import Steps, Tell
from .known_values import KnownValues

_MATCHING = "matching the values that are known with the tasks"


@dataclass(frozen=True, kw_only=True)
class RecordedValues:
    """Recorded tensors, `<tensor>.pt` in `folder` by their names in the orchestration; the golden outputs count too."""

    folder: Path
    build: None = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folder of the recorded tensors."""
        return (self.folder,)

    def used(self, platform: str) -> ReferenceUsed:
        """What the result says of it."""
        return ReferenceUsed(kind="recorded values", path=str(self.folder), platform=platform)

    def open(self, failing: RecordedBuild) -> Steps[KnownValues]:
        """Match them with the failing build's tasks; nothing is run. Raises as `KnownValues.of`."""
        yield from Tell(_MATCHING)
        return KnownValues.of(failing, TensorFolder.open(self.folder))


@dataclass(frozen=True, kw_only=True)
class GoldenOutputs:
    """The golden outputs of the data that the failing build is run on, which lie in `folder`."""

    folder: Path
    build: None = None
    folders: tuple[Path, ...] = ()

    def used(self, platform: str) -> ReferenceUsed:
        """What the result says of it."""
        return ReferenceUsed(kind="golden data", path=str(self.folder), platform=platform)

    def open(self, failing: RecordedBuild) -> Steps[KnownValues]:
        """Match them with the failing build's tasks; nothing is run. Raises as `KnownValues.of`."""
        yield from Tell(_MATCHING)
        return KnownValues.of(failing, None)
