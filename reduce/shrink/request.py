"""What a reduction is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...runner.compare.statistics.statistics import Tolerance
from ..replay.toolchain import Toolchain
from .oracle.failure import Printed


@dataclass(frozen=True, kw_only=True)
class ShrinkRequest:
    """`budget` is seconds of all of it, recordings too, `timeout` seconds a run; None: no limit.

    Without a `reference`, the golden data alone tell what is right. It may be the failing build itself, if its
    toolchain is another one: another target, or another schedule. `printed` or `interesting` say what counts as the
    failure, in place of what the whole build's run shows. `external` is a command that reduces texts of kernels.
    """

    failing: Path
    reference: Path | None
    failing_toolchain: Toolchain
    reference_toolchain: Toolchain
    golden_data: Path | None
    tolerance: Tolerance
    output: Path
    jobs: int
    budget: float | None
    most_tests: int | None
    resume: bool
    timeout: float
    printed: Printed | None = None
    interesting: Path | None = None
    external: str | None = None
