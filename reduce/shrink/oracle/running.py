"""Runs the builds of candidates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ....runner.compare.statistics.statistics import Tolerance
from ...replay.replay import Ran, Replayer
from ...replay.toolchain import Toolchain
from ...replay.working_copy import WorkingCopy
from ..program.made_build import MadeBuild


@dataclass(frozen=True, kw_only=True)
class BuildRunner:
    """Runs a build that was made, by its side's toolchain; `timeout` is seconds."""

    tolerance: Tolerance
    timeout: float

    def run(self, made: MadeBuild, toolchain: Toolchain, folder: Path, *, save_outputs: bool = False) -> Ran:
        """Makes one run, recorded in the new folder `folder`."""
        replayer = Replayer(
            copy=WorkingCopy(made.path), toolchain=toolchain, folder=folder, timeout=self.timeout
        )
        return replayer.classify(
            made.arguments,
            data=made.path / "data",
            tolerance=self.tolerance,
            save_outputs=save_outputs,
        )
