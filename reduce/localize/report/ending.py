"""What was found of a build that does not get to its outputs: a crash, an error of the device or of the compiler."""

from __future__ import annotations

from dataclasses import dataclass

from ....runner.localization.divergence import Divergence
from ..causes.explanation import Cause
from ..references.request import LocalizationRequest
from .cause_document import told_cause


@dataclass(frozen=True, kw_only=True)
class EndingFindings:
    """How it ended, in one line, and the changes that make the good build end so."""

    request: LocalizationRequest
    ended: str
    causes: tuple[Cause, ...]

    def document(self) -> Divergence:
        """What `divergence.json` holds."""
        request = self.request
        return Divergence(
            failing_build=str(request.failing),
            reference=request.reference.used(request.toolchain.platform),
            rtol=request.tolerance.rtol,
            atol=request.tolerance.atol,
            runs=1,
            ended=self.ended,
            causes=tuple(told_cause(cause, None, ()) for cause in self.causes),
        )

    def page(self) -> None:
        """None: no task graph was recorded."""
