"""Runs builds that were made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..runner.tensors.statistics import Tolerance
from .program.candidate import Folder
from .replay import Ran, Replayer
from .toolchain import Toolchain
from .working_copy import WorkingCopy


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Runs a build that was made, by its side's toolchain; `timeout` is seconds."""

    tolerance: Tolerance
    timeout: float

    def run(self, made: Folder, toolchain: Toolchain, folder: Path, *, save_outputs: bool = False) -> Ran:
        """One run, recorded in `folder`."""
        replayer = Replayer(
            copy=WorkingCopy(made.path), toolchain=toolchain, folder=folder, timeout=self.timeout
        )
        return replayer.classify(
            made.arguments,
            data=made.path / "data",
            tolerance=self.tolerance,
            save_outputs=save_outputs,
        )
