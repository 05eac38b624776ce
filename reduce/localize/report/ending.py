"""What was found of a build that does not get to its outputs: a crash, an error of the device or of the compiler."""

from __future__ import annotations

from dataclasses import dataclass

from ....runner.localization.divergence import Divergence
from ..causes.explanation import Cause
from ..endings.crash import CrashingTask
from ..references.request import LocalizationRequest
from .cause_document import told_cause


@dataclass(frozen=True, kw_only=True)
class EndingFindings:
    """How it ended, in one line, and the changes that make the good build end so; `crashing` is the task that crashes,
    where one was found."""

    request: LocalizationRequest
    ended: str
    causes: tuple[Cause, ...]
    crashing: CrashingTask | None = None
    again: int = 0
    """Further runs of the failing build, with one of the good build behind them; 0: there is no good build."""

    def document(self) -> Divergence:
        """What `divergence.json` holds."""
        request, crashing = self.request, self.crashing
        crash = None if crashing is None else crashing.task
        causes = [told_cause(cause, None, ()) for cause in self.causes]
        if crash is not None and crash.kernel:
            found = {"kernel": crash.kernel, "position": crash.position, "tensor": crash.tensor}
            causes = [
                cause.model_copy(update=found) if cause.kernel in (None, crash.kernel) else cause
                for cause in causes
            ]
        return Divergence(
            failing_build=str(request.failing),
            reference=request.reference.used(request.toolchain.platform),
            rtol=request.tolerance.rtol,
            atol=request.tolerance.atol,
            runs=1 + self.again + (0 if crashing is None else crashing.runs),
            reference_runs=1 if self.again else 0,
            ended=self.ended if crashing is None else f"{self.ended}; {crashing.in_words()}",
            crash=crash,
            causes=tuple(causes),
        )

    def page(self) -> None:
        """None: no task graph was recorded."""
