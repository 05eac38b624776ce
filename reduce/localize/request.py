"""What a localization is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...runner.compare.statistics.statistics import Tolerance
from ..replay.toolchain import Toolchain


@dataclass(frozen=True, kw_only=True)
class LocalizeRequest:
    """What to compare.

    Each build is run by its own toolchain: where the runtime is at fault, the reference needs the runtime of its
    commit. `golden_data` are the frozen inputs and outputs for both, by default those saved in the failing build.
    Where `reference` is the failing build itself, it is run by another toolchain: on another target, or, with
    `schedule` (a name in the stack file), in another order. `tolerance` is what the builds are compared with,
    `harness` the case's own: a first difference within it may be rounding; None: the harness's default counts.
    `budget` is in bytes a run, `timeout` in seconds a run.
    """

    failing: Path
    reference: Path
    failing_toolchain: Toolchain
    reference_toolchain: Toolchain
    schedule: str | None
    golden_data: Path | None
    tolerance: Tolerance
    harness: Tolerance | None
    budget: int
    attempts: int
    timeout: float
    output: Path

    @property
    def is_its_own_reference(self) -> bool:
        """Whether one build is compared with itself, run otherwise."""
        return self.failing.resolve() == self.reference.resolve()


@dataclass(frozen=True, kw_only=True)
class ValuesRequest:
    """A build to compare with what its tensors should hold: `<tensor>.pt` in `reference_data`, and the outputs of the
    golden data. `tolerance` is the case's own; the rest as above."""

    failing: Path
    toolchain: Toolchain
    reference_data: Path | None
    golden_data: Path | None
    tolerance: Tolerance
    budget: int
    attempts: int
    timeout: float
    output: Path
