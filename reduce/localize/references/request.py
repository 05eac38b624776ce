"""What a localization is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ....runner.compare.statistics.statistics import Tolerance
from ...replay.toolchain import Toolchain
from .reference import Reference


@dataclass(frozen=True, kw_only=True)
class LocalizationRequest:
    """Which build fails, and what it is compared with.

    `golden_data` are the frozen inputs and outputs, by default those saved in the failing build. `tolerance` is what
    values are compared with; `harness` the case's own, where two builds are compared: a first difference within it may
    be rounding; None: the harness's default counts. `budget` is in bytes a run, `timeout` in seconds a run; `attempts`
    how often it is searched while nothing diverges. `by_hand` says that people wrote the sources, and no compiler.
    """

    failing: Path
    toolchain: Toolchain
    reference: Reference
    golden_data: Path | None
    tolerance: Tolerance
    harness: Tolerance | None = None
    budget: int
    attempts: int
    timeout: float
    output: Path
    by_hand: bool = False

    @property
    def data(self) -> Path:
        """The folder of the data to run on."""
        return self.golden_data or self.failing / "data"
